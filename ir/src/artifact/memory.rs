//! Static memory plan: offsets of a program's temporaries in one arena, from their lifetimes.

use super::{BufferKind, Program};
use crate::types::Bindings;

/// Alignment of every plane, bytes.
const ALIGN: usize = 64;

/// Why a plan cannot be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PlanFault {
    /// The size of this buffer depends on an unbound symbol or overflows.
    Size(String),
}

/// Offsets of temporaries, inputs and outputs in one arena.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryPlan {
    /// For each buffer the offsets of its planes; empty for weights and states, which live elsewhere.
    pub planes: Vec<Vec<usize>>,
    /// Arena size in bytes.
    pub bytes: usize,
}

impl MemoryPlan {
    /// Places the buffers of `program`, sizes taken under `bindings` (the largest values that will occur).
    /// Inputs and outputs live throughout. First fit in order of size, largest first, ties by buffer number.
    pub fn new(program: &Program, bindings: &Bindings) -> Result<Self, PlanFault> {
        let mut items = Vec::new();
        for (i, b) in program.buffers.iter().enumerate() {
            let (first, last) = match b.kind {
                BufferKind::Input | BufferKind::Output => (0, usize::MAX),
                BufferKind::Temp { first, last } => (first, last),
                BufferKind::Weight | BufferKind::State => continue,
            };
            let fault = || PlanFault::Size(b.name.clone());
            let planes = b.ty.plane_bytes(bindings).ok_or_else(fault)?;
            let bytes = planes
                .iter()
                .try_fold(0usize, |n, p| n.checked_add(p.checked_next_multiple_of(ALIGN)?))
                .ok_or_else(fault)?;
            items.push((i, first, last, bytes, planes));
        }
        items.sort_by_key(|(i, _, _, bytes, _)| (std::cmp::Reverse(*bytes), *i));
        let mut placed: Vec<(usize, usize, usize, usize)> = Vec::new(); // offset, end, first, last
        let mut plan = MemoryPlan { planes: vec![Vec::new(); program.buffers.len()], bytes: 0 };
        for (i, first, last, bytes, planes) in items {
            let mut taken: Vec<(usize, usize)> = placed
                .iter()
                .filter(|(_, _, f, l)| *f <= last && first <= *l)
                .map(|(o, e, _, _)| (*o, *e))
                .collect();
            taken.sort_unstable();
            let mut at = 0usize;
            for (o, e) in taken {
                if at.checked_add(bytes).is_some_and(|end| end <= o) {
                    break;
                }
                at = at.max(e);
            }
            let end =
                at.checked_add(bytes).ok_or_else(|| PlanFault::Size(program.buffers[i].name.clone()))?;
            placed.push((at, end, first, last));
            plan.bytes = plan.bytes.max(end);
            let mut offset = at;
            plan.planes[i] = planes
                .iter()
                .map(|p| {
                    let here = offset;
                    offset += p.next_multiple_of(ALIGN);
                    here
                })
                .collect();
        }
        Ok(plan)
    }
}
