//! Formats: loads and stores of tiles, copies of rows, casts.

use crate::{EXACT, conform};
use tessera_ir::tile::{Access, Binary, Class, KernelBuilder, RoleKind, SlotType, Unary};
use tessera_ir::{Dim, Format, TensorType};

const READ: [Format; 6] = [Format::F32, Format::BF16, Format::MX8, Format::KV8, Format::KV4, Format::INDEX4];

fn t() -> Dim {
    Dim::sym("T")
}

#[test]
fn rows_in_every_format_decode() {
    for format in READ {
        for (c, rows) in [(32, 1), (64, 3), (96, 1)] {
            let mut k = KernelBuilder::new(format!("load_{format}"));
            let x = k.param("x", TensorType::new([t(), rows.into(), c.into()], format), Access::Read);
            let ty = TensorType::new([t(), rows.into(), c.into()], Format::F32);
            let y = k.param("y", ty, Access::Write);
            k.axis("t", t(), 1);
            k.role(RoleKind::Vector, "vector", |b| {
                let (row, zero) = (b.index_tile(0), b.index_const(0));
                let v = b.load(x, &[row, zero, zero], rows, c);
                let v = b.map(v, Unary::Neg);
                b.store(v, y, &[row, zero, zero]);
            });
            conform(k, &[("T", 3)], &[], EXACT);
        }
    }
}

#[test]
fn rows_in_every_format_are_stored_as_cast() {
    for format in READ {
        for (c, rows) in [(32, 1), (64, 5), (96, 2)] {
            let mut k = KernelBuilder::new(format!("store_{format}"));
            let ty = |f| TensorType::new([t(), rows.into(), c.into()], f);
            let x = k.param("x", ty(Format::F32), Access::Read);
            let y = k.param("y", ty(format), Access::Write);
            let back = k.param("back", ty(Format::F32), Access::Write);
            k.axis("t", t(), 1);
            k.role(RoleKind::Vector, "vector", |b| {
                let (row, zero) = (b.index_tile(0), b.index_const(0));
                let v = b.load(x, &[row, zero, zero], rows, c);
                let v = b.zip(v, v, Binary::Add);
                let coded = b.cast(v, format);
                b.store(coded, y, &[row, zero, zero]);
                let decoded = b.cast(coded, Format::F32);
                b.store(decoded, back, &[row, zero, zero]);
            });
            conform(k, &[("T", 2)], &[], EXACT);
        }
    }
}

#[test]
fn bf16_rounding_of_odd_sizes() {
    for c in [1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 33] {
        let mut k = KernelBuilder::new("round");
        let x = k.param("x", TensorType::new([t(), c.into()], Format::F32), Access::Read);
        let y = k.param("y", TensorType::new([t(), c.into()], Format::BF16), Access::Write);
        k.axis("t", t(), 1);
        k.role(RoleKind::Vector, "vector", |b| {
            let (row, zero) = (b.index_tile(0), b.index_const(0));
            let v = b.load(x, &[row, zero], 1, c);
            let v = b.cast(v, Format::BF16);
            b.store(v, y, &[row, zero]);
        });
        let kernel = crate::verified(k);
        let bindings = crate::bind(&[("T", 4)]);
        // Ties both ways, the largest that does not overflow, overflow, subnormals, NaNs.
        let bits = [
            0x3f80_8000u32,
            0x3f81_8000,
            0x3f80_7fff,
            0x3f80_8001,
            0x7f7f_7fff,
            0x7f7f_8000,
            0x7f80_0000,
            0x7f80_0001,
            0xffc0_0000,
            0x8000_8000,
            0x0000_7fff,
            0x0001_8000,
            0xbf80_8000,
        ];
        let values = (0..4 * c).map(|i| f32::from_bits(bits[i % bits.len()])).collect();
        let args = [
            crate::data::Arg::reals(&kernel.params[0].ty, &bindings, values),
            crate::data::Arg::output(&kernel.params[1].ty, &bindings),
        ];
        crate::check(&kernel, &bindings, &args, EXACT);
    }
}

#[test]
fn copies_decode_into_slots() {
    for format in READ {
        let c = 64;
        let mut k = KernelBuilder::new(format!("copy_{format}"));
        let x = k.param("x", TensorType::new([Dim::from(3), 7.into(), c.into()], format), Access::Read);
        let y = k.param("y", TensorType::new([3, 5, c], Format::F32), Access::Write);
        k.axis("s", 3, 1);
        let slot = SlotType { rows: 6, cols: c.into(), format };
        let plain = format.group.is_none();
        let slot = if plain { slot } else { SlotType { format: Format::F32, ..slot } };
        let ring = k.ring("r", Class::Stage, slot, 2, &[0, 1]);
        k.role(RoleKind::Copy, "copy", |b| {
            let (s, two, zero) = (b.index_tile(0), b.index_const(2), b.index_const(0));
            let five = b.index_const(5);
            let slot = b.acquire(ring);
            b.copy(x, &[s, two, zero], slot, five);
            b.pass(slot);
        });
        k.role(RoleKind::Vector, "vector", |b| {
            let (s, zero) = (b.index_tile(0), b.index_const(0));
            let slot = b.take(ring);
            let v = b.slot_load(slot, zero, zero, 5, c);
            b.store(v, y, &[s, zero, zero]);
            b.release(slot);
        });
        conform(k, &[], &[], EXACT);
    }
}

