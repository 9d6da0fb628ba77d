//! Files of Graph IR and Tile IR: parsed and verified, every fault with its place in the file.

use crate::error::{Error, Result};
use crate::prompt::read_text;
use std::path::Path;
use tessera_ir::text::{Cursor, Kind, ParseError, Span, SyntaxError};
use tessera_ir::{Verified, graph, tile};

/// The level of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// Graph IR, `.tir`.
    Graph,
    /// Tile IR, `.tile`.
    Tile,
}

impl Level {
    /// Name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Level::Graph => "graph",
            Level::Tile => "tile",
        }
    }
}

/// What a sound file holds.
#[derive(Clone, Debug)]
pub enum Content {
    /// A graph module.
    Graph(Verified<graph::Module>),
    /// A kernel.
    Tile(Verified<tile::Kernel>),
}

impl Content {
    /// Name of the module or kernel.
    pub fn name(&self) -> &str {
        match self {
            Content::Graph(module) => &module.name,
            Content::Tile(kernel) => &kernel.name,
        }
    }
}

/// A fault in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The rule that is broken; none where the text does not parse.
    pub rule: Option<&'static str>,
    /// Where in the file, unless the fault is one of the whole.
    pub at: Option<ParseError>,
    /// What is wrong.
    pub message: String,
}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.at {
            Some(at) => write!(f, "{at}"),
            None => f.write_str(&self.message),
        }
    }
}

/// Reads a file and tells its level: by its ending, else by its first word.
///
/// # Errors
/// The file cannot be read, is not UTF-8, or says no level.
pub fn read(path: &Path) -> Result<(String, Level)> {
    let source = read_text(path)?;
    let level = match path.extension().and_then(|e| e.to_str()) {
        Some("tir") => Some(Level::Graph),
        Some("tile") => Some(Level::Tile),
        _ => match Cursor::new(&source).peek().text {
            "tessera.graph" => Some(Level::Graph),
            "tessera.tile" => Some(Level::Tile),
            _ => None,
        },
    };
    let level = level.ok_or_else(|| {
        Error::Request(format!(
            "{}: not a text of ours: it ends neither in .tir nor in .tile, and its first word is neither tessera.graph nor tessera.tile",
            path.display()
        ))
    })?;
    Ok((source, level))
}

/// The texts of a file: each begins with a line that names its level. A piece keeps the line numbers of the file, its
/// predecessors being empty lines. A file whose first line names no level is one piece.
pub fn pieces(source: &str, level: Level) -> Vec<(String, Level)> {
    let mut found: Vec<(String, Level)> = Vec::new();
    for (before, line) in source.split_inclusive('\n').enumerate() {
        let begins = match line.split_whitespace().next() {
            Some("tessera.graph") => Some(Level::Graph),
            Some("tessera.tile") => Some(Level::Tile),
            _ => None,
        };
        match (begins, found.last_mut()) {
            (Some(level), Some(_)) => found.push(("\n".repeat(before) + line, level)),
            // Comments before the first text are part of it.
            (_, None) => found.push(("\n".repeat(before) + line, begins.unwrap_or(level))),
            (None, Some((text, _))) => text.push_str(line),
        }
    }
    match found.as_slice() {
        [(first, _), _, ..]
            if first.lines().all(|l| l.trim().is_empty() || l.trim_start().starts_with(';')) =>
        {
            found.remove(0);
        }
        _ => {}
    }
    if found.is_empty() {
        found.push((source.to_owned(), level));
    }
    found
}

/// Parses and verifies a text.
///
/// # Errors
/// The first fault of the grammar, or all faults against the level's rules.
pub fn check(source: &str, level: Level) -> Result<Content, Vec<Fault>> {
    let syntax = |at: ParseError| vec![Fault { rule: None, message: at.message.clone(), at: Some(at) }];
    match level {
        Level::Graph => {
            let module = graph::parse(source).map_err(syntax)?;
            let map = LineMap::new(source, &graph::print(&module));
            let lines = [module.decls.len(), module.nodes.len()];
            graph::verify(module).map(Content::Graph).map_err(|errors| {
                let place = |place| match place {
                    graph::Place::Module => None,
                    graph::Place::Decl(i) => Some(HEAD_LINES + i),
                    graph::Place::Node(i) => Some(HEAD_LINES + lines[0] + i),
                    graph::Place::Output(i) => Some(HEAD_LINES + lines[0] + lines[1] + i),
                };
                let found = errors.faults.iter();
                found.map(|f| map.fault(f.rule.name(), place(f.place), &f.to_string())).collect()
            })
        }
        Level::Tile => {
            let kernel = tile::parse(source).map_err(syntax)?;
            let printed = tile::print(&kernel);
            let map = LineMap::new(source, &printed);
            let lines = TileLines::new(&kernel, &printed);
            tile::verify(kernel).map(Content::Tile).map_err(|errors| {
                let found = errors.faults.iter();
                found.map(|f| map.fault(f.rule.name(), lines.of(f.place), &f.to_string())).collect()
            })
        }
    }
}

