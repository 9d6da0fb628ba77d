//! What the products of SM100 share: rings of K blocks, the roles, and walks over K and over accumulator columns.

use super::gemm::weight_format;
use crate::error::Error;
use crate::interface::Fragment;
use tessera_ir::graph::Value as GraphValue;
use tessera_ir::machine::sm100;
use tessera_ir::tile::{
    self, Class, Hop, IndexOp, KernelBuilder, Lanes, Part, Ring, RingScope, RoleBuilder, RoleKind, SlotType,
    Threads,
};
use tessera_ir::{Dim, Format};

/// Rows of a weight in a tile: the lanes of an accumulator.
pub(super) const STEP: usize = 128;

/// Columns of an accumulator that the epilogue takes at a time.
const SLICE: usize = 16;

/// Shared memory kept for barriers, tables and staging.
const RESERVED: usize = 5 * 1024;

/// Slots of each of `stages`, which are filled together: as many as fit, an even number.
pub(super) fn depth_of(stages: &[&Ring]) -> usize {
    let bytes: usize = stages.iter().filter_map(|r| sm100::shared_slot(r)).map(|s| s.pitch()).sum();
    (((sm100::SHARED_BYTES - RESERVED) / bytes.max(1)).min(12) / 2 * 2).max(2)
}

/// The operands of a product, or of gate and up products of the same rows.
pub(super) struct Operands {
    weight: Format,
    rows: Format,
    /// Weights, 1 or 2.
    count: usize,
    /// Rows of a tile.
    tokens: usize,
    /// Columns of a K block, 128 bytes of codes.
    block: usize,
    /// Cores that share a tile: each has half of the weight's rows, and brings half of the rows.
    cores: usize,
    /// K blocks, even if more than one.
    blocks: usize,
    depth: usize,
}

/// Which of the K blocks of a turn a block is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// There is one block in all.
    Only,
    First,
    Later,
}

/// The rings of a product.
pub(super) struct Rings {
    /// K blocks of each weight.
    pub(super) weights: Vec<tile::Value>,
    /// K blocks of the rows.
    pub(super) rows: tile::Value,
    /// Accumulators, one for each weight.
    pub(super) accums: Vec<tile::Value>,
    /// A factor for each row.
    pub(super) factors: Option<tile::Value>,
}

impl Operands {
    /// The operands of products `x · wᵀ` over `k` columns, in tiles of `tokens` rows.
    pub(super) fn new(
        f: &Fragment<'_>,
        x: GraphValue,
        weights: &[GraphValue],
        k: usize,
        (tokens, cores): (usize, usize),
    ) -> Result<Self, Error> {
        let rows = f.ty(x).format;
        let weight = weight_format(rows, f.ty(weights[0]).format);
        let block = match (weight, rows) {
            (Format::W8 | Format::MX4, Format::MX8) => 128,
            (Format::BF16, Format::BF16) => 64,
            (_, _) => {
                return Err(f.fault(format!("the matrix unit has no product of {rows} and {weight}")));
            }
        };
        let blocks = match k.div_ceil(block) {
            1 => 1,
            // Stages are taken in pairs; a block outside the views is zeros.
            n => n.next_multiple_of(2),
        };
        let mut ops = Operands { weight, rows, count: weights.len(), tokens, block, cores, blocks, depth: 1 };
        let (w, x) = (ops.stage("w", ops.step(), weight), ops.stage("rows", tokens, rows));
        ops.depth = depth_of(&std::iter::repeat_n(&w, ops.count).chain([&x]).collect::<Vec<_>>());
        Ok(ops)
    }
    /// Rows of the weight in a tile.
    pub(super) fn step(&self) -> usize {
        STEP * self.cores
    }
    /// Who shares the slots of a tile.
    fn scope(&self) -> RingScope {
        if self.cores == 2 { RingScope::Pair } else { RingScope::Core }
    }
    /// A ring of K blocks without a path.
    fn stage(&self, name: &str, rows: usize, format: Format) -> Ring {
        Ring {
            name: name.to_owned(),
            class: Class::Stage,
            slot: SlotType { rows, cols: Dim::Fixed(self.block), format },
            depth: self.depth,
            scope: self.scope(),
            path: Vec::new(),
        }
    }
    /// True if rows have scales.
    pub(super) fn scaled(&self) -> bool {
        self.rows.group.is_some()
    }
    /// What the role `rows` moves.
    pub(super) fn codes(&self) -> Part {
        if self.scaled() { Part::Codes } else { Part::All }
    }
    /// Number of the matrix role.
    fn matrix(&self) -> usize {
        if self.scaled() { 3 } else { 2 }
    }

    /// Declares the rings; `factors` asks for a number for each row.
    pub(super) fn rings(&self, kb: &mut KernelBuilder, factors: bool) -> Rings {
        let (matrix, epilogue) = (self.matrix(), self.matrix() + 1);
        let first = if self.scaled() { vec![1, 2] } else { vec![1] };
        let weights = (0..self.count)
            .map(|i| {
                let path = vec![Hop::from(0), Hop::from(matrix)];
                kb.ring_of(Ring { path, ..self.stage(&format!("weight{i}"), self.step(), self.weight) })
            })
            .collect();
        let path = vec![Hop { roles: first }, Hop::from(matrix)];
        let rows = kb.ring_of(Ring { path, ..self.stage("rows", self.tokens, self.rows) });
        let acc = SlotType { rows: self.step(), cols: Dim::Fixed(self.tokens), format: Format::F32 };
        let accums = (0..self.count)
            .map(|i| {
                kb.ring_of(Ring {
                    name: format!("acc{i}"),
                    class: Class::Accum,
                    slot: acc.clone(),
                    depth: 2,
                    scope: self.scope(),
                    path: vec![Hop::from(matrix), Hop::from(epilogue)],
                })
            })
            .collect();
        let factor = SlotType { rows: self.tokens, cols: Dim::Fixed(1), format: Format::F32 };
        let factors = factors.then(|| kb.ring("factors", Class::Vec, factor, 2, &[2, epilogue]));
        Rings { weights, rows, accums, factors }
    }

