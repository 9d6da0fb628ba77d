//! Ops of one role on one tile.

use super::support::{empty, empty_ints, int_output, noise, output, run, vector};
use tessera_ir::graph::interp::{Tensor, round_trip};
use tessera_ir::tile::Unary;
use tessera_ir::{Bindings, Format};

const XY: &str = "param %x : [1, 40] f32 read param %y : [1, 40] f32 write";
const LOAD: &str = "%v = load %x, (%z, %z) {rows = 1, cols = 40} : tile<1x40, f32>";

/// Applies one `map` to a row.
fn mapped(f: Unary, x: &[f32]) -> Vec<f32> {
    let body = format!("{LOAD} %w = map %v {{f = {}}} : tile<1x40, f32> store %w, %y, (%z, %z)", f.name());
    output(&vector(XY, "", &body), &[Tensor::f32([1, 40], x.to_vec()), empty(&[1, 40])])
}

#[test]
fn functions_of_one_element() {
    let mut x = noise(40, 1);
    x.iter_mut().for_each(|v| *v *= 30.0);
    (x[0], x[1], x[2]) = (0.0, -0.0, 25.0);
    for f in Unary::ALL {
        for (x, y) in x.iter().zip(mapped(*f, &x)) {
            let d = f64::from(*x);
            let (want, bound) = match f {
                Unary::Neg => (-d, 0.0),
                Unary::Abs => (d.abs(), 0.0),
                Unary::Sqrt => (d.sqrt(), 1e-7),
                Unary::Rsqrt => (1.0 / d.sqrt(), 2e-7),
                Unary::Exp => (d.exp(), 1e-7),
                Unary::Sigmoid => (1.0 / (1.0 + (-d).exp()), 2e-7),
                Unary::Silu => (d / (1.0 + (-d).exp()), 3e-7),
                Unary::SqrtSoftplus => (if d > 20.0 { d } else { d.exp().ln_1p() }.sqrt(), 2e-7),
                Unary::Relu => (d.max(0.0), 0.0),
            };
            let y = f64::from(y);
            let close = (y - want).abs() <= bound * want.abs() || (y.is_nan() && want.is_nan()) || y == want;
            assert!(close, "{}({x}) = {y}, not {want}", f.name());
        }
    }
    assert!(mapped(Unary::Relu, &[f32::NAN; 40])[0].is_nan(), "a NaN stays");
}

#[test]
fn functions_of_two_elements_repeat_single_rows_and_columns() {
    let params = "param %a : [2, 3] f32 read param %b : [1, 3] f32 read param %c : [2, 1] f32 read
        param %y : [2, 3] f32 write";
    let loads = "%a0 = load %a, (%z, %z) {rows = 2, cols = 3} : tile<2x3, f32>
        %b0 = load %b, (%z, %z) {rows = 1, cols = 3} : tile<1x3, f32>
        %c0 = load %c, (%z, %z) {rows = 2, cols = 1} : tile<2x1, f32>";
    let tensors = [
        Tensor::f32([2, 3], vec![1.0, -2.0, 3.0, -4.0, 5.0, -6.0]),
        Tensor::f32([1, 3], vec![2.0, -1.0, 0.5]),
        Tensor::f32([2, 1], vec![10.0, -1.0]),
        empty(&[2, 3]),
    ];
    let apply = |x: &str, y: &str, f: &str| {
        let body = format!("{loads} %r = zip {x}, {y} {{f = {f}}} : tile<2x3, f32> store %r, %y, (%z, %z)");
        output(&vector(params, "", &body), &tensors)
    };
    assert_eq!(apply("%a0", "%b0", "add"), [3.0, -3.0, 3.5, -2.0, 4.0, -5.5]);
    assert_eq!(apply("%a0", "%c0", "mul"), [10.0, -20.0, 30.0, 4.0, -5.0, 6.0]);
    assert_eq!(apply("%b0", "%c0", "sub"), [-8.0, -11.0, -9.5, 3.0, 0.0, 1.5]);
    assert_eq!(apply("%a0", "%b0", "div"), [0.5, 2.0, 6.0, -2.0, -5.0, -12.0]);
    assert_eq!(apply("%a0", "%b0", "min"), [1.0, -2.0, 0.5, -4.0, -1.0, -6.0]);
    assert_eq!(apply("%a0", "%b0", "max"), [2.0, -1.0, 3.0, 2.0, 5.0, 0.5]);
    assert_eq!(apply("%a0", "%c0", "copysign"), [1.0, 2.0, 3.0, -4.0, -5.0, -6.0]);
}

