//! One instruction on its way to text: printing and checking of operands in the same pass.

use super::fault::Fault;
use super::operand::{Addr, Base, Label, Operand, Reg, Symbol};
use super::target::{Feature, PtxVersion, Target};
use super::tcgen::CtaGroup;
use super::ty::{Class, Ty};
use std::collections::BTreeMap;
use std::fmt::{self, Write};

/// Which registers of a class are written and read, by index.
#[derive(Clone, Debug, Default)]
pub(crate) struct Uses {
    written: Vec<bool>,
    read: Vec<bool>,
}

/// State of the printer over the whole program.
pub(crate) struct Page<'a> {
    pub(crate) text: String,
    pub(crate) faults: Vec<Fault>,
    pub(crate) uses: [Uses; Class::ALL.len()],
    /// Whether shared memory is named.
    pub(crate) shared: bool,
    /// Blocks that work together on matrix instructions.
    pub(crate) group: Option<CtaGroup>,
    pub(crate) version: PtxVersion,
    pub(crate) target: Target,
    /// What each form of instruction so far needs, by mnemonic and variant.
    pub(crate) forms: BTreeMap<String, (PtxVersion, Feature)>,
    pub(crate) params: &'a [super::entry::Param],
    pub(crate) labels: &'a [String],
}

impl Page<'_> {
    /// Registers that are read but not written.
    pub(crate) fn unwritten(&self) -> Vec<Reg> {
        let mut found = Vec::new();
        for (class, uses) in Class::ALL.iter().zip(&self.uses) {
            for (index, _) in uses.read.iter().enumerate().filter(|(_, read)| **read) {
                if !uses.written.get(index).copied().unwrap_or_default() {
                    found.push(Reg { class: *class, index: u32::try_from(index).unwrap_or(u32::MAX) });
                }
            }
        }
        found
    }
    fn mark(&mut self, reg: Reg, write: bool) {
        let uses = &mut self.uses[reg.class as usize];
        let flags = if write { &mut uses.written } else { &mut uses.read };
        let index = reg.index as usize;
        if flags.len() <= index {
            flags.resize(index + 1, false);
        }
        flags[index] = true;
    }
}

/// Which address registers an address space takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Window {
    /// Shared memory: 32 bits.
    Shared,
    /// Global memory or generic: 64 bits.
    Wide,
    /// Parameters: a symbol.
    Param,
    /// Tensor memory: 32 bits, no offset.
    Tensor,
}

/// The line of one instruction.
pub(crate) struct Line<'a, 'p> {
    page: &'a mut Page<'p>,
    start: usize,
    /// Where the mnemonic begins and ends.
    mnemonic: (usize, usize),
    operands: u32,
    /// What the mnemonic doesn't tell apart: a special register, an operand that may be absent.
    variant: Option<&'static str>,
    needs: (PtxVersion, Feature),
    faults: Vec<Fault>,
}

