//! Barriers and fences, by method.

use super::super::barrier::{Barrier, FenceProxy, Scope, Seen};
use super::{Addr, Asm, Class, Operand, Reg};

impl Asm {
    /// All threads of the block meet at barrier 0.
    pub fn sync_threads(&mut self) {
        self.push(Barrier::Sync { id: 0.into(), count: None });
    }
    /// `threads` threads meet at barrier `id`.
    pub fn bar_sync(&mut self, id: impl Into<Operand>, threads: impl Into<Operand>) {
        self.push(Barrier::Sync { id: id.into(), count: Some(threads.into()) });
    }
    /// Counts towards the `threads` that meet at barrier `id` without waiting.
    pub fn bar_arrive(&mut self, id: impl Into<Operand>, threads: impl Into<Operand>) {
        self.push(Barrier::Arrive { id: id.into(), count: threads.into() });
    }
    /// Meets; whether `p` held in any of the threads.
    pub fn bar_any(&mut self, id: impl Into<Operand>, threads: impl Into<Operand>, p: Reg) -> Reg {
        let dst = self.reg(Class::Pred);
        self.push(Barrier::Red { any: true, dst, id: id.into(), count: Some(threads.into()), p });
        dst
    }
    /// Meets; whether `p` held in all of the threads.
    pub fn bar_all(&mut self, id: impl Into<Operand>, threads: impl Into<Operand>, p: Reg) -> Reg {
        let dst = self.reg(Class::Pred);
        self.push(Barrier::Red { any: false, dst, id: id.into(), count: Some(threads.into()), p });
        dst
    }
    /// Meets; in how many threads `p` held.
    pub fn bar_count(&mut self, id: impl Into<Operand>, threads: impl Into<Operand>, p: Reg) -> Reg {
        let dst = self.reg(Class::B32);
        self.push(Barrier::Popc { dst, id: id.into(), count: Some(threads.into()), p });
        dst
    }
    /// Counts at the cluster's barrier; writes before are visible to who waits.
    pub fn cluster_arrive(&mut self) {
        self.push(Barrier::ClusterArrive { relaxed: false });
    }
    /// Counts at the cluster's barrier without ordering memory.
    pub fn cluster_arrive_relaxed(&mut self) {
        self.push(Barrier::ClusterArrive { relaxed: true });
    }
    /// Waits at the cluster's barrier.
    pub fn cluster_wait(&mut self) {
        self.push(Barrier::ClusterWait);
    }
    /// All threads of the cluster meet.
    pub fn cluster_sync(&mut self) {
        self.cluster_arrive();
        self.cluster_wait();
    }
    /// A fence between threads of `scope`.
    pub fn fence(&mut self, scope: Scope) {
        self.push(Barrier::FenceAcqRel(scope));
    }
    /// Makes initialised barriers known to the cluster.
    pub fn fence_mbarrier_init(&mut self) {
        self.push(Barrier::FenceInit);
    }
    /// Makes ordinary writes visible to bulk copies and matrix instructions.
    pub fn fence_proxy(&mut self, which: FenceProxy) {
        self.push(Barrier::FenceProxy(which));
    }
    /// Initialises a barrier that completes a phase after `count` arrivals.
    pub fn mbar_init(&mut self, bar: impl Into<Addr>, count: u32) {
        let bar = bar.into();
        self.push(Barrier::Init { bar, count });
    }
    /// Ends a barrier's life.
    pub fn mbar_inval(&mut self, bar: impl Into<Addr>) {
        let bar = bar.into();
        self.push(Barrier::Inval { bar });
    }
    /// Arrives once.
    pub fn mbar_arrive(&mut self, bar: impl Into<Addr>) {
        let bar = bar.into();
        self.push(Barrier::MbarArrive { remote: false, bar, count: None });
    }
    /// Arrives `count` times.
    pub fn mbar_arrive_n(&mut self, bar: impl Into<Addr>, count: u32) {
        let bar = bar.into();
        self.push(Barrier::MbarArrive { remote: false, bar, count: Some(count) });
    }
    /// Arrives once at a barrier of another block; `bar` comes from `mapa`.
    pub fn mbar_arrive_remote(&mut self, bar: impl Into<Addr>) {
        let bar = bar.into();
        self.push(Barrier::MbarArrive { remote: true, bar, count: None });
    }
    /// More bytes are to come in this phase.
    pub fn mbar_expect_tx(&mut self, bar: impl Into<Addr>, bytes: impl Into<Operand>) {
        let bar = bar.into();
        self.push(Barrier::ExpectTx { bar, bytes: bytes.into() });
    }
    /// Arrives once; bytes are to come in this phase.
    pub fn mbar_arrive_expect_tx(&mut self, bar: impl Into<Addr>, bytes: impl Into<Operand>) {
        let bar = bar.into();
        self.push(Barrier::ArriveExpectTx { remote: false, bar, bytes: bytes.into() });
    }
    /// The same at a barrier of another block; `bar` comes from `mapa`.
    pub fn mbar_arrive_expect_tx_remote(&mut self, bar: impl Into<Addr>, bytes: impl Into<Operand>) {
        let bar = bar.into();
        self.push(Barrier::ArriveExpectTx { remote: true, bar, bytes: bytes.into() });
    }
    /// Whether the phase of parity `parity` is complete; may wait a little.
    pub fn mbar_try_wait(&mut self, bar: impl Into<Addr>, parity: impl Into<Operand>) -> Reg {
        let dst = self.reg(Class::Pred);
        self.mbar_test(true, Seen::Cta, dst, bar, parity);
        dst
    }
    /// Whether the phase of parity `parity` is complete, now.
    pub fn mbar_test_wait(&mut self, bar: impl Into<Addr>, parity: impl Into<Operand>) -> Reg {
        let dst = self.reg(Class::Pred);
        self.mbar_test(false, Seen::Cta, dst, bar, parity);
        dst
    }
    /// Waits until the phase of parity `parity` is complete. A fresh barrier lets parity 1 pass.
    pub fn mbar_wait(&mut self, bar: impl Into<Addr>, parity: impl Into<Operand>) {
        self.spin(Seen::Cta, bar, parity);
    }
    /// The same; what threads of other blocks of the cluster released is visible then.
    pub fn mbar_wait_cluster(&mut self, bar: impl Into<Addr>, parity: impl Into<Operand>) {
        self.spin(Seen::Cluster, bar, parity);
    }
    /// The same; orders no memory (own commits).
    pub fn mbar_wait_relaxed(&mut self, bar: impl Into<Addr>, parity: impl Into<Operand>) {
        self.spin(Seen::Nothing, bar, parity);
    }
    fn spin(&mut self, seen: Seen, bar: impl Into<Addr>, parity: impl Into<Operand>) {
        let (p, parity) = (self.reg(Class::Pred), parity.into());
        let again = self.here("wait");
        self.mbar_test(true, seen, p, bar, parity);
        self.bra_unless(p, again);
    }
    fn mbar_test(
        &mut self,
        spin: bool,
        seen: Seen,
        dst: Reg,
        bar: impl Into<Addr>,
        parity: impl Into<Operand>,
    ) {
        let bar = bar.into();
        self.push(Barrier::Test { spin, seen, dst, bar, parity: parity.into() });
    }
}
