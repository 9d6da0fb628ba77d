//! Threads that select or sort together and meet at one barrier: the warps of a role.

use crate::target::ptx::isa::{Asm, Cmp, Reduce, Reg, Space, Special, Ty};

/// Whole warps.
#[derive(Clone, Debug)]
pub(crate) struct Crew {
    /// Number of threads, a multiple of 32.
    pub(crate) threads: u32,
    /// Number of this thread in the crew.
    pub(crate) thread: Reg,
    /// The barrier at which the crew meets.
    pub(crate) barrier: u32,
    lane: Reg,
    warp: Reg,
    below: Reg,
}

impl Crew {
    /// The crew of `threads` threads in which this thread has number `thread`; warps of the crew are warps of the machine.
    pub(crate) fn new(a: &mut Asm, threads: u32, thread: Reg, barrier: u32) -> Self {
        let lane = a.and_b32(thread, 31u32);
        let warp = a.shr_u32(thread, 5u32);
        let below = a.mov(Ty::U32, Special::LaneMaskLt);
        Crew { threads, thread, barrier, lane, warp, below }
    }
    /// Number of warps.
    pub(crate) fn warps(&self) -> u32 {
        self.threads / 32
    }
    /// Number of this thread in its warp.
    pub(crate) fn lane(&self) -> Reg {
        self.lane
    }
    /// Number of this thread's warp in the crew.
    pub(crate) fn warp(&self) -> Reg {
        self.warp
    }
    /// The lanes below this one, as a mask.
    pub(crate) fn below(&self) -> Reg {
        self.below
    }
    /// All threads meet; writes before are visible after.
    pub(crate) fn sync(&self, a: &mut Asm) {
        a.bar_sync(self.barrier, self.threads);
    }
    /// The sum of `x` over the warps before this one, and over all; `x` is one number for a warp. `totals`: shared memory
    /// for 32 numbers, which no thread reads any more. The crew meets.
    pub(crate) fn sum_before(&self, a: &mut Asm, x: Reg, totals: Reg) -> (Reg, Reg) {
        let first = a.setp(Cmp::Eq, Ty::U32, self.lane, 0u32);
        let own = a.mad_u32(self.warp, 4u32, totals);
        a.guard(first, |a| a.st_shared(Ty::U32, own, x));
        self.sync(a);
        let there = a.setp(Cmp::Lt, Ty::U32, self.lane, self.warps());
        let at = a.mad_u32(self.lane, 4u32, totals);
        let of_lane = a.mov_b32(0u32);
        a.guard(there, |a| a.ld_to(&[of_lane], Space::Shared, Ty::U32, at));
        let earlier = a.setp(Cmp::Lt, Ty::U32, self.lane, self.warp);
        let part = a.selp(Ty::U32, of_lane, 0u32, earlier);
        (a.redux(Reduce::Add, Ty::U32, part), a.redux(Reduce::Add, Ty::U32, of_lane))
    }
}
