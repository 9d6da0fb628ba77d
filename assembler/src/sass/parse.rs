//! Reads the disassembler's text: sections of code, instructions, labels.

use crate::error::{Error, Result};
use std::collections::BTreeMap;

/// An instruction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Instruction {
    /// Address in its section.
    pub address: u64,
    /// Line of the text, from 1.
    pub line: usize,
    /// Guard, as `!P0`.
    pub guard: Option<String>,
    /// Mnemonic with modifiers.
    pub opcode: String,
    /// Operands as they are written.
    pub operands: String,
    /// Instructions of the section that its operands name by label.
    pub targets: Vec<usize>,
}

/// The code of a kernel, functions that it calls included.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Section {
    /// Name of the entry function.
    pub name: String,
    /// Instructions by address, padding left out.
    pub instructions: Vec<Instruction>,
}

/// The code sections of a disassembly, in its order.
///
/// # Errors
/// There is none, or one is not what the disassembler writes.
pub fn sections(text: &str) -> Result<Vec<Section>> {
    let unexpected = |text: String| Error::Unexpected { tool: "nvdisasm", text };
    let mut sections: Vec<Section> = Vec::new();
    let mut labels: Vec<BTreeMap<&str, usize>> = Vec::new();
    for (line, row) in (1..).zip(text.lines()) {
        if let Some(rest) = row.trim_start().strip_prefix(".section") {
            if let Some(name) = rest.trim_start().strip_prefix(".text.") {
                let name = name.split([',', '\t', ' ']).next().unwrap_or_default().to_owned();
                sections.push(Section { name, instructions: Vec::new() });
                labels.push(BTreeMap::new());
            }
            continue;
        }
        let Some(section) = sections.last_mut() else { continue };
        let code = row.trim_start();
        if let Some(rest) = code.strip_prefix("/*") {
            let instruction =
                instruction(line, rest).ok_or_else(|| unexpected(format!("line {line}: {code}")))?;
            section.instructions.push(instruction);
        } else if let (Some(label), Some(known)) = (row.trim_end().strip_suffix(':'), labels.last_mut())
            && !row.starts_with([' ', '\t'])
        {
            known.insert(label, section.instructions.len());
        }
    }
    if sections.is_empty() {
        return Err(unexpected("no code section".to_owned()));
    }
    for (section, labels) in sections.iter_mut().zip(&labels) {
        for instruction in &mut section.instructions {
            instruction.targets =
                named(&instruction.operands).filter_map(|label| labels.get(label).copied()).collect();
        }
        let padded = section.instructions.len();
        let filled = section.instructions.iter().rposition(|i| i.opcode != "NOP").map_or(0, |last| last + 1);
        section.instructions.truncate(filled);
        let own = filled.wrapping_sub(1);
        let parked = |i: &Instruction| i.opcode == "BRA" && i.guard.is_none() && i.targets == [own];
        if filled < padded && section.instructions.last().is_some_and(parked) {
            section.instructions.pop();
        }
        // A label may stand after the last instruction.
        let end = section.instructions.len();
        section.instructions.iter_mut().for_each(|i| i.targets.retain(|target| *target < end));
    }
    Ok(sections)
}

/// Labels in operands, as in `` `(.L_x_7) ``, or in a list of branch targets.
fn named(operands: &str) -> impl Iterator<Item = &str> {
    operands
        .split(['(', ')', '`', ',', ' ', '"', '*'])
        .filter(|word| word.starts_with('.') || word.starts_with('$'))
}

/// `0460*/  @!P0 BRA ...;`, what follows `/*`.
fn instruction(line: usize, rest: &str) -> Option<Instruction> {
    let (address, code) = rest.split_once("*/")?;
    let address = u64::from_str_radix(address, 16).ok()?;
    let code = code.split(';').next()?.trim();
    let (guard, code) = match code.strip_prefix('@') {
        Some(guarded) => {
            let (guard, code) = guarded.split_once(' ')?;
            (Some(guard.to_owned()), code.trim_start())
        }
        None => (None, code),
    };
    let (opcode, operands) = code.split_once(' ').unwrap_or((code, ""));
    if opcode.is_empty() {
        return None;
    }
    Some(Instruction {
        address,
        line,
        guard,
        opcode: opcode.to_owned(),
        operands: operands.trim().to_owned(),
        targets: Vec::new(),
    })
}
