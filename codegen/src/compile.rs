//! From verified graph modules to an artifact: fuse, schedule, emit, lay out the programs' buffers.

use crate::error::Error;
use crate::pipeline::{Fused, fuse_for};
use crate::target::cpu::Cpu;
use std::collections::{BTreeMap, BTreeSet};
use tessera_ir::artifact::{Artifact, Buffer, BufferKind, Kernel, Program, Step};
use tessera_ir::graph::{DeclKind, Module, Value};
use tessera_ir::tile::Target;
use tessera_ir::{Layout, Verified, tile};
use tessera_kernels::sm100::{self, Knobs};
use tessera_kernels::{Config, Family, schedule};

/// A kernel between its schedule and its code.
#[derive(Clone, Debug)]
pub struct Scheduled {
    /// Operator family.
    pub family: Family,
    /// `family_n`, the name that its variants for other numbers of rows share.
    pub stem: String,
    /// What it computes; the oracle runs this.
    pub fragment: Verified<Module>,
    /// How.
    pub kernel: Verified<tile::Kernel>,
    /// Numbers of rows that it was chosen for, ascending; empty for the CPU, which has one schedule for any number.
    pub rows: Vec<usize>,
}

/// Kernels and calls of several modules, equal fragments shared.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// Distinct kernels, named `family_n`.
    pub kernels: Vec<Scheduled>,
    /// For each module its name, its fused form, and the kernel of each of its fragments.
    pub modules: Vec<(String, Fused, Vec<usize>)>,
}

impl Plan {
    /// Fuses and schedules `modules`. Observers see nothing; use [`crate::pipeline::fuse`] to look at single passes.
    pub fn new(modules: &[(&str, Verified<Module>)], config: &Config) -> Result<Self, Error> {
        Plan::of(modules, &Machine::Cpu(*config))
    }

    /// Fuses and schedules `modules` for SM100, once for each number of rows in `rows`: module `step` becomes `step_r1`,
    /// `step_r64` and so on. Kernels are named `family_n_rR` by the smallest R they serve; variants that are equal are one.
    pub fn sm100(modules: &[(&str, Verified<Module>)], rows: &[usize]) -> Result<Self, Error> {
        let knobs: Vec<Knobs> = rows.iter().map(|r| Knobs::for_rows(*r)).collect();
        Plan::of(modules, &Machine::Sm100(&knobs))
    }

    /// The kernels of some families with these knobs, named as in the plan of everything; none means all. Without the others
    /// there are no programs: [`modules`](Self::modules) is empty.
    pub fn sm100_kernels(
        modules: &[(&str, Verified<Module>)],
        knobs: &[Knobs],
        families: &[Family],
    ) -> Result<Self, Error> {
        if families.is_empty() {
            return Plan::of(modules, &Machine::Sm100(knobs));
        }
        let mut plan = Plan::default();
        for (name, module) in modules {
            let mut fused = fuse_for(Target::Sm100, module.clone(), &mut |_, _| {})?;
            fused.fragments.retain(|fragment| families.contains(&fragment.family));
            plan.add_each(name, &fused, knobs)?;
        }
        plan.modules.clear();
        Ok(plan)
    }

    fn of(modules: &[(&str, Verified<Module>)], machine: &Machine<'_>) -> Result<Self, Error> {
        let mut plan = Plan::default();
        for (name, module) in modules {
            let fused = fuse_for(machine.target(), module.clone(), &mut |_, _| {})?;
            plan.check(name, &fused)?;
            match machine {
                Machine::Cpu(config) => {
                    plan.add(name, fused, None, &|f, m| schedule(f, m, config))?;
                }
                Machine::Sm100(knobs) => plan.add_each(name, &fused, knobs)?,
            }
        }
        Ok(plan)
    }

    /// Schedules the fragments of a module once for each of the knobs.
    fn add_each(&mut self, name: &str, fused: &Fused, all: &[Knobs]) -> Result<(), Error> {
        for knobs in all {
            let schedule = |f, m: &_| sm100::schedule(f, m, knobs);
            self.add(&format!("{name}_r{}", knobs.rows), fused.clone(), Some(knobs.rows), &schedule)?;
        }
        Ok(())
    }

    /// Refuses modules that give one value two names.
    fn check(&self, name: &str, fused: &Fused) -> Result<(), Error> {
        let outputs = &fused.module.outputs;
        for (i, o) in outputs.iter().enumerate() {
            if let Some(earlier) = outputs[..i].iter().find(|e| e.value == o.value) {
                let (first, second) = (earlier.name.clone(), o.name.clone());
                return Err(Error::Outputs { module: name.to_owned(), first, second });
            }
        }
        Ok(())
    }

