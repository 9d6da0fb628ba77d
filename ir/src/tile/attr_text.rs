//! Text form of the tile ops' own attribute types, of dimensions and formats, and of a value as an operand.

use super::attrs::{Binary, IndexOp, Part, Reduce, Unary};
use super::kernel::Value;
use crate::text::{
    Attr, Cursor, Kind, OpReader, Operand, OperandRef, ReadAttr, SyntaxError, read_dim, read_format,
};
use crate::types::{Dim, Format};
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
    Reduce: "a reduction",
    Part: "a part of a slot"
);

impl Attr for Format {
    fn print(&self, f: &mut dyn fmt::Write) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl ReadAttr for Format {
    fn read(c: &mut Cursor<'_>) -> Result<Self, SyntaxError> {
        read_format(c)
    }
}

impl Attr for Dim {
    fn print(&self, f: &mut dyn fmt::Write) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl ReadAttr for Dim {
    fn read(c: &mut Cursor<'_>) -> Result<Self, SyntaxError> {
        read_dim(c)
    }
}
