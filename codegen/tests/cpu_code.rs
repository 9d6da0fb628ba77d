//! What the CPU target says about its code: text, targets, features, refusals.

use tessera_codegen::Error;
use tessera_codegen::target::cpu::{Cpu, CpuOptions};
use tessera_ir::tile::{
    Access, Binary, Class, IndexOp, Kernel, KernelBuilder, RoleKind, SlotType, Unary, verify,
};
use tessera_ir::{Dim, Format, Layout, TensorType, Verified};

fn verified(k: KernelBuilder) -> Verified<Kernel> {
    verify(k.finish().expect("operands fit")).unwrap_or_else(|e| panic!("{e}"))
}

/// The text of a kernel's function; the calling convention is the host's.
fn text(k: KernelBuilder) -> String {
    let cpu = Cpu::with(&CpuOptions { features: Some(Vec::new()), verify: true }).expect("a CPU target");
    let text = cpu.clif(&verified(k)).unwrap_or_else(|e| panic!("{e}"));
    ["system_v", "windows_fastcall", "apple_aarch64"].iter().fold(text, |t, conv| t.replace(conv, "host"))
}

/// `y = silu(x + 1)`, 50 columns a row.
fn activation() -> KernelBuilder {
    let mut k = KernelBuilder::new("activation");
    let ty = |f| TensorType::new([Dim::sym("T"), 50.into()], f);
    let x = k.param("x", ty(Format::BF16), Access::Read);
    let y = k.param("y", ty(Format::BF16), Access::Write);
    k.axis("t", Dim::sym("T"), 1);
    k.role(RoleKind::Vector, "vector", |b| {
        let (t, zero) = (b.index_tile(0), b.index_const(0));
        let (v, one) = (b.load(x, &[t, zero], 1, 50), b.splat(1.0));
        let v = b.zip(v, one, Binary::Add);
        let v = b.map(v, Unary::Silu);
        let v = b.cast(v, Format::BF16);
        b.store(v, y, &[t, zero]);
    });
    k
}

/// `y = x · wᵀ`, one row and 16 columns a tile.
fn product() -> KernelBuilder {
    let mut k = KernelBuilder::new("product");
    let x = k.param("x", TensorType::new([Dim::sym("T"), 64.into()], Format::MX8), Access::Read);
    let ty = TensorType { layout: Layout::Panels16, ..TensorType::new([48, 64], Format::W8) };
    let w = k.param("w", ty, Access::Read);
    let y = k.param("y", TensorType::new([Dim::sym("T"), 48.into()], Format::F32), Access::Write);
    k.axis("n", 48, 16);
    k.axis("m", Dim::sym("T"), 1);
    let slot = |rows, cols: usize, format| SlotType { rows, cols: cols.into(), format };
    let a = k.ring("a", Class::Stage, slot(1, 64, Format::MX8), 2, &[0, 1]);
    let b_ring = k.ring("b", Class::Stage, slot(16, 64, Format::W8), 2, &[0, 1]);
    let c = k.ring("c", Class::Accum, slot(1, 16, Format::F32), 2, &[1, 2]);
    k.role(RoleKind::Copy, "copy", |b| {
        let (n, m, zero) = (b.index_tile(0), b.index_tile(1), b.index_const(0));
        let (one, sixteen) = (b.index_const(1), b.index_const(16));
        let to = b.acquire(a);
        b.copy(x, &[m, zero], to, one);
        b.pass(to);
        let to = b.acquire(b_ring);
        b.copy(w, &[n, zero], to, sixteen);
        b.pass(to);
    });
    k.role(RoleKind::Matrix, "matrix", |b| {
        let one = b.index_const(1);
        let acc = b.acquire(c);
        let (x, w) = (b.take(a), b.take(b_ring));
        b.mma(acc, x, w, one, true);
        b.release(x);
        b.release(w);
        b.pass(acc);
    });
    k.role(RoleKind::Vector, "vector", |b| {
        let (n, m, zero) = (b.index_tile(0), b.index_tile(1), b.index_const(0));
        let acc = b.take(c);
        let v = b.slot_load(acc, zero, zero, 1, 16);
        b.store(v, y, &[m, n]);
        b.release(acc);
    });
    k
}

/// Rows of length C: the first `n[t]` elements of a copy doubled one by one.
fn prefix() -> KernelBuilder {
    let mut k = KernelBuilder::new("prefix");
    let cols = Dim::sym("C");
    let ty = |d: &Dim| TensorType::new([Dim::sym("T"), d.clone()], Format::F32);
    let n = k.param("n", TensorType::new([Dim::sym("T")], Format::I32), Access::Read);
    let x = k.param("x", ty(&cols), Access::Read);
    let y = k.param("y", ty(&cols), Access::Write);
    k.axis("t", Dim::sym("T"), 1);
    let slot = SlotType { rows: 1, cols: cols.clone(), format: Format::F32 };
    let ring = k.ring("r", Class::Vec, slot, 1, &[0]);
    k.role(RoleKind::Vector, "vector", |b| {
        let (t, zero, one) = (b.index_tile(0), b.index_const(0), b.index_const(1));
        let row = b.acquire(ring);
        b.copy(x, &[t, zero], row, one);
        let (given, most) = (b.index_read(n, &[t]), b.index_dim(cols.clone()));
        let count = b.index(IndexOp::Min, given, most);
        b.for_(zero, count, 1, |b, i| {
            let v = b.slot_load(row, zero, i, 1, 1);
            let v = b.zip(v, v, Binary::Add);
            b.slot_store(v, row, zero, i);
        });
        let v = b.slot_load(row, zero, zero, 1, cols.clone());
        b.store(v, y, &[t, zero]);
        b.release(row);
    });
    k
}

