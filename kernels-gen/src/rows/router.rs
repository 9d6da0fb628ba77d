//! The router's choice of experts and their weights (V4.1 §2.9).

use super::Lower;
use crate::error::Error;
use tessera_ir::graph::Value;
use tessera_ir::tile::{Binary, Unary};

/// Added to the sum of the chosen scores before it divides.
const SUM_FLOOR: f32 = 1e-20;

impl Lower<'_, '_, '_> {
    pub(super) fn router(
        &mut self,
        logits: Value,
        bias: Value,
        k: usize,
        scale: f32,
        experts: Value,
        weights: Value,
    ) -> Result<(), Error> {
        let (logits, bias) = (self.tile(logits)?, self.weight(bias)?);
        let scores = self.r.map(logits, Unary::SqrtSoftplus);
        let biased = self.r.zip(scores, bias, Binary::Add);
        let chosen = self.r.topk_ranked(biased, k);
        let picked = self.r.pick(scores, chosen);
        // In order of rank, not in lanes.
        let mut sum = self.r.slice(picked, 0, 1, 0, 1);
        for j in 1..k {
            let s = self.r.slice(picked, 0, 1, j, 1);
            sum = self.r.zip(sum, s, Binary::Add);
        }
        let floor = self.r.splat(SUM_FLOOR);
        let sum = self.r.zip(sum, floor, Binary::Add);
        let share = self.r.zip(picked, sum, Binary::Div);
        let scale = self.r.splat(scale);
        let w = self.r.zip(share, scale, Binary::Mul);
        self.define(experts, chosen)?;
        self.define(weights, w)
    }
}