#[test]
fn sums_along_a_row_use_sixteen_lanes_and_a_tree() {
    let body = format!("{LOAD} %s = reduce %v {{f = sum, axis = 1}} : tile<1x1, f32> store %s, %o, (%z, %z)");
    let params = "param %x : [1, 40] f32 read param %o : [1, 1] f32 write";
    let kernel = vector(params, "", &body);
    // Lane 0 gets elements 0, 16 and 32: 2²⁴ + 1 + 1 stays 2²⁴, since each step is rounded. Any other grouping of
    // these elements gives another sum.
    let mut x = vec![0.0; 40];
    (x[0], x[16], x[32]) = (16_777_216.0, 1.0, 1.0);
    assert_eq!(output(&kernel, &[Tensor::f32([1, 40], x.clone()), empty(&[1, 1])]), [16_777_216.0]);
    // Lanes 0 and 8 meet first: their sum cancels before the ones are added.
    x[8] = -16_777_216.0;
    (x[16], x[32], x[4], x[12]) = (0.0, 0.0, 1.0, 1.0);
    assert_eq!(output(&kernel, &[Tensor::f32([1, 40], x), empty(&[1, 1])]), [2.0]);
}

#[test]
fn reductions() {
    let params = "param %x : [3, 2] f32 read param %rows : [1, 2] f32 write param %cols : [3, 1] f32 write";
    let reduce = |f: &str, x: Vec<f32>| {
        let body = format!(
            "%v = load %x, (%z, %z) {{rows = 3, cols = 2}} : tile<3x2, f32>
             %a = reduce %v {{f = {f}, axis = 0}} : tile<1x2, f32> store %a, %rows, (%z, %z)
             %b = reduce %v {{f = {f}, axis = 1}} : tile<3x1, f32> store %b, %cols, (%z, %z)"
        );
        let tensors = [Tensor::f32([3, 2], x), empty(&[1, 2]), empty(&[3, 1])];
        let out =
            run(&vector(params, "", &body), &Bindings::new(), &tensors).unwrap_or_else(|e| panic!("{e}"));
        [out[1].reals().expect("reals").to_vec(), out[2].reals().expect("reals").to_vec()].concat()
    };
    let x = vec![1.0, -7.0, 3.0, 4.0, -5.0, 6.0];
    assert_eq!(reduce("sum", x.clone()), [-1.0, 3.0, -6.0, 7.0, 1.0]);
    assert_eq!(reduce("max", x.clone()), [3.0, 6.0, 1.0, 4.0, 6.0]);
    assert_eq!(reduce("absmax", x), [5.0, 7.0, 7.0, 4.0, 6.0]);
    let with_nan = reduce("max", vec![1.0, f32::NAN, 3.0, 4.0, 5.0, 6.0]);
    assert!(with_nan[1].is_nan() && with_nan[2].is_nan() && with_nan[0] == 5.0, "{with_nan:?}");
}

#[test]
fn shapes_change_without_arithmetic() {
    let params = "param %x : [2, 6] f32 read param %y : [2, 2] f32 write";
    let body = "%v = load %x, (%z, %z) {rows = 2, cols = 6} : tile<2x6, f32>
        %r = reshape %v {rows = 3, cols = 4} : tile<3x4, f32>
        %s = slice %r {row = 1, rows = 2, col = 2, cols = 2} : tile<2x2, f32>
        store %s, %y, (%z, %z)";
    let x = (0..12).map(|i| i as f32).collect();
    assert_eq!(
        output(&vector(params, "", body), &[Tensor::f32([2, 6], x), empty(&[2, 2])]),
        [6., 7., 10., 11.]
    );
}

#[test]
fn casts_round_once() {
    let x = noise(64, 3);
    for (name, format) in
        [("bf16", Format::BF16), ("mx8", Format::MX8), ("kv4", Format::KV4), ("index4", Format::INDEX4)]
    {
        let params = format!("param %x : [2, 32] f32 read param %y : [2, 32] {name} write");
        let body = format!(
            "%v = load %x, (%z, %z) {{rows = 2, cols = 32}} : tile<2x32, f32>
             %c = cast %v {{format = {name}}} : tile<2x32, {name}> store %c, %y, (%z, %z)"
        );
        let got = output(&vector(&params, "", &body), &[Tensor::f32([2, 32], x.clone()), empty(&[2, 32])]);
        let want =
            [round_trip(&x[..32], format).expect("a row"), round_trip(&x[32..], format).expect("a row")];
        assert_eq!(got, want.concat(), "{name}");
    }
}