#[test]
fn functions_have_a_stable_text() {
    insta::assert_snapshot!("activation", text(activation()));
    insta::assert_snapshot!("product", text(product()));
    insta::assert_snapshot!("prefix", text(prefix()));
}

#[test]
fn artifacts_describe_the_kernel() {
    let cpu = Cpu::host().expect("a CPU target");
    assert_eq!(cpu.target(), format!("cpu-{}", std::env::consts::ARCH));
    let k = cpu.compile("linear", &verified(product())).expect("code");
    assert_eq!((k.name.as_str(), k.family.as_str()), ("product", "linear"));
    assert_eq!(k.imports, ["tsr_unpack_mx8", "tsr_mma_w8"]);
    assert_eq!(k.symbols.iter().map(|s| s.as_str()).collect::<Vec<_>>(), ["T"]);
    let mut bindings = tessera_ir::Bindings::new();
    bindings.set("T", 5);
    assert_eq!(k.tiles(&bindings), Some(15));
    // Codes, scales and accumulators; weights stay where they are.
    assert_eq!(k.scratch.eval(&bindings), Some(64 * 4 + 64 + 64));
    let k = cpu.compile("rows", &verified(prefix())).expect("code");
    bindings.set("C", 1000);
    let scratch = k.scratch.eval(&bindings).expect("bound");
    assert!((4000..4300).contains(&scratch), "{scratch}");
}

#[test]
fn code_is_the_same_whoever_makes_it() {
    for k in [activation, product, prefix] {
        let kernel = verified(k());
        let make = || Cpu::host().expect("a CPU target").compile("x", &kernel).expect("code");
        assert_eq!(make(), make());
    }
}

#[test]
fn features_are_those_asked_for() {
    let cpu = |list: &[&str]| {
        let features = Some(list.iter().map(|s| (*s).to_owned()).collect());
        Cpu::with(&CpuOptions { features, verify: true })
    };
    assert!(cpu(&[]).expect("a CPU target").features().is_empty());
    let Err(Error::Host(why)) = cpu(&["telepathy"]) else { panic!("an unknown feature was taken") };
    assert!(why.contains("telepathy"), "{why}");
    if std::env::consts::ARCH == "x86_64" {
        let with_avx = cpu(&["sse3", "ssse3", "sse4.1", "sse4.2", "avx"]).expect("a CPU target");
        assert_eq!(with_avx.features().last().map(String::as_str), Some("avx"));
        // Three-operand instructions make other code of the same function.
        let kernel = verified(activation());
        let plain = cpu(&[]).expect("a CPU target");
        assert_ne!(
            plain.compile("x", &kernel).expect("code").code,
            with_avx.compile("x", &kernel).expect("code").code
        );
        assert_eq!(plain.clif(&kernel).expect("text"), with_avx.clif(&kernel).expect("text"));
    }
}

#[test]
fn ops_without_code_are_refused_together_and_by_name() {
    let mut k = KernelBuilder::new("odd");
    let x = k.param("x", TensorType::new([4, 64], Format::KV8), Access::Read);
    let w = k.param("w", TensorType::new([32, 64], Format::W8), Access::Read);
    let y = k.param("y", TensorType::new([4, 32], Format::F32), Access::Write);
    k.axis("t", 4, 1);
    let slot = |rows, cols: usize, format| SlotType { rows, cols: cols.into(), format };
    let a = k.ring("a", Class::Stage, slot(1, 64, Format::F32), 1, &[0]);
    let b_ring = k.ring("b", Class::Stage, slot(32, 64, Format::W8), 1, &[0]);
    let c = k.ring("c", Class::Accum, slot(1, 32, Format::F32), 1, &[0]);
    k.role(RoleKind::Vector, "vector", |b| {
        let (t, zero, one, n) = (b.index_tile(0), b.index_const(0), b.index_const(1), b.index_const(32));
        let (x_slot, w_slot, acc) = (b.acquire(a), b.acquire(b_ring), b.acquire(c));
        // Half a record; weights in rows; a product with them.
        let half = b.load(x, &[t, zero], 1, 32);
        let half = b.map(half, Unary::Neg);
        b.copy(x, &[t, zero], x_slot, one);
        b.copy(w, &[zero, zero], w_slot, n);
        b.mma(acc, x_slot, w_slot, one, true);
        let v = b.slot_load(acc, zero, zero, 1, 32);
        let v = b.zip(v, half, Binary::Add);
        b.store(v, y, &[t, zero]);
        b.release(x_slot);
        b.release(w_slot);
        b.release(acc);
    });
    let kernel = verified(k);
    let error = Cpu::host().expect("a CPU target").compile("x", &kernel).expect_err("no code");
    let Error::Unsupported { kernel, faults } = &error else { panic!("{error}") };
    assert_eq!(kernel, "odd");
    let found: Vec<&str> = faults.iter().map(|f| f.op).collect();
    assert_eq!(found, ["load", "copy", "mma"], "{error}");
    let message = error.to_string();
    assert!(message.contains("kv8") && message.contains("w8"), "{message}");
}
