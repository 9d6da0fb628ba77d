//! Whole programs: loops, conditions, indices, state, memory that changes under waiting tiles, roles in step.

use crate::{EXACT, Ulps, conform, conform_each};
use tessera_ir::tile::{Access, Binary, Class, IndexOp, KernelBuilder, Reduce, RoleKind, SlotType, Unary};
use tessera_ir::{Dim, Format, TensorType};

fn slot(rows: usize, cols: impl Into<Dim>) -> SlotType {
    SlotType { rows, cols: cols.into(), format: Format::F32 }
}

#[test]
fn index_functions() {
    let numbers = [-9i64, -1, 0, 1, 2, 7, 1 << 40, i64::MIN, i64::MAX];
    let pairs: Vec<(i64, i64)> = numbers.iter().flat_map(|a| numbers.iter().map(|b| (*a, *b))).collect();
    let (n, f) = (pairs.len(), IndexOp::ALL.len());
    let mut k = KernelBuilder::new("index");
    let a = k.param("a", TensorType::new([n], Format::I64), Access::Read);
    let c = k.param("c", TensorType::new([n], Format::I64), Access::Read);
    let y = k.param("y", TensorType::new([n, f], Format::I64), Access::Write);
    k.axis("t", n, 4);
    k.role(RoleKind::Vector, "vector", |b| {
        let (first, four, n) = (b.index_tile(0), b.index_const(4), b.index_const(n as i64));
        let one = b.index_const(1);
        let end = b.index(IndexOp::Add, first, four);
        let end = b.index(IndexOp::Min, end, n);
        b.for_(first, end, 1, |b, i| {
            let (x, z) = (b.index_read(a, &[i]), b.index_read(c, &[i]));
            for (j, f) in IndexOp::ALL.iter().enumerate() {
                let z = match f {
                    IndexOp::Div | IndexOp::Rem => b.index(IndexOp::Max, z, one),
                    _ => z,
                };
                let v = b.index(*f, x, z);
                let j = b.index_const(j as i64);
                b.index_write(v, y, &[i, j]);
            }
        });
    });
    let lists = [pairs.iter().map(|p| p.0).collect(), pairs.iter().map(|p| p.1).collect()];
    conform(k, &[], &lists, EXACT);
}

#[test]
fn loops_and_conditions_by_data() {
    let mut k = KernelBuilder::new("sums");
    let n = k.param("n", TensorType::new([Dim::sym("T")], Format::I32), Access::Read);
    let x = k.param("x", TensorType::new([Dim::sym("T"), 9.into(), 20.into()], Format::F32), Access::Read);
    let y = k.param("y", TensorType::new([Dim::sym("T"), 20.into()], Format::F32), Access::Write);
    k.axis("t", Dim::sym("T"), 1);
    let acc = k.ring("acc", Class::Vec, slot(1, 20), 1, &[0]);
    k.role(RoleKind::Vector, "vector", |b| {
        let (row, zero, two) = (b.index_tile(0), b.index_const(0), b.index_const(2));
        let count = b.index_read(n, &[row]);
        let sum = b.acquire(acc);
        b.slot_fill(sum, 0.25);
        let base = b.load(x, &[row, zero, zero], 1, 20);
        let twice = b.zip(base, base, Binary::Add);
        b.for_(zero, count, 1, |b, i| {
            let odd = b.index(IndexOp::Rem, i, two);
            b.if_(odd, |b| {
                let v = b.load(x, &[row, i, zero], 1, 20);
                let v = b.zip(v, twice, Binary::Mul);
                let before = b.slot_load(sum, zero, zero, 1, 20);
                let after = b.zip(before, v, Binary::Add);
                b.slot_store(after, sum, zero, zero);
            });
        });
        let v = b.slot_load(sum, zero, zero, 1, 20);
        b.store(v, y, &[row, zero]);
        b.release(sum);
    });
    let runs = [0, 1, 5].map(|t| (vec![("T", t)], vec![(0..t as i64).map(|i| (i * 2) % 10).collect()]));
    conform_each(k, &runs, EXACT);
}

