//! An artifact bound to memory: every pointer fixed at creation, so that a run patches sizes and launches, no more.

use crate::code::{Code, Entry};
use crate::error::{Error, Result};
use crate::memory::Memory;
use crate::weights::Weights;
use crate::workers::{Job, Workers};
use std::collections::BTreeMap;
use std::sync::Arc;
use tessera_ir::artifact::{Artifact, BufferKind, MemoryPlan, PlanFault, Program};
use tessera_ir::{Bindings, Dim, Elem, Layout, Sym, TensorType};

/// Symbols, their largest values and their values in the current run.
#[derive(Debug)]
struct Symbols {
    names: Vec<Sym>,
    limits: Vec<usize>,
    now: Vec<usize>,
}

impl Symbols {
    fn id(&self, sym: &Sym) -> Option<usize> {
        self.names.iter().position(|s| s == sym)
    }
}

/// A grid axis with its symbol resolved.
#[derive(Clone, Copy, Debug)]
struct Extent {
    symbol: Option<usize>,
    times: usize,
    tile: usize,
}

#[derive(Debug)]
struct Launch {
    entry: Entry,
    kernel: usize,
    args: Vec<u64>,
    /// Places in `args` that hold the value of a symbol.
    patches: Vec<(usize, usize)>,
    grid: Vec<Extent>,
    /// Bytes that a run touches: a constant part and a part for each unit of a symbol.
    fixed_bytes: usize,
    unit_bytes: Vec<(usize, usize)>,
}

/// A launch that touches fewer bytes, some 20 µs of work, runs on the calling thread: where another one has to be woken, or
/// other programs run, handing over takes as long.
const ALONE: usize = 256 << 10;

#[derive(Debug)]
struct Port {
    name: String,
    at: *mut u8,
    ty: TensorType,
}

#[derive(Debug)]
struct Bound {
    name: String,
    launches: Vec<Launch>,
    inputs: Vec<Port>,
    outputs: Vec<Port>,
    _arena: Memory,
}

/// The shared, unchanging parts of a model: code and weights.
#[derive(Debug)]
pub struct Loaded {
    /// Kernels and programs.
    pub artifact: Artifact,
    /// Executable kernels.
    pub code: Code,
    /// Weights in kernel layouts.
    pub weights: Weights,
}

/// Memory of one execution context: arenas, states, workers.
#[derive(Debug)]
pub struct Instance {
    symbols: Symbols,
    programs: Vec<Bound>,
    states: BTreeMap<String, Memory>,
    state_bytes: usize,
    arena_bytes: usize,
    workers: Workers,
    loaded: Arc<Loaded>,
}

// SAFETY: the raw pointers lead into memory that the instance owns or keeps alive through `loaded`; kernels run only
// inside `&mut self` methods.
unsafe impl Send for Instance {}

impl Instance {
    /// Binds every program of the artifact. `limits` gives each symbol its largest value (for shapes of states: its
    /// value).
    pub fn new(loaded: Arc<Loaded>, limits: &Bindings, threads: usize) -> Result<Self> {
        let artifact = &loaded.artifact;
        let mut symbols = Symbols { names: Vec::new(), limits: Vec::new(), now: Vec::new() };
        let mut scratch = 64;
        for k in &artifact.kernels {
            let axes = k.grid.iter().filter_map(|a| match &a.extent {
                Dim::Fixed(_) => None,
                Dim::Sym { sym, .. } => Some(sym),
            });
            for s in k.symbols.iter().chain(axes).chain(k.scratch.per.iter().map(|(s, _)| s)) {
                if symbols.id(s).is_none() {
                    let limit = limits
                        .get(s)
                        .ok_or_else(|| Error::Missing { what: "symbol", name: s.to_string() })?;
                    symbols.names.push(s.clone());
                    symbols.limits.push(limit);
                    symbols.now.push(limit);
                }
            }
            let bytes =
                k.scratch.eval(limits).ok_or_else(|| too_large(format!("scratch of kernel `{}`", k.name)))?;
            scratch = scratch.max(bytes);
        }
        let mut instance = Instance {
            symbols,
            programs: Vec::new(),
            states: BTreeMap::new(),
            state_bytes: 0,
            arena_bytes: 0,
            workers: Workers::new(threads, scratch)?,
            loaded: loaded.clone(),
        };
        for program in &artifact.programs {
            let bound = instance.bind(program, limits)?;
            instance.programs.push(bound);
        }
        Ok(instance)
    }

