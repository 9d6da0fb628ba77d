//! The memory of an engine by kind, from the artifact's types; nothing is allocated.

use crate::cli::output;
use serde::Serialize;
use std::collections::BTreeMap;
use tessera::ir::artifact::{Artifact, BufferKind, MemoryPlan};
use tessera::ir::{Bindings, Layout};
use tessera::model::Config;
use tessera::model::rows::Capacity;
use tessera::{Error, Result};

/// Sizes of the engine.
#[derive(Clone, Copy, Debug)]
pub(super) struct Size {
    pub(super) context: usize,
    pub(super) rows: usize,
    pub(super) threads: usize,
}

#[derive(Serialize)]
pub(super) struct MemoryReport {
    context: usize,
    prefill_chunk: usize,
    threads: usize,
    kinds: Vec<Kind>,
    total_bytes: usize,
}

#[derive(Serialize)]
struct Kind {
    kind: &'static str,
    what: &'static str,
    bytes: usize,
}

/// Kinds of states by the end of their names.
const STATES: [(&str, &str, &str); 5] = [
    (".window", "window rings", "the last positions of every layer and draft stage"),
    (".cache", "compressed entries", "keys and values of the compressed sources"),
    (".index", "index keys", "what the indexers score"),
    (".tail_kv", "compressor tails", "entries that are not complete"),
    (".tail_gate", "compressor tails", "entries that are not complete"),
];

/// Memory of one sequence slot and its weights.
pub(super) fn report(artifact: &Artifact, config: &Config, size: Size) -> Result<MemoryReport> {
    let overflow = || Error::Request("the sizes overflow; use a smaller context or chunk".to_owned());
    let mut limits = Bindings::new();
    Capacity { slots: 1, tokens: size.context, rows: size.rows }.bind(config, &mut limits);
    limits.set("T", size.rows).set("L", 1).set("K", size.rows).set("Q", 1);
    let mut weights: BTreeMap<(&str, &str), (Layout, usize)> = BTreeMap::new();
    let mut states: BTreeMap<&str, usize> = BTreeMap::new();
    let mut arena = 0usize;
    for program in &artifact.programs {
        arena += MemoryPlan::new(program, &limits).map_err(|_| overflow())?.bytes;
        for buffer in &program.buffers {
            let planes =
                || buffer.ty.plane_bytes(&limits).map(|planes| planes.iter().sum()).ok_or_else(overflow);
            match buffer.kind {
                BufferKind::Weight => {
                    weights.insert((&buffer.name, buffer.ty.layout.name()), (buffer.ty.layout, planes()?));
                }
                BufferKind::State => {
                    states.insert(&buffer.name, planes()?);
                }
                BufferKind::Input | BufferKind::Output | BufferKind::Temp { .. } => {}
            }
        }
    }
    let of_layout = |layout: Layout| weights.values().filter(|(l, _)| *l == layout).map(|(_, n)| n).sum();
    let mut kinds = vec![
        Kind {
            kind: "weights in place",
            what: "read from the mapped checkpoint",
            bytes: of_layout(Layout::Rows),
        },
        Kind {
            kind: "weights repacked",
            what: "in panels for the kernels",
            bytes: of_layout(Layout::Panels16),
        },
    ];
    for (end, kind, what) in STATES {
        let bytes = states.iter().filter(|(name, _)| name.ends_with(end)).map(|(_, n)| n).sum();
        match kinds.last_mut().filter(|last| last.kind == kind) {
            Some(last) => last.bytes += bytes,
            None => kinds.push(Kind { kind, what, bytes }),
        }
    }
    let known = |name: &str| STATES.iter().any(|(end, _, _)| name.ends_with(end));
    let history = states.iter().filter(|(name, _)| !known(name)).map(|(_, n)| n).sum();
    kinds.push(Kind { kind: "token history", what: "for Engram's n-grams", bytes: history });
    kinds.push(Kind { kind: "activations", what: "one arena a program", bytes: arena });
    let scratch = artifact.kernels.iter().map(|kernel| kernel.scratch.eval(&limits));
    let scratch =
        scratch.collect::<Option<Vec<usize>>>().ok_or_else(overflow)?.into_iter().max().unwrap_or(0);
    kinds.push(Kind {
        kind: "scratch",
        what: "rings and tiles of the kernels, all threads",
        bytes: scratch * size.threads,
    });
    let code = artifact.kernels.iter().map(|kernel| kernel.code.len().next_multiple_of(64)).sum();
    kinds.push(Kind { kind: "code", what: "compiled kernels", bytes: code });
    let total_bytes = kinds.iter().map(|kind| kind.bytes).sum();
    Ok(MemoryReport {
        context: size.context,
        prefill_chunk: size.rows,
        threads: size.threads,
        kinds,
        total_bytes,
    })
}

impl MemoryReport {
    pub(super) fn text(&self) -> String {
        let row =
            |kind: &Kind| vec![kind.kind.to_owned(), output::bytes(kind.bytes as u64), kind.what.to_owned()];
        let mut rows: Vec<Vec<String>> = self.kinds.iter().map(row).collect();
        rows.push(vec!["total".to_owned(), output::bytes(self.total_bytes as u64), String::new()]);
        format!(
            "memory of one sequence of {} tokens, {} rows a step, {} threads\n{}",
            self.context,
            self.prefill_chunk,
            self.threads,
            output::table(&["kind", "bytes", "what"], &rows, 3)
        )
    }
}
