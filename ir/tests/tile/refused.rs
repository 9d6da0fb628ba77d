//! What no run may do: touch poison, leave views, race, forget outputs.

use super::support::{empty, empty_ints, vector, verified};
use tessera_ir::graph::interp::Tensor;
use tessera_ir::tile::Kernel;
use tessera_ir::tile::interp::{self, Error, Fault};
use tessera_ir::{Bindings, Verified};

/// The error of a run, which must be the same kind under all seeds and leave the tensors alone.
pub(crate) fn error(kernel: &Verified<Kernel>, bindings: &Bindings, params: &[Tensor]) -> Error {
    let mut found = None;
    for seed in 0..5 {
        let mut tensors = params.to_vec();
        let error = interp::run(kernel, bindings, &mut tensors, seed).expect_err("a fault");
        assert_eq!(tensors, params, "a failed run changes nothing");
        let first = found.get_or_insert_with(|| error.clone());
        assert_eq!(std::mem::discriminant(&*first), std::mem::discriminant(&error), "{first} and {error}");
    }
    found.expect("a fault")
}

/// The fault of a statement.
pub(crate) fn fault(kernel: &Verified<Kernel>, params: &[Tensor]) -> (String, Fault) {
    match error(kernel, &Bindings::new(), params) {
        Error::Statement { statement, fault, .. } => (statement, *fault),
        other => panic!("{other}"),
    }
}

const SLOT: &str = "ring %s : vec tile<1x4, f32> depth 1 path main";

#[test]
fn poison_does_not_reach_memory() {
    let params = "param %y : [1, 4] f32 write";
    let body = "%s0 = acquire %s : slot %s
        %v = slot.load %s0, %z, %z {rows = 1, cols = 4} : tile<1x4, f32>
        %n = map %v {f = neg} : tile<1x4, f32>
        store %n, %y, (%z, %z)
        release %s0";
    let (statement, fault) = fault(&vector(params, SLOT, body), &[empty(&[1, 4])]);
    assert!(statement.starts_with("store"), "{statement}");
    assert!(matches!(fault, Fault::Poison { .. }), "{fault}");
}

#[test]
fn poison_may_stay_in_columns_that_nobody_stores() {
    let params = "param %x : [1, 2] f32 read param %y : [1, 2] f32 write";
    let body = "%s0 = acquire %s : slot %s
        %x0 = load %x, (%z, %z) {rows = 1, cols = 2} : tile<1x2, f32>
        slot.store %x0, %s0, %z, %z
        %v = slot.load %s0, %z, %z {rows = 1, cols = 4} : tile<1x4, f32>
        %n = map %v {f = neg} : tile<1x4, f32>
        %p = slice %n {row = 0, rows = 1, col = 0, cols = 2} : tile<1x2, f32>
        store %p, %y, (%z, %z)
        release %s0";
    let kernel = vector(params, SLOT, body);
    let mut tensors = [Tensor::f32([1, 2], vec![1.0, -2.0]), empty(&[1, 2])];
    interp::run(&kernel, &Bindings::new(), &mut tensors, 3).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(tensors[1].reals(), Some(&[-1.0, 2.0][..]));
}

#[test]
fn poison_takes_part_in_no_selection() {
    let params = "param %y : [1, 2] i32 write";
    let body = "%n = index.const {value = 4} : index
        %s0 = acquire %s : slot %s
        %v = slot.load %s0, %z, %z {rows = 1, cols = 4} : tile<1x4, f32>
        %t = topk %v, %n {k = 2} : tile<1x2, i32>
        store %t, %y, (%z, %z)
        release %s0";
    let (statement, fault) = fault(&vector(params, SLOT, body), &[empty_ints(&[1, 2])]);
    assert!(statement.contains("topk") && matches!(fault, Fault::Poison { .. }), "{statement}: {fault}");
}

#[test]
fn a_slot_acquired_again_has_lost_its_contents() {
    let params = "param %y : [1, 4] f32 write";
    let body = "%s0 = acquire %s : slot %s
        slot.fill %s0 {value = 1.0}
        release %s0
        %s1 = acquire %s : slot %s
        %v = slot.load %s1, %z, %z {rows = 1, cols = 4} : tile<1x4, f32>
        store %v, %y, (%z, %z)
        release %s1";
    let (_, fault) = fault(&vector(params, SLOT, body), &[empty(&[1, 4])]);
    assert!(matches!(fault, Fault::Poison { .. }), "{fault}");
}

