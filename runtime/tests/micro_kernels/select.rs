//! Selection against a sort, and the faults that others had.

use crate::support::{Guarded, Random, all_kernels};
use tessera_runtime::micro::{Isa, Kernels};

/// Selects and checks margins; returns the count and the slots.
fn topk(kernels: &Kernels, scores: &[f32], k: usize) -> (usize, Vec<i32>) {
    let mut out = Guarded::new(k, -99i32);
    let mut work = Guarded::new(scores.len(), 0x5555_5555_5555_5555u64);
    // SAFETY: n scores, k slots, n words of work.
    let count = unsafe { (kernels.topk)(scores.as_ptr(), scores.len(), k, out.pointer(), work.pointer()) };
    work.checked();
    (count, out.checked().to_vec())
}

/// By sorting, stably: higher first, then lower index.
fn by_sorting(scores: &[f32], k: usize) -> (usize, Vec<i32>) {
    let mut order: Vec<usize> =
        (0..scores.len()).filter(|&i| scores[i].is_finite() || scores[i] == f32::INFINITY).collect();
    order.sort_by(|&a, &b| scores[b].partial_cmp(&scores[a]).expect("no NaN left"));
    order.truncate(k);
    order.sort_unstable();
    let count = order.len();
    let mut slots: Vec<i32> = order.into_iter().map(|i| i as i32).collect();
    slots.resize(k, -1);
    (count, slots)
}

fn check(scores: &[f32], k: usize, what: &str) {
    let expected = by_sorting(scores, k);
    for (isa, kernels) in all_kernels() {
        assert_eq!(topk(kernels, scores, k), expected, "{isa} {what}");
    }
}

#[test]
fn topk_is_exact_for_random_and_tied_scores() {
    let mut random = Random(51);
    for n in (0..40).chain([100, 1000, 4097]) {
        for k in [0, 1, 2, 7, 16, 512, 5000] {
            check(&random.vec(n, |r| r.wide(-20, 20)), k, "random");
            check(&random.vec(n, |r| r.below(3) as f32 - 1.0), k, "tied");
            let specials =
                [f32::NAN, f32::NEG_INFINITY, f32::INFINITY, 0.0, -0.0, 1.0, f32::MIN, 1e-45, -1e-45];
            check(&random.vec(n, |r| specials[r.below(9)]), k, "specials");
        }
    }
}

#[test]
fn many_equal_scores_keep_all_slots_valid() {
    let mut random = Random(52);
    let mut scores = vec![0.0f32; 8320];
    let mut winners = 0;
    while winners < 100 {
        let at = random.below(8320);
        if scores[at] == 0.0 {
            winners += 1;
            scores[at] = winners as f32;
        }
    }
    check(&scores, 2048, "100 winners and zeros");
    let (count, slots) = topk(Kernels::of(Isa::detect()).expect("runs"), &scores, 2048);
    assert_eq!(count, 2048);
    assert!(
        slots.windows(2).all(|w| w[0] < w[1]) && slots[0] >= 0 && slots[2047] < 8320,
        "distinct and in range"
    );
}

#[test]
fn masked_positions_are_never_selected() {
    let mut scores = [f32::NEG_INFINITY; 51];
    scores[5] = 1.0;
    scores[20] = -3e38;
    scores[50] = f32::MIN;
    for (isa, kernels) in all_kernels() {
        let (count, slots) = topk(kernels, &scores, 16);
        assert_eq!((count, &slots[..3]), (3, &[5, 20, 50][..]), "{isa}");
        assert!(slots[3..].iter().all(|&slot| slot == -1), "{isa}");
    }
    // Large negative scores of a row that is not whole vectors, with padding that would win.
    let scores: Vec<f32> = (0..501).map(|i| -70_000.0 - ((i * 7) % 501) as f32).collect();
    check(&scores, 16, "−70000 … −70500");
}

