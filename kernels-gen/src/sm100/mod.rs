//! Schedules for SM100: weights on the matrix unit's M side, warps with fixed roles, accumulators in tensor memory.

mod attention;
mod gemm;
mod hc_mix;
mod index_scores;
mod knobs;
mod layout;
mod long_rows;
mod moe;
mod moe_group;
mod rows;
mod select;
mod stages;

pub use knobs::Knobs;

use crate::error::Error;
use crate::family::Family;
use crate::interface::Fragment;
use tessera_ir::Verified;
use tessera_ir::graph::Module;
use tessera_ir::tile::Kernel;

/// The SM100 schedule of `fragment`, named as the fragment.
///
/// # Errors
/// The fragment is not one the family computes, or a knob is outside its space.
pub fn schedule(family: Family, fragment: &Verified<Module>, knobs: &Knobs) -> Result<Kernel, Error> {
    knobs.check()?;
    let f = Fragment::new(family, fragment);
    match family {
        Family::Linear => gemm::schedule(&f, knobs),
        Family::MoeUp | Family::MoeLinear => moe::product(&f, knobs),
        Family::HcMix => hc_mix::schedule(&f, knobs),
        Family::Attention | Family::BlockAttention => attention::schedule(&f, knobs),
        Family::IndexScores => index_scores::schedule(&f, knobs),
        Family::IndexBlocks | Family::TopK => select::schedule(&f, knobs),
        Family::MoeGroup => moe_group::schedule(&f),
        Family::Rows if long_rows::applies(&f) => long_rows::schedule(&f, knobs),
        Family::Rows => rows::schedule(&f),
        Family::IndexSelect => Err(f.fault("it has no schedule for this machine".to_owned())),
    }
}
