//! Which M, N and K matrix instructions have (PTX ISA 9.7.16.2, table of shapes).

use super::super::isa::{CtaGroup, MmaKind};
use super::fault::EncodeFault;

/// Form and size of one matrix instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MmaShape {
    /// Formats.
    pub kind: MmaKind,
    /// Blocks.
    pub group: CtaGroup,
    /// The weight-stationary form.
    pub ws: bool,
    /// Rows of D: of both blocks of a pair.
    pub m: u32,
    /// Columns of D: of both blocks of a pair.
    pub n: u32,
    /// The first factor lies in tensor memory.
    pub a_in_tensor: bool,
}

impl MmaShape {
    /// Elements of K that one instruction multiplies: 32 bytes' worth.
    pub fn k(kind: MmaKind) -> u32 {
        match kind {
            MmaKind::Tf32 => 8,
            MmaKind::F16 => 16,
            MmaKind::F8f6f4 | MmaKind::I8 | MmaKind::Mxf8f6f4 => 32,
            MmaKind::Mxf4 | MmaKind::Mxf4nvf4 => 64,
        }
    }
    /// Scales of a row that one instruction takes; 0 without scales.
    pub fn scales(kind: MmaKind) -> u32 {
        match kind {
            MmaKind::Tf32 | MmaKind::F16 | MmaKind::F8f6f4 | MmaKind::I8 => 0,
            MmaKind::Mxf8f6f4 => 1,
            MmaKind::Mxf4 => 2,
            MmaKind::Mxf4nvf4 => 4,
        }
    }
    /// Whether there is such an instruction.
    ///
    /// # Errors
    /// [`EncodeFault::Form`], [`EncodeFault::M`], [`EncodeFault::N`].
    pub fn check(self) -> Result<(), EncodeFault> {
        let MmaShape { kind, group, ws, m, n, .. } = self;
        if ws && group == CtaGroup::Two {
            return Err(EncodeFault::Form { kind, why: "pairs have no weight-stationary form" });
        }
        if ws && kind.scaled() {
            return Err(EncodeFault::Form { kind, why: "the weight-stationary form takes no scales" });
        }
        let rows: &[u32] = match (ws, group) {
            (true, _) => &[32, 64, 128],
            (false, CtaGroup::One) if kind.scaled() => &[128],
            (false, CtaGroup::One) => &[64, 128],
            (false, CtaGroup::Two) => &[128, 256],
        };
        if !rows.contains(&m) {
            return Err(EncodeFault::M { kind, group, m });
        }
        if self.has_n() { Ok(()) } else { Err(EncodeFault::N { kind, group, m, n }) }
    }
    fn has_n(self) -> bool {
        let MmaShape { kind, group, ws, m, n, a_in_tensor } = self;
        if ws {
            return matches!(n, 64 | 128 | 256);
        }
        let least = match (group, kind) {
            (CtaGroup::One, MmaKind::I8) if n > 32 => 16,
            (CtaGroup::Two, MmaKind::I8) => 32,
            (CtaGroup::One, _) if a_in_tensor && m == 128 => 16,
            (CtaGroup::One, _) => 8,
            (CtaGroup::Two, _) => 16,
        };
        (least..=256).contains(&n) && n % least == 0
    }
}
