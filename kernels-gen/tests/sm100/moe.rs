//! Products of experts: empty experts, all rows to one, sizes around the tile size.

use crate::{Rng, check, fragment, scheduled};
use std::collections::BTreeMap;
use tessera_kernels::Family;
use tessera_kernels::sm100::Knobs;

const EXPERTS: usize = 5;
const CHOICES: usize = 3;

fn lists(fragment: &str) -> String {
    format!(
        "module @{fragment} {{\n  %0 = input \"x0\" : INPUT mx8\n  %1 = input \"x1\" : [T, {CHOICES}] i32\n  \
         %2 = weight \"w2\" : [{EXPERTS}, N, K] mx4\n  %3 = input \"x3\" : [{}] i32\n  \
         %4 = input \"x4\" : [{CHOICES}*T] i32\n  %5 = input \"x5\" : [{CHOICES}*T] i32\n",
        EXPERTS + 1
    )
}

fn up(n: usize, k: usize) -> String {
    let head = lists("moe_up").replace("INPUT", &format!("[T, {k}]"));
    let t = format!("[T, {CHOICES}, N]");
    let tail = format!(
        "  %6 = weight \"w6\" : [{EXPERTS}, N, K] mx4\n  %7 = input \"x7\" : [T, {CHOICES}] f32\n  \
         %8 = moe.linear %0, %1, %2, %3, %4, %5 : {t} bf16\n  %9 = moe.linear %0, %1, %6, %3, %4, %5 : {t} bf16\n  \
         %10 = swiglu %8, %9, %7 {{limit = 4.0}} : {t} bf16\n  %11 = quantize %10 : {t} mx8\n  \
         output \"y0\" = %11\n}}\n"
    );
    format!("{head}{tail}").replace('N', &n.to_string()).replace('K', &k.to_string())
}

fn down(n: usize, k: usize) -> String {
    let head = lists("moe_linear").replace("INPUT", &format!("[T, {CHOICES}, {k}]"));
    let tail = format!(
        "  %6 = moe.linear %0, %1, %2, %3, %4, %5 : [T, {CHOICES}, N] bf16\n  output \"y0\" = %6\n}}\n"
    );
    format!("{head}{tail}").replace('N', &n.to_string()).replace('K', &k.to_string())
}

/// Choices so that expert e gets `sizes[e]` of them, in any order, sorted by expert.
fn sorted(sizes: &[usize], seed: u64) -> (usize, BTreeMap<&'static str, Vec<i32>>) {
    let mut experts: Vec<i32> =
        sizes.iter().enumerate().flat_map(|(e, n)| std::iter::repeat_n(e as i32, *n)).collect();
    assert_eq!(experts.len() % CHOICES, 0, "whole rows");
    let mut rng = Rng::new(seed);
    for i in (1..experts.len()).rev() {
        experts.swap(i, rng.below(i + 1));
    }
    let mut offsets = vec![0];
    let (mut pairs, mut rows) = (Vec::new(), Vec::new());
    for e in 0..EXPERTS as i32 {
        for (i, _) in experts.iter().enumerate().filter(|(_, x)| **x == e) {
            pairs.push(i as i32);
            rows.push((i / CHOICES) as i32);
        }
        offsets.push(pairs.len() as i32);
    }
    let t = experts.len() / CHOICES;
    (t, BTreeMap::from([("x1", experts), ("x3", offsets), ("x4", pairs), ("x5", rows)]))
}

fn patterns() -> Vec<[usize; EXPERTS]> {
    let mut all = vec![[0; 5], [0, 0, 3, 0, 0], [51, 0, 0, 0, 0], [0, 0, 0, 0, 48], [1, 2, 3, 4, 5]];
    for n in [15, 16, 17, 31, 32, 33] {
        let rest = (3 - (n + 2) % 3) % 3;
        all.push([n, 0, 2, rest, 0]);
    }
    all.push([34, 16, 1, 0, 15]);
    all
}

#[test]
fn gate_and_up_of_experts_equal_the_oracle() {
    for (n, k) in [(128, 256), (64, 96), (160, 128)] {
        let module = fragment(&up(n, k));
        for rows in [1, 64] {
            let kernel = scheduled(Family::MoeUp, &module, &Knobs::for_rows(rows));
            for (i, sizes) in patterns().iter().enumerate() {
                let (t, lists) = sorted(sizes, i as u64);
                check(&module, &kernel, &[("T", t)], &lists, 0.0);
            }
        }
    }
}

#[test]
fn down_of_experts_equals_the_oracle() {
    for (n, k) in [(256, 128), (24, 64)] {
        let module = fragment(&down(n, k));
        for rows in [1, 64] {
            let kernel = scheduled(Family::MoeLinear, &module, &Knobs::for_rows(rows));
            for (i, sizes) in patterns().iter().enumerate() {
                let (t, lists) = sorted(sizes, i as u64);
                check(&module, &kernel, &[("T", t)], &lists, 0.0);
            }
        }
    }
}
