//! The graph modules on the interpreter against the golden runs of the reference.

mod golden;

use std::collections::BTreeMap;

use golden::{Golden, Setup, int_rows, ints, max_abs, reals, worst_row};
use tessera_ir::graph::interp::Tensor;
use tessera_model::graph::{BuildOptions, Mode};
use tessera_model::oracle::{Oracle, Outputs};
use tessera_model::rows::{Capacity, Wanted};

/// Logits, streams and confidences of the modes without bf16 (golden README, "Tolerances").
const EXACT: f32 = 1e-3;
/// A block fed with the golden input of its layer, in `ref`.
const BLOCK: f64 = 1e-2;

fn random() -> Setup {
    Setup::open("tests/data/random-v41", "tests/data/random-v41")
}

fn tiny() -> Setup {
    Setup::open("models/tiny-v41", "tests/data/tiny-v41")
}

fn capacity(tokens: usize, rows: usize) -> Capacity {
    Capacity { slots: 1, tokens, rows }
}

/// `output` equals the golden tensor `key` to within [`EXACT`].
fn assert_close(golden: &Golden, key: &str, outputs: &Outputs, output: &str) {
    let error = max_abs(reals(&outputs[output]), &golden.reals(key));
    assert!(error <= EXACT, "{key}: largest difference {error:e}");
}

/// Integer outputs equal the golden ones.
fn assert_same(golden: &Golden, key: &str, outputs: &Outputs, output: &str) {
    assert_eq!(ints(&outputs[output]), golden.ints(key), "{key}");
}

/// Hashes, top-k rows and routes equal the golden ones.
fn assert_choices(setup: &Setup, golden: &Golden, prefix: &str, outputs: &Outputs) {
    let hashes = golden.ints(&format!("{prefix}.engram_hash"));
    let layers = setup.config.text.engram_layer_ids.len();
    for layer in 0..layers {
        let rows = int_rows(&outputs[&format!("engram_hash.{layer}")]);
        let columns = rows[0].len();
        for (t, row) in rows.iter().enumerate() {
            let at = (t * layers + layer) * columns;
            assert_eq!(row, &hashes[at..at + columns], "{prefix}: hashes of Engram layer {layer}, row {t}");
        }
    }
    for layer in setup.topology.indexers() {
        assert_same(golden, &format!("{prefix}.topk.{layer}"), outputs, &format!("topk.{layer}"));
    }
    for layer in 0..setup.topology.layers.len() {
        let name = format!("layers.{layer}.route_idx");
        assert_same(golden, &format!("{prefix}.{name}"), outputs, &name);
    }
}

/// Prefill, then for every forced token a draft and a step.
#[test]
fn exact_modes_give_the_golden_streams_logits_and_drafts() {
    let setup = random();
    let (prompt, forced) = (setup.list("prompt"), setup.list("forced_continuation"));
    for mode in [Mode::F32, Mode::F32q, Mode::F32kvq] {
        let m = mode.name();
        let golden = &setup.golden;
        let [plain, traced] = [false, true]
            .map(|trace| setup.step(BuildOptions { mode, trace, ..BuildOptions::default() }));
        let draft = setup.draft(mode);
        let weights = setup.weights();
        let size = capacity(prompt.len() + forced.len(), prompt.len());
        let mut oracle = Oracle::new(&setup.config, &weights, &plain, size).unwrap();

        let outputs = oracle.feed(&traced, &prompt, Wanted::All, Outputs::new()).unwrap();
        assert_choices(&setup, golden, &format!("{m}.prefill"), &outputs);
        for layer in 0..setup.topology.layers.len() {
            for name in [format!("hidden.{layer}"), format!("pre.{layer}"), format!("layers.{layer}.route_w")] {
                assert_close(golden, &format!("{m}.prefill.{name}"), &outputs, &name);
            }
        }
        assert_close(golden, &format!("{m}.prefill.taps"), &outputs, "taps");
        assert_close(golden, &format!("{m}.prefill.logits"), &outputs, "logits");

        let mut steps = BTreeMap::new();
        for &token in &forced {
            golden::gather(&mut steps, "draft.", oracle.draft(&draft, token).unwrap());
            golden::gather(&mut steps, "decode.", oracle.feed(&plain, &[token], Wanted::Last, Outputs::new()).unwrap());
        }
        assert_same(golden, &format!("{m}.draft.tokens"), &steps, "draft.tokens");
        for name in ["decode.logits", "draft.logits", "draft.conf"] {
            assert_close(golden, &format!("{m}.{name}"), &steps, name);
        }
    }
}

/// The decoder half of the prompt on its last rows only, then steps as usual.
#[test]
fn compact_prefill_gives_the_golden_logits() {
    let setup = random();
    let (prompt, forced) = (setup.list("prompt"), setup.list("forced_continuation"));
    let keep = setup.json["compact_keep"].as_u64().unwrap() as usize;
    for mode in [Mode::F32, Mode::F32q, Mode::F32kvq] {
        let m = mode.name();
        let options = BuildOptions { mode, ..BuildOptions::default() };
        let (step, draft) = (setup.step(options), setup.draft(mode));
        let replay = setup.step(BuildOptions { replay: true, ..options });
        let weights = setup.weights();
        // In one chunk, and in three of which the first keeps no row and the second some.
        for cuts in [vec![0, 40], vec![0, 13, 27, 40]] {
            let mut oracle = Oracle::new(&setup.config, &weights, &step, capacity(60, 40)).unwrap();
            let mut steps = BTreeMap::new();
            for cut in cuts.windows(2) {
                let chunk = &prompt[cut[0]..cut[1]];
                let outputs = oracle.feed_replayed(&replay, chunk, Wanted::All, (prompt.len(), keep)).unwrap();
                golden::gather(&mut steps, "prefill.", outputs);
            }
            for &token in &forced[..4] {
                golden::gather(&mut steps, "draft.", oracle.draft(&draft, token).unwrap());
                let outputs = oracle.feed(&step, &[token], Wanted::Last, Outputs::new()).unwrap();
                golden::gather(&mut steps, "decode.", outputs);
            }
            for name in ["prefill.logits", "decode.logits", "draft.logits"] {
                assert_close(&setup.golden, &format!("{m}.compact.{name}"), &steps, name);
            }
        }
    }
}