impl<'a, 'p> Line<'a, 'p> {
    pub(crate) fn new(page: &'a mut Page<'p>, guard: Option<(Reg, bool)>) -> Self {
        page.text.push_str("    ");
        let start = page.text.len();
        let (mnemonic, needs) = ((start, start), (PtxVersion(7, 0), Feature::Sm80));
        let mut line = Line { page, start, mnemonic, operands: 0, variant: None, needs, faults: Vec::new() };
        if let Some((p, wanted)) = guard {
            line.write(format_args!("@{}{p} ", if wanted { "" } else { "!" }));
            line.read(p, Ty::Pred);
            line.mnemonic.0 = line.page.text.len();
        }
        line
    }
    /// Ends the line; its faults now get the text they happened in.
    pub(crate) fn end(mut self) {
        let at = self.page.text[self.start..].to_owned();
        for mut fault in std::mem::take(&mut self.faults) {
            match &mut fault {
                Fault::Class { at: text, .. }
                | Fault::Operand { at: text, .. }
                | Fault::Form { at: text, .. }
                | Fault::NotOnTarget { at: text, .. } => text.clone_from(&at),
                Fault::Unwritten(_)
                | Fault::Unplaced(_)
                | Fault::PlacedTwice(_)
                | Fault::Entry(_)
                | Fault::NestedGuard => {}
            }
            self.page.faults.push(fault);
        }
        if self.operands == 0 {
            self.mnemonic.1 = self.page.text.len();
        }
        let mnemonic = &self.page.text[self.mnemonic.0..self.mnemonic.1];
        if let Some(variant) = self.variant {
            self.page.forms.insert(format!("{mnemonic} {variant}"), self.needs);
        } else if !self.page.forms.contains_key(mnemonic) {
            self.page.forms.insert(mnemonic.to_owned(), self.needs);
        }
        self.page.text.push_str(";\n");
    }
    fn write(&mut self, args: fmt::Arguments<'_>) {
        // Writing into a string cannot fail.
        let _ = self.page.text.write_fmt(args);
    }
    fn separate(&mut self) {
        if self.operands == 0 {
            self.mnemonic.1 = self.page.text.len();
        }
        self.page.text.push_str(if self.operands == 0 { " " } else { ", " });
        self.operands += 1;
    }
    /// Appends to the mnemonic.
    pub(crate) fn name(&mut self, part: &str) -> &mut Self {
        self.page.text.push_str(part);
        self
    }
    /// Appends a dot and a type to the mnemonic.
    pub(crate) fn ty(&mut self, ty: Ty) -> &mut Self {
        self.name(".").name(ty.name())
    }
    /// Marks a form that needs other things than others of its mnemonic.
    pub(crate) fn variant(&mut self, name: &'static str) -> &mut Self {
        self.variant = Some(name);
        self
    }
    /// What the instruction needs.
    pub(crate) fn needs(&mut self, major: u8, minor: u8, feature: Feature) -> &mut Self {
        let version = PtxVersion(major, minor);
        self.needs = (self.needs.0.max(version), self.needs.1.max(feature));
        if self.page.version < version || !self.page.target.has(feature) {
            let target = (self.page.version, self.page.target);
            self.faults.push(Fault::NotOnTarget { at: String::new(), needs: (version, feature), target });
        }
        self
    }
    /// The machine.
    pub(crate) fn target(&self) -> Target {
        self.page.target
    }
    /// Appends the group of a tensor memory instruction; all of a program have the same.
    pub(crate) fn group(&mut self, group: CtaGroup, name: &str) -> &mut Self {
        let first = *self.page.group.get_or_insert(group);
        self.name(name).rule(first == group, "a kernel uses one cta_group throughout")
    }
    /// A rule of the form; `why` says what is broken unless `holds`.
    pub(crate) fn rule(&mut self, holds: bool, why: &'static str) -> &mut Self {
        if !holds {
            self.faults.push(Fault::Form { at: String::new(), why });
        }
        self
    }
    fn class(&mut self, reg: Reg, ty: Ty) {
        if !ty.takes(reg.class) {
            self.faults.push(Fault::Class { at: String::new(), reg: reg.to_string(), wants: ty.name() });
        }
    }
    fn read(&mut self, reg: Reg, ty: Ty) {
        self.class(reg, ty);
        self.page.mark(reg, false);
    }
    fn bad(&mut self, why: &'static str) {
        self.faults.push(Fault::Operand { at: String::new(), why });
    }
    /// A destination.
    pub(crate) fn dst(&mut self, reg: Reg, ty: Ty) -> &mut Self {
        self.separate();
        self.class(reg, ty);
        self.page.mark(reg, true);
        self.write(format_args!("{reg}"));
        self
    }
    /// A destination register, or `_`.
    pub(crate) fn dst_or_sink(&mut self, reg: Option<Reg>, ty: Ty) -> &mut Self {
        match reg {
            Some(reg) => self.dst(reg, ty),
            None => self.literal("_"),
        }
    }
    /// Destination `value|pred`; without a value `_|pred`.
    pub(crate) fn dst_and_pred(&mut self, value: Option<Reg>, ty: Ty, pred: Option<Reg>) -> &mut Self {
        self.dst_or_sink(value, ty);
        if let Some(pred) = pred {
            self.class(pred, Ty::Pred);
            self.page.mark(pred, true);
            self.write(format_args!("|{pred}"));
        }
        self
    }
    /// A source that may be an immediate.
    pub(crate) fn src(&mut self, operand: Operand, ty: Ty) -> &mut Self {
        self.separate();
        self.value(operand, ty);
        self
    }
    fn value(&mut self, operand: Operand, ty: Ty) {
        match operand {
            Operand::Reg(reg) => {
                self.read(reg, ty);
                self.write(format_args!("{reg}"));
            }
            Operand::Int(v) => self.int(v, ty),
            Operand::F32(bits) => {
                if ty == Ty::F32 || ty == Ty::B32 {
                    self.write(format_args!("0f{bits:08X}"));
                } else {
                    self.write(format_args!("0f{bits:08X}"));
                    self.bad("an f32 where none can be");
                }
            }
            Operand::F64(bits) => {
                let narrow = f64::from_bits(bits) as f32;
                if ty == Ty::F64 || ty == Ty::B64 {
                    self.write(format_args!("0d{bits:016X}"));
                } else {
                    self.write(format_args!("0f{:08X}", narrow.to_bits()));
                    if ty != Ty::F32 {
                        self.bad("an f64 where none can be");
                    } else if f64::from(narrow).to_bits() != bits {
                        self.bad("the constant is not an f32");
                    }
                }
            }
            Operand::Special(special) => {
                self.write(format_args!("{}", special.name()));
                self.variant(special.name());
                let (PtxVersion(major, minor), feature) = special.needs();
                self.needs(major, minor, feature);
                if !ty.takes(special.class()) {
                    self.bad("a special register of another width");
                }
            }
            Operand::Symbol(symbol) => {
                self.symbol(symbol);
                if !matches!(ty, Ty::B32 | Ty::U32 | Ty::B64 | Ty::U64) {
                    self.bad("an address where none can be");
                }
            }
        }
    }
    fn int(&mut self, v: i64, ty: Ty) {
        let bits = ty.bits();
        let fits = match bits {
            64 | 128 => true,
            1 => v == 0 || v == 1,
            n => v >= -(1 << (n - 1)) && v < 1 << n,
        };
        if !fits {
            self.bad("the constant does not fit the type");
        }
        if ty.is_float() && !matches!(ty, Ty::F16x2 | Ty::Bf16x2 | Ty::F16 | Ty::Bf16 | Ty::F32x2 | Ty::Tf32)
        {
            self.bad("an integer where a float is wanted");
        }
        let pattern = if bits >= 64 { v.cast_unsigned() } else { v.cast_unsigned() & ((1 << bits) - 1) };
        let plain = ty.is_signed() || (ty.is_int() && v >= 0) || (0..=255).contains(&v);
        if plain {
            self.write(format_args!("{v}"));
        } else {
            self.write(format_args!("{pattern:#x}"));
        }
    }
    fn symbol(&mut self, symbol: Symbol) {
        match symbol {
            Symbol::Smem => {
                self.page.shared = true;
                self.name("smem")
            }
            Symbol::Param(n) => match self.page.params.get(n as usize) {
                Some(param) => {
                    let name = &param.name;
                    self.page.text.push_str(name);
                    self
                }
                None => {
                    self.bad("a parameter of another entry");
                    self
                }
            },
        };
    }
    /// A register only.
    pub(crate) fn reg(&mut self, reg: Reg, ty: Ty) -> &mut Self {
        self.src(Operand::Reg(reg), ty)
    }
    /// A truth value, plain or negated.
    pub(crate) fn pred(&mut self, reg: Reg, wanted: bool) -> &mut Self {
        self.separate();
        self.read(reg, Ty::Pred);
        self.write(format_args!("{}{reg}", if wanted { "" } else { "!" }));
        self
    }
    /// A plain number, not typed: thread counts, shapes, sizes.
    pub(crate) fn number(&mut self, v: u64) -> &mut Self {
        self.separate();
        self.write(format_args!("{v}"));
        self
    }
    /// A mask or table in hexadecimal.
    pub(crate) fn hex(&mut self, v: u64) -> &mut Self {
        self.separate();
        self.write(format_args!("{v:#x}"));
        self
    }
    /// Fixed text.
    pub(crate) fn literal(&mut self, text: &str) -> &mut Self {
        self.separate();
        self.name(text)
    }
    /// Destinations in braces.
    pub(crate) fn dsts(&mut self, regs: &[Reg], ty: Ty) -> &mut Self {
        self.separate();
        self.name("{");
        for (i, reg) in regs.iter().enumerate() {
            self.class(*reg, ty);
            self.page.mark(*reg, true);
            self.write(format_args!("{}{reg}", if i == 0 { "" } else { ", " }));
        }
        self.name("}")
    }
    /// Destinations in braces, then `_` for a value that nobody wants.
    pub(crate) fn dsts_and_sink(&mut self, regs: &[Reg], ty: Ty) -> &mut Self {
        self.dsts(regs, ty);
        self.page.text.pop();
        self.name(", _}")
    }
    /// Sources in braces.
    pub(crate) fn srcs(&mut self, operands: &[Operand], ty: Ty) -> &mut Self {
        self.separate();
        self.list(operands, ty)
    }
    fn list(&mut self, operands: &[Operand], ty: Ty) -> &mut Self {
        self.name("{");
        for (i, operand) in operands.iter().enumerate() {
            self.name(if i == 0 { "" } else { ", " });
            self.value(*operand, ty);
        }
        self.name("}")
    }
    /// An address in brackets.
    pub(crate) fn addr(&mut self, addr: Addr, window: Window) -> &mut Self {
        self.separate();
        match addr.base {
            Base::Reg(reg) => {
                let ty = match window {
                    Window::Shared | Window::Tensor => Ty::U32,
                    Window::Wide => Ty::U64,
                    Window::Param => Ty::U64,
                };
                self.read(reg, ty);
                self.write(format_args!("[{reg}"));
                if window == Window::Param {
                    self.bad("parameters are addressed by name");
                }
            }
            Base::Symbol(symbol) => {
                self.name("[");
                self.symbol(symbol);
                let fits = match symbol {
                    Symbol::Smem => window == Window::Shared,
                    Symbol::Param(_) => window == Window::Param,
                };
                if !fits {
                    self.bad("a name of another address space");
                }
            }
        }
        if window == Window::Tensor && addr.offset != 0 {
            self.bad("addresses of tensor memory take no offset");
        }
        if i32::try_from(addr.offset).is_err() {
            self.bad("the offset does not fit 32 bits");
        }
        if addr.offset != 0 {
            self.write(format_args!("+{}", addr.offset));
        }
        self.name("]")
    }
    /// `[map, {coordinates}]`; `map` is a generic address.
    pub(crate) fn tensor(&mut self, map: Reg, coordinates: &[Operand]) -> &mut Self {
        self.separate();
        self.read(map, Ty::U64);
        self.write(format_args!("[{map}, "));
        self.list(coordinates, Ty::S32).name("]")
    }
    /// The target of a branch.
    pub(crate) fn label(&mut self, label: Label) -> &mut Self {
        self.separate();
        let name = self.page.labels.get(label.0 as usize).map_or("", String::as_str);
        self.page.text.push_str(name);
        self
    }
}
