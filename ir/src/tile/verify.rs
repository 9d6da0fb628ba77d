//! The verifier of kernels.

/// Deepest nesting of blocks, the body of a role being the first.
pub(super) const MAX_NESTING: usize = 32;
