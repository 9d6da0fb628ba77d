//! How a tile's elements lie over threads and registers.
//!
//! A row is cut into chunks of V neighbouring elements, V and the number of threads P being those of the role's lanes. In a
//! tile laid out *by rows*, chunk k of every row belongs to thread k mod P, so that sums along a row follow the lanes. A
//! *packed* tile numbers the chunks of all rows in one sequence: for many short rows. Small tiles are *copies*: every
//! thread has all elements. The layout follows from the shape alone.

use super::super::{Emitter, Result, unsupported};
use crate::target::ptx::isa::{Cmp, Operand, Reg, Ty};

/// Elements of a thread that a tile by rows may take.
const BY_ROWS: usize = 64;
/// Elements of a tile that every thread has.
const COPIES: usize = 16;
/// Elements of a thread in any tile.
const MOST: usize = 128;

/// Which threads hold which chunks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// Every thread has every element, row-major.
    Copies,
    /// Chunks of each row from thread 0 on; registers: row, pass, element of the chunk.
    ByRows,
    /// Chunks of all rows as one sequence; registers: pass, element.
    Packed,
    /// One row in each thread, from the first one on; registers: columns.
    Lanes,
}

/// A tile's shape and layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shape {
    pub(super) rows: usize,
    pub(super) cols: usize,
    pub(super) form: Form,
    /// Threads.
    pub(super) threads: usize,
    /// Elements of a chunk.
    pub(super) chunk: usize,
}

/// A chunk as one thread sees it: `first` is the register of its first element.
#[derive(Clone, Copy, Debug)]
pub(super) struct Chunk {
    /// Row; in a packed tile of the thread with number 0.
    pub(super) row: usize,
    /// Pass: threads take P chunks in each.
    pub(super) pass: usize,
    /// Register of the first element.
    pub(super) first: usize,
}

impl Shape {
    /// The layout of a `rows × cols` tile for `threads` threads and chunks of `chunk`.
    pub(super) fn new(rows: usize, cols: usize, threads: usize, chunk: usize) -> Result<Shape> {
        let shape = |form| Shape { rows, cols, form, threads, chunk };
        let elements = rows.saturating_mul(cols);
        let copies = cols == 1 || (cols < COPIES && elements <= COPIES) || !cols.is_multiple_of(chunk);
        if copies {
            return if elements <= BY_ROWS {
                Ok(shape(Form::Copies))
            } else {
                Err(unsupported(format!("a tile {rows}x{cols} in chunks of {chunk}")))
            };
        }
        let by_rows = shape(Form::ByRows);
        let shape = if by_rows.held() <= BY_ROWS || rows == 1 { by_rows } else { shape(Form::Packed) };
        if shape.held() > MOST {
            return Err(unsupported(format!(
                "a tile {rows}x{cols} over {threads} threads: too many elements"
            )));
        }
        Ok(shape)
    }
    /// The shape of a tile that is never wanted whole.
    pub(super) fn lazy(rows: usize, cols: usize) -> Shape {
        Shape { rows, cols, form: Form::Copies, threads: 0, chunk: 1 }
    }
    /// True if chunk n of all rows, numbered in sequence, belongs to thread n mod P.
    pub(super) fn in_sequence(&self) -> bool {
        match self.form {
            Form::Copies | Form::Lanes => false,
            Form::ByRows => self.rows == 1 || self.row_chunks().is_multiple_of(self.threads),
            Form::Packed => true,
        }
    }
    /// Chunks of a row.
    pub(super) fn row_chunks(&self) -> usize {
        self.cols / self.chunk
    }
    /// Passes over a row, or over all rows of a packed tile.
    pub(super) fn passes(&self) -> usize {
        match self.form {
            Form::Copies | Form::Lanes => 1,
            Form::ByRows => self.row_chunks().div_ceil(self.threads),
            Form::Packed => (self.rows * self.row_chunks()).div_ceil(self.threads),
        }
    }
    /// Registers that a thread holds.
    pub(super) fn held(&self) -> usize {
        match self.form {
            Form::Copies => self.rows * self.cols,
            Form::ByRows => self.rows * self.passes() * self.chunk,
            Form::Packed => self.passes() * self.chunk,
            Form::Lanes => self.cols,
        }
    }
    /// The register's number of element `e` of a row's chunk of `pass`; tiles by rows.
    pub(super) fn at(&self, row: usize, pass: usize, e: usize) -> usize {
        (row * self.passes() + pass) * self.chunk + e
    }
    /// Threads that hold a chunk in `pass`; `None` if all do.
    pub(super) fn busy(&self, pass: usize) -> Option<usize> {
        let chunks = match self.form {
            Form::Copies => return None,
            Form::Lanes => return (self.rows < self.threads).then_some(self.rows),
            Form::ByRows => self.row_chunks(),
            Form::Packed => self.rows * self.row_chunks(),
        };
        let left = chunks - pass * self.threads;
        (left < self.threads).then_some(left)
    }
    /// Chunks of a thread in register order.
    pub(super) fn chunks(&self) -> Vec<Chunk> {
        let passes = self.passes();
        let one = |row, pass| Chunk { row, pass, first: (row * passes + pass) * self.chunk };
        match self.form {
            Form::Copies | Form::Lanes => Vec::new(),
            Form::ByRows => (0..self.rows)
                .flat_map(|row| (0..passes).map(move |pass| (row, pass)))
                .map(|(r, p)| one(r, p))
                .collect(),
            Form::Packed => {
                (0..passes).map(|pass| Chunk { row: 0, pass, first: pass * self.chunk }).collect()
            }
        }
    }
}

impl Emitter<'_> {
    /// The layout of a tile of the role being emitted.
    pub(super) fn shape(&self, rows: usize, cols: usize) -> Result<Shape> {
        let role = self.role();
        // Both blocks of a pair work on a tile.
        let threads = 32 * role.warps * self.kernel.cluster;
        if role.lanes.count < threads && role.lanes.chunk == 1 {
            return Self::shape_by_threads(rows, cols, threads, role.lanes.chunk);
        }
        if role.lanes.count != threads {
            return Err(unsupported(format!(
                "lanes {} in a role of {threads} threads: as many lanes as threads are wanted",
                role.lanes
            )));
        }
        Shape::new(rows, cols, threads, role.lanes.chunk)
    }
    /// Where this thread holds a chunk in `pass`; `None` if all threads do.
    pub(super) fn holds(&mut self, shape: &Shape, pass: usize) -> Option<Reg> {
        let busy = shape.busy(pass)?;
        let thread = self.team.thread;
        Some(self.asm.setp(Cmp::Lt, Ty::U32, thread, busy))
    }
    /// Number of this thread's chunk of `pass` along its row, and the row in a packed tile.
    pub(super) fn chunk_at(&mut self, shape: &Shape, pass: usize) -> (Operand, Option<Operand>) {
        let thread = self.team.thread;
        let number = self.asm.fold_add(thread, pass * shape.threads);
        match shape.form {
            Form::Copies | Form::Lanes => (Operand::Int(0), None),
            Form::ByRows => (number, None),
            Form::Packed => {
                let along = self.asm.fold_rem(number, shape.row_chunks());
                let row = self.asm.fold_div(number, shape.row_chunks());
                (along, Some(row))
            }
        }
    }
}
