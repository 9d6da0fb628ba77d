//! Tile arithmetic: maps, zips, reductions, products, parts, shapes, rotation.

use crate::{EXACT, Ulps, conform, conform_each};
use tessera_ir::graph::{Rope, Yarn};
use tessera_ir::tile::{Access, Binary, KernelBuilder, Reduce, RoleBuilder, RoleKind, Unary, Value};
use tessera_ir::{Dim, Format, TensorType};

/// Column counts around the widths of vectors and lanes.
const COLS: [usize; 10] = [1, 3, 4, 5, 8, 15, 16, 17, 33, 70];

/// Exponentials of the runtime against those of f64 rounded to f32, and the steps after them.
const NEAR: Ulps = Ulps(1);

/// One row of the step in each tile: `inputs` of `rows × cols` are loaded, `f` makes a tile of `out`'s size.
fn rowwise(
    name: &str,
    inputs: &[(usize, usize)],
    out: (usize, usize),
    f: impl Fn(&mut RoleBuilder<'_>, &[Value]) -> Value,
) -> KernelBuilder {
    let mut k = KernelBuilder::new(name);
    let t = Dim::sym("T");
    let ty = |(r, c): (usize, usize)| TensorType::new([t.clone(), r.into(), c.into()], Format::F32);
    let views: Vec<Value> =
        inputs.iter().enumerate().map(|(i, s)| k.param(format!("x{i}"), ty(*s), Access::Read)).collect();
    let y = k.param("y", ty(out), Access::Write);
    k.axis("t", t, 1);
    k.role(RoleKind::Vector, "vector", |b| {
        let row = b.index_tile(0);
        let zero = b.index_const(0);
        let tiles: Vec<Value> =
            views.iter().zip(inputs).map(|(v, (r, c))| b.load(*v, &[row, zero, zero], *r, *c)).collect();
        let made = f(b, &tiles);
        b.store(made, y, &[row, zero, zero]);
    });
    k
}

/// Runs a kernel for no row, one row and several.
fn rows(k: KernelBuilder, ulps: Ulps) {
    conform_each(k, &[0, 1, 3].map(|t| (vec![("T", t)], Vec::new())), ulps);
}

#[test]
fn maps_of_any_size() {
    for f in Unary::ALL {
        let ulps = match f {
            Unary::Exp | Unary::Sigmoid | Unary::Silu | Unary::SqrtSoftplus => NEAR,
            Unary::Neg | Unary::Abs | Unary::Sqrt | Unary::Rsqrt | Unary::Relu => EXACT,
        };
        for c in COLS {
            for r in [1, 2, 5] {
                rows(rowwise(f.name(), &[(r, c)], (r, c), |b, x| b.map(x[0], *f)), ulps);
            }
        }
    }
}

#[test]
fn zips_repeat_rows_and_columns() {
    for f in Binary::ALL {
        for c in COLS {
            for r in [1, 3, 6] {
                for (a, b) in
                    [(r, c), (1, c), (r, 1), (1, 1)].iter().flat_map(|o| [((r, c), *o), (*o, (r, c))])
                {
                    conform(
                        rowwise(f.name(), &[a, b], (r, c), |k, x| k.zip(x[0], x[1], *f)),
                        &[("T", 2)],
                        &[],
                        EXACT,
                    );
                }
            }
        }
    }
}

#[test]
fn a_column_meets_a_row() {
    for (r, c) in [(4, 4), (5, 7), (20, 33), (17, 1), (1, 40)] {
        conform(
            rowwise("outer", &[(r, 1), (1, c)], (r, c), |b, x| {
                let y = b.map(x[1], Unary::Abs);
                b.zip(x[0], y, Binary::Mul)
            }),
            &[("T", 2)],
            &[],
            EXACT,
        );
    }
}

#[test]
fn nan_infinity_and_signed_zeros_follow_the_op_table() {
    use crate::data::Arg;
    let specials = [
        f32::NAN,
        f32::INFINITY,
        f32::NEG_INFINITY,
        0.0,
        -0.0,
        1.5,
        -1.5,
        f32::MAX,
        f32::MIN_POSITIVE,
        1e-45,
    ];
    let pairs: Vec<(f32, f32)> = specials.iter().flat_map(|a| specials.iter().map(|b| (*a, *b))).collect();
    let n = pairs.len();
    let columns = |pick: fn(&(f32, f32)) -> f32| pairs.iter().map(pick).collect::<Vec<f32>>();
    for f in Binary::ALL {
        let kernel =
            crate::verified(rowwise(f.name(), &[(1, n), (1, n)], (1, n), |b, x| b.zip(x[0], x[1], *f)));
        let bindings = crate::bind(&[("T", 1)]);
        let args = [
            Arg::reals(&kernel.params[0].ty, &bindings, columns(|p| p.0)),
            Arg::reals(&kernel.params[1].ty, &bindings, columns(|p| p.1)),
            Arg::output(&kernel.params[2].ty, &bindings),
        ];
        crate::check(&kernel, &bindings, &args, EXACT);
        // The same against each constant, which takes a shorter path.
        for c in specials {
            for flip in [false, true] {
                let kernel = crate::verified(rowwise(f.name(), &[(1, n)], (1, n), |b, x| {
                    let c = b.splat(c);
                    if flip { b.zip(c, x[0], *f) } else { b.zip(x[0], c, *f) }
                }));
                let args = [args[0].clone(), args[2].clone()];
                crate::check(&kernel, &bindings, &args, EXACT);
            }
        }
    }
    for f in [Unary::Neg, Unary::Abs, Unary::Sqrt, Unary::Rsqrt, Unary::Relu] {
        let kernel = crate::verified(rowwise(f.name(), &[(1, n)], (1, n), |b, x| b.map(x[0], f)));
        let bindings = crate::bind(&[("T", 1)]);
        let args = [
            Arg::reals(&kernel.params[0].ty, &bindings, columns(|p| p.0)),
            Arg::output(&kernel.params[1].ty, &bindings),
        ];
        crate::check(&kernel, &bindings, &args, EXACT);
    }
}

#[test]
fn reductions_keep_the_canonical_order() {
    for f in Reduce::ALL {
        for c in COLS {
            for r in [1, 3, 16, 17, 20] {
                let along = rowwise(f.name(), &[(r, c)], (r, 1), |b, x| b.reduce(x[0], *f, 1));
                conform(along, &[("T", 2)], &[], EXACT);
                let down = rowwise(f.name(), &[(r, c)], (1, c), |b, x| b.reduce(x[0], *f, 0));
                conform(down, &[("T", 2)], &[], EXACT);
                // Of something computed on the way.
                let squares = rowwise(f.name(), &[(r, c)], (r, 1), |b, x| {
                    let square = b.zip(x[0], x[0], Binary::Mul);
                    b.reduce(square, *f, 1)
                });
                conform(squares, &[("T", 2)], &[], EXACT);
            }
        }
    }
}

#[test]
fn dots_of_rows() {
    for c in COLS {
        for r in [1, 4, 17] {
            conform(
                rowwise("dot", &[(r, c), (r, c)], (r, 1), |b, x| b.dot(x[0], x[1])),
                &[("T", 2)],
                &[],
                EXACT,
            );
            conform(rowwise("square", &[(r, c)], (r, 1), |b, x| b.dot(x[0], x[0])), &[("T", 2)], &[], EXACT);
            conform(
                rowwise("apart", &[(r, c), (r, 2 * c)], (r, 1), |b, x| {
                    let part = b.slice(x[1], 0, r, c / 2, c);
                    let scaled = b.map(x[0], Unary::Neg);
                    b.dot(scaled, part)
                }),
                &[("T", 2)],
                &[],
                EXACT,
            );
        }
    }
}

#[test]
fn parts_and_shapes() {
    for (r, c, row, rows, col, cols) in [
        (4, 33, 1, 2, 3, 30),
        (6, 20, 2, 1, 0, 20),
        (3, 5, 0, 3, 4, 1),
        (2, 64, 1, 1, 32, 32),
        (8, 8, 3, 5, 1, 7),
    ] {
        conform(
            rowwise("slice", &[(r, c)], (rows, cols), |b, x| b.slice(x[0], row, rows, col, cols)),
            &[("T", 2)],
            &[],
            EXACT,
        );
        conform(
            rowwise("slice_of_sum", &[(r, c)], (rows, cols), |b, x| {
                let twice = b.zip(x[0], x[0], Binary::Add);
                b.slice(twice, row, rows, col, cols)
            }),
            &[("T", 2)],
            &[],
            EXACT,
        );
    }
    for (r, c, rows, cols) in [(1, 40, 5, 8), (6, 4, 3, 8), (3, 5, 1, 15), (4, 4, 2, 8), (10, 3, 1, 30)] {
        conform(
            rowwise("reshape", &[(r, c)], (rows, cols), |b, x| {
                let turned = b.map(x[0], Unary::Neg);
                b.reshape(turned, rows, cols)
            }),
            &[("T", 2)],
            &[],
            EXACT,
        );
        conform(
            rowwise("reshape_of_part", &[(r, c + 3)], (rows, cols), |b, x| {
                let part = b.slice(x[0], 0, r, 2, c);
                b.reshape(part, rows, cols)
            }),
            &[("T", 2)],
            &[],
            EXACT,
        );
    }
}

#[test]
fn rotations_of_adjacent_pairs() {
    for (r, c, m) in [(1, 8, 8), (4, 24, 6), (3, 64, 16), (2, 10, 10), (1, 6, 2), (5, 33, 14)] {
        for inverse in [false, true] {
            rows(rowwise("rotate", &[(r, c), (1, m)], (r, c), |b, x| b.rotate(x[0], x[1], inverse)), EXACT);
            rows(
                {
                    rowwise("rotate_rounded", &[(r, c), (1, m)], (r, c), |b, x| {
                        let rounded = b.cast(x[0], Format::BF16);
                        let turned = b.rotate(rounded, x[1], inverse);
                        b.zip(turned, x[0], Binary::Sub)
                    })
                },
                EXACT,
            );
        }
    }
}

#[test]
fn angles_of_positions() {
    let yarn = Yarn { factor: 16.0, beta_fast: 32.0, beta_slow: 1.0, original: 4096 };
    let ropes = [
        Rope { dim: 64, theta: 10_000.0, yarn: None },
        Rope { dim: 8, theta: 160_000.0, yarn: Some(yarn) },
        Rope { dim: 2, theta: 10.0, yarn: None },
    ];
    let mut k = KernelBuilder::new("angles");
    let pos = k.param("pos", TensorType::new([Dim::sym("T")], Format::I32), Access::Read);
    let tables: Vec<Value> = ropes
        .iter()
        .enumerate()
        .map(|(i, r)| {
            let ty = TensorType::new([Dim::sym("T"), r.dim.into()], Format::F32);
            k.param(format!("table{i}"), ty, Access::Write)
        })
        .collect();
    k.axis("t", Dim::sym("T"), 1);
    k.role(RoleKind::Vector, "vector", |b| {
        let (row, zero) = (b.index_tile(0), b.index_const(0));
        let p = b.index_read(pos, &[row]);
        for (rope, table) in ropes.iter().zip(&tables) {
            let angles = b.angles(p, *rope);
            b.store(angles, *table, &[row, zero]);
        }
    });
    conform(k, &[("T", 5)], &[vec![0, 1, 17, 4095, 1_000_000]], EXACT);
}

#[test]
fn root_mean_square_norms() {
    for c in COLS {
        let norm = || {
            let mut k = KernelBuilder::new("rmsnorm");
            let ty = |f| TensorType::new([Dim::sym("T"), c.into()], f);
            let x = k.param("x", ty(Format::BF16), Access::Read);
            let w = k.param("w", TensorType::new([c], Format::F32), Access::Read);
            let y = k.param("y", ty(Format::BF16), Access::Write);
            k.axis("t", Dim::sym("T"), 1);
            k.role(RoleKind::Vector, "vector", |b| {
                let (row, zero) = (b.index_tile(0), b.index_const(0));
                let (v, weight) = (b.load(x, &[row, zero], 1, c), b.load(w, &[zero], 1, c));
                let sum = b.dot(v, v);
                let (n, eps) = (b.splat(1.0 / c as f32), b.splat(1e-6));
                let mean = b.zip(sum, n, Binary::Mul);
                let mean = b.zip(mean, eps, Binary::Add);
                let scale = b.map(mean, Unary::Rsqrt);
                let scaled = b.zip(v, scale, Binary::Mul);
                let weighed = b.zip(weight, scaled, Binary::Mul);
                let rounded = b.cast(weighed, Format::BF16);
                b.store(rounded, y, &[row, zero]);
            });
            k
        };
        rows(norm(), EXACT);
    }
}

#[test]
fn gated_units_with_limits() {
    for c in COLS {
        rows(
            {
                rowwise("swiglu", &[(1, c), (1, c)], (1, c), |b, x| {
                    let (high, low) = (b.splat(1.5), b.splat(-1.5));
                    let gate = b.zip(x[0], high, Binary::Min);
                    let up = b.zip(x[1], high, Binary::Min);
                    let up = b.zip(up, low, Binary::Max);
                    let gate = b.map(gate, Unary::Silu);
                    b.zip(gate, up, Binary::Mul)
                })
            },
            NEAR,
        );
    }
}

#[test]
fn values_with_many_uses_are_the_same_value() {
    for c in COLS {
        rows(
            {
                rowwise("diamond", &[(2, c), (1, c)], (2, c), |b, x| {
                    let sum = b.zip(x[0], x[1], Binary::Add);
                    let square = b.zip(sum, sum, Binary::Mul);
                    let top = b.slice(sum, 0, 1, 0, c);
                    let largest = b.reduce(square, Reduce::Max, 1);
                    let scaled = b.zip(square, largest, Binary::Div);
                    let shifted = b.zip(scaled, top, Binary::Sub);
                    let rounded = b.cast(shifted, Format::BF16);
                    b.zip(rounded, sum, Binary::CopySign)
                })
            },
            EXACT,
        );
    }
}
