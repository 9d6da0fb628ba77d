//! Products on the matrix unit: descriptors, scale copies, and the multiplications of one K block.
//!
//! One lane issues everything. Descriptors are a constant upper word and the operand's address; a step of 32 bytes along K
//! adds 2 to the lower word. The number of columns of a product is part of the instruction descriptor and may be
//! data, rounded up to 16.

use super::rings::{nodes_of, ring_of_slot, slot_of};
use super::slots::{Held, Set};
use super::{Emitter, Result, unsupported};
use crate::target::ptx::isa::{Asm, Cmp, CpShape, Mma, MmaA, MmaKind, Operand, Reg, Ty};
use std::collections::{BTreeMap, BTreeSet};
use tessera_ir::machine::sm100::core_rows;
use tessera_ir::tile::{Op, Ring, Stmt, Value};
use tessera_ir::{Elem, Format};

/// Upper word of operand descriptors: K-major, 128-byte swizzle, 1024 bytes from eight rows to the next, version 1.
pub(super) const OPERAND_HIGH: i64 = 0x4000_4040;
/// The same for dense four-bit codes: 64-byte swizzle, 512 bytes from eight rows to the next.
const DENSE_HIGH: i64 = 0x8000_4020;
/// Added to the lower word: the unused leading offset is written as 1.
pub(super) const OPERAND_LOW: i64 = 0x1_0000;
/// Upper word of scale descriptors: no swizzle, 128 bytes from eight rows to the next.
const SCALE_HIGH: i64 = 0x0000_4008;
/// Bytes of a row of an operand.
const ROW: usize = 128;
/// Columns of tensor memory that the scales of 128 rows take.
const SCALE_COLUMNS: i64 = 4;
/// Bytes of a scale block.
const BLOCK: usize = 512;

/// Products by the unit's own kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// e4m3 or e2m1 codes in slots of a byte, one scale for 32.
    Mx8 { a: u32, b: u32 },
    /// Dense e2m1 codes, two scales for the 64 columns of a step.
    Mx4 {
        /// Steps of the slots' columns.
        steps: u32,
    },
    /// bf16.
    Bf16,
    /// bf16 times the three bf16 parts of an f32 weight.
    Split,
}

impl Kind {
    /// The kind that multiplies these formats, if this module has one.
    pub(super) fn of(a: &Ring, b: &Ring) -> Option<Kind> {
        let cols = a.slot.cols.fixed()? as u32;
        let (a, b) = (a.slot.format, b.slot.format);
        let code = |f: Format| match f.elem {
            Elem::E4m3 => Some(0),
            Elem::E2m1 => Some(5),
            Elem::F32 | Elem::Bf16 | Elem::I32 | Elem::I64 => None,
        };
        match (a, b) {
            (Format::W8 | Format::MX4 | Format::MX8, Format::W8 | Format::MX4 | Format::MX8) => {
                Some(Kind::Mx8 { a: code(a)?, b: code(b)? })
            }
            (Format::INDEX4, Format::INDEX4) if cols <= 128 => Some(Kind::Mx4 { steps: cols.div_ceil(64) }),
            (Format::BF16, Format::BF16) => Some(Kind::Bf16),
            (Format::BF16, Format::F32) => Some(Kind::Split),
            (_, _) => None,
        }
    }
    fn unit(self) -> MmaKind {
        match self {
            Kind::Mx8 { .. } => MmaKind::Mxf8f6f4,
            Kind::Mx4 { .. } => MmaKind::Mxf4,
            Kind::Bf16 | Kind::Split => MmaKind::F16,
        }
    }
    /// The instruction descriptor without the number of columns, for `rows` rows, 128 or 256 (PTX ISA, instruction
    /// descriptor).
    fn descriptor(self, rows: u32) -> u32 {
        rows << 20
            | match self {
                Kind::Mx8 { a, b } => a << 7 | b << 10 | 1 << 23,
                Kind::Mx4 { .. } => 1 << 7 | 1 << 10 | 1 << 23,
                Kind::Bf16 | Kind::Split => 1 << 4 | 1 << 7 | 1 << 10,
            }
    }
    /// What step `k` of a K block adds to the descriptor: which byte of the scale columns it takes.
    fn step(self, k: u32) -> u32 {
        match self {
            Kind::Mx8 { .. } => k << 29 | k << 4,
            // Two bytes a step.
            Kind::Mx4 { .. } => (2 * k) << 29 | (2 * k) << 4,
            Kind::Bf16 | Kind::Split => 0,
        }
    }
    /// Steps of 32 bytes along K.
    fn steps(self) -> u32 {
        match self {
            Kind::Mx8 { .. } | Kind::Bf16 | Kind::Split => 4,
            Kind::Mx4 { steps } => steps,
        }
    }
    /// Upper word of the operands' descriptors.
    fn operand_high(self) -> i64 {
        match self {
            Kind::Mx8 { .. } | Kind::Bf16 | Kind::Split => OPERAND_HIGH,
            Kind::Mx4 { .. } => DENSE_HIGH,
        }
    }
}