#[test]
fn a_slot_read_before_it_is_overwritten_keeps_its_old_value() {
    for c in [4, 20, 33] {
        let mut k = KernelBuilder::new("swap");
        let x = k.param("x", TensorType::new([2, 2, c], Format::F32), Access::Read);
        let y = k.param("y", TensorType::new([2, 3, c], Format::F32), Access::Write);
        k.axis("t", 2, 1);
        let ring = k.ring("r", Class::Vec, slot(2, c), 2, &[0]);
        k.role(RoleKind::Vector, "vector", |b| {
            let (t, zero, one, two) = (b.index_tile(0), b.index_const(0), b.index_const(1), b.index_const(2));
            let (p, q) = (b.acquire(ring), b.acquire(ring));
            b.copy(x, &[t, zero, zero], p, two);
            b.copy(x, &[t, zero, zero], q, two);
            // Swaps the rows of p through tiles that wait.
            let top = b.slot_load(p, zero, zero, 1, c);
            let bottom = b.slot_load(p, one, zero, 1, c);
            let half = b.map(bottom, Unary::Neg);
            let other = b.slot_load(q, zero, zero, 1, c);
            b.slot_store(half, p, zero, zero);
            b.slot_store(top, p, one, zero);
            // Changes both rows in place, one of them shifted into the other.
            let both = b.slot_load(p, zero, zero, 2, c);
            let sum = b.zip(both, other, Binary::Add);
            b.slot_store(sum, p, zero, zero);
            let first = b.slot_load(p, zero, zero, 1, c);
            let both = b.slot_load(p, zero, zero, 2, c);
            let product = b.zip(both, first, Binary::Mul);
            b.slot_store(product, p, zero, zero);
            let v = b.slot_load(p, zero, zero, 2, c);
            let last = b.slot_load(q, one, zero, 1, c);
            b.slot_fill(q, 7.0);
            b.store(v, y, &[t, zero, zero]);
            b.store(last, y, &[t, two, zero]);
            b.release(p);
            b.release(q);
        });
        conform(k, &[], &[], EXACT);
    }
}

#[test]
fn state_is_updated_in_place() {
    for c in [8, 17, 40] {
        let mut k = KernelBuilder::new("state");
        let s = k.param("s", TensorType::new([3, 4, c], Format::F32), Access::Update);
        let y = k.param("y", TensorType::new([3, c], Format::F32), Access::Write);
        k.axis("t", 3, 1);
        k.role(RoleKind::Vector, "vector", |b| {
            let (t, zero, one) = (b.index_tile(0), b.index_const(0), b.index_const(1));
            let (two, three) = (b.index_const(2), b.index_const(3));
            let old = b.load(s, &[t, zero, zero], 1, c);
            let next = b.load(s, &[t, one, zero], 1, c);
            let sum = b.zip(old, next, Binary::Add);
            b.for_(zero, three, 1, |b, i| {
                let at = b.index(IndexOp::Add, i, one);
                let v = b.load(s, &[t, at, zero], 1, c);
                let v = b.map(v, Unary::Neg);
                b.store(v, s, &[t, i, zero]);
            });
            let pair = b.load(s, &[t, zero, zero], 2, c);
            b.store(pair, s, &[t, two, zero]);
            let pair = b.load(s, &[t, zero, zero], 3, c);
            b.store(pair, s, &[t, one, zero]);
            b.store(sum, y, &[t, zero]);
        });
        conform(k, &[], &[], EXACT);
    }
}

