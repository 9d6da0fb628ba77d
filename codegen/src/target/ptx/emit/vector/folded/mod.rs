//! Tiles of at most 64 rows in the registers of 128 threads, as the folded accumulator gives them: thread t has row t mod 64, and
//! threads from 64 on have the upper half of the columns.
//!
//! Lane m + 64·(n / (N/2)) of tensor memory holds element (m, n) of a product of 64 rows and N columns in its column n mod
//! (N/2) (PTX ISA, layout E), and warp w reads lanes 32·w on: so thread t of the role holds lane t. Wider slots are pieces of
//! [`PIECE`] columns side by side. A column vector is one register, the same in both halves.

mod math;
mod memory;
mod role;
mod rotate;
mod tensor;

pub(in crate::target::ptx::emit) use role::{Folded, on_tiles};

use crate::target::ptx::isa::{Asm, Class, Reg, Ty};

/// Rows of a folded slot.
const ROWS: usize = 64;
/// Columns of a piece.
const PIECE: usize = 256;
/// Threads of the role.
const THREADS: usize = 128;

/// The threads of a role with folded tiles.
#[derive(Clone, Copy, Debug)]
struct Team {
    /// Number in the role.
    thread: Reg,
    /// Row.
    row: Reg,
    /// 1 in the upper half of the columns.
    half: Reg,
    /// The warp's first lane as part of an address in tensor memory.
    lanes: Reg,
    /// The role's named barrier.
    barrier: u32,
    /// Two words for each thread in shared memory: address of the own one, and of that of the thread that has the other half of
    /// the row; which of the two words is next is in the register `turn`, 0 or 4·[`THREADS`].
    exchange: [Reg; 2],
    turn: Reg,
}

/// Bytes of shared memory for exchanges.
const EXCHANGE_BYTES: usize = 2 * 4 * THREADS;

impl Team {
    /// Once, at the start of the role: `thread` is the number in the role, `exchange` the address of [`EXCHANGE_BYTES`].
    fn new(asm: &mut Asm, thread: Reg, barrier: u32, exchange: Reg) -> Self {
        let (row, half) = (asm.and_b32(thread, 63), asm.shr_u32(thread, 6));
        let warp = asm.shr_u32(thread, 5);
        let lanes = asm.shl_b32(warp, 21);
        let own = asm.mad_u32(thread, 4, exchange);
        let partner = asm.xor_b32(thread, 64);
        let other = asm.mad_u32(partner, 4, exchange);
        let turn = asm.mov_b32(0);
        Team { thread, row, half, lanes, barrier, exchange: [own, other], turn }
    }
    /// The partner's value of an f32. Two words in turn, so that one meeting separates the writes from the reads, and the next
    /// exchange's separates those reads from the writes after it.
    fn exchanged(&self, asm: &mut Asm, x: Reg) -> Reg {
        let [own, other] = self.exchange.map(|at| asm.add_u32(at, self.turn));
        asm.st_shared(Ty::F32, own, x);
        asm.bar_sync(self.barrier, THREADS);
        asm.xor_b32_to(self.turn, self.turn, 4 * THREADS);
        asm.ld_shared(Ty::F32, other)
    }
}

/// A tile in registers.
#[derive(Clone, Debug)]
struct Fold {
    rows: usize,
    cols: usize,
    words: Words,
}

/// A thread's part of a tile: its half of the columns ascending, or the one column.
#[derive(Clone, Debug)]
enum Words {
    /// One register for each element.
    F32(Vec<Reg>),
    /// Pairs, the lower column in the lower half.
    Bf16(Vec<Reg>),
}

impl Fold {
    /// Elements that a thread has.
    fn width(cols: usize) -> usize {
        cols.div_ceil(2)
    }
    /// Whether a tile of the shape can lie like this.
    fn fits(rows: usize, cols: usize) -> bool {
        rows <= ROWS && (cols == 1 || (cols <= PIECE && cols.is_multiple_of(64)))
    }
    /// An f32 tile.
    fn f32(rows: usize, cols: usize, regs: Vec<Reg>) -> Self {
        Fold { rows, cols, words: Words::F32(regs) }
    }
    /// The elements as f32.
    fn floats(&self, asm: &mut Asm) -> Vec<Reg> {
        match &self.words {
            Words::F32(regs) => regs.clone(),
            Words::Bf16(pairs) => {
                let mut all: Vec<Reg> = pairs.iter().flat_map(|p| asm.f32_bf16x2(*p)).collect();
                all.truncate(Self::width(self.cols));
                all
            }
        }
    }
    /// The elements rounded to bf16.
    fn bf16(&self, asm: &mut Asm) -> Vec<Reg> {
        match &self.words {
            Words::Bf16(pairs) => pairs.clone(),
            Words::F32(regs) => regs
                .chunks(2)
                .map(|pair| match pair {
                    [lo, hi] => asm.bf16x2_f32(*hi, *lo),
                    rest => asm.bf16x2_f32(0.0f32, rest[0]),
                })
                .collect(),
        }
    }
    /// Registers that are the tile's own: a slot may change while the tile lives.
    fn copied(asm: &mut Asm, rows: usize, cols: usize, slot: &[Reg]) -> Self {
        Fold::f32(rows, cols, slot.iter().map(|r| asm.mov_f32(*r)).collect())
    }
    /// Registers of a slot that lives in them.
    fn slot(asm: &mut Asm, cols: usize) -> Vec<Reg> {
        asm.regs(Class::F32, Self::width(cols))
    }
}
