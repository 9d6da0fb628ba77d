//! Operands and attributes of one op: printer and reader for whatever an op table declares.

use super::attr::{Attr, ReadAttr, read_field};
use super::cursor::Cursor;
use super::error::SyntaxError;
use super::lex::{Kind, Token};
use std::fmt;

/// The values of one operand, as the op table declares it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum OperandRef<'a, V> {
    /// Exactly one value.
    One(V),
    /// A value or nothing (`_` in the text form).
    Maybe(Option<V>),
    /// A list of values (in parentheses in the text form).
    Many(&'a [V]),
}

impl<V: Copy> OperandRef<'_, V> {
    /// The values, in order.
    pub fn values(self) -> Vec<V> {
        match self {
            OperandRef::One(v) => vec![v],
            OperandRef::Maybe(v) => v.into_iter().collect(),
            OperandRef::Many(vs) => vs.to_vec(),
        }
    }
}

impl<V: fmt::Display> fmt::Display for OperandRef<'_, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OperandRef::One(v) | OperandRef::Maybe(Some(v)) => write!(f, "{v}"),
            OperandRef::Maybe(None) => f.write_str("_"),
            OperandRef::Many(vs) => {
                f.write_str("(")?;
                for (i, v) in vs.iter().enumerate() {
                    write!(f, "{}{v}", if i == 0 { "" } else { ", " })?;
                }
                f.write_str(")")
            }
        }
    }
}

/// A type that can stand in the operand column of an op table whose values are `V`: `V` itself (each level
/// implements that), `Option<V>` or `Vec<V>`.
pub trait Operand<V>: Sized {
    /// View for printing and walking.
    fn as_operand(&self) -> OperandRef<'_, V>;
    /// Replaces each value by `f` of it.
    fn map_values(&mut self, f: &mut dyn FnMut(V) -> V);
    /// Reads an operand of this kind.
    ///
    /// # Errors
    /// Those of the reader.
    fn read<R: OpReader<V>>(name: &'static str, r: &mut R) -> Result<Self, R::Error>;
}

impl<V: Copy> Operand<V> for Option<V> {
    fn as_operand(&self) -> OperandRef<'_, V> {
        OperandRef::Maybe(*self)
    }
    fn map_values(&mut self, f: &mut dyn FnMut(V) -> V) {
        *self = self.map(f);
    }
    fn read<R: OpReader<V>>(name: &'static str, r: &mut R) -> Result<Self, R::Error> {
        r.maybe(name)
    }
}

impl<V: Copy> Operand<V> for Vec<V> {
    fn as_operand(&self) -> OperandRef<'_, V> {
        OperandRef::Many(self)
    }
    fn map_values(&mut self, f: &mut dyn FnMut(V) -> V) {
        for v in self {
            *v = f(*v);
        }
    }
    fn read<R: OpReader<V>>(name: &'static str, r: &mut R) -> Result<Self, R::Error> {
        r.many(name)
    }
}

