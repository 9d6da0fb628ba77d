//! Slots of rings in scratch memory.
//!
//! | contents | what lies in a slot |
//! |---|---|
//! | weights in panels | nothing: the address in the parameter is the slot |
//! | mx8 for a scaled matrix product | f32 codes `[rows, cols]` and f32 scales `[rows, cols/32]` |
//! | results of matrix products | f32 `[rows, cols]`, columns rounded up to whole panels |
//! | i32 | i32 `[rows, cols]` |
//! | all else | decoded f32 `[rows, cols]` |

use super::env::each_op;
use super::ix::Ix;
use super::tile::{Mem, Node, Place, Tile};
use super::write::Dst;
use super::{Emitter, Result, too_large, unsupported};
use crate::target::cpu::scratch::{Bytes, Region};
use cranelift_codegen::ir::InstBuilder;
use cranelift_codegen::ir::types::{F32, I64};
use cranelift_frontend::Variable;
use std::rc::Rc;
use tessera_ir::tile::{Op, SlotType, Value};
use tessera_ir::types::Layout;
use tessera_ir::{Dim, Elem, Format};

/// Rows of weights in a panel, which are columns of a product.
pub(super) const PANEL_ROWS: usize = 16;
/// Columns that share a scale of mx8.
pub(super) const SCALE_COLS: usize = 32;

/// How a ring's contents are represented.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// f32 or i32 rows.
    Plain,
    /// f32 rows of whole panels.
    Padded,
    /// Codes and scales apart.
    Coded,
    /// Weights in panels, in the memory of this parameter.
    Panels(usize),
}

/// A slot's memory.
#[derive(Clone)]
pub(super) enum Storage {
    /// Rows, with the distance from row to row in columns.
    Plain(Rc<Region>, Dim),
    /// Codes and scales.
    Coded(Rc<Region>, Rc<Region>),
    /// Address of the first panel and number of panels.
    Panels {
        /// The parameter.
        param: usize,
        /// Address.
        first: Variable,
        /// Number.
        count: Variable,
    },
}

/// A slot that an op uses.
#[derive(Clone)]
pub(super) struct Slot {
    /// What it holds.
    pub(super) ty: SlotType,
    /// Which it is.
    pub(super) place: Place,
    /// Its memory.
    pub(super) storage: Storage,
}

/// All slots in use, by ring and number; the error says why a slot has no representation.
#[derive(Default)]
pub(super) struct Slots(Vec<((usize, usize), std::result::Result<Storage, String>)>);

