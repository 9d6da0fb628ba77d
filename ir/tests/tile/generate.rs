//! Valid kernels from a seed, and damage to their text.

#[path = "generate_sm100.rs"]
mod sm100;

use tessera_ir::graph::{Rope, Round};
use tessera_ir::tile::{
    Access, Binary, Class, IndexOp, Kernel, KernelBuilder, Reduce, RoleBuilder, RoleKind, SlotType, Target,
    Threads, Type, Unary, Value,
};
use tessera_ir::{Dim, Format, Layout, TensorType};

/// A stream of choices.
pub(crate) struct Choices(u64);

impl Choices {
    pub(crate) fn new(seed: u64) -> Self {
        Choices(seed)
    }
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
    pub(crate) fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }
    fn of<T: Copy>(&mut self, items: &[T]) -> T {
        items[self.below(items.len())]
    }
    /// A finite number whose text needs all its digits.
    fn real(&mut self) -> f32 {
        let v = f32::from_bits(self.next() as u32);
        if v.is_finite() { v } else { 1.5e-3 }
    }
}

/// A kernel with one tile for each of T rows.
pub(crate) fn kernel(seed: u64) -> Kernel {
    let mut c = Choices::new(seed);
    let built = match c.below(6) {
        0 => rows(&mut c),
        1 => product(&mut c),
        2 => keys(&mut c),
        3 => sm100::grouped(&mut c),
        4 => sm100::attend(&mut c),
        _ => sm100::select(&mut c),
    };
    built.unwrap_or_else(|e| panic!("seed {seed}: {e}"))
}

fn t() -> Dim {
    Dim::sym("T")
}

fn name(c: &mut Choices) -> &'static str {
    c.of(&["k", "a.b_c", "needs \"quotes\"", "ö"])
}

/// One vector role that applies ops at random to a row and stores its sum.
fn rows(c: &mut Choices) -> Result<Kernel, tessera_ir::tile::BuildFault> {
    let mut k = KernelBuilder::new(name(c));
    let target = c.of(Target::ALL);
    k.target(target);
    let threads = match target {
        Target::Cpu => Threads::default(),
        Target::Sm100 => sm100::warpgroup(c),
    };
    let x = k.param(
        "x.0",
        TensorType::new([t(), 64.into()], c.of(&[Format::F32, Format::BF16, Format::MX8])),
        Access::Read,
    );
    let ids =
        k.param("ids", TensorType::new([t(), 2.into()], c.of(&[Format::I32, Format::I64])), Access::Read);
    let y = k.param("y", TensorType::new([t(), 1.into()], Format::F32), Access::Write);
    let n =
        k.param("n", TensorType::new([t(), 1.into()], Format::I32), c.of(&[Access::Write, Access::Update]));
    let axis = k.axis("row", t(), 1);
    let slot = SlotType { rows: 4, cols: 64.into(), format: Format::F32 };
    let ring = k.ring("work", Class::Vec, slot, 1 + c.below(2), &[0]);
    k.role_of(RoleKind::Vector, "main", threads, |r| {
        let (row, zero) = (r.index_tile(axis), r.index_const(0));
        let place = Place { ring, zero, list: (target == Target::Sm100).then_some((ids, row)) };
        let mut tiles = vec![r.load(x, &[row, zero], 1, 64)];
        let mut indices = vec![zero, r.index_read(ids, &[row, zero])];
        for _ in 0..c.below(12) {
            step(c, r, &mut tiles, &mut indices, place);
        }
        let last = tiles[tiles.len() - 1];
        let columns = r.reduce(last, c.of(Reduce::ALL), 1);
        let all = r.reduce(columns, Reduce::Sum, 0);
        r.store(all, y, &[row, zero]);
        let count = c.of(&indices);
        let (low, high) = (r.index_const(-100), r.index_const(100));
        let bounded = r.index(IndexOp::Max, count, low);
        let bounded = r.index(IndexOp::Min, bounded, high);
        r.index_write(bounded, n, &[row, zero]);
    });
    k.finish()
}

/// What the statements of a row work with beside tiles and indices.
#[derive(Clone, Copy)]
struct Place {
    ring: Value,
    zero: Value,
    /// A list of integers and the row's number, where the machine has ops that take them.
    list: Option<(Value, Value)>,
}

