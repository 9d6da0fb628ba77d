//! Instructions of a whole warp, by method. All 32 lanes take part but inside [`Asm::lanes`].

use super::super::fault::Fault;
use super::super::warp::{Reduce, Shuffle, Vote, Warp};
use super::{Asm, Class, Operand, Reg, Ty};

impl Asm {
    /// The value of another lane. 32 bits, integer or f32: the result has the class of `src`.
    pub fn shfl(&mut self, mode: Shuffle, src: Reg, lane: impl Into<Operand>) -> Reg {
        self.shfl_width(mode, src, lane, 32)
    }
    /// The same within groups of `width` lanes, a power of two.
    pub fn shfl_width(&mut self, mode: Shuffle, src: Reg, lane: impl Into<Operand>, width: u8) -> Reg {
        let dst = self.reg(src.class);
        if !width.is_power_of_two() || width > 32 {
            self.fault(Fault::Entry(format!("a shuffle of {width} lanes")));
        }
        let segment = 32u16.saturating_sub(width.into());
        let clamp = (segment << 8) | if mode == Shuffle::Up { 0 } else { 31 };
        let mask = self.lanes;
        self.push(Warp::Shfl { mode, dst, valid: None, src: src.into(), lane: lane.into(), clamp, mask });
        dst
    }
    /// The value of the lane whose number differs in `bits`.
    pub fn shfl_bfly(&mut self, src: Reg, bits: impl Into<Operand>) -> Reg {
        self.shfl(Shuffle::Bfly, src, bits)
    }
    /// The value of lane `lane`.
    pub fn shfl_idx(&mut self, src: Reg, lane: impl Into<Operand>) -> Reg {
        self.shfl(Shuffle::Idx, src, lane)
    }
    /// The value of the lane `n` further down (up in number), and whether there is one.
    pub fn shfl_down(&mut self, src: Reg, n: impl Into<Operand>) -> (Reg, Reg) {
        self.shfl_valid(Shuffle::Down, src, n)
    }
    /// The value of another lane, and whether there is such a lane; else the own value.
    pub fn shfl_valid(&mut self, mode: Shuffle, src: Reg, lane: impl Into<Operand>) -> (Reg, Reg) {
        let (dst, valid) = (self.reg(src.class), self.reg(Class::Pred));
        let clamp = if mode == Shuffle::Up { 0 } else { 31 };
        let (src, lane) = (src.into(), lane.into());
        let mask = self.lanes;
        self.push(Warp::Shfl { mode, dst, valid: Some(valid), src, lane, clamp, mask });
        (dst, valid)
    }
    /// The lanes in which `p` holds, as a mask.
    pub fn ballot(&mut self, p: Reg) -> Reg {
        let dst = self.reg(Class::B32);
        let mask = self.lanes;
        self.push(Warp::Ballot { dst, p, mask });
        dst
    }
    /// Whether `p` holds in all, any, or equally in every lane.
    pub fn vote(&mut self, vote: Vote, p: Reg) -> Reg {
        let dst = self.reg(Class::Pred);
        let mask = self.lanes;
        self.push(Warp::Vote { vote, dst, p, mask });
        dst
    }
    /// A reduction of 32-bit integers.
    pub fn redux(&mut self, op: Reduce, ty: Ty, src: impl Into<Operand>) -> Reg {
        let dst = self.reg(ty.class());
        let mask = self.lanes;
        self.push(Warp::Redux { op, ty, abs: false, nan: false, dst, src: src.into(), mask });
        dst
    }
    /// The largest f32 of the warp; of magnitudes if `abs`; NaN wins if `nan`.
    pub fn redux_max_f32(&mut self, src: impl Into<Operand>, abs: bool, nan: bool) -> Reg {
        let dst = self.reg(Class::F32);
        let (op, ty) = (Reduce::Max, Ty::F32);
        let mask = self.lanes;
        self.push(Warp::Redux { op, ty, abs, nan, dst, src: src.into(), mask });
        dst
    }
    /// The smallest f32 of the warp.
    pub fn redux_min_f32(&mut self, src: impl Into<Operand>, abs: bool, nan: bool) -> Reg {
        let dst = self.reg(Class::F32);
        let (op, ty) = (Reduce::Min, Ty::F32);
        let mask = self.lanes;
        self.push(Warp::Redux { op, ty, abs, nan, dst, src: src.into(), mask });
        dst
    }
    /// The lanes with the same value; `ty` has 32 or 64 bits.
    pub fn match_any(&mut self, ty: Ty, src: impl Into<Operand>) -> Reg {
        let dst = self.reg(Class::B32);
        let mask = self.lanes;
        self.push(Warp::MatchAny { ty, dst, src: src.into(), mask });
        dst
    }
    /// True in exactly one lane.
    pub fn elect(&mut self) -> Reg {
        let leader = self.reg(Class::Pred);
        self.push(Warp::Elect { lane: None, leader, mask: self.lanes });
        leader
    }
    /// True in exactly one lane, and that lane's number.
    pub fn elect_lane(&mut self) -> (Reg, Reg) {
        let (lane, leader) = (self.reg(Class::B32), self.reg(Class::Pred));
        self.push(Warp::Elect { lane: Some(lane), leader, mask: self.lanes });
        (lane, leader)
    }
    /// Only the lanes in `mask` take part in warp instructions that `body` appends.
    pub fn lanes<T>(&mut self, mask: impl Into<Operand>, body: impl FnOnce(&mut Asm) -> T) -> T {
        let outer = std::mem::replace(&mut self.lanes, mask.into());
        let result = body(self);
        self.lanes = outer;
        result
    }
    /// All lanes meet; writes of each are visible to the others.
    pub fn warp_sync(&mut self) {
        let mask = self.lanes;
        self.push(Warp::Sync { mask });
    }
    /// Lanes that run together now.
    pub fn active_mask(&mut self) -> Reg {
        let dst = self.reg(Class::B32);
        self.push(Warp::ActiveMask { dst });
        dst
    }
}
