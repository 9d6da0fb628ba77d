//! The closed list of operator families.

use std::fmt;

/// An operator family: one schedule file each. Machines with little memory beside their cores have the parts of an indexer
/// as one family, others as three.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Family {
    /// Any chain of ops that keep to one row: norms, rotations, quantisers, streams, gates, caches.
    Rows,
    /// Matrix product with dense weights, alone or as gate and up halves with their activation.
    Linear,
    /// Choices of experts sorted by expert.
    MoeGroup,
    /// Gate and up products of the chosen experts with their activation.
    MoeUp,
    /// One product of the chosen experts.
    MoeLinear,
    /// Coefficients that mix the residual streams.
    HcMix,
    /// Index scores, candidate blocks and exact top-k.
    IndexSelect,
    /// Index scores alone.
    IndexScores,
    /// Candidate blocks alone.
    IndexBlocks,
    /// Exact top-k alone, of all scores or of those in candidate blocks.
    TopK,
    /// Attention over window and selected entries.
    Attention,
    /// Attention of a draft block.
    BlockAttention,
}

impl Family {
    /// Every family.
    pub const ALL: [Family; 12] = [
        Family::Rows,
        Family::Linear,
        Family::MoeGroup,
        Family::MoeUp,
        Family::MoeLinear,
        Family::HcMix,
        Family::IndexSelect,
        Family::IndexScores,
        Family::IndexBlocks,
        Family::TopK,
        Family::Attention,
        Family::BlockAttention,
    ];
    /// Name in reports, file names and kernel names.
    pub const fn name(self) -> &'static str {
        match self {
            Family::Rows => "rows",
            Family::Linear => "linear",
            Family::MoeGroup => "moe_group",
            Family::MoeUp => "moe_up",
            Family::MoeLinear => "moe_linear",
            Family::HcMix => "hc_mix",
            Family::IndexSelect => "index_select",
            Family::IndexScores => "index_scores",
            Family::IndexBlocks => "index_blocks",
            Family::TopK => "topk",
            Family::Attention => "attention",
            Family::BlockAttention => "block_attention",
        }
    }
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
