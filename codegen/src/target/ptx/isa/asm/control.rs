//! Labels, branches, guards and loops, by method.

use super::super::control::{Control, GridDep};
use super::super::fault::Fault;
use super::super::inst::Item;
use super::super::scalar::Cmp;
use super::{Asm, Class, Label, Operand, Reg, Ty};

impl Asm {
    /// A label to be placed later; `hint` (letters, digits, `_`) becomes part of its name.
    pub fn label(&mut self, hint: &str) -> Label {
        let n = u32::try_from(self.labels.len()).unwrap_or(u32::MAX);
        let clean: String = hint
            .chars()
            .map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' })
            .collect();
        self.labels.push(format!("L{n}_{clean}"));
        Label(n)
    }
    /// Puts a label here.
    pub fn place(&mut self, label: Label) {
        self.items.push(Item::Label(label));
    }
    /// A new label, put here.
    pub fn here(&mut self, hint: &str) -> Label {
        let label = self.label(hint);
        self.place(label);
        label
    }
    /// Goes to `to`.
    pub fn bra(&mut self, to: Label) {
        self.push(Control::Bra { uniform: false, to });
    }
    /// Goes to `to`; all lanes do or none.
    pub fn bra_uni(&mut self, to: Label) {
        self.push(Control::Bra { uniform: true, to });
    }
    /// Goes to `to` if `p` holds.
    pub fn bra_if(&mut self, p: Reg, to: Label) {
        self.guard(p, |a| a.bra(to));
    }
    /// Goes to `to` unless `p` holds.
    pub fn bra_unless(&mut self, p: Reg, to: Label) {
        self.guard_not(p, |a| a.bra(to));
    }
    /// Puts `@p` before every instruction that `body` appends. Guards don't nest, and a guarded instruction writes
    /// nothing where `p` doesn't hold.
    pub fn guard<T>(&mut self, p: Reg, body: impl FnOnce(&mut Asm) -> T) -> T {
        self.guarded((p, true), body)
    }
    /// Puts `@!p` before every instruction that `body` appends.
    pub fn guard_not<T>(&mut self, p: Reg, body: impl FnOnce(&mut Asm) -> T) -> T {
        self.guarded((p, false), body)
    }
    fn guarded<T>(&mut self, guard: (Reg, bool), body: impl FnOnce(&mut Asm) -> T) -> T {
        if self.guard.is_some() {
            self.fault(Fault::NestedGuard);
        }
        let outer = self.guard.replace(guard);
        let result = body(self);
        self.guard = outer;
        result
    }
    /// Runs `body` where `p` holds: a branch around it.
    pub fn if_then<T>(&mut self, p: Reg, body: impl FnOnce(&mut Asm) -> T) -> T {
        let end = self.label("endif");
        self.bra_unless(p, end);
        let result = body(self);
        self.place(end);
        result
    }
    /// Runs `body` where `p` does not hold.
    pub fn if_not<T>(&mut self, p: Reg, body: impl FnOnce(&mut Asm) -> T) -> T {
        let end = self.label("endif");
        self.bra_if(p, end);
        let result = body(self);
        self.place(end);
        result
    }
    /// Runs `yes` where `p` holds, else `no`.
    pub fn if_else(&mut self, p: Reg, yes: impl FnOnce(&mut Asm), no: impl FnOnce(&mut Asm)) {
        let (other, end) = (self.label("else"), self.label("endif"));
        self.bra_unless(p, other);
        yes(self);
        self.bra(end);
        self.place(other);
        no(self);
        self.place(end);
    }
    /// A loop over `from, from + step, …` below `to`, signed 32 bits; tested before each round. `body` gets the index,
    /// which it must not change.
    pub fn for_range(
        &mut self,
        hint: &str,
        from: impl Into<Operand>,
        to: impl Into<Operand>,
        step: impl Into<Operand>,
        body: impl FnOnce(&mut Asm, Reg),
    ) {
        let (to, step) = (to.into(), step.into());
        let i = self.mov(Ty::S32, from);
        let end = self.label(&format!("{hint}_end"));
        let p = self.setp(Cmp::Ge, Ty::S32, i, to);
        self.bra_if(p, end);
        let top = self.here(hint);
        body(self, i);
        self.add_s32_to(i, i, step);
        self.setp_to(p, Cmp::Lt, Ty::S32, i, to);
        self.bra_if(p, top);
        self.place(end);
    }
    /// A loop that ends when `body` gives a truth value that doesn't hold; at least one round.
    pub fn do_while(&mut self, hint: &str, body: impl FnOnce(&mut Asm) -> Reg) {
        let top = self.here(hint);
        let p = body(self);
        self.bra_if(p, top);
    }
    /// Ends the thread's run of the entry.
    pub fn ret(&mut self) {
        self.push(Control::Ret);
    }
    /// Ends the thread.
    pub fn exit(&mut self) {
        self.push(Control::Exit);
    }
    /// Stops the kernel with an error.
    pub fn trap(&mut self) {
        self.push(Control::Trap);
    }
    /// Sleeps for about so many nanoseconds.
    pub fn nanosleep(&mut self, t: impl Into<Operand>) {
        self.push(Control::Nanosleep(t.into()));
    }
    /// Relates to the neighbour kernels in the stream.
    pub fn griddep(&mut self, what: GridDep) {
        self.push(Control::GridDep(what));
    }
    /// Waits until the kernel before is done.
    pub fn griddep_wait(&mut self) {
        self.griddep(GridDep::Wait);
    }
    /// Lets the next kernel start.
    pub fn griddep_launch(&mut self) {
        self.griddep(GridDep::LaunchDependents);
    }
    /// Raises the registers per thread of the warpgroup to `n`.
    pub fn setmaxnreg_inc(&mut self, n: u32) {
        self.maxnreg_set = true;
        self.push(Control::SetMaxNReg { raise: true, registers: n });
    }
    /// Lowers the registers per thread of the warpgroup to `n`.
    pub fn setmaxnreg_dec(&mut self, n: u32) {
        self.maxnreg_set = true;
        self.push(Control::SetMaxNReg { raise: false, registers: n });
    }
    /// A truth value register, not written yet.
    pub fn pred(&mut self) -> Reg {
        self.reg(Class::Pred)
    }
}
