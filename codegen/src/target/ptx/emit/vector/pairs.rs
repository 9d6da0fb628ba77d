//! Tiles of bf16 values two to a word: rectified and multiplied two at a time, each result rounded once.

use super::super::Emitter;
use super::flat::{Form, Shape};
use super::{Data, Tile};
use crate::target::ptx::isa::Reg;
use tessera_ir::Format;
use tessera_ir::tile::{Binary, Unary};

/// Words of a tile's bf16 values, two neighbours in the order of its registers.
fn words(tile: &Tile) -> Option<&[Reg]> {
    match &tile.data {
        Data::Rounded { words, .. } | Data::Pairs(words) => Some(words),
        Data::Splat(_)
        | Data::Regs(_)
        | Data::Memory(_)
        | Data::Quantised(_)
        | Data::Columns(_)
        | Data::Products(_) => None,
    }
}

/// True if the registers of a tile are its rows in order.
fn by_row(shape: &Shape) -> bool {
    match shape.form {
        Form::Copies => shape.cols == 1,
        Form::ByRows => shape.held() == shape.rows,
        Form::Packed | Form::Lanes => false,
    }
}

impl Emitter<'_> {
    /// `f` of a tile whose values are two to a word, if it can be taken so.
    pub(super) fn map_pairs(&mut self, tile: &Tile, f: Unary) -> Option<Tile> {
        if f != Unary::Relu {
            return None;
        }
        let words = words(tile)?.to_vec();
        let zero = self.asm.mov_b32(0u32);
        let out = words.into_iter().map(|w| self.asm.max_nan_bf16x2(w, zero)).collect();
        Some(Tile { format: Format::F32, data: Data::Pairs(out), ..tile.clone() })
    }
    /// `f` of two tiles whose values are two to a word, if it can be taken so; `b` may have one column for all of `a`.
    pub(super) fn zip_pairs(&self, a: &Tile, b: &Tile, f: Binary) -> Option<Tile> {
        let fits = a.shape == b.shape || (b.shape.cols == 1 && b.shape.rows == a.shape.rows);
        if f != Binary::Mul || !fits || !by_row(&a.shape) || !by_row(&b.shape) {
            return None;
        }
        let pairs = words(a)?.iter().copied().zip(words(b)?.iter().copied()).collect();
        Some(Tile { format: Format::F32, data: Data::Products(pairs), ..a.clone() })
    }
    /// Values of words as f32, `n` of them.
    pub(super) fn halves(&mut self, words: &[Reg], n: usize) -> Vec<Reg> {
        words.iter().flat_map(|w| self.asm.f32_bf16x2(*w)).take(n).collect()
    }
    /// Products as f32, `n` of them.
    pub(super) fn multiplied_pairs(&mut self, pairs: &[(Reg, Reg)], n: usize) -> Vec<Reg> {
        let (a, b): (Vec<Reg>, Vec<Reg>) = pairs.iter().copied().unzip();
        let (a, b) = (self.halves(&a, n), self.halves(&b, n));
        a.into_iter().zip(b).map(|(a, b)| self.asm.mul_f32(a, b)).collect()
    }
    /// Products rounded to bf16. That of two bf16 numbers is exact in f32, so one rounding is the same.
    pub(super) fn rounded_products(&mut self, pairs: &[(Reg, Reg)]) -> Data {
        Data::Pairs(pairs.iter().map(|(a, b)| self.asm.mul_bf16x2(*a, *b)).collect())
    }
}
