//! Random programs: tiles that wait while the memory they read changes, in loops and conditions.

use crate::data::Rng;
use crate::{EXACT, arguments, bind, check, verified};
use tessera_ir::tile::{
    Access, Binary, Class, IndexOp, KernelBuilder, Reduce, RoleBuilder, RoleKind, SlotType, Unary, Value,
};
use tessera_ir::{Format, TensorType};

/// Blocks of state a tile of the grid owns, and of input.
const BLOCKS: usize = 4;

/// A tile in scope.
#[derive(Clone, Copy)]
struct Tile {
    v: Value,
    rows: usize,
    cols: usize,
    format: Format,
}

/// What a program may name.
struct Names {
    rows: usize,
    cols: usize,
    x: Value,
    s: Value,
    n: Value,
    /// Index of the grid tile.
    t: Value,
    slots: Vec<Value>,
}

fn pick<T: Copy>(rng: &mut Rng, list: &[T]) -> Option<T> {
    (!list.is_empty()).then(|| list[rng.below(list.len())])
}

impl Names {
    fn constant(&self, b: &mut RoleBuilder<'_>, n: usize) -> Value {
        b.index_const(n as i64)
    }

    /// Rows to read or write: all, or one.
    fn rows(&self, rng: &mut Rng) -> (usize, usize) {
        if rng.below(2) == 0 { (0, self.rows) } else { (rng.below(self.rows), 1) }
    }

    /// Number of a block: any, or a loop's counter.
    fn block(&self, b: &mut RoleBuilder<'_>, rng: &mut Rng, counters: &[Value]) -> Value {
        match pick(rng, counters) {
            Some(i) if rng.below(2) == 0 => i,
            _ => self.constant(b, rng.below(BLOCKS)),
        }
    }

    fn load(&self, b: &mut RoleBuilder<'_>, rng: &mut Rng, counters: &[Value]) -> Tile {
        let (row, rows) = self.rows(rng);
        let (first, zero) = (self.constant(b, row), b.index_const(0));
        let v = match rng.below(3) {
            0 => {
                let i = self.block(b, rng, counters);
                b.load(self.x, &[i, first, zero], rows, self.cols)
            }
            1 => {
                let i = self.block(b, rng, counters);
                b.load(self.s, &[self.t, i, first, zero], rows, self.cols)
            }
            _ => {
                let slot = self.slots[rng.below(self.slots.len())];
                b.slot_load(slot, first, zero, rows, self.cols)
            }
        };
        Tile { v, rows, cols: self.cols, format: Format::F32 }
    }

    fn store(&self, b: &mut RoleBuilder<'_>, rng: &mut Rng, counters: &[Value], scope: &[Tile]) {
        let fitting: Vec<Tile> = scope
            .iter()
            .copied()
            .filter(|t| t.cols == self.cols && (t.rows == 1 || t.rows == self.rows))
            .collect();
        let Some(tile) = pick(rng, &fitting) else { return };
        let row = if tile.rows == self.rows { 0 } else { rng.below(self.rows) };
        let (first, zero) = (self.constant(b, row), b.index_const(0));
        if rng.below(2) == 0 && tile.format == Format::F32 {
            let i = self.block(b, rng, counters);
            b.store(tile.v, self.s, &[self.t, i, first, zero]);
        } else {
            let slot = self.slots[rng.below(self.slots.len())];
            b.slot_store(tile.v, slot, first, zero);
        }
    }

    fn compute(&self, b: &mut RoleBuilder<'_>, rng: &mut Rng, scope: &[Tile]) -> Option<Tile> {
        let x = scope[scope.len() - 1 - rng.below(scope.len().min(5))];
        let of = |v, rows, cols| Some(Tile { v, rows, cols, format: Format::F32 });
        match rng.below(9) {
            0..3 => {
                let meets = |a: usize, b: usize| a == b || a == 1 || b == 1;
                let others: Vec<Tile> = scope
                    .iter()
                    .copied()
                    .filter(|y| meets(x.rows, y.rows) && meets(x.cols, y.cols))
                    .collect();
                let y = pick(rng, &others)?;
                let f = [Binary::Add, Binary::Sub, Binary::Mul, Binary::Min, Binary::Max][rng.below(5)];
                let v = if rng.below(2) == 0 { b.zip(x.v, y.v, f) } else { b.zip(y.v, x.v, f) };
                of(v, x.rows.max(y.rows), x.cols.max(y.cols))
            }
            3 => of(b.map(x.v, [Unary::Neg, Unary::Abs, Unary::Relu][rng.below(3)]), x.rows, x.cols),
            4 => {
                let f = [Reduce::Sum, Reduce::AbsMax][rng.below(2)];
                match rng.below(2) {
                    0 => of(b.reduce(x.v, f, 0), 1, x.cols),
                    _ => of(b.reduce(x.v, f, 1), x.rows, 1),
                }
            }
            5 => {
                let (row, col) = (rng.below(x.rows), rng.below(x.cols));
                let (rows, cols) = (1 + rng.below(x.rows - row), 1 + rng.below(x.cols - col));
                Some(Tile { v: b.slice(x.v, row, rows, col, cols), rows, cols, format: x.format })
            }
            6 => {
                let v = b.cast(x.v, Format::BF16);
                Some(Tile { v, format: Format::BF16, ..x })
            }
            7 => {
                let (rows, cols) = (x.cols, x.rows);
                Some(Tile { v: b.reshape(x.v, rows, cols), rows, cols, format: x.format })
            }
            _ => {
                let alike: Vec<Tile> =
                    scope.iter().copied().filter(|y| y.rows == x.rows && y.cols == x.cols).collect();
                let y = pick(rng, &alike)?;
                of(b.dot(x.v, y.v), x.rows, 1)
            }
        }
    }

