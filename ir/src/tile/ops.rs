//! The table of tile ops: one row holds an op's meaning, mnemonic, operands and attributes.

use super::attrs::{Binary, IndexOp, Part, Reduce, Unary};
use super::kernel::Value;
use crate::graph::{Rope, Round};
use crate::text::op_table;
use crate::types::{Dim, Format};

// Operand conventions. `view`: a parameter. `at`: one index for each dimension of the view, outermost first; a block of
// rows × cols starts there (rows along the second-last dimension, which a rank-1 view lacks). It lies inside the view, and
// begins at a scale group, in panels at a multiple of 16 rows. `outer`: indices of leading dimensions; the others but
// the last, flattened, are the rows. `slot`: a slot the role owns. Rows that were never copied are undefined, and so is
// what is computed from them; nothing undefined may reach memory, a selection or an index.
op_table! {
    /// An operation of a role.
    Op over Value;

    // ---- indices -------------------------------------------------------------------------------------------------
    /// The number `value`. Result: index.
    IndexConst = "index.const" () { value: i64 };
    /// The value of a dimension when the kernel runs. Result: index.
    IndexDim = "index.dim" () { dim: Dim };
    /// First coordinate of this tile along grid axis `axis`. Result: index.
    IndexTile = "index.tile" () { axis: usize };
    /// Number of the group that this tile belongs to, along grouped axis `axis`. Result: index.
    IndexGroup = "index.group" () { axis: usize };
    /// End of that group, in coordinates of the axis. Result: index.
    IndexEnd = "index.end" () { axis: usize };
    /// `f(a, b)`. Result: index.
    IndexBinary = "index" (a: Value, b: Value) { f: IndexOp };
    /// One element of an i32 or i64 view; of a view declared `write` one that the same tile has written. Result: index.
    IndexRead = "index.read" (view: Value, at: Vec<Value>) {};
    /// Writes `value` to one element of an i32 or i64 view. No result.
    IndexWrite = "index.write" (value: Value, view: Value, at: Vec<Value>) {};

    // ---- rings ---------------------------------------------------------------------------------------------------
    /// A free slot of a ring whose path this role begins; its contents are undefined. Result: slot.
    Acquire = "acquire" (ring: Value) {};
    /// The oldest slot passed to this role. Result: slot.
    Take = "take" (ring: Value) {};
    /// Hands the slot to the next role of the path. No result.
    Pass = "pass" (slot: Value) {};
    /// Gives the slot back as free; only the last role of the path. No result.
    Release = "release" (slot: Value) {};

    /// Hands the slot back to the one role of the station before, which takes it again. No result.
    Return = "return" (slot: Value) {};

    // ---- copies --------------------------------------------------------------------------------------------------
    /// Copies the first `rows` rows of the block at `at` into the slot's first rows, decoding if the slot's format is
    /// plain and the view's is not; columns as many as the slot has. A slot of a weight in panel layout may be the
    /// memory itself. No result.
    Copy = "copy" (view: Value, at: Vec<Value>, slot: Value, rows: Value) {};
    /// Copies `rows` rows of `view[outer…]` that lie at `(start + i) mod R`, R being its number of rows. No result.
    CopyRing = "copy.ring" (view: Value, outer: Vec<Value>, start: Value, slot: Value, rows: Value) {};
    /// Copies rows `ids[at + i]`, i < `rows`, of `view[outer…]`; a negative id gives a row of zeros. No result.
    CopyGather = "copy.gather" (view: Value, outer: Vec<Value>, ids: Value, at: Vec<Value>, slot: Value, rows: Value) {};

    /// Copies the block of the slot's shape at `at`; elements outside the view are zeros. In a slot of a quantised format
    /// `part` may name one half of the work; the other half is another copy of the same rows. No result.
    CopyTile = "copy.tile" (view: Value, at: Vec<Value>, slot: Value) { part: Part };
    /// Row i of the slot becomes row `ids[at + i/per]·per + i mod per` of `view[outer…]`, from column `col` on. Rows from
    /// `rows` on, rows with a negative id and columns outside the view are zeros. `part` as in `copy.tile`. No result.
    CopyRows = "copy.rows" (view: Value, outer: Vec<Value>, ids: Value, at: Vec<Value>, col: Value, slot: Value, rows: Value) { per: usize, part: Part };
    /// Row i of the slot becomes row `(start + i) mod R` of `view[outer…]`, R being its number of rows; rows from `rows` on
    /// are zeros. No result.
    CopyWrap = "copy.wrap" (view: Value, outer: Vec<Value>, start: Value, slot: Value, rows: Value) {};
    /// Decodes all rows of the quantised slot `from` into the plain slot `to` of as many columns, from row `row` on. No result.
    Decode = "decode" (from: Value, to: Value, row: Value) {};

    // ---- matrix ops ----------------------------------------------------------------------------------------------
    /// `acc[i, n] (+)= Σ_k a[i, k]·b[n, k]` for i < `rows`; overwrites if `init`. Order: K blocks of 32 (scaled b) or 64
    /// (plain b) ascending; within a block of scaled b the pairs (k, k+1) ascending, odd element first, by fused
    /// multiply-adds over codes, then `acc = fma(p·a_scale, b_scale, acc)`; within a block of plain b ascending k, then
    /// `acc += p`. No result.
    Mma = "mma" (acc: Value, a: Value, b: Value, rows: Value) { init: bool };
    /// `acc[i, j] (+)= Σ_k a[i, k]·b[j, k]` (with `trans`: `b[k, j]`) for all i and for j < `n`; overwrites where `first` is not
    /// 0. Order as in `mma`, in blocks of 32 along K if an operand has scales, else of 64. A machine may compute
    /// columns from `n` on; they are undefined. No result.
    MmaTile = "mma.tile" (acc: Value, a: Value, b: Value, n: Value, first: Value) { trans: bool };
    /// `acc[h, col + n] = (q[h]·keys[n])·scale` for n < `n`; dots in 16 lanes, then the lane tree. No result.
    MmaScores = "mma.scores" (acc: Value, q: Value, keys: Value, col: Value, n: Value) { scale: f32 };
    /// `acc[h, :] += Σ_n e[h, col + n]·values[n, :]` for n < `n`: ascending n by fused multiply-adds from 0, then one
    /// addition. No result.
    MmaValues = "mma.values" (acc: Value, e: Value, values: Value, col: Value, n: Value) {};
    /// `acc[0, col + n] = Σ_h relu(q[h]·keys[n])·w[h]` for n < `n`, h ascending; dots as in `mma.scores`; `round` applies to
    /// each dot, each product and the sum. `w` is a slot of one row. No result.
    MmaIndex = "mma.index" (acc: Value, q: Value, w: Value, keys: Value, col: Value, n: Value) { round: Round };

    // ---- tiles from and to memory --------------------------------------------------------------------------------
    /// The `rows × cols` block of a view at `at`, decoded. Result: tile f32 or i32.
    Load = "load" (view: Value, at: Vec<Value>) { rows: usize, cols: Dim };
    /// Writes a tile whose format is the view's. No result.
    Store = "store" (x: Value, view: Value, at: Vec<Value>) {};
    /// Writes the first `rows` rows of a tile whose format is the view's; columns outside the view are dropped. No result.
    StoreRows = "store.rows" (x: Value, view: Value, at: Vec<Value>, rows: Value) {};
    /// Writes row i < `rows` of a tile whose format is the view's to row `ids[at + i]` of the view, all dimensions but the
    /// last counted as one, from column `col` on; columns outside the view are dropped. No result.
    StoreScatter = "store.scatter" (x: Value, view: Value, ids: Value, at: Vec<Value>, col: Value, rows: Value) {};
    /// The `rows × cols` block of a slot (plain format) at (row, col). Result: tile.
    SlotLoad = "slot.load" (slot: Value, row: Value, col: Value) { rows: usize, cols: Dim };
    /// Writes a plain tile into a slot of its format (bf16 also into f32) at (row, col). No result.
    SlotStore = "slot.store" (x: Value, slot: Value, row: Value, col: Value) {};
    /// Sets a whole slot (plain format) to `value`. No result.
    SlotFill = "slot.fill" (slot: Value) { value: f32 };

    // ---- tile arithmetic -----------------------------------------------------------------------------------------
    /// A 1×1 tile. Result: tile f32.
    Splat = "splat" () { value: f32 };
    /// `f` of each element. Result: tile f32 of the same shape.
    Map = "map" (x: Value) { f: Unary };
    /// `f` of corresponding elements; 1×1, 1×c and r×1 operands are repeated. Result: tile f32.
    Zip = "zip" (a: Value, b: Value) { f: Binary };
    /// Reduction along rows (`axis` 0, result 1×c) or columns (`axis` 1, result r×1). Result: tile f32.
    Reduce = "reduce" (x: Value) { f: Reduce, axis: usize };
    /// Row by row `Σ a·b` in 16 lanes by fused multiply-adds, then the lane tree. Result: tile r×1.
    Dot = "dot" (a: Value, b: Value) {};
    /// A part of a tile. Result: tile.
    Slice = "slice" (x: Value) { row: usize, rows: usize, col: usize, cols: usize };
    /// The same elements, row-major, in another shape. Result: tile.
    Reshape = "reshape" (x: Value) { rows: usize, cols: usize };
    /// Rows become columns. Result: tile.
    Transpose = "transpose" (x: Value) {};
    /// Columns from `n` on set to `value`. Result: tile f32.
    MaskCols = "mask.cols" (x: Value, n: Value) { value: f32 };
    /// Columns j with `ids[at + j] < 0`, or outside the list, set to `value`. Result: tile f32.
    MaskIds = "mask.ids" (x: Value, ids: Value, at: Vec<Value>) { value: f32 };
    /// 1 if an element is above 0, else 0. Result: index.
    Any = "any" (x: Value) {};
    /// The value in another format: rounded (bf16), quantised along the row, or decoded (to f32). Result: tile of that format.
    Cast = "cast" (x: Value) { format: Format };
    /// Rotates the last 2m columns of each row, adjacent pairs, by the angles whose cosines and sines are the 1×2m
    /// `table`: `(e·c − o·s, e·s + o·c)`, each product and sum rounded; `inverse` negates the sines. Result: tile.
    Rotate = "rotate" (x: Value, table: Value) { inverse: bool };
    /// Cosines, then sines, of `pos·θ_m`: product in f32, functions correctly rounded. Result: tile 1×dim.
    Angles = "angles" (pos: Value) { rope: Rope };

    // ---- selection -----------------------------------------------------------------------------------------------
    /// Positions of the k largest of the first `n` columns of a one-row tile, ascending, −1 padded; equal: the lower
    /// position; −∞ and NaN never. Result: tile 1×k i32.
    TopK = "topk" (x: Value, n: Value) { k: usize };
    /// `topk` of the first `n` elements of a row in memory, from `at` on. With `block` b > 1 of the maxima of blocks of b
    /// elements, the block that holds element `newest` (if `newest ≥ 0`) always among them. Result: tile 1×k i32.
    TopKView = "topk.view" (view: Value, at: Vec<Value>, n: Value, newest: Value) { k: usize, block: usize };
    /// `topk` among those of the first `n` elements of a row in memory that lie in the blocks of `block` elements listed in the
    /// row of `list` at `from` (ascending, −1 padded). Result: tile 1×k i32.
    TopKListed = "topk.listed" (view: Value, at: Vec<Value>, n: Value, list: Value, from: Vec<Value>) { k: usize, block: usize };
    /// The stable counting sort of all elements of `experts`, numbers below `count`: `offsets` gets the groups' borders, `pairs`
    /// the element numbers in order, `rows` their rows. No result.
    SortGroups = "sort.groups" (experts: Value, offsets: Value, pairs: Option<Value>, rows: Option<Value>) { count: usize };
    /// Positions of the k largest, best first; equal: the lower position; NaN last. Result: tile 1×k i32.
    TopRanked = "topk.ranked" (x: Value) { k: usize };
    /// Columns `ids` of a one-row tile. Result: tile 1×k f32.
    PickCols = "pick" (x: Value, ids: Value) {};
    /// Maxima of blocks of `block` of the first `n` columns of a slot row, the block holding column `newest` set to +∞
    /// (if `newest ≥ 0`), written to `out`'s row. No result.
    BlockMax = "block.max" (scores: Value, n: Value, newest: Value, out: Value) { block: usize };
    /// Sets columns of a slot row outside the listed blocks to −∞ (first `n` columns). No result.
    Restrict = "restrict" (scores: Value, n: Value, blocks: Value) { block: usize };
    /// Position of the largest element; equal: the lower; NaN never unless all are. Result: tile 1×1 i32.
    Argmax = "argmax" (x: Value) {};
}
