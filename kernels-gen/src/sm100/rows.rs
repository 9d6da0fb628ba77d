//! Family `rows` on SM100: one row a block, its elements in registers, as many threads as the widest row gives work.

use super::layout::lies;
use crate::error::Error;
use crate::interface::Fragment;
use crate::rows::{Machine, extent, schedule_for};
use tessera_ir::graph::{Op, Value};
use tessera_ir::tile::{Kernel, Lanes, Target, Threads};

/// Threads of a warp.
const WARP: usize = 32;
/// Elements of a chunk: 16 bytes of bf16.
const CHUNKS: [usize; 3] = [8, 4, 2];
/// Most threads of a row; 96 registers are left for each.
const MOST: usize = 640;
/// A row whose gate keeps two sets of streams at once: small chunks on whole rounds of four warps, which have the most
/// registers a thread for the elements they hold.
const GATED: (usize, &[usize]) = (512, &[2]);
/// Elements of one tile that a thread takes before more threads are asked for, and threads at which that ends.
const HELD: usize = 40;
const PACKED: usize = 512;
/// Columns from which on a tile is spread over threads.
const SPREAD: usize = 16;

/// Schedules a chain of row-local ops.
pub(crate) fn schedule(f: &Fragment<'_>) -> Result<Kernel, Error> {
    let threads = threads(f);
    schedule_for(f, &Machine { target: Target::Sm100, threads, lies, unrolled: true })
}

/// Warps and lanes of a chain: a function of its widest tiles.
fn threads(f: &Fragment<'_>) -> Threads {
    let mut tiles: Vec<(usize, usize)> = Vec::new();
    let (mut ranks, mut limit, mut chunks) = (false, MOST, &CHUNKS[..]);
    for node in &f.module.nodes {
        ranks |= matches!(node.op, Op::Router { .. } | Op::Argmax { .. });
        if matches!(node.op, Op::EngramGate { .. }) {
            (limit, chunks) = GATED;
        }
        let table = match node.op {
            Op::EngramLookup { table, .. } | Op::Embed { table, .. } => Some(table),
            _ => None,
        };
        let states = |v: &Value| f.state(*v).is_some();
        let all = node.op.operands().into_iter().chain(node.results());
        for v in all.filter(|v| !states(v) && Some(*v) != table && f.ty(*v).format.is_float()) {
            tiles.extend(extent(f, v).ok());
        }
        // Pieces of a row are put into it chunk by chunk.
        if let Some(width) = table.and_then(|t| f.fixed(t, 1).ok()) {
            tiles.push((1, width));
        }
    }
    let spread: Vec<(usize, usize)> = tiles.into_iter().filter(|(_, cols)| *cols >= SPREAD).collect();
    let widest = spread.iter().map(|(_, cols)| *cols).max().unwrap_or(WARP);
    let chunk = chunks.iter().copied().find(|c| spread.iter().all(|(_, cols)| cols.is_multiple_of(*c)));
    let chunk = chunk.unwrap_or(1);
    let of = |count: usize| Threads { warps: count / WARP, registers: None, lanes: Lanes { count, chunk } };
    // A ranking goes round all threads for each place.
    if ranks {
        return of(WARP);
    }
    let chunks = widest.div_ceil(chunk);
    // Whole rounds over the widest row where that is possible.
    let whole = (1..=limit / WARP).rev().map(|w| w * WARP).find(|n| chunks.is_multiple_of(*n));
    let mut count = whole.unwrap_or_else(|| chunks.next_multiple_of(WARP).min(limit));
    let most = spread.iter().map(|(rows, cols)| rows * cols).max().unwrap_or(0);
    while limit == MOST && most.div_ceil(count) > HELD && count < PACKED {
        count = (2 * count).min(PACKED);
    }
    of(count)
}
