//! Shape patterns over named dimensions, and the names' meanings within one node.

use crate::types::Dim;
use std::fmt;

/// One place of a shape pattern.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Pat {
    /// Any dimension; the same wherever the name stands.
    Any(&'static str),
    /// A dimension without a symbol; the same wherever the name stands.
    Fixed(&'static str),
    /// This number, as it is written in the rule; `None` where what it follows from is faulty.
    Is(Option<usize>, &'static str),
    /// Zero or more dimensions, the same wherever the name stands. At most one in a pattern.
    Tail,
}

/// The name under which [`Pat::Tail`] is kept.
const TAIL: &str = "…";

impl Pat {
    fn name(&self) -> &'static str {
        match self {
            Pat::Any(name) | Pat::Fixed(name) | Pat::Is(_, name) => name,
            Pat::Tail => TAIL,
        }
    }
}

#[derive(Debug)]
struct Bound {
    name: &'static str,
    dims: Vec<Dim>,
    by: &'static str,
}

/// Meanings of dimension names, in the order in which they were bound.
#[derive(Debug, Default)]
pub(super) struct Names(Vec<Bound>);

impl Names {
    fn find(&self, name: &str) -> Option<&Bound> {
        self.0.iter().find(|b| b.name == name)
    }
    /// The dimension called `name`.
    pub(super) fn dim(&self, name: &str) -> Option<Dim> {
        self.find(name)?.dims.first().cloned()
    }
    /// The number called `name`.
    pub(super) fn number(&self, name: &str) -> Option<usize> {
        self.dim(name)?.fixed()
    }
    /// The dimensions that [`Pat::Tail`] stands for.
    pub(super) fn tail(&self) -> Option<&[Dim]> {
        self.find(TAIL).map(|b| b.dims.as_slice())
    }
    /// Dimensions of a pattern whose names are all bound.
    pub(super) fn resolve(&self, pattern: &[Pat]) -> Option<Vec<Dim>> {
        let mut dims = Vec::new();
        for pat in pattern {
            match pat {
                Pat::Any(name) | Pat::Fixed(name) => dims.push(self.dim(name)?),
                Pat::Is(n, _) => dims.push(Dim::Fixed((*n)?)),
                Pat::Tail => dims.extend_from_slice(self.tail()?),
            }
        }
        Some(dims)
    }

    /// Matches `shape`, of the operand called `by`, against `pattern` and binds names that are new.
    /// On a mismatch binds nothing and says what was expected.
    pub(super) fn bind(&mut self, pattern: &[Pat], shape: &[Dim], by: &'static str) -> Result<(), String> {
        if self.matches(pattern, shape) {
            for (pat, dims) in pieces(pattern, shape).into_iter().flatten() {
                if !matches!(pat, Pat::Is(..)) && self.find(pat.name()).is_none() {
                    self.0.push(Bound { name: pat.name(), dims: dims.to_vec(), by });
                }
            }
            return Ok(());
        }
        let mut expected = self.explain(pattern);
        for (pat, dims) in pieces(pattern, shape).into_iter().flatten() {
            let new = matches!(pat, Pat::Fixed(name) if self.find(name).is_none());
            if new && dims.iter().any(|d| d.fixed().is_none()) {
                expected.push_str(&format!("; {} is a number", pat.name()));
            }
        }
        Err(expected)
    }

    fn matches(&self, pattern: &[Pat], shape: &[Dim]) -> bool {
        let Some(pieces) = pieces(pattern, shape) else { return false };
        let mut here: Vec<(&str, &[Dim])> = Vec::new();
        pieces.into_iter().all(|(pat, dims)| {
            let allowed = match pat {
                Pat::Any(_) | Pat::Tail => true,
                Pat::Fixed(_) => dims.iter().all(|d| d.fixed().is_some()),
                Pat::Is(n, _) => n.is_none() || dims.first().and_then(Dim::fixed) == *n,
            };
            if matches!(pat, Pat::Is(..)) {
                return allowed;
            }
            let known = self.find(pat.name()).map(|b| b.dims.as_slice());
            let known = known.or_else(|| here.iter().find(|(n, _)| *n == pat.name()).map(|(_, d)| *d));
            here.push((pat.name(), dims));
            allowed && known.is_none_or(|k| k == dims)
        })
    }

    /// `[T, d] with T = 4*Q (of `x`)`: the pattern and what its names already stand for.
    fn explain(&self, pattern: &[Pat]) -> String {
        let mut text = format!("expected [{}]", Separated(pattern));
        let mut word = "with";
        let mut said: Vec<&str> = Vec::new();
        for pat in pattern {
            if said.contains(&pat.name()) {
                continue;
            }
            said.push(pat.name());
            match pat {
                Pat::Is(Some(n), name) if name.parse() != Ok(*n) => {
                    text.push_str(&format!(" {word} {name} = {n}"));
                }
                Pat::Any(_) | Pat::Fixed(_) | Pat::Tail => {
                    let Some(bound) = self.find(pat.name()) else { continue };
                    let dims: Vec<String> = bound.dims.iter().map(Dim::to_string).collect();
                    let dims = if dims.is_empty() { "nothing".to_owned() } else { dims.join(", ") };
                    if dims == bound.name {
                        continue;
                    }
                    text.push_str(&format!(" {word} {} = {dims} (from `{}`)", bound.name, bound.by));
                }
                Pat::Is(..) => continue,
            }
            word = "and";
        }
        text
    }
}

struct Separated<'a>(&'a [Pat]);

impl fmt::Display for Separated<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, pat) in self.0.iter().enumerate() {
            write!(f, "{}{}", if i == 0 { "" } else { ", " }, pat.name())?;
        }
        Ok(())
    }
}

/// The dimensions of `shape` that each place of `pattern` stands for; `None` if their number does not fit.
fn pieces<'p, 'd>(pattern: &'p [Pat], shape: &'d [Dim]) -> Option<Vec<(&'p Pat, &'d [Dim])>> {
    let has_tail = pattern.contains(&Pat::Tail);
    let single = pattern.len() - usize::from(has_tail);
    let tail = shape.len().checked_sub(single).filter(|n| has_tail || *n == 0)?;
    let mut at = 0;
    let pieces = pattern.iter().map(|pat| {
        let n = if *pat == Pat::Tail { tail } else { 1 };
        at += n;
        (pat, &shape[at - n..at])
    });
    Some(pieces.collect())
}