#[test]
fn rotations_turn_the_last_pairs() {
    let params = "param %x : [2, 6] f32 read param %t : [1, 4] f32 read param %y : [2, 6] f32 write";
    let rotate = |inverse: bool| {
        let body = format!(
            "%v = load %x, (%z, %z) {{rows = 2, cols = 6}} : tile<2x6, f32>
             %t0 = load %t, (%z, %z) {{rows = 1, cols = 4}} : tile<1x4, f32>
             %r = rotate %v, %t0 {{inverse = {inverse}}} : tile<2x6, f32> store %r, %y, (%z, %z)"
        );
        let x = vec![9.0, 8.0, 1.0, 0.0, 0.0, 1.0, 7.0, 6.0, 2.0, 1.0, 3.0, -1.0];
        // A quarter turn for the first pair, none for the second.
        let table = vec![0.0, 1.0, 1.0, 0.0];
        let tensors = [Tensor::f32([2, 6], x), Tensor::f32([1, 4], table), empty(&[2, 6])];
        output(&vector(params, "", &body), &tensors)
    };
    assert_eq!(rotate(false), [9.0, 8.0, 0.0, 1.0, 0.0, 1.0, 7.0, 6.0, -1.0, 2.0, 3.0, -1.0]);
    assert_eq!(rotate(true), [9.0, 8.0, 0.0, -1.0, 0.0, 1.0, 7.0, 6.0, 1.0, -2.0, 3.0, -1.0]);
}

#[test]
fn angles_are_cosines_then_sines() {
    let params = "param %p : [1] i32 read param %y : [1, 4] f32 write";
    let body = "%pos = index.read %p, (%z) : index
        %a = angles %pos {rope = {dim = 4, theta = 100.0, yarn = none}} : tile<1x4, f32> store %a, %y, (%z, %z)";
    let got = output(&vector(params, "", body), &[Tensor::i32([1], vec![7]), empty(&[1, 4])]);
    // Frequencies 100⁰ and 100^(−1/2).
    for (got, want) in got.iter().zip([7f64.cos(), 0.7f64.cos(), 7f64.sin(), 0.7f64.sin()]) {
        assert!((f64::from(*got) - want).abs() < 1e-7, "{got} {want}");
    }
}

#[test]
fn selections() {
    let scores = vec![1.0, 5.0, f32::NAN, 5.0, f32::NEG_INFINITY, 2.0, 9.0];
    let select = |op: &str, k: usize| {
        let params = format!("param %x : [1, 7] f32 read param %y : [1, {k}] i32 write");
        let body = format!(
            "%v = load %x, (%z, %z) {{rows = 1, cols = 7}} : tile<1x7, f32>
             %n = index.const {{value = 6}} : index
             %r = {op} : tile<1x{k}, i32> store %r, %y, (%z, %z)"
        );
        int_output(&vector(&params, "", &body), &[Tensor::f32([1, 7], scores.clone()), empty_ints(&[1, k])])
    };
    // Of the first six: 5 at 1, 5 at 3, 2 at 5, 1 at 0; never NaN or −∞.
    assert_eq!(select("topk %v, %n {k = 1}", 1), [1]);
    assert_eq!(select("topk %v, %n {k = 3}", 3), [1, 3, 5]);
    assert_eq!(select("topk %v, %n {k = 6}", 6), [0, 1, 3, 5, -1, -1]);
    assert_eq!(select("topk.ranked %v {k = 7}", 7), [6, 1, 3, 5, 0, 4, 2]);
    assert_eq!(select("argmax %v", 1), [6]);
    let params = "param %x : [1, 7] f32 read param %i : [1, 3] i32 read param %y : [1, 3] f32 write";
    let body = "%v = load %x, (%z, %z) {rows = 1, cols = 7} : tile<1x7, f32>
        %ids = load %i, (%z, %z) {rows = 1, cols = 3} : tile<1x3, i32>
        %r = pick %v, %ids : tile<1x3, f32> store %r, %y, (%z, %z)";
    let ids = Tensor::i32([1, 3], vec![6, 0, 5]);
    assert_eq!(
        output(&vector(params, "", body), &[Tensor::f32([1, 7], scores), ids, empty(&[1, 3])]),
        [9., 1., 2.]
    );
}

#[test]
fn argmax_prefers_the_lower_position_and_any_number_over_nan() {
    let params = "param %x : [1, 3] f32 read param %y : [1, 1] i32 write";
    let body = "%v = load %x, (%z, %z) {rows = 1, cols = 3} : tile<1x3, f32>
        %r = argmax %v : tile<1x1, i32> store %r, %y, (%z, %z)";
    let kernel = vector(params, "", body);
    let best = |x: [f32; 3]| int_output(&kernel, &[Tensor::f32([1, 3], x.to_vec()), empty_ints(&[1, 1])])[0];
    assert_eq!(best([2.0, 7.0, 7.0]), 1);
    assert_eq!(best([f32::NAN, f32::NEG_INFINITY, f32::NEG_INFINITY]), 1);
    assert_eq!(best([f32::NAN; 3]), 0);
}

