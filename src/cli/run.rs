//! `tessera run`: generates text, streamed to standard output or as JSON.

use crate::cli::args::{self, ModelArgs};
use crate::cli::failure::Failure;
use crate::cli::interrupt::Interrupt;
use crate::cli::jobs::{self, Broken, Defaults, Job};
use crate::cli::{Done, output, positive};
use serde::Serialize;
use serde_json::Value;
use std::io;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use tessera::compile::Build;
use tessera::load::ModelFolder;
use tessera::model::chat::{Effort, Thinking};
use tessera::model::graph::Mode;
use tessera::model::{StreamDecoder, Tokenizer};
use tessera::prompt::{self, Prompt};
use tessera::runtime::{Engine, Finish, Request, Sampling, generate};
use tessera::session::{Size, default_threads};
use tessera::stop::StopMatcher;
use tessera::{Error, Session};

/// Rows of a prefill chunk if nobody says how many.
const CHUNK: usize = 512;

/// Generate text from a prompt, or from a file of requests
///
/// The text streams to standard output; with --json it comes as one object a request. A text ends at an end token, at a
/// stop string, or after --max-tokens. Ctrl-C ends it early with exit code 130.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  tessera run --prompt \"In the beginning\" --max-tokens 64\n  \
    tessera run --chat --prompt \"Who art thou?\" --temperature 0.8 --seed 7\n  \
    tessera run --jobs requests.jsonl --json")]
pub(crate) struct Args {
    #[command(flatten)]
    model: ModelArgs,
    /// Compiled bundle instead of a model folder
    #[arg(long, value_name = "F", conflicts_with = "model")]
    bundle: Option<PathBuf>,
    #[command(flatten)]
    source: Source,
    /// The prompt is a question for the chat encoding
    #[arg(long, conflicts_with = "tokens")]
    chat: bool,
    /// Let the model reason before it answers; needs --chat, or messages in --jobs
    #[arg(long)]
    think: bool,
    /// How thoroughly it reasons, from 1 to 100 [default: 75]
    #[arg(long, value_name = "N", requires = "think")]
    effort: Option<Effort>,
    /// Tokens to generate at most
    #[arg(long, value_name = "N", default_value = "128", value_parser = positive)]
    max_tokens: usize,
    /// Randomness; 0 always takes the likeliest token
    #[arg(long, value_name = "X", default_value_t = 0.0, allow_negative_numbers = true)]
    temperature: f32,
    /// Choose among the likeliest tokens whose probabilities sum to this
    #[arg(long, value_name = "X", default_value_t = 1.0, allow_negative_numbers = true)]
    top_p: f32,
    /// Choose among so many of the likeliest tokens; 0 means all
    #[arg(long, value_name = "N", default_value_t = 0, allow_negative_numbers = true)]
    top_k: usize,
    /// Seed of the random numbers
    #[arg(long, value_name = "N", default_value_t = 0, allow_negative_numbers = true)]
    seed: u64,
    /// End the text before this string; several may be given
    #[arg(long, value_name = "STR", num_args = 1..)]
    stop: Vec<String>,
    /// Threads [default: as many as the machine has]
    #[arg(long, value_name = "N", value_parser = args::threads)]
    threads: Option<usize>,
    /// Prompt tokens that run in one step
    #[arg(long, value_name = "N", default_value_t = CHUNK, value_parser = positive)]
    prefill_chunk: usize,
    /// Speculative drafts a step: auto, off or 1 to 5; this version does not schedule drafts, so auto means off
    #[arg(long, value_name = "N", default_value = "auto")]
    draft: String,
    /// JSON schema that the text must follow (not in this version)
    #[arg(long, value_name = "F")]
    schema: Option<PathBuf>,
    /// Regular expression that the text must match (not in this version)
    #[arg(long, value_name = "R")]
    regex: Option<String>,
    /// Grammar that the text must follow (not in this version)
    #[arg(long, value_name = "F")]
    grammar: Option<PathBuf>,
    /// Requests that run at the same time (this version: 1)
    #[arg(long, value_name = "N", default_value = "1", value_parser = positive)]
    batch: usize,
    /// Prefill the decoder half on the last prompt tokens only: off, mask (not in this version) or compact
    #[arg(long, value_name = "R", default_value = "off", value_parser = ["off", "mask", "compact"])]
    replay: String,
    /// How many prompt tokens bounded replay keeps [default: window + 12]
    #[arg(long, value_name = "N", value_parser = positive)]
    replay_keep: Option<usize>,
    /// Numeric mode: ref, f32, f32q or f32kvq
    #[arg(long, value_name = "MODE", default_value = "ref", value_parser = args::mode)]
    mode: Mode,
    /// Device: cpu
    #[arg(long, value_name = "D", default_value = "cpu")]
    device: String,
    /// Stop with exit code 2 at the first broken line of --jobs
    #[arg(long, requires = "jobs")]
    strict: bool,
    /// Print times and rates to standard error
    #[arg(long)]
    stats: bool,
    /// Print one JSON object a request (always so with --jobs)
    #[arg(long)]
    json: bool,
}