    /// Some statements.
    fn block_of(
        &self,
        b: &mut RoleBuilder<'_>,
        rng: &mut Rng,
        scope: &mut Vec<Tile>,
        counters: &[Value],
        depth: usize,
    ) {
        for _ in 0..6 + rng.below(8) {
            match rng.below(if depth < 2 { 14 } else { 12 }) {
                0..3 => scope.push(self.load(b, rng, counters)),
                3..8 if !scope.is_empty() => scope.extend(self.compute(b, rng, scope)),
                8..11 => self.store(b, rng, counters, scope),
                11 => {
                    let slot = self.slots[rng.below(self.slots.len())];
                    b.slot_fill(slot, rng.real());
                }
                12 => {
                    // As often as data says, or a number of times known now.
                    let zero = b.index_const(0);
                    let times = if rng.below(2) == 0 {
                        b.index_read(self.n, &[self.t])
                    } else {
                        self.constant(b, rng.below(BLOCKS))
                    };
                    let before = scope.len();
                    b.for_(zero, times, 1 + rng.below(2), |b, i| {
                        let counters = [counters, &[i]].concat();
                        self.block_of(b, rng, scope, &counters, depth + 1);
                    });
                    scope.truncate(before);
                }
                13 => {
                    let (n, two) = (b.index_read(self.n, &[self.t]), b.index_const(2));
                    let odd = b.index(IndexOp::Rem, n, two);
                    let before = scope.len();
                    b.if_(odd, |b| self.block_of(b, rng, scope, counters, depth + 1));
                    scope.truncate(before);
                }
                _ => {}
            }
        }
    }
}

/// A program over two tiles of the grid.
fn program(seed: u64) -> KernelBuilder {
    let mut rng = Rng::new(seed);
    let rows = 1 + rng.below(4);
    let cols = [1, 3, 4, 5, 8, 17, 20, 33][rng.below(8)];
    let x_format = [Format::F32, Format::BF16][rng.below(2)];
    let mut k = KernelBuilder::new(format!("random_{seed}"));
    let x = k.param("x", TensorType::new([BLOCKS, rows, cols], x_format), Access::Read);
    let s = k.param("s", TensorType::new([2, BLOCKS, rows, cols], Format::F32), Access::Update);
    let n = k.param("n", TensorType::new([2], Format::I32), Access::Read);
    let y = k.param("y", TensorType::new([2, rows, cols], Format::F32), Access::Write);
    k.axis("t", 2, 1);
    let slot = SlotType { rows, cols: cols.into(), format: Format::F32 };
    let ring = k.ring("r", Class::Vec, slot, 2, &[0]);
    k.role(RoleKind::Vector, "vector", |b| {
        let (t, zero) = (b.index_tile(0), b.index_const(0));
        let slots = vec![b.acquire(ring), b.acquire(ring)];
        slots.iter().for_each(|slot| b.slot_fill(*slot, 0.5));
        let names = Names { rows, cols, x, s, n, t, slots };
        let mut scope = Vec::new();
        names.block_of(b, &mut rng, &mut scope, &[], 0);
        let whole = b.slot_load(names.slots[0], zero, zero, rows, cols);
        let mut result = whole;
        for tile in scope.iter().rev().take(6) {
            let fits = (tile.rows == 1 || tile.rows == rows) && (tile.cols == 1 || tile.cols == cols);
            result = if fits { b.zip(result, tile.v, Binary::Add) } else { result };
        }
        b.slot_store(result, names.slots[1], zero, zero);
        let last = b.slot_load(names.slots[1], zero, zero, rows, cols);
        b.store(last, s, &[t, zero, zero, zero]);
        b.store(last, y, &[t, zero, zero]);
        names.slots.iter().for_each(|slot| b.release(*slot));
    });
    k
}

#[test]
fn random_programs() {
    for seed in 1..=400 {
        let kernel = verified(program(seed));
        let bindings = bind(&[]);
        let args = arguments(&kernel, &bindings, seed, &[vec![3, 2]]);
        check(&kernel, &bindings, &args, EXACT);
    }
}
