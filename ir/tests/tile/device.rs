//! Ops of SM100's kernels: copies that hang over edges, products of whole tiles, stores of live rows, selections in memory.

use super::support::{empty, empty_ints, int_output, noise, output, run, sm100, verified};
use tessera_ir::graph::interp::{Tensor, round_trip};
use tessera_ir::{Bindings, Format};

fn ramp(n: usize) -> Vec<f32> {
    (1..=n).map(|i| i as f32).collect()
}

/// What a copy into a slot of 4×4 leaves there.
fn copied(params: &str, copy: &str, tensors: &[Tensor]) -> Vec<f32> {
    let params = format!("{params} param %y : [4, 4] f32 write");
    let body = format!(
        "%n1 = index.const {{value = 1}} : index %n2 = index.const {{value = 2}} : index
         %n3 = index.const {{value = 3}} : index %n4 = index.const {{value = 4}} : index
         %s0 = acquire %s : slot %s {copy}
         %v = slot.load %s0, %z, %z {{rows = 4, cols = 4}} : tile<4x4, f32>
         store %v, %y, (%z, %z) release %s0"
    );
    let ring = "ring %s : vec tile<4x4, f32> depth 1 path main";
    output(&sm100("", &params, ring, &body), &[tensors, &[empty(&[4, 4])]].concat())
}

const X: &str = "param %x : [2, 3, 5] f32 read param %ids : [1, 4] i32 read";

/// A view whose element (m, i, j) is 100·m + 10·i + j, and a list.
fn places(ids: [i32; 4]) -> [Tensor; 2] {
    let value = |at: usize| (100 * (at / 15) + 10 * (at / 5 % 3) + at % 5) as f32;
    [Tensor::f32([2, 3, 5], (0..30).map(value).collect()), Tensor::i32([1, 4], ids.to_vec())]
}

#[test]
fn tile_copies_fill_what_is_outside_with_zeros() {
    let got = copied(X, "copy.tile %x, (%n1, %n1, %n3), %s0 {part = all}", &places([0; 4]));
    let want = [[113.0, 114.0, 0.0, 0.0], [123.0, 124.0, 0.0, 0.0], [0.0; 4], [0.0; 4]].concat();
    assert_eq!(got, want);
    let got = copied(X, "copy.tile %x, (%n1, %n4, %z), %s0 {part = all}", &places([0; 4]));
    assert_eq!(got, [0.0; 16], "a block below the view");
}

#[test]
fn row_copies_gather_and_fill_with_zeros() {
    let got = copied(
        X,
        "copy.rows %x, (%n1), %ids, (%z, %z), %n2, %s0, %n3 {per = 1, part = all}",
        &places([2, -1, 0, 1]),
    );
    let want = [[122.0, 123.0, 124.0, 0.0], [0.0; 4], [102.0, 103.0, 104.0, 0.0], [0.0; 4]].concat();
    assert_eq!(got, want, "a negative id and rows from the count on are zeros");
    // Two rows for each id, over all rows of both matrices, from the second id on.
    let got = copied(
        X,
        "copy.rows %x, (), %ids, (%z, %n1), %z, %s0, %n3 {per = 2, part = all}",
        &places([9, 2, 0, 9]),
    );
    let want = [
        [101.0 - 1.0 + 10.0, 111.0, 112.0, 113.0],
        [120.0, 121.0, 122.0, 123.0],
        [0.0, 1.0, 2.0, 3.0],
        [0.0; 4],
    ];
    assert_eq!(got, want.concat());
}

#[test]
fn wrapping_copies_go_round_the_ring() {
    let got = copied(X, "copy.wrap %x, (%n1), %n2, %s0, %n3", &places([0; 4]));
    let want =
        [[120.0, 121.0, 122.0, 123.0], [100.0, 101.0, 102.0, 103.0], [110.0, 111.0, 112.0, 113.0], [0.0; 4]];
    assert_eq!(got, want.concat());
}

