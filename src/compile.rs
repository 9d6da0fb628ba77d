//! From a checked configuration to an artifact: the graph modules that are needed, verified, fused and emitted.

use crate::error::Result;
use tessera_codegen::Plan;
use tessera_codegen::target::cpu::Cpu;
use tessera_ir::Verified;
use tessera_ir::artifact::Artifact;
use tessera_ir::graph::{Module, verify};
use tessera_model::graph::{self, BuildOptions, Mode};
use tessera_model::{Config, Topology};

/// Program that runs rows through the backbone.
pub const STEP: &str = "step";
/// The same, with inner values as outputs.
pub const TRACE: &str = "trace";
/// The same, the decoder half on kept rows only.
pub const REPLAY: &str = "replay";
/// Program of the DSpark stages.
pub const DRAFT: &str = "draft";

/// What to compile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct Build {
    /// Numeric mode.
    pub mode: Mode,
    /// Also a program `trace`: a step whose inner values are outputs.
    pub trace: bool,
    /// The blocks of `trace` take their inputs from outside.
    pub teacher: bool,
    /// Also a program `replay`: bounded replay of a prompt (V4.1 §5.4).
    pub replay: bool,
    /// Also a program `draft`: the DSpark stages.
    pub draft: bool,
}

impl Build {
    /// A step in `mode` and nothing else.
    pub fn plain(mode: Mode) -> Build {
        Build { mode, ..Build::default() }
    }
}

/// The programs of `build` as verified modules, with their names.
///
/// # Errors
/// A module breaks a rule of its level: a bug of the builder.
pub fn modules(
    config: &Config,
    topology: &Topology,
    build: Build,
) -> Result<Vec<(&'static str, Verified<Module>)>> {
    let plain = BuildOptions { mode: build.mode, ..BuildOptions::default() };
    let step = |options| Ok::<_, crate::Error>(verify(graph::step(config, topology, options))?);
    let mut modules = vec![(STEP, step(plain)?)];
    if build.trace {
        modules.push((TRACE, step(BuildOptions { trace: true, teacher: build.teacher, ..plain })?));
    }
    if build.replay {
        modules.push((REPLAY, step(BuildOptions { replay: true, ..plain })?));
    }
    if build.draft {
        modules.push((DRAFT, verify(graph::draft(config, topology, build.mode))?));
    }
    Ok(modules)
}

/// The kernels and calls of `build`, not emitted yet.
///
/// # Errors
/// A module cannot be built, fused or scheduled.
pub fn plan(config: &Config, topology: &Topology, build: Build) -> Result<Plan> {
    let modules = modules(config, topology, build)?;
    Ok(Plan::new(&modules, &tessera_kernels::Config::default())?)
}

/// Compiles the model for this machine's processor.
///
/// # Errors
/// A module cannot be built, fused, scheduled or emitted.
pub fn artifact(config: &Config, topology: &Topology, build: Build) -> Result<Artifact> {
    Ok(plan(config, topology, build)?.compile(&Cpu::host()?)?)
}
