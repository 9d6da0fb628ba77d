//! A row is bit-identical however the prompt is cut, however many threads run, whoever runs beside it.

mod common;

use common::golden::{Golden, ids};
use common::{session, tiny};
use tessera::Session;
use tessera::compile::Build;
use tessera::model::graph::Mode;
use tessera::model::rows::Wanted;
use tessera::runtime::{Engine, Feed, argmax};
use tessera::session::Size;

/// Tokens generated after the prompt.
const NEW: usize = 12;

/// Bits of every logit of the prompt's rows and of each step after it, and the tokens chosen.
#[derive(PartialEq)]
struct Trace {
    rows: Vec<Vec<u32>>,
    tokens: Vec<u32>,
}

impl Trace {
    /// Names the first row that differs.
    fn assert_same(&self, other: &Trace, context: &str) {
        assert_eq!(self.rows.len(), other.rows.len(), "{context}");
        for (row, (a, b)) in self.rows.iter().zip(&other.rows).enumerate() {
            let differing = a.iter().zip(b).filter(|(a, b)| a != b).count();
            assert!(differing == 0, "{context}: {differing} logits of row {row} differ");
        }
        assert_eq!(self.tokens, other.tokens, "{context}");
    }
}

fn push(rows: &mut Vec<Vec<u32>>, logits: &[f32], vocabulary: usize) {
    rows.extend(logits.chunks(vocabulary).map(|row| row.iter().map(|v| v.to_bits()).collect()));
}

fn prompt(golden: &Golden, at: usize) -> Vec<u32> {
    ids(&golden.json["prompts"][at]["ids"])
}

fn size(threads: usize, slots: usize, context: usize, rows: usize) -> Size {
    Size { threads, slots, context, rows, all_logits: true }
}

/// Greedy text after `prompt`, alone, in chunks.
fn alone(session: &Session, prompt: &[u32], threads: usize, chunk: usize) -> Trace {
    let mut engine = session.engine(size(threads, 1, prompt.len() + NEW, chunk)).unwrap();
    let vocabulary = engine.config().text.vocab_size;
    let mut trace = Trace { rows: Vec::new(), tokens: Vec::new() };
    for piece in prompt.chunks(chunk) {
        engine.feed(&[Feed { slot: 0, tokens: piece, logits: Wanted::All }]).unwrap();
        push(&mut trace.rows, engine.logits().unwrap(), vocabulary);
    }
    go_on(&mut engine, 0, &mut trace);
    trace
}

/// Greedy steps of one slot; its last row of logits is the newest.
fn go_on(engine: &mut Engine, slot: usize, trace: &mut Trace) {
    let vocabulary = engine.config().text.vocab_size;
    while trace.tokens.len() < NEW {
        let last: Vec<f32> = trace.rows[trace.rows.len() - 1].iter().map(|b| f32::from_bits(*b)).collect();
        let token = argmax(&last);
        trace.tokens.push(token);
        engine.feed(&[Feed { slot, tokens: &[token], logits: Wanted::All }]).unwrap();
        push(&mut trace.rows, engine.logits().unwrap(), vocabulary);
    }
}

/// Prompts of 65 and 200 tokens: the window of 64 evicts, and its ring goes round.
#[test]
fn chunks_and_threads_change_no_bit() {
    let golden = Golden::open("tiny-v41");
    for mode in [Mode::Ref, Mode::F32] {
        let session = session(tiny(), Build::plain(mode));
        for at in [4, 5] {
            let prompt = prompt(&golden, at);
            let whole = alone(&session, &prompt, 1, prompt.len());
            for threads in [1, 2, 3] {
                for chunk in [1, 2, 7, 64, prompt.len()] {
                    let other = alone(&session, &prompt, threads, chunk);
                    let context =
                        format!("{} prompt {at}, {threads} threads, chunks of {chunk}", mode.name());
                    whole.assert_same(&other, &context);
                }
            }
        }
    }
}

