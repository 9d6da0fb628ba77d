//! Parser of the kernel text form: one pass, no recursion, the first fault with its place.

use super::kernel::{
    Access, Axis, Block, Class, Hop, Kernel, Lanes, Node, Param, Ring, Role, RoleKind, Scope, SlotType, Stmt,
    Target, Type, Value,
};
use super::ops::Op;
use super::print::{LEVEL, VERSION};
use super::verify::MAX_NESTING;
use crate::text::{
    BodyReader, Cursor, Kind, ParseError, Span, SyntaxError, Token, is_symbol, nearest, read_dim,
    read_format, read_type,
};
use crate::types::{Dim, Format, Sym};
use std::collections::HashMap;

/// Longest text that is read, so that values can always be numbered.
const MAX_BYTES: usize = 1 << 28;

/// Reads a kernel.
///
/// Names after `%` may be any words or numbers, defined once and before use; values other than parameters and rings
/// are numbered anew, so a line can be added to a printed kernel without touching the others. The kernel is not
/// verified yet.
///
/// # Errors
/// The first fault, with its place.
pub fn parse(source: &str) -> Result<Kernel, ParseError> {
    let kernel = Kernel {
        name: String::new(),
        target: Target::Cpu,
        cluster: 1,
        persistent: None,
        params: Vec::new(),
        grid: Vec::new(),
        rings: Vec::new(),
        roles: Vec::new(),
    };
    let mut parser =
        Parser { c: Cursor::new(source), kernel, defined: HashMap::new(), next: 0, paths: Vec::new() };
    if source.len() > MAX_BYTES {
        let end = Span { start: MAX_BYTES, end: MAX_BYTES };
        return Err(SyntaxError::new(end, "a kernel's text may have 256 MiB at most").locate(source));
    }
    match parser.kernel() {
        Ok(()) => Ok(parser.kernel),
        Err(fault) => Err(fault.locate(source)),
    }
}

struct Parser<'s> {
    c: Cursor<'s>,
    kernel: Kernel,
    /// Values by their names in the text; never walked, so its order does not matter.
    defined: HashMap<&'s str, Value>,
    next: u32,
    /// For each ring the names of the roles on its path, which come after it.
    paths: Vec<Vec<Vec<Token<'s>>>>,
}

/// A block that is not closed yet.
struct Open {
    /// What it is the body of; its own body is still empty.
    head: Stmt,
    /// The statements around it.
    around: Block,
}

impl<'s> Parser<'s> {
    fn kernel(&mut self) -> Result<(), SyntaxError> {
        self.c.expect(LEVEL)?;
        let version: u32 = self.c.integer("the version of the text form")?;
        if version != VERSION {
            let message = format!(
                "version {version} of the text form is not known; this program reads version {VERSION}"
            );
            return Err(SyntaxError::new(self.c.last_span(), message));
        }
        self.c.expect("kernel")?;
        self.kernel.name = self.c.global("the kernel's name, `@name`")?;
        if self.c.eat("for") {
            self.kernel.target = self.word_of("a machine", Target::from_name, &["cpu", "sm100"])?;
        }
        self.c.expect("{")?;
        while self.c.eat("param") {
            self.param()?;
        }
        if self.c.eat("grid") {
            self.grid()?;
        }
        if self.c.eat("persistent") {
            self.kernel.persistent = Some(self.c.integer("the number of cores that take the tiles")?);
        }
        if self.c.eat("cluster") {
            self.kernel.cluster = self.c.integer("the number of cores that share a tile")?;
        }
        while self.c.eat("ring") {
            self.ring()?;
        }
        while self.c.eat("role") {
            self.role()?;
        }
        if !self.c.eat("}") {
            return Err(self.c.expected("`}` (parameters, grid, rings and roles come in this order)"));
        }
        self.c.end()?;
        self.resolve_paths()
    }

    fn param(&mut self) -> Result<(), SyntaxError> {
        let name = self.named("the parameter's name, `%name`")?;
        self.c.expect(":")?;
        let ty = read_type(&mut self.c)?;
        let access = self.word_of("an access", Access::from_name, &["read", "write", "update"])?;
        self.kernel.params.push(Param { name, ty, access });
        Ok(())
    }

    fn grid(&mut self) -> Result<(), SyntaxError> {
        loop {
            let name = self.c.word("the name of a grid axis")?.text.to_owned();
            let extent = read_dim(&mut self.c)?;
            self.c.expect("by")?;
            let tile = self.c.integer("the elements that a tile covers")?;
            let groups = if self.c.eat("groups") {
                Some(self.value("the list of the groups' borders, `%name`")?)
            } else {
                None
            };
            self.kernel.grid.push(Axis { name, extent, tile, groups });
            if !self.c.eat(",") {
                return Ok(());
            }
        }
    }

