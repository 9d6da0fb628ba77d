//! NVIDIA SM100: capacities of one streaming multiprocessor, and the space that slots of a ring take.
//!
//! Capacities: PTX ISA, sections on shared memory, `tcgen05` and `setmaxnreg`.

use crate::tile::{Class, Kernel, Ring, RingScope};
use crate::types::{Elem, Format, SCALE_BLOCK};

/// Shared memory of a core that one kernel may use, bytes.
pub const SHARED_BYTES: usize = 232_448;
/// Columns of tensor memory; each has [`TENSOR_LANES`] lanes of 32 bits.
pub const TENSOR_COLUMNS: usize = 512;
/// Lanes of tensor memory.
pub const TENSOR_LANES: usize = 128;
/// Threads of a core that one kernel may have.
pub const THREADS: usize = 1024;
/// Registers of a core.
pub const REGISTERS: usize = 65_536;
/// Most registers of a thread.
pub const THREAD_REGISTERS: usize = 255;
/// Alignment of operands of the matrix unit, bytes: the 128-byte swizzle repeats after 8 rows.
pub const OPERAND_ALIGN: usize = 1024;
/// Bytes of a row of an operand tile.
pub const ROW: usize = 128;
/// Rows of a raw record group, which one gathering copy brings.
pub const GATHER_ROWS: usize = 4;

/// How a slot's contents lie in shared memory, in order of address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SharedSlot {
    /// Bytes of the codes or plain elements.
    pub data: usize,
    /// Bytes of the scales behind them.
    pub scales: usize,
}

impl SharedSlot {
    /// Distance of two slots: whole operand alignments.
    pub fn pitch(self) -> usize {
        let bytes = self.data.saturating_add(self.scales);
        bytes.checked_next_multiple_of(OPERAND_ALIGN).unwrap_or(usize::MAX)
    }
}

/// Rows of a slot that one core holds.
pub fn core_rows(ring: &Ring) -> usize {
    match ring.scope {
        RingScope::Core => ring.slot.rows,
        RingScope::Pair => ring.slot.rows.div_ceil(2),
    }
}

/// The space of one slot of a stage or working ring in one core's shared memory; `None` for symbolic widths and for
/// formats that the matrix unit and bulk copies do not know.
///
/// Operands lie K-major in tiles of [`ROW`] bytes by rows (rows rounded up to 8), one tile after another along K, each in
/// the 128-byte swizzle: 128 elements of `mx8`, `w8` and `mx4` (four-bit codes unpacked to bytes' pitch by the copy), 64
/// of `bf16` and of the three bf16 parts of f32 weights, which lie below each other as rows. `index4` lies dense, 64 bytes for
/// 128 elements. Scales of 128 rows × 128 columns take [`SCALE_BLOCK`]. Records (`kv8`, `kv4`) lie in groups of
/// [`GATHER_ROWS`], each group rounded up to 128 bytes. Working slots are row-major.
pub fn shared_slot(ring: &Ring) -> Option<SharedSlot> {
    let rows = core_rows(ring);
    let cols = ring.slot.cols.fixed()?;
    let format = ring.slot.format;
    if ring.class == Class::Vec {
        let data = rows.checked_mul(format.row_bytes(cols)?)?;
        return Some(SharedSlot { data: data.checked_next_multiple_of(16)?, scales: 0 });
    }
    let operand = |rows: usize, per_row: usize| {
        rows.checked_next_multiple_of(8)?.checked_mul(ROW)?.checked_mul(cols.div_ceil(per_row))
    };
    // Both cores of a pair keep the scales of all rows: the columns of their products need them.
    let scales = ring.slot.rows.div_ceil(128).checked_mul(cols.div_ceil(128))?.checked_mul(SCALE_BLOCK)?;
    match format {
        Format::MX8 | Format::W8 | Format::MX4 => Some(SharedSlot { data: operand(rows, 128)?, scales }),
        Format::BF16 => Some(SharedSlot { data: operand(rows, 64)?, scales: 0 }),
        Format::F32 => Some(SharedSlot { data: operand(rows.checked_mul(3)?, 64)?, scales: 0 }),
        Format::INDEX4 => {
            let data =
                rows.checked_next_multiple_of(8)?.checked_mul(ROW / 2)?.checked_mul(cols.div_ceil(128))?;
            Some(SharedSlot { data, scales })
        }
        Format::KV8 | Format::KV4 => {
            let pitch = format.row_bytes(cols)?.checked_next_multiple_of(16)?;
            let group = pitch.checked_mul(GATHER_ROWS)?.checked_next_multiple_of(128)?;
            Some(SharedSlot { data: rows.div_ceil(GATHER_ROWS).checked_mul(group)?, scales: 0 })
        }
        Format { elem: Elem::I32, group: None } => {
            let data = rows.checked_mul(4)?.checked_mul(cols)?.checked_next_multiple_of(16)?;
            Some(SharedSlot { data, scales: 0 })
        }
        Format { elem: Elem::F32 | Elem::Bf16 | Elem::E4m3 | Elem::E2m1 | Elem::I32 | Elem::I64, .. } => None,
    }
}

