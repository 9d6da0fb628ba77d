//! The builder of an entry's body: registers, labels, guards, and the end product.

mod barrier;
mod control;
mod convert;
mod float;
mod integer;
mod memory;
mod tcgen;
mod tma;
mod warp;

pub use memory::LoadHints;

use super::entry::{Entry, Param, ParamKind, Program};
use super::fault::{Fault, Faults};
use super::inst::{Item, Op};
use super::line::Page;
use super::operand::{Addr, Label, Operand, Reg, Special, Symbol};
use super::scalar::Scalar;
use super::tcgen::CtaGroup;
use super::ty::{Class, Ty};
use std::collections::BTreeMap;
use std::fmt::Write;

/// Builds the body of one entry, one instruction after another.
#[derive(Clone, Debug)]
pub struct Asm {
    entry: Entry,
    params: Vec<Param>,
    items: Vec<Item>,
    /// Registers handed out, by class.
    registers: [u32; Class::ALL.len()],
    labels: Vec<String>,
    guard: Option<(Reg, bool)>,
    /// Lanes that take part in warp instructions.
    lanes: Operand,
    faults: Vec<Fault>,
    maxnreg_set: bool,
}

impl Asm {
    /// An empty body.
    pub fn new(entry: Entry) -> Self {
        Asm {
            entry,
            params: Vec::new(),
            items: Vec::new(),
            registers: [0; Class::ALL.len()],
            labels: Vec::new(),
            guard: None,
            lanes: Operand::Int(0xffff_ffff),
            faults: Vec::new(),
            maxnreg_set: false,
        }
    }
    /// The head, to be changed until the end.
    pub fn entry_mut(&mut self) -> &mut Entry {
        &mut self.entry
    }
    /// Instructions so far.
    pub fn instructions(&self) -> usize {
        self.items.iter().filter(|i| matches!(i, Item::Inst { .. })).count()
    }
    /// Appends an instruction under the guard in force.
    pub(crate) fn push(&mut self, op: impl Into<Op>) {
        self.items.push(Item::Inst { guard: self.guard, op: op.into() });
    }
    /// Reports a fault that [`Asm::finish`] will give.
    pub(crate) fn fault(&mut self, fault: Fault) {
        self.faults.push(fault);
    }

    /// Declares the next parameter.
    pub fn param(&mut self, name: &str, kind: ParamKind) -> Symbol {
        self.params.push(Param { name: name.to_owned(), kind });
        Symbol::Param(u32::try_from(self.params.len() - 1).unwrap_or(u32::MAX))
    }
    /// The parameter's value; for a tensor map its generic address.
    pub fn ld_param(&mut self, param: Symbol) -> Reg {
        let kind = match param {
            Symbol::Param(n) => self.params.get(n as usize).map(|p| p.kind),
            Symbol::Smem => None,
        };
        match kind.and_then(ParamKind::ty) {
            Some(ty) => self.ld(super::memory::Space::Param, ty, param),
            None => {
                // A move gives the address among the parameters; copies by maps take a generic one.
                let (inside, dst) = (self.mov(Ty::B64, param), self.reg(Class::B64));
                self.push(super::memory::Memory::Generic { dst, param: inside.into() });
                dst
            }
        }
    }
    /// The 32-bit address of dynamic shared memory.
    pub fn smem_base(&mut self) -> Reg {
        self.mov(Ty::B32, Symbol::Smem)
    }

