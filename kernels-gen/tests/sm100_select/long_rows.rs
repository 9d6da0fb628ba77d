//! Rows as long as a vocabulary: sums, the largest element, rows dealt in turn.

use crate::case::{Case, noise, sym};
use tessera_ir::graph::Op;
use tessera_ir::{Dim, Format};
use tessera_kernels::Family;

/// Columns of the released vocabulary.
const WIDTH: usize = 129_280;

/// Sums of every second of `2·rows` rows and `rows` others, of which `special` gives some elements; both the sums and where
/// their largest element lies.
fn largest(rows: usize, special: impl Fn(usize, usize) -> Option<f32>) {
    let mut case = Case::new(&[("Q", rows)]);
    let value = |at: usize| special(at / WIDTH, at % WIDTH).unwrap_or_else(|| noise(2, at));
    let logits: Vec<f32> = (0..2 * rows * WIDTH)
        .map(|at| if at / WIDTH % 2 == 1 { value(at / WIDTH / 2 * WIDTH + at % WIDTH) } else { f32::NAN })
        .collect();
    let twice = sym("Q").checked_times(2).expect("a small number");
    let logits = case.reals("logits", &[twice, WIDTH.into()], &logits);
    let bias = case.reals("bias", &[sym("Q"), WIDTH.into()], &vec![0.25; rows * WIDTH]);
    let x = case.b.emit(Op::EveryRow { x: logits, step: 2, offset: 1 }, Format::F32).expect("well typed");
    let sum = case.b.emit(Op::Add { a: x, b: bias }, Format::F32).expect("well typed");
    let best = case.b.emit(Op::Argmax { x: sum }, Format::I32).expect("well typed");
    case.b.output("sum", sum);
    case.b.output("best", best);
    case.check(Family::Rows);
}

#[test]
fn the_largest_element_of_a_long_row() {
    largest(2, |_, _| None);
    largest(0, |_, _| None);
    // Equal ones in one piece and in several.
    largest(1, |_, i| [40, 41, 100_000].contains(&i).then_some(9.0));
    // NaN never wins; −∞ does where there is nothing else.
    largest(1, |_, i| (i < 70_000).then_some(f32::NAN));
    largest(1, |_, i| Some(if i == 129_000 { f32::NEG_INFINITY } else { f32::NAN }));
    largest(1, |_, _| Some(f32::NAN));
    largest(1, |_, _| Some(f32::NEG_INFINITY));
}

#[test]
fn long_rows_dealt_in_turn() {
    let rows = 2;
    let mut case = Case::new(&[("Q", rows)]);
    let parts = (0..3u32)
        .map(|i| {
            let data: Vec<f32> = (0..rows * WIDTH).map(|at| noise(i, at)).collect();
            case.reals(&format!("part{i}"), &[sym("Q"), Dim::Fixed(WIDTH)], &data)
        })
        .collect();
    let y = case.b.emit(Op::InterleaveRows { parts }, Format::F32).expect("well typed");
    case.b.output("y", y);
    case.check(Family::Rows);
}