/// Lines of the canonical text before the first declaration.
const HEAD_LINES: usize = 2;

/// Lines of a kernel's canonical text.
struct TileLines {
    params: usize,
    axes: usize,
    rings: usize,
    /// Line of each role's head, and of each of its statements.
    roles: Vec<(usize, Vec<usize>)>,
}

impl TileLines {
    fn new(kernel: &tile::Kernel, printed: &str) -> TileLines {
        let mut roles: Vec<(usize, Vec<usize>)> = Vec::new();
        for (at, line) in printed.lines().enumerate() {
            match (line.strip_prefix("  role "), roles.last_mut()) {
                (Some(_), _) => roles.push((at, Vec::new())),
                // Lines that only close a block are no statements.
                (None, Some((_, statements))) if line.trim() != "}" => statements.push(at),
                (None, _) => {}
            }
        }
        TileLines {
            params: kernel.params.len(),
            axes: usize::from(!kernel.grid.is_empty()),
            rings: kernel.rings.len(),
            roles,
        }
    }

    fn of(&self, place: tile::Place) -> Option<usize> {
        match place {
            tile::Place::Kernel => None,
            tile::Place::Param(i) => (i < self.params).then_some(HEAD_LINES + i),
            tile::Place::Axis(_) => (self.axes > 0).then_some(HEAD_LINES + self.params),
            tile::Place::Ring(i) => (i < self.rings).then_some(HEAD_LINES + self.params + self.axes + i),
            tile::Place::Role(i) => Some(self.roles.get(i)?.0),
            tile::Place::Stmt { role, number } => self.roles.get(role)?.1.get(number).copied(),
        }
    }
}

/// Where the lines of the canonical text are in the source: both have the same tokens in the same order.
struct LineMap<'s> {
    source: &'s str,
    /// Span in the source of every line of the canonical text; empty where the tokens do not correspond.
    lines: Vec<Span>,
}

impl<'s> LineMap<'s> {
    fn new(source: &'s str, canonical: &str) -> Self {
        let (ours, theirs) = (tokens(canonical), tokens(source));
        let same = ours.len() == theirs.len() && ours.iter().zip(&theirs).all(|(a, b)| a.0 == b.0);
        let mut lines = Vec::new();
        if same {
            let mut line_end = 0;
            let mut at = 0;
            for line in canonical.split_inclusive('\n') {
                line_end += line.len();
                let first = at;
                while ours.get(at).is_some_and(|(_, span)| span.end <= line_end) {
                    at += 1;
                }
                let span = theirs[first..at].iter().map(|(_, span)| *span).reduce(Span::to);
                lines.push(span.unwrap_or_default());
            }
        }
        LineMap { source, lines }
    }

    fn fault(&self, rule: &'static str, line: Option<usize>, message: &str) -> Fault {
        // The canonical line, which the message ends with, stands in the file itself.
        let short = message.lines().next().unwrap_or_default().to_owned();
        let span = line.and_then(|line| self.lines.get(line)).copied();
        match span {
            Some(span) => {
                let at = SyntaxError::new(span, short.clone()).locate(self.source);
                Fault { rule: Some(rule), at: Some(at), message: short }
            }
            None => Fault { rule: Some(rule), at: None, message: message.to_owned() },
        }
    }
}

/// Kinds and places of all tokens.
fn tokens(text: &str) -> Vec<(Kind, Span)> {
    let mut cursor = Cursor::new(text);
    let mut all = Vec::new();
    loop {
        let token = cursor.bump();
        if token.kind == Kind::End {
            return all;
        }
        all.push((token.kind, token.span));
    }
}
