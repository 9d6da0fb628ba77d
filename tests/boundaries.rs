//! Numbers of rows and lengths at which others' engines broke: none, one, one more than a tile, a window or a context.

mod common;

use common::golden::{Golden, ids, max_abs};
use common::{engine, random, repo, session};
use std::fs;
use tessera::compile::Build;
use tessera::load::ModelFolder;
use tessera::model::ConfigOptions;
use tessera::model::checkpoint::SafetensorsFile;
use tessera::model::graph::{BuildOptions, Mode};
use tessera::model::oracle::{Oracle, Outputs};
use tessera::model::rows::{Capacity, Wanted};
use tessera::runtime::Feed;

/// Largest difference of logits in the modes without bf16 (golden README, "Tolerances").
const EXACT: f64 = 1e-3;

fn prompt(len: usize) -> Vec<u32> {
    (0..len as u32).map(|i| (i * 37 + i * i * 11 + 3) % 240).collect()
}

#[test]
fn a_step_without_rows_does_nothing() {
    let session = session(random(), Build::plain(Mode::F32kvq));
    let mut engine = engine(&session, 16, 8);
    engine.feed(&[]).unwrap();
    assert!(engine.logits().unwrap().is_empty());
    engine.feed(&[Feed { slot: 0, tokens: &[], logits: Wanted::Last }]).unwrap();
    assert!(engine.logits().unwrap().is_empty());
    assert_eq!(engine.len(0), 0);
    let tokens = prompt(3);
    engine.feed(&[Feed { slot: 0, tokens: &tokens, logits: Wanted::None }]).unwrap();
    assert!(engine.logits().unwrap().is_empty());
    assert_eq!(engine.len(0), 3);
}

/// Rows are sorted by expert, cut into tiles and gathered in blocks: whatever goes wrong there does so at some numbers of
/// rows only, and leaves the first expert right.
#[test]
fn any_number_of_rows_gives_each_row_the_same_bits() {
    const MOST: usize = 129;
    let session = session(random(), Build::plain(Mode::Ref));
    let tokens = prompt(MOST);
    let run = |rows: usize| {
        let mut engine = engine(&session, MOST, MOST);
        engine.feed(&[Feed { slot: 0, tokens: &tokens[..rows], logits: Wanted::All }]).unwrap();
        engine.logits().unwrap().iter().map(|v| v.to_bits()).collect::<Vec<u32>>()
    };
    let whole = run(MOST);
    let vocabulary = whole.len() / MOST;
    for rows in 1..MOST {
        let part = run(rows);
        let first = part.iter().zip(&whole).position(|(a, b)| a != b).map(|at| at / vocabulary);
        assert!(part.len() == rows * vocabulary && first.is_none(), "{rows} rows: row {first:?} differs");
    }
}

/// 200 tokens against the reference, at lengths around the ratio, top-k, candidates, window and original context; in plain
/// f32, where no code of a cache hangs on the last bit of a sum.
#[test]
fn logits_are_right_far_beyond_window_and_original_context() {
    let text = fs::read_to_string(repo("tests/data/random-v41/long.json")).unwrap();
    let json: serde_json::Value = serde_json::from_str(&text).unwrap();
    let (tokens, rows) = (ids(&json["prompt"]), ids(&json["rows"]));
    let golden = SafetensorsFile::open(repo("tests/data/random-v41/long.safetensors")).unwrap();
    let mode = Mode::F32;
    let session = session(random(), Build::plain(mode));
    let mut engine = engine(&session, tokens.len(), tokens.len());
    engine.feed(&[Feed { slot: 0, tokens: &tokens, logits: Wanted::All }]).unwrap();
    let view = golden.tensor(&format!("{}.logits", mode.name())).unwrap();
    let expected: Vec<f64> =
        view.data.chunks_exact(4).map(|b| f64::from(f32::from_le_bytes(b.try_into().unwrap()))).collect();
    let logits = engine.logits().unwrap();
    let vocabulary = logits.len() / tokens.len();
    for (row, expected) in rows.iter().zip(expected.chunks(vocabulary)) {
        let at = *row as usize * vocabulary;
        let error = max_abs(&logits[at..at + vocabulary], expected);
        assert!(error <= EXACT, "{}: row {row}: largest difference {error:e}", mode.name());
    }
}

