//! One builder method for each op; operands and attributes in the order of the op table.

use super::attrs::{Binary, IndexOp, Part, Reduce, Unary};
use super::build::RoleBuilder;
use super::kernel::Value;
use super::ops::Op;
use crate::graph::{Rope, Round};
use crate::types::{Dim, Format};

/// Methods of ops with a result and of ops without; each appends the op of the same name.
macro_rules! methods {
    (
        values { $($(#[$vdoc:meta])* fn $vname:ident($($varg:ident: $vty:ty),*) = $vop:expr;)* }
        effects { $($(#[$edoc:meta])* fn $ename:ident($($earg:ident: $ety:ty),*) = $eop:expr;)* }
    ) => {
        #[allow(clippy::too_many_arguments, reason = "as many as the op has operands and attributes")]
        impl RoleBuilder<'_> {
            $($(#[$vdoc])*
            pub fn $vname(&mut self, $($varg: $vty),*) -> Value {
                self.value($vop)
            })*
            $($(#[$edoc])*
            pub fn $ename(&mut self, $($earg: $ety),*) {
                self.emit($eop);
            })*
        }
    };
}

methods! {
    values {
        /// [`Op::IndexConst`].
        fn index_const(value: i64) = Op::IndexConst { value };
        /// [`Op::IndexDim`].
        fn index_dim(dim: impl Into<Dim>) = Op::IndexDim { dim: dim.into() };
        /// [`Op::IndexTile`].
        fn index_tile(axis: usize) = Op::IndexTile { axis };
        /// [`Op::IndexGroup`].
        fn index_group(axis: usize) = Op::IndexGroup { axis };
        /// [`Op::IndexEnd`].
        fn index_end(axis: usize) = Op::IndexEnd { axis };
        /// [`Op::Transpose`].
        fn transpose(x: Value) = Op::Transpose { x };
        /// [`Op::MaskCols`].
        fn mask_cols(x: Value, n: Value, value: f32) = Op::MaskCols { x, n, value };
        /// [`Op::MaskIds`].
        fn mask_ids(x: Value, ids: Value, at: &[Value], value: f32) = Op::MaskIds { x, ids, at: at.to_vec(), value };
        /// [`Op::Any`].
        fn any(x: Value) = Op::Any { x };
        /// [`Op::TopKView`].
        fn topk_view(view: Value, at: &[Value], n: Value, newest: Value, k: usize, block: usize) =
            Op::TopKView { view, at: at.to_vec(), n, newest, k, block };
        /// [`Op::TopKListed`].
        fn topk_listed(view: Value, at: &[Value], n: Value, list: Value, from: &[Value], k: usize, block: usize) =
            Op::TopKListed { view, at: at.to_vec(), n, list, from: from.to_vec(), k, block };
        /// [`Op::IndexBinary`].
        fn index(f: IndexOp, a: Value, b: Value) = Op::IndexBinary { a, b, f };
        /// [`Op::IndexRead`].
        fn index_read(view: Value, at: &[Value]) = Op::IndexRead { view, at: at.to_vec() };
        /// [`Op::Acquire`].
        fn acquire(ring: Value) = Op::Acquire { ring };
        /// [`Op::Take`].
        fn take(ring: Value) = Op::Take { ring };
        /// [`Op::Load`].
        fn load(view: Value, at: &[Value], rows: usize, cols: impl Into<Dim>) =
            Op::Load { view, at: at.to_vec(), rows, cols: cols.into() };
        /// [`Op::SlotLoad`].
        fn slot_load(slot: Value, row: Value, col: Value, rows: usize, cols: impl Into<Dim>) =
            Op::SlotLoad { slot, row, col, rows, cols: cols.into() };
        /// [`Op::Splat`].
        fn splat(value: f32) = Op::Splat { value };
        /// [`Op::Map`].
        fn map(x: Value, f: Unary) = Op::Map { x, f };
        /// [`Op::Zip`].
        fn zip(a: Value, b: Value, f: Binary) = Op::Zip { a, b, f };
        /// [`Op::Reduce`].
        fn reduce(x: Value, f: Reduce, axis: usize) = Op::Reduce { x, f, axis };
        /// [`Op::Dot`].
        fn dot(a: Value, b: Value) = Op::Dot { a, b };
        /// [`Op::Slice`].
        fn slice(x: Value, row: usize, rows: usize, col: usize, cols: usize) =
            Op::Slice { x, row, rows, col, cols };
        /// [`Op::Reshape`].
        fn reshape(x: Value, rows: usize, cols: usize) = Op::Reshape { x, rows, cols };
        /// [`Op::Cast`].
        fn cast(x: Value, format: Format) = Op::Cast { x, format };
        /// [`Op::Rotate`].
        fn rotate(x: Value, table: Value, inverse: bool) = Op::Rotate { x, table, inverse };
        /// [`Op::Angles`].
        fn angles(pos: Value, rope: Rope) = Op::Angles { pos, rope };
        /// [`Op::TopK`].
        fn topk(x: Value, n: Value, k: usize) = Op::TopK { x, n, k };
        /// [`Op::TopRanked`].
        fn topk_ranked(x: Value, k: usize) = Op::TopRanked { x, k };
        /// [`Op::PickCols`].
        fn pick(x: Value, ids: Value) = Op::PickCols { x, ids };
        /// [`Op::Argmax`].
        fn argmax(x: Value) = Op::Argmax { x };
    }
    effects {
        /// [`Op::Return`].
        fn return_(slot: Value) = Op::Return { slot };
        /// [`Op::CopyTile`].
        fn copy_tile(view: Value, at: &[Value], slot: Value, part: Part) =
            Op::CopyTile { view, at: at.to_vec(), slot, part };
        /// [`Op::CopyRows`].
        fn copy_rows(view: Value, outer: &[Value], ids: Value, at: &[Value], col: Value, slot: Value, rows: Value, per: usize, part: Part) =
            Op::CopyRows { view, outer: outer.to_vec(), ids, at: at.to_vec(), col, slot, rows, per, part };
        /// [`Op::CopyWrap`].
        fn copy_wrap(view: Value, outer: &[Value], start: Value, slot: Value, rows: Value) =
            Op::CopyWrap { view, outer: outer.to_vec(), start, slot, rows };
        /// [`Op::Decode`].
        fn decode(from: Value, to: Value, row: Value) = Op::Decode { from, to, row };
        /// [`Op::MmaTile`].
        fn mma_tile(acc: Value, a: Value, b: Value, n: Value, first: Value, trans: bool) =
            Op::MmaTile { acc, a, b, n, first, trans };
        /// [`Op::StoreRows`].
        fn store_rows(x: Value, view: Value, at: &[Value], rows: Value) =
            Op::StoreRows { x, view, at: at.to_vec(), rows };
        /// [`Op::StoreScatter`].
        fn store_scatter(x: Value, view: Value, ids: Value, at: &[Value], col: Value, rows: Value) =
            Op::StoreScatter { x, view, ids, at: at.to_vec(), col, rows };
        /// [`Op::SortGroups`].
        fn sort_groups(experts: Value, offsets: Value, pairs: Option<Value>, rows: Option<Value>, count: usize) =
            Op::SortGroups { experts, offsets, pairs, rows, count };
        /// [`Op::IndexWrite`].
        fn index_write(value: Value, view: Value, at: &[Value]) =
            Op::IndexWrite { value, view, at: at.to_vec() };
        /// [`Op::Pass`].
        fn pass(slot: Value) = Op::Pass { slot };
        /// [`Op::Release`].
        fn release(slot: Value) = Op::Release { slot };
        /// [`Op::Copy`].
        fn copy(view: Value, at: &[Value], slot: Value, rows: Value) =
            Op::Copy { view, at: at.to_vec(), slot, rows };
        /// [`Op::CopyRing`].
        fn copy_ring(view: Value, outer: &[Value], start: Value, slot: Value, rows: Value) =
            Op::CopyRing { view, outer: outer.to_vec(), start, slot, rows };
        /// [`Op::CopyGather`].
        fn copy_gather(view: Value, outer: &[Value], ids: Value, at: &[Value], slot: Value, rows: Value) =
            Op::CopyGather { view, outer: outer.to_vec(), ids, at: at.to_vec(), slot, rows };
        /// [`Op::Mma`].
        fn mma(acc: Value, a: Value, b: Value, rows: Value, init: bool) = Op::Mma { acc, a, b, rows, init };
        /// [`Op::MmaScores`].
        fn mma_scores(acc: Value, q: Value, keys: Value, col: Value, n: Value, scale: f32) =
            Op::MmaScores { acc, q, keys, col, n, scale };
        /// [`Op::MmaValues`].
        fn mma_values(acc: Value, e: Value, values: Value, col: Value, n: Value) =
            Op::MmaValues { acc, e, values, col, n };
        /// [`Op::MmaIndex`].
        fn mma_index(acc: Value, q: Value, w: Value, keys: Value, col: Value, n: Value, round: Round) =
            Op::MmaIndex { acc, q, w, keys, col, n, round };
        /// [`Op::Store`].
        fn store(x: Value, view: Value, at: &[Value]) = Op::Store { x, view, at: at.to_vec() };
        /// [`Op::SlotStore`].
        fn slot_store(x: Value, slot: Value, row: Value, col: Value) = Op::SlotStore { x, slot, row, col };
        /// [`Op::SlotFill`].
        fn slot_fill(slot: Value, value: f32) = Op::SlotFill { slot, value };
        /// [`Op::BlockMax`].
        fn block_max(scores: Value, n: Value, newest: Value, out: Value, block: usize) =
            Op::BlockMax { scores, n, newest, out, block };
        /// [`Op::Restrict`].
        fn restrict(scores: Value, n: Value, blocks: Value, block: usize) =
            Op::Restrict { scores, n, blocks, block };
    }
}
