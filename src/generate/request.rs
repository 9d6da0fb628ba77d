//! What to generate: target, families, rows, shape, knobs.

use super::shape::Shape;
use crate::error::{Error, Result};
use tessera_codegen::Scheduled;
use tessera_ir::tile;
use tessera_kernels::Family;

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
    /// The machine that Tile IR is for.
    pub fn machine(self) -> tile::Target {
        match self {
            Target::Sm100a => tile::Target::Sm100,
            Target::Cpu => tile::Target::Cpu,
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

    /// Why nothing was selected among kernels.
    pub(super) fn nothing<'k>(&self, kernels: impl Iterator<Item = &'k Scheduled>) -> Error {
        let mut shapes: Vec<String> = kernels
            .filter(|k| self.families.is_empty() || self.families.contains(&k.family))
            .map(|k| format!("{} {}", k.family, Shape::of(&k.fragment)))
            .collect();
        shapes.sort();
        shapes.dedup();
        if shapes.is_empty() {
            let families: Vec<&str> = self.families.iter().map(|family| family.name()).collect();
            return Error::Request(format!("the model has no kernel of {}", families.join(", ")));
        }
        Error::Request(format!("the model has no kernel of this shape; it has\n  {}", shapes.join("\n  ")))
    }
}

/// Symbols of launches, `T` first.
const SYMBOLS: [&str; 9] = ["T", "L", "K", "Q", "S", "R", "G", "C1", "C2"];
