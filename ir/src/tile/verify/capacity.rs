//! What a kernel takes of the memories and threads of its machine.

use super::{Place, Report, Rule};
use crate::machine::sm100::{
    self, REGISTERS, SHARED_BYTES, TENSOR_COLUMNS, TENSOR_LANES, THREAD_REGISTERS, THREADS, core_rows,
};
use crate::tile::kernel::{Class, Kernel, Ring, Scope, Target};

/// Shared memory for barriers, tables of tiles and staging, bytes.
const RESERVED: usize = 2048;
/// Fewest registers of a thread that a role can have, and their step (PTX ISA, `setmaxnreg`).
const FEWEST: usize = 24;
const STEP: usize = 8;

/// Checks the sums over all rings and roles; a host processor has memory for what it needs.
pub(super) fn check(report: &mut Report<'_>) {
    let kernel = report.kernel;
    match kernel.target {
        Target::Cpu => {}
        Target::Sm100 => sm100(report, kernel),
    }
}

fn sm100(report: &mut Report<'_>, kernel: &Kernel) {
    let known = |r: &Ring| r.slot.cols.fixed().is_some() && sized(r).is_none();
    // Sums that have no number are too large, unless a slot has none.
    let most = kernel.rings.iter().all(known).then_some(usize::MAX);
    for (i, ring) in kernel.rings.iter().enumerate() {
        if let Some(message) = lanes(ring).or_else(|| sized(ring)) {
            report.add(Rule::Capacity, Place::Ring(i), message);
        }
    }
    if let Some(bytes) = sm100::shared_bytes(kernel).or(most)
        && bytes.saturating_add(RESERVED) > SHARED_BYTES
    {
        let message = format!(
            "the slots take {bytes} bytes of shared memory ({}), of which a core has {SHARED_BYTES}, {RESERVED} of them \
             for barriers and tables; make slots fewer or smaller",
            shares(kernel, |r| {
                let slot = sm100::shared_slot(r).filter(|_| r.class != Class::Accum)?;
                Some(if r.class == Class::Vec { slot.data } else { slot.pitch() })
            })
        );
        report.add(Rule::Capacity, Place::Kernel, message);
    }
    if let Some(columns) = sm100::tensor_columns(kernel).or(most)
        && columns > TENSOR_COLUMNS
    {
        let message = format!(
            "accumulators and scales take {columns} columns of tensor memory ({}; {} for scales), of which a core has \
             {TENSOR_COLUMNS}; make accumulators fewer or narrower",
            shares(kernel, |r| sm100::accumulator_columns(r).filter(|_| r.class == Class::Accum)),
            kernel.rings.iter().map(sm100::scale_columns).fold(0, usize::saturating_add)
        );
        report.add(Rule::Capacity, Place::Kernel, message);
    }
    threads(report, kernel);
}

/// `%ring depth×size` of the rings that take some.
fn shares(kernel: &Kernel, size: impl Fn(&Ring) -> Option<usize>) -> String {
    let one = |r: &Ring| Some(format!("%{} {}×{}", r.name, r.depth, size(r)?));
    kernel.rings.iter().filter_map(one).collect::<Vec<_>>().join(", ")
}

/// Why an accumulator does not fit the lanes of tensor memory.
fn lanes(ring: &Ring) -> Option<String> {
    let fits = match ring.scope {
        Scope::Core => [TENSOR_LANES / 2, TENSOR_LANES].contains(&core_rows(ring)),
        Scope::Pair => core_rows(ring) == TENSOR_LANES,
    };
    (ring.class == Class::Accum && !fits).then(|| {
        format!(
            "an accumulator of {} rows does not fit the {TENSOR_LANES} lanes of tensor memory; make them 64 or \
             {TENSOR_LANES}, or {} with `scope pair`",
            ring.slot.rows,
            2 * TENSOR_LANES
        )
    })
}

/// Why a slot has no place in shared memory.
fn sized(ring: &Ring) -> Option<String> {
    // Symbolic widths are refused as such.
    ring.slot.cols.fixed()?;
    (ring.class != Class::Accum && sm100::shared_slot(ring).is_none()).then(|| {
        let slot = &ring.slot;
        format!(
            "a slot of {}×{} {} has no form in shared memory; make it smaller or choose another format",
            slot.rows, slot.cols, slot.format
        )
    })
}

fn threads(report: &mut Report<'_>, kernel: &Kernel) {
    let threads = sm100::threads(kernel);
    if threads > THREADS {
        let message = format!(
            "the roles have {threads} threads, a core {THREADS}; give them {} warps at most",
            THREADS / 32
        );
        report.add(Rule::Capacity, Place::Kernel, message);
    }
    let mut taken = 0usize;
    for (i, role) in kernel.roles.iter().enumerate() {
        let Some(registers) = role.registers else { continue };
        taken = taken.saturating_add(role.warps.saturating_mul(32).saturating_mul(registers));
        if !registers.is_multiple_of(STEP) || !(FEWEST..=THREAD_REGISTERS).contains(&registers) {
            let most = THREAD_REGISTERS / STEP * STEP;
            let message = format!(
                "a thread cannot have {registers} registers; take a multiple of {STEP} from {FEWEST} to {most}"
            );
            report.add(Rule::Capacity, Place::Role(i), message);
        }
    }
    if taken > REGISTERS {
        let message = format!(
            "the roles' threads have {taken} registers together, a core {REGISTERS}; give some role fewer"
        );
        report.add(Rule::Capacity, Place::Kernel, message);
    }
}