#[derive(Debug, clap::Args)]
#[group(required = true, multiple = false)]
struct Source {
    /// Text that the model goes on with
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    prompt: Option<String>,
    /// File that holds the prompt
    #[arg(long, value_name = "F")]
    prompt_file: Option<PathBuf>,
    /// Token ids, taken as they are: 1,2,3
    #[arg(long, value_name = "IDS", allow_hyphen_values = true)]
    tokens: Option<String>,
    /// File of requests, one JSON object a line
    #[arg(long, value_name = "F.jsonl")]
    jobs: Option<PathBuf>,
}

#[derive(Serialize)]
struct Report<'a> {
    schema: &'static str,
    id: &'a Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<usize>,
    prompt_tokens: &'a [u32],
    tokens: &'a [u32],
    text: Option<&'a str>,
    finish_reason: &'static str,
    usage: Usage,
    error: Option<Fault<'a>>,
}

#[derive(Default, Serialize)]
struct Usage {
    prompt: usize,
    generated: usize,
    steps: usize,
    drafted: usize,
    accepted: usize,
    accepted_by_position: Vec<usize>,
}

#[derive(Serialize)]
struct Fault<'a> {
    kind: &'a str,
    message: &'a str,
}

pub(crate) fn main(args: &Args) -> Done {
    args::check_device(&args.device)?;
    args.refuse_later()?;
    let interrupt = Interrupt::listen();
    let folder = args.model.open()?;
    let requests = args.requests(&folder)?;
    let jobs: Vec<&Job> = requests.iter().filter_map(|request| request.as_ref().ok()).collect();
    let json = args.json || args.source.jobs.is_some();
    let runner = match size(args, &folder, &jobs) {
        None => None,
        Some(size) => {
            let replay = args.replay == "compact";
            let build = Build { replay, ..Build::plain(args.mode) };
            let session = args::session(folder, build)?;
            let engine = session.engine(size)?;
            Some((session, engine))
        }
    };
    let mut runner = runner.map(|(session, engine)| Runner::new(args, session, engine, interrupt, json));
    let mut broken = 0;
    for request in &requests {
        match (request, &mut runner) {
            (Ok(job), Some(runner)) => runner.run(job)?,
            // Without any job there is no runner, so this line is broken.
            (Ok(_), None) => {}
            (Err(line), _) => {
                broken += 1;
                report_broken(line)?;
                if args.strict {
                    return Err(Failure::Input(format!("{}; --strict stops here", line.message)));
                }
            }
        }
    }
    if broken > 0 {
        output::note(&format!("{broken} of {} requests were broken; their objects say why", requests.len()));
    }
    Ok(())
}

impl Args {
    /// Refuses what belongs to the interface but not to this version.
    fn refuse_later(&self) -> Done {
        let later = |option: &str| {
            Err(Failure::Input(format!("{option} is not supported by this version; leave it out")))
        };
        match self.draft.as_str() {
            "auto" | "off" => {}
            "1" | "2" | "3" | "4" | "5" => return later(&format!("--draft {}", self.draft)),
            other => return Err(Failure::Input(format!("--draft {other}: expected auto, off or 1 to 5"))),
        }
        let options = [
            ("--bundle", self.bundle.is_some()),
            ("--schema", self.schema.is_some()),
            ("--regex", self.regex.is_some()),
            ("--grammar", self.grammar.is_some()),
            ("--replay mask", self.replay == "mask"),
            ("--batch above 1", self.batch > 1),
        ];
        if let Some((option, _)) = options.iter().find(|(_, used)| *used) {
            return later(option);
        }
        if self.strict && self.source.jobs.is_none() {
            return Err(Failure::Input(
                "--strict needs --jobs: only a file of requests has lines".to_owned(),
            ));
        }
        if self.replay_keep.is_some() && self.replay == "off" {
            return Err(Failure::Input("--replay-keep needs --replay compact".to_owned()));
        }
        if self.think && !self.chat && self.source.jobs.is_none() {
            return Err(Failure::Input(
                "--think needs --chat: only a conversation has a place for reasoning".to_owned(),
            ));
        }
        Ok(())
    }

