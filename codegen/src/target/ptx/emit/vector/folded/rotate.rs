//! `rotate` of a folded tile.

use super::{Fold, Team};
use crate::target::ptx::emit::READ;
use crate::target::ptx::isa::{Asm, Cmp, Reg, Ty};

/// Pairs whose angles are loaded together.
const GROUP: usize = 4;

/// Rotates the last `2·half_width` columns by the angles at `table`: cosines, then sines. Each half of the threads turns those
/// of its columns that are among the last.
pub(super) fn rotate(
    asm: &mut Asm,
    team: &Team,
    x: &Fold,
    table: Reg,
    half_width: usize,
    inverse: bool,
) -> Fold {
    let width = Fold::width(x.cols);
    let first = x.cols - 2 * half_width;
    let out: Vec<Reg> = x.floats(asm).iter().map(|r| asm.mov_f32(*r)).collect();
    for half in 0..2 {
        // The thread's first rotated column, and the pair it belongs to.
        let from = first.saturating_sub(half * width).min(width);
        if from == width {
            continue;
        }
        let pair = (half * width + from - first) / 2;
        let mine = asm.setp(Cmp::Eq, Ty::U32, team.half, half);
        asm.if_then(mine, |asm| {
            for (i, columns) in out[from..].chunks(2 * GROUP).enumerate() {
                let at = |part: usize| table.at(4 * (part * half_width + pair + i * GROUP) as i64);
                let n = columns.len() / 2;
                let (cos, sin) = (asm.ld_hint(READ, Ty::F32, n, at(0)), asm.ld_hint(READ, Ty::F32, n, at(1)));
                for (j, column) in columns.chunks(2).enumerate() {
                    turn(asm, [column[0], column[1]], cos[j], sin[j], inverse);
                }
            }
        });
    }
    Fold::f32(x.rows, x.cols, out)
}

/// `(e·c − o·s, e·s + o·c)`, each product and sum rounded; with −s for `inverse`.
fn turn(asm: &mut Asm, [even, odd]: [Reg; 2], cos: Reg, sin: Reg, inverse: bool) {
    let (ec, os) = (asm.mul_f32(even, cos), asm.mul_f32(odd, sin));
    let (es, oc) = (asm.mul_f32(even, sin), asm.mul_f32(odd, cos));
    if inverse {
        asm.add_f32_to(even, ec, os);
        asm.sub_f32_to(odd, oc, es);
    } else {
        asm.sub_f32_to(even, ec, os);
        asm.add_f32_to(odd, es, oc);
    }
}
