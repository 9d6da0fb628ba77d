//! `tessera inspect`: what a model is, how it is fused, how much memory it takes.

mod memory;
mod plan;

use crate::cli::args::{self, ModelArgs};
use crate::cli::{Done, output, positive};
use clap::ValueEnum;
use memory::MemoryReport;
use plan::PlanReport;
use serde::Serialize;
use tessera::compile::{self, Build};
use tessera::ir::graph;
use tessera::load::ModelFolder;
use tessera::model::graph::Mode;
use tessera::model::{LayerKind, LayerRole};
use tessera::session::{check_context, default_threads};

/// Show a model's topology, its graph, its fused plan or its memory
///
/// Without a flag: topology and tensors. With flags: what they name, so that the output of --graph alone is a .tir file.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  tessera inspect\n  tessera inspect --model DIR --plan --memory --context 4096"
)]
pub(crate) struct Args {
    #[command(flatten)]
    model: ModelArgs,
    /// Print the Graph IR of a program
    #[arg(long)]
    graph: bool,
    /// Print the kernels of a program and their bytes
    #[arg(long)]
    plan: bool,
    /// Print the memory that an engine takes
    #[arg(long)]
    memory: bool,
    /// Program to print
    #[arg(long, value_enum, default_value_t = Program::Step)]
    program: Program,
    /// Numeric mode: ref, f32, f32q or f32kvq
    #[arg(long, value_name = "MODE", default_value = "ref", value_parser = args::mode)]
    mode: Mode,
    /// Tokens of the longest sequence, for --memory
    #[arg(long, value_name = "N", default_value = "4096", value_parser = positive)]
    context: usize,
    /// Prompt tokens that run in one step, for --memory
    #[arg(long, value_name = "N", default_value = "512", value_parser = positive)]
    prefill_chunk: usize,
    /// Threads, for --memory [default: as many as the machine has]
    #[arg(long, value_name = "N", value_parser = args::threads)]
    threads: Option<usize>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// A program of the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Program {
    /// Rows through the backbone
    Step,
    /// The DSpark stages
    Draft,
}

impl Program {
    fn name(self) -> &'static str {
        match self {
            Program::Step => compile::STEP,
            Program::Draft => compile::DRAFT,
        }
    }
}

#[derive(Serialize)]
struct Report {
    schema: &'static str,
    mode: &'static str,
    model: Model,
    layers: Vec<Layer>,
    tensors: Tensors,
    notes: Vec<String>,
    graph: Option<GraphReport>,
    plan: Option<PlanReport>,
    memory: Option<MemoryReport>,
}

#[derive(Serialize)]
struct Model {
    layers: usize,
    stages: usize,
    decoder_start: usize,
    hidden_size: usize,
    streams: usize,
    heads: usize,
    head_dim: usize,
    experts: usize,
    experts_per_token: usize,
    vocabulary: usize,
    window: usize,
    positions: usize,
    tokenizer: bool,
}

#[derive(Serialize)]
struct Layer {
    layer: usize,
    kind: &'static str,
    ratio: usize,
    kv_source: Option<usize>,
    index_source: Option<usize>,
    candidate_source: Option<usize>,
    makes_candidates: bool,
    engram: bool,
    tap: bool,
}

#[derive(Serialize)]
struct Tensors {
    used: usize,
    used_bytes: u64,
    vision: usize,
}

#[derive(Serialize)]
struct GraphReport {
    program: &'static str,
    text: String,
}