    fn thinking(&self) -> Thinking {
        if self.think { Thinking::On(self.effort.unwrap_or_default()) } else { Thinking::Off }
    }

    fn sampling(&self) -> Sampling {
        let (temperature, top_p, top_k, seed) = (self.temperature, self.top_p, self.top_k, self.seed);
        Sampling { temperature, top_p, top_k, seed, ..Sampling::default() }
    }

    /// The requests in order: those of a file, or one.
    fn requests(&self, folder: &ModelFolder) -> Result<Vec<Result<Job, Broken>>, Failure> {
        let (max_tokens, stop) = (self.max_tokens, self.stop.clone());
        if let Some(path) = &self.source.jobs {
            let (chat, thinking) = (self.chat, self.thinking());
            let defaults = Defaults { max_tokens, sampling: self.sampling(), stop, chat, thinking };
            return Ok(jobs::read(path, folder, &defaults)?);
        }
        let ask = |text: String| {
            if self.chat { Prompt::Question(text, self.thinking()) } else { Prompt::Text(text) }
        };
        let prompt = match (&self.source.prompt, &self.source.prompt_file, &self.source.tokens) {
            (Some(text), _, _) => ask(text.clone()),
            (None, Some(path), _) => ask(prompt::read_text(path)?),
            (None, None, ids) => Prompt::Tokens(prompt::parse_tokens(ids.as_deref().unwrap_or_default())?),
        };
        let prompt = prompt.ids(folder)?;
        let job = Job { id: Value::Null, line: None, prompt, max_tokens, sampling: self.sampling(), stop };
        jobs::check(&job, folder)?;
        Ok(vec![Ok(job)])
    }
}

/// The engine that all jobs fit into; none if there are no jobs.
fn size(args: &Args, folder: &ModelFolder, jobs: &[&Job]) -> Option<Size> {
    let most = folder.config.text.max_position_embeddings;
    let wanted = jobs.iter().map(|job| job.prompt.len().saturating_add(job.max_tokens)).max()?;
    if wanted > most {
        output::note(&format!("the model has {most} positions, so texts of {wanted} tokens end there"));
    }
    let longest = jobs.iter().map(|job| job.prompt.len()).max()?;
    Some(Size {
        threads: args.threads.unwrap_or_else(default_threads),
        slots: 1,
        context: wanted.min(most),
        rows: args.prefill_chunk.min(longest),
        all_logits: false,
    })
}

fn report_broken(line: &Broken) -> Done {
    output::json(&Report {
        schema: "tessera.run/1",
        id: &line.id,
        line: Some(line.line),
        prompt_tokens: &[],
        tokens: &[],
        text: None,
        finish_reason: "error",
        usage: Usage::default(),
        error: Some(Fault { kind: line.kind, message: &line.message }),
    })
}

/// Runs jobs one after another.
struct Runner<'a> {
    args: &'a Args,
    session: Session,
    engine: Engine,
    interrupt: Interrupt,
    json: bool,
    stops: Vec<u32>,
}

impl<'a> Runner<'a> {
    fn new(args: &'a Args, session: Session, engine: Engine, interrupt: Interrupt, json: bool) -> Self {
        let stops = session.folder.config.stop_tokens();
        Runner { args, session, engine, interrupt, json, stops }
    }

    fn run(&mut self, job: &Job) -> Done {
        let tokenizer = self.session.folder.tokenizer.as_ref();
        let mut text = TextOut::new(tokenizer, &job.stop, !self.json)?;
        let keep = self.args.replay_keep.unwrap_or(self.session.folder.config.text.sliding_window + 12);
        let request = Request {
            prompt: &job.prompt,
            max_tokens: job.max_tokens,
            eos: self.session.folder.config.eos_token_id,
            sampling: job.sampling,
            chunk: self.args.prefill_chunk,
            replay: self.session.build.replay.then_some(keep),
        };
        let bar = output::bar("prefill", job.prompt.len());
        let start = Instant::now();
        let mut prefill = Duration::ZERO;
        let (interrupt, stops) = (&self.interrupt, &self.stops);
        let flow = |go_on: bool| if go_on { ControlFlow::Continue(()) } else { ControlFlow::Break(()) };
        let result = generate(
            &mut self.engine,
            0,
            &request,
            &mut |done| {
                bar.set_position(done as u64);
                if done == job.prompt.len() {
                    bar.finish_and_clear();
                    prefill = start.elapsed();
                }
                flow(!interrupt.requested())
            },
            &mut |token| {
                text.push(token);
                flow(!(interrupt.requested() || stops.contains(&token) || text.ended()))
            },
        );
        bar.finish_and_clear();
        let total = start.elapsed();
        let generated = result.map_err(Error::from)?;
        let text = text.finish()?;
        let finish = match generated.finish {
            _ if self.interrupt.requested() && !text.stopped => "cancelled",
            Finish::Cancelled => "cancelled",
            Finish::Stop => "stop",
            Finish::Length => "length",
        };
        if self.json {
            output::json(&Report {
                schema: "tessera.run/1",
                id: &job.id,
                line: job.line,
                prompt_tokens: &job.prompt,
                tokens: &generated.tokens,
                text: tokenizer.map(|_| text.text.as_str()),
                finish_reason: finish,
                usage: Usage {
                    prompt: job.prompt.len(),
                    generated: generated.tokens.len(),
                    steps: generated.steps,
                    ..Usage::default()
                },
                error: None,
            })?;
        } else if !text.text.ends_with('\n') {
            output::piece("\n")?;
        }
        if self.args.stats {
            self.stats(job, generated.steps, prefill, total);
        }
        if self.interrupt.requested() { Err(Failure::Interrupted) } else { Ok(()) }
    }