#[test]
fn integers_are_copied_and_stored() {
    let mut k = KernelBuilder::new("ints");
    let x = k.param("x", TensorType::new([4, 19], Format::I32), Access::Read);
    let y = k.param("y", TensorType::new([4, 19], Format::I32), Access::Write);
    k.axis("s", 4, 1);
    let ring = k.ring("r", Class::Vec, SlotType { rows: 1, cols: 19.into(), format: Format::I32 }, 1, &[0]);
    k.role(RoleKind::Vector, "vector", |b| {
        let (s, one, zero) = (b.index_tile(0), b.index_const(1), b.index_const(0));
        let slot = b.acquire(ring);
        b.copy(x, &[s, zero], slot, one);
        let v = b.slot_load(slot, zero, zero, 1, 19);
        b.store(v, y, &[s, zero]);
        b.release(slot);
    });
    conform(k, &[], &[(0..76).map(|i| i * 1001 - 40_000).collect()], EXACT);
}

#[test]
fn rings_wrap() {
    for format in READ {
        for (start, rows) in [(0, 5), (3, 5), (4, 1), (1004, 3), (2, 0)] {
            let c = 32;
            let mut k = KernelBuilder::new(format!("ring_{format}"));
            let x = k.param("x", TensorType::new([2, 5, c], format), Access::Read);
            let y = k.param("y", TensorType::new([2, 8, c], Format::F32), Access::Update);
            k.axis("s", 2, 1);
            let slot = SlotType { rows: 6, cols: c.into(), format: Format::F32 };
            let ring = k.ring("r", Class::Stage, slot, 1, &[0, 1]);
            k.role(RoleKind::Copy, "copy", |b| {
                let (s, start, n) = (b.index_tile(0), b.index_const(start), b.index_const(rows));
                let slot = b.acquire(ring);
                b.copy_ring(x, &[s], start, slot, n);
                b.pass(slot);
            });
            k.role(RoleKind::Vector, "vector", |b| {
                let (s, zero, n) = (b.index_tile(0), b.index_const(0), b.index_const(rows));
                let slot = b.take(ring);
                b.for_(zero, n, 1, |b, i| {
                    let v = b.slot_load(slot, i, zero, 1, c);
                    b.store(v, y, &[s, i, zero]);
                });
                b.release(slot);
            });
            conform(k, &[], &[], EXACT);
        }
    }
}

#[test]
fn gathers_take_listed_rows_and_zeros() {
    for format in READ {
        for ids in [Format::I32, Format::I64] {
            let c = 32;
            let mut k = KernelBuilder::new(format!("gather_{format}"));
            let x = k.param("x", TensorType::new([2, 3, c], format), Access::Read);
            let list = k.param("ids", TensorType::new([2, 6], ids), Access::Read);
            let y = k.param("y", TensorType::new([2, 4, c], Format::F32), Access::Write);
            let all = k.param("all", TensorType::new([2, 4, c], Format::F32), Access::Write);
            k.axis("s", 2, 1);
            let slot = SlotType { rows: 4, cols: c.into(), format: Format::F32 };
            let ring = k.ring("r", Class::Vec, slot, 2, &[0]);
            k.role(RoleKind::Vector, "vector", |b| {
                let (s, zero, two, four) =
                    (b.index_tile(0), b.index_const(0), b.index_const(2), b.index_const(4));
                let slot = b.acquire(ring);
                // Rows of matrix s, then of both matrices counted through.
                b.copy_gather(x, &[s], list, &[s, two], slot, four);
                let v = b.slot_load(slot, zero, zero, 4, c);
                b.store(v, y, &[s, zero, zero]);
                b.release(slot);
                let slot = b.acquire(ring);
                b.copy_gather(x, &[], list, &[s, zero], slot, four);
                let v = b.slot_load(slot, zero, zero, 4, c);
                b.store(v, all, &[s, zero, zero]);
                b.release(slot);
            });
            let numbers = vec![5, -1, 2, 0, -1, 1, 3, 4, 1, 1, 0, -7];
            conform(k, &[], &[numbers], EXACT);
        }
    }
}
