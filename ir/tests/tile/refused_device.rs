//! What no run of an SM100 kernel may do: mix halves of rows, gather or scatter outside, sort into no group.

use super::refused::{error, fault};
use super::support::{empty, empty_ints, sm100, verified};
use tessera_ir::Bindings;
use tessera_ir::graph::interp::Tensor;
use tessera_ir::tile::interp::{Error, Fault};

/// Value and bounds of a number out of its range.
fn range(fault: Fault) -> (i64, i64, i64) {
    match fault {
        Fault::Range { value, low, high, .. } => (value, low, high),
        other => panic!("{other}"),
    }
}

/// A product of a block of mx8 rows whose codes and scales two roles copy from the given rows.
fn halves(codes: &str, scales: &str) -> Result<(), Fault> {
    let kernel = verified(&format!(
        "tessera.tile 1 kernel @k for sm100 {{
          param %x : [3, 32] mx8 read param %w : [64, 32] mx8 read param %y : [64, 16] f32 write
          ring %a : stage tile<64x32, mx8> depth 1 path one -> matrix
          ring %b : stage tile<16x32, mx8> depth 1 path one + two -> matrix
          ring %c : accum tile<64x16, f32> depth 1 path matrix -> out
          role copy one {{
            %z0 = index.const {{value = 0}} : index %r0 = index.const {{value = {codes}}} : index
            %p0 = acquire %a : slot %a copy.tile %w, (%z0, %z0), %p0 {{part = all}} pass %p0
            %q0 = acquire %b : slot %b copy.tile %x, (%r0, %z0), %q0 {{part = codes}} pass %q0
          }}
          role copy two {{
            %z1 = index.const {{value = 0}} : index %r1 = index.const {{value = {scales}}} : index
            %q1 = acquire %b : slot %b copy.tile %x, (%r1, %z1), %q1 {{part = scales}} pass %q1
          }}
          role matrix matrix {{
            %n = index.const {{value = 16}} : index
            %p2 = take %a : slot %a %q2 = take %b : slot %b %s2 = acquire %c : slot %c
            mma.tile %s2, %p2, %q2, %n, %n {{trans = false}}
            release %p2 release %q2 pass %s2
          }}
          role vector out warps 4 {{
            %z3 = index.const {{value = 0}} : index
            %s3 = take %c : slot %c
            %v = slot.load %s3, %z3, %z3 {{rows = 64, cols = 16}} : tile<64x16, f32>
            store %v, %y, (%z3, %z3) release %s3
          }} }}"
    ));
    let tensors = [empty(&[3, 32]), empty(&[64, 32]), empty(&[64, 16])];
    for seed in 0..20 {
        let mut tensors = tensors.to_vec();
        match tessera_ir::tile::interp::run(&kernel, &Bindings::new(), &mut tensors, seed) {
            Ok(()) => {}
            Err(Error::Statement { fault, .. }) => return Err(*fault),
            Err(other) => panic!("{other}"),
        }
    }
    Ok(())
}

#[test]
fn codes_and_scales_come_from_the_same_rows() {
    assert_eq!(halves("1", "1"), Ok(()), "rows past the view are zeros of both halves");
    let found = halves("0", "1").expect_err("scales of the next row");
    assert_eq!(found, Fault::Halves { row: 0 });
    // Rows 1 and 2 agree with nothing, since the blocks begin elsewhere.
    assert_eq!(halves("2", "1").expect_err("scales of the row before"), Fault::Halves { row: 0 });
}

#[test]
fn half_a_row_is_poison() {
    let params = "param %x : [4, 32] mx8 read param %y : [64, 16] f32 write";
    let rings = "ring %a : stage tile<64x32, mx8> depth 1 path main ring %b : stage tile<16x32, mx8> depth 1 path main
        ring %c : accum tile<64x16, f32> depth 1 path main";
    let body = "%n = index.const {value = 16} : index
        %p = acquire %a : slot %a copy.tile %x, (%z, %z), %p {part = all}
        %q = acquire %b : slot %b copy.tile %x, (%z, %z), %q {part = codes}
        %s = acquire %c : slot %c mma.tile %s, %p, %q, %n, %n {trans = false}
        %v = slot.load %s, %z, %z {rows = 64, cols = 16} : tile<64x16, f32>
        store %v, %y, (%z, %z) release %p release %q release %s";
    let (statement, fault) = fault(&sm100("", params, rings, body), &[empty(&[4, 32]), empty(&[64, 16])]);
    assert!(statement.starts_with("store") && matches!(fault, Fault::Poison { .. }), "{statement}: {fault}");
}

#[test]
fn columns_past_the_live_ones_are_poison() {
    let params = "param %x : [64, 32] bf16 read param %y : [64, 16] f32 write";
    let rings = "ring %a : stage tile<64x32, bf16> depth 1 path main ring %b : stage tile<16x32, bf16> depth 1 path main
        ring %c : accum tile<64x16, f32> depth 1 path main";
    let body = |first: &str, n: i64| {
        format!(
            "%n = index.const {{value = {n}}} : index %first = index.const {{value = {first}}} : index
             %p = acquire %a : slot %a copy.tile %x, (%z, %z), %p {{part = all}}
             %q = acquire %b : slot %b copy.tile %x, (%z, %z), %q {{part = all}}
             %s = acquire %c : slot %c mma.tile %s, %p, %q, %n, %first {{trans = false}}
             %v = slot.load %s, %z, %z {{rows = 64, cols = 16}} : tile<64x16, f32>
             store %v, %y, (%z, %z) release %p release %q release %s"
        )
    };
    let run = |first: &str, n| {
        fault(&sm100("", params, rings, &body(first, n)), &[empty(&[64, 32]), empty(&[64, 16])])
    };
    let (_, found) = run("1", 15);
    assert!(matches!(&found, Fault::Poison { what } if what.contains("(0, 15)")), "{found}");
    let (_, found) = run("0", 16);
    assert!(matches!(found, Fault::Poison { .. }), "a sum that never began: {found}");
    assert_eq!(range(run("1", 17).1), (17, 0, 16));
}

