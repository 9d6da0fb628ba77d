//! Faults in a text, with the place they were found at.

use super::lex::Span;
use std::fmt;

/// A fault in a text as the parser meets it; [`SyntaxError::locate`] adds line, column and source line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct SyntaxError {
    /// Bytes of the text that are at fault.
    pub span: Span,
    /// What was expected, what was found, what to do.
    pub message: String,
}

impl SyntaxError {
    /// A fault at `span`.
    pub fn new(span: Span, message: impl Into<String>) -> Self {
        SyntaxError { span, message: message.into() }
    }

    /// The fault with its line and column in `source`.
    pub fn locate(self, source: &str) -> ParseError {
        let start = floor_boundary(source, self.span.start);
        let end = floor_boundary(source, self.span.end.max(start));
        let line_start = source[..start].rfind('\n').map_or(0, |i| i + 1);
        let line_end = source[start..].find('\n').map_or(source.len(), |i| start + i);
        let before = &source[line_start..start];
        let marked = &source[start..end.clamp(start, line_end.max(start))];
        let (excerpt, caret_at) = excerpt(source[line_start..line_end].trim_end_matches('\r'), before.len());
        ParseError {
            span: self.span,
            line: source[..start].matches('\n').count() + 1,
            column: before.chars().count() + 1,
            caret: (caret_at, marked.chars().count().clamp(1, EXCERPT_CHARS)),
            excerpt,
            message: self.message,
        }
    }
}

/// Longest piece of a source line that a report shows.
const EXCERPT_CHARS: usize = 120;

/// At most [`EXCERPT_CHARS`] characters of `line` around byte `at`, and the number of shown characters before it.
/// Tabs and other control characters become spaces, so that the caret stays below its place.
fn excerpt(line: &str, at: usize) -> (String, usize) {
    let at_char = line[..floor_boundary(line, at)].chars().count();
    let skip = at_char.saturating_sub(EXCERPT_CHARS / 2);
    let shown = line.chars().skip(skip).take(EXCERPT_CHARS);
    (shown.map(|c| if c.is_control() { ' ' } else { c }).collect(), at_char - skip)
}

fn floor_boundary(s: &str, at: usize) -> usize {
    s.floor_char_boundary(at)
}

/// A fault in a text, ready to be shown.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct ParseError {
    /// Bytes of the text that are at fault.
    pub span: Span,
    /// Line of the first byte at fault, from 1.
    pub line: usize,
    /// Character of the line, from 1.
    pub column: usize,
    /// The source line, or the part of a long one around the fault.
    pub excerpt: String,
    /// Characters of the excerpt before the fault, and characters at fault.
    pub caret: (usize, usize),
    /// What was expected, what was found, what to do.
    pub message: String,
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let number = self.line.to_string();
        let margin = " ".repeat(number.len());
        let (before, width) = self.caret;
        writeln!(f, "line {number}, column {}: {}", self.column, self.message)?;
        writeln!(f, "{margin} |")?;
        writeln!(f, "{number} | {}", self.excerpt)?;
        write!(f, "{margin} | {}{}", " ".repeat(before), "^".repeat(width))
    }
}
