//! What the op tables of both levels share: one row of a table becomes an enum variant, its name, and the ways to walk,
//! print and read its operands and attributes.

/// Makes `Op` from rows `docs Name = "mnemonic" (operand: Kind, …) { attribute: Type, … };`, over the level's values.
///
/// A kind is `Value`, `Option<Value>` or `Vec<Value>`.
macro_rules! op_table {
    ($(#[$enum_doc:meta])* Op over $value:ty;
     $( $(#[$doc:meta])* $name:ident = $mnemonic:literal
        ( $($operand:ident : $oty:ty),* ) { $($attr:ident : $aty:ty),* }; )*) => {
        $(#[$enum_doc])*
        #[derive(Clone, Debug, PartialEq)]
        pub enum Op { $(
            $(#[$doc])*
            $name {
                $(#[doc = concat!("Operand `", stringify!($operand), "`.")] $operand: $oty,)*
                $(#[doc = concat!("Attribute `", stringify!($attr), "`.")] $attr: $aty,)*
            },
        )* }

        impl Op {
            /// Mnemonics in table order.
            pub const MNEMONICS: &'static [&'static str] = &[$($mnemonic),*];

            /// Name in the text form.
            pub fn mnemonic(&self) -> &'static str {
                match self { $(Op::$name { .. } => $mnemonic),* }
            }
            /// Calls `f` with the name of each operand and its values, in table order.
            pub fn for_each_operand<'a>(
                &'a self,
                mut f: impl FnMut(&'static str, $crate::text::OperandRef<'a, $value>),
            ) {
                match self { $(Op::$name { $($operand,)* .. } => {
                    $(f(stringify!($operand), $crate::text::Operand::as_operand($operand));)*
                })* }
                let _ = &mut f;
            }
            /// All operand values, in table order.
            pub fn operands(&self) -> Vec<$value> {
                let mut all = Vec::new();
                self.for_each_operand(|_, operand| all.extend(operand.values()));
                all
            }
            /// Replaces every operand value by `f` of it.
            pub fn map_operands(&mut self, mut f: impl FnMut($value) -> $value) {
                match self { $(Op::$name { $($operand,)* .. } => {
                    $($crate::text::Operand::map_values($operand, &mut f);)*
                })* }
                let _ = &mut f;
            }
            /// Calls `f` with the name of each attribute and the attribute, in table order.
            pub fn for_each_attr<'a>(&'a self, mut f: impl FnMut(&'static str, &'a dyn $crate::text::Attr)) {
                match self { $(Op::$name { $($attr,)* .. } => { $(f(stringify!($attr), $attr);)* })* }
                let _ = &mut f;
            }
            /// Reads operands and attributes of the op called `mnemonic` from `p`; `None` for an unknown name.
            pub fn parse_body<P: $crate::text::OpReader<$value>>(
                mnemonic: &str,
                p: &mut P,
            ) -> Option<Result<Op, P::Error>> {
                $(if mnemonic == $mnemonic {
                    let read = |p: &mut P| -> Result<Op, P::Error> {
                        p.begin_operands()?;
                        $(let $operand: $oty = p.operand(stringify!($operand))?;)*
                        p.end_operands()?;
                        p.begin_attrs()?;
                        $(let $attr: $aty = p.attr(stringify!($attr))?;)*
                        p.end_attrs()?;
                        Ok(Op::$name { $($operand,)* $($attr,)* })
                    };
                    return Some(read(p));
                })*
                None
            }
        }
    };
}

pub(crate) use op_table;