#[test]
fn rows_are_gathered_from_and_scattered_to_the_view() {
    let params = "param %x : [3, 4] f32 read param %ids : [2] i32 read param %y : [3, 4] f32 write";
    let ring = "ring %s : vec tile<4x4, f32> depth 1 path main";
    let run = |body: &str, ids: [i32; 2]| {
        let body = format!(
            "%n1 = index.const {{value = 1}} : index %n2 = index.const {{value = 2}} : index
             %n4 = index.const {{value = 4}} : index %n5 = index.const {{value = 5}} : index
             %v = load %x, (%z, %z) {{rows = 2, cols = 4}} : tile<2x4, f32> %s0 = acquire %s : slot %s {body}
             slot.fill %s0 {{value = 0.0}} %w = slot.load %s0, %z, %z {{rows = 3, cols = 4}} : tile<3x4, f32>
             store %w, %y, (%z, %z) release %s0"
        );
        let tensors = [empty(&[3, 4]), Tensor::i32([2], ids.to_vec()), empty(&[3, 4])];
        range(fault(&sm100("", params, ring, &body), &tensors).1)
    };
    let gather = |per: usize, rows: &str| {
        format!("copy.rows %x, (), %ids, (%z), %z, %s0, {rows} {{per = {per}, part = all}}")
    };
    assert_eq!(run(&gather(1, "%n2"), [0, 3]), (3, 0, 2));
    assert_eq!(run(&gather(2, "%n4"), [0, 1]), (3, 0, 2), "the second row of the second id");
    assert_eq!(run(&gather(1, "%n4"), [0, 0]), (0, 0, -2), "four ids from a list of two");
    assert_eq!(run(&gather(1, "%n5"), [0, 0]), (5, 0, 4), "more rows than the slot has");
    assert_eq!(run("copy.rows %x, (), %ids, (%z), %n4, %s0, %n2 {per = 1, part = all}", [0, 0]), (4, 0, 3));
    assert_eq!(run("copy.wrap %x, (), %z, %s0, %n4", [0, 0]), (4, 0, 3), "some rows twice");
    let scatter = "store.scatter %v, %y, %ids, (%z), %z, %n2";
    assert_eq!(run(scatter, [0, 3]), (3, 0, 2));
    assert_eq!(run(scatter, [0, -1]), (-1, 0, 2), "a negative id names no place");
    assert_eq!(run("store.rows %v, %y, (%z, %z), %n4", [0, 0]), (4, 0, 2));
}

#[test]
fn lists_name_what_is_there() {
    let params = "param %x : [1, 8] f32 read param %l : [1, 2] i32 read param %y : [1, 2] i32 write";
    let body = "%n = index.const {value = 8} : index
        %v = topk.listed %x, (%z, %z), %n, %l, (%z, %z) {k = 2, block = 4} : tile<1x2, i32> store %v, %y, (%z, %z)";
    let listed = |list: [i32; 2]| {
        let tensors = [empty(&[1, 8]), Tensor::i32([1, 2], list.to_vec()), empty_ints(&[1, 2])];
        range(fault(&sm100("", params, "", body), &tensors).1)
    };
    assert_eq!(listed([0, 2]), (2, 0, 1));
    assert_eq!(listed([-2, 0]), (-2, 0, 1), "only −1 stands for nothing");
    let params = "param %e : [2, 2] i32 read param %o : [4] i32 write";
    let sort = sm100("", params, "", "sort.groups %e, %o, _, _ {count = 3}");
    for (id, want) in [(3, (3, 0, 2)), (-1, (-1, 0, 2))] {
        let tensors = [Tensor::i32([2, 2], vec![0, 1, id, 2]), empty_ints(&[4])];
        assert_eq!(range(fault(&sort, &tensors).1), want);
    }
    // Lists without room for all choices, or all borders.
    let good = Tensor::i32([2, 2], vec![0, 1, 2, 2]);
    let short = sm100("", &params.replace("[4]", "[3]"), "", "sort.groups %e, %o, _, _ {count = 3}");
    assert_eq!(range(fault(&short, &[good.clone(), empty_ints(&[3])]).1), (4, 0, 3));
    let params = format!("{params} param %p : [3] i32 write");
    for lists in ["%p, _", "_, %p"] {
        let narrow = sm100("", &params, "", &format!("sort.groups %e, %o, {lists} {{count = 3}}"));
        assert_eq!(range(fault(&narrow, &[good.clone(), empty_ints(&[4]), empty_ints(&[3])]).1), (4, 0, 3));
    }
}

#[test]
fn borders_of_groups_ascend_from_zero_to_the_extent_at_most() {
    let kernel = verified(
        "tessera.tile 1 kernel @k for sm100 {
          param %offsets : [3] i32 read param %y : [4] i32 update
          grid m 4 by 2 groups %offsets
          role vector main { %t = index.tile {axis = 0} : index index.write %t, %y, (%t) } }",
    );
    for offsets in [vec![1, 2, 3], vec![0, 3, 2], vec![0, 2, 5], vec![0, -1, 2]] {
        let tensors = [Tensor::i32([3], offsets.clone()), empty_ints(&[4])];
        let found = error(&kernel, &Bindings::new(), &tensors);
        assert!(matches!(&found, Error::Size { what } if what == "axis m"), "{offsets:?}: {found}");
    }
}