    fn ring(&mut self) -> Result<(), SyntaxError> {
        let name = self.named("the ring's name, `%name`")?;
        self.c.expect(":")?;
        let class = self.word_of("a memory class", Class::from_name, &["stage", "accum", "vec"])?;
        let (rows, cols, format) = self.tile()?;
        self.c.expect("depth")?;
        let depth = self.c.integer("the number of slots")?;
        let mut scope = Scope::Core;
        if self.c.eat("scope") {
            scope = self.word_of("a scope", Scope::from_name, &["core", "pair"])?;
        }
        self.c.expect("path")?;
        let mut path = vec![vec![self.c.word("the name of a role")?]];
        loop {
            if self.c.eat("->") {
                path.push(vec![self.c.word("the name of a role")?]);
            } else if self.c.eat("+") {
                let role = self.c.word("the name of a role")?;
                path.last_mut().into_iter().for_each(|hop| hop.push(role));
            } else {
                break;
            }
        }
        self.paths.push(path);
        let slot = SlotType { rows, cols, format };
        self.kernel.rings.push(Ring { name, class, slot, depth, scope, path: Vec::new() });
        Ok(())
    }

    fn resolve_paths(&mut self) -> Result<(), SyntaxError> {
        for (ring, path) in self.kernel.rings.iter_mut().zip(&self.paths) {
            for names in path {
                let mut hop = Hop::default();
                for token in names {
                    let role = self.kernel.roles.iter().position(|r| r.name == token.text);
                    hop.roles.push(role.ok_or_else(|| {
                        SyntaxError::new(token.span, format!("the kernel has no role {}", token.describe()))
                    })?);
                }
                ring.path.push(hop);
            }
        }
        Ok(())
    }

    fn role(&mut self) -> Result<(), SyntaxError> {
        let kind = self.word_of("a kind of role", RoleKind::from_name, &["copy", "matrix", "vector"])?;
        let name = self.c.word("the role's name")?;
        if self.kernel.roles.iter().any(|r| r.name == name.text) {
            let message = format!("there is a role {} already; give this one another name", name.describe());
            return Err(SyntaxError::new(name.span, message));
        }
        let warps = if self.c.eat("warps") { self.c.integer("the number of warps")? } else { 1 };
        let registers =
            if self.c.eat("registers") { Some(self.c.integer("the registers of a thread")?) } else { None };
        let lanes = if self.c.eat("lanes") { self.lanes()? } else { Lanes::CANONICAL };
        self.c.expect("{")?;
        let body = self.body()?;
        self.kernel.roles.push(Role { kind, name: name.text.to_owned(), warps, registers, lanes, body });
        Ok(())
    }

    /// `count x chunk`, usually without spaces: `256x4`.
    fn lanes(&mut self) -> Result<Lanes, SyntaxError> {
        let count = self.c.integer("the number of lanes")?;
        let by = self.c.word("`x` and the elements that follow each other in a lane")?;
        let chunk = match by.text.strip_prefix('x') {
            Some("") => self.c.integer("the elements that follow each other in a lane")?,
            Some(digits) if digits.bytes().all(|b| b.is_ascii_digit()) => digits.parse().map_err(|_| {
                SyntaxError::new(by.span, "the number of elements is out of range".to_owned())
            })?,
            Some(_) | None => {
                let message = format!(
                    "expected `x` and the elements that follow each other in a lane, found {}",
                    by.describe()
                );
                return Err(SyntaxError::new(by.span, message));
            }
        };
        Ok(Lanes { count, chunk })
    }

    /// Statements up to the brace that closes them all.
    fn body(&mut self) -> Result<Block, SyntaxError> {
        let mut open: Vec<Open> = Vec::new();
        let mut block = Block::new();
        loop {
            let start = self.c.peek();
            if self.c.eat("}") {
                let Some(Open { mut head, around }) = open.pop() else { return Ok(block) };
                let inner = std::mem::replace(&mut block, around);
                match &mut head {
                    Stmt::For { body, .. } | Stmt::If { body, .. } => *body = inner,
                    Stmt::Op(_) => {}
                }
                block.push(head);
                continue;
            }
            let head = match (start.kind, start.text) {
                (Kind::Word, "for") => self.for_head()?,
                (Kind::Word, "if") => self.if_head()?,
                (Kind::Word | Kind::Value, _) => {
                    let node = self.node()?;
                    block.push(Stmt::Op(node));
                    continue;
                }
                (
                    Kind::Int
                    | Kind::Float
                    | Kind::Str
                    | Kind::Global
                    | Kind::Punct
                    | Kind::End
                    | Kind::Bad(_),
                    _,
                ) => {
                    return Err(self.c.expected("an operation, `for`, `if` or `}`"));
                }
            };
            if open.len() + 1 >= MAX_NESTING {
                let message = format!("blocks are nested more than {MAX_NESTING} deep");
                return Err(SyntaxError::new(start.span, message));
            }
            self.c.expect("{")?;
            open.push(Open { head, around: std::mem::take(&mut block) });
        }
    }

    fn for_head(&mut self) -> Result<Stmt, SyntaxError> {
        self.c.bump();
        let var = self.c.kind(Kind::Value, "the counter, `%name`")?;
        self.c.expect("=")?;
        let lo = self.value("the first value, `%name`")?;
        self.c.expect("to")?;
        let hi = self.value("the end, `%name`")?;
        self.c.expect("step")?;
        let step = self.c.integer("the step")?;
        let var = self.define(var)?;
        Ok(Stmt::For { var, lo, hi, step, body: Block::new() })
    }

