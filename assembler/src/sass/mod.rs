//! What is in disassembled machine code: instructions by kind, and the loops that issue matrix instructions.
//!
//! The rule, one for every kernel ([`RULE`] says it in short):
//!
//! * An **instruction** is a line of the disassembly with an address. The filling at the end of a section (`NOP` after the
//!   last instruction, and a branch to itself before it) is none.
//! * A **loop** is a natural loop of the control-flow graph: a branch back to an instruction that every path to the branch
//!   passes; branches to one instruction make one loop. So code that the assembler moves out of the way belongs to the loop
//!   that it returns to.
//! * A **lane loop**, closed by `BRA.U.ANY`, repeats an instruction for each lane, because operands differ between lanes or
//!   the assembler could not prove that one lane runs it. It counts as part of the loop around it, each instruction once.
//!   Copies of gathered rows are repeated on purpose; matrix instructions should never be.
//! * A **wait** is a loop inside a loop that only polls a barrier or a word. Where the loop can go round without it (the
//!   first poll succeeds), it and the branch back from it are counted apart, as `waiting`; otherwise it counts as run once.
//! * Everything else in the loop counts once, whatever its guard or branch.
//! * A loop is **steady** if it issues matrix instructions and no loop inside it does. *Others per matrix instruction* is its
//!   number of instructions that are none, divided by its number of those that are.

mod flow;
mod loops;
mod parse;

pub use parse::{Instruction, Section, sections};

use crate::error::Result;
use crate::ptxas::Resources;
use serde::Serialize;
use std::collections::BTreeMap;

/// The rule in a few lines, for help texts and reports.
pub const RULE: &str = "\
a loop is a natural loop of the control-flow graph (a branch back to an instruction that every path to the branch \
passes), with code moved out of line; every instruction in it counts once, NOPs included; a loop inside it that only \
polls counts as run once, or, where the first poll has its own instruction before it, apart as `waiting`; loops closed \
by BRA.U.ANY (one round a lane) are no loops; the steady loop is the innermost one with matrix instructions (UTC*MMA); \
others are its instructions that are not; padding after the last instruction of a section is not counted";

/// Mnemonics that reports count.
const KINDS: &[&str] = &[
    "BAR", "ELECT", "F2FP", "HMMA", "LDG", "LDL", "LDS", "LDTM", "MEMBAR", "MUFU", "QMMA", "R2UR", "SHFL",
    "STG", "STL", "STS", "STTM", "SYNCS", "UBLKCP", "UTCBAR", "UTCCP", "UTCHMMA", "UTCIMMA", "UTCOMMA",
    "UTCQMMA", "UTMALDG", "UTMAREDG", "UTMASTG",
];

/// Counts by kind; kinds that do not occur are left out.
pub type Counts = BTreeMap<&'static str, usize>;

/// What is in a file of machine code.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct File {
    /// The file as it was named.
    pub file: String,
    /// What the assembler says; empty for files that were assembled before.
    pub resources: Vec<Resources>,
    /// What its kernels consist of.
    pub kernels: Vec<Kernel>,
}

/// What is in several files: the object that `cargo xtask sass --json` prints.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// `tessera.sass/1`.
    pub schema: &'static str,
    /// [`RULE`].
    pub rule: &'static str,
    /// The files.
    pub files: Vec<File>,
}

impl Report {
    /// A report on files.
    pub fn new(files: Vec<File>) -> Report {
        Report { schema: "tessera.sass/1", rule: RULE, files }
    }
}

/// What the machine code of a kernel consists of.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Kernel {
    /// Name of the entry function.
    pub name: String,
    /// Instructions, padding left out.
    pub instructions: usize,
    /// Matrix instructions.
    pub mma: usize,
    /// Those of them that no loop repeats.
    pub mma_outside_loops: usize,
    /// Accesses of a thread's own memory: spilled registers and arrays.
    pub local: usize,
    /// Loops that repeat an instruction for each lane.
    pub lane_loops: usize,
    /// Matrix instructions, and copies and commits for them (`UTC*`), that such loops repeat.
    pub lane_mma: usize,
    /// Branches whose targets the disassembly does not name; loops through them are not found.
    pub unknown_branches: usize,
    /// Instructions by kind.
    pub counts: Counts,
    /// Loops, by address.
    pub loops: Vec<Loop>,
}

/// A loop of a kernel.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Loop {
    /// Address of the instruction it goes back to.
    pub first: u64,
    /// Address of the last branch back.
    pub last: u64,
    /// Line of `first` in the disassembly, from 1.
    pub first_line: usize,
    /// Line of `last`.
    pub last_line: usize,
    /// Loops around it.
    pub depth: usize,
    /// True for the innermost loops with matrix instructions.
    pub steady: bool,
    /// Instructions, `waiting` left out.
    pub instructions: usize,
    /// Instructions that run only while something is waited for.
    pub waiting: usize,
    /// Matrix instructions.
    pub mma: usize,
    /// Instructions that are none.
    pub others: usize,
    /// `others / mma`.
    pub others_per_mma: Option<f64>,
    /// Instructions by kind, `waiting` left out.
    pub counts: Counts,
}

impl Kernel {
    /// The steady loop with the most matrix instructions: the one a kernel spends its time in. The first of equals.
    pub fn steady(&self) -> Option<&Loop> {
        let steady = self.loops.iter().filter(|l| l.steady);
        steady.min_by_key(|l| std::cmp::Reverse(l.mma))
    }
}

/// Counts what is in a disassembly, kernel by kernel in its order.
///
/// # Errors
/// The text is not what the disassembler writes.
pub fn analyse(text: &str) -> Result<Vec<Kernel>> {
    Ok(sections(text)?.iter().map(loops::kernel).collect())
}

/// True for instructions that start a product on the tensor cores' own memory.
fn is_mma(opcode: &str) -> bool {
    opcode.starts_with("UTC") && base(opcode).ends_with("MMA")
}

/// The mnemonic without its modifiers.
fn base(opcode: &str) -> &str {
    opcode.split('.').next().unwrap_or(opcode)
}

/// Counts instructions by kind.
fn count<'a>(instructions: impl IntoIterator<Item = &'a Instruction>) -> Counts {
    let mut counts = Counts::new();
    for instruction in instructions {
        if let Some(name) = KINDS.iter().find(|kind| **kind == base(&instruction.opcode)) {
            *counts.entry(name).or_default() += 1;
        }
    }
    counts
}