pub(crate) fn main(args: &Args) -> Done {
    let folder = args.model.open()?;
    let build = Build { draft: true, ..Build::plain(args.mode) };
    let (config, topology) = (&folder.config, &folder.topology);
    let program = args.program.name();
    let graph = if args.graph {
        let modules = compile::modules(config, topology, build)?;
        let module = modules.iter().find(|(name, _)| *name == program);
        module.map(|(_, module)| GraphReport { program, text: graph::print(module) })
    } else {
        None
    };
    let plan =
        if args.plan { Some(plan::report(&compile::plan(config, topology, build)?, program)) } else { None };
    let memory = if args.memory {
        check_context(config, args.context)?;
        let size = memory::Size {
            context: args.context,
            rows: args.prefill_chunk,
            threads: args.threads.unwrap_or_else(default_threads),
        };
        Some(memory::report(&compile::artifact(config, topology, Build::plain(args.mode))?, config, size)?)
    } else {
        None
    };
    let report = Report {
        schema: "tessera.inspect/1",
        mode: args.mode.name(),
        model: model(&folder),
        layers: topology.layers.iter().enumerate().map(|(at, role)| layer(at, role)).collect(),
        tensors: Tensors {
            used: folder.report.used,
            used_bytes: folder.report.used_bytes,
            vision: folder.report.vision,
        },
        notes: folder.notes(),
        graph,
        plan,
        memory,
    };
    if args.json {
        return output::json(&report);
    }
    let mut sections = Vec::new();
    if !(args.graph || args.plan || args.memory) {
        sections.push(topology_text(&report));
    }
    sections.extend(report.graph.as_ref().map(|graph| graph.text.clone()));
    sections.extend(report.plan.as_ref().map(PlanReport::text));
    sections.extend(report.memory.as_ref().map(MemoryReport::text));
    output::text_line(&sections.join("\n"))
}

fn model(folder: &ModelFolder) -> Model {
    let text = &folder.config.text;
    Model {
        layers: text.num_hidden_layers,
        stages: folder.topology.stages,
        decoder_start: folder.topology.decoder_start,
        hidden_size: text.hidden_size,
        streams: text.hc_mult,
        heads: text.num_attention_heads,
        head_dim: text.head_dim,
        experts: text.n_routed_experts,
        experts_per_token: text.num_experts_per_tok,
        vocabulary: text.vocab_size,
        window: text.sliding_window,
        positions: text.max_position_embeddings,
        tokenizer: folder.tokenizer.is_some(),
    }
}

fn kind(kind: LayerKind) -> &'static str {
    match kind {
        LayerKind::Window => "window",
        LayerKind::Full => "full",
        LayerKind::Reindex => "reindex",
        LayerKind::Reuse => "reuse",
    }
}

fn layer(at: usize, role: &LayerRole) -> Layer {
    Layer {
        layer: at,
        kind: kind(role.kind),
        ratio: role.ratio,
        kv_source: role.kv_source,
        index_source: role.index_source,
        candidate_source: role.candidate_source,
        makes_candidates: role.makes_candidates,
        engram: role.engram.is_some(),
        tap: role.tap.is_some(),
    }
}

fn topology_text(report: &Report) -> String {
    let Model {
        layers, stages, hidden_size, streams, heads, head_dim, vocabulary, window, positions, ..
    } = report.model;
    let mut text = format!(
        "{layers} layers and {stages} draft stages, {streams} streams of {hidden_size}, {heads} heads of {head_dim}, \
         {} of {} experts\nvocabulary {vocabulary}, window {window}, up to {positions} positions, {}\n",
        report.model.experts_per_token,
        report.model.experts,
        if report.model.tokenizer { "with a tokenizer" } else { "without a tokenizer" },
    );
    let Tensors { used, used_bytes, .. } = report.tensors;
    text += &format!("{used} tensors, {}\n\n", output::bytes(used_bytes));
    let number = |n: Option<usize>| n.map_or("-".to_owned(), |n| n.to_string());
    let row = |l: &Layer| {
        let mut also = Vec::new();
        also.extend(l.engram.then_some("engram"));
        also.extend(l.makes_candidates.then_some("candidates"));
        also.extend(l.tap.then_some("tap"));
        vec![
            l.layer.to_string(),
            l.kind.to_owned(),
            l.ratio.to_string(),
            number(l.kv_source),
            number(l.index_source),
            number(l.candidate_source),
            also.join(", "),
        ]
    };
    let rows: Vec<Vec<String>> = report.layers.iter().map(row).collect();
    let head = ["layer", "kind", "ratio", "entries of", "selection of", "candidates of", "also"];
    text += &output::table(&head, &rows, head.len());
    text
}