/// Columns of tensor memory that one slot of an accumulator ring takes: one for each column of 128 rows; accumulators of 64
/// rows fold their columns into both halves of the lanes.
pub fn accumulator_columns(ring: &Ring) -> Option<usize> {
    let cols = ring.slot.cols.fixed()?;
    Some(if core_rows(ring) <= TENSOR_LANES / 2 { cols.div_ceil(2) } else { cols })
}

/// Columns of tensor memory that the scales of one slot of a scaled stage ring take: 4 for each 128 rows × 128 columns.
pub fn scale_columns(ring: &Ring) -> usize {
    match (ring.class, ring.slot.format) {
        (Class::Stage, Format::MX8 | Format::W8 | Format::MX4 | Format::INDEX4) => {
            let cols = ring.slot.cols.fixed().unwrap_or(128);
            ring.slot.rows.div_ceil(128).saturating_mul(cols.div_ceil(128)).saturating_mul(4)
        }
        _ => 0,
    }
}

/// Whether `role` works on a folded accumulator, so that its tiles of up to 64 rows lie in registers as that one gives them.
pub fn folded_role(kernel: &Kernel, role: usize) -> bool {
    let folded =
        |r: &Ring| r.class == Class::Accum && core_rows(r) <= TENSOR_LANES / 2 && r.station(role).is_some();
    kernel.rings.iter().any(folded)
}

/// Whether the slots of a ring are registers of its one role: single working slots of up to 64 rows of a role with folded
/// tiles.
pub fn in_registers(kernel: &Kernel, ring: &Ring) -> bool {
    let [hop] = ring.path.as_slice() else { return false };
    let [role] = hop.roles.as_slice() else { return false };
    ring.class == Class::Vec
        && ring.depth == 1
        && ring.slot.rows <= TENSOR_LANES / 2
        && folded_role(kernel, *role)
}

/// Bytes of shared memory of all rings of a kernel but those in registers; `None` if a slot has no size on this machine.
/// Barriers and tables come on top.
pub fn shared_bytes(kernel: &Kernel) -> Option<usize> {
    let placed = |r: &&Ring| r.class != Class::Accum && !in_registers(kernel, r);
    kernel.rings.iter().filter(placed).try_fold(0usize, |n, ring| {
        let slot = shared_slot(ring)?;
        let pitch = if ring.class == Class::Vec { slot.data } else { slot.pitch() };
        n.checked_add(pitch.checked_mul(ring.depth)?)
    })
}

/// Columns of tensor memory of all accumulators of a kernel, and of one set of scales of each scaled operand; `None` for
/// symbolic widths.
pub fn tensor_columns(kernel: &Kernel) -> Option<usize> {
    kernel.rings.iter().try_fold(0usize, |n, ring| match ring.class {
        Class::Accum => n.checked_add(accumulator_columns(ring)?.checked_mul(ring.depth)?),
        Class::Stage => n.checked_add(scale_columns(ring)),
        Class::Vec => Some(n),
    })
}

/// Threads of all roles of a kernel.
pub fn threads(kernel: &Kernel) -> usize {
    kernel.roles.iter().fold(0usize, |n, r| n.saturating_add(r.warps.saturating_mul(32)))
}