    /// Schedules the fragments of a module, those that have no equal kernel yet, and names them by their rows.
    fn add(
        &mut self,
        name: &str,
        fused: Fused,
        rows: Option<usize>,
        schedule: &Schedule<'_>,
    ) -> Result<(), Error> {
        let suffix = rows.map_or_else(String::new, |rows| format!("_r{rows}"));
        let mut of = Vec::with_capacity(fused.fragments.len());
        let mut faults = Vec::new();
        // Fragments without a schedule: each is told once.
        let mut failed: Vec<(Family, &Module)> = Vec::new();
        for f in &fused.fragments {
            if failed.iter().any(|(family, module)| *family == f.family && same(module, &f.module)) {
                continue;
            }
            let alike: Vec<usize> = (0..self.kernels.len())
                .filter(|k| {
                    self.kernels[*k].family == f.family && same(&self.kernels[*k].fragment, &f.module)
                })
                .collect();
            let known = alike.iter().find(|k| rows.is_none_or(|rows| self.kernels[**k].rows.contains(&rows)));
            if let Some(index) = known {
                of.push(*index);
                continue;
            }
            let stem = match alike.first() {
                Some(k) => self.kernels[*k].stem.clone(),
                None => {
                    let stems: BTreeSet<&str> = self.kernels.iter().map(|k| k.stem.as_str()).collect();
                    let prefix = format!("{}_", f.family);
                    let before = failed.iter().filter(|(family, _)| *family == f.family).count();
                    let ordinal = stems.iter().filter(|s| numbered(s, &prefix)).count() + before;
                    format!("{prefix}{ordinal}")
                }
            };
            let mut fragment = (*f.module).clone();
            fragment.name = format!("{stem}{suffix}");
            let fragment = tessera_ir::graph::verify(fragment).map_err(Error::Verify)?;
            let mut kernel = match schedule(f.family, &fragment) {
                Ok(kernel) => kernel,
                Err(fault) => {
                    failed.push((f.family, &f.module));
                    faults.push(fault);
                    continue;
                }
            };
            let equal = alike.into_iter().find(|k| {
                let other = &self.kernels[*k].kernel;
                let name = std::mem::replace(&mut kernel.name, other.name.clone());
                let equal = **other == kernel;
                kernel.name = name;
                equal
            });
            of.push(match equal {
                Some(index) => {
                    let known = &mut self.kernels[index].rows;
                    known.extend(rows);
                    known.sort_unstable();
                    index
                }
                None => {
                    let kernel = tile::verify(kernel).map_err(Error::Tile)?;
                    let rows = rows.into_iter().collect();
                    self.kernels.push(Scheduled { family: f.family, stem, fragment, kernel, rows });
                    self.kernels.len() - 1
                }
            });
        }
        match faults.len() {
            0 => {
                self.modules.push((name.to_owned(), fused, of));
                Ok(())
            }
            1 => Err(Error::Schedule(faults.remove(0))),
            _ => Err(Error::Schedules(faults)),
        }
    }

    /// Emits the kernels and lays out the programs.
    pub fn compile(&self, cpu: &Cpu) -> Result<Artifact, Error> {
        let kernels = self
            .kernels
            .iter()
            .map(|k| cpu.compile(k.family.name(), &k.kernel))
            .collect::<Result<Vec<Kernel>, Error>>()?;
        let programs = self.modules.iter().map(|(name, fused, of)| self.program(name, fused, of)).collect();
        Ok(Artifact { target: cpu.target(), features: cpu.features(), kernels, programs })
    }

    /// The buffers and launches of one module.
    fn program(&self, name: &str, fused: &Fused, kernel_of: &[usize]) -> Program {
        let module = &fused.module;
        let types = module.types();
        // A call's state results are newer versions of its state arguments.
        let state_of = module.states();
        let mut buffers: Vec<Buffer> = Vec::new();
        let mut index: BTreeMap<(Value, Layout), usize> = BTreeMap::new();
        let mut steps = Vec::with_capacity(fused.calls.len());
        for (at, call) in fused.calls.iter().enumerate() {
            let kernel = &self.kernels[kernel_of[call.fragment]].kernel;
            let outputs = call.results.iter().filter(|v| !state_of.contains_key(v));
            let args = call
                .args
                .iter()
                .chain(outputs)
                .zip(&kernel.params)
                .map(|(v, param)| {
                    let root = state_of.get(v).copied().unwrap_or(*v);
                    let slot = *index.entry((root, param.ty.layout)).or_insert_with(|| {
                        let named = module.outputs.iter().find(|o| o.value == root);
                        let (name, kind) = match module.decls.get(root.index()) {
                            Some(d) => (d.name.clone(), kind_of(d.kind)),
                            None => match named {
                                Some(o) => (o.name.clone(), BufferKind::Output),
                                None => (root.to_string(), BufferKind::Temp { first: at, last: at }),
                            },
                        };
                        let mut ty = types[root.index()].clone();
                        ty.layout = param.ty.layout;
                        buffers.push(Buffer { name, ty, kind });
                        buffers.len() - 1
                    });
                    if let BufferKind::Temp { last, .. } = &mut buffers[slot].kind {
                        *last = at;
                    }
                    slot
                })
                .collect();
            steps.push(Step { kernel: kernel_of[call.fragment], args });
        }
        Program { name: name.to_owned(), buffers, steps }
    }
}

fn kind_of(kind: DeclKind) -> BufferKind {
    match kind {
        DeclKind::Input => BufferKind::Input,
        DeclKind::Weight => BufferKind::Weight,
        DeclKind::State => BufferKind::State,
    }
}

/// How a fragment is scheduled.
type Schedule<'a> = dyn Fn(Family, &Verified<Module>) -> Result<tile::Kernel, tessera_kernels::Error> + 'a;

/// What a plan is made for.
enum Machine<'a> {
    Cpu(Config),
    /// The knobs of each number of rows.
    Sm100(&'a [Knobs]),
}

impl Machine<'_> {
    fn target(&self) -> Target {
        match self {
            Machine::Cpu(_) => Target::Cpu,
            Machine::Sm100(_) => Target::Sm100,
        }
    }
}

/// True if `stem` is `prefix` and a number.
fn numbered(stem: &str, prefix: &str) -> bool {
    stem.strip_prefix(prefix).is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()))
}

/// Equal but for the name.
fn same(a: &Module, b: &Module) -> bool {
    a.decls == b.decls && a.nodes == b.nodes && a.outputs == b.outputs
}
