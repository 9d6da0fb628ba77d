//! Text form of the tile ops' own attribute types, of dimensions and formats, and of a value as an operand.

use super::attrs::{Binary, IndexOp, Reduce, Unary};
use super::kernel::Value;
use crate::text::{Attr, Cursor, Kind, OpReader, Operand, OperandRef, ReadAttr, SyntaxError};
use crate::types::{Dim, Format, Sym};
use std::fmt;

impl Operand<Value> for Value {
    fn as_operand(&self) -> OperandRef<'_, Value> {
        OperandRef::One(*self)
    }
    fn map_values(&mut self, f: &mut dyn FnMut(Value) -> Value) {
        *self = f(*self);
    }
    fn read<R: OpReader<Value>>(name: &'static str, r: &mut R) -> Result<Self, R::Error> {
        r.value(name)
    }
}

/// Attributes of a closed list, written by name.
macro_rules! by_name {
    ($($ty:ident: $what:literal),*) => { $(
        impl Attr for $ty {
            fn print(&self, f: &mut dyn fmt::Write) -> fmt::Result {
                f.write_str(self.name())
            }
        }
        impl ReadAttr for $ty {
            fn read(c: &mut Cursor<'_>) -> Result<Self, SyntaxError> {
                let found = if c.peek().kind == Kind::Word { $ty::from_name(c.peek().text) } else { None };
                let found = found.ok_or_else(|| {
                    let names: Vec<&str> = $ty::ALL.iter().map(|v| v.name()).collect();
                    c.expected(&format!("{} ({})", $what, names.join(", ")))
                })?;
                c.bump();
                Ok(found)
            }
        }
    )* };
}

by_name!(
    IndexOp: "an index function",
    Unary: "a one-operand function",
    Binary: "a two-operand function",
    Reduce: "a reduction"
);

impl Attr for Format {
    fn print(&self, f: &mut dyn fmt::Write) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl ReadAttr for Format {
    fn read(c: &mut Cursor<'_>) -> Result<Self, SyntaxError> {
        let found = if c.peek().kind == Kind::Word { Format::from_name(c.peek().text) } else { None };
        let found = found.ok_or_else(|| {
            let names: Vec<&str> = Format::NAMED.iter().map(|(n, _)| *n).collect();
            c.expected(&format!("a format ({})", names.join(", ")))
        })?;
        c.bump();
        Ok(found)
    }
}

impl Attr for Dim {
    fn print(&self, f: &mut dyn fmt::Write) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl ReadAttr for Dim {
    /// `3`, `T` or `2*T`.
    fn read(c: &mut Cursor<'_>) -> Result<Self, SyntaxError> {
        if c.peek().kind == Kind::Word {
            return Ok(Dim::Sym { sym: symbol(c)?, times: 1 });
        }
        let start = c.peek().span;
        let n: usize = c.integer("a dimension (a number, a symbol, or number*symbol)")?;
        if !c.eat("*") {
            return Ok(Dim::Fixed(n));
        }
        let sym = symbol(c)?;
        match n {
            // `1*T` and `T` would be two spellings of one dimension; 0 would not depend on the symbol.
            0 | 1 => Err(SyntaxError::new(start.to(c.last_span()), "the factor of a symbol is at least 2")),
            times => Ok(Dim::Sym { sym, times }),
        }
    }
}

/// A symbol of a dimension.
fn symbol(c: &mut Cursor<'_>) -> Result<Sym, SyntaxError> {
    let token = c.word("a symbol")?;
    let plain = token.text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    if plain && token.text.starts_with(|b: char| b.is_ascii_alphabetic()) {
        Ok(Sym::new(token.text))
    } else {
        let message =
            format!("a symbol has letters, digits and `_` and starts with a letter; found {}", token.describe());
        Err(SyntaxError::new(token.span, message))
    }
}