    fn if_head(&mut self) -> Result<Stmt, SyntaxError> {
        self.c.bump();
        let cond = self.value("the condition, `%name`")?;
        Ok(Stmt::If { cond, body: Block::new() })
    }

    fn node(&mut self) -> Result<Node, SyntaxError> {
        let mut result = None;
        if self.c.peek().kind == Kind::Value {
            result = Some(self.c.bump());
            self.c.expect("=")?;
        }
        let mnemonic = self.c.word("an operation")?;
        let defined = &self.defined;
        let mut body = BodyReader::new(&mut self.c, |token: Token<'s>| lookup(defined, token));
        let op = match Op::parse_body(mnemonic.text, &mut body) {
            Some(op) => op?,
            None => return Err(unknown_operation(mnemonic)),
        };
        let Some(name) = result else {
            if self.c.at(":") {
                return Err(self.c.expected("the next statement, since the operation names no result"));
            }
            return Ok(Node { op, result: None });
        };
        if !self.c.eat(":") {
            return Err(self.c.expected(&format!("`:` and the type of {}", name.describe())));
        }
        let ty = self.result_type()?;
        let value = self.define(name)?;
        Ok(Node { op, result: Some((value, ty)) })
    }

    fn result_type(&mut self) -> Result<Type, SyntaxError> {
        if self.c.at("tile") {
            let (rows, cols, format) = self.tile()?;
            Ok(Type::Tile { rows, cols, format })
        } else if self.c.eat("index") {
            Ok(Type::Index)
        } else if self.c.eat("slot") {
            Ok(Type::Slot { ring: self.value("the slot's ring, `%name`")? })
        } else {
            Err(self.c.expected("`index`, `slot %ring` or `tile<…>`"))
        }
    }

    /// `tile<rows x cols, format>`, usually without spaces: `tile<16x256, mx8>`, `tile<1x2*C, f32>`.
    fn tile(&mut self) -> Result<(usize, Dim, Format), SyntaxError> {
        self.c.expect("tile")?;
        self.c.expect("<")?;
        let rows = self.c.integer("the number of rows")?;
        let by = self.c.word("`x` and the number of columns")?;
        let cols = match by.text.strip_prefix('x') {
            Some("") => read_dim(&mut self.c)?,
            Some(cols) if is_symbol(cols) => Dim::Sym { sym: Sym::new(cols), times: 1 },
            Some(cols) if cols.bytes().all(|b| b.is_ascii_digit()) => {
                let n = cols.parse().map_err(|_| {
                    SyntaxError::new(by.span, "the number of columns is out of range".to_owned())
                })?;
                if self.c.eat("*") { times_symbol(&mut self.c, n)? } else { Dim::Fixed(n) }
            }
            Some(_) | None => {
                let message = format!("expected `x` and the number of columns, found {}", by.describe());
                return Err(SyntaxError::new(by.span, message));
            }
        };
        self.c.expect(",")?;
        let format = read_format(&mut self.c)?;
        self.c.expect(">")?;
        Ok((rows, cols, format))
    }

    /// Defines a parameter or ring, whose name is part of the kernel.
    fn named(&mut self, what: &str) -> Result<String, SyntaxError> {
        let token = self.c.kind(Kind::Value, what)?;
        self.define(token)?;
        let name = &token.text[1..];
        if name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') {
            return Ok(name.to_owned());
        }
        let message =
            format!("{} should start with a letter: parameters and rings are named", token.describe());
        Err(SyntaxError::new(token.span, message))
    }

    fn word_of<T>(
        &mut self,
        what: &str,
        from_name: impl Fn(&str) -> Option<T>,
        names: &[&str],
    ) -> Result<T, SyntaxError> {
        let found = if self.c.peek().kind == Kind::Word { from_name(self.c.peek().text) } else { None };
        let found = found.ok_or_else(|| self.c.expected(&format!("{what} ({})", names.join(", "))))?;
        self.c.bump();
        Ok(found)
    }

    fn value(&mut self, what: &str) -> Result<Value, SyntaxError> {
        let token = self.c.kind(Kind::Value, what)?;
        lookup(&self.defined, token)
    }

    /// Gives a name the next number.
    fn define(&mut self, token: Token<'s>) -> Result<Value, SyntaxError> {
        let value = Value(self.next);
        if self.defined.insert(token.text, value).is_some() {
            let message = format!("{} is already defined; give this value another name", token.describe());
            return Err(SyntaxError::new(token.span, message));
        }
        self.next += 1;
        Ok(value)
    }
}

fn times_symbol(c: &mut Cursor<'_>, times: usize) -> Result<Dim, SyntaxError> {
    let token = c.word("a symbol")?;
    if is_symbol(token.text) {
        return Ok(Dim::Sym { sym: Sym::new(token.text), times });
    }
    Err(SyntaxError::new(token.span, format!("{} is no symbol", token.describe())))
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