#[test]
fn records_are_decoded_below_each_other() {
    for (name, format) in [("kv8", Format::KV8), ("kv4", Format::KV4)] {
        let params = format!("param %c : [4, 32] {name} pitch16 read param %y : [8, 32] f32 write");
        let rings = format!(
            "ring %r : stage tile<4x32, {name}> depth 1 path main ring %k : stage tile<8x32, bf16> depth 1 path main"
        );
        let body = "%n2 = index.const {value = 2} : index %n4 = index.const {value = 4} : index
            %p = acquire %r : slot %r %q = acquire %k : slot %k
            copy.wrap %c, (), %n2, %p, %n2 decode %p, %q, %n4
            copy.wrap %c, (), %z, %p, %n4 decode %p, %q, %z
            %v = slot.load %q, %z, %z {rows = 8, cols = 32} : tile<8x32, f32>
            store %v, %y, (%z, %z) release %p release %q";
        let rows: Vec<f32> =
            noise(128, 7).chunks(32).flat_map(|row| round_trip(row, format).expect("whole groups")).collect();
        let got =
            output(&sm100("", &params, &rings, body), &[Tensor::f32([4, 32], rows.clone()), empty(&[8, 32])]);
        assert_eq!(got[..128], rows, "{name}");
        assert_eq!(got[128..192], rows[64..], "{name}: the last two rows");
        assert_eq!(got[192..], [0.0; 64], "{name}: rows beyond the count");
    }
}

/// A product of a [64, k] by [16, k] (or [k, 16] where `trans`) in two halves of K.
fn product(formats: (&str, &str), k: usize, trans: bool, a: &[f32], b: &[f32], n: usize) -> Vec<f32> {
    let half = k / 2;
    let b_shape = if trans { [k, 16] } else { [16, k] };
    let b_slot = if trans { [half, 16] } else { [16, half] };
    let b_at = if trans { "(%at, %z)" } else { "(%z, %at)" };
    let params = format!(
        "param %a : [64, {k}] {} read param %b : [{}, {}] {} read param %y : [64, {n}] f32 write",
        formats.0, b_shape[0], b_shape[1], formats.1
    );
    let rings = format!(
        "ring %p : stage tile<64x{half}, {}> depth 1 path main ring %q : stage tile<{}x{}, {}> depth 1 path main
         ring %c : accum tile<64x16, f32> depth 1 path main",
        formats.0, b_slot[0], b_slot[1], formats.1
    );
    let body = format!(
        "%n = index.const {{value = {n}}} : index %end = index.const {{value = {k}}} : index
         %acc = acquire %c : slot %c
         for %at = %z to %end step {half} {{
           %first = index %at, %z {{f = eq}} : index
           %p0 = acquire %p : slot %p copy.tile %a, (%z, %at), %p0 {{part = all}}
           %q0 = acquire %q : slot %q copy.tile %b, {b_at}, %q0 {{part = all}}
           mma.tile %acc, %p0, %q0, %n, %first {{trans = {trans}}}
           release %p0 release %q0
         }}
         %v = slot.load %acc, %z, %z {{rows = 64, cols = {n}}} : tile<64x{n}, f32>
         store %v, %y, (%z, %z) release %acc"
    );
    let tensors = [Tensor::f32([64, k], a.to_vec()), Tensor::f32(b_shape, b.to_vec()), empty(&[64, n])];
    output(&sm100("", &params, &rings, &body), &tensors)
}

#[test]
fn tile_products_equal_f64_arithmetic_in_every_format() {
    let cases = [
        ("w8", "mx8", 128, false),
        ("mx4", "mx8", 128, false),
        ("mx8", "mx4", 64, false),
        ("index4", "index4", 128, false),
        ("bf16", "bf16", 256, false),
        ("bf16", "bf16", 256, true),
        ("bf16", "f32", 128, false),
    ];
    for (a_name, b_name, k, trans) in cases {
        let rounded = |name: &str, n: usize, width: usize, seed: u32| -> Vec<f32> {
            let format = Format::from_name(name).expect("a format");
            // A weight's values are as good as any of the same codes and scales.
            let format = if format == Format::W8 { Format::MX8 } else { format };
            let raw = noise(n * width, seed);
            match format {
                // Nothing rounds rows to mx4 but its codes are those of index4.
                Format::MX4 => {
                    raw.chunks(width).flat_map(|r| round_trip(r, Format::INDEX4).expect("groups")).collect()
                }
                other => raw.chunks(width).flat_map(|r| round_trip(r, other).expect("groups")).collect(),
            }
        };
        let a = rounded(a_name, 64, k, 21);
        let b = if trans { rounded(b_name, k, 16, 22) } else { rounded(b_name, 16, k, 22) };
        let got = product((a_name, b_name), k, trans, &a, &b, 11);
        for i in 0..64 {
            for j in 0..11 {
                let at = |l: usize| if trans { b[l * 16 + j] } else { b[j * k + l] };
                let terms = || (0..k).map(|l| f64::from(a[i * k + l]) * f64::from(at(l)));
                let (want, size) = (terms().sum::<f64>(), terms().map(f64::abs).sum::<f64>());
                let got = f64::from(got[i * 11 + j]);
                assert!(
                    (got - want).abs() <= size * 1e-5,
                    "{a_name} × {b_name} at ({i}, {j}): {got}, not {want}"
                );
            }
        }
    }
}

