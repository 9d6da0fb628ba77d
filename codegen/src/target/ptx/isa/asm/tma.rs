//! Bulk copies, by method. Maps are generic addresses, as [`Asm::ld_param`] gives them for tensor maps.

use super::super::tma::{Bulk, BulkLoad};
use super::{Addr, Asm, Class, Operand, Reg};

impl Asm {
    /// Loads the box at `at` (innermost coordinate first) to shared memory; `bar` counts its bytes.
    pub fn tma_load(
        &mut self,
        to: BulkLoad,
        dst: impl Into<Addr>,
        map: Reg,
        at: &[Operand],
        bar: impl Into<Addr>,
    ) {
        let (dst, at, bar) = (dst.into(), at.to_vec(), bar.into());
        self.push(Bulk::TensorLoad { gather: false, to, dst, map, at, bar });
    }
    /// Loads columns from `column` of four rows of a matrix, one row after another.
    pub fn tma_gather4(
        &mut self,
        to: BulkLoad,
        dst: impl Into<Addr>,
        map: Reg,
        column: impl Into<Operand>,
        rows: [Operand; 4],
        bar: impl Into<Addr>,
    ) {
        let at = std::iter::once(column.into()).chain(rows).collect();
        self.push(Bulk::TensorLoad { gather: true, to, dst: dst.into(), map, at, bar: bar.into() });
    }
    /// Stores a box from shared memory; done when its group is.
    pub fn tma_store(&mut self, map: Reg, at: &[Operand], src: impl Into<Addr>) {
        let (at, src) = (at.to_vec(), src.into());
        self.push(Bulk::TensorStore { scatter: false, policy: None, map, at, src });
    }
    /// The same with a policy of the second-level cache.
    pub fn tma_store_hint(
        &mut self,
        policy: impl Into<Operand>,
        map: Reg,
        at: &[Operand],
        src: impl Into<Addr>,
    ) {
        let (policy, at, src) = (Some(policy.into()), at.to_vec(), src.into());
        self.push(Bulk::TensorStore { scatter: false, policy, map, at, src });
    }
    /// Stores columns from `column` of four rows of a matrix.
    pub fn tma_scatter4(
        &mut self,
        map: Reg,
        column: impl Into<Operand>,
        rows: [Operand; 4],
        src: impl Into<Addr>,
    ) {
        let at = std::iter::once(column.into()).chain(rows).collect();
        self.push(Bulk::TensorStore { scatter: true, policy: None, map, at, src: src.into() });
    }
    /// Adds a box to the tensor.
    pub fn tma_add(&mut self, map: Reg, at: &[Operand], src: impl Into<Addr>) {
        self.push(Bulk::TensorAdd { map, at: at.to_vec(), src: src.into() });
    }
    /// Fetches a box into the second-level cache.
    pub fn tma_prefetch(&mut self, map: Reg, at: &[Operand]) {
        self.push(Bulk::TensorPrefetch { map, at: at.to_vec() });
    }
    /// Fetches the map itself.
    pub fn prefetch_map(&mut self, map: Reg) {
        self.push(Bulk::PrefetchMap(map));
    }
    /// Loads bytes, a multiple of 16, to shared memory; `bar` counts them.
    pub fn bulk_load(
        &mut self,
        to: BulkLoad,
        dst: impl Into<Addr>,
        src: impl Into<Addr>,
        bytes: impl Into<Operand>,
        bar: impl Into<Addr>,
    ) {
        let (dst, src, bytes, bar) = (dst.into(), src.into(), bytes.into(), bar.into());
        self.push(Bulk::Load { to, dst, src, bytes, bar });
    }
    /// Copies bytes to another block of the cluster, whose barrier `bar` counts them; both addresses from `mapa`.
    pub fn bulk_to_cluster(
        &mut self,
        dst: impl Into<Addr>,
        src: impl Into<Addr>,
        bytes: impl Into<Operand>,
        bar: impl Into<Addr>,
    ) {
        let (dst, src, bytes, bar) = (dst.into(), src.into(), bytes.into(), bar.into());
        self.push(Bulk::ToCluster { dst, src, bytes, bar });
    }
    /// Stores bytes, a multiple of 16, from shared memory; done when their group is.
    pub fn bulk_store(&mut self, dst: impl Into<Addr>, src: impl Into<Addr>, bytes: impl Into<Operand>) {
        let (dst, src, bytes) = (dst.into(), src.into(), bytes.into());
        self.push(Bulk::Store { policy: None, dst, src, bytes });
    }
    /// Adds f32 from shared memory to device memory.
    pub fn bulk_add_f32(&mut self, dst: impl Into<Addr>, src: impl Into<Addr>, bytes: impl Into<Operand>) {
        self.push(Bulk::AddF32 { dst: dst.into(), src: src.into(), bytes: bytes.into() });
    }
    /// Fetches bytes into the second-level cache.
    pub fn bulk_prefetch(&mut self, src: impl Into<Addr>, bytes: impl Into<Operand>) {
        self.push(Bulk::Prefetch { src: src.into(), bytes: bytes.into() });
    }
    /// Closes a group of the thread's bulk stores.
    pub fn bulk_commit(&mut self) {
        self.push(Bulk::Commit);
    }
    /// Waits until at most `n` groups are under way.
    pub fn bulk_wait(&mut self, n: u8) {
        self.push(Bulk::Wait { n, read: false });
    }
    /// Waits until at most `n` groups have not read all their sources.
    pub fn bulk_wait_read(&mut self, n: u8) {
        self.push(Bulk::Wait { n, read: true });
    }
    /// Stores 1, 2 or 4 words to another block, whose barrier `bar` counts 4 bytes each.
    pub fn st_async(&mut self, dst: impl Into<Addr>, srcs: &[Reg], bar: impl Into<Addr>) {
        let srcs = srcs.iter().map(Operand::from).collect();
        self.push(Bulk::StAsync { dst: dst.into(), srcs, bar: bar.into() });
    }
    /// Asks for a cluster that has not been launched; the answer has 16 bytes, which `bar` counts. With `multicast` the
    /// answer goes to every block of the cluster.
    pub fn try_cancel(&mut self, multicast: bool, dst: impl Into<Addr>, bar: impl Into<Addr>) {
        self.push(Bulk::TryCancel { multicast, dst: dst.into(), bar: bar.into() });
    }
    /// Whether the answer, a 128-bit register, names a cluster.
    pub fn is_canceled(&mut self, answer: Reg) -> Reg {
        let dst = self.reg(Class::Pred);
        self.push(Bulk::IsCanceled { dst, answer });
        dst
    }
    /// The first block of the cluster that the answer names, x, y, z.
    pub fn first_cta(&mut self, answer: Reg) -> [Reg; 3] {
        let dsts = [self.reg(Class::B32), self.reg(Class::B32), self.reg(Class::B32)];
        self.push(Bulk::FirstCta { dsts, answer });
        dsts
    }
}
