//! From verified graph modules to an artifact: fuse, schedule, emit, lay out the programs' buffers.

use crate::error::Error;
use crate::pipeline::{Fused, fuse};
use crate::target::cpu::Cpu;
use std::collections::BTreeMap;
use tessera_ir::artifact::{Artifact, Buffer, BufferKind, Kernel, Program, Step};
use tessera_ir::graph::{DeclKind, Module, Value};
use tessera_ir::{Layout, Verified, tile};
use tessera_kernels::{Config, Family, schedule};

/// A kernel between its schedule and its code.
#[derive(Clone, Debug)]
pub struct Scheduled {
    /// Operator family.
    pub family: Family,
    /// What it computes; the oracle runs this.
    pub fragment: Verified<Module>,
    /// How.
    pub kernel: Verified<tile::Kernel>,
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
    /// Fuses and schedules `modules`. Observers see nothing; use [`fuse`] to look at single passes.
    pub fn new(modules: &[(&str, Verified<Module>)], config: &Config) -> Result<Self, Error> {
        let mut plan = Plan::default();
        for (name, module) in modules {
            let fused = fuse(module.clone(), &mut |_, _| {})?;
            plan.add(name, fused, config)?;
        }
        Ok(plan)
    }

    fn add(&mut self, name: &str, fused: Fused, config: &Config) -> Result<(), Error> {
        let outputs = &fused.module.outputs;
        for (i, o) in outputs.iter().enumerate() {
            if let Some(earlier) = outputs[..i].iter().find(|e| e.value == o.value) {
                let (first, second) = (earlier.name.clone(), o.name.clone());
                return Err(Error::Outputs { module: name.to_owned(), first, second });
            }
        }
        let mut of = Vec::with_capacity(fused.fragments.len());
        for f in &fused.fragments {
            let known =
                self.kernels.iter().position(|k| k.family == f.family && same(&k.fragment, &f.module));
            let index = match known {
                Some(i) => i,
                None => {
                    let ordinal = self.kernels.iter().filter(|k| k.family == f.family).count();
                    let mut fragment = (*f.module).clone();
                    fragment.name = format!("{}_{ordinal}", f.family);
                    let fragment = tessera_ir::graph::verify(fragment).map_err(Error::Verify)?;
                    let kernel = schedule(f.family, &fragment, config).map_err(Error::Schedule)?;
                    let kernel = tile::verify(kernel).map_err(Error::Tile)?;
                    self.kernels.push(Scheduled { family: f.family, fragment, kernel });
                    self.kernels.len() - 1
                }
            };
            of.push(index);
        }
        self.modules.push((name.to_owned(), fused, of));
        Ok(())
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

/// Equal but for the name.
fn same(a: &Module, b: &Module) -> bool {
    a.decls == b.decls && a.nodes == b.nodes && a.outputs == b.outputs
}