/// Shape of a tile.
fn shape(r: &RoleBuilder<'_>, v: Value) -> (usize, usize) {
    match r.ty(v) {
        Some(Type::Tile { rows, cols: Dim::Fixed(cols), .. }) => (*rows, *cols),
        other => panic!("{v} is {other:?}"),
    }
}

/// One op, or a loop or condition with some.
fn step(
    c: &mut Choices,
    r: &mut RoleBuilder<'_>,
    tiles: &mut Vec<Value>,
    indices: &mut Vec<Value>,
    place: Place,
) {
    let Place { ring, zero, list } = place;
    let x = c.of(tiles);
    let (rows, cols) = shape(r, x);
    let new = match c.below(20) {
        0 => r.map(x, c.of(Unary::ALL)),
        1 => {
            let factor = r.splat(c.real());
            r.zip(x, factor, c.of(Binary::ALL))
        }
        2 => r.zip(x, x, c.of(Binary::ALL)),
        3 => {
            let one = r.reduce(x, c.of(Reduce::ALL), c.below(2));
            r.zip(one, x, c.of(Binary::ALL))
        }
        4 => {
            let sums = r.dot(x, x);
            r.zip(x, sums, Binary::Div)
        }
        5 => {
            let (rows, cols) = c.of(&[(1, rows * cols), (rows * cols, 1), (rows, cols)]);
            r.reshape(x, rows, cols)
        }
        6 => {
            let (row, col) = (c.below(rows), c.below(cols));
            r.slice(x, row, 1 + c.below(rows - row), col, 1 + c.below(cols - col))
        }
        7 => {
            let rounded = r.cast(x, Format::BF16);
            r.cast(rounded, Format::F32)
        }
        8 if cols % 32 == 0 => {
            let codes = r.cast(x, c.of(&[Format::MX8, Format::KV8, Format::KV4, Format::INDEX4]));
            r.cast(codes, Format::F32)
        }
        9 if cols >= 4 => {
            let pos = c.of(indices);
            let rope = Rope { dim: 4, theta: 10000.0, yarn: None };
            let table = r.angles(pos, rope);
            r.rotate(x, table, c.below(2) == 0)
        }
        10 if rows == 1 => {
            let best = r.topk_ranked(x, 1 + c.below(cols));
            r.pick(x, best)
        }
        11 if rows == 1 => {
            let at = r.argmax(x);
            r.pick(x, at)
        }
        12 if rows <= 4 && cols <= 64 => {
            let s = r.acquire(ring);
            r.slot_fill(s, c.real());
            r.slot_store(x, s, zero, zero);
            let back = r.slot_load(s, zero, zero, 1 + c.below(4), 1 + c.below(64));
            r.release(s);
            back
        }
        13 => {
            let (a, b) = (c.of(indices), r.index_const(1 + c.below(5) as i64));
            let f = c.of(IndexOp::ALL);
            indices.push(r.index(f, a, b));
            x
        }
        14 => {
            let end = r.index_const(c.below(4) as i64);
            r.for_(zero, end, 1 + c.below(2), |r, i| {
                let (mut tiles, mut indices) = (tiles.clone(), [indices.as_slice(), &[i]].concat());
                step(c, r, &mut tiles, &mut indices, place);
            });
            x
        }
        15 => {
            let cond = c.of(indices);
            r.if_(cond, |r| step(c, r, &mut tiles.clone(), &mut indices.clone(), place));
            x
        }
        16 if list.is_some() => r.transpose(x),
        17 if list.is_some() => r.mask_cols(x, c.of(indices), c.real()),
        18 => match list {
            Some((ids, row)) => r.mask_ids(x, ids, &[row, zero], c.real()),
            None => x,
        },
        19 if list.is_some() => {
            indices.push(r.any(x));
            x
        }
        _ => x,
    };
    tiles.push(new);
}