/// Blocks of 64 plain columns are summed from 0 and then added: 2²⁴ + 1 + 1 is 2²⁴ + 2 where the ones meet first.
#[test]
fn tile_products_add_blocks_of_k_in_order() {
    let mut a = vec![0.0; 64 * 256];
    // Rows 0 and 1: the ones in one block, and each in a block of its own.
    (a[0], a[64], a[65]) = (16_777_216.0, 1.0, 1.0);
    (a[256], a[256 + 64], a[256 + 128]) = (16_777_216.0, 1.0, 1.0);
    let b = vec![1.0; 16 * 256];
    let got = product(("bf16", "bf16"), 256, false, &a, &b, 1);
    assert_eq!(got[..3], [16_777_218.0, 16_777_216.0, 0.0]);
}

#[test]
fn live_rows_are_stored_and_columns_outside_dropped() {
    let params = "param %x : [3, 4] f32 read param %ids : [3] i32 read param %y : [3, 2, 3] f32 update";
    let load = "%n1 = index.const {value = 1} : index %n2 = index.const {value = 2} : index
        %v = load %x, (%z, %z) {rows = 3, cols = 4} : tile<3x4, f32>";
    let stored = |store: &str, ids: [i32; 3]| {
        let tensors = [Tensor::f32([3, 4], ramp(12)), Tensor::i32([3], ids.to_vec()), empty(&[3, 2, 3])];
        output(&sm100("", params, "", &format!("{load} {store}")), &tensors)
    };
    let rows = stored("store.rows %v, %y, (%n1, %z, %n1), %n2", [0; 3]);
    let want = [[0.0; 6], [0.0, 1.0, 2.0, 0.0, 5.0, 6.0], [0.0; 6]].concat();
    assert_eq!(rows, want, "two of three rows, two of four columns");
    let scattered = stored("store.scatter %v, %y, %ids, (%n1), %n2, %n2", [9, 5, 0]);
    let mut want = vec![0.0; 18];
    (want[5 * 3 + 2], want[2]) = (1.0, 5.0);
    assert_eq!(scattered, want, "rows 5 and 0 of all, from the last column on");
    let none =
        stored("store.rows %v, %y, (%n2, %n1, %z), %z store.scatter %v, %y, %ids, (%z), %z, %z", [9; 3]);
    assert_eq!(none, [0.0; 18], "no live row");
}

#[test]
fn tiles_are_turned_and_masked() {
    let params = "param %x : [2, 3] f32 read param %ids : [5] i32 read param %y : [3, 2] f32 write";
    let turned = |ops: &str| {
        let body = format!(
            "%n2 = index.const {{value = 2}} : index %n3 = index.const {{value = 3}} : index
             %v = load %x, (%z, %z) {{rows = 2, cols = 3}} : tile<2x3, f32> {ops}
             %t = transpose %m : tile<3x2, f32> store %t, %y, (%z, %z)"
        );
        let ids = Tensor::i32([5], vec![0, -1, 7, -4, 2]);
        output(&sm100("", params, "", &body), &[Tensor::f32([2, 3], ramp(6)), ids, empty(&[3, 2])])
    };
    assert_eq!(
        turned("%m = mask.cols %v, %n3 {value = 9.0} : tile<2x3, f32>"),
        [1.0, 4.0, 2.0, 5.0, 3.0, 6.0]
    );
    assert_eq!(
        turned("%m = mask.cols %v, %n2 {value = 9.0} : tile<2x3, f32>"),
        [1.0, 4.0, 2.0, 5.0, 9.0, 9.0]
    );
    let listed =
        |at: &str| turned(&format!("%m = mask.ids %v, %ids, ({at}) {{value = 9.0}} : tile<2x3, f32>"));
    assert_eq!(listed("%z"), [1.0, 4.0, 9.0, 9.0, 3.0, 6.0], "−1 hides a column");
    assert_eq!(listed("%n3"), [9.0, 9.0, 2.0, 5.0, 9.0, 9.0], "so does the end of the list");
}

#[test]
fn any_asks_for_an_element_above_zero() {
    let any = |x: [f32; 4]| {
        let params = "param %x : [2, 2] f32 read param %y : [1] i32 write";
        let body = "%v = load %x, (%z, %z) {rows = 2, cols = 2} : tile<2x2, f32>
            %n = any %v : index index.write %n, %y, (%z)";
        int_output(&sm100("", params, "", body), &[Tensor::f32([2, 2], x.to_vec()), empty_ints(&[1])])[0]
    };
    assert_eq!(any([0.0, -1.0, -0.0, f32::NEG_INFINITY]), 0);
    assert_eq!(any([0.0, f32::NAN, 0.0, 0.0]), 0, "a NaN is above nothing");
    assert_eq!(any([0.0, -1.0, 0.0, 1e-45]), 1);
}

