//! Ops on single elements and rows: norms, rotations, gates and sums of a few terms.

use super::sum::{exp, mean_square, rsqrt};

/// `rmsnorm` of rows as long as `weight`.
pub(super) fn rmsnorm(x: &[f32], weight: &[f32], eps: f32) -> Vec<f32> {
    let mut out = Vec::with_capacity(x.len());
    for row in x.chunks(weight.len().max(1)) {
        let scale = rsqrt(mean_square(row) + eps);
        out.extend(row.iter().zip(weight).map(|(x, w)| w * (x * scale)));
    }
    out
}

/// `rope` on rows of `d` elements, `heads` of them to a row of `table` (`[cos…, sin…]` of `dim` elements).
pub(super) fn rope(x: &[f32], d: usize, heads: usize, table: &[f32], dim: usize, inverse: bool) -> Vec<f32> {
    let mut out = x.to_vec();
    let half = dim / 2;
    for (i, row) in out.chunks_mut(d.max(1)).enumerate() {
        let angles = &table[i / heads * dim..(i / heads + 1) * dim];
        for (m, pair) in row[d - dim..].chunks_exact_mut(2).enumerate() {
            let (c, s) = (angles[m], if inverse { -angles[half + m] } else { angles[half + m] });
            let (even, odd) = (pair[0], pair[1]);
            pair[0] = even * c - odd * s;
            pair[1] = even * s + odd * c;
        }
    }
    out
}

/// `rope.table`: cosines, then sines, of `p·θ` for the rotary position p of each row.
pub(super) fn rope_table(positions: impl Iterator<Item = usize>, frequencies: &[f32]) -> Vec<f32> {
    let mut out = Vec::new();
    for p in positions {
        let angle = |f: &f32| f64::from(p as f32 * f);
        out.extend(frequencies.iter().map(|f| angle(f).cos() as f32));
        out.extend(frequencies.iter().map(|f| angle(f).sin() as f32));
    }
    out
}

/// `swiglu` on rows of `n` elements, with one weight a row where given. A NaN passes both clamps.
pub(super) fn swiglu(gate: &[f32], up: &[f32], weight: Option<&[f32]>, n: usize, limit: f32) -> Vec<f32> {
    let element = |(g, u): (&f32, &f32)| {
        let g = if *g > limit { limit } else { *g };
        let u = if *u > limit {
            limit
        } else if *u < -limit {
            -limit
        } else {
            *u
        };
        g / (1.0 + exp(-g)) * u
    };
    let mut out: Vec<f32> = gate.iter().zip(up).map(element).collect();
    if let Some(weight) = weight {
        for (row, w) in out.chunks_mut(n.max(1)).zip(weight) {
            row.iter_mut().for_each(|v| *v *= w);
        }
    }
    out
}

/// `moe.combine`: rows of `shared` plus their `choices` parts of `d` elements, in order of choice.
pub(super) fn moe_combine(parts: &[f32], shared: &[f32], choices: usize, d: usize) -> Vec<f32> {
    let mut out = Vec::with_capacity(shared.len());
    for (t, shared) in shared.chunks(d.max(1)).enumerate() {
        for (c, s) in shared.iter().enumerate() {
            let sum = (0..choices).fold(0.0, |sum: f32, j| sum + parts[(t * choices + j) * d + c]);
            out.push(sum + s);
        }
    }
    out
}