impl Emitter<'_> {
    /// Chooses the representation of every ring, and reserves the memory of every slot. It is never given back: a slot
    /// may be first used inside a loop whose earlier code then runs again.
    pub(super) fn plan_slots(&mut self) {
        let (kernel, program) = (self.kernel, self.program);
        let mut used: Vec<(usize, usize)> =
            program.slots.iter().flatten().map(|s| (s.ring, s.slot)).collect();
        used.sort_unstable();
        used.dedup();
        for (ring, number) in used {
            let storage = match kernel.rings.get(ring) {
                Some(r) => self.kind(ring).and_then(|kind| self.reserve_slot(&r.slot, kind).map_err(|r| r.0)),
                None => Err("a slot of no ring".to_owned()),
            };
            self.slots.0.push(((ring, number), storage));
        }
    }

    /// The representation of ring `i`.
    fn kind(&self, i: usize) -> std::result::Result<Kind, String> {
        let (kernel, program) = (self.kernel, self.program);
        let ring_of = |v: Value| program.slot(v).map(|s| s.ring);
        let is_mx8 = kernel.rings[i].slot.format == Format::MX8;
        let mut panels = Vec::new();
        let mut rows = false;
        let mut product = false;
        let (mut scaled, mut plain) = (false, false);
        each_op(&program.body, &mut |node| match &node.op {
            Op::Copy { view, slot, .. } if ring_of(*slot) == Some(i) => {
                match kernel.param_of(*view).map(|p| p.ty.layout) {
                    Some(Layout::Panels16) if !panels.contains(&view.index()) => panels.push(view.index()),
                    Some(Layout::Panels16) => {}
                    Some(
                        Layout::Rows | Layout::Blocks128 | Layout::Pitch16 | Layout::Split | Layout::Split3,
                    )
                    | None => rows = true,
                }
            }
            Op::CopyRing { slot, .. } | Op::CopyGather { slot, .. } | Op::SlotStore { slot, .. }
                if ring_of(*slot) == Some(i) =>
            {
                rows = true;
            }
            Op::Mma { acc, .. } if ring_of(*acc) == Some(i) => product = true,
            Op::Mma { a, b, .. } if ring_of(*a) == Some(i) => {
                match ring_of(*b).is_some_and(|b| kernel.rings[b].slot.format.group.is_none()) {
                    true => plain = true,
                    false => scaled = true,
                }
            }
            _ => {}
        });
        match panels.as_slice() {
            [] if is_mx8 && scaled && plain => {
                Err("an mx8 ring that meets both scaled and plain weights".to_owned())
            }
            [] if is_mx8 && scaled => Ok(Kind::Coded),
            [] if product => Ok(Kind::Padded),
            [] => Ok(Kind::Plain),
            [param] if !rows => Ok(Kind::Panels(*param)),
            _ => Err("a ring that holds panels of one parameter and something else".to_owned()),
        }
    }

    fn reserve_slot(&mut self, ty: &SlotType, kind: Kind) -> Result<Storage> {
        Ok(match kind {
            Kind::Plain => Storage::Plain(self.reserve(ty.rows, &ty.cols)?, ty.cols.clone()),
            Kind::Padded => {
                let width = match &ty.cols {
                    Dim::Fixed(n) => {
                        Dim::Fixed(n.checked_next_multiple_of(PANEL_ROWS).ok_or_else(too_large)?)
                    }
                    Dim::Sym { .. } => {
                        return Err(unsupported("products of a width not known when compiling"));
                    }
                };
                Storage::Plain(self.reserve(ty.rows, &width)?, width)
            }
            Kind::Coded => {
                let Dim::Fixed(n) = ty.cols else {
                    return Err(unsupported("mx8 slots of a length that is not known when compiling"));
                };
                let scales = Dim::Fixed(n / SCALE_COLS);
                Storage::Coded(self.reserve(ty.rows, &ty.cols)?, self.reserve(ty.rows, &scales)?)
            }
            Kind::Panels(param) => {
                Storage::Panels { param, first: self.b.declare_var(I64), count: self.b.declare_var(I64) }
            }
        })
    }

    fn reserve(&mut self, rows: usize, cols: &Dim) -> Result<Rc<Region>> {
        let bytes = Bytes::of(rows, cols, 4).ok_or_else(too_large)?;
        Ok(Rc::new(self.scratch.take(&bytes).ok_or_else(too_large)?))
    }

    /// The memory that a slot value stands for.
    pub(super) fn slot_place(&self, v: Value) -> Option<Place> {
        self.program.slot(v).map(|s| Place::Slot(s.ring, s.slot))
    }

    /// The slot that a value stands for.
    pub(super) fn slot(&self, v: Value) -> Result<Slot> {
        let s = self.program.slot(v).ok_or_else(|| unsupported("a slot without a place"))?;
        let ring = self.kernel.rings.get(s.ring).ok_or_else(|| unsupported("a slot of no ring"))?;
        match self.slots.0.iter().find(|(at, _)| *at == (s.ring, s.slot)) {
            Some((_, Ok(storage))) => {
                let place = Place::Slot(s.ring, s.slot);
                Ok(Slot { ty: ring.slot.clone(), place, storage: storage.clone() })
            }
            Some((_, Err(why))) => Err(unsupported(why.clone())),
            None => Err(unsupported("a slot without memory")),
        }
    }

    /// The rows of a slot of f32 or i32.
    pub(super) fn slot_rows(&mut self, slot: &Slot) -> Result<Mem> {
        let Storage::Plain(region, width) = &slot.storage else {
            return Err(unsupported(format!("a slot of {} as plain rows", slot.ty.format)));
        };
        let ptr = self.region(region);
        let width = self.dim(width);
        let stride = self.mul(width, Ix::Const(4));
        let elem = if slot.ty.format == Format::I32 { Elem::I32 } else { Elem::F32 };
        Ok(Mem { ptr, stride, elem, place: slot.place, at: None, hold: None })
    }

    /// The block of a slot at (row, col).
    fn slot_block(&mut self, slot: Value, row: Value, col: Value) -> Result<Mem> {
        let (row, col) = (self.index(row)?, self.index(col)?);
        let slot = self.slot(slot)?;
        let mut m = self.slot_rows(&slot)?;
        let down = self.mul(row, m.stride);
        let right = self.mul(col, Ix::Const(4));
        let by = self.add(down, right);
        m.ptr = self.offset(m.ptr, by);
        m.at = Some(Rc::from([row, col]));
        Ok(m)
    }

    /// `slot.load`.
    pub(super) fn slot_load(
        &mut self,
        slot: Value,
        row: Value,
        col: Value,
        rows: usize,
        cols: &Dim,
    ) -> Result<Tile> {
        let m = self.slot_block(slot, row, col)?;
        let format = if m.elem == Elem::I32 { Format::I32 } else { Format::F32 };
        Ok(Tile { rows, cols: cols.clone(), format, node: Node::Mem(m) })
    }

    /// `slot.store`.
    pub(super) fn slot_store(&mut self, x: Value, slot: Value, row: Value, col: Value) -> Result<()> {
        let block = self.slot_block(slot, row, col)?;
        let t = self.tile(x)?;
        if matches!(t.node, Node::Quantised(_)) {
            return Err(unsupported("a quantised tile in a slot (cast it to f32)"));
        }
        let t = self.safe_to_write(t, &block)?;
        self.write(&t, Dst { ptr: block.ptr, stride: block.stride, elem: block.elem })
    }

    /// `slot.fill`.
    pub(super) fn slot_fill(&mut self, slot: Value, value: f32) -> Result<()> {
        let slot = self.slot(slot)?;
        let m = self.slot_rows(&slot)?;
        // One long row, gaps between rows included.
        let n = self.mul(m.stride, Self::size(slot.ty.rows));
        let n = self.div_const(n, 4);
        let x = self.b.ins().f32const(value);
        debug_assert_eq!(self.b.func.dfg.value_type(x), F32);
        self.fill(m.ptr, n, x)
    }

    /// Sets `n` elements from `ptr` on to `x`.
    pub(super) fn fill(
        &mut self,
        ptr: cranelift_codegen::ir::Value,
        n: Ix,
        x: cranelift_codegen::ir::Value,
    ) -> Result<()> {
        let lane = super::lane::Lane::Uniform(x);
        self.columns(n, &mut |e, c, w| {
            let x = match w {
                super::lane::Width::One => e.one(&lane, c),
                super::lane::Width::Four => e.four(&lane, c),
            };
            let (ptr, offset) = e.element(ptr, 0, c, Elem::F32);
            e.store_elem(x, ptr, offset, Elem::F32, w);
        })
    }
}
