//! Chunking, companions and rollback change no bit of what the oracle computes.

use std::collections::BTreeMap;

use tessera_ir::Bindings;
use tessera_ir::graph::interp::{self, State, Tensor};
use tessera_model::graph::{BuildOptions, Mode};
use tessera_model::oracle::{Oracle, Outputs};
use tessera_model::rows::{Capacity, Chunk, StepRows, Wanted};

use super::{Setup, reals};

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|v| v.to_bits()).collect()
}

fn random() -> Setup {
    Setup::open("tests/data/random-v41", "tests/data/random-v41")
}

const CAPACITY: Capacity = Capacity { slots: 1, tokens: 60, rows: 40 };

/// All logits of a prompt fed in chunks, and the sequence afterwards.
#[test]
fn chunks_of_any_size_give_the_same_bits() {
    let setup = random();
    let prompt = setup.list("prompt");
    for mode in [Mode::Ref, Mode::F32] {
        let step = setup.step(BuildOptions { mode, ..BuildOptions::default() });
        let weights = setup.weights();
        let feed = |size: usize| {
            let mut oracle = Oracle::new(&setup.config, &weights, &step, CAPACITY).unwrap();
            let mut logits = Vec::new();
            for chunk in prompt.chunks(size) {
                let outputs = oracle.feed(&step, chunk, Wanted::All, Outputs::new()).unwrap();
                logits.extend(bits(reals(&outputs["logits"])));
            }
            (logits, oracle)
        };
        let (whole, after_whole) = feed(prompt.len());
        for size in [1, 2, 7] {
            let (logits, oracle) = feed(size);
            assert!(logits == whole, "{}: chunks of {size} give other logits", mode.name());
            assert!(
                oracle.state() == after_whole.state(),
                "{}: chunks of {size} leave other caches",
                mode.name()
            );
        }
    }
}

/// Two sequences in one step, their rows one after the other, against each alone.
#[test]
fn companions_in_a_step_change_no_bit() {
    let setup = random();
    let prompt = setup.list("prompt");
    let (long, short) = (&prompt[..33], &prompt[20..31]);
    let step = setup.step(BuildOptions::default());
    let weights = setup.weights();
    let mut bindings = Bindings::new();
    Capacity { slots: 3, ..CAPACITY }.bind(&setup.config, &mut bindings);
    let mut run = |chunks: &[Chunk<'_>], state: &mut State| {
        let mut rows = StepRows::default();
        for chunk in chunks {
            rows.push(setup.config.text.sliding_window, chunk);
        }
        rows.bind(&mut bindings);
        let inputs: BTreeMap<String, Tensor> =
            rows.inputs().map(|(name, v)| (name.to_owned(), Tensor::i32([v.len()], v.to_vec()))).into();
        let outputs = interp::run(&step, &bindings, &inputs, &weights, state).unwrap();
        bits(reals(&outputs["logits"]))
    };
    let mut empty_bindings = Bindings::new();
    Capacity { slots: 3, ..CAPACITY }.bind(&setup.config, &mut empty_bindings);
    let empty = State::zeros(&step, &empty_bindings).unwrap();
    let chunk = |slot, start, tokens| Chunk { slot, start, tokens, floor: 0, logits: Wanted::All };

    let (mut alone, mut together) = (empty.clone(), empty);
    let mut expected = run(&[chunk(2, 0, &long[..30])], &mut alone);
    let mut first_two = run(&[chunk(0, 0, short)], &mut alone);
    first_two.extend(run(&[chunk(2, 30, &long[30..])], &mut alone));
    expected.extend(first_two);

    let mut got = run(&[chunk(2, 0, &long[..30])], &mut together);
    got.extend(run(&[chunk(0, 0, short), chunk(2, 30, &long[30..])], &mut together));
    assert!(got == expected, "rows of another sequence change the logits");
    assert!(alone == together, "rows of another sequence change the caches");
}

/// A wrong tail is fed, forgotten and replaced at every parity and around the window's edge.
#[test]
fn rejected_rows_leave_no_trace() {
    let setup = random();
    let prompt = setup.list("prompt");
    let step = setup.step(BuildOptions::default());
    let draft = setup.draft(Mode::Ref);
    let weights = setup.weights();
    let window = setup.config.text.sliding_window;
    for length in [1, 2, window - 1, window, window + 1] {
        let mut clean =
            Oracle::new(&setup.config, &weights, &step, Capacity { rows: 17, ..CAPACITY }).unwrap();
        clean.feed(&step, &prompt[..length], Wanted::None, Outputs::new()).unwrap();
        for wrong in [1, 2, 6] {
            let mut rolled = clean.clone();
            let mut clean = clean.clone();
            rolled.feed(&step, &[7, 3, 200, 9, 91, 14][..wrong], Wanted::All, Outputs::new()).unwrap();
            rolled.roll_back(length);
            for token in &prompt[length..length + 4] {
                let drafts = [&mut clean, &mut rolled]
                    .map(|oracle| bits(reals(&oracle.draft(&draft, *token).unwrap()["logits"])));
                assert!(drafts[0] == drafts[1], "drafts after {wrong} rows rejected at {length}");
                let logits = [&mut clean, &mut rolled].map(|oracle| {
                    let outputs = oracle.feed(&step, &[*token], Wanted::Last, Outputs::new()).unwrap();
                    bits(reals(&outputs["logits"]))
                });
                assert!(logits[0] == logits[1], "logits after {wrong} rows rejected at {length}");
            }
        }
    }
}
