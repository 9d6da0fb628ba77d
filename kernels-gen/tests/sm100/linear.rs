//! Dense products: formats, odd numbers of rows and columns, scale counts, groups, gate and up halves.

use crate::{check, fragment, scheduled};
use std::collections::BTreeMap;
use tessera_kernels::Family;
use tessera_kernels::sm100::Knobs;

const ROWS: [usize; 6] = [0, 1, 5, 17, 64, 130];

fn product(x: &str, w: &str, y: &str, (n, k): (usize, usize), groups: usize) -> String {
    let out = if groups == 1 { format!("[T, {n}]") } else { format!("[T, {groups}, {}]", n / groups) };
    let input = if groups == 1 { format!("[T, {k}]") } else { format!("[T, {groups}, {k}]") };
    format!(
        "module @linear {{\n  %0 = input \"x0\" : {input} {x}\n  %1 = weight \"w1\" : [{n}, {k}] {w}\n  \
         %2 = linear %0, %1 {{groups = {groups}}} : {out} {y}\n  output \"y0\" = %2\n}}\n"
    )
}

fn run(text: &str, rows: &[usize], knobs: &Knobs) {
    let module = fragment(text);
    let kernel = scheduled(Family::Linear, &module, knobs);
    for t in rows {
        check(&module, &kernel, &[("T", *t)], &BTreeMap::new(), 0.0);
    }
}

#[test]
fn scaled_products_equal_the_oracle() {
    for (n, k) in [(24, 32), (128, 96), (160, 160), (300, 544), (256, 256)] {
        for knobs in [Knobs::for_rows(1), Knobs::for_rows(64)] {
            run(&product("mx8", "w8", "bf16", (n, k), 1), &ROWS, &knobs);
        }
    }
    run(&product("mx8", "w8", "bf16", (130, 256), 1), &[130, 250], &Knobs::for_rows(4096));
}

#[test]
fn pairs_of_cores_equal_the_oracle() {
    let knobs = Knobs { pair: true, ..Knobs::for_rows(4096) };
    let module = fragment(&product("mx8", "w8", "bf16", (512, 512), 1));
    assert_eq!(scheduled(Family::Linear, &module, &knobs).cluster, 2);
    run(&product("mx8", "w8", "bf16", (512, 512), 1), &[1, 130, 250], &knobs);
    run(&product("bf16", "bf16", "f32", (256, 504), 1), &[17], &knobs);
}

#[test]
fn plain_products_equal_the_oracle() {
    for (n, k, y) in [(4, 64, "bf16"), (8, 256, "f32"), (24, 64, "f32"), (136, 200, "bf16")] {
        run(&product("bf16", "bf16", y, (n, k), 1), &ROWS, &Knobs::for_rows(6));
    }
}

/// The order of the sum differs: blocks of 64 columns, not of 32.
#[test]
fn scaled_weights_of_plain_rows_are_near_the_oracle() {
    let module = fragment(&product("bf16", "w8", "bf16", (128, 256), 2));
    let kernel = scheduled(Family::Linear, &module, &Knobs::for_rows(6));
    for t in [1, 17] {
        check(&module, &kernel, &[("T", t)], &BTreeMap::new(), 8e-3);
    }
}

#[test]
fn groups_of_a_weight_keep_apart() {
    for (n, k, groups) in [(128, 128, 2), (256, 128, 2), (64, 64, 2)] {
        run(&product("mx8", "w8", "bf16", (n, k), groups), &[1, 17], &Knobs::for_rows(64));
    }
}

fn gate_up(n: usize, k: usize) -> String {
    format!(
        "module @gate {{\n  %0 = input \"x0\" : [T, {k}] mx8\n  %1 = weight \"w1\" : [{n}, {k}] w8\n  \
         %2 = weight \"w2\" : [{n}, {k}] w8\n  %3 = linear %0, %1 {{groups = 1}} : [T, {n}] bf16\n  \
         %4 = linear %0, %2 {{groups = 1}} : [T, {n}] bf16\n  \
         %5 = swiglu %3, %4, _ {{limit = 4.0}} : [T, {n}] bf16\n  %6 = quantize %5 : [T, {n}] mx8\n  \
         output \"y0\" = %6\n}}\n"
    )
}

#[test]
fn gate_and_up_halves_equal_the_oracle() {
    for (n, k) in [(128, 256), (96, 64), (288, 320)] {
        run(&gate_up(n, k), &[0, 1, 5, 17, 130], &Knobs::for_rows(6));
        run(&gate_up(n, k), &[130], &Knobs::for_rows(4096));
    }
}