    /// A new register, not written yet.
    pub fn reg(&mut self, class: Class) -> Reg {
        let count = &mut self.registers[class as usize];
        let index = *count;
        *count += 1;
        Reg { class, index }
    }
    /// `n` new registers.
    pub fn regs(&mut self, class: Class, n: usize) -> Vec<Reg> {
        (0..n).map(|_| self.reg(class)).collect()
    }
    /// A copy of `src` in a new register of type `ty`.
    pub fn mov(&mut self, ty: Ty, src: impl Into<Operand>) -> Reg {
        let dst = self.reg(ty.class());
        self.push(Scalar::Mov { ty, dst, src: src.into() });
        dst
    }
    /// `dst = src`, by the class of `dst`.
    pub fn mov_to(&mut self, dst: Reg, src: impl Into<Operand>) {
        let ty = match dst.class {
            Class::F32 => Ty::F32,
            Class::F64 => Ty::F64,
            other => Ty::bits_of(other),
        };
        self.push(Scalar::Mov { ty, dst, src: src.into() });
    }
    /// A 32-bit constant or copy.
    pub fn mov_b32(&mut self, src: impl Into<Operand>) -> Reg {
        self.mov(Ty::B32, src)
    }
    /// A 64-bit constant or copy.
    pub fn mov_b64(&mut self, src: impl Into<Operand>) -> Reg {
        self.mov(Ty::B64, src)
    }
    /// An f32 constant or copy.
    pub fn mov_f32(&mut self, src: impl Into<Operand>) -> Reg {
        self.mov(Ty::F32, src)
    }
    /// The value of a special register.
    pub fn special(&mut self, special: Special) -> Reg {
        self.mov(if special.class() == Class::B64 { Ty::U64 } else { Ty::U32 }, special)
    }
    /// The bits of an f32 (f64) in an integer register, or the other way round.
    pub fn bits(&mut self, src: Reg) -> Reg {
        let class = match src.class {
            Class::F32 => Class::B32,
            Class::F64 => Class::B64,
            Class::B32 => Class::F32,
            Class::B64 => Class::F64,
            other => other,
        };
        let dst = self.reg(class);
        self.push(Scalar::Mov { ty: Ty::bits_of(class), dst, src: src.into() });
        dst
    }
    /// `parts`, lowest first, as one register of class `class`.
    pub fn join(&mut self, class: Class, parts: &[Operand]) -> Reg {
        let dst = self.reg(class);
        self.push(Scalar::Join { dst, parts: parts.to_vec() });
        dst
    }
    /// Two 32-bit values (integers or f32) as one 64-bit register.
    pub fn join2(&mut self, lo: impl Into<Operand>, hi: impl Into<Operand>) -> Reg {
        self.join(Class::B64, &[lo.into(), hi.into()])
    }
    /// The two 32-bit halves of `src` in registers of class `class` (B32 or F32), low half first.
    pub fn split2(&mut self, src: Reg, class: Class) -> [Reg; 2] {
        let parts = [self.reg(class), self.reg(class)];
        self.push(Scalar::Split { parts: parts.to_vec(), src });
        parts
    }
    /// The parts of `src` in new registers of class `class`, lowest first.
    pub fn split(&mut self, src: Reg, class: Class, n: usize) -> Vec<Reg> {
        let parts = self.regs(class, n);
        self.push(Scalar::Split { parts: parts.clone(), src });
        parts
    }

    /// A comment on a line of its own; each line of `text` gives one.
    pub fn comment(&mut self, text: &str) {
        text.lines().for_each(|line| self.items.push(Item::Comment(line.trim_end().to_owned())));
    }

    /// The program's text, or everything that makes it illegal.
    pub fn finish(mut self) -> Result<Program, Faults> {
        let heads = self.entry.faults(&self.params).into_iter().map(Fault::Entry);
        let mut faults: Vec<Fault> = heads.chain(std::mem::take(&mut self.faults)).collect();
        if self.maxnreg_set && self.entry.max_registers.is_none() {
            let what = "setmaxnreg without a number of registers at launch";
            faults.push(Fault::Entry(what.to_owned()));
        }
        let mut page = Page {
            text: String::new(),
            faults: Vec::new(),
            uses: Default::default(),
            shared: false,
            group: None,
            version: self.entry.version,
            target: self.entry.target,
            forms: BTreeMap::new(),
            params: &self.params,
            labels: &self.labels,
        };
        let mut instructions = 0;
        for item in &self.items {
            match item {
                Item::Inst { guard, op } => {
                    instructions += 1;
                    op.print(&mut page, *guard);
                }
                Item::Label(Label(n)) => {
                    // Writing into a string cannot fail.
                    let _ = writeln!(page.text, "{}:", self.labels[*n as usize]);
                }
                Item::Comment(text) => {
                    let _ = writeln!(page.text, "    // {text}");
                }
            }
        }
        faults.append(&mut page.faults);
        if page.group == Some(CtaGroup::Two) && !self.entry.cluster.is_multiple_of(2) {
            faults.push(Fault::Entry("pairs need clusters of an even number of blocks".to_owned()));
        }
        faults.extend(page.unwritten().into_iter().map(Fault::Unwritten));
        faults.extend(self.label_faults());
        if !faults.is_empty() {
            return Err(Faults { entry: self.entry.name, faults });
        }
        let (body, forms, shared) = (page.text, page.forms, page.shared);
        let mut text = self.entry.head(&self.params, shared);
        text.push_str("{\n");
        for (class, count) in Class::ALL.iter().zip(self.registers).filter(|(_, count)| *count > 0) {
            let (ty, prefix) = class.names();
            let _ = writeln!(text, "    .reg .{ty} {prefix}<{count}>;");
        }
        text.push('\n');
        text.push_str(&body);
        text.push_str("}\n");
        Ok(Program { entry: self.entry, params: self.params, text, instructions, forms })
    }

