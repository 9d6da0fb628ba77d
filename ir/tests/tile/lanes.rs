//! Orders of sums: a role's lanes against a second implementation, and against f64.

use super::support::{empty, noise, output, sm100};
use tessera_ir::graph::interp::Tensor;

/// The sum of the elements of lanes `low..low + span·step`, `step` apart, as the tree adds them: halves first.
fn tree(lane: &dyn Fn(usize) -> f32, low: usize, span: usize, step: usize) -> f32 {
    if span == 1 {
        return lane(low);
    }
    // The last addition joins what began at even and at odd lanes.
    tree(lane, low, span / 2, 2 * step) + tree(lane, low + step, span / 2, 2 * step)
}

/// Sum of `terms` as a role of `count` lanes of chunks adds them; `add` takes an element into its lane.
fn in_lanes(n: usize, count: usize, chunk: usize, add: impl Fn(f32, usize) -> f32) -> f32 {
    let lane = |l: usize| (0..n).filter(|i| (i / chunk) % count == l).fold(0.0, &add);
    let groups = count.div_ceil(32);
    let group = |g: usize| tree(&lane, 32 * g, count.min(32), 1);
    (1..groups).fold(group(0), |sum, g| sum + group(g))
}

#[test]
fn sums_and_dots_follow_the_lanes_of_the_role() {
    let n = 1003;
    // Of many sizes, so that nearly every order gives other bits.
    let scaled = |seed: u32| -> Vec<f32> {
        noise(n, seed).iter().enumerate().map(|(i, v)| v * f32::powi(2.0, (i * 7 % 13) as i32)).collect()
    };
    let (x, w) = (scaled(1), scaled(2));
    let params = format!("param %x : [2, {n}] f32 read param %y : [1, 2] f32 write");
    let body = format!(
        "%one = index.const {{value = 1}} : index
         %a = load %x, (%z, %z) {{rows = 1, cols = {n}}} : tile<1x{n}, f32>
         %b = load %x, (%one, %z) {{rows = 1, cols = {n}}} : tile<1x{n}, f32>
         %s = reduce %a {{f = sum, axis = 1}} : tile<1x1, f32> store %s, %y, (%z, %z)
         %d = dot %a, %b : tile<1x1, f32> store %d, %y, (%z, %one)"
    );
    let exact = (
        x.iter().map(|v| f64::from(*v)).sum::<f64>(),
        x.iter().zip(&w).map(|(x, w)| f64::from(*x) * f64::from(*w)).sum::<f64>(),
    );
    let mut orders = std::collections::BTreeSet::new();
    for (count, chunk) in [
        (1, 1),
        (2, 32),
        (4, 1),
        (8, 3),
        (16, 1),
        (16, 4),
        (32, 1),
        (32, 8),
        (64, 1),
        (96, 2),
        (128, 4),
        (256, 1),
        (1024, 4),
    ] {
        let kernel = sm100(&format!("lanes {count}x{chunk}"), &params, "", &body);
        let got = output(&kernel, &[Tensor::f32([2, n], [x.clone(), w.clone()].concat()), empty(&[1, 2])]);
        let sum = in_lanes(n, count, chunk, |sum, i| sum + x[i]);
        let dot = in_lanes(n, count, chunk, |sum, i| x[i].mul_add(w[i], sum));
        assert_eq!([got[0].to_bits(), got[1].to_bits()], [sum.to_bits(), dot.to_bits()], "{count}x{chunk}");
        for (got, want, size) in [(got[0], exact.0, 1e5), (got[1], exact.1, 1e9)] {
            assert!((f64::from(got) - want).abs() <= size * 1e-6, "{count}x{chunk}: {got}, not {want}");
        }
        orders.insert((sum.to_bits(), dot.to_bits()));
    }
    assert!(orders.len() > 9, "the numbers hardly tell orders apart: {} results", orders.len());
}

/// 2²⁴ swallows a one that is added to it, but not two ones that met before.
#[test]
fn a_chunk_stays_in_its_lane() {
    let sum = |lanes: &str| {
        let params = "param %x : [1, 8] f32 read param %y : [1, 1] f32 write";
        let body = "%a = load %x, (%z, %z) {rows = 1, cols = 8} : tile<1x8, f32>
            %s = reduce %a {f = sum, axis = 1} : tile<1x1, f32> store %s, %y, (%z, %z)";
        let x = vec![16_777_216.0, 0.0, 1.0, 1.0, 0.0, 0.0, 0.0, 0.0];
        output(&sm100(lanes, params, "", body), &[Tensor::f32([1, 8], x), empty(&[1, 1])])[0]
    };
    assert_eq!(sum("lanes 1x1"), 16_777_216.0, "one lane adds the ones one by one");
    assert_eq!(sum("lanes 2x1"), 16_777_216.0, "one of them is in the lane of 2²⁴");
    assert_eq!(sum("lanes 4x1"), 16_777_216.0, "lane 2 meets lane 0 before lane 3 does");
    assert_eq!(sum("lanes 2x2"), 16_777_218.0, "both are in lane 1");
    assert_eq!(sum("lanes 4x2"), 16_777_218.0, "both are in lane 1");
    assert_eq!(sum("lanes 2x4"), 16_777_216.0, "all are in lane 0");
}