/// Copy, matrix and vector roles over blocks of rows, with weights once or in each iteration.
fn product(c: &mut Choices) -> Result<Kernel, tessera_ir::tile::BuildFault> {
    let (n, k_len) = (16 * (1 + c.below(2)), 32 * (1 + c.below(3)));
    let (x_format, w_format) = c.of(&[
        (Format::MX8, Format::W8),
        (Format::MX8, Format::MX4),
        (Format::BF16, Format::BF16),
        (Format::F32, Format::W8),
        (Format::F32, Format::F32),
    ]);
    let (step, depths) = (1 + c.below(3), [1 + c.below(3), 1 + c.below(2), 1 + c.below(2)]);
    let (each, layout) = (c.below(2) == 0, c.of(&[Layout::Rows, Layout::Panels16]));
    let mut k = KernelBuilder::new(name(c));
    let x = k.param("x", TensorType::new([t(), k_len.into()], x_format), Access::Read);
    let w = k.param("w", TensorType { layout, ..TensorType::new([n, k_len], w_format) }, Access::Read);
    let y = k.param("y", TensorType::new([t(), n.into()], Format::F32), Access::Write);
    let slot = |rows: usize, cols: usize, format| SlotType { rows, cols: cols.into(), format };
    let a = k.ring("a", Class::Stage, slot(step, k_len, x_format), depths[0], &[0, 1]);
    let b = k.ring("b", Class::Stage, slot(n, k_len, w_format), depths[1], &[0, 1]);
    let acc = k.ring("c", Class::Accum, slot(step, n, Format::F32), depths[2], &[1, 2]);
    let bounds = |r: &mut RoleBuilder<'_>| (r.index_const(0), r.index_dim(t()), r.index_const(step as i64));
    let live = |r: &mut RoleBuilder<'_>, end, step, i| {
        let left = r.index(IndexOp::Sub, end, i);
        r.index(IndexOp::Min, left, step)
    };
    k.role(RoleKind::Copy, "copy", |r| {
        let (zero, end, rows) = bounds(r);
        let weights = |r: &mut RoleBuilder<'_>| {
            let (slot, all) = (r.acquire(b), r.index_const(n as i64));
            r.copy(w, &[zero, zero], slot, all);
            r.pass(slot);
        };
        if !each {
            weights(r);
        }
        r.for_(zero, end, step, |r, i| {
            if each {
                weights(r);
            }
            let slot = r.acquire(a);
            let rows = live(r, end, rows, i);
            r.copy(x, &[i, zero], slot, rows);
            r.pass(slot);
        });
    });
    k.role(RoleKind::Matrix, "matrix", |r| {
        let (zero, end, rows) = bounds(r);
        let once = (!each).then(|| r.take(b));
        r.for_(zero, end, step, |r, i| {
            let rows = live(r, end, rows, i);
            let weights = once.unwrap_or_else(|| r.take(b));
            let (from, to) = (r.take(a), r.acquire(acc));
            r.mma(to, from, weights, rows, true);
            if each {
                r.release(weights);
            }
            r.release(from);
            r.pass(to);
        });
        if let Some(weights) = once {
            r.release(weights);
        }
    });
    k.role(RoleKind::Vector, "vector", |r| {
        let (zero, end, rows) = bounds(r);
        r.for_(zero, end, step, |r, i| {
            let rows = live(r, end, rows, i);
            let slot = r.take(acc);
            r.for_(zero, rows, 1, |r, j| {
                let v = r.slot_load(slot, j, zero, 1, n);
                let row = r.index(IndexOp::Add, i, j);
                r.store(v, y, &[row, zero]);
            });
            r.release(slot);
        });
    });
    k.finish()
}

