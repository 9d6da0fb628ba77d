//! Counts loops by the rule of this module's parent.

use super::flow::{Flow, Natural};
use super::parse::{Instruction, Section};
use super::{Kernel, Loop, base, count, is_mma};
use std::collections::BTreeSet;

/// Counts a section.
pub(super) fn kernel(section: &Section) -> Kernel {
    let flow = Flow::of(section);
    let code = &section.instructions;
    let (lanes, loops): (Vec<Natural>, Vec<Natural>) =
        flow.loops().into_iter().partition(|natural| is_lane_loop(&flow, code, natural));
    let mma = code.iter().filter(|i| is_mma(&i.opcode)).count();
    let repeated: BTreeSet<usize> =
        loops.iter().flat_map(|l| l.blocks.iter()).flat_map(|b| flow.blocks[*b].clone()).collect();
    let mma_in_loops = repeated.iter().filter(|i| is_mma(&code[**i].opcode)).count();
    Kernel {
        name: section.name.clone(),
        instructions: code.len(),
        mma,
        mma_outside_loops: mma - mma_in_loops,
        local: code.iter().filter(|i| matches!(base(&i.opcode), "LDL" | "STL")).count(),
        lane_loops: lanes.len(),
        lane_mma: lanes
            .iter()
            .flat_map(|natural| instructions(&flow, code, &natural.blocks))
            .filter(|i| i.opcode.starts_with("UTC"))
            .count(),
        unknown_branches: flow.unknown,
        counts: count(code),
        loops: loops.iter().map(|natural| measure(&flow, code, natural, &loops)).collect(),
    }
}

/// Instructions of blocks, ascending.
fn instructions<'a>(
    flow: &'a Flow,
    code: &'a [Instruction],
    blocks: &'a BTreeSet<usize>,
) -> impl Iterator<Item = &'a Instruction> {
    blocks.iter().flat_map(|b| code[flow.blocks[*b].clone()].iter())
}

/// True if every branch back asks whether any lane is left.
fn is_lane_loop(flow: &Flow, code: &[Instruction], natural: &Natural) -> bool {
    let back = natural.latches.iter().map(|b| &code[flow.blocks[*b].end - 1]);
    back.into_iter().all(|i| i.opcode.starts_with("BRA") && i.opcode.ends_with(".ANY"))
}

/// True if an instruction looks whether something happened.
fn polls(i: &Instruction) -> bool {
    match base(&i.opcode) {
        "SYNCS" => i.opcode.contains("PHASECHK"),
        "LD" | "LDG" => i.opcode.contains("STRONG"),
        "NANOSLEEP" => true,
        _ => false,
    }
}

/// True if blocks do nothing but look whether something happened, and work out where to look.
fn only_polls(flow: &Flow, code: &[Instruction], blocks: &BTreeSet<usize>) -> bool {
    const ASIDE: &[&str] = &[
        "BRA", "BREAK", "BSSY", "BSYNC", "CCTL", "CS2R", "IADD3", "IMAD", "ISETP", "LOP3", "MOV", "NOP",
        "PLOP3", "R2UR", "SHF", "UIADD3", "UISETP", "ULEA", "ULOP3", "UMOV", "UPLOP3", "USHF", "VIADD",
        "WARPSYNC", "YIELD",
    ];
    instructions(flow, code, blocks).all(|i| polls(i) || ASIDE.contains(&base(&i.opcode)))
        && instructions(flow, code, blocks).any(polls)
}

fn measure(flow: &Flow, code: &[Instruction], natural: &Natural, all: &[Natural]) -> Loop {
    let inside = |other: &&Natural| other.header != natural.header && other.blocks.is_subset(&natural.blocks);
    let around =
        all.iter().filter(|o| o.header != natural.header && natural.blocks.is_subset(&o.blocks)).count();
    // What runs only while a wait that the loop can go round without goes on.
    let mut waiting = BTreeSet::new();
    for wait in all.iter().filter(inside).filter(|other| only_polls(flow, code, &other.blocks)) {
        let mut without = wait.blocks.clone();
        without.extend(&waiting);
        let left = flow.reachable(natural.header, &natural.blocks, &without);
        let apart: BTreeSet<usize> = natural.blocks.difference(&left).copied().collect();
        if natural.latches.iter().any(|latch| left.contains(latch)) && only_polls(flow, code, &apart) {
            waiting.extend(apart);
        }
    }
    let counted: BTreeSet<usize> = natural.blocks.difference(&waiting).copied().collect();
    let is_matrix = |i: &&Instruction| is_mma(&i.opcode);
    let total = instructions(flow, code, &counted).count();
    let mma = instructions(flow, code, &counted).filter(is_matrix).count();
    let repeats_mma = |other: &Natural| instructions(flow, code, &other.blocks).any(|i| is_mma(&i.opcode));
    let first = &code[flow.blocks[natural.header].start];
    let back = natural.latches.iter().map(|b| &code[flow.blocks[*b].end - 1]);
    let last = back.max_by_key(|i| i.address).unwrap_or(first);
    Loop {
        first: first.address,
        last: last.address,
        first_line: first.line,
        last_line: last.line,
        depth: around,
        steady: mma > 0 && !all.iter().filter(inside).any(repeats_mma),
        instructions: total,
        waiting: instructions(flow, code, &waiting).count(),
        mma,
        others: total - mma,
        others_per_mma: (mma > 0).then(|| (total - mma) as f64 / mma as f64),
        counts: count(instructions(flow, code, &counted)),
    }
}
