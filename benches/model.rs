//! The tiny model end to end: tokens a second of prefill and of decode, with one thread and with two.

mod common;

use common::{Medians, criterion, digits, table};
use criterion::Throughput;
use std::time::{Duration, Instant};
use tessera::Session;
use tessera::compile::Build;
use tessera::load::{ModelFolder, default_model};
use tessera::model::ConfigOptions;
use tessera::model::graph::Mode;
use tessera::model::rows::Wanted;
use tessera::model::tokenizer::AddedTokens;
use tessera::runtime::{Engine, Feed, argmax};
use tessera::session::Size;

const SAMPLES: usize = 15;
/// Tokens of a prompt.
const PROMPT: usize = 256;
/// Tokens of a chunk of it, as the program feeds them.
const CHUNK: usize = 64;
/// Tokens generated after it.
const NEW: usize = 64;

fn prefill(engine: &mut Engine, prompt: &[u32]) {
    engine.reset(0);
    for piece in prompt.chunks(CHUNK) {
        engine.feed(&[Feed { slot: 0, tokens: piece, logits: Wanted::Last }]).expect("the prompt fits");
    }
}

fn decode(engine: &mut Engine) {
    for _ in 0..NEW {
        let token = argmax(engine.logits().expect("a step has run"));
        engine.feed(&[Feed { slot: 0, tokens: &[token], logits: Wanted::Last }]).expect("the context fits");
    }
}

fn main() {
    let path = default_model().expect("the tiny model is in the repository");
    let text = std::fs::read_to_string(path.join("eval.txt")).expect("it has a text to evaluate on");
    let folder = ModelFolder::open(path, &ConfigOptions::default()).expect("it is valid");
    let tokenizer = folder.text().expect("it has a tokenizer");
    let ids = tokenizer.encode(&text, AddedTokens::AsText).expect("text becomes tokens");
    let prompt = &ids[..PROMPT];
    let session = Session::open(folder, Build::plain(Mode::Ref), &mut |_, _| ()).expect("it compiles");

    let mut c = criterion(SAMPLES, Duration::from_secs(2));
    let mut rows = Vec::new();
    for threads in [1, 2] {
        let size = Size { threads, slots: 1, context: PROMPT + NEW, rows: CHUNK, all_logits: false };
        let mut engine = session.engine(size).expect("memory suffices");
        let mut medians = Medians::new(SAMPLES);
        let mut group = c.benchmark_group(format!("model/tiny/ref/{threads}-threads"));
        group.throughput(Throughput::Elements(PROMPT as u64));
        medians.custom(&mut group, "prefill", |iters| {
            let start = Instant::now();
            for _ in 0..iters {
                prefill(&mut engine, prompt);
            }
            start.elapsed()
        });
        group.throughput(Throughput::Elements(NEW as u64));
        medians.custom(&mut group, "decode", |iters| {
            let mut total = Duration::ZERO;
            for _ in 0..iters {
                prefill(&mut engine, prompt);
                let start = Instant::now();
                decode(&mut engine);
                total += start.elapsed();
            }
            total
        });
        group.finish();
        for (name, time) in medians.rows() {
            let tokens = if name == "prefill" { PROMPT } else { NEW };
            let rate = digits(tokens as f64 / time);
            rows.push(vec![name.clone(), threads.to_string(), tokens.to_string(), rate]);
        }
    }
    rows.sort_by(|a, b| b[0].cmp(&a[0]));
    let title = format!("tiny model, ref mode, chunks of {CHUNK}; medians of {SAMPLES}");
    table(&title, &["phase", "threads", "tokens", "tokens/s"], 1, &rows);
    c.final_summary();
}
