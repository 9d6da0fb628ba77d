//! What a selection runs over: elements of a row in memory, maxima of its blocks, or elements of listed blocks; as keys.

use crate::target::ptx::isa::{Asm, Class, Cmp, Logic, Operand, Reg, Space, Ty};
use tessera_ir::Format;

/// The elements of a selection, numbered by ascending position.
#[derive(Clone, Debug)]
pub(crate) struct Elements {
    /// Address of the row's first element.
    pub(crate) row: Reg,
    /// f32 or bf16.
    pub(crate) format: Format,
    /// Elements of the row that take part, 32 bits.
    pub(crate) len: Reg,
    /// What an element of the selection is.
    pub(crate) kind: Kind,
}

/// What an element of the selection is.
#[derive(Clone, Debug)]
pub(crate) enum Kind {
    /// Element i of the row.
    Plain,
    /// The maximum of block i.
    Maxima {
        /// Elements of a block.
        block: u32,
        /// Number of blocks.
        blocks: Reg,
        /// The block that is always chosen; no block has the number 0xffffffff.
        newest: Reg,
    },
    /// Element i mod `block` of block `list[i / block]`.
    Listed {
        /// Elements of a block.
        block: u32,
        /// Address of the list, i32, ascending, −1 padded.
        list: Reg,
        /// Its length.
        keep: u32,
    },
}

/// One element as a selection sees it.
pub(super) struct Element {
    /// Its key; 0 is never chosen.
    pub(super) key: Reg,
    /// What the result says if it is chosen.
    pub(super) position: Reg,
}

impl Elements {
    /// Number of elements.
    pub(super) fn count(&self) -> Operand {
        match &self.kind {
            Kind::Plain => self.len.into(),
            Kind::Maxima { blocks, .. } => (*blocks).into(),
            Kind::Listed { block, keep, .. } => (block * keep).into(),
        }
    }
    /// The largest number of elements, where it is known.
    pub(super) fn at_most(&self) -> Option<u32> {
        match &self.kind {
            Kind::Plain | Kind::Maxima { .. } => None,
            Kind::Listed { block, keep, .. } => Some(block * keep),
        }
    }
    /// Elements that a thread takes at a time.
    pub(super) fn unroll(&self) -> u32 {
        match &self.kind {
            Kind::Plain => 8,
            Kind::Maxima { .. } => 2,
            Kind::Listed { .. } => 4,
        }
    }
    fn bytes(&self) -> u32 {
        if self.format == Format::F32 { 4 } else { 2 }
    }
    /// Loads where `there` holds; −∞ elsewhere.
    fn load(&self, a: &mut Asm, at: Reg, offset: u32, there: Reg) -> Reg {
        let x = a.mov_f32(f32::NEG_INFINITY);
        if self.format == Format::F32 {
            a.guard(there, |a| a.ld_to(&[x], Space::Global, Ty::F32, at.at(offset.into())));
            return x;
        }
        let half = a.reg(Class::B16);
        a.guard(there, |a| {
            a.ld_to(&[half], Space::Global, Ty::B16, at.at(offset.into()));
            let wide = a.u32_u16(half);
            let bits = a.shl_b32(wide, 16u32);
            a.mov_to(x, bits);
        });
        x
    }
    /// Elements `first`, `first + step`, …, [`Elements::unroll`] of them; those that don't exist have the key 0.
    pub(super) fn take(&self, a: &mut Asm, first: Reg, step: u32) -> Vec<Element> {
        let count = self.count();
        // Loads first, so that they are under way together.
        let mut loaded = Vec::new();
        match &self.kind {
            Kind::Plain => {
                let base = a.element(self.row, first, self.bytes());
                for j in 0..self.unroll() {
                    let position = if j == 0 { first } else { a.add_u32(first, j * step) };
                    let there = a.setp(Cmp::Lt, Ty::U32, position, count);
                    loaded.push((self.load(a, base, j * step * self.bytes(), there), position));
                }
            }
            Kind::Maxima { block, .. } => {
                for j in 0..self.unroll() {
                    let number = if j == 0 { first } else { a.add_u32(first, j * step) };
                    let begin = a.mul_u32(number, *block);
                    let base = a.element(self.row, begin, self.bytes());
                    // A block beyond the last lies beyond the row, too.
                    let parts: Vec<Reg> = (0..*block)
                        .map(|e| {
                            let at = if e == 0 { begin } else { a.add_u32(begin, e) };
                            let there = a.setp(Cmp::Lt, Ty::U32, at, self.len);
                            self.load(a, base, e * self.bytes(), there)
                        })
                        .collect();
                    let max = parts.into_iter().reduce(|x, y| a.max_f32(x, y));
                    loaded.extend(max.map(|x| (x, number)));
                }
            }
            Kind::Listed { block, list, .. } => {
                for j in 0..self.unroll() {
                    let number = if j == 0 { first } else { a.add_u32(first, j * step) };
                    let there = a.setp(Cmp::Lt, Ty::U32, number, count);
                    let (entry, inside) = (a.fold_div(number, *block), a.fold_rem(number, *block));
                    let at = a.element(*list, entry, 4);
                    let id = a.mov_b32(u32::MAX);
                    a.guard(there, |a| a.ld_to(&[id], Space::Global, Ty::B32, at));
                    let listed = a.setp(Cmp::Ge, Ty::S32, id, 0);
                    let begin = a.fold_mul(id, *block);
                    let position = a.fold_add(begin, inside);
                    let position = a.in_reg(Ty::B32, position);
                    let both = a.setp_with(
                        Cmp::Lt,
                        Ty::U32,
                        [position.into(), self.len.into()],
                        Logic::And,
                        (listed, true),
                    );
                    let base = a.element(self.row, position, self.bytes());
                    loaded.push((self.load(a, base, 0, both), position));
                }
            }
        }
        let forced = match &self.kind {
            Kind::Maxima { newest, .. } => Some(*newest),
            Kind::Plain | Kind::Listed { .. } => None,
        };
        loaded
            .into_iter()
            .map(|(x, position)| {
                let mut k = key(a, x);
                if let Some(newest) = forced {
                    let always = a.setp(Cmp::Eq, Ty::U32, position, newest);
                    k = a.selp(Ty::U32, u32::MAX, k, always);
                }
                Element { key: k, position }
            })
            .collect()
    }
}

/// The key of an f32: in the order of the values, −0 as +0; 0 for −∞ and NaN.
fn key(a: &mut Asm, x: Reg) -> Reg {
    // −0 + 0 is +0; nothing else changes.
    let canonical = a.add_f32(x, 0.0f32);
    let bits = a.bits(canonical);
    let sign = a.shr_s32(bits, 31u32);
    let flip = a.or_b32(sign, 0x8000_0000u32);
    let ordered = a.xor_b32(bits, flip);
    let chosen = a.setp(Cmp::Gt, Ty::F32, x, f32::NEG_INFINITY);
    a.selp(Ty::U32, ordered, 0u32, chosen)
}