/// Three sequences in one engine: prefills and steps share their steps, each sequence with its own chunk size.
#[test]
fn companions_in_the_batch_change_no_bit() {
    let golden = Golden::open("tiny-v41");
    for mode in [Mode::Ref, Mode::F32] {
        let session = session(tiny(), Build::plain(mode));
        let vocabulary = session.folder.config.text.vocab_size;
        let prompts: Vec<Vec<u32>> = [5, 1, 4].iter().map(|at| prompt(&golden, *at)).collect();
        let expected: Vec<Trace> =
            prompts.iter().map(|prompt| alone(&session, prompt, 1, prompt.len())).collect();
        for threads in [1, 2, 3] {
            let chunks = [64, 3, 17];
            let mut engine = session.engine(size(threads, 3, 200 + NEW, chunks.iter().sum())).unwrap();
            let mut traces: Vec<Trace> =
                prompts.iter().map(|_| Trace { rows: Vec::new(), tokens: Vec::new() }).collect();
            let mut fed = [0; 3];
            while traces.iter().any(|trace| trace.tokens.len() < NEW) {
                let mut pieces: Vec<(usize, Vec<u32>)> = Vec::new();
                // Slots take turns at being first.
                let first = fed.iter().sum::<usize>() % 3;
                for slot in (0..3).map(|i| (first + i) % 3) {
                    let prompt = &prompts[slot];
                    if fed[slot] < prompt.len() {
                        let end = prompt.len().min(fed[slot] + chunks[slot]);
                        pieces.push((slot, prompt[fed[slot]..end].to_vec()));
                        fed[slot] = end;
                    } else if traces[slot].tokens.len() < NEW {
                        let row = &traces[slot].rows[traces[slot].rows.len() - 1];
                        let token = argmax(&row.iter().map(|b| f32::from_bits(*b)).collect::<Vec<f32>>());
                        traces[slot].tokens.push(token);
                        pieces.push((slot, vec![token]));
                        fed[slot] += 1;
                    }
                }
                let feeds: Vec<Feed<'_>> = pieces
                    .iter()
                    .map(|(slot, tokens)| Feed { slot: *slot, tokens, logits: Wanted::All })
                    .collect();
                engine.feed(&feeds).unwrap();
                let mut logits = engine.logits().unwrap();
                for (slot, tokens) in &pieces {
                    let (own, rest) = logits.split_at(tokens.len() * vocabulary);
                    push(&mut traces[*slot].rows, own, vocabulary);
                    logits = rest;
                }
            }
            for (slot, (trace, expected)) in traces.iter().zip(&expected).enumerate() {
                expected.assert_same(trace, &format!("{} slot {slot}, {threads} threads", mode.name()));
            }
        }
    }
}

/// A slot that served another sequence before serves the next as a fresh one.
#[test]
fn a_used_slot_is_as_good_as_a_fresh_one() {
    let golden = Golden::open("tiny-v41");
    let session = session(tiny(), Build::plain(Mode::Ref));
    let vocabulary = session.folder.config.text.vocab_size;
    let (before, prompt) = (prompt(&golden, 5), prompt(&golden, 4));
    let expected = alone(&session, &prompt, 1, prompt.len());
    let mut engine = session.engine(size(2, 1, 200 + NEW, 200)).unwrap();
    engine.feed(&[Feed { slot: 0, tokens: &before, logits: Wanted::None }]).unwrap();
    engine.reset(0);
    let mut trace = Trace { rows: Vec::new(), tokens: Vec::new() };
    engine.feed(&[Feed { slot: 0, tokens: &prompt, logits: Wanted::All }]).unwrap();
    push(&mut trace.rows, engine.logits().unwrap(), vocabulary);
    go_on(&mut engine, 0, &mut trace);
    expected.assert_same(&trace, "after another sequence");
}

/// Rows that were fed and taken back leave no trace in rings, compressor tails or the token history, at lengths around the
/// ratio and the window.
#[test]
fn rolled_back_rows_change_no_bit() {
    let golden = Golden::open("tiny-v41");
    let session = session(tiny(), Build::plain(Mode::Ref));
    let vocabulary = session.folder.config.text.vocab_size;
    let text = prompt(&golden, 5);
    let wrong: Vec<u32> = text.iter().rev().copied().take(6).collect();
    let rows = 6;
    for len in [1, 2, 3, 63, 64, 65, 130] {
        let right = &text[len..len + rows];
        let mut engine = session.engine(size(2, 1, 200, rows)).unwrap();
        let feed = |engine: &mut Engine, tokens: &[u32]| {
            for piece in tokens.chunks(rows) {
                engine.feed(&[Feed { slot: 0, tokens: piece, logits: Wanted::All }]).unwrap();
            }
        };
        feed(&mut engine, &text[..len]);
        feed(&mut engine, right);
        let mut expected = Vec::new();
        push(&mut expected, engine.logits().unwrap(), vocabulary);
        for tail in 1..=rows {
            engine.reset(0);
            feed(&mut engine, &text[..len]);
            feed(&mut engine, &wrong[..tail]);
            engine.truncate(0, len);
            feed(&mut engine, right);
            let mut found = Vec::new();
            push(&mut found, engine.logits().unwrap(), vocabulary);
            assert!(found == expected, "length {len}, {tail} rows taken back");
        }
    }
}
