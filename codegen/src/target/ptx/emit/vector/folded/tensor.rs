//! Folded slots in tensor memory: loads, stores, and masks over their columns.

use super::math::{Term, zip};
use super::{Fold, PIECE, Team};
use crate::target::ptx::emit::READ;
use crate::target::ptx::isa::{Asm, Cmp, Operand, Reg, TmemShape, Ty};
use tessera_ir::tile::Binary;

/// Columns that one instruction moves.
const TURN: usize = 32;

/// Where columns `col .. col + cols` of a slot of `width` columns lie: columns of tensor memory from the slot's first. They
/// must be one piece of the slot.
pub(super) fn piece(width: usize, col: usize, cols: usize) -> Option<usize> {
    let piece = width.min(PIECE);
    (cols == piece && col.is_multiple_of(piece)).then_some(col / 2)
}

/// Address of the role's lanes of column `base + offset`.
fn address(asm: &mut Asm, team: &Team, base: Reg, offset: usize) -> Reg {
    let at = asm.add_u32(base, team.lanes);
    if offset == 0 { at } else { asm.add_u32(at, offset) }
}

/// A piece of a slot that is loaded where it is used, and what is done to each of its elements then.
#[derive(Clone, Debug)]
pub(super) struct Piece {
    /// Column of tensor memory.
    pub(super) base: Reg,
    /// Columns from there.
    pub(super) offset: usize,
    pub(super) rows: usize,
    pub(super) cols: usize,
    /// `zip`s with column vectors and numbers, in order.
    pub(super) steps: Vec<Step>,
}

/// One `zip` of all elements of a piece.
#[derive(Clone, Debug)]
pub(super) struct Step {
    pub(super) f: Binary,
    pub(super) with: Scalar,
    /// The piece is the second operand.
    pub(super) second: bool,
}

/// What is the same for all elements of a thread.
#[derive(Clone, Debug)]
pub(super) enum Scalar {
    Column(Fold),
    Number(f32),
}

impl Scalar {
    pub(super) fn term(&self) -> Term<'_> {
        match self {
            Scalar::Column(t) => Term::Tile(t),
            Scalar::Number(n) => Term::Number(*n),
        }
    }
}

impl Piece {
    /// Loads the whole piece; the result is in registers when the next instruction runs.
    pub(super) fn load(&self, asm: &mut Asm, team: &Team) -> Fold {
        let width = Fold::width(self.cols);
        let mut regs = Vec::with_capacity(width);
        for turn in (0..width).step_by(TURN) {
            let at = address(asm, team, self.base, self.offset + turn);
            regs.extend(asm.tmem_ld_f32(TmemShape::S32x32b, TURN.min(width - turn), at));
        }
        asm.tmem_wait_ld();
        self.stepped(asm, Fold::f32(self.rows, self.cols, regs))
    }
    fn stepped(&self, asm: &mut Asm, mut x: Fold) -> Fold {
        for step in &self.steps {
            let with = step.with.term();
            x = match step.second {
                false => zip(asm, step.f, &Term::Tile(&x), &with),
                true => zip(asm, step.f, &with, &Term::Tile(&x)),
            };
        }
        x
    }
    /// Loads the piece in turns, so that few registers hold it; `use_` gets each turn's elements and the number of the first.
    pub(super) fn stream(&self, asm: &mut Asm, team: &Team, mut use_: impl FnMut(&mut Asm, Fold, usize)) {
        let width = Fold::width(self.cols);
        for turn in (0..width).step_by(TURN) {
            let n = TURN.min(width - turn);
            let at = address(asm, team, self.base, self.offset + turn);
            let regs = asm.tmem_ld_f32(TmemShape::S32x32b, n, at);
            asm.tmem_wait_ld();
            let x = self.stepped(asm, Fold::f32(self.rows, 2 * n, regs));
            use_(asm, x, turn);
        }
    }
}

/// `slot.store` of elements from number `first` of a piece on; [`Asm::tmem_wait_st`] must follow.
pub(super) fn store(asm: &mut Asm, team: &Team, (base, offset): (Reg, usize), x: &Fold, first: usize) {
    for (i, part) in x.floats(asm).chunks(TURN).enumerate() {
        let at = address(asm, team, base, offset + first + i * TURN);
        asm.tmem_st(TmemShape::S32x32b, at, part);
    }
}

/// `mask.cols`: columns from `n` on become `value`. Whole tiles pass by.
pub(super) fn mask_cols(asm: &mut Asm, team: &Team, x: &Fold, n: Operand, value: f32) -> Fold {
    let width = Fold::width(x.cols);
    let out: Vec<Reg> = x.floats(asm).iter().map(|r| asm.mov_f32(*r)).collect();
    let n = asm.in_reg(Ty::S32, n);
    let cut = asm.setp(Cmp::Lt, Ty::S32, n, x.cols);
    asm.if_then(cut, |asm| {
        let before = asm.mul_u32(team.half, width);
        let left = asm.sub_s32(n, before);
        for (i, r) in out.iter().enumerate() {
            let beyond = asm.setp(Cmp::Le, Ty::S32, left, i);
            asm.guard(beyond, |asm| asm.mov_to(*r, value));
        }
    });
    Fold::f32(x.rows, x.cols, out)
}

/// The entries of a list that lane l of a warp keeps for the thread's columns l, l + 32, … of a tile of `cols` columns: −1 for
/// padding and past the list's end. `first` is the address of entry `at`, the first column's; the list has `length`.
pub(super) fn live_ids(
    asm: &mut Asm,
    team: &Team,
    cols: usize,
    (first, length): (Reg, usize),
    at: Operand,
) -> Vec<Reg> {
    let width = Fold::width(cols);
    let lane = asm.and_b32(team.thread, 31);
    let own = asm.mad_u32(team.half, width, lane);
    (0..width.div_ceil(32))
        .map(|turn| {
            let own = if turn == 0 { own } else { asm.add_u32(own, 32 * turn) };
            let id = asm.mov_b32(-1);
            let place = asm.fold_add(own, at);
            let place = asm.in_reg(Ty::U32, place);
            let inside = asm.setp(Cmp::Lt, Ty::U32, place, length);
            let address = asm.mad_wide_u32(own, 4, first);
            asm.guard(inside, |asm| asm.ld_hint_to(&[id], READ, Ty::S32, address));
            id
        })
        .collect()
}

/// `mask.ids`, of the ids that [`live_ids`] gave. A warp whose columns all are entries passes by.
pub(super) fn mask_ids(asm: &mut Asm, x: &Fold, ids: &[Reg], value: f32) -> Fold {
    let out: Vec<Reg> = x.floats(asm).iter().map(|r| asm.mov_f32(*r)).collect();
    for (part, id) in out.chunks(32).zip(ids) {
        let padding = asm.setp(Cmp::Lt, Ty::S32, *id, 0);
        let mask = asm.ballot(padding);
        let some = asm.setp(Cmp::Ne, Ty::U32, mask, 0);
        asm.if_then(some, |asm| {
            for (i, r) in part.iter().enumerate() {
                let bit = asm.and_b32(mask, 1i64 << i);
                let masked = asm.setp(Cmp::Ne, Ty::U32, bit, 0);
                asm.guard(masked, |asm| asm.mov_to(*r, value));
            }
        });
    }
    Fold::f32(x.rows, x.cols, out)
}
