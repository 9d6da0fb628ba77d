//! What to generate: target, families, rows, shape, knobs.

use super::shape::Shape;
use crate::error::{Error, Result};
use tessera_codegen::Plan;
use tessera_codegen::pipeline::fuse;
use tessera_ir::Verified;
use tessera_ir::graph::Module;
use tessera_kernels::{self as kernels, Family};

/// Numbers of rows where nobody says which: decode steps of 1, 6 and 64 sequences, and a piece of a prompt.
pub const DEFAULT_ROWS: [usize; 4] = [1, 6, 64, 4096];

/// A machine that texts are generated for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// NVIDIA SM100: PTX.
    Sm100a,
    /// This machine's processor: Cranelift's text, before its optimisations.
    Cpu,
}

impl Target {
    /// The target called `name`.
    ///
    /// # Errors
    /// There is none, or not in this version.
    pub fn named(name: &str) -> Result<Target> {
        match name {
            "sm_100a" => Ok(Target::Sm100a),
            "cpu" => Ok(Target::Cpu),
            "ascend950" => Err(Error::Unsupported(
                "target ascend950 is not in this version; it generates for sm_100a and cpu".to_owned(),
            )),
            other => {
                Err(Error::Request(format!("unknown target {other}; targets are cpu, sm_100a and ascend950")))
            }
        }
    }
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Target::Sm100a => "sm_100a",
            Target::Cpu => "cpu",
        }
    }
    /// Ending of its files.
    pub fn ending(self) -> &'static str {
        match self {
            Target::Sm100a => "ptx",
            Target::Cpu => "clif",
        }
    }
}

/// What to generate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// For which machine.
    pub target: Target,
    /// Families; none: all.
    pub families: Vec<Family>,
    /// Numbers of rows that schedules are chosen for.
    pub rows: Vec<usize>,
    /// Sizes by name: those of operators select kernels, symbols get these values in launches.
    pub shape: Vec<(String, usize)>,
    /// Values of knobs, by name, instead of those that the number of rows gives.
    pub set: Vec<(String, usize)>,
    /// Threads that emit.
    pub threads: usize,
}

impl Request {
    /// Everything for a target.
    pub fn all(target: Target) -> Request {
        Request {
            target,
            families: Vec::new(),
            rows: DEFAULT_ROWS.to_vec(),
            shape: Vec::new(),
            set: Vec::new(),
            threads: crate::session::default_threads(),
        }
    }

    /// Rows ascending, each once.
    pub(super) fn rows(&self) -> Vec<usize> {
        let mut rows = self.rows.clone();
        rows.sort_unstable();
        rows.dedup();
        rows
    }

    /// Refuses sizes that no kernel has.
    pub(super) fn check(&self) -> Result<()> {
        if self.rows.is_empty() {
            return Err(Error::Request("no number of rows is given".to_owned()));
        }
        for (name, _) in &self.shape {
            if name == "T" {
                return Err(Error::Request("T is the number of rows; use --rows".to_owned()));
            }
            if !Shape::names().chain(SYMBOLS).any(|known| known == name) {
                let known: Vec<&str> = Shape::names().chain(SYMBOLS.into_iter().skip(1)).collect();
                return Err(Error::Request(format!(
                    "no kernel has a size {name}; sizes are {}",
                    known.join(", ")
                )));
            }
        }
        Ok(())
    }

    /// True if an operator has the sizes that are asked for.
    pub(super) fn fits(&self, shape: &Shape) -> bool {
        let mut sizes = self.shape.iter().filter(|(name, _)| Shape::names().any(|known| known == name));
        sizes.all(|(name, value)| shape.get(name) == Some(*value))
    }

    /// Why nothing was selected.
    pub(super) fn nothing(&self, modules: &[(&str, Verified<Module>)]) -> Error {
        let mut shapes: Vec<String> = Vec::new();
        for (_, module) in modules {
            let Ok(fused) = fuse(module.clone(), &mut |_, _| {}) else { continue };
            for fragment in &fused.fragments {
                let shape = format!("{} {}", fragment.family, Shape::of(&fragment.module));
                if (self.families.is_empty() || self.families.contains(&fragment.family))
                    && !shapes.contains(&shape)
                {
                    shapes.push(shape);
                }
            }
        }
        shapes.sort();
        if shapes.is_empty() {
            let families: Vec<&str> = self.families.iter().map(|family| family.name()).collect();
            return Error::Request(format!("the model has no kernel of {}", families.join(", ")));
        }
        Error::Request(format!("the model has no kernel of this shape; it has\n  {}", shapes.join("\n  ")))
    }
}

/// Symbols of launches, `T` first.
const SYMBOLS: [&str; 9] = ["T", "L", "K", "Q", "S", "R", "G", "C1", "C2"];

/// Knobs of a target's schedules.
#[derive(Clone, Copy, Debug)]
pub(super) enum Knobs {
    /// The CPU's.
    Cpu(kernels::Config),
}

impl Knobs {
    /// Names and values.
    pub(super) fn values(&self) -> Vec<(&'static str, usize)> {
        match self {
            Knobs::Cpu(c) => vec![
                ("linear_cols", c.linear_cols),
                ("linear_rows", c.linear_rows),
                ("expert_cols", c.expert_cols),
                ("expert_rows", c.expert_rows),
                ("mix_rows", c.mix_rows),
            ],
        }
    }

    /// The knobs of a target for a number of rows, with some values instead of those.
    pub(super) fn of(target: Target, rows: usize, set: &[(String, usize)]) -> Result<Knobs> {
        let mut knobs = match target {
            Target::Sm100a | Target::Cpu => Knobs::Cpu(kernels::Config::default()),
        };
        let _ = rows;
        for (name, value) in set {
            knobs.set(name, *value)?;
        }
        Ok(knobs)
    }

    fn set(&mut self, name: &str, value: usize) -> Result<()> {
        let names: Vec<&str> = self.values().iter().map(|(name, _)| *name).collect();
        let unknown =
            || Error::Request(format!("there is no knob {name}; the knobs are {}", names.join(", ")));
        match self {
            Knobs::Cpu(c) => {
                let place = match name {
                    "linear_cols" => &mut c.linear_cols,
                    "linear_rows" => &mut c.linear_rows,
                    "expert_cols" => &mut c.expert_cols,
                    "expert_rows" => &mut c.expert_rows,
                    "mix_rows" => &mut c.mix_rows,
                    _ => return Err(unknown()),
                };
                *place = value;
                c.check().map_err(|error| Error::Request(error.to_string()))
            }
        }
    }

    /// Kernels and calls of modules.
    pub(super) fn plan(&self, modules: &[(&str, Verified<Module>)]) -> Result<Plan> {
        match self {
            Knobs::Cpu(config) => Ok(Plan::new(modules, config)?),
        }
    }
}