/// A router whose bias sends every row to the same three experts, so that the others get none.
#[test]
fn experts_without_rows_and_experts_with_all_of_them_are_right() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["config.json", "token_map.json", "model.safetensors"] {
        fs::copy(repo("tests/data/random-v41").join(name), folder.path().join(name)).unwrap();
    }
    let file = folder.path().join("model.safetensors");
    let mut bytes = fs::read(&file).unwrap();
    let start = 8 + u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    let mut changed = 0;
    for info in SafetensorsFile::open(&file).unwrap().tensors() {
        if info.name.starts_with("layers.") && info.name.ends_with("ffn.gate.bias") {
            for expert in 3..6 {
                let at = start + info.begin + 4 * expert;
                bytes[at..at + 4].copy_from_slice(&1000f32.to_le_bytes());
            }
            changed += 1;
        }
    }
    assert_eq!(changed, 10, "one bias a layer");
    fs::write(&file, bytes).unwrap();

    let open = || ModelFolder::open(folder.path(), &ConfigOptions::default()).unwrap();
    let tokens = prompt(37);
    let session = session(open(), Build { trace: true, ..Build::plain(Mode::F32kvq) });
    let mut engine = engine(&session, 40, 40);
    engine.select("trace").unwrap();
    engine.feed(&[Feed { slot: 0, tokens: &tokens, logits: Wanted::All }]).unwrap();
    let ours = engine.logits().unwrap();

    let model = open();
    let options = BuildOptions { mode: Mode::F32kvq, trace: true, ..BuildOptions::default() };
    let step = tessera::model::graph::step(&model.config, &model.topology, options);
    let step = tessera::ir::graph::verify(step).unwrap();
    let weights = model.decoded_weights().unwrap();
    let size = Capacity { slots: 1, tokens: 40, rows: 40 };
    let mut oracle = Oracle::new(&model.config, &weights, &step, size).unwrap();
    let outputs = oracle.feed(&step, &tokens, Wanted::All, Outputs::new()).unwrap();
    let tessera::ir::graph::interp::Data::I32(chosen) = &outputs["layers.0.route_idx"].data else {
        panic!("choices are i32");
    };
    assert!(chosen.iter().all(|e| (3..6).contains(e)), "the bias does not decide");
    let expected: Vec<f64> = outputs["logits"].reals().unwrap().iter().map(|v| f64::from(*v)).collect();
    let error = max_abs(ours, &expected);
    assert!(error <= EXACT, "largest difference {error:e}");
}

/// Lengths that the ring has not filled yet: every token counts, and an entry appears with the last token of its group.
#[test]
fn short_prompts_are_those_of_the_reference() {
    let golden = Golden::open("random-v41");
    let tokens = golden.list("prompt");
    let session = session(random(), Build::plain(Mode::F32kvq));
    let expected = golden.reals("f32kvq.prefill.logits");
    let vocabulary = expected.len() / tokens.len();
    for len in [1, 2, 3, 7, 8, 9, 10, 11, 12, 13, 15, 16, 17, 31, 32, 33] {
        // Room for exactly this prompt, so that caches and rings are as small as they may be.
        let mut engine = engine(&session, len, len);
        engine.feed(&[Feed { slot: 0, tokens: &tokens[..len], logits: Wanted::All }]).unwrap();
        let error = max_abs(engine.logits().unwrap(), &expected[..len * vocabulary]);
        assert!(error <= EXACT, "{len} tokens: largest difference {error:e}");
    }
}
