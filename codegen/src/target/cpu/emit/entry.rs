//! The function around a kernel's program: arguments, symbols, and the loop over tiles of the grid.

use super::env::{count_uses, each_op};
use super::ix::Ix;
use super::slot::Slots;
use super::{Emitter, FIXED, FLAGS, View, too_large};
use crate::error::Unsupported;
use crate::target::cpu::scratch::{Bytes, Scratch};
use cranelift_codegen::ir::types::{F32, I64};
use cranelift_codegen::ir::{
    AbiParam, Function, InstBuilder, InstructionData, Opcode, Signature, UserFuncName, ValueDef,
};
use cranelift_codegen::isa::TargetIsa;
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext};
use tessera_ir::artifact::Size;
use tessera_ir::tile::{Kernel, Op, Sequence, Type};
use tessera_ir::{Dim, Sym};

/// A kernel as a function, and what the artifact says about it.
pub(in crate::target::cpu) struct Emitted {
    /// The function.
    pub(in crate::target::cpu) func: Function,
    /// Micro-kernels in table order.
    pub(in crate::target::cpu) imports: Vec<String>,
    /// Symbols in argument order.
    pub(in crate::target::cpu) symbols: Vec<Sym>,
    /// Scratch memory.
    pub(in crate::target::cpu) scratch: Size,
}

/// Symbolic dimensions of a kernel in order of appearance: parameters, grid, rings, program.
fn symbolic_dims(kernel: &Kernel, program: &Sequence) -> Vec<Dim> {
    let mut dims: Vec<Dim> = Vec::new();
    let mut see = |d: &Dim| {
        if d.fixed().is_none() && !dims.contains(d) {
            dims.push(d.clone());
        }
    };
    kernel.params.iter().flat_map(|p| &p.ty.shape).for_each(&mut see);
    kernel.grid.iter().for_each(|a| see(&a.extent));
    kernel.rings.iter().for_each(|r| see(&r.slot.cols));
    each_op(&program.body, &mut |node| {
        if let Op::IndexDim { dim } = &node.op {
            see(dim);
        }
        if let Some((_, Type::Tile { cols, .. })) = &node.result {
            see(cols);
        }
    });
    dims
}

/// Emits `kernel`, whose roles are merged into `program`.
///
/// # Errors
/// Every op that cannot be emitted.
pub(in crate::target::cpu) fn emit(
    kernel: &Kernel,
    program: &Sequence,
    isa: &dyn TargetIsa,
) -> Result<Emitted, Vec<Unsupported>> {
    let conv = isa.default_call_conv();
    let mut sig = Signature::new(conv);
    sig.params.extend((0..5).map(|_| AbiParam::new(I64)));
    let mut func = Function::with_name_signature(UserFuncName::default(), sig);
    let mut context = FunctionBuilderContext::new();
    let mut b = FunctionBuilder::new(&mut func, &mut context);
    let entry = b.create_block();
    b.append_block_params_for_function_params(entry);
    b.switch_to_block(entry);
    let [args, begin, end, base, table] = match b.block_params(entry) {
        [a, b, c, d, e] => [*a, *b, *c, *d, *e],
        _ => return Err(vec![fault("entry", "five arguments expected")]),
    };

    let dims = symbolic_dims(kernel, program);
    let mut syms: Vec<Sym> = Vec::new();
    for d in &dims {
        if let Dim::Sym { sym, .. } = d
            && !syms.contains(sym)
        {
            syms.push(sym.clone());
        }
    }
    let mut at = 0i32;
    let mut word = |b: &mut FunctionBuilder<'_>| {
        let v = b.ins().load(I64, FIXED, args, at);
        at += 8;
        v
    };
    let planes: Vec<Vec<_>> =
        kernel.params.iter().map(|p| (0..planes(&p.ty)).map(|_| word(&mut b)).collect()).collect();
    let symbols: Vec<_> = syms.iter().map(|s| (s.clone(), word(&mut b))).collect();
    // The length of the fixed part is known at the end.
    let length = b.ins().iconst(I64, 0);
    let dynamic = b.ins().iadd(base, length);

    let mut uses = Vec::new();
    count_uses(&program.body, &mut uses);
    let mut e = Emitter {
        b,
        kernel,
        program,
        conv,
        base,
        dynamic,
        table,
        symbols,
        dims: Vec::new(),
        views: Vec::new(),
        tile: Vec::new(),
        values: Vec::new(),
        uses,
        depth: 0,
        scratch: Scratch::default(),
        slots: Slots::default(),
        frequencies: Vec::new(),
        calls: Vec::new(),
        faults: Vec::new(),
    };
    e.name_dims(dims);
    for (p, planes) in kernel.params.iter().zip(planes) {
        let shape = p.ty.shape.iter().map(|d| e.dim(d)).collect();
        e.views.push(View { planes, shape });
    }
    e.store_frequencies();
    e.plan_slots();
    e.tiles(begin, end);
    e.b.ins().return_(&[]);
    e.b.seal_all_blocks();

    let fixed = e.scratch.fixed();
    let size = e.scratch.size();
    if size.is_none() || i64::try_from(fixed).is_err() {
        e.faults.push(fault("scratch", too_large().0));
    }
    let dfg = &mut e.b.func.dfg;
    if let ValueDef::Result(inst, _) = dfg.value_def(length) {
        let imm = (fixed as i64).into();
        dfg.insts[inst] = InstructionData::UnaryImm { opcode: Opcode::Iconst, imm };
    }
    e.b.finalize(isa.frontend_config());
    let (calls, faults) = (e.calls, e.faults);
    match size {
        Some(scratch) if faults.is_empty() => Ok(Emitted {
            imports: calls.iter().map(|(c, _)| c.name().to_owned()).collect(),
            symbols: syms,
            scratch,
            func,
        }),
        Some(_) | None => Err(faults),
    }
}