#[test]
fn outputs_are_written_before_they_are_read() {
    let params = "param %y : [4] i32 write";
    let body = "%v = index.read %y, (%z) : index index.write %v, %y, (%z)";
    let (statement, fault) = fault(&vector(params, "", body), &[empty_ints(&[4])]);
    assert!(
        statement.contains("index.read") && matches!(fault, Fault::Poison { .. }),
        "{statement}: {fault}"
    );
}

#[test]
fn every_element_of_an_output_is_written() {
    let params = "param %y : [4] i32 write";
    let body = "%n = index.const {value = 3} : index
        for %i = %z to %n step 1 { index.write %i, %y, (%i) }";
    let found = error(&vector(params, "", body), &Bindings::new(), &[empty_ints(&[4])]);
    assert_eq!(found, Error::Unwritten { name: "y".into(), element: 3 });
}

#[test]
fn blocks_stay_inside_views_and_slots() {
    let params = "param %x : [2, 6] f32 read param %p : [1] i32 read param %y : [2, 4] f32 write";
    let run = |body: &str, at: i32| {
        let body = format!("%p0 = index.read %p, (%z) : index {body}");
        let tensors = [Tensor::f32([2, 6], vec![0.5; 12]), Tensor::i32([1], vec![at]), empty(&[2, 4])];
        fault(&vector(params, SLOT, &body), &tensors).1
    };
    let load = "%v = load %x, (%z, %p0) {rows = 2, cols = 4} : tile<2x4, f32> store %v, %y, (%z, %z)";
    let range = |fault: Fault| match fault {
        Fault::Range { value, low, high, .. } => (value, low, high),
        other => panic!("{other}"),
    };
    assert_eq!(range(run(load, 3)), (3, 0, 2));
    assert_eq!(range(run(load, -1)), (-1, 0, 2));
    let store = "%v = load %x, (%z, %z) {rows = 1, cols = 4} : tile<1x4, f32> store %v, %y, (%p0, %z)";
    assert_eq!(range(run(store, 2)), (2, 0, 1));
    let slot = "%v = load %x, (%z, %z) {rows = 1, cols = 2} : tile<1x2, f32>
        %s0 = acquire %s : slot %s slot.store %v, %s0, %z, %p0 release %s0
        %w = load %x, (%z, %z) {rows = 2, cols = 4} : tile<2x4, f32> store %w, %y, (%z, %z)";
    assert_eq!(range(run(slot, 3)), (3, 0, 2));
    let copy = "%s0 = acquire %s : slot %s copy %x, (%z, %z), %s0, %p0 release %s0
        %w = load %x, (%z, %z) {rows = 2, cols = 4} : tile<2x4, f32> store %w, %y, (%z, %z)";
    assert_eq!(range(run(copy, 2)), (2, 0, 1));
    let gather = "%s0 = acquire %s : slot %s
        %one = index.const {value = 1} : index
        copy.gather %x, (), %p, (%z), %s0, %one release %s0
        %w = load %x, (%z, %z) {rows = 2, cols = 4} : tile<2x4, f32> store %w, %y, (%z, %z)";
    assert_eq!(range(run(gather, 2)), (2, 0, 1));
}

#[test]
fn blocks_begin_at_groups_and_panels() {
    let params = "param %x : [1, 64] mx8 read param %p : [1] i32 read param %y : [1, 32] f32 write";
    let body = "%p0 = index.read %p, (%z) : index
        %v = load %x, (%z, %p0) {rows = 1, cols = 32} : tile<1x32, f32> store %v, %y, (%z, %z)";
    let tensors = [Tensor::f32([1, 64], vec![0.0; 64]), Tensor::i32([1], vec![16]), empty(&[1, 32])];
    let (_, found) = fault(&vector(params, "", body), &tensors);
    assert!(matches!(found, Fault::Multiple { value: 16, of: 32, .. }), "{found}");
    let params = "param %x : [64, 32] w8 panels16 read param %p : [1] i32 read param %y : [1] i32 write";
    let ring = "ring %s : stage tile<32x32, w8> depth 1 path main";
    let body = "%p0 = index.read %p, (%z) : index %n = index.const {value = 32} : index
        %s0 = acquire %s : slot %s copy %x, (%p0, %z), %s0, %n release %s0
        index.write %n, %y, (%z)";
    let tensors = [Tensor::f32([64, 32], vec![0.0; 64 * 32]), Tensor::i32([1], vec![8]), empty_ints(&[1])];
    let (_, found) = fault(&vector(params, ring, body), &tensors);
    assert!(matches!(found, Fault::Multiple { value: 8, of: 16, .. }), "{found}");
}

