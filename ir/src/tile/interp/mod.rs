//! The Tile IR interpreter: runs the roles of a kernel in seeded interleavings over poisoned memory.
//!
//! For each tile of the grid (in seeded order) the roles run as coroutines; a seed decides whose turn it is, which
//! free slot is acquired, and when a copy lands, at the latest when its slot is used. What a verified
//! kernel computes does not depend on the seed. Reductions follow the orders that the op table names. Beyond values it
//! watches what the verifier cannot: slots, outputs and rows that nothing wrote are poison, which may flow through
//! arithmetic (columns of an accumulator past the last live one) but not into memory, selections or indices; blocks
//! lie inside views and slots; no two tiles share an element of which one of them writes; every element of an output
//! is written.

mod arith;
mod block;
mod copies;
mod error;
mod exec;
mod machine;
mod matrix;
mod memory;
mod rng;
mod select;
mod slots;
mod tiles;

pub use error::{Error, Fault};

use super::kernel::{Axis, Kernel};
use crate::graph::interp::Tensor;
use crate::types::Bindings;
use crate::verified::Verified;
use machine::{Machine, TilePlace};
use memory::View;
use rng::Rng;

/// Most tiles of a grid.
const MAX_TILES: usize = 1 << 24;

/// Runs `kernel` on `params`, one tensor for each parameter in order, holding decoded values. Outputs and states are
/// replaced; what outputs held before is never read.
///
/// # Errors
/// See [`Error`]. After an error `params` are as they were.
pub fn run(
    kernel: &Verified<Kernel>,
    bindings: &Bindings,
    params: &mut [Tensor],
    seed: u64,
) -> Result<(), Error> {
    let kernel: &Kernel = kernel;
    let mut rng = Rng::new(seed);
    let mut views = View::all(kernel, bindings, params)?;
    let mut places = vec![TilePlace::default()];
    for axis in &kernel.grid {
        let tiles = tiles_of(axis, bindings, &mut views)?;
        let count = places.len().checked_mul(tiles.len()).filter(|n| *n <= MAX_TILES);
        count.ok_or_else(|| Error::Size { what: "the grid".into() })?;
        let with = |place: &TilePlace, (at, group): &AlongAxis| {
            let mut place = place.clone();
            place.at.push(*at);
            place.groups.push(*group);
            place
        };
        places = places.iter().flat_map(|p| tiles.iter().map(|t| with(p, t)).collect::<Vec<_>>()).collect();
    }
    let mut order: Vec<usize> = (0..places.len()).collect();
    rng.shuffle(&mut order);
    for number in order {
        let place = std::mem::take(&mut places[number]);
        Machine::new(kernel, bindings, &mut views, &mut rng, place, number as u32)?.run()?;
    }
    let results: Result<Vec<_>, Error> = views.into_iter().map(View::finish).collect();
    for (tensor, data) in params.iter_mut().zip(results?) {
        if let Some(data) = data {
            tensor.data = data;
        }
    }
    Ok(())
}

/// First coordinate of a tile along an axis; its group and the group's end, if the axis is grouped.
type AlongAxis = (usize, Option<(usize, usize)>);

/// The tiles along an axis.
fn tiles_of(axis: &Axis, bindings: &Bindings, views: &mut [View<'_>]) -> Result<Vec<AlongAxis>, Error> {
    let size = || Error::Size { what: format!("axis {}", axis.name) };
    let extent = axis.extent.eval(bindings).ok_or_else(size)?;
    let tile = axis.tile.max(1);
    if extent.div_ceil(tile) > MAX_TILES {
        return Err(size());
    }
    let Some(offsets) = axis.groups else {
        return Ok((0..extent).step_by(tile).map(|at| (at, None)).collect());
    };
    let view = views.get_mut(offsets.index()).ok_or_else(size)?;
    let borders = view.borders(extent).ok_or_else(size)?;
    let mut tiles = Vec::new();
    for (group, border) in borders.windows(2).enumerate() {
        let (start, end) = (border[0], border[1]);
        tiles.extend((start..end).step_by(tile).map(|at| (at, Some((group, end)))));
    }
    Ok(tiles)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tile::parse;

    /// No verified kernel can get stuck, so this one is marked without the verifier.
    #[test]
    fn stuck_roles_are_reported() {
        let text = "tessera.tile 1 kernel @k {
          ring %a : vec tile<1x4, f32> depth 1 path one -> two
          role vector one { %s = acquire %a : slot %a pass %s %t = acquire %a : slot %a pass %t }
          role vector two { %u = take %a : slot %a %v = take %a : slot %a release %u release %v }
        }";
        let kernel = Verified::new(parse(text).unwrap_or_else(|e| panic!("{e}")));
        for seed in 0..20 {
            let found = run(&kernel, &Bindings::new(), &mut [], seed).expect_err("a deadlock");
            let Error::Deadlock { waits, .. } = &found else { panic!("{found}") };
            let at: Vec<(&str, &str)> =
                waits.iter().map(|w| (w.role.as_str(), w.statement.as_str())).collect();
            assert_eq!(at, [("one", "%2 = acquire %a : slot %a"), ("two", "%4 = take %a : slot %a")]);
            assert_eq!(waits[1].on, "a slot of %a");
        }
    }
}