/// Memory planes of a parameter.
fn planes(ty: &tessera_ir::TensorType) -> usize {
    ty.planes()
}

pub(super) fn fault(op: &'static str, what: impl Into<String>) -> Unsupported {
    Unsupported { op, what: what.into() }
}

impl Emitter<'_> {
    /// Emits the values of symbolic dimensions, once for the whole function.
    fn name_dims(&mut self, dims: Vec<Dim>) {
        for d in dims {
            let value = self.dim(&d);
            let value = self.val(value);
            self.dims.push((d, value));
        }
    }

    /// Writes the frequencies of rotary embeddings to scratch memory.
    fn store_frequencies(&mut self) {
        let program = self.program;
        let mut lists: Vec<Vec<f32>> = Vec::new();
        each_op(&program.body, &mut |node| {
            if let Op::Angles { pos: _, rope } = &node.op {
                let list = rope.frequencies();
                if !lists.contains(&list) {
                    lists.push(list);
                }
            }
        });
        for list in lists {
            let Some(region) = self.scratch.take(&Bytes::Fixed(list.len() * 4)) else { continue };
            let ptr = self.region(&region);
            for (i, f) in list.iter().enumerate() {
                let v = self.b.ins().f32const(*f);
                debug_assert_eq!(self.b.func.dfg.value_type(v), F32);
                self.b.ins().store(FLAGS, v, ptr, (i * 4) as i32);
            }
            self.frequencies.push((list, region));
        }
    }

    /// Runs the program once for each tile of `begin .. end`.
    fn tiles(&mut self, begin: cranelift_codegen::ir::Value, end: cranelift_codegen::ir::Value) {
        let kernel = self.kernel;
        // Tiles along each axis, last axis fastest.
        let counts: Vec<Ix> = kernel
            .grid
            .iter()
            .map(|a| {
                let extent = self.dim(&a.extent);
                self.div_ceil_const(extent, i64::try_from(a.tile.max(1)).unwrap_or(i64::MAX))
            })
            .collect();
        let run = self.repeat(begin.into(), end.into(), 1, &mut |e, number| {
            let mut rest = number;
            let mut starts = Vec::new();
            for (axis, (a, count)) in kernel.grid.iter().zip(&counts).enumerate().rev() {
                let place = if axis == 0 {
                    rest
                } else {
                    let (quotient, remainder) = e.div_rem(rest, *count);
                    rest = quotient;
                    remainder
                };
                let start = e.mul(place, Self::size(a.tile));
                starts.push(e.val(start));
            }
            starts.reverse();
            e.tile = starts;
            e.program();
            Ok(())
        });
        if let Err(reason) = run {
            self.faults.push(fault("grid", reason.0));
        }
    }

    /// Quotient and remainder of an `a ≥ 0` and a `b` that is positive wherever this runs.
    fn div_rem(&mut self, a: Ix, b: Ix) -> (Ix, Ix) {
        if b == Ix::Const(1) {
            return (a, Ix::Const(0));
        }
        let (x, y) = (self.val(a), self.val(b));
        let quotient = Ix::from(self.b.ins().udiv(x, y));
        let back = self.mul(quotient, b);
        let remainder = self.sub(a, back);
        (quotient, remainder)
    }
}