/// A row against cached keys: scores of a symbolic length, selection, sums.
fn keys(c: &mut Choices) -> Result<Kernel, tessera_ir::tile::BuildFault> {
    let (heads, dim, format) = (1 + c.below(3), 32, c.of(&[Format::F32, Format::KV8, Format::INDEX4]));
    let wide = || Dim::sym("C").checked_times(2).expect("a small factor");
    let mut k = KernelBuilder::new(name(c));
    let q = k.param("q", TensorType::new([t(), heads.into(), dim.into()], Format::F32), Access::Read);
    let w = k.param("w", TensorType::new([t(), heads.into()], Format::F32), Access::Read);
    let cache = k.param("cache", TensorType::new([wide(), dim.into()], format), Access::Read);
    let ids = k.param("ids", TensorType::new([t(), 4.into()], Format::I32), Access::Read);
    let list = k.param("list", TensorType::new([t(), 3.into()], Format::I32), Access::Write);
    let sums = k.param("sums", TensorType::new([t(), heads.into(), dim.into()], Format::F32), Access::Write);
    let axis = k.axis("row", t(), 1);
    let slot = |rows: usize, cols: Dim, format| SlotType { rows, cols, format };
    let q_ring = k.ring("qs", Class::Stage, slot(heads, dim.into(), Format::F32), 1, &[0]);
    let w_ring = k.ring("ws", Class::Stage, slot(1, heads.into(), Format::F32), 1, &[0]);
    let k_ring = k.ring("ks", Class::Stage, slot(2, dim.into(), c.of(&[format, Format::F32])), 1, &[0]);
    let s_ring = k.ring("scores", Class::Vec, slot(1, wide(), Format::F32), 1, &[0]);
    let m_ring = k.ring("maxima", Class::Vec, slot(1, wide(), Format::F32), 1, &[0]);
    let e_ring = k.ring("weights", Class::Vec, slot(heads, 4.into(), Format::F32), 1, &[0]);
    let o_ring = k.ring("out", Class::Accum, slot(heads, dim.into(), Format::F32), 1, &[0]);
    let (block, round, from_ring) = (1 + c.below(3), c.of(&[Round::None, Round::Bf16]), c.below(2) == 0);
    k.role(RoleKind::Vector, "all", |r| {
        let (row, zero, one) = (r.index_tile(axis), r.index_const(0), r.index_const(1));
        let (all_heads, end) = (r.index_const(heads as i64), r.index_dim(wide()));
        let (qs, ws) = (r.acquire(q_ring), r.acquire(w_ring));
        r.copy(q, &[row, zero, zero], qs, all_heads);
        r.copy(w, &[row, zero], ws, one);
        let scores = r.acquire(s_ring);
        r.for_(zero, end, 2, |r, i| {
            let ks = r.acquire(k_ring);
            let left = r.index(IndexOp::Sub, end, i);
            let two = r.index_const(2);
            let n = r.index(IndexOp::Min, left, two);
            if from_ring {
                r.copy_ring(cache, &[], i, ks, n);
            } else {
                r.copy(cache, &[i, zero], ks, n);
            }
            r.mma_index(scores, qs, ws, ks, i, n, round);
            r.release(ks);
        });
        let maxima = r.acquire(m_ring);
        let newest = r.index(IndexOp::Sub, end, one);
        r.block_max(scores, end, newest, maxima, block);
        let first = r.slot_load(maxima, zero, zero, 1, wide());
        let best = r.topk(first, one, 2);
        r.restrict(scores, end, best, block);
        let x = r.slot_load(scores, zero, zero, 1, wide());
        let best = r.topk(x, end, 3);
        r.store(best, list, &[row, zero]);
        let (e, o) = (r.acquire(e_ring), r.acquire(o_ring));
        r.slot_fill(o, 0.0);
        for half in 0..2 {
            let at = r.index_const(2 * half);
            let two = r.index_const(2);
            let ks = r.acquire(k_ring);
            r.copy_gather(cache, &[], ids, &[row, at], ks, two);
            r.mma_scores(e, qs, ks, at, two, 0.25);
            r.mma_values(o, e, ks, at, two);
            r.release(ks);
        }
        let y = r.slot_load(o, zero, zero, heads, dim);
        r.store(y, sums, &[row, zero, zero]);
        for slot in [qs, ws, scores, maxima, e, o] {
            r.release(slot);
        }
    });
    k.finish()
}

/// The text with a few bytes, words or lines changed.
pub(crate) fn damaged(text: &str, seed: u64) -> String {
    let mut c = Choices::new(seed);
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    for _ in 0..1 + c.below(3) {
        let at = c.below(lines.len());
        match c.below(5) {
            0 => {
                lines.remove(at);
            }
            1 => lines.insert(at, lines[c.below(lines.len())].clone()),
            2 => {
                let mut chars: Vec<char> = lines[at].chars().collect();
                if !chars.is_empty() {
                    let i = c.below(chars.len());
                    chars[i] = c.of(&['{', '}', '%', '9', 'x', '-', '"', 'é', ',', ' ']);
                }
                lines[at] = chars.into_iter().collect();
            }
            3 => {
                // A number becomes a large one.
                let big = c.of(&["0", "1", "4294967295", "18446744073709551615", "99999999999999999999"]);
                if let Some(i) = lines[at].find(|ch: char| ch.is_ascii_digit()) {
                    lines[at].replace_range(i..=i, big);
                }
            }
            _ => {
                let other = c.below(lines.len());
                lines.swap(at, other);
            }
        }
        if lines.is_empty() {
            lines.push(String::new());
        }
    }
    lines.join("\n")
}
