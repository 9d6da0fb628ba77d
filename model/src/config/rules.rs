//! Rules over several keys: what the number formats, the layer schedule and the vocabulary allow.

use super::section::Findings;
use super::{Config, TextConfig};
use crate::engram;

/// Most expert matrices of one checkpoint, times the layers; the released model has 15 360.
const EXPERT_LIMIT: usize = 1 << 20;

/// Judges every rule whose keys are each sound on their own.
pub(super) fn check(config: &Config, findings: &Findings<'_>) {
    let rules = Rules { text: &config.text, findings };
    rules.widths();
    rules.experts();
    rules.token_ids(config);
    rules.ratios();
    rules.sources();
    rules.engram();
    rules.drafting();
    let vision = &config.vision;
    if findings.sound(&["vision_config.hidden_size", "vision_config.num_attention_heads"])
        && !vision.hidden_size.is_multiple_of(vision.num_attention_heads)
    {
        findings.report(
            "vision_config.hidden_size",
            format!(
                "{} is not divisible by num_attention_heads {}",
                vision.hidden_size, vision.num_attention_heads
            ),
        );
    }
}

struct Rules<'a> {
    text: &'a TextConfig,
    findings: &'a Findings<'a>,
}

impl Rules<'_> {
    /// Reports `message` under the first key if `holds` is false; silent where a key is faulty by itself.
    fn rule(&self, keys: &[&str], holds: impl FnOnce() -> bool, message: impl FnOnce() -> String) -> bool {
        let paths: Vec<String> = keys.iter().map(|key| format!("text_config.{key}")).collect();
        let names: Vec<&str> = paths.iter().map(String::as_str).collect();
        if !self.findings.sound(&names) {
            return false;
        }
        let holds = holds();
        if !holds {
            self.findings.report(paths[0].clone(), message());
        }
        holds
    }

    fn widths(&self) {
        let t = self.text;
        for (key, width) in [
            ("hidden_size", t.hidden_size),
            ("head_dim", t.head_dim),
            ("q_lora_rank", t.q_lora_rank),
            ("o_lora_rank", t.o_lora_rank),
            ("moe_intermediate_size", t.moe_intermediate_size),
            ("index_head_dim", t.index_head_dim),
            ("engram_head_dim", t.engram_head_dim),
        ] {
            let message = || format!("{width} is not a multiple of 32, the width of a block scale");
            self.rule(&[key], || width.is_multiple_of(32), message);
        }
        let (heads, groups) = (t.num_attention_heads, t.o_groups);
        self.rule(
            &["num_attention_heads", "o_groups"],
            || heads.is_multiple_of(groups),
            || format!("{heads} heads do not divide into o_groups = {groups}"),
        );
        let rope = t.qk_rope_head_dim;
        self.rule(
            &["qk_rope_head_dim"],
            || rope.is_multiple_of(2),
            || format!("{rope} is odd; rotation works on pairs"),
        );
        for (key, width) in [("head_dim", t.head_dim), ("index_head_dim", t.index_head_dim)] {
            self.rule(
                &["qk_rope_head_dim", key],
                || rope <= width,
                || format!("{rope} exceeds {key} = {width}"),
            );
        }
        let yarn = &t.rope_scaling;
        self.rule(
            &["rope_scaling.beta_fast", "rope_scaling.beta_slow"],
            || yarn.beta_fast > yarn.beta_slow,
            || format!("{} must exceed beta_slow = {}", yarn.beta_fast, yarn.beta_slow),
        );
    }

    fn experts(&self) {
        let t = self.text;
        for (key, chosen, of, experts) in [
            ("num_experts_per_tok", t.num_experts_per_tok, "n_routed_experts", t.n_routed_experts),
            (
                "dspark_num_experts_per_tok",
                t.dspark_num_experts_per_tok,
                "dspark_n_routed_experts",
                t.dspark_n_routed_experts,
            ),
        ] {
            self.rule(&[key, of], || chosen <= experts, || format!("{chosen} exceeds {of} = {experts}"));
        }
        let layers = t.num_hidden_layers;
        self.rule(
            &["n_routed_experts", "num_hidden_layers"],
            || layers * t.n_routed_experts <= EXPERT_LIMIT,
            || {
                format!(
                    "{} experts in {layers} layers exceed the limit of {EXPERT_LIMIT} experts",
                    t.n_routed_experts
                )
            },
        );
    }

    fn token_ids(&self, config: &Config) {
        let size = self.text.vocab_size;
        let outside = |id: u32| id as usize >= size;
        for (key, id) in [
            ("bos_token_id", config.bos_token_id),
            ("eos_token_id", config.eos_token_id),
            ("pad_token_id", config.pad_token_id),
            ("image_token_id", config.image_token_id),
            ("text_config.engram_pad_token_id", self.text.engram_pad_token_id),
            ("text_config.dspark_noise_token_id", self.text.dspark_noise_token_id),
        ] {
            if self.findings.sound(&[key, "text_config.vocab_size"]) && outside(id) {
                self.findings.report(key, format!("{id} is outside the vocabulary of vocab_size = {size}"));
            }
        }
        let compressed = self.text.engram_compressed_vocab_size;
        self.rule(
            &["engram_compressed_vocab_size", "vocab_size"],
            || compressed <= size,
            || format!("{compressed} exceeds vocab_size = {size}"),
        );
    }

    fn ratios(&self) {
        let t = self.text;
        let (layers, stages) = (t.num_hidden_layers, t.num_nextn_predict_layers);
        let ratios = &t.compress_ratios;
        let keys = ["compress_ratios", "num_hidden_layers", "num_nextn_predict_layers"];
        let length = self.rule(
            &keys,
            || ratios.len() == layers + stages,
            || {
                format!(
                    "{} entries, expected {}: num_hidden_layers = {layers} plus num_nextn_predict_layers = {stages}",
                    ratios.len(),
                    layers + stages
                )
            },
        );
        if !length {
            return;
        }
        let rank = |ratio: usize| match ratio {
            0 => 0,
            2 => 1,
            _ => 2,
        };
        if let Some(at) = (1..layers).find(|&at| rank(ratios[at]) < rank(ratios[at - 1])) {
            self.rule(
                &keys,
                || false,
                || {
                    format!(
                        "entry {at} is {} after {}; the layers must run through 0, then 2, then 1",
                        ratios[at],
                        ratios[at - 1]
                    )
                },
            );
        }
        self.rule(
            &keys,
            || ratios[..layers].contains(&1),
            || "no layer has ratio 1; the decoder half starts at the first one".to_owned(),
        );
        if let Some(stage) = (0..stages).find(|stage| ratios[layers + stage] != 0) {
            self.rule(
                &keys,
                || false,
                || format!("DSpark stage {stage} has ratio {}, expected 0", ratios[layers + stage]),
            );
        }
    }

    /// Ascending layer ids below the number of layers.
    fn ascending(&self, key: &str, ids: &[usize]) -> bool {
        let layers = self.text.num_hidden_layers;
        let in_order = self.rule(
            &[key],
            || ids.is_sorted_by(|a, b| a < b),
            || format!("{ids:?} is not strictly ascending"),
        );
        in_order
            && self.rule(
                &[key, "num_hidden_layers"],
                || ids.iter().all(|&id| id < layers),
                || format!("{ids:?} names a layer beyond num_hidden_layers = {layers}"),
            )
    }

    fn sources(&self) {
        let t = self.text;
        let (kv, index) = (&t.kv_source_layer_ids, &t.index_source_layer_ids);
        let kv_sound = self.ascending("kv_source_layer_ids", kv);
        let index_sound = self.ascending("index_source_layer_ids", index);
        let ratio = |layer: usize| t.compress_ratios.get(layer).copied().unwrap_or(0);
        for (key, ids, sound) in
            [("kv_source_layer_ids", kv, kv_sound), ("index_source_layer_ids", index, index_sound)]
        {
            let keys = [key, "compress_ratios"];
            if !sound {
                continue;
            }
            if let Some(layer) = ids.iter().find(|&&layer| ratio(layer) == 0) {
                self.rule(
                    &keys,
                    || false,
                    || format!("layer {layer} has ratio 0: it has nothing compressed"),
                );
            }
            // Every compressed layer reads the latest source: it must exist and have the layer's own ratio.
            for layer in (0..t.num_hidden_layers).filter(|&layer| ratio(layer) > 0) {
                let starts = layer == 0 || ratio(layer - 1) != ratio(layer);
                if starts && !ids.contains(&layer) {
                    let message =
                        || format!("lacks layer {layer}, the first layer with ratio {}", ratio(layer));
                    self.rule(&keys, || false, message);
                }
            }
        }
        if kv_sound && index_sound {
            self.rule(
                &["kv_source_layer_ids", "index_source_layer_ids"],
                || kv.iter().all(|layer| index.contains(layer)),
                || format!("{kv:?} are not all among index_source_layer_ids {index:?}"),
            );
        }
        if kv_sound {
            // The decoder half is skipped for most of a prompt, so nothing behind its first layer may be a memory.
            let decoder: Vec<usize> = kv.iter().copied().filter(|&layer| ratio(layer) == 1).collect();
            self.rule(
                &["kv_source_layer_ids", "compress_ratios"],
                || decoder.len() <= 1,
                || format!("layers {decoder:?} all have ratio 1; only the first of them may be a source"),
            );
        }
        let candidate = t.candidate_source_layer_id;
        self.rule(
            &["candidate_source_layer_id", "index_source_layer_ids", "compress_ratios"],
            || index.contains(&candidate) && ratio(candidate) == 1,
            || format!("layer {candidate} is not an index source with ratio 1"),
        );
    }

    fn decoder_start(&self) -> Option<usize> {
        self.text.compress_ratios.iter().position(|&ratio| ratio == 1)
    }

    fn engram(&self) {
        let t = self.text;
        let layers = &t.engram_layer_ids;
        if !self.ascending("engram_layer_ids", layers) {
            return;
        }
        if let Some(start) = self.decoder_start() {
            self.rule(
                &["engram_layer_ids", "compress_ratios"],
                || layers.iter().all(|&layer| layer < start),
                || format!("{layers:?} must lie before layer {start}, the first with ratio 1"),
            );
        }
        let rows = &t.engram_num_embeddings;
        let keys = [
            "engram_num_embeddings",
            "engram_layer_ids",
            "engram_max_ngram_size",
            "engram_vocab_size",
            "engram_n_heads",
        ];
        let expected = || {
            let columns = (t.engram_max_ngram_size - 1) * t.engram_n_heads;
            engram::table_rows(layers.len(), columns, t.engram_vocab_size as u64)
        };
        self.rule(
            &keys,
            || expected().iter().eq(rows.iter().map(|&row| row as u64).collect::<Vec<_>>().iter()),
            || format!("{rows:?}, expected {:?}: the sums of the hash primes", expected()),
        );
    }

    fn drafting(&self) {
        let t = self.text;
        let taps = &t.dspark_target_layer_ids;
        if !self.ascending("dspark_target_layer_ids", taps) {
            return;
        }
        if let Some(start) = self.decoder_start() {
            self.rule(
                &["dspark_target_layer_ids", "compress_ratios"],
                || taps.iter().all(|&layer| layer >= start),
                || format!("{taps:?} must not lie before layer {start}, the first with ratio 1"),
            );
        }
    }
}
