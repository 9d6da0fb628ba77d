//! Where sums lie in tensor memory (PTX ISA 9.7.16.10.5; letters of layouts as there).

use super::super::isa::CtaGroup;

/// A cell of tensor memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Block of the pair; 0 without pairs.
    pub cta: u32,
    /// Lane.
    pub lane: u32,
    /// Column from the begin of the sums.
    pub column: u32,
}

impl Place {
    /// The address from the begin of the sums.
    pub fn address(self) -> u32 {
        self.lane << 16 | self.column
    }
}

/// A layout of sums.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccLayout {
    /// Pair, 256 rows: each block has 128.
    A,
    /// Pair, 128 rows: each block has 64, the columns in two halves.
    B,
    /// 128 rows.
    D,
    /// Weight-stationary, 64 rows, the columns in two halves.
    E,
    /// 64 rows, 16 in each group of 32 lanes.
    F,
    /// Weight-stationary, 32 rows, the columns in four quarters.
    G,
}

impl AccLayout {
    /// The layout of an instruction with `m` rows; none where there is no such instruction.
    pub fn of(group: CtaGroup, ws: bool, m: u32) -> Option<AccLayout> {
        match (group, ws, m) {
            (CtaGroup::Two, false, 256) => Some(AccLayout::A),
            (CtaGroup::Two, false, 128) => Some(AccLayout::B),
            (CtaGroup::One, _, 128) => Some(AccLayout::D),
            (CtaGroup::One, true, 64) => Some(AccLayout::E),
            (CtaGroup::One, false, 64) => Some(AccLayout::F),
            (CtaGroup::One, true, 32) => Some(AccLayout::G),
            _ => None,
        }
    }
    /// The cell of row `m`, column `n` of `columns`. In the layouts A and B rows are those of the pair.
    pub fn place(self, m: u32, n: u32, columns: u32) -> Place {
        let (half, quarter) = ((columns / 2).max(1), (columns / 4).max(1));
        match self {
            AccLayout::A => Place { cta: m / 128, lane: m % 128, column: n },
            AccLayout::B => Place { cta: m / 64, lane: m % 64 + 64 * (n / half), column: n % half },
            AccLayout::D => Place { cta: 0, lane: m, column: n },
            AccLayout::E => Place { cta: 0, lane: m + 64 * (n / half), column: n % half },
            AccLayout::F => Place { cta: 0, lane: m % 16 + 32 * (m / 16), column: n },
            AccLayout::G => Place { cta: 0, lane: m + 32 * (n / quarter), column: n % quarter },
        }
    }
    /// Row (of the block) and column of `columns` that lie in a cell; none for lanes that hold nothing.
    pub fn element(self, lane: u32, column: u32, columns: u32) -> Option<(u32, u32)> {
        let (half, quarter) = (columns / 2, columns / 4);
        match self {
            AccLayout::A | AccLayout::D => Some((lane, column)),
            AccLayout::B | AccLayout::E => Some((lane % 64, column + half * (lane / 64))),
            AccLayout::F => (lane % 32 < 16).then_some((lane % 16 + 16 * (lane / 32), column)),
            AccLayout::G => Some((lane % 32, column + quarter * (lane / 32))),
        }
    }
    /// Columns of tensor memory that 32-bit sums of `columns` columns take.
    pub fn width(self, columns: u32) -> u32 {
        match self {
            AccLayout::A | AccLayout::D | AccLayout::F => columns,
            AccLayout::B | AccLayout::E => columns / 2,
            AccLayout::G => columns / 4,
        }
    }
}
