//! Kernels of a model as texts: planned for a machine and numbers of rows, emitted, and listed with their launches.

mod manifest;
mod planned;
mod request;
mod shape;

pub use manifest::{Entry, ExtentReport, GridAxis, Manifest, MapReport, ParamReport, Value, entry};
pub use planned::Planned;
pub use request::{DEFAULT_ROWS, Request, Target};
pub use shape::Shape;

use crate::compile::{self, Build};
use crate::error::{Error, Result};
use crate::parallel::in_parallel;
use tessera_codegen::Scheduled;
use tessera_codegen::target::cpu::Cpu;
use tessera_codegen::target::ptx::{self, Extent, LaunchParam, ParamKind, PtxKernel, content_hash};
use tessera_ir::artifact;
use tessera_ir::{Bindings, Dim, TensorType, Verified, tile};
use tessera_model::rows::Capacity;
use tessera_model::{Config, Topology};

/// Largest number of rows that stands for a decode step with a row of as many sequences; more are rows of one prompt.
pub const DECODE_ROWS: usize = 256;

/// Tokens of a sequence that launches are shown for, unless the shape says otherwise.
pub const CONTEXT: usize = 4096;

/// A generated kernel.
#[derive(Clone, Debug, PartialEq)]
pub struct Generated {
    /// Name of its files: that of the kernel, with the largest number of rows where those differ in their code.
    pub name: String,
    /// Operator family.
    pub family: String,
    /// Graph ops it computes, in order, each once; nothing where it came from a text.
    pub ops: Vec<&'static str>,
    /// Sizes of its operator.
    pub shape: Shape,
    /// Numbers of rows it was chosen for, ascending; any other number gives right results too.
    pub rows: Vec<usize>,
    /// Tile IR.
    pub tile: String,
    /// Text and launch.
    pub code: PtxKernel,
    /// Values of the schedule's knobs.
    pub knobs: Vec<(&'static str, usize)>,
}

/// Everything that a request asks for.
///
/// # Errors
/// The request names what is not there, the model cannot be planned, or kernels have no code on this target: all of them
/// are listed.
pub fn generate(config: &Config, topology: &Topology, request: &Request) -> Result<Vec<Generated>> {
    request.check()?;
    let build = Build { replay: true, draft: true, ..Build::default() };
    let modules = compile::modules(config, topology, build)?;
    let planned = Planned::of(&modules, request.target, &request.rows, &request.set, &request.families)?;
    let chosen: Vec<(&Scheduled, &Vec<usize>)> = planned
        .kernels()
        .filter(|(k, _)| request.families.is_empty() || request.families.contains(&k.family))
        .filter(|(k, _)| request.fits(&Shape::of(&k.fragment)))
        .collect();
    if chosen.is_empty() {
        return Err(request.nothing(planned.kernels().map(|(k, _)| k)));
    }
    let emitted =
        in_parallel(&chosen, request.threads, |(k, _)| emit(request.target, &k.kernel, k.family.name()));
    let (mut made, mut faults) = (Vec::new(), Vec::new());
    for ((scheduled, rows), code) in chosen.into_iter().zip(emitted) {
        match code {
            Ok(code) => made.push(generated(scheduled, rows, code, &planned)),
            Err(error) => faults.push(error),
        }
    }
    refuse(faults)?;
    Ok(made)
}

fn generated(scheduled: &Scheduled, rows: &[usize], code: PtxKernel, planned: &Planned) -> Generated {
    let mut ops: Vec<&'static str> = Vec::new();
    for op in scheduled.fragment.nodes.iter().map(|node| node.op.mnemonic()) {
        if !ops.contains(&op) {
            ops.push(op);
        }
    }
    Generated {
        name: code.name.clone(),
        family: code.family.clone(),
        ops,
        shape: Shape::of(&scheduled.fragment),
        rows: rows.to_vec(),
        tile: tile::print(&scheduled.kernel),
        knobs: planned.knobs(rows.first().copied().unwrap_or(1)),
        code,
    }
}

/// One error of all.
fn refuse(mut faults: Vec<Error>) -> Result<()> {
    match faults.len() {
        0 => Ok(()),
        1 => Err(faults.remove(0)),
        n => {
            let listed: Vec<String> = faults.iter().map(|fault| format!("\n{fault}")).collect();
            Err(Error::Unsupported(format!("{n} kernels have no code on this target:{}", listed.concat())))
        }
    }
}

/// A kernel of a text, for a target.
///
/// # Errors
/// It is written for another machine, or the target has no code for it.
pub fn of_text(kernel: &Verified<tile::Kernel>, target: Target) -> Result<Generated> {
    if kernel.target != target.machine() {
        let other = [Target::Sm100a, Target::Cpu].into_iter().find(|t| t.machine() == kernel.target);
        return Err(Error::Request(format!(
            "kernel @{} is written for another machine than {}; use --target {}",
            kernel.name,
            target.name(),
            other.map_or("cpu", Target::name)
        )));
    }
    let code = emit(target, kernel, "")?;
    Ok(Generated {
        name: kernel.name.clone(),
        family: String::new(),
        ops: Vec::new(),
        shape: Shape::default(),
        rows: Vec::new(),
        tile: tile::print(kernel),
        code,
        knobs: Vec::new(),
    })
}

fn emit(target: Target, kernel: &Verified<tile::Kernel>, family: &str) -> Result<PtxKernel> {
    match target {
        Target::Sm100a => Ok(ptx::emit(kernel, family)?),
        Target::Cpu => {
            let cpu = Cpu::host()?;
            let text = format!("; kernel {}\n{}", kernel.name, cpu.clif(kernel)?);
            Ok(cpu_launch(&cpu.compile(family, kernel)?, text))
        }
    }
}

/// The launch of a CPU kernel in the same terms: tiles instead of blocks, the planes' addresses in one array.
fn cpu_launch(kernel: &artifact::Kernel, text: String) -> PtxKernel {
    let mut params = Vec::new();
    let mut pass = |name: String, kind: ParamKind| {
        params.push(LaunchParam { name, kind, offset: params.len() * 8, size: 8 });
    };
    for param in &kernel.params {
        for plane in 0..planes(&param.ty) {
            let name = format!("{}_{plane}", param.name);
            pass(name, ParamKind::Pointer { param: param.name.clone(), plane });
        }
    }
    for symbol in &kernel.symbols {
        pass(symbol.to_string(), ParamKind::U64(Extent::sym(symbol.as_str())));
    }
    let tiles = kernel
        .grid
        .iter()
        .fold(Extent::Const(1), |n, axis| n.mul(Extent::from(&axis.extent).ceil_div(axis.tile as u64)));
    PtxKernel {
        name: kernel.name.clone(),
        family: kernel.family.clone(),
        hash: content_hash(&text),
        text,
        entry: kernel.name.clone(),
        params,
        tensor_maps: Vec::new(),
        grid: [tiles, Extent::Const(1), Extent::Const(1)],
        block: [1; 3],
        cluster: [1; 3],
        smem: 0,
        tmem_columns: 0,
        pdl: false,
        symbols: kernel.symbols.clone(),
    }
}

/// Memory planes of a tensor; they depend on no symbol.
fn planes(ty: &TensorType) -> usize {
    let mut one = Bindings::new();
    for dim in &ty.shape {
        if let Dim::Sym { sym, .. } = dim {
            one.set(sym.as_str(), 1);
        }
    }
    ty.plane_bytes(&one).map_or(1, |planes| planes.len())
}

/// The symbols of a step of `rows` rows: up to [`DECODE_ROWS`] a row of as many sequences, more the prompt of one. Sequences
/// have up to [`CONTEXT`] tokens.
pub fn bindings(config: &Config, rows: usize) -> Bindings {
    let sequences = if rows <= DECODE_ROWS { rows.max(1) } else { 1 };
    let mut bindings = Bindings::new();
    let stored = rows.div_ceil(sequences).max(1);
    Capacity { slots: sequences, tokens: CONTEXT, rows: stored }.bind(config, &mut bindings);
    bindings.set("T", rows).set("L", sequences).set("K", rows).set("Q", sequences);
    bindings
}
