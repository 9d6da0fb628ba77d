//! Tiles in registers, spread over the threads of a role, and the ops on them.
//!
//! | file | holds |
//! |---|---|
//! | `flat.rs` | how a tile's elements lie over threads and registers |
//! | `lanes.rs` | tiles as tensor memory has them: one thread for each row or column |
//! | `memory.rs` | tiles from and to device memory |
//! | `slots.rs` | buffers of one role, in registers or shared memory |
//! | `arith.rs` | maps, zips, parts and shapes |
//! | `math.rs` | exponentials, logarithms, sines |
//! | `reduce.rs` | sums, maxima and dots in the order the role's lanes say |
//! | `quant.rs` | casts to formats and back |
//! | `rope.rs` | angles and rotations |
//! | `folded/` | tiles of folded accumulators, whole roles of them |
//! | `pairs.rs` | bf16 values two to a word |
//! | `mask.rs` | columns set to a value |
//! | `lists.rs` | selections from rows in memory, the sort of choices |
//! | `select.rs` | rankings |

mod arith;
mod flat;
pub(super) mod folded;
mod lanes;
mod lists;
mod mask;
mod math;
mod memory;
mod pairs;
mod quant;
mod reduce;
mod rope;
mod select;
mod slots;

pub(super) use slots::OwnSlot;

use super::{Bound, Emitter, Result, unsupported};
use crate::target::ptx::isa::{Addr, Reg, Space};
use flat::Shape;
use std::collections::BTreeMap;
use tessera_ir::Format;
use tessera_ir::tile::Value;

/// A tile of a vector role.
#[derive(Clone, Debug)]
pub(super) struct Tile {
    /// How its elements lie over threads and registers.
    shape: Shape,
    /// Format of the values; those of plain reals are f32 numbers that are exact in it.
    format: Format,
    data: Data,
}

/// What holds a tile's elements.
#[derive(Clone, Debug)]
enum Data {
    /// A constant, the same for all elements.
    Splat(f32),
    /// One register for each element that a thread holds, in the order of [`Shape`]; f32, or 32-bit integers.
    Regs(Vec<Reg>),
    /// Memory that is read when the elements are wanted, because only parts of them may be.
    Memory(Source),
    /// Values rounded to bf16: one f32 register for each element, and the same two to a word.
    Rounded { regs: Vec<Reg>, words: Vec<Reg> },
    /// Values of bf16, two to a word.
    Pairs(Vec<Reg>),
    /// Products of such words, not multiplied yet.
    Products(Vec<(Reg, Reg)>),
    /// Codes and scales.
    Quantised(quant::Codes),
    /// Codes and scales of a tile with one thread for each column.
    Columns(lanes::Columns),
}

/// A tile in memory, rows of `pitch` elements.
#[derive(Clone, Copy, Debug)]
struct Source {
    at: Place,
    /// Elements from row to row.
    pitch: usize,
    /// bf16, f32 or i32 in device memory; f32 in shared memory.
    format: Format,
    /// Alignment of rows in bytes.
    align: usize,
    constant: bool,
}

/// An address in device or shared memory: a register plus bytes.
#[derive(Clone, Copy, Debug)]
struct Place {
    space: Space,
    base: Reg,
    offset: i64,
}

impl Place {
    fn global(base: Reg) -> Place {
        Place { space: Space::Global, base, offset: 0 }
    }
    fn shared(base: Reg, offset: u32) -> Place {
        Place { space: Space::Shared, base, offset: i64::from(offset) }
    }
    fn plus(self, bytes: i64) -> Place {
        Place { offset: self.offset + bytes, ..self }
    }
    fn address(self) -> Addr {
        self.base.at(self.offset)
    }
    fn is_shared(self) -> bool {
        self.space == Space::Shared
    }
}

/// What emission of vector code remembers of a role.
#[derive(Clone, Debug, Default)]
pub(super) struct State {
    /// Accesses to shared memory since the role's threads met.
    pub(super) hazards: Hazards,
    /// Scratch for tiles that change their shape, and its bytes.
    scratch: Option<(u32, u32)>,
    /// Byte offsets `thread · bytes` as 64-bit and 32-bit registers.
    strides: BTreeMap<(u32, bool), Reg>,
}

