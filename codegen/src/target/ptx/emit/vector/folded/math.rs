//! Arithmetic on folded tiles: pairs of neighbours go through the packed instructions.

use super::{Fold, THREADS, Team};
use crate::target::ptx::isa::{Asm, Class, Cmp, Reg, Ty};
use tessera_ir::tile::{Binary, Lanes, Reduce};

/// An operand of `zip`: a tile, or one number for all elements.
#[derive(Clone, Debug)]
pub(super) enum Term<'t> {
    /// A tile.
    Tile(&'t Fold),
    /// A constant.
    Number(f32),
}

impl Term<'_> {
    fn shape(&self) -> (usize, usize) {
        match self {
            Term::Tile(t) => (t.rows, t.cols),
            Term::Number(_) => (1, 1),
        }
    }
}

/// `zip`; a column vector and a number are repeated.
pub(super) fn zip(asm: &mut Asm, f: Binary, a: &Term<'_>, b: &Term<'_>) -> Fold {
    let ((ra, ca), (rb, cb)) = (a.shape(), b.shape());
    let (rows, cols) = (ra.max(rb), ca.max(cb));
    let mut regs = |t: &Term<'_>| match t {
        Term::Tile(t) => t.floats(asm),
        Term::Number(n) => vec![asm.mov_f32(*n)],
    };
    let (a, b) = (regs(a), regs(b));
    let width = Fold::width(cols);
    let at = |list: &[Reg], i: usize| if list.len() == 1 { list[0] } else { list[i] };
    let mut out = Vec::with_capacity(width);
    let packed = matches!(f, Binary::Add | Binary::Sub | Binary::Mul) && width > 1;
    if packed {
        let whole = |asm: &mut Asm, list: &[Reg]| (list.len() == 1).then(|| asm.splat_f32x2(list[0]));
        let (same_a, same_b) = (whole(asm, &a), whole(asm, &b));
        for i in (0..width).step_by(2) {
            let pair = |asm: &mut Asm, same: Option<Reg>, list: &[Reg]| match same {
                Some(r) => r,
                None => asm.join2(list[i], list[i + 1]),
            };
            let (x, y) = (pair(asm, same_a, &a), pair(asm, same_b, &b));
            let z = match f {
                Binary::Add => asm.add_f32x2(x, y),
                Binary::Sub => asm.sub_f32x2(x, y),
                _ => asm.mul_f32x2(x, y),
            };
            out.extend(asm.split2(z, Class::F32));
        }
    } else {
        for i in 0..width {
            let (x, y) = (at(&a, i), at(&b, i));
            out.push(match f {
                Binary::Add => asm.add_f32(x, y),
                Binary::Sub => asm.sub_f32(x, y),
                Binary::Mul => asm.mul_f32(x, y),
                Binary::Div => asm.div_f32(x, y),
                Binary::Min => asm.min_nan_f32(x, y),
                Binary::Max => asm.max_nan_f32(x, y),
                Binary::CopySign => asm.copysign_f32(y, x),
            });
        }
    }
    Fold::f32(rows, cols, out)
}

/// `eˣ` of each element as `2^(x·log₂e)`: the product's rounding moves the result by at most `|x|·2⁻²⁴` of itself, the
/// instruction by two units in the last place.
pub(super) fn exp(asm: &mut Asm, x: &Fold) -> Fold {
    let scaled = zip(asm, Binary::Mul, &Term::Tile(x), &Term::Number(std::f32::consts::LOG2_E));
    let out = scaled.floats(asm).iter().map(|r| asm.ex2_ftz_f32(*r)).collect();
    Fold::f32(x.rows, x.cols, out)
}

/// Whether `lanes` is the order in which the threads add `cols` columns: each half on its own, then both.
pub(super) fn in_halves(lanes: Lanes, cols: usize) -> bool {
    lanes.count == 2 && 2 * lanes.chunk == cols
}

/// `reduce` along columns: each thread its own columns ascending, then both threads of a row. Sums of both halves are equal
/// bit for bit, since addition commutes.
pub(super) fn reduce(asm: &mut Asm, team: &Team, f: Reduce, x: &Fold) -> Fold {
    let regs = x.floats(asm);
    let regs: Vec<Reg> = match f {
        Reduce::Sum | Reduce::Max => regs,
        Reduce::AbsMax => regs.iter().map(|r| asm.abs_f32(*r)).collect(),
    };
    let one = |asm: &mut Asm, a: Reg, b: Reg| match f {
        Reduce::Sum => asm.add_f32(a, b),
        Reduce::Max | Reduce::AbsMax => asm.max_nan_f32(a, b),
    };
    let mut all = regs[0];
    for r in &regs[1..] {
        all = one(asm, all, *r);
    }
    if x.cols > 1 {
        let other = team.exchanged(asm, all);
        all = one(asm, all, other);
    }
    Fold::f32(x.rows, 1, vec![all])
}

/// `any`: 1 if an element of any thread is above 0. Threads beyond the tile's last row do not count.
pub(super) fn any(asm: &mut Asm, team: &Team, x: &Fold) -> Reg {
    let found = asm.pred_const(false);
    for r in x.floats(asm) {
        let above = asm.setp(Cmp::Gt, Ty::F32, r, 0.0f32);
        asm.or_pred_to(found, found, above);
    }
    if x.rows < super::ROWS {
        let inside = asm.setp(Cmp::Lt, Ty::U32, team.row, x.rows);
        asm.and_pred_to(found, found, inside);
    }
    let found = asm.bar_any(team.barrier, THREADS, found);
    asm.pred_u32(found)
}
