//! Before and after the roles: barriers, tensor memory, who waits for the kernel before.

use super::rings::{Places, nodes};
use super::{Emitter, Result};
use crate::target::ptx::isa::{Cmp, CtaGroup, Reg, Special, Ty};
use std::rc::Rc;
use tessera_ir::Layout;
use tessera_ir::tile::{RoleKind, Value};

/// Two blocks that share each tile: each has half of the rows of every slot, and the first one multiplies.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pair {
    /// 0 in the first block, 1 in the second.
    pub(super) rank: Reg,
    /// Start of the first block's shared memory, as an address of the cluster.
    pub(super) first: Reg,
}

/// The warp that allocates tensor memory.
const ALLOCATES: u32 = 1;

impl Emitter<'_> {
    /// Lays out the rings between roles.
    pub(super) fn place_rings(&mut self) -> Result<()> {
        self.places = Rc::new(Places::new(self.kernel, &mut self.shared)?);
        Ok(())
    }
    /// Blocks that take part in matrix instructions.
    pub(super) fn group(&self) -> CtaGroup {
        if self.pair.is_some() { CtaGroup::Two } else { CtaGroup::One }
    }
    /// The block meets, or the pair.
    fn all_meet(&mut self) {
        if self.pair.is_some() {
            self.asm.cluster_sync();
        } else {
            self.asm.sync_threads();
        }
    }
    /// True for rings of one role.
    pub(super) fn keeps(&self, ring: Value) -> bool {
        self.kernel.ring_of(ring).is_some_and(|r| r.path.len() == 1)
    }
    /// True if the role is at the first station of a ring.
    pub(super) fn begins(&self, ring: Value) -> bool {
        self.kernel.ring_of(ring).is_some_and(|r| r.station(self.team.role) == Some(0))
    }

    /// Initialises barriers and allocates tensor memory, and the block meets.
    pub(super) fn set_up(&mut self) {
        let places = self.places.clone();
        let barriers: Vec<(u32, u32)> = places.barriers().collect();
        if barriers.is_empty() {
            return;
        }
        self.asm.comment("barriers and tensor memory");
        let (thread, smem) = (self.team.thread, self.smem);
        if self.kernel.cluster == 2 {
            let rank = self.asm.special(Special::ClusterCtaRank);
            let first = self.asm.mapa(smem, 0u32);
            self.pair = Some(Pair { rank, first });
        }
        let group = self.group();
        let begun = self.asm.label("set_up");
        let others = self.asm.setp(Cmp::Ne, Ty::U32, thread, 0u32);
        self.asm.bra_if(others, begun);
        for (offset, count) in barriers {
            self.asm.mbar_init(smem.at(i64::from(offset)), count);
        }
        self.asm.fence_mbarrier_init();
        self.asm.place(begun);
        self.asm.warp_sync();
        if places.columns == 0 {
            self.all_meet();
            return;
        }
        let word = smem.at(i64::from(self.shared.take(4, 4)));
        let allocated = self.asm.label("allocated");
        let others = self.other_warps(ALLOCATES);
        self.asm.bra_if(others, allocated);
        self.asm.tmem_alloc(group, word, places.columns);
        self.asm.tmem_relinquish(group);
        self.asm.place(allocated);
        self.asm.tmem_fence_before();
        self.all_meet();
        self.asm.tmem_fence_after();
        self.tmem = Some(self.asm.ld_shared(Ty::B32, word));
    }
    /// Gives tensor memory back when all roles are done.
    pub(super) fn tear_down(&mut self) {
        let places = self.places.clone();
        let Some(tmem) = self.tmem.filter(|_| places.columns > 0) else { return };
        self.asm.tmem_fence_before();
        self.all_meet();
        self.asm.tmem_fence_after();
        let end = self.asm.label("freed");
        let others = self.other_warps(ALLOCATES);
        self.asm.bra_if(others, end);
        let group = self.group();
        self.asm.tmem_dealloc(group, tmem, places.columns);
        self.asm.place(end);
    }
    /// True in all warps of the block but one.
    fn other_warps(&mut self, warp: u32) -> Reg {
        let thread = self.asm.special(Special::TidX);
        let number = self.asm.shr_u32(thread, 5);
        self.asm.setp(Cmp::Ne, Ty::U32, number, warp)
    }

    /// True if the roles wait for the kernel before by themselves, so that weights may be fetched while it still runs.
    pub(super) fn waits_by_role(&self, tables: &[super::grid::Table]) -> bool {
        tables.is_empty() && self.kernel.roles.len() > 1
    }
    /// True if the role reads what another kernel may have written: everything but weights in a layout of their own.
    pub(super) fn reads_activations(&self) -> bool {
        let weight = |v: &Value| match self.kernel.param_of(*v).map(|p| p.ty.layout) {
            Some(Layout::Blocks128 | Layout::Split3 | Layout::Panels16) | None => true,
            Some(Layout::Rows | Layout::Pitch16 | Layout::Split) => false,
        };
        nodes(self.kernel, self.team.role).iter().any(|n| !n.op.operands().iter().all(weight))
    }

    /// Begins a role. In warps that issue bulk copies or products one lane does so; the warp stays together, so that the
    /// assembler sees that all its numbers are the same in every lane.
    pub(super) fn begin_role(&mut self) {
        let issues = match self.role().kind {
            RoleKind::Matrix | RoleKind::Copy => !self.places.bundles.is_empty() && self.role().warps == 1,
            RoleKind::Vector => false,
        };
        self.leader = issues.then(|| self.asm.elect());
        self.travel_start();
    }
}