impl State {
    /// The registers that are known here.
    pub(super) fn strides(&self) -> BTreeMap<(u32, bool), Reg> {
        self.strides.clone()
    }
    /// Forgets registers that were written on one way only.
    pub(super) fn restore(&mut self, strides: BTreeMap<(u32, bool), Reg>) {
        self.strides = strides;
    }
}

/// Whether threads must meet before an access to shared memory.
#[derive(Clone, Debug, Default)]
pub(super) struct Hazards {
    read: bool,
    /// Another round of a loop may have come before.
    round: bool,
    /// Bytes written, first and end.
    written: Vec<(u32, u32)>,
}

impl Hazards {
    pub(super) fn met(&mut self) {
        *self = Hazards::default();
    }
    pub(super) fn any(&self) -> bool {
        self.read || self.round || !self.written.is_empty()
    }
    /// Anything may have happened before.
    pub(super) fn unknown(&mut self) {
        *self = Hazards { read: true, round: true, written: vec![(0, u32::MAX)] };
    }
    /// One of two ways was taken.
    pub(super) fn or(&mut self, other: Hazards) {
        self.read |= other.read;
        self.round |= other.round;
        self.written.extend(other.written);
    }
}

impl Emitter<'_> {
    /// The tile that a value is.
    fn tile_of(&self, v: Value) -> Result<Tile> {
        match self.values.get(v.index()) {
            Some(Some(Bound::Tile(tile))) => Ok(tile.clone()),
            Some(_) | None => Err(unsupported(format!("{v} is no tile here"))),
        }
    }
    fn bind_tile(&mut self, v: Value, tile: Tile) -> Result<()> {
        self.bind(v, Bound::Tile(tile));
        Ok(())
    }
    /// Threads meet if something was written to shared memory before it is read.
    fn before_read(&mut self) {
        if !self.vector.hazards.written.is_empty() {
            self.meet();
        }
        self.vector.hazards.read = true;
    }
    /// Threads meet if something was read before these bytes are written, or they were written before.
    fn before_write(&mut self, from: u32, bytes: u32) {
        let end = from.saturating_add(bytes);
        let hazards = &self.vector.hazards;
        if hazards.read || hazards.written.iter().any(|(a, b)| *a < end && from < *b) {
            self.meet();
        }
        self.vector.hazards.written.push((from, end));
    }
    /// Before a write to bytes that only this statement uses, in this round of a loop.
    fn before_fresh(&mut self, from: u32, bytes: u32) {
        if self.vector.hazards.round {
            self.meet();
        }
        self.vector.hazards.written.push((from, from.saturating_add(bytes)));
    }
    /// `thread · bytes`, 64 bits wide or 32.
    fn stride(&mut self, bytes: u32, wide: bool) -> Reg {
        if let Some(r) = self.vector.strides.get(&(bytes, wide)) {
            return *r;
        }
        let thread = self.team.thread;
        let r = if wide { self.asm.mul_wide_u32(thread, bytes) } else { self.asm.mul_u32(thread, bytes) };
        self.vector.strides.insert((bytes, wide), r);
        r
    }
    /// A tile's values in registers.
    fn regs(&mut self, tile: &Tile) -> Result<Vec<Reg>> {
        match &tile.data {
            Data::Regs(regs) | Data::Rounded { regs, .. } => Ok(regs.clone()),
            Data::Pairs(words) => Ok(self.halves(words, tile.shape.held())),
            Data::Products(pairs) => Ok(self.multiplied_pairs(pairs, tile.shape.held())),
            Data::Splat(value) => {
                let r = self.asm.mov_f32(*value);
                Ok(vec![r; tile.shape.held()])
            }
            Data::Memory(source) => self.fetch(&tile.shape, source),
            Data::Quantised(_) | Data::Columns(_) => Err(unsupported("arithmetic on a quantised tile")),
        }
    }
}
