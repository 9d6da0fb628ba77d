//! Scratch memory of a kernel: regions handed out while code is emitted, reused once the last holder is gone.

use std::cell::RefCell;
use std::rc::Rc;
use tessera_ir::artifact::Size;
use tessera_ir::{Dim, Sym};

/// Alignment of every region, bytes.
const ALIGN: usize = 64;

/// How many bytes a region needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Bytes {
    /// Known now.
    Fixed(usize),
    /// `per` for each unit of a symbol.
    Per(Sym, usize),
}

impl Bytes {
    /// `rows × cols` elements of `size` bytes; `None` on overflow.
    pub(super) fn of(rows: usize, cols: &Dim, size: usize) -> Option<Bytes> {
        let row = rows.checked_mul(size)?;
        match cols {
            Dim::Fixed(n) => row.checked_mul(*n).map(Bytes::Fixed),
            Dim::Sym { sym, times } => row.checked_mul(*times).map(|per| Bytes::Per(sym.clone(), per)),
        }
    }
}

/// Where a region lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Spot {
    /// At this offset.
    Fixed(usize),
    /// The dynamic region of this number; these follow the fixed part one after another.
    Dynamic(usize),
}

/// A region; dropping the last handle frees it for later code.
#[derive(Debug)]
pub(super) struct Region {
    arena: Rc<RefCell<Arena>>,
    /// Where it lies.
    pub(super) spot: Spot,
    len: usize,
}

impl Drop for Region {
    fn drop(&mut self) {
        let mut arena = self.arena.borrow_mut();
        match self.spot {
            Spot::Fixed(at) => arena.give(at, self.len),
            Spot::Dynamic(i) => arena.dynamic[i].free = true,
        }
    }
}

#[derive(Debug)]
struct Dynamic {
    sym: Sym,
    per: usize,
    free: bool,
}

#[derive(Debug, Default)]
struct Arena {
    end: usize,
    /// Free ranges (offset, length) by offset, no two adjacent.
    free: Vec<(usize, usize)>,
    dynamic: Vec<Dynamic>,
}

impl Arena {
    fn take(&mut self, len: usize) -> Option<usize> {
        if let Some(i) = self.free.iter().position(|(_, n)| *n >= len) {
            let (at, n) = self.free[i];
            if n == len {
                self.free.remove(i);
            } else {
                self.free[i] = (at + len, n - len);
            }
            return Some(at);
        }
        // A free range at the end grows instead of being left behind.
        let at = match self.free.last() {
            Some((at, n)) if at + n == self.end => *at,
            Some(_) | None => self.end,
        };
        let end = at.checked_add(len)?;
        if at < self.end {
            self.free.pop();
        }
        self.end = end;
        Some(at)
    }

    fn give(&mut self, at: usize, len: usize) {
        let i = self.free.partition_point(|(o, _)| *o < at);
        self.free.insert(i, (at, len));
        if self.free.get(i + 1).is_some_and(|(o, _)| at + len == *o) {
            self.free[i].1 += self.free.remove(i + 1).1;
        }
        if i > 0 && self.free[i - 1].0 + self.free[i - 1].1 == at {
            self.free[i - 1].1 += self.free.remove(i).1;
        }
    }
}

/// The scratch memory of one kernel.
#[derive(Debug, Default)]
pub(super) struct Scratch(Rc<RefCell<Arena>>);

impl Scratch {
    /// A region of `bytes`, contents undefined. `None` if sizes overflow.
    pub(super) fn take(&self, bytes: &Bytes) -> Option<Region> {
        let mut arena = self.0.borrow_mut();
        let (spot, len) = match bytes {
            Bytes::Fixed(n) => {
                let len = (*n).max(1).checked_next_multiple_of(ALIGN)?;
                (Spot::Fixed(arena.take(len)?), len)
            }
            Bytes::Per(sym, per) => {
                let found = arena.dynamic.iter().position(|d| d.free && d.sym == *sym && d.per == *per);
                let i = found.unwrap_or(arena.dynamic.len());
                if i == arena.dynamic.len() {
                    arena.dynamic.push(Dynamic { sym: sym.clone(), per: *per, free: false });
                }
                arena.dynamic[i].free = false;
                (Spot::Dynamic(i), 0)
            }
        };
        drop(arena);
        Some(Region { arena: Rc::clone(&self.0), spot, len })
    }

    /// Symbol and bytes per unit of the dynamic regions before number `i`.
    pub(super) fn before(&self, i: usize) -> Vec<(Sym, usize)> {
        self.0.borrow().dynamic[..i].iter().map(|d| (d.sym.clone(), d.per)).collect()
    }

    /// Length of the fixed part.
    pub(super) fn fixed(&self) -> usize {
        self.0.borrow().end
    }

    /// Bytes of the whole; `None` on overflow. Every dynamic region is rounded up when the kernel runs.
    pub(super) fn size(&self) -> Option<Size> {
        let arena = self.0.borrow();
        let fixed = arena.dynamic.len().checked_mul(ALIGN)?.checked_add(arena.end)?;
        let mut per: Vec<(Sym, usize)> = Vec::new();
        for d in &arena.dynamic {
            match per.iter_mut().find(|(s, _)| *s == d.sym) {
                Some((_, n)) => *n = n.checked_add(d.per)?,
                None => per.push((d.sym.clone(), d.per)),
            }
        }
        Some(Size { fixed, per })
    }
}

/// Rounds a dynamic size up; the emitted code does the same.
pub(super) const DYNAMIC_ALIGN: i64 = ALIGN as i64;
