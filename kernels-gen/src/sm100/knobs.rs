//! The knobs of SM100 schedules, chosen for a number of rows. None of them changes a result.

use crate::error::Error;

/// Tile sizes and grid of the SM100 schedules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Knobs {
    /// Rows of a step that the kernels are chosen for; any other number gives the same results.
    pub rows: usize,
    /// Blocks of a persistent grid, the number of multiprocessors.
    pub cores: usize,
    /// Rows of a dense product's tile, a multiple of 16 up to 240.
    pub tokens: usize,
    /// Rows of a tile of gate and up halves, whose accumulators are two, a multiple of 16 up to 112.
    pub dual_tokens: usize,
    /// Pairs of multiprocessors share the tiles of dense products with whole tiles of a pair: each brings half of the rows,
    /// which saves shared memory's time where the matrix unit is the limit.
    pub pair: bool,
}

impl Knobs {
    /// Multiprocessors of a B200.
    pub const CORES: usize = 148;

    /// The knobs for steps of about `rows` rows.
    pub fn for_rows(rows: usize) -> Self {
        let tokens = match rows {
            0..=16 => 16,
            17..=32 => 32,
            33..=64 => 64,
            65..=128 => 128,
            _ => 240,
        };
        Knobs { rows, cores: Self::CORES, tokens, dual_tokens: tokens.min(112), pair: rows >= 1024 }
    }
    /// Names and values of the knobs that can be set; a truth is 0 or 1.
    pub fn values(&self) -> [(&'static str, usize); 4] {
        [
            ("cores", self.cores),
            ("tokens", self.tokens),
            ("dual_tokens", self.dual_tokens),
            ("pair", usize::from(self.pair)),
        ]
    }
    /// Sets the knob called `name`; false if there is none. Schedules check the value.
    pub fn set(&mut self, name: &str, value: usize) -> bool {
        match name {
            "cores" => self.cores = value,
            "tokens" => self.tokens = value,
            "dual_tokens" => self.dual_tokens = value,
            "pair" => self.pair = value != 0,
            _ => return false,
        }
        true
    }
    /// Rows of a tile of one expert, when `rows · choices` rows fall on `experts` experts: the mean and one standard
    /// deviation fit.
    pub(crate) fn expert_tokens(&self, choices: usize, experts: usize, most: usize) -> usize {
        let mean = (self.rows * choices).div_ceil(experts.max(1));
        let wanted = mean + mean.isqrt();
        [16, 32, 64].into_iter().find(|t| wanted <= *t).unwrap_or(most).min(most)
    }
    /// Refuses values that break the schedules' assumptions.
    pub(crate) fn check(&self) -> Result<(), Error> {
        for (knob, value, most) in [("tokens", self.tokens, 240), ("dual_tokens", self.dual_tokens, 112)] {
            if value == 0 || !value.is_multiple_of(16) || value > most {
                let rule = "it must be a multiple of 16, at most 240, 112 for two accumulators";
                return Err(Error::Knob { knob, value, rule });
            }
        }
        if self.cores == 0 || !self.cores.is_multiple_of(2) {
            let rule = "it must be a positive even number";
            return Err(Error::Knob { knob: "cores", value: self.cores, rule });
        }
        Ok(())
    }
}