/// What an op table's generated parser needs from the level's parser; [`BodyReader`] is that for the text form.
pub trait OpReader<V> {
    /// The level's parse error.
    type Error;
    /// Before the first operand.
    ///
    /// # Errors
    /// If the text does not go on so.
    fn begin_operands(&mut self) -> Result<(), Self::Error>;
    /// One operand; `name` serves error messages.
    ///
    /// # Errors
    /// If the text does not go on so.
    fn operand<O: Operand<V>>(&mut self, name: &'static str) -> Result<O, Self::Error>;
    /// One plain value.
    ///
    /// # Errors
    /// If the text does not go on so.
    fn value(&mut self, name: &'static str) -> Result<V, Self::Error>;
    /// A value, or `None` for `_`.
    ///
    /// # Errors
    /// If the text does not go on so.
    fn maybe(&mut self, name: &'static str) -> Result<Option<V>, Self::Error>;
    /// A parenthesised list of values.
    ///
    /// # Errors
    /// If the text does not go on so.
    fn many(&mut self, name: &'static str) -> Result<Vec<V>, Self::Error>;
    /// After the last operand.
    ///
    /// # Errors
    /// If the text does not go on so.
    fn end_operands(&mut self) -> Result<(), Self::Error>;
    /// Before the first attribute.
    ///
    /// # Errors
    /// If the text does not go on so.
    fn begin_attrs(&mut self) -> Result<(), Self::Error>;
    /// One attribute, `name = value`.
    ///
    /// # Errors
    /// If the text does not go on so.
    fn attr<A: ReadAttr>(&mut self, name: &'static str) -> Result<A, Self::Error>;
    /// After the last attribute.
    ///
    /// # Errors
    /// If the text does not go on so.
    fn end_attrs(&mut self) -> Result<(), Self::Error>;
}

/// Reads `operand, operand {name = value, …}`; the braces are absent where the op has no attributes.
#[derive(Debug)]
pub struct BodyReader<'a, 's, F> {
    cursor: &'a mut Cursor<'s>,
    resolve: F,
    seen: usize,
}

impl<'a, 's, F> BodyReader<'a, 's, F> {
    /// A reader that turns a [`Kind::Value`] token into a value with `resolve`.
    pub fn new(cursor: &'a mut Cursor<'s>, resolve: F) -> Self {
        BodyReader { cursor, resolve, seen: 0 }
    }
}

impl<'s, V, F: FnMut(Token<'s>) -> Result<V, SyntaxError>> OpReader<V> for BodyReader<'_, 's, F> {
    type Error = SyntaxError;

    fn begin_operands(&mut self) -> Result<(), SyntaxError> {
        self.seen = 0;
        Ok(())
    }
    fn operand<O: Operand<V>>(&mut self, name: &'static str) -> Result<O, SyntaxError> {
        if self.seen > 0 && !self.cursor.eat(",") {
            return Err(self.cursor.expected(&format!("`,` and operand `{name}`")));
        }
        self.seen += 1;
        O::read(name, self)
    }
    fn value(&mut self, name: &'static str) -> Result<V, SyntaxError> {
        let token = self.cursor.kind(Kind::Value, &format!("a value for operand `{name}`"))?;
        (self.resolve)(token)
    }
    fn maybe(&mut self, name: &'static str) -> Result<Option<V>, SyntaxError> {
        if self.cursor.eat("_") {
            return Ok(None);
        }
        let token = self.cursor.kind(Kind::Value, &format!("a value or `_` for operand `{name}`"))?;
        (self.resolve)(token).map(Some)
    }
    fn many(&mut self, name: &'static str) -> Result<Vec<V>, SyntaxError> {
        if !self.cursor.eat("(") {
            return Err(self.cursor.expected(&format!("`(` and the values of operand `{name}`")));
        }
        let resolve = &mut self.resolve;
        self.cursor.list(")", |c| resolve(c.kind(Kind::Value, &format!("a value of operand `{name}`"))?))
    }
    fn end_operands(&mut self) -> Result<(), SyntaxError> {
        Ok(())
    }
    fn begin_attrs(&mut self) -> Result<(), SyntaxError> {
        self.seen = 0;
        Ok(())
    }
    fn attr<A: ReadAttr>(&mut self, name: &'static str) -> Result<A, SyntaxError> {
        self.seen += 1;
        read_field(self.cursor, self.seen == 1, name)
    }
    fn end_attrs(&mut self) -> Result<(), SyntaxError> {
        if self.seen > 0 {
            self.cursor.expect("}")?;
        }
        Ok(())
    }
}

/// Writes what [`BodyReader`] reads back, with a space before it where there is anything to write.
///
/// # Errors
/// Those of `f`.
pub fn print_body<V: fmt::Display>(
    f: &mut dyn fmt::Write,
    operands: &[OperandRef<'_, V>],
    attrs: &[(&str, &dyn Attr)],
) -> fmt::Result {
    for (i, operand) in operands.iter().enumerate() {
        write!(f, "{}{operand}", if i == 0 { " " } else { ", " })?;
    }
    if !attrs.is_empty() {
        f.write_char(' ')?;
        super::attr::print_record(f, attrs)?;
    }
    Ok(())
}