/// What the matrix ops of a role have made already.
#[derive(Debug, Default)]
pub(super) struct Products {
    /// Instruction descriptors by kind and number of columns, one for each step.
    descriptors: BTreeMap<(u32, Value), Vec<Reg>>,
    /// Slots whose scales are in tensor memory.
    scaled: BTreeSet<Value>,
}

impl Products {
    /// Forgets what depended on the tile.
    pub(super) fn forget(&mut self) {
        self.descriptors.clear();
    }
    /// The slot was given away.
    pub(super) fn given(&mut self, slot: Value) {
        self.scaled.remove(&slot);
    }
}

impl Emitter<'_> {
    /// Makes, ahead of a loop, the instruction descriptors that its body needs.
    pub(super) fn products_before_loop(&mut self, body: &[Stmt]) -> Result<()> {
        for node in nodes_of(body) {
            if let Op::MmaTile { acc, a, b, n, .. } = &node.op
                && self.ix(*n).is_ok()
                && ring_of_slot(self.kernel, *acc).is_some_and(|r| self.kernel.rings[r].slot.rows == 128)
                && let (Some(a), Some(b)) = (self.ring_named(*a), self.ring_named(*b))
                && let Some(kind) = Kind::of(a, b)
            {
                self.descriptors(kind, *n)?;
            }
        }
        Ok(())
    }
    /// The ring of the slot that value `v` names.
    fn ring_named(&self, v: Value) -> Option<&Ring> {
        ring_of_slot(self.kernel, v).map(|r| &self.kernel.rings[r])
    }
    fn descriptors(&mut self, kind: Kind, n: Value) -> Result<Vec<Reg>> {
        let descriptor = kind.descriptor(128 * self.kernel.cluster as u32);
        let key = (descriptor, n);
        if let Some(found) = self.products.descriptors.get(&key) {
            return Ok(found.clone());
        }
        let n = self.ix(n)?;
        let asm = &mut self.asm;
        let columns = match n.known() {
            Some(n) => asm.mov_b32(i64::from((n.max(1) as u32).next_multiple_of(16) << 14)),
            None => {
                let up = asm.fold_add(n.low(), 15i64);
                let up = asm.in_reg(Ty::U32, up);
                let sixteens = asm.shr_u32(up, 4);
                asm.shl_b32(sixteens, 18)
            }
        };
        let mut made: Vec<Reg> = Vec::with_capacity(4);
        for k in 0..kind.steps() {
            match (kind.step(k), made.first()) {
                (0, Some(first)) => made.push(*first),
                (step, _) => made.push(asm.or_b32(columns, i64::from(descriptor | step))),
            }
        }
        self.products.descriptors.insert(key, made.clone());
        Ok(made)
    }

    /// `mma.tile` of 128 rows.
    pub(super) fn mma_tile(
        &mut self,
        acc: Value,
        (va, vb): (Value, Value),
        n: Value,
        first: Value,
    ) -> Result<()> {
        let (acc, a, b) = (self.held(acc)?, self.held(va)?, self.held(vb)?);
        let (ra, rb) = (self.ring_held(a), self.ring_held(b));
        let kind = Kind::of(&ra, &rb)
            .ok_or_else(|| unsupported(format!("products of {} and {}", ra.slot.format, rb.slot.format)))?;
        if core_rows(&ra) != 128 {
            return Err(unsupported(format!("products of {} rows", ra.slot.rows)));
        }
        let descriptors = self.descriptors(kind, n)?;
        let first = self.ix(first)?;
        let d = self.asm.fold_add(acc.base, acc.offset);
        let d = self.asm.in_reg(Ty::B32, d);
        let (low_a, low_b) = (low(&mut self.asm, a), low(&mut self.asm, b));
        let accumulate: Operand = match first.known() {
            Some(n) => Operand::Int(i64::from(n == 0)),
            None => {
                let first = self.asm.in_reg(Ty::B32, first.low());
                self.asm.setp(Cmp::Eq, Ty::S32, first, 0i64).into()
            }
        };
        let scales = match kind {
            Kind::Mx8 { .. } | Kind::Mx4 { .. } => {
                // A block of a pair has its own half of the weight's rows, and the scales of all columns.
                Some((self.scales(va, a, &ra, core_rows(&ra))?, self.scales(vb, b, &rb, rb.slot.rows)?))
            }
            Kind::Bf16 | Kind::Split => None,
        };
        let parts = if kind == Kind::Split { 3 } else { 1 };
        let part = (rb.slot.rows.next_multiple_of(8) * ROW / 16) as i64;
        let group = self.group();
        for k in 0..i64::from(kind.steps()) {
            for p in 0..parts {
                let asm = &mut self.asm;
                let a = MmaA::Shared(descriptor(asm, low_a, 2 * k, OPERAND_LOW, kind.operand_high()));
                let b = descriptor(asm, low_b, 2 * k + p * part, OPERAND_LOW, kind.operand_high());
                let mma = Mma {
                    group,
                    kind: kind.unit(),
                    d,
                    a,
                    b,
                    idesc: descriptors[k as usize],
                    scales,
                    accumulate: if k + p == 0 { accumulate } else { Operand::Int(1) },
                    collector: None,
                };
                self.once(|asm| asm.mma(mma));
            }
        }
        Ok(())
    }

    /// Columns that hold a slot's scales, copied there unless they are already.
    fn scales(&mut self, v: Value, held: Held, ring: &Ring, rows: usize) -> Result<Reg> {
        let group = self.group();
        let places = self.places.clone();
        let sets = places.bundles[held.bundle].members[held.member].scales;
        let [first, second] = sets.ok_or_else(|| unsupported("scales without a place"))?.map(i64::from);
        let tmem = self.tmem.ok_or_else(|| unsupported("a product without tensor memory"))?;
        let asm = &mut self.asm;
        let at = match held.set {
            Set::Fixed(0) => asm.fold_add(tmem, first),
            Set::Fixed(_) => asm.fold_add(tmem, second),
            Set::Parity(p) => {
                let moved = asm.mad_u32(p, second - first, tmem);
                asm.fold_add(moved, first)
            }
        };
        let at = asm.in_reg(Ty::B32, at);
        if self.products.scaled.insert(v) {
            let data = slot_of(ring)?.data;
            let low = low(&mut self.asm, held);
            for block in 0..rows.div_ceil(128) {
                let asm = &mut self.asm;
                let from = descriptor(asm, low, ((data + block * BLOCK) / 16) as i64, 0, SCALE_HIGH);
                let to = asm.fold_add(at, SCALE_COLUMNS * block as i64);
                let to = asm.in_reg(Ty::B32, to);
                self.once(|asm| asm.tmem_cp(group, CpShape::L32x128bWarpX4, to, from));
            }
        }
        Ok(at)
    }
}

/// Address of a slot in units of 16 bytes; what is constant stays apart.
fn low(asm: &mut Asm, held: Held) -> (Reg, i64) {
    (asm.shr_u32(held.base, 4), held.offset / 16)
}

/// A shared-memory descriptor `by` units of 16 bytes on.
fn descriptor(asm: &mut Asm, (base, offset): (Reg, i64), by: i64, plus: i64, high: i64) -> Reg {
    let low = asm.add_u32(base, offset + by + plus);
    asm.join2(low, high)
}
