//! The passes, in order: from a model's graph to kernels and their calls.

use crate::error::Error;
use crate::groups::Groups;
use crate::passes::{
    fuse_gate_up, fuse_index_select, fuse_quantise, fuse_rows, fuse_unrope, group_experts, outline,
    split_index,
};
use std::fmt::Write as _;
use tessera_ir::Verified;
use tessera_ir::graph::{self, Module};
use tessera_ir::tile::Target;

pub use crate::passes::outline::{Call, Fragment, Fused};

/// What a pass changes.
enum Pass {
    /// The module.
    Rewrite(fn(&Module) -> Module),
    /// Which nodes share a kernel.
    Group(fn(&mut Groups<'_>)),
}

/// Every pass before `outline`, in order, with the machines that it runs for. All rewrites come first: groups refer to a
/// fixed module.
const PASSES: &[(&str, Pass, &[Target])] = &[
    ("group-experts", Pass::Rewrite(group_experts::run), &[Target::Cpu, Target::Sm100]),
    ("fuse-gate-up", Pass::Group(fuse_gate_up::run), &[Target::Cpu, Target::Sm100]),
    ("fuse-quantise", Pass::Group(fuse_quantise::run), &[Target::Cpu, Target::Sm100]),
    // On SM100 scores go through memory: one kernel multiplies, another one selects.
    ("fuse-index-select", Pass::Group(fuse_index_select::run), &[Target::Cpu]),
    ("split-index", Pass::Group(split_index::run), &[Target::Sm100]),
    ("fuse-unrope", Pass::Group(fuse_unrope::run), &[Target::Cpu, Target::Sm100]),
    ("fuse-rows", Pass::Group(fuse_rows::run), &[Target::Cpu, Target::Sm100]),
];

/// The last pass, which cuts the module into kernels.
const OUTLINE: &str = "outline";

/// Names of all passes of the CPU, in order.
pub fn pass_names() -> Vec<&'static str> {
    pass_names_for(Target::Cpu)
}

/// Names of all passes of a machine, in order.
pub fn pass_names_for(target: Target) -> Vec<&'static str> {
    passes(target).map(|(n, ..)| *n).chain([OUTLINE]).collect()
}

/// The passes of a machine before the last.
fn passes(target: Target) -> impl Iterator<Item = &'static (&'static str, Pass, &'static [Target])> {
    PASSES.iter().filter(move |(_, _, targets)| targets.contains(&target))
}

/// Runs the passes of the CPU; see [`fuse_for`].
pub fn fuse(
    module: Verified<Module>,
    observe: &mut dyn FnMut(&'static str, &dyn Fn() -> String),
) -> Result<Fused, Error> {
    fuse_for(Target::Cpu, module, observe)
}

/// Runs every pass of a machine. `observe` is given the name of each pass after it ran and a way to print its result; the module
/// is verified after each rewrite.
pub fn fuse_for(
    target: Target,
    module: Verified<Module>,
    observe: &mut dyn FnMut(&'static str, &dyn Fn() -> String),
) -> Result<Fused, Error> {
    let mut module = module;
    for (name, pass, _) in passes(target) {
        if let Pass::Rewrite(run) = pass {
            module = graph::verify(run(&module)).map_err(|faults| Error::Pass { pass: name, faults })?;
            observe(name, &|| graph::print(&module));
        }
    }
    let mut groups = Groups::new(&module);
    for (name, pass, _) in passes(target) {
        if let Pass::Group(run) = pass {
            run(&mut groups);
            observe(name, &|| print_groups(&groups));
        }
    }
    let fused = outline::run(&groups)?;
    observe(OUTLINE, &|| print_fused(&fused));
    Ok(fused)
}

/// Node lines of the module under a heading for each kernel, in execution order.
pub fn print_groups(groups: &Groups<'_>) -> String {
    let module = groups.module();
    let text = graph::print(module);
    let lines: Vec<&str> = text.lines().collect();
    let first = lines.len() - 1 - module.outputs.len() - module.nodes.len();
    let mut out = format!("; module @{}\n", module.name);
    for (k, g) in groups.in_order().into_iter().enumerate() {
        let nodes = groups.nodes(g);
        let _ = writeln!(out, "; kernel {k}: {}", groups.family(nodes[0]));
        for &n in nodes {
            let _ = writeln!(out, "{}", lines[first + n]);
        }
    }
    out
}

/// Fragments as modules, then the calls.
pub fn print_fused(fused: &Fused) -> String {
    let mut out = String::new();
    for f in &fused.fragments {
        let _ = writeln!(out, "; {} family {}\n{}", f.module.name, f.family, graph::print(&f.module));
    }
    for (i, c) in fused.calls.iter().enumerate() {
        let list = |vs: &[graph::Value]| vs.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        let name = &fused.fragments[c.fragment].module.name;
        let _ = writeln!(out, "; call {i}: {} = {name}({})", list(&c.results), list(&c.args));
    }
    out
}