fn selected(op: &str, scores: &[f32], list: &[i32], n: usize, k: usize) -> Vec<i32> {
    let (width, listed) = (scores.len(), list.len());
    let params = format!(
        "param %x : [2, {width}] f32 read param %l : [2, {listed}] i32 read param %y : [1, {k}] i32 write"
    );
    let body = format!(
        "%n = index.const {{value = {n}}} : index %one = index.const {{value = 1}} : index
         %none = index.const {{value = -1}} : index %last = index.const {{value = {}}} : index
         %v = {op} : tile<1x{k}, i32> store %v, %y, (%z, %z)",
        n as i64 - 1
    );
    // The first row would give another list.
    let rows = [vec![f32::INFINITY; width], scores.to_vec()].concat();
    let lists = [vec![-1; listed], list.to_vec()].concat();
    let tensors = [Tensor::f32([2, width], rows), Tensor::i32([2, listed], lists), empty_ints(&[1, k])];
    int_output(&sm100("", &params, "", &body), &tensors)
}

#[test]
fn selections_from_rows_in_memory() {
    let low = f32::NEG_INFINITY;
    let scores = [3.0, f32::NAN, 5.0, 5.0, low, 5.0, 1.0, 9.0];
    let plain = |n, k| {
        selected(&format!("topk.view %x, (%one, %z), %n, %none {{k = {k}, block = 1}}"), &scores, &[0], n, k)
    };
    assert_eq!(plain(7, 3), [2, 3, 5], "ascending positions; 9 is past the end");
    assert_eq!(plain(7, 2), [2, 3], "of equal ones the lower positions");
    assert_eq!(plain(8, 1), [7]);
    assert_eq!(plain(7, 7), [0, 2, 3, 5, 6, -1, -1], "−∞ and NaN never");
    assert_eq!(plain(0, 2), [-1, -1]);
    // Blocks of 3: maxima 5, 5 and 9; the last is short.
    let blocks = |n, k, newest: &str| {
        let op = format!("topk.view %x, (%one, %z), %n, {newest} {{k = {k}, block = 3}}");
        selected(&op, &scores, &[0], n, k)
    };
    assert_eq!(blocks(8, 2, "%none"), [0, 2]);
    assert_eq!(blocks(7, 2, "%none"), [0, 1], "without 9 the last block is the worst");
    assert_eq!(blocks(7, 1, "%last"), [2], "but the newest element's block always comes first");
    assert_eq!(blocks(7, 4, "%last"), [0, 1, 2, -1]);
    let hidden = [low, low, low, 1.0];
    assert_eq!(
        selected("topk.view %x, (%one, %z), %n, %none {k = 2, block = 3}", &hidden, &[0], 4, 2),
        [1, -1]
    );
}

#[test]
fn selections_from_listed_blocks() {
    let low = f32::NEG_INFINITY;
    // Blocks of 2: (4, 2) (9, 9) (4, −∞) (4, 7) (8).
    let scores = [4.0, 2.0, 9.0, 9.0, 4.0, low, 4.0, 7.0, 8.0];
    let listed = |list: &[i32], n, k| {
        selected(
            &format!("topk.listed %x, (%one, %z), %n, %l, (%one, %z) {{k = {k}, block = 2}}"),
            &scores,
            list,
            n,
            k,
        )
    };
    assert_eq!(listed(&[0, 2, 3, -1], 9, 3), [0, 4, 7], "of three fours the lower two");
    assert_eq!(listed(&[0, 2, 3, -1], 9, 2), [0, 7]);
    assert_eq!(listed(&[0, 2, 3, -1], 9, 6), [0, 1, 4, 6, 7, -1], "−∞ never");
    assert_eq!(listed(&[2, 3], 7, 3), [4, 6, -1], "elements from n on are out");
    assert_eq!(listed(&[1, 4], 9, 3), [2, 3, 8], "a short last block");
    assert_eq!(listed(&[-1, -1], 9, 2), [-1, -1]);
}

