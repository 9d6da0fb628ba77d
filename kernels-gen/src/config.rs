//! The knobs of CPU schedules: how large tiles are. None of them changes a result.

use crate::error::Error;

/// Tile sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// Output columns of a dense product's tile, a multiple of 32.
    pub linear_cols: usize,
    /// Rows of a dense product's tile.
    pub linear_rows: usize,
    /// Output columns of an expert product's tile, a multiple of 32.
    pub expert_cols: usize,
    /// Rows of one expert taken at a time.
    pub expert_rows: usize,
    /// Rows of a stream-mixing tile.
    pub mix_rows: usize,
}

impl Default for Config {
    fn default() -> Self {
        Config { linear_cols: 128, linear_rows: 16, expert_cols: 128, expert_rows: 16, mix_rows: 8 }
    }
}

impl Config {
    /// Legal values of each knob, by name.
    pub fn space() -> [(&'static str, &'static [usize]); 5] {
        let cols: &[usize] = &[32, 64, 96, 128, 192, 256, 512];
        let rows: &[usize] = &[1, 2, 4, 8, 16, 32, 64];
        [
            ("linear_cols", cols),
            ("linear_rows", rows),
            ("expert_cols", cols),
            ("expert_rows", rows),
            ("mix_rows", rows),
        ]
    }
    /// Refuses values that break the schedules' assumptions.
    pub fn check(&self) -> Result<(), Error> {
        for (knob, value) in [("linear_cols", self.linear_cols), ("expert_cols", self.expert_cols)] {
            if value == 0 || !value.is_multiple_of(32) {
                return Err(Error::Knob { knob, value, rule: "it must be a positive multiple of 32" });
            }
        }
        let rows = [
            ("linear_rows", self.linear_rows),
            ("expert_rows", self.expert_rows),
            ("mix_rows", self.mix_rows),
        ];
        match rows.into_iter().find(|(_, v)| *v == 0) {
            Some((knob, value)) => Err(Error::Knob { knob, value, rule: "it must be at least 1" }),
            None => Ok(()),
        }
    }
}