#[test]
fn rows_of_symbolic_length() {
    for capacity in [1, 3, 4, 17, 64, 130] {
        let mut k = KernelBuilder::new("long");
        let cols = Dim::Sym { sym: tessera_ir::Sym::new("C"), times: 2 };
        let ty = |d: Dim| TensorType::new([Dim::sym("T"), d], Format::F32);
        let x = k.param("x", ty(cols.clone()), Access::Read);
        let y = k.param("y", ty(cols.clone()), Access::Write);
        let top = k.param("top", TensorType::new([Dim::sym("T"), 5.into()], Format::I32), Access::Write);
        let sum = k.param("sum", ty(1.into()), Access::Write);
        k.axis("t", Dim::sym("T"), 1);
        let a = k.ring("a", Class::Vec, slot(1, cols.clone()), 2, &[0]);
        let m = k.ring("m", Class::Vec, slot(2, Dim::sym("C")), 1, &[0]);
        k.role(RoleKind::Vector, "vector", |b| {
            let (t, zero, one) = (b.index_tile(0), b.index_const(0), b.index_const(1));
            let n = b.index_dim(cols.clone());
            let (p, q, maxima) = (b.acquire(a), b.acquire(a), b.acquire(m));
            b.copy(x, &[t, zero], p, one);
            b.slot_fill(q, 0.5);
            b.slot_fill(maxima, f32::NEG_INFINITY);
            let (v, w) =
                (b.slot_load(p, zero, zero, 1, cols.clone()), b.slot_load(q, zero, zero, 1, cols.clone()));
            let product = b.zip(v, w, Binary::Mul);
            let total = b.reduce(product, Reduce::Sum, 1);
            let scaled = b.zip(product, total, Binary::Div);
            let rounded = b.cast(scaled, Format::BF16);
            let back = b.cast(rounded, Format::F32);
            let ids = b.topk(back, n, 5);
            b.store(back, y, &[t, zero]);
            b.store(ids, top, &[t, zero]);
            b.store(total, sum, &[t, zero]);
            b.release(p);
            b.release(q);
            b.release(maxima);
        });
        conform(k, &[("T", 3), ("C", capacity)], &[], EXACT);
    }
}

#[test]
fn a_small_matrix_is_normalised_in_a_loop() {
    let mut k = KernelBuilder::new("sinkhorn");
    let x = k.param("x", TensorType::new([Dim::sym("T"), 4.into(), 4.into()], Format::F32), Access::Read);
    let y = k.param("y", TensorType::new([Dim::sym("T"), 4.into(), 4.into()], Format::F32), Access::Write);
    k.axis("t", Dim::sym("T"), 8);
    let ring = k.ring("m", Class::Vec, slot(4, 4), 1, &[0]);
    k.role(RoleKind::Vector, "vector", |b| {
        let (first, zero) = (b.index_tile(0), b.index_const(0));
        let (eight, rows, steps) = (b.index_const(8), b.index_dim(Dim::sym("T")), b.index_const(20));
        let end = b.index(IndexOp::Add, first, eight);
        let end = b.index(IndexOp::Min, end, rows);
        let eps = b.splat(1e-6);
        b.for_(first, end, 1, |b, t| {
            let m = b.acquire(ring);
            let v = b.load(x, &[t, zero, zero], 4, 4);
            let v = b.map(v, Unary::Abs);
            b.slot_store(v, m, zero, zero);
            b.for_(zero, steps, 1, |b, _| {
                let v = b.slot_load(m, zero, zero, 4, 4);
                let sums = b.reduce(v, Reduce::Sum, 1);
                let sums = b.zip(sums, eps, Binary::Add);
                let v = b.zip(v, sums, Binary::Div);
                let sums = b.reduce(v, Reduce::Sum, 0);
                let sums = b.zip(sums, eps, Binary::Add);
                let v = b.zip(v, sums, Binary::Div);
                b.slot_store(v, m, zero, zero);
            });
            let v = b.slot_load(m, zero, zero, 4, 4);
            b.store(v, y, &[t, zero, zero]);
            b.release(m);
        });
    });
    conform_each(k, &[0, 1, 9].map(|t| (vec![("T", t)], Vec::new())), EXACT);
}