    fn bind(&mut self, program: &Program, limits: &Bindings) -> Result<Bound> {
        let plan = MemoryPlan::new(program, limits).map_err(|PlanFault::Size(name)| {
            too_large(format!("buffer `{name}` of program `{}`", program.name))
        })?;
        let arena = Memory::zeroed(plan.bytes, "activations")?;
        self.arena_bytes += plan.bytes;
        let mut planes: Vec<Vec<*mut u8>> = Vec::with_capacity(program.buffers.len());
        for (i, b) in program.buffers.iter().enumerate() {
            planes.push(match b.kind {
                BufferKind::Input | BufferKind::Output | BufferKind::Temp { .. } => {
                    plan.planes[i].iter().map(|o| arena.as_ptr().wrapping_add(*o)).collect()
                }
                BufferKind::Weight => {
                    let found = self.loaded.weights.planes(b);
                    let found =
                        found.ok_or_else(|| Error::Missing { what: "weight", name: b.name.clone() })?;
                    found.iter().map(|p| p.cast_mut()).collect()
                }
                BufferKind::State => {
                    let bytes = b.ty.plane_bytes(limits).and_then(|p| p.first().copied());
                    let bytes = bytes.ok_or_else(|| too_large(format!("state `{}`", b.name)))?;
                    if !self.states.contains_key(&b.name) {
                        self.states.insert(b.name.clone(), Memory::zeroed(bytes, &b.name)?);
                        self.state_bytes += bytes;
                    }
                    vec![self.states[&b.name].as_ptr()]
                }
            });
        }
        let mut launches = Vec::with_capacity(program.steps.len());
        for step in &program.steps {
            let kernel = &self.loaded.artifact.kernels[step.kernel];
            let mut args: Vec<u64> = step.args.iter().flat_map(|b| &planes[*b]).map(|p| *p as u64).collect();
            let mut patches = Vec::with_capacity(kernel.symbols.len());
            for s in &kernel.symbols {
                // Every symbol of a kernel was registered in `new`.
                if let Some(id) = self.symbols.id(s) {
                    patches.push((args.len(), id));
                    args.push(0);
                }
            }
            let grid = kernel.grid.iter().map(|a| match &a.extent {
                Dim::Fixed(n) => Extent { symbol: None, times: *n, tile: a.tile },
                Dim::Sym { sym, times } => {
                    Extent { symbol: self.symbols.id(sym), times: *times, tile: a.tile }
                }
            });
            let grid = grid.collect();
            let (fixed_bytes, unit_bytes) = self.traffic(program, &step.args);
            launches.push(Launch {
                fixed_bytes,
                unit_bytes,
                entry: self.loaded.code.entry(step.kernel),
                kernel: step.kernel,
                args,
                patches,
                grid,
            });
        }
        let ports = |want: &BufferKind| -> Vec<Port> {
            let of = program.buffers.iter().zip(&planes).filter(|(b, _)| b.kind == *want);
            of.map(|(b, p)| Port { name: b.name.clone(), at: p[0], ty: b.ty.clone() }).collect()
        };
        let (inputs, outputs) = (ports(&BufferKind::Input), ports(&BufferKind::Output));
        Ok(Bound { name: program.name.clone(), launches, inputs, outputs, _arena: arena })
    }