/// `ref`, each block on the golden output of the block before.
#[test]
fn released_arithmetic_gives_the_golden_blocks() {
    let setup = random();
    let golden = &setup.golden;
    let prompt = setup.list("prompt");
    let step = setup.step(BuildOptions { mode: Mode::Ref, trace: true, teacher: true, replay: false });
    let weights = setup.weights();
    let mut oracle = Oracle::new(&setup.config, &weights, &step, capacity(60, 40)).unwrap();
    let layers = setup.topology.layers.len();
    let (hc, d) = (setup.config.text.hc_mult, setup.config.text.hidden_size);
    let mut inputs = Outputs::new();
    for layer in 0..layers - 1 {
        let x = golden.reals(&format!("ref.prefill.hidden.{layer}"));
        inputs.insert(format!("teacher.hidden.{layer}"), Tensor::f32([prompt.len(), hc, d], x));
        let pre = golden.reals(&format!("ref.prefill.pre.{layer}"));
        inputs.insert(format!("teacher.pre.{layer}"), Tensor::f32([prompt.len(), hc], pre));
    }
    let outputs = oracle.feed(&step, &prompt, Wanted::All, inputs).unwrap();
    assert_choices(&setup, golden, "ref.prefill", &outputs);
    let names = (0..layers).flat_map(|layer| {
        [format!("hidden.{layer}"), format!("pre.{layer}"), format!("layers.{layer}.route_w")]
    });
    for name in names.chain(["taps".to_owned(), "logits".to_owned()]) {
        let error = worst_row(&outputs[&name], &golden.reals(&format!("ref.prefill.{name}")));
        assert!(error <= BLOCK, "{name}: relative error of the worst row {error:e}");
    }
}

/// Greedy text of the trained model in plain f32, with the highest logits of every step.
#[test]
fn trained_model_writes_the_golden_text_in_f32() {
    let setup = tiny();
    let mode = Mode::F32;
    let step = setup.step(BuildOptions { mode, ..BuildOptions::default() });
    let weights = setup.weights();
    for (i, prompt) in setup.prompts().iter().enumerate() {
        let run = &prompt.modes["f32"];
        let mut oracle = Oracle::new(&setup.config, &weights, &step, capacity(260, 200)).unwrap();
        let outputs = oracle.feed(&step, &prompt.ids, Wanted::Last, Outputs::new()).unwrap();
        let mut rows = vec![reals(&outputs["logits"]).to_vec()];
        let mut text = vec![golden::argmax(&rows[0])];
        while text.len() < run.greedy.len() {
            let outputs = oracle.feed(&step, &text[text.len() - 1..], Wanted::Last, Outputs::new()).unwrap();
            rows.push(reals(&outputs["logits"]).to_vec());
            text.push(golden::argmax(&rows[rows.len() - 1]));
        }
        assert_eq!(text, run.greedy, "prompt {i}");
        let ids = setup.golden.ints(&format!("f32.p{i}.greedy.top_ids"));
        let highest: Vec<f32> =
            ids.chunks(8).zip(&rows).flat_map(|(ids, row)| ids.iter().map(|&id| row[id as usize])).collect();
        let error = max_abs(&highest, &setup.golden.reals(&format!("f32.p{i}.greedy.top_logits")));
        assert!(error <= EXACT, "prompt {i}: largest difference {error:e}");
    }
}

/// The trained model in the released arithmetic, fed with the golden tokens ("Token agreement").
#[test]
fn trained_model_agrees_with_the_golden_tokens_in_ref() {
    let setup = tiny();
    let step = setup.step(BuildOptions::default());
    let weights = setup.weights();
    let (mut total, mut equal) = (0, 0);
    for (i, prompt) in setup.prompts().iter().enumerate() {
        let run = &prompt.modes["ref"];
        let mut oracle = Oracle::new(&setup.config, &weights, &step, capacity(260, 200)).unwrap();
        let mut outputs = oracle.feed(&step, &prompt.ids, Wanted::Last, Outputs::new()).unwrap();
        for (j, &token) in run.greedy.iter().enumerate() {
            let chosen = golden::argmax(reals(&outputs["logits"]));
            total += 1;
            equal += usize::from(chosen == token);
            let (margin, noise) = (run.margin[j], run.noise[j]);
            assert!(
                chosen == token || margin <= noise,
                "prompt {i}, step {j}: {chosen} instead of {token}, margin {margin} > noise {noise}"
            );
            outputs = oracle.feed(&step, &[token], Wanted::Last, Outputs::new()).unwrap();
        }
    }
    assert!(equal * 100 >= total * 95, "{equal} of {total} steps agree, 95 % are asked for");
}
