//! Tokens of the text forms, with their places.

/// A range of bytes of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct Span {
    /// First byte.
    pub start: usize,
    /// Byte after the last.
    pub end: usize,
}

impl Span {
    /// The smallest span that holds both.
    pub fn to(self, other: Span) -> Span {
        Span { start: self.start.min(other.start), end: self.end.max(other.end) }
    }
}

/// What a token is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Letters, digits, `_` and `.`, not starting with a digit or `.`: `module`, `hc.open`, `_`.
    Word,
    /// Decimal digits.
    Int,
    /// Decimal digits with a fraction, an exponent or both.
    Float,
    /// A quoted string, quotes and escapes included.
    Str,
    /// `%` and a name: a value.
    Value,
    /// `@` and a name or a quoted string: a module, kernel or function.
    Global,
    /// One of [`PAIRS`], or another printing ASCII character.
    Punct,
    /// End of the text.
    End,
    /// Bytes that start no token; the reason.
    Bad(&'static str),
}

/// Punctuation of two characters.
pub const PAIRS: &[&str] = &["->", "+="];

/// A token and its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token<'s> {
    /// What it is.
    pub kind: Kind,
    /// Its characters.
    pub text: &'s str,
    /// Its place.
    pub span: Span,
}

impl Token<'_> {
    /// How messages call the token.
    pub fn describe(&self) -> String {
        match self.kind {
            Kind::End => "the end of the text".to_owned(),
            Kind::Bad(reason) => reason.to_owned(),
            Kind::Word | Kind::Int | Kind::Float | Kind::Str | Kind::Value | Kind::Global | Kind::Punct => {
                let mut shown: String = self.text.chars().take(SHOWN_CHARS).collect();
                if shown.len() < self.text.len() {
                    shown.push('…');
                }
                format!("`{shown}`")
            }
        }
    }
}

/// Longest piece of a token that a message quotes.
const SHOWN_CHARS: usize = 60;

const fn in_word(b: u8) -> bool {
    b.is_ascii_alphanumeric() || b == b'_' || b == b'.'
}

/// True for a text that reads as one [`Kind::Word`].
pub fn is_word(s: &str) -> bool {
    s.bytes().all(in_word) && s.bytes().next().is_some_and(|b| b.is_ascii_alphabetic() || b == b'_')
}

fn end_of_run(bytes: &[u8], from: usize, more: impl Fn(u8) -> bool) -> usize {
    from + bytes[from..].iter().take_while(|b| more(**b)).count()
}

/// The token of `source` that starts at or after byte `from`; white space and `;` comments are skipped.
/// `from` must be the end of an earlier token, or 0.
pub(super) fn next_token(source: &str, from: usize) -> Token<'_> {
    let bytes = source.as_bytes();
    let start = skip_blank(bytes, from);
    let (kind, end) = scan(bytes, start);
    // A byte that starts no token may be the first of several that make one character.
    let end = source.ceil_char_boundary(end);
    Token { kind, text: &source[start..end], span: Span { start, end } }
}

fn skip_blank(bytes: &[u8], from: usize) -> usize {
    let mut at = from;
    loop {
        at = end_of_run(bytes, at, |b| b.is_ascii_whitespace());
        if bytes.get(at) != Some(&b';') {
            return at;
        }
        at = end_of_run(bytes, at, |b| b != b'\n');
    }
}

fn scan(bytes: &[u8], start: usize) -> (Kind, usize) {
    let Some(&first) = bytes.get(start) else { return (Kind::End, start) };
    match first {
        b'a'..=b'z' | b'A'..=b'Z' | b'_' => (Kind::Word, end_of_run(bytes, start, in_word)),
        b'0'..=b'9' => scan_number(bytes, start),
        b'"' => scan_string(bytes, start, Kind::Str),
        b'@' if bytes.get(start + 1) == Some(&b'"') => scan_string(bytes, start + 1, Kind::Global),
        b'%' | b'@' => {
            let end = end_of_run(bytes, start + 1, in_word);
            match (end == start + 1, first) {
                (true, _) => (Kind::Bad("a `%` or `@` without a name"), end),
                (false, b'%') => (Kind::Value, end),
                (false, _) => (Kind::Global, end),
            }
        }
        b if b.is_ascii_graphic() => {
            let pair = PAIRS.iter().any(|p| bytes[start..].starts_with(p.as_bytes()));
            (Kind::Punct, start + if pair { 2 } else { 1 })
        }
        _ => (Kind::Bad("a character that is not part of the text form"), start + 1),
    }
}

fn scan_number(bytes: &[u8], start: usize) -> (Kind, usize) {
    let digits = |from| end_of_run(bytes, from, |b| b.is_ascii_digit());
    let mut end = digits(start);
    let mut kind = Kind::Int;
    if bytes.get(end) == Some(&b'.') && bytes.get(end + 1).is_some_and(u8::is_ascii_digit) {
        kind = Kind::Float;
        end = digits(end + 1);
    }
    if matches!(bytes.get(end), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(bytes.get(end + 1), Some(b'+' | b'-')));
        let exponent = digits(end + 1 + sign);
        if exponent > end + 1 + sign {
            return (Kind::Float, exponent);
        }
    }
    (kind, end)
}

fn scan_string(bytes: &[u8], quote: usize, kind: Kind) -> (Kind, usize) {
    let mut at = quote + 1;
    loop {
        match bytes.get(at) {
            None | Some(b'\n') => return (Kind::Bad("a string that does not end on its line"), at),
            Some(b'"') => return (kind, at + 1),
            // The character after a backslash belongs to it; a line end is left for the case above.
            Some(b'\\') if bytes.get(at + 1).is_some_and(|b| *b != b'\n') => at += 2,
            Some(_) => at += 1,
        }
    }
}