    /// Bytes of weights, and bytes of each other buffer for a unit of its leading symbol. States are left out: a launch
    /// reads a small part of them. Of stacked weights a choice of an expert reads one matrix; choices are counted by the
    /// launch's lists of them, which have a multiple of the rows.
    fn traffic(&self, program: &Program, args: &[usize]) -> (usize, Vec<(usize, usize)>) {
        let (mut fixed, mut units) = (0usize, Vec::new());
        let choices = args.iter().find_map(|i| match program.buffers[*i].ty.shape.as_slice() {
            [Dim::Sym { sym, times }] if *times > 1 => Some((self.symbols.id(sym)?, *times)),
            _ => None,
        });
        for b in args.iter().map(|i| &program.buffers[*i]) {
            match (b.ty.shape.first(), &b.kind) {
                (_, BufferKind::State) | (None, _) => {}
                (Some(Dim::Fixed(_)), _) if b.ty.layout == Layout::Rows => {}
                (Some(Dim::Fixed(first)), _) => {
                    let planes = b.ty.plane_bytes(&Bindings::new()).unwrap_or_default();
                    let bytes = planes.iter().fold(0usize, |n, p| n.saturating_add(*p));
                    match choices {
                        Some((id, times)) if b.ty.shape.len() == 3 => {
                            units.push((id, bytes / (*first).max(1) * times))
                        }
                        _ => fixed = fixed.saturating_add(bytes),
                    }
                }
                (Some(Dim::Sym { sym, .. }), _) => {
                    let mut one = Bindings::new();
                    one.set(sym.as_str(), 1);
                    let bytes = b.ty.plane_bytes(&one).unwrap_or_default().iter().sum();
                    units.extend(self.symbols.id(sym).map(|id| (id, bytes)));
                }
            }
        }
        (fixed, units)
    }

