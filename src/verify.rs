//! What a foreign assembler says about PTX texts: whether it takes them, and what they take of the machine.

use serde::Serialize;
use tessera_assembler::sass::{self, Kernel};
use tessera_assembler::{Error, Nvdisasm, Ptxas, Resources, Result};
use tessera_codegen::target::ptx::PtxKernel;

/// Shared memory that a block may use on SM100, in bytes.
pub const SMEM: usize = 232_448;

/// Columns of tensor memory of a multiprocessor.
pub const TMEM_COLUMNS: usize = 512;

/// The tools that check texts.
#[derive(Clone, Debug)]
pub struct Checker {
    ptxas: Ptxas,
    /// An older assembler that must take the text too.
    floor: Option<Ptxas>,
    nvdisasm: Option<Nvdisasm>,
}

/// What the tools say about a text.
#[derive(Clone, Debug, PartialEq)]
pub struct Checked {
    /// True if the assembler takes it.
    pub assembled: bool,
    /// What is wrong, a sentence each; nothing if all is well.
    pub reports: Vec<String>,
    /// What each entry function takes.
    pub resources: Vec<Resources>,
    /// What the machine code of each consists of, where it was disassembled.
    pub code: Vec<Kernel>,
}

/// What a kernel takes of the machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Taken {
    /// Registers of a thread.
    pub registers: usize,
    /// Named barriers of a block.
    pub barriers: usize,
    /// Bytes of a thread's stack.
    pub stack: usize,
    /// Bytes of registers written to memory.
    pub spill_stores: usize,
    /// Bytes of registers read back.
    pub spill_loads: usize,
    /// Bytes of shared memory, static and dynamic.
    pub smem: usize,
    /// Columns of tensor memory; none where the text came without its launch.
    pub tmem_columns: Option<usize>,
}

impl Checker {
    /// The tools of this machine; with `disassemble`, what machine code consists of is counted too.
    ///
    /// # Errors
    /// [`Error::Absent`].
    pub fn find(disassemble: bool) -> Result<Checker> {
        let nvdisasm = if disassemble { Some(Nvdisasm::find()?) } else { None };
        Ok(Checker { ptxas: Ptxas::find()?, floor: None, nvdisasm })
    }

    /// The same, and the oldest assembler that texts must pass.
    ///
    /// # Errors
    /// [`Error::Absent`].
    pub fn with_floor(self) -> Result<Checker> {
        Ok(Checker { floor: Some(Ptxas::floor()?), ..self })
    }

    /// Checks a text, with its launch where it has one.
    ///
    /// # Errors
    /// A tool does not run or says what nobody expects; a refused text is none.
    pub fn check(&self, text: &str, launch: Option<&PtxKernel>) -> Result<Checked> {
        let mut checked =
            Checked { assembled: false, reports: Vec::new(), resources: Vec::new(), code: Vec::new() };
        let target = target(text);
        let assembled = match self.ptxas.assemble(text, target) {
            Ok(assembled) => assembled,
            Err(Error::Refused { messages }) => {
                checked.reports = messages.iter().map(ToString::to_string).collect();
                return Ok(checked);
            }
            Err(error) => return Err(error),
        };
        checked.assembled = true;
        checked.reports = assembled.messages.iter().map(ToString::to_string).collect();
        checked.resources = assembled.functions;
        for used in &checked.resources {
            checked.reports.extend(excess(used, launch));
        }
        if let Some(launch) = launch
            && !checked.resources.iter().any(|used| used.entry == launch.entry)
        {
            checked.reports.push(format!("the text has no entry {}", launch.entry));
        }
        if let Some(floor) = &self.floor {
            match floor.assemble(text, target) {
                Ok(old) => {
                    checked.reports.extend(old.messages.iter().map(|m| format!("oldest assembler: {m}")))
                }
                Err(Error::Refused { messages }) => {
                    checked.reports.extend(messages.iter().map(|m| format!("oldest assembler: {m}")));
                }
                Err(error) => return Err(error),
            }
        }
        if let Some(nvdisasm) = &self.nvdisasm {
            checked.code = sass::analyse(&nvdisasm.disassemble(&assembled.cubin)?)?;
            checked.reports.extend(checked.code.iter().flat_map(odd));
        }
        Ok(checked)
    }
}

impl Checked {
    /// True if nothing is wrong.
    pub fn sound(&self) -> bool {
        self.assembled && self.reports.is_empty()
    }

    /// What the first entry function takes.
    pub fn taken(&self, launch: Option<&PtxKernel>) -> Option<Taken> {
        let used = self.resources.first()?;
        Some(Taken {
            registers: used.registers,
            barriers: used.barriers,
            stack: used.stack,
            spill_stores: used.spill_stores,
            spill_loads: used.spill_loads,
            smem: used.shared + launch.map_or(0, |launch| launch.smem),
            tmem_columns: launch.map(|launch| launch.tmem_columns),
        })
    }
}

/// What an entry function takes too much of.
fn excess(used: &Resources, launch: Option<&PtxKernel>) -> Vec<String> {
    let mut reports = Vec::new();
    let mut beyond = |amount: usize, most: usize, what: &str| {
        if amount > most {
            reports.push(format!("{}: {amount} {what}, {most} at most", used.entry));
        }
    };
    beyond(used.stack, 0, "bytes of stack");
    beyond(used.spill_stores, 0, "bytes of spilled registers");
    beyond(used.spill_loads, 0, "bytes of reloaded registers");
    beyond(used.shared + launch.map_or(0, |launch| launch.smem), SMEM, "bytes of shared memory");
    beyond(launch.map_or(0, |launch| launch.tmem_columns), TMEM_COLUMNS, "columns of tensor memory");
    reports
}

/// What machine code should not have.
fn odd(kernel: &Kernel) -> Vec<String> {
    let mut reports = Vec::new();
    if kernel.local > 0 {
        reports.push(format!("{}: {} accesses of local memory", kernel.name, kernel.local));
    }
    if kernel.lane_mma > 0 {
        let (name, n) = (&kernel.name, kernel.lane_mma);
        reports.push(format!("{name}: {n} matrix instructions are repeated for each lane"));
    }
    if kernel.unknown_branches > 0 {
        reports
            .push(format!("{}: {} branches lead nobody knows where", kernel.name, kernel.unknown_branches));
    }
    reports
}

/// The architecture that a text names first.
fn target(text: &str) -> &str {
    let named = text.lines().find_map(|line| line.trim_start().strip_prefix(".target"));
    named.and_then(|list| list.split([',', ' ', '\t']).find(|word| !word.is_empty())).unwrap_or("sm_100a")
}
