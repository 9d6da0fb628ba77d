//! The control-flow graph of a section and its natural loops.

use super::base;
use super::parse::{Instruction, Section};
use std::collections::{BTreeMap, BTreeSet};

/// Blocks of instructions that run one after another.
#[derive(Debug)]
pub(super) struct Flow {
    /// Ranges of instructions, ascending.
    pub(super) blocks: Vec<std::ops::Range<usize>>,
    /// Blocks that may run next.
    pub(super) next: Vec<Vec<usize>>,
    /// Branches whose targets nobody names.
    pub(super) unknown: usize,
}

/// A natural loop.
#[derive(Clone, Debug)]
pub(super) struct Natural {
    /// The block that it goes back to.
    pub(super) header: usize,
    /// Blocks that branch back.
    pub(super) latches: Vec<usize>,
    /// Every block, header and latches included.
    pub(super) blocks: BTreeSet<usize>,
}

/// Where an instruction may lead.
struct Leads {
    /// To the next instruction.
    on: bool,
    /// To its targets.
    away: bool,
    /// Nowhere that the text names.
    unknown: bool,
}

fn leads(i: &Instruction) -> Leads {
    let (on, away) = match base(&i.opcode) {
        "BRA" | "JMP" | "BRX" | "JMX" | "BRXU" => {
            // `BRA target`, `@P0 BRA target`, `BRA.U UP0, target`, `BRA.DIV UR4, target`.
            let plain = i.operands.starts_with('`') || i.targets.len() > 1;
            (i.guard.is_some() || !plain, true)
        }
        "EXIT" | "RET" | "KILL" => (i.guard.is_some(), false),
        "WARPSYNC" => (true, true),
        // Where a barrier leads is where it was set up to lead.
        "BSYNC" => (i.guard.is_some(), false),
        // A function returns to the next instruction; a barrier's target is where its BSYNC leads.
        _ => (true, false),
    };
    Leads { on, away, unknown: away && i.targets.is_empty() && base(&i.opcode) != "WARPSYNC" }
}

impl Flow {
    /// The graph of a section.
    pub(super) fn of(section: &Section) -> Flow {
        let code = &section.instructions;
        let mut starts: BTreeSet<usize> = code.iter().flat_map(|i| i.targets.iter().copied()).collect();
        starts.insert(0);
        for (n, i) in code.iter().enumerate() {
            let l = leads(i);
            if !l.on || l.away || base(&i.opcode) == "BSYNC" {
                starts.insert(n + 1);
            }
        }
        let starts: Vec<usize> = starts.into_iter().filter(|start| *start < code.len()).collect();
        let ends = starts.iter().skip(1).copied().chain([code.len()]);
        let blocks: Vec<_> = starts.iter().copied().zip(ends).map(|(start, end)| start..end).collect();
        let block_of: BTreeMap<usize, usize> =
            starts.iter().enumerate().map(|(b, start)| (*start, b)).collect();
        let mut next: Vec<Vec<usize>> = Vec::with_capacity(blocks.len());
        let mut unknown = 0;
        for block in &blocks {
            let last = &code[block.end - 1];
            let l = leads(last);
            unknown += usize::from(l.unknown);
            let on = block_of.get(&block.end).filter(|_| l.on);
            let away = last.targets.iter().filter(|_| l.away).filter_map(|target| block_of.get(target));
            let mut to: Vec<usize> = on.into_iter().chain(away).copied().collect();
            to.sort_unstable();
            to.dedup();
            next.push(to);
        }
        let mut flow = Flow { blocks, next, unknown };
        flow.rejoin(code, &block_of);
        flow
    }

