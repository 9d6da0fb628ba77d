//! Tiles of the grid: which one a block works on, its coordinates, and the groups of grouped axes.

use super::index::Ix;
use super::{Emitter, Result, unsupported};
use crate::target::ptx::Extent;
use crate::target::ptx::isa::{Asm, Cmp, Logic, Operand, Reg, Shuffle, Space, Special, Ty};
use tessera_ir::tile::{Axis, IndexOp, Kernel};

/// Where a tile begins along an axis.
#[derive(Clone, Copy, Debug)]
pub(super) struct Coordinate {
    /// First coordinate.
    pub(super) first: Ix,
    /// Group and the end of its rows, on grouped axes.
    pub(super) group: Option<(Ix, Ix)>,
}

/// The table of a grouped axis in shared memory: tiles before each group, and in all.
#[derive(Clone, Copy, Debug)]
pub(super) struct Table {
    axis: usize,
    /// Offset of `groups + 1` numbers.
    offset: u32,
    groups: u32,
}

/// Thread blocks of a kernel along x.
pub(super) fn blocks(kernel: &Kernel) -> Extent {
    let tiles = kernel.grid.iter().fold(Extent::Const(1), |n, axis| n.mul(most_tiles(kernel, axis)));
    let cores = kernel.cluster as u64;
    match kernel.persistent {
        Some(n) => tiles.min(n as u64).mul(cores),
        None => tiles.mul(cores),
    }
}

/// Tiles of an axis; of a grouped one as many as it can have.
fn most_tiles(kernel: &Kernel, axis: &Axis) -> Extent {
    let whole = Extent::from(&axis.extent).ceil_div(axis.tile as u64);
    match groups(kernel, axis) {
        // Every group may end in a tile that is not full, and no tile is empty.
        Some(groups) => whole.add(u64::from(groups)).min(Extent::from(&axis.extent)),
        None => whole,
    }
}

fn groups(kernel: &Kernel, axis: &Axis) -> Option<u32> {
    let list = kernel.param_of(axis.groups?)?;
    let borders = list.ty.shape.first()?.fixed()?;
    u32::try_from(borders.saturating_sub(1)).ok()
}