    /// Number of the program called `name`.
    pub fn program(&self, name: &str) -> Option<usize> {
        self.programs.iter().position(|p| p.name == name)
    }
    /// Sets the value of a symbol for the next runs. A symbol that no kernel uses is ignored.
    pub fn set(&mut self, symbol: &'static str, value: usize) -> Result<()> {
        let s = &mut self.symbols;
        if let Some(id) = s.names.iter().position(|n| n.as_str() == symbol) {
            if value > s.limits[id] {
                return Err(Error::Limit { what: symbol, value, limit: s.limits[id] });
            }
            s.now[id] = value;
        }
        Ok(())
    }
    /// Copies `values` into an i32 input. An input that the program doesn't have is ignored: fused away.
    pub fn write_i32(&mut self, program: usize, name: &str, values: &[i32]) -> Result<()> {
        self.write(program, name, Elem::I32, values.len(), values.as_ptr().cast())
    }
    /// Copies `values` into an f32 input.
    pub fn write_f32(&mut self, program: usize, name: &str, values: &[f32]) -> Result<()> {
        self.write(program, name, Elem::F32, values.len(), values.as_ptr().cast())
    }
    fn write(&mut self, program: usize, name: &str, elem: Elem, len: usize, from: *const u8) -> Result<()> {
        let Some(port) = self.programs[program].inputs.iter().find(|p| p.name == name) else { return Ok(()) };
        let capacity = self.elements(&port.ty, &self.symbols.limits);
        if port.ty.format.elem != elem || port.ty.format.group.is_some() {
            return Err(Error::Missing { what: "input", name: name.to_owned() });
        }
        if len > capacity {
            return Err(Error::Limit { what: "length of an input", value: len, limit: capacity });
        }
        // SAFETY: the port is a plane of `capacity` elements of this size in the program's arena, `len` fits, and no
        // kernel runs while `self` is borrowed mutably here. The source is the caller's slice.
        unsafe { std::ptr::copy_nonoverlapping(from, port.at, len * elem.bits() / 8) };
        Ok(())
    }
    /// Elements of `ty` with the given symbol values; 0 where a symbol is not used by any kernel.
    fn elements(&self, ty: &TensorType, values: &[usize]) -> usize {
        ty.shape
            .iter()
            .map(|d| match d {
                Dim::Fixed(n) => *n,
                Dim::Sym { sym, times } => self.symbols.id(sym).map_or(0, |id| values[id] * times),
            })
            .product()
    }
    /// Runs a program with the current symbol values. Allocates nothing.
    ///
    /// # Safety
    /// Inputs must hold values in the range of what they index: tokens below the vocabulary, positions and slots within
    /// the limits, each slot's positions such that rings and caches hold what is read.
    pub unsafe fn run(&mut self, program: usize) {
        let Instance { symbols, programs, workers, loaded, .. } = self;
        for launch in &mut programs[program].launches {
            for (at, id) in &launch.patches {
                launch.args[*at] = symbols.now[*id] as u64;
            }
            let tiles = launch
                .grid
                .iter()
                .map(|e| (e.times * e.symbol.map_or(1, |id| symbols.now[id])).div_ceil(e.tile))
                .product();
            if tiles == 0 {
                continue;
            }
            let table = loaded.code.table(launch.kernel).as_ptr();
            let units = launch.unit_bytes.iter().map(|(id, bytes)| symbols.now[*id] * bytes);
            let alone = launch.fixed_bytes + units.sum::<usize>() < ALONE;
            let job = Job { entry: launch.entry, args: launch.args.as_ptr(), table, tiles };
            // SAFETY: arguments were bound to planes as large as the limits allow, `set` keeps symbols within them,
            // scratch was sized for the largest kernel, and the caller vouches for the values of the inputs.
            unsafe { workers.run(job, alone) };
        }
    }
    /// Shape of an output now, and its values. Reals are f32 or bf16 words, see the format.
    pub fn output(&self, program: usize, name: &str) -> Result<Output<'_>> {
        let missing = || Error::Missing { what: "output", name: name.to_owned() };
        let port = self.programs[program].outputs.iter().find(|p| p.name == name).ok_or_else(missing)?;
        let elements = self.elements(&port.ty, &self.symbols.now);
        if port.ty.format.group.is_some() {
            return Err(missing());
        }
        // SAFETY: the plane holds at least `elements` elements of this type (sized for the limits, initialised to zero
        // at creation), is 64-byte aligned, and nothing writes it while `self` is borrowed.
        let values = unsafe {
            match port.ty.format.elem {
                Elem::F32 => OutputValues::F32(std::slice::from_raw_parts(port.at.cast(), elements)),
                Elem::Bf16 => OutputValues::Bf16(std::slice::from_raw_parts(port.at.cast(), elements)),
                Elem::I32 => OutputValues::I32(std::slice::from_raw_parts(port.at.cast(), elements)),
                Elem::I64 => OutputValues::I64(std::slice::from_raw_parts(port.at.cast(), elements)),
                Elem::E4m3 | Elem::E2m1 => return Err(missing()),
            }
        };
        let shape = port.ty.shape.iter().map(|d| match d {
            Dim::Fixed(n) => *n,
            Dim::Sym { sym, times } => self.symbols.id(sym).map_or(0, |id| self.symbols.now[id] * times),
        });
        Ok(Output { shape: shape.collect(), values })
    }
    /// The f32 values of an output, without allocating.
    pub fn output_f32(&self, program: usize, name: &str) -> Result<&[f32]> {
        let port = self.programs[program]
            .outputs
            .iter()
            .find(|p| p.name == name && p.ty.format == tessera_ir::Format::F32);
        let port = port.ok_or_else(|| Error::Missing { what: "output", name: name.to_owned() })?;
        let elements = self.elements(&port.ty, &self.symbols.now);
        // SAFETY: as in `output`.
        Ok(unsafe { std::slice::from_raw_parts(port.at.cast(), elements) })
    }
    /// Names of a program's outputs.
    pub fn output_names(&self, program: usize) -> impl Iterator<Item = &str> {
        self.programs[program].outputs.iter().map(|p| p.name.as_str())
    }
    /// Bytes of states (rings, caches, history).
    pub fn state_bytes(&self) -> usize {
        self.state_bytes
    }
    /// Bytes of activations.
    pub fn arena_bytes(&self) -> usize {
        self.arena_bytes
    }
    /// Number of threads.
    pub fn threads(&self) -> usize {
        self.workers.threads()
    }
}

/// An output of a program.
#[derive(Debug)]
pub struct Output<'a> {
    /// Dimensions now.
    pub shape: Vec<usize>,
    /// Values, row-major.
    pub values: OutputValues<'a>,
}

/// Values of an output by element type.
#[derive(Debug)]
pub enum OutputValues<'a> {
    /// f32.
    F32(&'a [f32]),
    /// bf16 words.
    Bf16(&'a [u16]),
    /// i32.
    I32(&'a [i32]),
    /// i64.
    I64(&'a [i64]),
}

fn too_large(what: String) -> Error {
    Error::Memory { what, bytes: usize::MAX }
}