    /// The role that moves weights: on its own, since they are there before the kernel that makes the rows has ended.
    pub(super) fn weights_role(&self, kb: &mut KernelBuilder, body: impl FnOnce(&mut RoleBuilder<'_>)) {
        kb.role(RoleKind::Copy, "weights", body);
    }
    /// The role that moves rows, or their codes.
    pub(super) fn rows_role(&self, kb: &mut KernelBuilder, body: impl FnOnce(&mut RoleBuilder<'_>)) {
        kb.role(RoleKind::Copy, "rows", body);
    }
    /// The role that moves the rows' scales, if they have any.
    pub(super) fn scales_role(&self, kb: &mut KernelBuilder, body: impl FnOnce(&mut RoleBuilder<'_>)) {
        if self.scaled() {
            kb.role(RoleKind::Copy, "scales", body);
        }
    }
    /// The role that multiplies; `live` gives the number of live rows of the tile.
    pub(super) fn matrix_role(
        &self,
        kb: &mut KernelBuilder,
        rings: &Rings,
        live: impl FnOnce(&mut RoleBuilder<'_>) -> tile::Value,
    ) {
        kb.role(RoleKind::Matrix, "matrix", |r| {
            let live = live(r);
            // The halves of a pair's rows lie in both cores, so that it multiplies all of them.
            let live = if self.cores == 2 { r.index_const(self.tokens as i64) } else { live };
            let accums: Vec<_> = rings.accums.iter().map(|c| r.acquire(*c)).collect();
            self.each_block(r, |r, k, turn| {
                let first = match turn {
                    Turn::Only => r.index_const(1),
                    Turn::First => {
                        let zero = r.index_const(0);
                        r.index(IndexOp::Eq, k, zero)
                    }
                    Turn::Later => r.index_const(0),
                };
                let weights: Vec<_> = rings.weights.iter().map(|w| r.take(*w)).collect();
                let rows = r.take(rings.rows);
                for (acc, w) in accums.iter().zip(&weights) {
                    r.mma_tile(*acc, *w, rows, live, first, false);
                }
                weights.iter().for_each(|w| r.release(*w));
                r.release(rows);
            });
            accums.iter().for_each(|acc| r.pass(*acc));
        });
    }
    /// The role that takes the accumulators: one warpgroup.
    pub(super) fn epilogue_role(&self, kb: &mut KernelBuilder, body: impl FnOnce(&mut RoleBuilder<'_>)) {
        let lanes = Lanes { count: self.step(), chunk: 1 };
        kb.role_of(RoleKind::Vector, "epilogue", Threads { warps: STEP / 32, registers: None, lanes }, body);
    }

    /// Runs `body` for each K block with its first column, up to eight blocks in one turn: as many loads of scales are under
    /// way at a time, and stages of a turn lie at constant distances.
    pub(super) fn each_block(
        &self,
        r: &mut RoleBuilder<'_>,
        mut body: impl FnMut(&mut RoleBuilder<'_>, tile::Value, Turn),
    ) {
        let zero = r.index_const(0);
        if self.blocks == 1 {
            body(r, zero, Turn::Only);
            return;
        }
        let turn = [8, 6, 4, 2].into_iter().find(|n| self.blocks.is_multiple_of(*n)).unwrap_or(1);
        let end = r.index_const((self.blocks * self.block) as i64);
        r.for_(zero, end, turn * self.block, |r, k| {
            body(r, k, Turn::First);
            for i in 1..turn {
                let step = r.index_const((i * self.block) as i64);
                let next = r.index(IndexOp::Add, k, step);
                body(r, next, Turn::Later);
            }
        });
    }

    /// Takes the accumulators and runs `body` for every sixteen of their columns, turned into rows: the tiles (16 ×
    /// `width`), the first row's number within the tile, and how many are live.
    pub(super) fn each_sixteen(
        &self,
        r: &mut RoleBuilder<'_>,
        rings: &Rings,
        live: tile::Value,
        width: usize,
        mut body: impl FnMut(&mut RoleBuilder<'_>, &[tile::Value], tile::Value, tile::Value),
    ) {
        let slots: Vec<_> = rings.accums.iter().map(|c| r.take(*c)).collect();
        let zero = r.index_const(0);
        r.for_(zero, live, SLICE, |r, from| {
            let tiles: Vec<_> = slots
                .iter()
                .map(|s| {
                    let columns = r.slot_load(*s, zero, from, width, SLICE);
                    r.transpose(columns)
                })
                .collect();
            let rows = crate::linear::remaining(r, live, from, SLICE);
            body(r, &tiles, from, rows);
        });
        slots.iter().for_each(|s| r.release(*s));
    }
}
