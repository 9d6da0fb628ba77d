//! Modules planned for a target: kernels, the numbers of rows they are for, the knobs of their schedules.

use super::Target;
use crate::error::{Error, Result};
use tessera_codegen::{Plan, Scheduled};
use tessera_ir::Verified;
use tessera_ir::graph::Module;
use tessera_kernels::sm100::Knobs;
use tessera_kernels::{Config, Family};

/// A plan with what it was made for.
#[derive(Clone, Debug)]
pub struct Planned {
    plan: Plan,
    /// For each kernel the numbers of rows it was chosen for, ascending.
    rows: Vec<Vec<usize>>,
    machine: Machine,
}

#[derive(Clone, Debug)]
enum Machine {
    Cpu(Config),
    /// Knobs for each number of rows.
    Sm100(Vec<Knobs>),
}

impl Planned {
    /// Plans modules for a target and numbers of rows, with these values of knobs instead of those that rows give. Where `families`
    /// are given, kernels of others may be left out.
    ///
    /// # Errors
    /// There is no such knob or value, or a module cannot be fused or scheduled.
    pub fn of(
        modules: &[(&str, Verified<Module>)],
        target: Target,
        rows: &[usize],
        set: &[(String, usize)],
        families: &[Family],
    ) -> Result<Planned> {
        let mut counts = rows.to_vec();
        counts.sort_unstable();
        counts.dedup();
        match target {
            Target::Cpu => {
                let config = cpu_knobs(set)?;
                let plan = Plan::new(modules, &config)?;
                let rows = vec![counts; plan.kernels.len()];
                Ok(Planned { plan, rows, machine: Machine::Cpu(config) })
            }
            Target::Sm100a => {
                let knobs =
                    counts.iter().map(|count| sm100_knobs(*count, set)).collect::<Result<Vec<Knobs>>>()?;
                let plan = Plan::sm100_kernels(modules, &knobs, families)?;
                let rows = plan.kernels.iter().map(|kernel| kernel.rows.clone()).collect();
                Ok(Planned { plan, rows, machine: Machine::Sm100(knobs) })
            }
        }
    }

    /// Kernels with the numbers of rows that they are for.
    pub fn kernels(&self) -> impl Iterator<Item = (&Scheduled, &Vec<usize>)> {
        self.plan.kernels.iter().zip(&self.rows)
    }

    /// Names and values of the knobs for a number of rows.
    pub fn knobs(&self, rows: usize) -> Vec<(&'static str, usize)> {
        match &self.machine {
            Machine::Cpu(config) => cpu_values(config).to_vec(),
            Machine::Sm100(all) => {
                let known = all.iter().find(|knobs| knobs.rows == rows);
                known.map_or_else(Vec::new, |knobs| knobs.values().to_vec())
            }
        }
    }
}

fn unknown(name: &str, known: impl IntoIterator<Item = (&'static str, usize)>) -> Error {
    let names: Vec<&str> = known.into_iter().map(|(name, _)| name).collect();
    Error::Request(format!("there is no knob {name}; the knobs are {}", names.join(", ")))
}

fn sm100_knobs(rows: usize, set: &[(String, usize)]) -> Result<Knobs> {
    let mut knobs = Knobs::for_rows(rows);
    for (name, value) in set {
        if name == "pair" && *value > 1 {
            return Err(Error::Request(format!("knob pair is {value}, but it is a truth: 0 or 1")));
        }
        if !knobs.set(name, *value) {
            return Err(unknown(name, knobs.values()));
        }
    }
    Ok(knobs)
}

fn cpu_values(c: &Config) -> [(&'static str, usize); 5] {
    [
        ("linear_cols", c.linear_cols),
        ("linear_rows", c.linear_rows),
        ("expert_cols", c.expert_cols),
        ("expert_rows", c.expert_rows),
        ("mix_rows", c.mix_rows),
    ]
}

fn cpu_knobs(set: &[(String, usize)]) -> Result<Config> {
    let mut c = Config::default();
    for (name, value) in set {
        let place = match name.as_str() {
            "linear_cols" => &mut c.linear_cols,
            "linear_rows" => &mut c.linear_rows,
            "expert_cols" => &mut c.expert_cols,
            "expert_rows" => &mut c.expert_rows,
            "mix_rows" => &mut c.mix_rows,
            _ => return Err(unknown(name, cpu_values(&c))),
        };
        *place = *value;
    }
    c.check().map_err(|error| Error::Request(error.to_string()))?;
    Ok(c)
}