#[test]
fn choices_are_sorted_by_group_in_their_order() {
    let params = "param %e : [3, 2] i32 read param %o : [5] i32 write param %p : [6] i32 write param %r : [6] i32 write";
    let sort = |lists: &str, params: &str, out: &[Tensor]| {
        let kernel = sm100("", params, "", &format!("sort.groups %e, %o, {lists} {{count = 4}}"));
        let experts = Tensor::i32([3, 2], vec![3, 0, 0, 3, 1, 3]);
        let tensors = [&[experts, empty_ints(&[5])], out].concat();
        let out = run(&kernel, &Bindings::new(), &tensors).unwrap_or_else(|e| panic!("{e}"));
        out[1..].iter().map(|t| t.ints().expect("integers").to_vec()).collect::<Vec<_>>()
    };
    let both = sort("%p, %r", params, &[empty_ints(&[6]), empty_ints(&[6])]);
    // Groups: 0 has choices 1 and 2, 1 has 4, 2 none, 3 has 0, 3 and 5.
    assert_eq!(both, [vec![0, 2, 3, 3, 6], vec![1, 2, 4, 0, 3, 5], vec![0, 1, 2, 0, 1, 2]]);
    let rows = params.replace("param %p : [6] i32 write", "");
    assert_eq!(sort("_, %r", &rows, &[empty_ints(&[6])]), [vec![0, 2, 3, 3, 6], vec![0, 1, 2, 0, 1, 2]]);
}

#[test]
fn grouped_axes_cut_each_group_into_tiles() {
    let text = "tessera.tile 1 kernel @k for sm100 {
      param %offsets : [6] i32 read
      param %y : [T, 3] i32 write
      grid m T by 2 groups %offsets
      persistent 3
      role vector main warps 4 {
        %at = index.tile {axis = 0} : index %group = index.group {axis = 0} : index
        %end = index.end {axis = 0} : index %two = index.const {value = 2} : index
        %z = index.const {value = 0} : index %one = index.const {value = 1} : index
        %next = index %at, %two {f = add} : index %last = index %next, %end {f = min} : index
        for %i = %at to %last step 1 {
          index.write %at, %y, (%i, %z) index.write %group, %y, (%i, %one) index.write %end, %y, (%i, %two)
        }
      } }";
    let kernel = verified(text);
    let mut bindings = Bindings::new();
    bindings.set("T", 7);
    // Groups of 3, none, 1, none and 3 rows.
    let offsets = Tensor::i32([6], vec![0, 3, 3, 4, 4, 7]);
    let out = run(&kernel, &bindings, &[offsets, empty_ints(&[7, 3])]).unwrap_or_else(|e| panic!("{e}"));
    let want = [[0, 0, 3], [0, 0, 3], [2, 0, 3], [3, 2, 4], [4, 4, 7], [4, 4, 7], [6, 4, 7]];
    assert_eq!(out[1].ints().expect("integers"), want.concat());
    bindings.set("T", 0);
    let nothing = [Tensor::i32([6], vec![0; 6]), empty_ints(&[0, 3])];
    run(&kernel, &bindings, &nothing).unwrap_or_else(|e| panic!("{e}"));
}

/// Two roles hand a slot to and fro: each turn doubles, then adds one.
#[test]
fn slots_come_back_to_the_station_before() {
    let text = "tessera.tile 1 kernel @k for sm100 {
      param %y : [1, 4] f32 write
      ring %s : vec tile<1x4, f32> depth 1 path one -> two
      role vector one {
        %z = index.const {value = 0} : index %n = index.const {value = 5} : index
        %two1 = splat {value = 2.0} : tile<1x1, f32>
        %a = acquire %s : slot %s slot.fill %a {value = 1.0} pass %a
        for %i = %z to %n step 1 {
          %b = take %s : slot %s
          %v = slot.load %b, %z, %z {rows = 1, cols = 4} : tile<1x4, f32>
          %w = zip %v, %two1 {f = mul} : tile<1x4, f32>
          slot.store %w, %b, %z, %z
          pass %b
        }
      }
      role vector two {
        %z2 = index.const {value = 0} : index %n2 = index.const {value = 5} : index
        %one1 = splat {value = 1.0} : tile<1x1, f32>
        for %j = %z2 to %n2 step 1 {
          %c = take %s : slot %s
          %x = slot.load %c, %z2, %z2 {rows = 1, cols = 4} : tile<1x4, f32>
          %q = zip %x, %one1 {f = add} : tile<1x4, f32>
          slot.store %q, %c, %z2, %z2
          return %c
        }
        %d = take %s : slot %s
        %r = slot.load %d, %z2, %z2 {rows = 1, cols = 4} : tile<1x4, f32>
        store %r, %y, (%z2, %z2)
        release %d
      } }";
    // Two adds one to 1, then one doubles it, five times: ((1+1)·2 + 1)·2 …
    let want = (0..5).fold(1.0, |v: f32, _| (v + 1.0) * 2.0);
    assert_eq!(output(&verified(text), &[empty(&[1, 4])]), [want; 4]);
}
