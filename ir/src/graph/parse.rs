//! Parser of the graph text form: one pass, no recursion, the first fault with its place.

use super::module::{Decl, DeclKind, Module, Node, Output, Value};
use super::ops::Op;
use super::print::{LEVEL, VERSION};
use crate::text::{BodyReader, Cursor, Kind, ParseError, Span, SyntaxError, Token, nearest, read_type};
use crate::types::TensorType;
use std::collections::HashMap;

/// Longest text that is read, so that values can always be numbered.
const MAX_BYTES: usize = 1 << 28;

/// Reads a graph module.
///
/// Names after `%` may be any words or numbers, defined once and before use; values are numbered anew, so a line
/// can be added to a printed module without touching the others. The module is not verified yet.
///
/// # Errors
/// The first fault, with its place.
pub fn parse(source: &str) -> Result<Module, ParseError> {
    let mut parser = Parser {
        c: Cursor::new(source),
        module: Module::default(),
        defined: HashMap::new(),
        next: 0,
        outputs_from: None,
    };
    if source.len() > MAX_BYTES {
        let end = Span { start: MAX_BYTES, end: MAX_BYTES };
        return Err(SyntaxError::new(end, "a module's text may have 256 MiB at most").locate(source));
    }
    match parser.module() {
        Ok(()) => Ok(parser.module),
        Err(fault) => Err(fault.locate(source)),
    }
}

struct Parser<'s> {
    c: Cursor<'s>,
    module: Module,
    /// Values by their names in the text; never walked, so its order does not matter.
    defined: HashMap<&'s str, Value>,
    next: u32,
    /// Set once the first output was read.
    outputs_from: Option<Span>,
}

impl<'s> Parser<'s> {
    fn module(&mut self) -> Result<(), SyntaxError> {
        self.c.expect(LEVEL)?;
        let version: u32 = self.c.integer("the version of the text form")?;
        if version != VERSION {
            return Err(SyntaxError::new(
                self.c.last_span(),
                format!(
                    "version {version} of the text form is not known; this program reads version {VERSION}"
                ),
            ));
        }
        self.c.expect("module")?;
        self.module.name = self.c.global("the module's name, `@name`")?;
        self.c.expect("{")?;
        while !self.c.eat("}") {
            self.statement()?;
        }
        self.c.end()
    }

    fn statement(&mut self) -> Result<(), SyntaxError> {
        let start = self.c.peek();
        match start.kind {
            Kind::Word if start.text == "output" => self.output(),
            Kind::Word => self.node(Vec::new()),
            Kind::Value => {
                let mut results = vec![self.c.bump()];
                while self.c.eat(",") {
                    results.push(self.c.kind(Kind::Value, "another result, `%name`")?);
                }
                self.c.expect("=")?;
                match self.decl_kind() {
                    Some(kind) => self.decl(kind, &results),
                    None => self.node(results),
                }
            }
            Kind::Int | Kind::Float | Kind::Str | Kind::Global | Kind::Punct | Kind::End | Kind::Bad(_) => {
                Err(self.c.expected("`%name = …`, `output` or `}`"))
            }
        }
    }

    fn decl_kind(&self) -> Option<DeclKind> {
        [DeclKind::Input, DeclKind::Weight, DeclKind::State].into_iter().find(|k| self.c.at(k.keyword()))
    }

    fn decl(&mut self, kind: DeclKind, results: &[Token<'s>]) -> Result<(), SyntaxError> {
        let keyword = self.c.bump();
        if let [_, second, ..] = results {
            return Err(SyntaxError::new(second.span, "a declaration gives one value"));
        }
        if !self.module.nodes.is_empty() || self.outputs_from.is_some() {
            return Err(SyntaxError::new(
                keyword.span,
                "declarations come first; move this one above the first operation",
            ));
        }
        let name = self.c.string("the declaration's name, a string")?;
        self.c.expect(":")?;
        let ty = read_type(&mut self.c)?;
        self.define(results)?;
        self.module.decls.push(Decl { kind, name, ty });
        Ok(())
    }

    fn node(&mut self, results: Vec<Token<'s>>) -> Result<(), SyntaxError> {
        let mnemonic = self.c.word("an operation, `input`, `weight` or `state`")?;
        if self.outputs_from.is_some() {
            return Err(SyntaxError::new(
                mnemonic.span,
                "operations come before outputs; move this one above the first `output`",
            ));
        }
        let defined = &self.defined;
        let mut body = BodyReader::new(&mut self.c, |token: Token<'s>| lookup(defined, token));
        let op = match Op::parse_body(mnemonic.text, &mut body) {
            Some(op) => op?,
            None => return Err(unknown_operation(mnemonic)),
        };
        let types = self.result_types(&results)?;
        let first = Value(self.next);
        self.define(&results)?;
        self.module.nodes.push(Node { op, first, types });
        Ok(())
    }

    fn result_types(&mut self, results: &[Token<'s>]) -> Result<Vec<TensorType>, SyntaxError> {
        let mut types = Vec::new();
        for (i, result) in results.iter().enumerate() {
            let separator = if i == 0 { ":" } else { "," };
            if !self.c.eat(separator) {
                return Err(self.c.expected(&format!("`{separator}` and the type of {}", result.describe())));
            }
            types.push(read_type(&mut self.c)?);
        }
        let more = if results.is_empty() { ":" } else { "," };
        if self.c.at(more) {
            return Err(self
                .c
                .expected(&format!("the next line, since the operation names {} result(s)", results.len())));
        }
        Ok(types)
    }

    fn output(&mut self) -> Result<(), SyntaxError> {
        let keyword = self.c.bump();
        let name = self.c.string("the output's name, a string")?;
        self.c.expect("=")?;
        let token = self.c.kind(Kind::Value, "the output's value, `%name`")?;
        let value = lookup(&self.defined, token)?;
        self.outputs_from.get_or_insert(keyword.span);
        self.module.outputs.push(Output { name, value });
        Ok(())
    }

    /// Gives each name the next number.
    fn define(&mut self, names: &[Token<'s>]) -> Result<(), SyntaxError> {
        for token in names {
            if self.defined.insert(token.text, Value(self.next)).is_some() {
                return Err(SyntaxError::new(
                    token.span,
                    format!("{} is already defined; give this value another name", token.describe()),
                ));
            }
            self.next += 1;
        }
        Ok(())
    }
}

fn lookup(defined: &HashMap<&str, Value>, token: Token<'_>) -> Result<Value, SyntaxError> {
    defined.get(token.text).copied().ok_or_else(|| {
        SyntaxError::new(token.span, format!("{} is not defined above this line", token.describe()))
    })
}

fn unknown_operation(mnemonic: Token<'_>) -> SyntaxError {
    let hint = match nearest(mnemonic.text, Op::MNEMONICS) {
        Some(near) => format!("; did you mean `{near}`?"),
        None => String::new(),
    };
    SyntaxError::new(mnemonic.span, format!("unknown operation {}{hint}", mnemonic.describe()))
}