    /// Adds the edges of `BSYNC`: to the target of each `BSSY` of its barrier that reaches it.
    fn rejoin(&mut self, code: &[Instruction], block_of: &BTreeMap<usize, usize>) {
        let barrier = |i: &Instruction| i.operands.split(',').next().unwrap_or_default().trim().to_owned();
        loop {
            // Barriers set up where a block begins, with the targets they may have.
            let mut at: Vec<BTreeMap<String, BTreeSet<usize>>> = vec![BTreeMap::new(); self.blocks.len()];
            let mut work: Vec<usize> = (0..self.blocks.len()).collect();
            let mut added = false;
            while let Some(b) = work.pop() {
                let mut set = at[b].clone();
                for i in &code[self.blocks[b].clone()] {
                    match base(&i.opcode) {
                        "BSSY" => {
                            set.insert(barrier(i), i.targets.iter().copied().collect());
                        }
                        "BSYNC" => {
                            let known = set.get(&barrier(i)).into_iter().flatten();
                            for to in known.filter_map(|target| block_of.get(target)) {
                                if !self.next[b].contains(to) {
                                    self.next[b].push(*to);
                                    added = true;
                                }
                            }
                        }
                        _ => {}
                    }
                }
                for &to in &self.next[b] {
                    let mut grew = false;
                    for (name, targets) in &set {
                        let known = at[to].entry(name.clone()).or_default();
                        let before = known.len();
                        known.extend(targets);
                        grew |= known.len() > before;
                    }
                    if grew {
                        work.push(to);
                    }
                }
            }
            if !added {
                return;
            }
        }
    }

    /// Blocks reachable from `from` without entering a block of `without`.
    pub(super) fn reachable(
        &self,
        from: usize,
        inside: &BTreeSet<usize>,
        without: &BTreeSet<usize>,
    ) -> BTreeSet<usize> {
        let mut seen = BTreeSet::new();
        let mut work = vec![from];
        while let Some(b) = work.pop() {
            if inside.contains(&b) && !without.contains(&b) && seen.insert(b) {
                work.extend(&self.next[b]);
            }
        }
        seen
    }

    /// Natural loops, outer ones before inner ones of the same place, by header.
    pub(super) fn loops(&self) -> Vec<Natural> {
        let dominators = self.dominators();
        let before = self.before();
        let mut loops: BTreeMap<usize, Natural> = BTreeMap::new();
        for (b, to) in self.next.iter().enumerate() {
            for header in to.iter().copied().filter(|h| dominators[b].contains(h)) {
                let natural = loops.entry(header).or_insert_with(|| Natural {
                    header,
                    latches: Vec::new(),
                    blocks: BTreeSet::from([header]),
                });
                natural.latches.push(b);
                let mut work = vec![b];
                while let Some(b) = work.pop() {
                    // Only what the header dominates can be in the loop; code that nothing reaches dominates nothing.
                    if dominators[b].contains(&header) && natural.blocks.insert(b) {
                        work.extend(&before[b]);
                    }
                }
            }
        }
        loops.into_values().collect()
    }

    fn before(&self) -> Vec<Vec<usize>> {
        let mut before = vec![Vec::new(); self.next.len()];
        for (b, to) in self.next.iter().enumerate() {
            to.iter().for_each(|t| before[*t].push(b));
        }
        before
    }

    /// For each block the blocks that every path from the first one passes, itself included; none for blocks that no path
    /// reaches.
    fn dominators(&self) -> Vec<BTreeSet<usize>> {
        let all: BTreeSet<usize> = (0..self.blocks.len()).collect();
        let reached =
            if self.blocks.is_empty() { BTreeSet::new() } else { self.reachable(0, &all, &BTreeSet::new()) };
        let before = self.before();
        let mut known: Vec<Option<BTreeSet<usize>>> = vec![None; self.blocks.len()];
        loop {
            let mut changed = false;
            for &b in &reached {
                let mut common: Option<BTreeSet<usize>> = (b == 0).then(BTreeSet::new);
                for set in before[b].iter().filter_map(|p| known[*p].as_ref()) {
                    common = Some(match common {
                        Some(common) => common.intersection(set).copied().collect(),
                        None => set.clone(),
                    });
                }
                let Some(mut set) = common else { continue };
                set.insert(b);
                if known[b].as_ref() != Some(&set) {
                    known[b] = Some(set);
                    changed = true;
                }
            }
            if !changed {
                return known.into_iter().map(Option::unwrap_or_default).collect();
            }
        }
    }
}
