//! `tessera logits`: writes the tensors of the golden data for a prompt.

use crate::cli::args::{self, ModelArgs};
use crate::cli::failure::Failure;
use crate::cli::interrupt::Interrupt;
use crate::cli::{Done, output, positive};
use clap::ValueEnum;
use serde::Serialize;
use std::ops::ControlFlow;
use std::path::PathBuf;
use tessera::compile::Build;
use tessera::golden::{self, Ask, EngineRunner, OracleRunner};
use tessera::load::ModelFolder;
use tessera::model::graph::Mode;
use tessera::session::{Size, check_context, default_threads};
use tessera::tensors::{self, Tensors};
use tessera::{model, prompt};

/// Write logits and inner values of a prompt to a safetensors file
///
/// Names are those of the golden data without their mode: prefill.logits, prefill.hidden.L, prefill.pre.L, prefill.topk.L,
/// prefill.engram_hash, prefill.layers.L.route_idx and .route_w, prefill.taps; with --force decode.logits; with --draft
/// draft.tokens, .logits and .conf, one block before each forced token; with --replay compact the same for bounded replay,
/// compact.prefill.logits and, for the first 4 forced tokens, compact.decode.logits and compact.draft.*. The file appears
/// whole or not at all.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  tessera logits --tokens 0,374,1559 --force 28,409 --draft --mode f32 --out mine.safetensors"
)]
pub(crate) struct Args {
    #[command(flatten)]
    model: ModelArgs,
    /// Prompt as token ids: 1,2,3
    #[arg(long, value_name = "IDS", allow_hyphen_values = true)]
    tokens: String,
    /// Token ids that are fed one at a time after the prompt
    #[arg(long, value_name = "IDS", allow_hyphen_values = true)]
    force: Option<String>,
    /// Draft before each forced token
    #[arg(long, requires = "force")]
    draft: bool,
    /// Also prefill with the decoder half on the last prompt tokens only: off or compact (mask: not in this version)
    #[arg(long, value_name = "R", default_value = "off", value_parser = ["off", "mask", "compact"])]
    replay: String,
    /// How many prompt tokens bounded replay keeps [default: window + 12]
    #[arg(long, value_name = "N", value_parser = positive)]
    replay_keep: Option<usize>,
    /// File whose hidden.L and pre.L are the input of block L + 1 for every prompt token
    #[arg(long, value_name = "G.safetensors")]
    teacher: Option<PathBuf>,
    /// Numeric mode: ref, f32, f32q or f32kvq
    #[arg(long, value_name = "MODE", default_value = "ref", value_parser = args::mode)]
    mode: Mode,
    /// What computes: the interpreter of the graph, or the compiled model
    #[arg(long, value_enum, default_value_t = Engine::Cpu)]
    engine: Engine,
    /// Device: cpu
    #[arg(long, value_name = "D", default_value = "cpu")]
    device: String,
    /// Threads of the compiled model [default: as many as the machine has]
    #[arg(long, value_name = "N", value_parser = args::threads)]
    threads: Option<usize>,
    /// Prompt tokens that run in one step [default: all]
    #[arg(long, value_name = "N", value_parser = positive)]
    prefill_chunk: Option<usize>,
    /// File to write
    #[arg(long, value_name = "F.safetensors")]
    out: PathBuf,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// What computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Engine {
    /// The interpreter of the graph
    Oracle,
    /// The compiled model
    Cpu,
}

impl Engine {
    fn name(self) -> &'static str {
        match self {
            Engine::Oracle => "oracle",
            Engine::Cpu => "cpu",
        }
    }
}

#[derive(Serialize)]
struct Report<'a> {
    schema: &'static str,
    out: String,
    engine: &'static str,
    mode: &'static str,
    prompt: usize,
    forced: usize,
    tensors: Vec<TensorReport<'a>>,
}

#[derive(Serialize)]
struct TensorReport<'a> {
    name: &'a str,
    dtype: String,
    shape: &'a [usize],
}

pub(crate) fn main(args: &Args) -> Done {
    args::check_device(&args.device)?;
    if args.replay == "mask" {
        return Err(Failure::Input("--replay mask is not supported by this version; use compact".to_owned()));
    }
    if args.replay == "off" && args.replay_keep.is_some() {
        return Err(Failure::Input("--replay-keep needs --replay compact".to_owned()));
    }
    let interrupt = Interrupt::listen();
    let folder = args.model.open()?;
    let tokens = prompt::parse_tokens(&args.tokens)?;
    prompt::check(&folder, &tokens)?;
    let force = prompt::parse_tokens(args.force.as_deref().unwrap_or_default())?;
    model::engram::check_tokens(&force, folder.config.text.vocab_size).map_err(tessera::Error::from)?;
    check_context(&folder.config, tokens.len() + force.len())?;
    let teacher =
        args.teacher.as_ref().map(|path| golden::teacher(path, &folder.config, args.mode, tokens.len()));
    let ask = Ask {
        tokens: &tokens,
        force: &force,
        draft: args.draft,
        replay: (args.replay == "compact")
            .then(|| args.replay_keep.unwrap_or(folder.config.text.sliding_window + 12)),
        chunk: args.prefill_chunk.unwrap_or(tokens.len()).min(tokens.len()),
        teacher: teacher.transpose()?,
    };
    let tensors = compute(args, folder, &ask, &interrupt)?.ok_or(Failure::Interrupted)?;
    tensors::write(&args.out, &tensors)?;
    if args.json {
        let described = tensors.iter().map(|(name, tensor)| TensorReport {
            name,
            dtype: tensor.data.kind().to_uppercase(),
            shape: &tensor.shape,
        });
        return output::json(&Report {
            schema: "tessera.logits/1",
            out: args.out.display().to_string(),
            engine: args.engine.name(),
            mode: args.mode.name(),
            prompt: tokens.len(),
            forced: force.len(),
            tensors: described.collect(),
        });
    }
    output::text_line(&format!("{}: {} tensors", args.out.display(), tensors.len()))
}

fn compute(
    args: &Args,
    folder: ModelFolder,
    ask: &Ask<'_>,
    interrupt: &Interrupt,
) -> Result<Option<Tensors>, Failure> {
    let build = Build {
        mode: args.mode,
        trace: true,
        teacher: ask.teacher.is_some(),
        replay: ask.replay.is_some(),
        draft: ask.draft,
    };
    let context = ask.tokens.len() + ask.force.len();
    let config = folder.config.clone();
    let total = golden::work(ask);
    let collect = |runner: &mut dyn golden::Runner| {
        let bar = output::bar("tokens", total);
        let result = golden::collect(&config, ask, runner, &mut |done| {
            bar.set_position(done as u64);
            if interrupt.requested() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        bar.finish_and_clear();
        result
    };
    match args.engine {
        Engine::Oracle => {
            if args.threads.is_some() {
                return Err(Failure::Input(
                    "--threads is for --engine cpu: the oracle runs on one".to_owned(),
                ));
            }
            let weights = folder.decoded_weights()?;
            let mut runner = OracleRunner::new(&folder, &weights, build, context, ask.chunk)?;
            Ok(collect(&mut runner)?)
        }
        Engine::Cpu => {
            let session = args::session(folder, build)?;
            let threads = args.threads.unwrap_or_else(default_threads);
            let size = Size { threads, slots: 1, context, rows: ask.chunk, all_logits: true };
            Ok(collect(&mut EngineRunner(session.engine(size)?))?)
        }
    }
}
