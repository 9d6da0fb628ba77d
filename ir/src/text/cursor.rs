//! A parser's place in a text: one token of lookahead and the readers of simple things.

use super::error::SyntaxError;
use super::lex::{Kind, Span, Token, next_token};

/// Reads tokens from a text in order.
#[derive(Clone, Debug)]
pub struct Cursor<'s> {
    source: &'s str,
    token: Token<'s>,
    last: Span,
}

impl<'s> Cursor<'s> {
    /// At the start of `source`.
    pub fn new(source: &'s str) -> Self {
        Cursor { source, token: next_token(source, 0), last: Span::default() }
    }
    /// The next token.
    pub fn peek(&self) -> Token<'s> {
        self.token
    }
    /// Takes the next token. At the end of the text it stays there.
    pub fn bump(&mut self) -> Token<'s> {
        let taken = self.token;
        self.last = taken.span;
        self.token = next_token(self.source, taken.span.end);
        taken
    }
    /// Place of the token taken last.
    pub fn last_span(&self) -> Span {
        self.last
    }
    /// The fault "expected …, found …" at the next token.
    pub fn expected(&self, what: &str) -> SyntaxError {
        SyntaxError::new(self.token.span, format!("expected {what}, found {}", self.token.describe()))
    }
    /// True if the next token is the punctuation or word `text`.
    pub fn at(&self, text: &str) -> bool {
        matches!(self.token.kind, Kind::Punct | Kind::Word) && self.token.text == text
    }
    /// Takes the next token if it is the punctuation or word `text`.
    pub fn eat(&mut self, text: &str) -> bool {
        let found = self.at(text);
        if found {
            self.bump();
        }
        found
    }
    /// Takes the punctuation or word `text`.
    ///
    /// # Errors
    /// If another token is next.
    pub fn expect(&mut self, text: &str) -> Result<Span, SyntaxError> {
        if self.at(text) { Ok(self.bump().span) } else { Err(self.expected(&format!("`{text}`"))) }
    }
    /// Takes a token of `kind`, called `what` in the message.
    ///
    /// # Errors
    /// If a token of another kind is next.
    pub fn kind(&mut self, kind: Kind, what: &str) -> Result<Token<'s>, SyntaxError> {
        if self.token.kind == kind { Ok(self.bump()) } else { Err(self.expected(what)) }
    }
    /// Takes a word.
    ///
    /// # Errors
    /// If something else is next.
    pub fn word(&mut self, what: &str) -> Result<Token<'s>, SyntaxError> {
        self.kind(Kind::Word, what)
    }
    /// Takes a quoted string and resolves its escapes.
    ///
    /// # Errors
    /// If something else is next, or an escape is unknown.
    pub fn string(&mut self, what: &str) -> Result<String, SyntaxError> {
        let token = self.kind(Kind::Str, what)?;
        unquote(token.text, token.span)
    }
    /// Takes `@name` or `@"name"`.
    ///
    /// # Errors
    /// If something else is next, or an escape is unknown.
    pub fn global(&mut self, what: &str) -> Result<String, SyntaxError> {
        let token = self.kind(Kind::Global, what)?;
        match &token.text[1..] {
            quoted if quoted.starts_with('"') => {
                unquote(quoted, Span { start: token.span.start + 1, end: token.span.end })
            }
            name => Ok(name.to_owned()),
        }
    }
    /// Takes a number of decimal digits.
    ///
    /// # Errors
    /// If something else is next, or the number does not fit.
    pub fn integer<N: std::str::FromStr>(&mut self, what: &str) -> Result<N, SyntaxError> {
        let token = self.kind(Kind::Int, what)?;
        token.text.parse().map_err(|_| {
            SyntaxError::new(token.span, format!("{what} is out of range: {}", token.describe()))
        })
    }
    /// Takes the end of the text.
    ///
    /// # Errors
    /// If a token is left.
    pub fn end(&mut self) -> Result<(), SyntaxError> {
        match self.token.kind {
            Kind::End => Ok(()),
            Kind::Word
            | Kind::Int
            | Kind::Float
            | Kind::Str
            | Kind::Value
            | Kind::Global
            | Kind::Punct
            | Kind::Bad(_) => Err(self.expected("the end of the text")),
        }
    }
    /// Takes items up to `close`, with commas between them.
    ///
    /// # Errors
    /// The first error of `item`, or of a missing comma or `close`.
    pub fn list<T>(
        &mut self,
        close: &str,
        mut item: impl FnMut(&mut Self) -> Result<T, SyntaxError>,
    ) -> Result<Vec<T>, SyntaxError> {
        let mut items = Vec::new();
        if self.eat(close) {
            return Ok(items);
        }
        loop {
            items.push(item(self)?);
            if self.eat(close) {
                return Ok(items);
            }
            if !self.eat(",") {
                return Err(self.expected(&format!("`,` or `{close}`")));
            }
        }
    }
}

/// `s` as a quoted string with escapes for quotes, backslashes and control characters.
pub fn quote(s: &str) -> String {
    let mut out = String::with_capacity(s.len() + 2);
    out.push('"');
    for c in s.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            c if c.is_control() => out.push_str(&format!("\\u{{{:x}}}", u32::from(c))),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// The string that `quoted`, at `span`, stands for.
fn unquote(quoted: &str, span: Span) -> Result<String, SyntaxError> {
    let fault = || SyntaxError::new(span, "unknown escape; a string knows \\\", \\\\, \\n and \\u{hex}");
    let inner = quoted.strip_prefix('"').and_then(|s| s.strip_suffix('"')).ok_or_else(fault)?;
    let mut out = String::with_capacity(inner.len());
    let mut rest = inner;
    while let Some((plain, escaped)) = rest.split_once('\\') {
        out.push_str(plain);
        let mut chars = escaped.chars();
        match chars.next() {
            Some(c @ ('"' | '\\')) => out.push(c),
            Some('n') => out.push('\n'),
            Some('u') => {
                let (hex, after) =
                    chars.as_str().strip_prefix('{').and_then(|s| s.split_once('}')).ok_or_else(fault)?;
                if !hex.bytes().all(|b| b.is_ascii_hexdigit()) {
                    return Err(fault());
                }
                let code = u32::from_str_radix(hex, 16).ok().and_then(char::from_u32).ok_or_else(fault)?;
                out.push(code);
                chars = after.chars();
            }
            Some(_) | None => return Err(fault()),
        }
        rest = chars.as_str();
    }
    out.push_str(rest);
    Ok(out)
}