#[test]
fn softmax_in_blocks() {
    for (h, n) in [(1, 70), (6, 130), (20, 64)] {
        let block = 64;
        let blocks = n / block + usize::from(n % block != 0);
        let mut k = KernelBuilder::new("softmax");
        let x = k.param("x", TensorType::new([2, h, n], Format::F32), Access::Read);
        let y = k.param("y", TensorType::new([2, h, n], Format::F32), Access::Write);
        k.axis("t", 2, 1);
        let scores = k.ring("scores", Class::Vec, slot(h, blocks * block), 1, &[0]);
        let stat = k.ring("stat", Class::Vec, slot(h, 1), 2, &[0]);
        k.role(RoleKind::Vector, "vector", |b| {
            let (t, zero, rows) = (b.index_tile(0), b.index_const(0), b.index_const(h as i64));
            let width = b.index_const((blocks * block) as i64);
            let (s, most, sum) = (b.acquire(scores), b.acquire(stat), b.acquire(stat));
            b.slot_fill(s, f32::NEG_INFINITY);
            b.slot_fill(most, f32::NEG_INFINITY);
            b.slot_fill(sum, 0.0);
            b.for_(zero, rows, 1, |b, i| {
                let v = b.load(x, &[t, i, zero], 1, n);
                b.slot_store(v, s, i, zero);
            });
            b.for_(zero, width, block, |b, i| {
                let v = b.slot_load(s, zero, i, h, block);
                let largest = b.reduce(v, Reduce::Max, 1);
                let before = b.slot_load(most, zero, zero, h, 1);
                let largest = b.zip(before, largest, Binary::Max);
                b.slot_store(largest, most, zero, zero);
            });
            b.for_(zero, width, block, |b, i| {
                let v = b.slot_load(s, zero, i, h, block);
                let largest = b.slot_load(most, zero, zero, h, 1);
                let v = b.zip(v, largest, Binary::Sub);
                let e = b.map(v, Unary::Exp);
                let part = b.reduce(e, Reduce::Sum, 1);
                let before = b.slot_load(sum, zero, zero, h, 1);
                let total = b.zip(before, part, Binary::Add);
                b.slot_store(total, sum, zero, zero);
                b.slot_store(e, s, zero, i);
            });
            let e = b.slot_load(s, zero, zero, h, n);
            let total = b.slot_load(sum, zero, zero, h, 1);
            let v = b.zip(e, total, Binary::Div);
            b.store(v, y, &[t, zero, zero]);
            b.release(s);
            b.release(most);
            b.release(sum);
        });
        conform(k, &[], &[], Ulps(1));
    }
}

#[test]
fn roles_in_step_over_a_ring() {
    let (n, c) = (7, 24);
    let mut k = KernelBuilder::new("steps");
    let x = k.param("x", TensorType::new([3, n, c], Format::BF16), Access::Read);
    let y = k.param("y", TensorType::new([3, n, c], Format::BF16), Access::Write);
    k.axis("t", 3, 1);
    let stage = k.ring("in", Class::Stage, SlotType { format: Format::BF16, ..slot(1, c) }, 3, &[0, 1]);
    let work = k.ring("work", Class::Vec, slot(1, c), 2, &[1, 2]);
    k.role(RoleKind::Copy, "copy", |b| {
        let (t, zero, one, n) =
            (b.index_tile(0), b.index_const(0), b.index_const(1), b.index_const(n as i64));
        b.for_(zero, n, 1, |b, i| {
            let to = b.acquire(stage);
            b.copy(x, &[t, i, zero], to, one);
            b.pass(to);
        });
    });
    k.role(RoleKind::Vector, "scale", |b| {
        let (zero, n) = (b.index_const(0), b.index_const(n as i64));
        let three = b.splat(3.0);
        b.for_(zero, n, 1, |b, _| {
            let (from, to) = (b.take(stage), b.acquire(work));
            let v = b.slot_load(from, zero, zero, 1, c);
            let v = b.zip(v, three, Binary::Mul);
            b.slot_store(v, to, zero, zero);
            b.release(from);
            b.pass(to);
        });
    });
    k.role(RoleKind::Vector, "store", |b| {
        let (t, zero, n) = (b.index_tile(0), b.index_const(0), b.index_const(n as i64));
        b.for_(zero, n, 1, |b, i| {
            let from = b.take(work);
            let v = b.slot_load(from, zero, zero, 1, c);
            let v = b.cast(v, Format::BF16);
            b.store(v, y, &[t, i, zero]);
            b.release(from);
        });
    });
    conform(k, &[], &[], EXACT);
}