    /// Labels that stand nowhere or twice.
    fn label_faults(&self) -> Vec<Fault> {
        let mut placed = vec![0u32; self.labels.len()];
        for item in &self.items {
            if let Item::Label(Label(n)) = item {
                placed[*n as usize] += 1;
            }
        }
        let named = self.labels.iter().zip(placed);
        named
            .filter_map(|(name, count)| match count {
                0 => Some(Fault::Unplaced(name.clone())),
                1 => None,
                _ => Some(Fault::PlacedTwice(name.clone())),
            })
            .collect()
    }
}

/// Makes methods that allocate the destination, and their `_to` forms.
macro_rules! methods {
    (binary: $($(#[$doc:meta])* $name:ident $to:ident $op:ident $ty:ident -> $class:ident;)*) => {
        impl crate::target::ptx::isa::asm::Asm {$(
            $(#[$doc])*
            pub fn $name(
                &mut self,
                a: impl Into<crate::target::ptx::isa::Operand>,
                b: impl Into<crate::target::ptx::isa::Operand>,
            ) -> crate::target::ptx::isa::Reg {
                let dst = self.reg(crate::target::ptx::isa::Class::$class);
                self.$to(dst, a, b);
                dst
            }
            /// The same into `dst`.
            pub fn $to(
                &mut self,
                dst: crate::target::ptx::isa::Reg,
                a: impl Into<crate::target::ptx::isa::Operand>,
                b: impl Into<crate::target::ptx::isa::Operand>,
            ) {
                self.binary(
                    crate::target::ptx::isa::scalar::Bin::$op,
                    crate::target::ptx::isa::Ty::$ty,
                    dst,
                    a.into(),
                    b.into(),
                );
            }
        )*}
    };
    (unary $ftz:literal: $($(#[$doc:meta])* $name:ident $to:ident $op:ident $ty:ident -> $class:ident;)*) => {
        impl crate::target::ptx::isa::asm::Asm {$(
            $(#[$doc])*
            pub fn $name(
                &mut self,
                a: impl Into<crate::target::ptx::isa::Operand>,
            ) -> crate::target::ptx::isa::Reg {
                let dst = self.reg(crate::target::ptx::isa::Class::$class);
                self.$to(dst, a);
                dst
            }
            /// The same into `dst`.
            pub fn $to(
                &mut self,
                dst: crate::target::ptx::isa::Reg,
                a: impl Into<crate::target::ptx::isa::Operand>,
            ) {
                self.push(crate::target::ptx::isa::scalar::Scalar::Un {
                    op: crate::target::ptx::isa::scalar::Un::$op,
                    ftz: $ftz,
                    ty: crate::target::ptx::isa::Ty::$ty,
                    dst,
                    a: a.into(),
                });
            }
        )*}
    };
    (ternary: $($(#[$doc:meta])* $name:ident $to:ident $op:ident $ty:ident -> $class:ident;)*) => {
        impl crate::target::ptx::isa::asm::Asm {$(
            $(#[$doc])*
            pub fn $name(
                &mut self,
                a: impl Into<crate::target::ptx::isa::Operand>,
                b: impl Into<crate::target::ptx::isa::Operand>,
                c: impl Into<crate::target::ptx::isa::Operand>,
            ) -> crate::target::ptx::isa::Reg {
                let dst = self.reg(crate::target::ptx::isa::Class::$class);
                self.$to(dst, a, b, c);
                dst
            }
            /// The same into `dst`.
            pub fn $to(
                &mut self,
                dst: crate::target::ptx::isa::Reg,
                a: impl Into<crate::target::ptx::isa::Operand>,
                b: impl Into<crate::target::ptx::isa::Operand>,
                c: impl Into<crate::target::ptx::isa::Operand>,
            ) {
                self.push(crate::target::ptx::isa::scalar::Scalar::Ter {
                    op: crate::target::ptx::isa::scalar::Ter::$op,
                    ty: crate::target::ptx::isa::Ty::$ty,
                    dst,
                    a: a.into(),
                    b: b.into(),
                    c: c.into(),
                });
            }
        )*}
    };
}
use methods;
