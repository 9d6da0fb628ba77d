//! The kernel builder: canonical numbering, inferred types, and faults instead of panics.

use tessera_ir::tile::{
    Access, Binary, Class, Kernel, KernelBuilder, RoleKind, SlotType, Stmt, Type, TypeFault, Unary, Value,
    print,
};
use tessera_ir::{Dim, Format, TensorType};

/// `y = exp(x)` one row a tile, through a vec slot.
fn small() -> Kernel {
    let mut k = KernelBuilder::new("small");
    // Declared in another order than the canonical one: the ring before the second parameter.
    let x = k.param("x", TensorType::new([Dim::sym("T"), 8.into()], Format::F32), Access::Read);
    let slot = SlotType { rows: 1, cols: 8.into(), format: Format::F32 };
    let ring = k.ring("work", Class::Vec, slot, 1, &[0]);
    let y = k.param("y", TensorType::new([Dim::sym("T"), 8.into()], Format::BF16), Access::Write);
    let m = k.axis("m", Dim::sym("T"), 1);
    k.role(RoleKind::Vector, "vector", |r| {
        let (row, zero) = (r.index_tile(m), r.index_const(0));
        let slot = r.acquire(ring);
        let loaded = r.load(x, &[row, zero], 1, 8);
        let e = r.map(loaded, Unary::Exp);
        r.slot_store(e, slot, zero, zero);
        let end = r.index_const(8);
        r.for_(zero, end, 4, |r, i| {
            let part = r.slot_load(slot, zero, i, 1, 4);
            let rounded = r.cast(part, Format::BF16);
            r.store(rounded, y, &[row, i]);
        });
        r.release(slot);
    });
    k.finish().expect("a well-typed kernel")
}

#[test]
fn values_are_numbered_in_text_order() {
    let expected = "\
tessera.tile 1
kernel @small {
  param %x : [T, 8] f32 read
  param %y : [T, 8] bf16 write
  grid m T by 1
  ring %work : vec tile<1x8, f32> depth 1 path vector
  role vector vector {
    %3 = index.tile {axis = 0} : index
    %4 = index.const {value = 0} : index
    %5 = acquire %work : slot %work
    %6 = load %x, (%3, %4) {rows = 1, cols = 8} : tile<1x8, f32>
    %7 = map %6 {f = exp} : tile<1x8, f32>
    slot.store %7, %5, %4, %4
    %8 = index.const {value = 8} : index
    for %9 = %4 to %8 step 4 {
      %10 = slot.load %5, %4, %9 {rows = 1, cols = 4} : tile<1x4, f32>
      %11 = cast %10 {format = bf16} : tile<1x4, bf16>
      store %11, %y, (%3, %9)
    }
    release %5
  }
}
";
    assert_eq!(print(&small()), expected);
}

#[test]
fn types_are_inferred() {
    let mut k = KernelBuilder::new("types");
    let x = k.param("x", TensorType::new([Dim::sym("T"), 8.into()], Format::F32), Access::Read);
    k.role(RoleKind::Vector, "v", |r| {
        let zero = r.index_const(0);
        let row = r.load(x, &[zero, zero], 1, 8);
        let column = r.reshape(row, 8, 1);
        let grid = r.zip(row, column, Binary::Mul);
        assert_eq!(r.ty(grid), Some(&Type::Tile { rows: 8, cols: 8.into(), format: Format::F32 }));
        assert_eq!(r.ty(x), Some(&Type::View));
    });
    let kernel = k.finish().expect("a well-typed kernel");
    let last = kernel.roles[0].body.last();
    assert!(
        matches!(last, Some(Stmt::Op(node)) if node.result.as_ref().is_some_and(|(v, _)| *v == Value(4)))
    );
}

#[test]
fn the_first_fault_is_reported() {
    let mut k = KernelBuilder::new("wrong");
    let x = k.param("x", TensorType::new([4, 8], Format::F32), Access::Read);
    k.role(RoleKind::Vector, "v", |r| {
        let zero = r.index_const(0);
        let bad = r.load(x, &[zero], 1, 8);
        // What follows from the fault is no fault of its own.
        let worse = r.map(bad, Unary::Exp);
        r.store(worse, x, &[zero, zero]);
        r.map(zero, Unary::Exp);
    });
    let fault = k.finish().expect_err("one index for a matrix");
    assert_eq!((fault.kernel.as_str(), fault.role.as_str()), ("wrong", "v"));
    assert_eq!(fault.statement, "load %x, (%1) {rows = 1, cols = 8}");
    assert!(matches!(*fault.fault, TypeFault::Rank { operand: "at", found: 1, .. }), "{}", fault.fault);
}