    fn stats(&self, job: &Job, steps: usize, prefill: Duration, total: Duration) {
        let rate = |tokens: usize, time: Duration| tokens as f64 / time.as_secs_f64().max(1e-9);
        let (compile, load) = (self.session.compile_time.as_secs_f64(), self.session.load_time.as_secs_f64());
        let decode = total.saturating_sub(prefill);
        let prompt = job.prompt.len();
        output::figures(&format!("model    compiled in {compile:.2} s, weights loaded in {load:.2} s"));
        let (seconds, tokens) = (prefill.as_secs_f64(), rate(prompt, prefill));
        output::figures(&format!("prefill  {prompt} tokens in {seconds:.3} s, {tokens:.1} tokens/s"));
        let (seconds, tokens) = (decode.as_secs_f64(), rate(steps, decode));
        output::figures(&format!("decode   {steps} steps in {seconds:.3} s, {tokens:.1} tokens/s"));
        let instance = self.engine.instance();
        let memory =
            [instance.state_bytes(), instance.arena_bytes(), self.session.loaded.weights.repacked_bytes()];
        let [states, arena, repacked] = memory.map(|n| output::bytes(n as u64));
        let threads = instance.threads();
        output::figures(&format!(
            "memory   caches {states}, activations {arena}, repacked weights {repacked}"
        ));
        output::figures(&format!("threads  {threads}"));
    }
}

/// Text of a request as its tokens arrive.
struct TextOut<'t> {
    decoder: Option<StreamDecoder<'t>>,
    matcher: StopMatcher,
    stream: bool,
    text: String,
    /// Tokens shown so far where there is no text to show.
    shown: usize,
    fault: Option<Error>,
    broken: Option<io::Error>,
}

/// The whole text of a request.
struct Written {
    text: String,
    stopped: bool,
}

impl<'t> TextOut<'t> {
    fn new(tokenizer: Option<&'t Tokenizer>, stop: &[String], stream: bool) -> tessera::Result<Self> {
        Ok(TextOut {
            decoder: tokenizer.map(StreamDecoder::new),
            matcher: StopMatcher::new(stop)?,
            stream,
            text: String::new(),
            shown: 0,
            fault: None,
            broken: None,
        })
    }

    /// Whether nothing more can come: a stop string was found, or the text cannot be written.
    fn ended(&self) -> bool {
        self.matcher.found() || self.fault.is_some() || self.broken.is_some()
    }

    fn push(&mut self, token: u32) {
        let piece = match &mut self.decoder {
            None => {
                self.shown += 1;
                format!("{}{token}", if self.shown > 1 { "," } else { "" })
            }
            Some(decoder) => match decoder.push(token) {
                Ok(piece) => self.matcher.push(&piece),
                Err(error) => {
                    self.fault = Some(error.into());
                    return;
                }
            },
        };
        self.write(&piece);
    }

    fn write(&mut self, piece: &str) {
        self.text += piece;
        if self.stream && !piece.is_empty() && self.broken.is_none() {
            self.broken = output::piece(piece).err();
        }
    }

    fn finish(mut self) -> Result<Written, Failure> {
        if let Some(decoder) = self.decoder.take() {
            let piece = self.matcher.push(&decoder.finish());
            self.write(&piece);
        }
        let stopped = self.matcher.found();
        let rest = std::mem::take(&mut self.matcher).finish();
        self.write(&rest);
        match (self.fault, self.broken) {
            (Some(error), _) => Err(error.into()),
            (None, Some(error)) => Err(error.into()),
            (None, None) => Ok(Written { text: self.text, stopped }),
        }
    }
}
