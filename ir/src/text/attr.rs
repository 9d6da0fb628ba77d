//! Attributes of plain types: printed canonically, read back exactly.

use super::cursor::Cursor;
use super::error::SyntaxError;
use super::lex::Kind;
use std::fmt;

/// A type that can stand in the attribute column of an op table: printed canonically, parsed back exactly.
pub trait Attr {
    /// Writes the attribute's value.
    ///
    /// # Errors
    /// Those of `f`.
    fn print(&self, f: &mut dyn fmt::Write) -> fmt::Result;
}

/// An [`Attr`] that can be read back from its text.
pub trait ReadAttr: Attr + Sized {
    /// Parses the value from a token cursor.
    ///
    /// # Errors
    /// If the tokens do not spell a value of the type.
    fn read(c: &mut Cursor<'_>) -> Result<Self, SyntaxError>;
}

impl Attr for usize {
    fn print(&self, f: &mut dyn fmt::Write) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl ReadAttr for usize {
    fn read(c: &mut Cursor<'_>) -> Result<Self, SyntaxError> {
        c.integer("a whole number")
    }
}

impl Attr for i64 {
    fn print(&self, f: &mut dyn fmt::Write) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl ReadAttr for i64 {
    fn read(c: &mut Cursor<'_>) -> Result<Self, SyntaxError> {
        let start = c.peek().span;
        let negative = c.eat("-");
        let magnitude: u64 = c.integer("a whole number")?;
        // The most negative number has no positive counterpart, so the sign is applied before the conversion.
        let value = if negative { -i128::from(magnitude) } else { i128::from(magnitude) };
        i64::try_from(value).map_err(|_| {
            SyntaxError::new(start.to(c.last_span()), format!("{value} does not fit a 64-bit integer"))
        })
    }
}

impl Attr for f32 {
    /// The shortest decimal that reads back as the same number, always with a point or an exponent;
    /// `inf`, `-inf` and `nan` (whose sign and payload are dropped) by name.
    fn print(&self, f: &mut dyn fmt::Write) -> fmt::Result {
        if self.is_nan() { f.write_str("nan") } else { write!(f, "{self:?}") }
    }
}

impl ReadAttr for f32 {
    fn read(c: &mut Cursor<'_>) -> Result<Self, SyntaxError> {
        let sign = if c.eat("-") { -1.0 } else { 1.0 };
        let token = c.peek();
        let value: f32 = match (token.kind, token.text) {
            (Kind::Int | Kind::Float, digits) => digits.parse().map_err(|_| c.expected("a number"))?,
            (Kind::Word, "inf") => f32::INFINITY,
            (Kind::Word, "nan") => f32::NAN,
            (
                Kind::Word | Kind::Str | Kind::Value | Kind::Global | Kind::Punct | Kind::End | Kind::Bad(_),
                _,
            ) => return Err(c.expected("a number, `inf` or `nan`")),
        };
        if value.is_infinite() && token.kind != Kind::Word {
            return Err(SyntaxError::new(
                token.span,
                format!("{} does not fit a 32-bit float", token.describe()),
            ));
        }
        c.bump();
        Ok(sign * value)
    }
}

impl Attr for bool {
    fn print(&self, f: &mut dyn fmt::Write) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl ReadAttr for bool {
    fn read(c: &mut Cursor<'_>) -> Result<Self, SyntaxError> {
        if c.eat("true") {
            Ok(true)
        } else if c.eat("false") {
            Ok(false)
        } else {
            Err(c.expected("`true` or `false`"))
        }
    }
}

impl<A: Attr> Attr for Vec<A> {
    fn print(&self, f: &mut dyn fmt::Write) -> fmt::Result {
        f.write_char('[')?;
        for (i, item) in self.iter().enumerate() {
            if i > 0 {
                f.write_str(", ")?;
            }
            item.print(f)?;
        }
        f.write_char(']')
    }
}

impl<A: ReadAttr> ReadAttr for Vec<A> {
    fn read(c: &mut Cursor<'_>) -> Result<Self, SyntaxError> {
        c.expect("[")?;
        c.list("]", A::read)
    }
}

impl<A: Attr> Attr for Option<A> {
    fn print(&self, f: &mut dyn fmt::Write) -> fmt::Result {
        match self {
            Some(value) => value.print(f),
            None => f.write_str("none"),
        }
    }
}

impl<A: ReadAttr> ReadAttr for Option<A> {
    fn read(c: &mut Cursor<'_>) -> Result<Self, SyntaxError> {
        if c.eat("none") { Ok(None) } else { A::read(c).map(Some) }
    }
}

/// Writes `{name = value, …}`.
///
/// # Errors
/// Those of `f`.
pub fn print_record(f: &mut dyn fmt::Write, fields: &[(&str, &dyn Attr)]) -> fmt::Result {
    for (i, (name, value)) in fields.iter().enumerate() {
        write!(f, "{}{name} = ", if i == 0 { "{" } else { ", " })?;
        value.print(f)?;
    }
    f.write_char('}')
}

/// Reads `name = value`, with a `{` before the first field of a record and a `,` before the others.
///
/// # Errors
/// If another token than these or a bad value is next.
pub fn read_field<A: ReadAttr>(c: &mut Cursor<'_>, first: bool, name: &str) -> Result<A, SyntaxError> {
    let sign = if first { "{" } else { "," };
    if !c.eat(sign) {
        return Err(c.expected(&format!("`{sign}` and attribute `{name}`")));
    }
    if !c.eat(name) {
        return Err(c.expected(&format!("attribute `{name}`")));
    }
    c.expect("=")?;
    A::read(c)
}