#[test]
fn blocks_of_scores() {
    let rings =
        "ring %s : vec tile<1x7, f32> depth 1 path main ring %m : vec tile<1x4, f32> depth 1 path main";
    let params = "param %x : [1, 7] f32 read param %b : [1, 2] i32 read
        param %max : [1, 3] f32 write param %left : [1, 7] f32 write";
    let body = "%n = index.const {value = 6} : index %new = index.const {value = 2} : index
        %s0 = acquire %s : slot %s
        %v = load %x, (%z, %z) {rows = 1, cols = 7} : tile<1x7, f32>
        slot.store %v, %s0, %z, %z
        %m0 = acquire %m : slot %m
        block.max %s0, %n, %new, %m0 {block = 2}
        %o = slot.load %m0, %z, %z {rows = 1, cols = 3} : tile<1x3, f32>
        store %o, %max, (%z, %z)
        release %m0
        %list = load %b, (%z, %z) {rows = 1, cols = 2} : tile<1x2, i32>
        restrict %s0, %n, %list {block = 2}
        %w = slot.load %s0, %z, %z {rows = 1, cols = 7} : tile<1x7, f32>
        store %w, %left, (%z, %z)
        release %s0";
    let x = vec![1.0, 4.0, 2.0, 3.0, f32::NAN, -1.0, 8.0];
    let tensors = [Tensor::f32([1, 7], x), Tensor::i32([1, 2], vec![0, -1]), empty(&[1, 3]), empty(&[1, 7])];
    let out = run(&vector(params, rings, body), &Bindings::new(), &tensors).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(out[2].reals(), Some(&[4.0, f32::INFINITY, -1.0][..]));
    let low = f32::NEG_INFINITY;
    // Column 6 is past the first six and stays.
    assert_eq!(out[3].reals(), Some(&[1.0, 4.0, low, low, low, low, 8.0][..]));
}

#[test]
fn index_arithmetic_and_memory() {
    // Counts down: y[i] = x[(n − 1 − i) mod 3] for even i, else −(i / 2).
    let params = "param %x : [3] i64 read param %y : [6] i32 write";
    let body = "%n = index.const {value = 6} : index %one = index.const {value = 1} : index
        %two = index.const {value = 2} : index %three = index.const {value = 3} : index
        for %i = %z to %n step 1 {
          %odd = index %i, %two {f = rem} : index
          %even = index %odd, %z {f = eq} : index
          if %even {
            %last = index %n, %one {f = sub} : index
            %at = index %last, %i {f = sub} : index
            %k = index %at, %three {f = rem} : index
            %v = index.read %x, (%k) : index
            index.write %v, %y, (%i)
          }
          if %odd {
            %half = index %i, %two {f = div} : index
            %neg = index %z, %half {f = sub} : index
            index.write %neg, %y, (%i)
          }
        }";
    let tensors = [Tensor::i64([3], vec![10, 20, 30]), empty_ints(&[6])];
    assert_eq!(int_output(&vector(params, "", body), &tensors), [30, 0, 10, -1, 20, -2]);
}

#[test]
fn an_output_can_be_read_back_by_the_tile_that_wrote_it() {
    // Running sums in place.
    let params = "param %x : [4] i32 read param %y : [4] i32 write";
    let body = "%n = index.const {value = 4} : index %one = index.const {value = 1} : index
        %first = index.read %x, (%z) : index
        index.write %first, %y, (%z)
        for %i = %one to %n step 1 {
          %before = index %i, %one {f = sub} : index
          %sum = index.read %y, (%before) : index
          %v = index.read %x, (%i) : index
          %next = index %sum, %v {f = add} : index
          index.write %next, %y, (%i)
        }";
    let tensors = [Tensor::i32([4], vec![1, 2, 3, 4]), empty_ints(&[4])];
    assert_eq!(int_output(&vector(params, "", body), &tensors), [1, 3, 6, 10]);
}

#[test]
fn states_are_changed_in_place() {
    let params = "param %x : [1, 2] f32 read param %s : [3, 2] f32 update";
    let body = "%one = index.const {value = 1} : index
        %v = load %x, (%z, %z) {rows = 1, cols = 2} : tile<1x2, f32>
        %o = load %s, (%one, %z) {rows = 1, cols = 2} : tile<1x2, f32>
        %w = zip %v, %o {f = add} : tile<1x2, f32>
        store %w, %s, (%one, %z)";
    let state = Tensor::f32([3, 2], vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    let tensors = [Tensor::f32([1, 2], vec![10.0, 20.0]), state];
    assert_eq!(output(&vector(params, "", body), &tensors), [1.0, 2.0, 13.0, 24.0, 5.0, 6.0]);
}