#[test]
fn equal_scores_go_to_the_lower_index_whatever_the_sign_of_zero() {
    for (isa, kernels) in all_kernels() {
        assert_eq!(topk(kernels, &[1.0, -0.0, 0.0, 0.0], 2), (2, vec![0, 1]), "{isa}");
        assert_eq!(topk(kernels, &[0.0, -0.0, 1.0, -0.0], 2), (2, vec![0, 2]), "{isa}");
        assert_eq!(topk(kernels, &[2.5; 9], 3), (3, vec![0, 1, 2]), "{isa}");
        assert_eq!(topk(kernels, &[f32::NAN, 1.0, f32::NAN, 2.0], 3), (2, vec![1, 3, -1]), "{isa}");
        let negative_nan = f32::from_bits(0xffc0_0000);
        assert_eq!(topk(kernels, &[negative_nan, -1.0], 2), (1, vec![1, -1]), "{isa}");
    }
}

#[test]
fn ranked_selection_orders_by_score_then_index_and_nan_last() {
    let mut random = Random(53);
    let values = [3.0, 3.0, -0.0, 0.0, f32::NAN, f32::NEG_INFINITY, f32::INFINITY, -2.0];
    for n in [0, 1, 2, 8, 17, 384] {
        for k in [0, 1, 3, 6, 20] {
            for tied in [false, true] {
                let scores = random.vec(n, |r| if tied { values[r.below(8)] } else { r.unit() });
                let mut order: Vec<i32> = (0..n as i32).collect();
                order.sort_by(|&a, &b| {
                    let (a, b) = (scores[a as usize], scores[b as usize]);
                    b.partial_cmp(&a).unwrap_or(a.is_nan().cmp(&b.is_nan()))
                });
                order.resize(n.max(k), -1);
                for (isa, kernels) in all_kernels() {
                    let mut out = Guarded::new(k, -99i32);
                    // SAFETY: n scores and k slots.
                    unsafe { (kernels.topk_ranked)(scores.as_ptr(), n, k, out.pointer()) };
                    assert_eq!(out.checked(), &order[..k], "{isa} n={n} k={k} of {scores:?}");
                }
            }
        }
    }
}

#[test]
fn block_maxima_ignore_nan_and_obey_force() {
    let scores =
        [1.0, 5.0, f32::NAN, -2.0, f32::NAN, f32::NAN, f32::NEG_INFINITY, f32::NAN, -3.0, -1.0, -9.0];
    for (isa, kernels) in all_kernels() {
        for (forced, expected) in [
            (usize::MAX, [5.0, f32::NEG_INFINITY, -1.0]),
            (1, [5.0, f32::INFINITY, -1.0]),
            (2, [5.0, f32::NEG_INFINITY, f32::INFINITY]),
        ] {
            let mut out = Guarded::new(3, 7.0f32);
            // SAFETY: 11 scores, three blocks of four.
            unsafe { (kernels.block_max)(scores.as_ptr(), 11, 4, forced, out.pointer()) };
            assert_eq!(out.checked(), expected, "{isa} forced {forced}");
        }
        let mut out = Guarded::new(0, 7.0f32);
        // SAFETY: no scores, no blocks.
        unsafe { (kernels.block_max)(scores.as_ptr(), 0, 4, 0, out.pointer()) };
        out.checked();
    }
}

#[test]
fn argmax_is_the_first_of_the_largest() {
    let mut random = Random(54);
    let values = [1.0, 1.0, 0.0, -0.0, f32::NAN, f32::NEG_INFINITY, -5.0, -1e-45];
    let mut cases: Vec<Vec<f32>> = vec![
        vec![],
        vec![f32::NAN; 20],
        vec![f32::NEG_INFINITY; 20],
        vec![f32::NAN, f32::NEG_INFINITY, f32::NAN],
    ];
    for n in (1..70).chain([1000]) {
        cases.push(random.vec(n, |r| r.unit()));
        cases.push(random.vec(n, |r| values[r.below(8)]));
        cases.push(random.vec(n, |r| values[4 + r.below(2)]));
        let mut one = vec![0.0; n];
        one[random.below(n)] = 1.0;
        cases.push(one);
    }
    for x in cases {
        let mut expected = None;
        for (i, &v) in x.iter().enumerate() {
            if !v.is_nan() && expected.is_none_or(|best: usize| v > x[best]) {
                expected = Some(i);
            }
        }
        for (isa, kernels) in all_kernels() {
            // SAFETY: n values.
            let found = unsafe { (kernels.argmax)(x.as_ptr(), x.len()) };
            assert_eq!(found as usize, expected.unwrap_or(0), "{isa} of {x:?}");
        }
    }
}