#[test]
fn tiles_share_no_element_that_one_of_them_writes() {
    let tiles = |access: &str, body: &str| {
        verified(&format!(
            "tessera.tile 1 kernel @k {{ param %s : [4] i32 {access} grid m 4 by 1 role vector main {{
               %t = index.tile {{axis = 0}} : index %z = index.const {{value = 0}} : index {body} }} }}"
        ))
    };
    let race = |kernel: &Verified<Kernel>| {
        let (_, found) = fault(kernel, &[Tensor::i32([4], vec![7; 4])]);
        assert!(matches!(found, Fault::Race { .. }), "{found}");
    };
    race(&tiles("write", "index.write %t, %s, (%z)"));
    // Every tile reads its neighbour's element, whoever comes first.
    race(&tiles(
        "update",
        "%one = index.const {value = 1} : index %four = index.const {value = 4} : index
         %next = index %t, %one {f = add} : index %at = index %next, %four {f = rem} : index
         %v = index.read %s, (%at) : index index.write %v, %s, (%t)",
    ));
    // One tile reads what another writes: refused in either order.
    race(&tiles(
        "update",
        "%one = index.const {value = 1} : index
         %is0 = index %t, %z {f = eq} : index %is1 = index %t, %one {f = eq} : index
         if %is0 { %v = index.read %s, (%one) : index index.write %v, %s, (%z) }
         if %is1 { index.write %one, %s, (%one) }",
    ));
    let own = tiles("update", "%v = index.read %s, (%t) : index index.write %v, %s, (%t)");
    let mut tensors = [Tensor::i32([4], vec![1, 2, 3, 4])];
    interp::run(&own, &Bindings::new(), &mut tensors, 0).unwrap_or_else(|e| panic!("{e}"));
}

#[test]
fn arithmetic_has_its_limits() {
    let params = "param %p : [1] i32 read param %y : [1] i32 write";
    let run = |body: &str, p: i32| {
        let body = format!("%p0 = index.read %p, (%z) : index {body}");
        fault(&vector(params, "", &body), &[Tensor::i32([1], vec![p]), empty_ints(&[1])]).1
    };
    let div = "%d = index %p0, %p0 {f = div} : index index.write %d, %y, (%z)";
    assert_eq!(run(div, 0), Fault::Division(0));
    assert_eq!(run(div, -2), Fault::Division(-2));
    let wide = "%m = index.const {value = 2147483648} : index index.write %m, %y, (%z)";
    assert!(matches!(run(wide, 1), Fault::Range { value: 2_147_483_648, .. }));
}

#[test]
fn parameters_fit_their_types() {
    let params = "param %x : [T, 4] f32 read param %y : [1, 4] f32 write";
    let body = "%v = load %x, (%z, %z) {rows = 1, cols = 4} : tile<1x4, f32> store %v, %y, (%z, %z)";
    let kernel = vector(params, "", body);
    let mut bindings = Bindings::new();
    bindings.set("T", 1);
    let good = [empty(&[1, 4]), empty(&[1, 4])];
    assert_eq!(error(&kernel, &bindings, &good[..1]), Error::Params { want: 2, found: 1 });
    assert!(matches!(error(&kernel, &Bindings::new(), &good), Error::Size { .. }), "T is not bound");
    let ints = [empty_ints(&[1, 4]), empty(&[1, 4])];
    assert!(matches!(error(&kernel, &bindings, &ints), Error::Tensor { .. }));
    let short = [empty(&[1, 3]), empty(&[1, 4])];
    assert!(matches!(error(&kernel, &bindings, &short), Error::Tensor { .. }));
}
