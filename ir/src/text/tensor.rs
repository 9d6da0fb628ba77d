//! Text form of dimensions and tensor types; printing is their `Display`.

use super::cursor::Cursor;
use super::error::SyntaxError;
use super::lex::Kind;
use crate::types::{Dim, Format, Layout, Sym, TensorType};

/// True for a name that a symbolic dimension may have: ASCII letters, digits and `_`, starting with a letter.
pub fn is_symbol(name: &str) -> bool {
    name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
        && name.bytes().next().is_some_and(|b| b.is_ascii_alphabetic())
}

fn read_symbol(c: &mut Cursor<'_>) -> Result<Sym, SyntaxError> {
    let token = c.word("a symbol")?;
    if !is_symbol(token.text) {
        return Err(SyntaxError::new(
            token.span,
            format!("{} is no symbol: letters, digits and `_` after a first letter", token.describe()),
        ));
    }
    Ok(Sym::new(token.text))
}

/// Reads `n`, `sym` or `n*sym`.
///
/// # Errors
/// If something else is next, or a number does not fit.
pub fn read_dim(c: &mut Cursor<'_>) -> Result<Dim, SyntaxError> {
    if c.peek().kind == Kind::Word {
        return Ok(Dim::Sym { sym: read_symbol(c)?, times: 1 });
    }
    let n = c.integer("a dimension")?;
    if c.eat("*") { Ok(Dim::Sym { sym: read_symbol(c)?, times: n }) } else { Ok(Dim::Fixed(n)) }
}

/// Reads `[dim, …]`.
///
/// # Errors
/// If something else is next.
pub fn read_shape(c: &mut Cursor<'_>) -> Result<Vec<Dim>, SyntaxError> {
    c.expect("[")?;
    c.list("]", read_dim)
}

/// Reads the name of a format.
///
/// # Errors
/// If something else is next.
pub fn read_format(c: &mut Cursor<'_>) -> Result<Format, SyntaxError> {
    let token = c.word("a format")?;
    Format::from_name(token.text).ok_or_else(|| {
        let names: Vec<&str> = Format::NAMED.iter().map(|(n, _)| *n).collect();
        SyntaxError::new(
            token.span,
            format!("unknown format {}; formats are {}", token.describe(), names.join(", ")),
        )
    })
}

/// Reads `[dim, …] format`, and a layout other than `rows` after it if there is one.
///
/// # Errors
/// If something else is next.
pub fn read_type(c: &mut Cursor<'_>) -> Result<TensorType, SyntaxError> {
    let shape = read_shape(c)?;
    let format = read_format(c)?;
    let token = c.peek();
    let layout = match Layout::from_name(token.text) {
        Some(layout) if token.kind == Kind::Word => {
            c.bump();
            layout
        }
        Some(_) | None => Layout::Rows,
    };
    Ok(TensorType { shape, format, layout })
}
