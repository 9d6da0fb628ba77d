//! From a kernel in program order to one Cranelift function.
//!
//! | file | holds |
//! |---|---|
//! | `entry.rs` | the function around the program: arguments, symbols, loop over tiles of the grid |
//! | `program.rs` | statements and the dispatch of ops |
//! | `env.rs` | what values are, and when waiting tiles are evaluated |
//! | `ix.rs` | index arithmetic and loops |
//! | `tile.rs`, `lane.rs`, `write.rs` | tiles as expressions, their elements, fused loops |
//! | `view.rs`, `slot.rs` | addresses of parameters, slots and scratch memory |
//! | `copy.rs`, `quant.rs`, `matrix.rs`, `arith.rs`, `select.rs` | the ops |

mod arith;
mod copy;
mod entry;
mod env;
mod ix;
mod lane;
mod matrix;
mod program;
mod quant;
mod select;
mod slot;
mod tile;
mod view;
mod write;

pub(super) use entry::{Emitted, emit};

use super::calls::{Arg, Call};
use super::scratch::{Region, Scratch, Spot};

use crate::error::Unsupported;
use cranelift_codegen::ir::types::{F32, I32, I64};
use cranelift_codegen::ir::{AbiParam, InstBuilder, MemFlagsData, SigRef, Signature, Type, Value};
use cranelift_codegen::isa::CallConv;
use cranelift_frontend::FunctionBuilder;
use ix::Ix;
use tessera_ir::tile::{Kernel, Sequence};
use tessera_ir::{Dim, Sym};

/// Why an op cannot be emitted, without the op's name.
#[derive(Debug)]
pub(super) struct Reason(String);

type Result<T> = std::result::Result<T, Reason>;

/// A reason in words.
fn unsupported(what: impl Into<String>) -> Reason {
    Reason(what.into())
}

/// An op of another machine's schedules.
fn foreign() -> Reason {
    unsupported("an op of another machine's schedules")
}

/// Sizes beyond 64 bits.
fn too_large() -> Reason {
    unsupported("a size that overflows 64 bits")
}

/// Memory the runtime vouches for; rows of views have no alignment beyond their elements'.
const FLAGS: MemFlagsData = MemFlagsData::new().with_notrap();

/// Memory that does not change while the kernel runs.
const FIXED: MemFlagsData = FLAGS.with_aligned().with_readonly().with_can_move();

/// A parameter while code is emitted.
struct View {
    /// Addresses of the memory planes.
    planes: Vec<Value>,
    /// Lengths of the dimensions.
    shape: Vec<Ix>,
}

/// Emits one kernel.
struct Emitter<'a> {
    b: FunctionBuilder<'a>,
    kernel: &'a Kernel,
    program: &'a Sequence,
    conv: CallConv,
    /// Address of the scratch memory.
    base: Value,
    /// Address behind the fixed part of the scratch memory.
    dynamic: Value,
    /// Address of the table of micro-kernels.
    table: Value,
    symbols: Vec<(Sym, Value)>,
    /// Symbolic dimensions and their values.
    dims: Vec<(Dim, Value)>,
    views: Vec<View>,
    /// First coordinates of the current tile.
    tile: Vec<Value>,
    values: Vec<Option<env::Entry>>,
    uses: Vec<usize>,
    depth: usize,
    scratch: Scratch,
    slots: slot::Slots,
    /// Frequencies in scratch memory, one list for each rotary embedding.
    frequencies: Vec<(Vec<f32>, Region)>,
    calls: Vec<(Call, SigRef)>,
    faults: Vec<Unsupported>,
}

fn machine_type(arg: Arg) -> Type {
    match arg {
        Arg::Ptr | Arg::Size => I64,
        Arg::U32 => I32,
        Arg::F32 => F32,
    }
}

impl Emitter<'_> {
    /// The value of a symbol.
    fn symbol(&self, sym: &Sym) -> Ix {
        self.symbols.iter().find(|(s, _)| s == sym).map_or(Ix::Const(0), |(_, v)| Ix::from(*v))
    }

    /// The value of a dimension.
    fn dim(&mut self, d: &Dim) -> Ix {
        match d {
            Dim::Fixed(n) => Self::size(*n),
            Dim::Sym { sym, times } => match self.dims.iter().find(|(known, _)| known == d) {
                Some((_, v)) => Ix::from(*v),
                None => {
                    let s = self.symbol(sym);
                    self.mul(s, Self::size(*times))
                }
            },
        }
    }

    /// Calls a micro-kernel.
    fn call(&mut self, call: Call, args: &[Value]) -> Option<Value> {
        let i = match self.calls.iter().position(|(c, _)| *c == call) {
            Some(i) => i,
            None => {
                let mut sig = Signature::new(self.conv);
                sig.params.extend(call.args().iter().map(|a| AbiParam::new(machine_type(*a))));
                sig.returns.extend(call.result().map(|r| AbiParam::new(machine_type(r))));
                let sig = self.b.import_signature(sig);
                self.calls.push((call, sig));
                self.calls.len() - 1
            }
        };
        let callee = self.b.ins().load(I64, FIXED, self.table, (i * 8) as i32);
        let inst = self.b.ins().call_indirect(self.calls[i].1, callee, args);
        self.b.inst_results(inst).first().copied()
    }

    /// Address of a region of scratch memory.
    fn region(&mut self, region: &Region) -> Value {
        self.spot(region.spot)
    }

    /// Address of a place in scratch memory.
    fn spot(&mut self, spot: Spot) -> Value {
        match spot {
            Spot::Fixed(at) => self.offset(self.base, Self::size(at)),
            Spot::Dynamic(i) => {
                let mut at = Ix::Const(0);
                for (sym, per) in self.scratch.before(i) {
                    let sym = self.symbol(&sym);
                    let len = self.mul(sym, Self::size(per));
                    let up = self.add(len, Ix::Const(super::scratch::DYNAMIC_ALIGN - 1));
                    let up = self.val(up);
                    let whole = self.b.ins().band_imm_s(up, -super::scratch::DYNAMIC_ALIGN);
                    at = self.add(at, whole.into());
                }
                self.offset(self.dynamic, at)
            }
        }
    }

    /// `n` rounded down to a multiple of four.
    fn whole_vectors(&mut self, n: Value) -> Ix {
        self.b.ins().band_imm_s(n, -4).into()
    }
}