impl Emitter<'_> {
    /// Lays out the tables of grouped axes.
    pub(super) fn group_tables(&mut self) -> Result<Vec<Table>> {
        let mut tables = Vec::new();
        for (i, axis) in self.kernel.grid.iter().enumerate() {
            if axis.groups.is_some() {
                let groups = groups(self.kernel, axis)
                    .ok_or_else(|| unsupported("groups whose number is not known when compiling"))?;
                let offset = self.shared.take(4 * (groups + 1), 16);
                tables.push(Table { axis: i, offset, groups });
            }
        }
        Ok(tables)
    }

    /// Fills a table; the first warp of the block does. The block meets afterwards.
    pub(super) fn fill_table(&mut self, table: &Table) -> Result<()> {
        let axis = &self.kernel.grid[table.axis];
        let Some(list) = axis.groups else { return Ok(()) };
        let base = self.plane(list, 0)?;
        let smem = self.smem;
        let (asm, tile) = (&mut self.asm, axis.tile as u32);
        asm.comment(&format!("tiles of the groups of axis {}", axis.name));
        let lane = asm.special(Special::LaneId);
        let sum = asm.mov_b32(0u32);
        let group = asm.mov_b32(lane);
        let rounds = table.groups.div_ceil(32);
        let at = asm.mad_u32(lane, 4u32, smem);
        let from = asm.element(base, lane, 4);
        for round in 0..rounds {
            let there = asm.setp(Cmp::Lt, Ty::U32, group, table.groups);
            let (first, end) = (asm.mov_b32(0u32), asm.mov_b32(0u32));
            let bytes = i64::from(round) * 128;
            asm.guard(there, |asm| {
                asm.ld_to(&[first], Space::Global, Ty::U32, from.at(bytes));
                asm.ld_to(&[end], Space::Global, Ty::U32, from.at(bytes + 4));
            });
            let rows = asm.sub_u32(end, first);
            let up = asm.add_u32(rows, tile - 1);
            let tiles = asm.div_u32(up, tile);
            let before = inclusive(asm, tiles);
            let own = asm.sub_u32(before, tiles);
            let own = asm.add_u32(own, sum);
            asm.guard(there, |asm| asm.st_shared(Ty::U32, at.at(i64::from(table.offset) + bytes), own));
            let all = asm.shfl_idx(before, 31u32);
            asm.add_u32_to(sum, sum, all);
            asm.add_u32_to(group, group, 32u32);
        }
        let first = asm.setp(Cmp::Eq, Ty::U32, lane, 0u32);
        asm.guard(first, |asm| {
            asm.st_shared(Ty::U32, smem.at(i64::from(table.offset + 4 * table.groups)), sum);
        });
        Ok(())
    }

    /// Tiles along axis `i`.
    fn tiles(&mut self, i: usize, tables: &[Table]) -> Operand {
        let axis = &self.kernel.grid[i];
        match tables.iter().find(|t| t.axis == i) {
            Some(t) => {
                let at = self.smem.at(i64::from(t.offset + 4 * t.groups));
                self.asm.ld_shared(Ty::U32, at).into()
            }
            None => {
                let extent = self.dim(&axis.extent);
                let up = self.ix_add(extent, Ix::constant(axis.tile as i64 - 1));
                self.ix_binary(IndexOp::Div, up, Ix::constant(axis.tile as i64)).low()
            }
        }
    }

    /// Tiles of the whole grid.
    pub(super) fn all_tiles(&mut self, tables: &[Table]) -> Operand {
        let mut all = Operand::Int(1);
        for i in 0..self.kernel.grid.len() {
            let n = self.tiles(i, tables);
            all = self.asm.fold_mul(all, n);
        }
        all
    }

    /// The coordinates of tile `number`.
    pub(super) fn locate(&mut self, number: Reg, tables: &[Table]) {
        let mut rest: Operand = number.into();
        let mut found = Vec::new();
        for i in (0..self.kernel.grid.len()).rev() {
            let along = if i == 0 {
                rest
            } else {
                let n = self.tiles(i, tables);
                let along = self.asm.fold_rem(rest, n);
                rest = self.asm.fold_div(rest, n);
                along
            };
            let axis = &self.kernel.grid[i];
            let extent = i64::from(i32::MAX);
            let tile = Ix::constant(axis.tile as i64);
            let coordinate = match tables.iter().find(|t| t.axis == i) {
                Some(table) => self.in_groups(along, table),
                None => {
                    let along = Ix::word(along, 0, (extent - 1) / axis.tile as i64);
                    Coordinate { first: self.ix_mul(along, tile), group: None }
                }
            };
            found.push(coordinate);
        }
        found.reverse();
        self.tile = found;
    }

    /// The group of tile `along` of a grouped axis: the last one with no more tiles before it.
    fn in_groups(&mut self, along: Operand, table: &Table) -> Coordinate {
        let axis = &self.kernel.grid[table.axis];
        let (smem, tile) = (self.smem, axis.tile as u32);
        let asm = &mut self.asm;
        let along = asm.in_reg(Ty::U32, along);
        let place = asm.mov_b32(0u32);
        let mut step = table.groups.next_power_of_two() / 2;
        while step > 0 {
            let next = asm.add_u32(place, step);
            let at = asm.min_u32(next, table.groups);
            let address = asm.mad_u32(at, 4u32, smem);
            let before = asm.ld_shared(Ty::U32, address.at(i64::from(table.offset)));
            let inside = asm.setp(Cmp::Lt, Ty::U32, next, table.groups);
            let both = [before.into(), along.into()];
            let p = asm.setp_with(Cmp::Le, Ty::U32, both, Logic::And, (inside, true));
            asm.selp_to(place, Ty::U32, next, place, p);
            step /= 2;
        }
        let address = asm.mad_u32(place, 4u32, smem);
        let before = asm.ld_shared(Ty::U32, address.at(i64::from(table.offset)));
        let number = asm.sub_u32(along, before);
        let base = match axis.groups.and_then(|list| self.pointers.get(list.index())).map(|p| p.planes[0]) {
            Some(symbol) => self.asm.ld_param(symbol),
            None => return Coordinate { first: Ix::constant(0), group: None },
        };
        let asm = &mut self.asm;
        let from = asm.element(base, place, 4);
        let (first, end) = (asm.ld_global(Ty::U32, from), asm.ld_global(Ty::U32, from.at(4)));
        let row = asm.mad_u32(number, tile, first);
        let most = i64::from(i32::MAX);
        let group = (Ix::word(place, 0, i64::from(table.groups) - 1), Ix::word(end, 0, most));
        Coordinate { first: Ix::word(row, 0, most), group: Some(group) }
    }
}

/// Sum of `x` over the lanes up to this one.
fn inclusive(asm: &mut Asm, x: Reg) -> Reg {
    let sum = asm.mov_b32(x);
    for by in [1u32, 2, 4, 8, 16] {
        let (below, valid) = asm.shfl_valid(Shuffle::Up, sum, by);
        asm.guard(valid, |asm| asm.add_u32_to(sum, sum, below));
    }
    sum
}
