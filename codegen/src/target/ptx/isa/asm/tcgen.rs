//! Tensor memory and matrix instructions, by method. Tensor memory addresses are lane · 65536 + column.

use super::super::tcgen::{CpShape, CtaGroup, Mma, Tcgen, TmemShape};
use super::{Addr, Asm, Class, Operand, Reg};

impl Asm {
    /// Allocates columns, a power of two from 32 to 512; their address is written to shared memory. One warp.
    pub fn tmem_alloc(&mut self, group: CtaGroup, to: impl Into<Addr>, columns: impl Into<Operand>) {
        self.push(Tcgen::Alloc { group, to: to.into(), columns: columns.into() });
    }
    /// Gives columns back. One warp.
    pub fn tmem_dealloc(&mut self, group: CtaGroup, at: Reg, columns: impl Into<Operand>) {
        self.push(Tcgen::Dealloc { group, at, columns: columns.into() });
    }
    /// The block will allocate no more. One warp.
    pub fn tmem_relinquish(&mut self, group: CtaGroup) {
        self.push(Tcgen::Relinquish { group });
    }
    /// A matrix instruction, by one thread.
    pub fn mma(&mut self, mma: Mma) {
        self.push(Tcgen::Mma(mma));
    }
    /// A weight-stationary matrix instruction: M of 32, 64 or 128, N of 64, 128 or 256; by one thread.
    pub fn mma_ws(&mut self, mma: Mma) {
        self.push(Tcgen::MmaWs { mma, buffer: 0, zero_columns: None });
    }
    /// The same with the buffer of B, and columns of B that count as 0.
    pub fn mma_ws_with(&mut self, mma: Mma, buffer: u8, zero_columns: Option<Reg>) {
        self.push(Tcgen::MmaWs { mma, buffer, zero_columns });
    }
    /// Copies from shared memory (descriptor) to tensor memory, by one thread; matrix instructions after it see it.
    pub fn tmem_cp(&mut self, group: CtaGroup, shape: CpShape, to: Reg, desc: Reg) {
        self.push(Tcgen::Cp { group, shape, unpack: false, to, desc });
    }
    /// The same, 4-bit numbers in slots of 16 bytes becoming bytes.
    pub fn tmem_cp_unpack(&mut self, group: CtaGroup, shape: CpShape, to: Reg, desc: Reg) {
        self.push(Tcgen::Cp { group, shape, unpack: true, to, desc });
    }
    /// The thread's matrix instructions and copies so far arrive at `bar` when they are done.
    pub fn mma_commit(&mut self, group: CtaGroup, bar: impl Into<Addr>) {
        self.push(Tcgen::Commit { group, bar: bar.into(), multicast: None });
    }
    /// The same at the barrier of every block in the 16-bit mask.
    pub fn mma_commit_multicast(&mut self, group: CtaGroup, bar: impl Into<Addr>, mask: impl Into<Operand>) {
        self.push(Tcgen::Commit { group, bar: bar.into(), multicast: Some(mask.into()) });
    }
    /// Loads `repeat` columns' worth of tensor memory to new registers of class B32. A whole warp; the registers hold the
    /// values after [`Asm::tmem_wait_ld`].
    pub fn tmem_ld(&mut self, shape: TmemShape, repeat: usize, from: Reg) -> Vec<Reg> {
        let dsts = self.regs(Class::B32, shape.registers().saturating_mul(repeat));
        self.tmem_ld_to(&dsts, shape, from);
        dsts
    }
    /// The same to new registers of class F32.
    pub fn tmem_ld_f32(&mut self, shape: TmemShape, repeat: usize, from: Reg) -> Vec<Reg> {
        let dsts = self.regs(Class::F32, shape.registers().saturating_mul(repeat));
        self.tmem_ld_to(&dsts, shape, from);
        dsts
    }
    /// The same to registers given, of class B32 or F32.
    pub fn tmem_ld_to(&mut self, dsts: &[Reg], shape: TmemShape, from: Reg) {
        self.push(Tcgen::Ld { shape, pack: false, dsts: dsts.to_vec(), from });
    }
    /// Loads two 16-bit columns to each register.
    pub fn tmem_ld_pack(&mut self, shape: TmemShape, repeat: usize, from: Reg) -> Vec<Reg> {
        let dsts = self.regs(Class::B32, shape.registers().saturating_mul(repeat));
        self.push(Tcgen::Ld { shape, pack: true, dsts: dsts.clone(), from });
        dsts
    }
    /// Stores registers to tensor memory. A whole warp; others see it after [`Asm::tmem_wait_st`].
    pub fn tmem_st(&mut self, shape: TmemShape, to: Reg, srcs: &[Reg]) {
        let srcs = srcs.iter().map(Operand::from).collect();
        self.push(Tcgen::St { shape, unpack: false, to, srcs });
    }
    /// Stores each register as two 16-bit columns.
    pub fn tmem_st_unpack(&mut self, shape: TmemShape, to: Reg, srcs: &[Reg]) {
        let srcs = srcs.iter().map(Operand::from).collect();
        self.push(Tcgen::St { shape, unpack: true, to, srcs });
    }
    /// Waits for the thread's loads of tensor memory.
    pub fn tmem_wait_ld(&mut self) {
        self.push(Tcgen::WaitLd);
    }
    /// Waits for the thread's stores to tensor memory.
    pub fn tmem_wait_st(&mut self) {
        self.push(Tcgen::WaitSt);
    }
    /// Before an arrival that lets others touch tensor memory.
    pub fn tmem_fence_before(&mut self) {
        self.push(Tcgen::FenceBefore);
    }
    /// After a wait that lets the thread touch tensor memory.
    pub fn tmem_fence_after(&mut self) {
        self.push(Tcgen::FenceAfter);
    }
    /// Moves rows of tensor memory down by one.
    pub fn tmem_shift(&mut self, group: CtaGroup, at: Reg) {
        self.push(Tcgen::Shift { group, at });
    }
}
