//! Loads, stores and atomics, by method.

use super::super::barrier::Scope;
use super::super::memory::{AtomOp, Evict, Hints, Memory, Prefetch, Space, Visibility};
use super::{Addr, Asm, Class, Operand, Reg, Ty};

/// Hints of a load from device memory.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LoadHints {
    /// The data doesn't change while the kernel runs.
    pub constant: bool,
    /// First-level cache.
    pub l1: Option<Evict>,
    /// Second-level cache: how much is fetched.
    pub l2: Option<Prefetch>,
    /// Second-level cache: a policy, 64 bits.
    pub policy: Option<Operand>,
}

impl LoadHints {
    /// Data read once that doesn't change: not kept in the first-level cache.
    pub const STREAM: LoadHints =
        LoadHints { constant: true, l1: Some(Evict::NoAllocate), l2: Some(Prefetch::B256), policy: None };
    /// Data that doesn't change.
    pub const CONSTANT: LoadHints = LoadHints { constant: true, l1: None, l2: None, policy: None };
}

impl From<LoadHints> for Hints {
    fn from(h: LoadHints) -> Self {
        Hints { constant: h.constant, l1: h.l1, l2: h.l2, policy: h.policy }
    }
}

impl Asm {
    /// Loads one value.
    pub fn ld(&mut self, space: Space, ty: Ty, addr: impl Into<Addr>) -> Reg {
        let dst = self.reg(ty.class());
        self.ld_to(&[dst], space, ty, addr);
        dst
    }
    /// Loads a vector of `n` values.
    pub fn ld_vec(&mut self, space: Space, ty: Ty, n: usize, addr: impl Into<Addr>) -> Vec<Reg> {
        let dsts = self.regs(ty.class(), n);
        self.ld_to(&dsts, space, ty, addr);
        dsts
    }
    /// Loads into registers given.
    pub fn ld_to(&mut self, dsts: &[Reg], space: Space, ty: Ty, addr: impl Into<Addr>) {
        self.load(dsts, space, Visibility::Weak, Hints::default(), ty, addr.into());
    }
    /// Loads a vector of `n` values from device memory with hints.
    pub fn ld_hint(&mut self, hints: LoadHints, ty: Ty, n: usize, addr: impl Into<Addr>) -> Vec<Reg> {
        let dsts = self.regs(ty.class(), n);
        self.ld_hint_to(&dsts, hints, ty, addr);
        dsts
    }
    /// The same into registers given.
    pub fn ld_hint_to(&mut self, dsts: &[Reg], hints: LoadHints, ty: Ty, addr: impl Into<Addr>) {
        self.load(dsts, Space::Global, Visibility::Weak, hints.into(), ty, addr.into());
    }
    /// Loads one value with a promise to other threads.
    pub fn ld_see(&mut self, space: Space, see: Visibility, ty: Ty, addr: impl Into<Addr>) -> Reg {
        let dst = self.reg(ty.class());
        self.load(&[dst], space, see, Hints::default(), ty, addr.into());
        dst
    }
    fn load(&mut self, dsts: &[Reg], space: Space, see: Visibility, hints: Hints, ty: Ty, addr: Addr) {
        self.push(Memory::Load { space, see, hints, ty, dsts: dsts.to_vec(), addr });
    }
    /// Loads from device memory.
    pub fn ld_global(&mut self, ty: Ty, addr: impl Into<Addr>) -> Reg {
        self.ld(Space::Global, ty, addr)
    }
    /// Loads from shared memory.
    pub fn ld_shared(&mut self, ty: Ty, addr: impl Into<Addr>) -> Reg {
        self.ld(Space::Shared, ty, addr)
    }
    /// Loads `n` values from device memory.
    pub fn ld_global_vec(&mut self, ty: Ty, n: usize, addr: impl Into<Addr>) -> Vec<Reg> {
        self.ld_vec(Space::Global, ty, n, addr)
    }
    /// Loads `n` values from shared memory.
    pub fn ld_shared_vec(&mut self, ty: Ty, n: usize, addr: impl Into<Addr>) -> Vec<Reg> {
        self.ld_vec(Space::Shared, ty, n, addr)
    }
    /// Stores one value.
    pub fn st(&mut self, space: Space, ty: Ty, addr: impl Into<Addr>, src: impl Into<Operand>) {
        self.store(space, Visibility::Weak, Hints::default(), ty, addr.into(), vec![src.into()]);
    }
    /// Stores a vector.
    pub fn st_vec(&mut self, space: Space, ty: Ty, addr: impl Into<Addr>, srcs: &[Reg]) {
        let srcs = srcs.iter().map(Operand::from).collect();
        self.store(space, Visibility::Weak, Hints::default(), ty, addr.into(), srcs);
    }
    /// Stores one value with a promise to other threads.
    pub fn st_see(
        &mut self,
        space: Space,
        see: Visibility,
        ty: Ty,
        addr: impl Into<Addr>,
        src: impl Into<Operand>,
    ) {
        self.store(space, see, Hints::default(), ty, addr.into(), vec![src.into()]);
    }
    /// Stores to device memory with hints.
    pub fn st_hint(
        &mut self,
        l1: Option<Evict>,
        policy: Option<Operand>,
        ty: Ty,
        addr: impl Into<Addr>,
        srcs: &[Reg],
    ) {
        let hints = Hints { constant: false, l1, l2: None, policy };
        let srcs = srcs.iter().map(Operand::from).collect();
        self.store(Space::Global, Visibility::Weak, hints, ty, addr.into(), srcs);
    }
    fn store(&mut self, space: Space, see: Visibility, hints: Hints, ty: Ty, addr: Addr, srcs: Vec<Operand>) {
        self.push(Memory::Store { space, see, hints, ty, addr, srcs });
    }
    /// Stores to device memory.
    pub fn st_global(&mut self, ty: Ty, addr: impl Into<Addr>, src: impl Into<Operand>) {
        self.st(Space::Global, ty, addr, src);
    }
    /// Stores to shared memory.
    pub fn st_shared(&mut self, ty: Ty, addr: impl Into<Addr>, src: impl Into<Operand>) {
        self.st(Space::Shared, ty, addr, src);
    }
    /// Stores a vector to device memory.
    pub fn st_global_vec(&mut self, ty: Ty, addr: impl Into<Addr>, srcs: &[Reg]) {
        self.st_vec(Space::Global, ty, addr, srcs);
    }
    /// Stores a vector to shared memory.
    pub fn st_shared_vec(&mut self, ty: Ty, addr: impl Into<Addr>, srcs: &[Reg]) {
        self.st_vec(Space::Shared, ty, addr, srcs);
    }
    /// An atomic operation; gives what was there before.
    pub fn atom(
        &mut self,
        space: Space,
        op: AtomOp,
        ty: Ty,
        addr: impl Into<Addr>,
        src: impl Into<Operand>,
    ) -> Reg {
        self.atom_see(space, Visibility::Weak, op, ty, addr, src)
    }
    /// The same with a promise to other threads.
    pub fn atom_see(
        &mut self,
        space: Space,
        see: Visibility,
        op: AtomOp,
        ty: Ty,
        addr: impl Into<Addr>,
        src: impl Into<Operand>,
    ) -> Reg {
        let dst = self.reg(ty.class());
        let addr = addr.into();
        self.push(Memory::Atom { space, see, op, ty, dst, addr, src: src.into() });
        dst
    }
    /// Compare and swap; gives what was there before.
    pub fn cas(
        &mut self,
        space: Space,
        ty: Ty,
        addr: impl Into<Addr>,
        old: impl Into<Operand>,
        new: impl Into<Operand>,
    ) -> Reg {
        let dst = self.reg(ty.class());
        let (addr, old, new) = (addr.into(), old.into(), new.into());
        self.push(Memory::Cas { space, see: Visibility::Weak, ty, dst, addr, old, new });
        dst
    }
    /// An atomic operation without a result.
    pub fn red(&mut self, space: Space, op: AtomOp, ty: Ty, addr: impl Into<Addr>, src: impl Into<Operand>) {
        let addr = addr.into();
        self.push(Memory::Red { space, see: Visibility::Weak, op, ty, addr, srcs: vec![src.into()] });
    }
    /// Adds to device memory with release, as seen by `scope`.
    pub fn red_release_add_u32(&mut self, scope: Scope, addr: impl Into<Addr>, src: impl Into<Operand>) {
        let (see, srcs) = (Visibility::Release(scope), vec![src.into()]);
        let addr = addr.into();
        self.push(Memory::Red { space: Space::Global, see, op: AtomOp::Add, ty: Ty::U32, addr, srcs });
    }
    /// Adds 2 or 4 f32 to neighbours in device memory.
    pub fn red_add_f32_vec(&mut self, addr: impl Into<Addr>, srcs: &[Reg]) {
        let srcs = srcs.iter().map(Operand::from).collect();
        let (see, addr) = (Visibility::Weak, addr.into());
        self.push(Memory::Red { space: Space::Global, see, op: AtomOp::Add, ty: Ty::F32, addr, srcs });
    }
    /// Adds a pair of bfloat16 to device memory.
    pub fn red_add_bf16x2(&mut self, addr: impl Into<Addr>, src: impl Into<Operand>) {
        self.push(Memory::RedBf16x2 { addr: addr.into(), src: src.into() });
    }
    /// The address, in block `rank` of the cluster, of what lies at `addr` in the own block.
    pub fn mapa(&mut self, addr: impl Into<Operand>, rank: impl Into<Operand>) -> Reg {
        let dst = self.reg(Class::B32);
        self.push(Memory::Mapa { dst, addr: addr.into(), rank: rank.into() });
        dst
    }
    /// Loads `n` tiles of 8×8 16-bit numbers; lane `i` gives the address of row `i % 8` of tile `i / 8`.
    pub fn ldmatrix(&mut self, n: usize, trans: bool, addr: impl Into<Addr>) -> Vec<Reg> {
        let dsts = self.regs(Class::B32, n);
        let addr = addr.into();
        self.push(Memory::LdMatrix { trans, dsts: dsts.clone(), addr });
        dsts
    }
    /// Stores tiles of 8×8 16-bit numbers; lanes and addresses as in [`Asm::ldmatrix`].
    pub fn stmatrix(&mut self, trans: bool, addr: impl Into<Addr>, srcs: &[Reg]) {
        let srcs = srcs.iter().map(Operand::from).collect();
        let addr = addr.into();
        self.push(Memory::StMatrix { bytes: false, trans, addr, srcs });
    }
    /// Stores tiles of 16×8 bytes, transposed.
    pub fn stmatrix_b8(&mut self, addr: impl Into<Addr>, srcs: &[Reg]) {
        let srcs = srcs.iter().map(Operand::from).collect();
        let addr = addr.into();
        self.push(Memory::StMatrix { bytes: true, trans: true, addr, srcs });
    }
    /// Copies 4, 8 or 16 bytes from device to shared memory while the thread goes on.
    pub fn cp_async(&mut self, bytes: u8, dst: impl Into<Addr>, src: impl Into<Addr>) {
        let dst = dst.into();
        self.push(Memory::CpAsync { bytes, dst, src: src.into(), valid: None });
    }
    /// The same; bytes from `valid` on become 0 and are not read.
    pub fn cp_async_valid(
        &mut self,
        bytes: u8,
        dst: impl Into<Addr>,
        src: impl Into<Addr>,
        valid: impl Into<Operand>,
    ) {
        let dst = dst.into();
        self.push(Memory::CpAsync { bytes, dst, src: src.into(), valid: Some(valid.into()) });
    }
    /// Closes a group of the thread's copies.
    pub fn cp_async_commit(&mut self) {
        self.push(Memory::CpAsyncCommit);
    }
    /// Waits until at most `n` groups are under way.
    pub fn cp_async_wait(&mut self, n: u8) {
        self.push(Memory::CpAsyncWait(n));
    }
    /// Arrives at `bar` when the thread's copies so far are done.
    pub fn cp_async_arrive(&mut self, bar: impl Into<Addr>) {
        self.push(Memory::CpAsyncArrive(bar.into()));
    }
    /// Fetches a line into the second-level cache.
    pub fn prefetch_l2(&mut self, addr: impl Into<Addr>) {
        self.push(Memory::PrefetchL2(addr.into()));
    }
}
