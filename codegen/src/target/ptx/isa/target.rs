//! PTX versions, targets, and what instructions ask of them.

use std::fmt;

/// A version of the PTX language.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PtxVersion(pub u8, pub u8);

impl fmt::Display for PtxVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.0, self.1)
    }
}

/// What a machine must offer for an instruction, from least to most.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Feature {
    /// Every machine from sm_80 on.
    Sm80,
    /// Every machine from sm_90 on: clusters, bulk copies, barriers with byte counts.
    Sm90,
    /// sm_90a and its successors' own sets: `setmaxnreg`.
    Sm90Own,
    /// Every machine from sm_100 on.
    Sm100,
    /// sm_100 in its family or own set: tensor memory.
    Sm100Family,
    /// sm_100 in its own set only.
    Sm100Own,
}

/// A value of the `.target` line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// H100, H200: what every later machine has too.
    Sm90,
    /// H100, H200 with their own instructions.
    Sm90a,
    /// B200: what every later machine has too.
    Sm100,
    /// B200 and B300.
    Sm100f,
    /// B200 with all its instructions.
    Sm100a,
}

impl Target {
    /// All targets.
    pub const ALL: &'static [Target] =
        &[Target::Sm90, Target::Sm90a, Target::Sm100, Target::Sm100f, Target::Sm100a];

    /// The name in the `.target` line.
    pub fn name(self) -> &'static str {
        match self {
            Target::Sm90 => "sm_90",
            Target::Sm90a => "sm_90a",
            Target::Sm100 => "sm_100",
            Target::Sm100f => "sm_100f",
            Target::Sm100a => "sm_100a",
        }
    }
    /// The target called `name`.
    pub fn from_name(name: &str) -> Option<Target> {
        Target::ALL.iter().copied().find(|t| t.name() == name)
    }
    /// The oldest PTX version that knows the target.
    pub fn version(self) -> PtxVersion {
        match self {
            Target::Sm90 => PtxVersion(7, 8),
            Target::Sm90a => PtxVersion(8, 0),
            Target::Sm100 | Target::Sm100a => PtxVersion(8, 6),
            Target::Sm100f => PtxVersion(8, 8),
        }
    }
    /// Whether instructions that need `feature` exist.
    pub fn has(self, feature: Feature) -> bool {
        match feature {
            Feature::Sm80 | Feature::Sm90 => true,
            Feature::Sm90Own => matches!(self, Target::Sm90a | Target::Sm100f | Target::Sm100a),
            Feature::Sm100 => matches!(self, Target::Sm100 | Target::Sm100f | Target::Sm100a),
            Feature::Sm100Family => matches!(self, Target::Sm100f | Target::Sm100a),
            Feature::Sm100Own => self == Target::Sm100a,
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
