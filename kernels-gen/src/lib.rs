//! Operator families: each one a contract, a fused group of graph ops and a schedule in Tile IR.
//!
//! A **fragment** is a small graph module: what one kernel computes, in the oracle's own terms. [`schedule`] turns it
//! into a kernel whose parameters are the fragment's declarations in order, then its outputs, newer versions of a
//! state excepted (they are the declaration's memory).

mod attention;
mod config;
mod error;
mod family;
mod hc_mix;
mod index_select;
mod interface;
mod linear;
mod moe;
mod rows;
pub mod sm100;

pub use config::Config;
pub use error::Error;
pub use family::Family;

use interface::Fragment;
use tessera_ir::Verified;
use tessera_ir::graph::Module;
use tessera_ir::tile::Kernel;

/// The CPU schedule of `fragment`, named as the fragment.
///
/// # Errors
/// The fragment is not one the family computes, or a knob is outside its space.
pub fn schedule(family: Family, fragment: &Verified<Module>, config: &Config) -> Result<Kernel, Error> {
    config.check()?;
    let f = Fragment::new(family, fragment);
    match family {
        Family::Rows => rows::schedule(&f),
        Family::Linear => linear::schedule(&f, config),
        Family::MoeGroup => moe::group(&f),
        Family::MoeUp | Family::MoeLinear => moe::product(&f, config),
        Family::HcMix => hc_mix::schedule(&f, config),
        Family::IndexSelect | Family::IndexScores | Family::IndexBlocks | Family::TopK => {
            index_select::schedule(&f)
        }
        Family::Attention | Family::BlockAttention => attention::schedule(&f),
    }
}
