//! The released configuration schema: typed, complete, and refused as a whole if any key is not understood.

mod rules;
mod section;

use std::fs;
use std::path::Path;

use crate::error::{Error, Result};
use crate::json::Json;
use section::{Findings, Section, Span};

/// What the user allows beyond the schema.
#[derive(Debug, Clone, Default)]
pub struct ConfigOptions {
    /// Unknown keys to ignore, by name (`foo`) or by path (`text_config.foo`).
    pub accept: Vec<String>,
}

/// A checked `config.json` (V4.1 §1).
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// Token that opens every sequence.
    pub bos_token_id: u32,
    /// Token that ends a text.
    pub eos_token_id: u32,
    /// Padding token.
    pub pad_token_id: u32,
    /// Token that stands for every position of an image.
    pub image_token_id: u32,
    /// The language model.
    pub text: TextConfig,
    /// The vision tower: checked, not executed.
    pub vision: VisionConfig,
    /// Sampling defaults of `generation_config.json`, if the folder has one.
    pub generation: Option<GenerationConfig>,
    /// Paths of unknown keys that were ignored because the user accepts them.
    pub accepted: Vec<String>,
}

/// `text_config`: names as in the file.
#[derive(Debug, Clone, PartialEq)]
#[expect(missing_docs, reason = "the names are those of the released file; V4.1 §1 explains them")]
pub struct TextConfig {
    pub vocab_size: usize,
    pub hidden_size: usize,
    pub moe_intermediate_size: usize,
    pub num_hidden_layers: usize,
    pub num_attention_heads: usize,
    pub head_dim: usize,
    pub qk_rope_head_dim: usize,
    pub q_lora_rank: usize,
    pub o_lora_rank: usize,
    pub o_groups: usize,
    pub swiglu_limit: f64,
    pub rms_norm_eps: f64,
    pub max_position_embeddings: usize,
    pub rope_theta: f64,
    pub rope_scaling: RopeScaling,
    pub compress_rope_theta: f64,
    pub n_routed_experts: usize,
    pub num_experts_per_tok: usize,
    pub routed_scaling_factor: f64,
    pub sliding_window: usize,
    /// One ratio a layer, then one a DSpark stage.
    pub compress_ratios: Vec<usize>,
    pub kv_source_layer_ids: Vec<usize>,
    pub index_source_layer_ids: Vec<usize>,
    pub index_n_heads: usize,
    pub index_head_dim: usize,
    pub index_topk: usize,
    pub candidate_source_layer_id: usize,
    pub candidate_topk_blocks: usize,
    pub candidate_block_size: usize,
    pub hc_mult: usize,
    pub hc_sinkhorn_iters: usize,
    pub hc_eps: f64,
    pub engram_layer_ids: Vec<usize>,
    pub engram_num_embeddings: Vec<usize>,
    pub engram_max_ngram_size: usize,
    pub engram_vocab_size: usize,
    pub engram_n_heads: usize,
    pub engram_head_dim: usize,
    pub engram_pad_token_id: u32,
    pub engram_compressed_vocab_size: usize,
    pub num_nextn_predict_layers: usize,
    pub dspark_block_size: usize,
    pub dspark_noise_token_id: u32,
    pub dspark_target_layer_ids: Vec<usize>,
    pub dspark_markov_rank: usize,
    pub dspark_n_routed_experts: usize,
    pub dspark_num_experts_per_tok: usize,
}

/// YaRN (V4.1 §2.5).
#[derive(Debug, Clone, PartialEq)]
pub struct RopeScaling {
    /// Extension factor of the context.
    pub factor: f64,
    /// Rotations above which a frequency is kept.
    pub beta_fast: f64,
    /// Rotations below which a frequency is divided by `factor`.
    pub beta_slow: f64,
    /// Context length before the extension.
    pub original_max_position_embeddings: usize,
}

/// `vision_config`: names as in the file; zero layers mean that there is no tower.
#[derive(Debug, Clone, PartialEq)]
#[expect(missing_docs, reason = "the names are those of the released file; V4.1 §7 explains them")]
pub struct VisionConfig {
    pub num_hidden_layers: usize,
    pub hidden_size: usize,
    pub num_attention_heads: usize,
    pub intermediate_size: usize,
    pub patch_size: usize,
    pub rope_theta: f64,
    pub downsample_ratio: usize,
    pub max_image_tokens: usize,
    pub min_pixels: usize,
    pub max_wh_ratio: Option<f64>,
}

/// `generation_config.json`: the author's sampling defaults.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct GenerationConfig {
    /// Whether to sample at all; false means greedy.
    pub do_sample: Option<bool>,
    /// Sampling temperature.
    pub temperature: Option<f64>,
    /// Nucleus mass.
    pub top_p: Option<f64>,
    /// Number of highest tokens that take part; 0 means all.
    pub top_k: Option<usize>,
    /// Tokens that end a text.
    pub eos_token_ids: Vec<u32>,
}

impl Config {
    /// Reads `config.json`, and `generation_config.json` where there is one.
    ///
    /// # Errors
    /// Either file is unreadable or not JSON, or its keys have faults (all are listed).
    pub fn from_dir(dir: impl AsRef<Path>, options: &ConfigOptions) -> Result<Config> {
        let path = dir.as_ref().join("config.json");
        let mut config = read_config(&read_text(&path)?, &path.display().to_string(), options)?;
        let path = dir.as_ref().join("generation_config.json");
        if path.exists() {
            let file = path.display().to_string();
            let (generation, accepted) = read_generation(&read_text(&path)?, &file, &config, options)?;
            config.generation = Some(generation);
            config.accepted.extend(accepted);
        }
        Ok(config)
    }

    /// Parses the text of a `config.json`.
    ///
    /// # Errors
    /// The text is not JSON, or its keys have faults (all are listed).
    pub fn parse(json: &str, options: &ConfigOptions) -> Result<Config> {
        read_config(json, "config.json", options)
    }

    /// The configuration of DeepSeek-V4.1-Flash as released (V4.1 §1).
    ///
    /// # Errors
    /// Never in practice: the embedded text is tested.
    pub fn released() -> Result<Config> {
        let text = include_str!("../data/deepseek-v4.1-flash.json");
        read_config(text, "deepseek-v4.1-flash.json", &ConfigOptions::default())
    }

    /// Every token that ends a text: `eos_token_id` and those of `generation_config.json`, ascending.
    pub fn stop_tokens(&self) -> Vec<u32> {
        let mut stops = vec![self.eos_token_id];
        stops.extend(self.generation.iter().flat_map(|generation| &generation.eos_token_ids));
        stops.sort_unstable();
        stops.dedup();
        stops
    }
}

/// Reads a text file, telling apart what cannot be read and what is not UTF-8.
pub(crate) fn read_text(path: &Path) -> Result<String> {
    let bytes = fs::read(path).map_err(|source| Error::Read { path: path.to_owned(), source })?;
    String::from_utf8(bytes).map_err(|error| Error::NotUtf8 {
        file: path.display().to_string(),
        offset: error.utf8_error().valid_up_to(),
    })
}

fn text(value: &str) -> Json {
    Json::String(value.to_owned())
}

fn int(value: u64) -> Json {
    Json::Number(value.into())
}

fn read_config(json: &str, file: &str, options: &ConfigOptions) -> Result<Config> {
    let json = Json::parse(json, file)?;
    let findings = Findings::new(&options.accept);
    let root = Section::root(&json, &findings);
    root.only("architectures", &Json::Array(vec![text("DeepseekV41ForCausalLM")]));
    root.only("model_type", &text("deepseek_v41"));
    root.only("dtype", &text("bfloat16"));
    root.optional_text("transformers_version");
    let bos_token_id = root.token("bos_token_id");
    let eos_token_id = root.token("eos_token_id");
    let pad_token_id = root.token("pad_token_id");
    let image_token_id = root.token("image_token_id");
    read_quantization(root.section("quantization_config"));
    let text = read_text_config(root.section("text_config"));
    let vision = read_vision(root.section("vision_config"));
    root.finish();
    let config = Config {
        bos_token_id,
        eos_token_id,
        pad_token_id,
        image_token_id,
        text,
        vision,
        generation: None,
        accepted: Vec::new(),
    };
    rules::check(&config, &findings);
    let (faults, accepted) = findings.into_parts();
    if faults.is_empty() {
        Ok(Config { accepted, ..config })
    } else {
        Err(Error::Config { file: file.to_owned(), faults })
    }
}

fn read_quantization(s: Section<'_>) {
    s.only("quant_method", &text("fp8"));
    s.only("activation_scheme", &text("dynamic"));
    s.only("weight_block_size", &Json::Array(vec![int(32), int(32)]));
    s.only("scale_fmt", &text("ue8m0"));
    s.only("expert_dtype", &text("fp4"));
    s.finish();
}

/// Widths, counts and ranks stay below these, so that no product of them overflows and no list of them explodes.
const WIDTH: usize = 1 << 20;
const LAYERS: usize = 1024;
const EXPERTS: usize = 1 << 14;
const ROWS: usize = 1 << 40;
const POSITIONS: usize = 1 << 31;

fn read_text_config(s: Section<'_>) -> TextConfig {
    s.only("model_type", &text("deepseek_v41_text"));
    s.only("num_key_value_heads", &int(1));
    s.only("hidden_act", &text("silu"));
    s.only("attention_bias", &Json::Bool(false));
    s.only("attention_dropout", &int(0));
    // Training only: any valid spread is as good as another.
    s.number("initializer_range", Span::NOT_NEGATIVE);
    s.only("use_cache", &Json::Bool(true));
    s.only("tie_word_embeddings", &Json::Bool(false));
    s.only("n_shared_experts", &int(1));
    s.only("scoring_func", &text("sqrtsoftplus"));
    s.only("topk_method", &text("noaux_tc"));
    s.only("norm_topk_prob", &Json::Bool(true));
    s.only_if_present("gate_temp", &int(1));
    s.only_if_present("hc_shifted", &Json::Bool(true));
    s.only_if_present("use_fp4_sparse_kv", &Json::Bool(true));
    s.only_if_present("dspark_target_attn_input", &Json::Bool(true));
    let layers = |key| s.counts(key, 0..=LAYERS - 1, LAYERS, false).unwrap_or_default();
    let config = TextConfig {
        vocab_size: s.count("vocab_size", 1..=section::MAX_TOKEN + 1),
        hidden_size: s.count("hidden_size", 1..=WIDTH),
        moe_intermediate_size: s.count("moe_intermediate_size", 1..=WIDTH),
        num_hidden_layers: s.count("num_hidden_layers", 1..=LAYERS),
        num_attention_heads: s.count("num_attention_heads", 1..=4096),
        head_dim: s.count("head_dim", 1..=4096),
        qk_rope_head_dim: s.count("qk_rope_head_dim", 1..=4096),
        q_lora_rank: s.count("q_lora_rank", 1..=WIDTH),
        o_lora_rank: s.count("o_lora_rank", 1..=WIDTH),
        o_groups: s.count("o_groups", 1..=4096),
        swiglu_limit: s.number("swiglu_limit", Span::POSITIVE),
        rms_norm_eps: s.number("rms_norm_eps", Span { high: 1.0, ..Span::POSITIVE }),
        max_position_embeddings: s.count("max_position_embeddings", 1..=POSITIONS),
        rope_theta: s.number("rope_theta", Span { low: 1.0, ..Span::POSITIVE }),
        rope_scaling: read_rope_scaling(s.section("rope_scaling")),
        compress_rope_theta: s.number("compress_rope_theta", Span { low: 1.0, ..Span::POSITIVE }),
        n_routed_experts: s.count("n_routed_experts", 1..=EXPERTS),
        num_experts_per_tok: s.count("num_experts_per_tok", 1..=EXPERTS),
        routed_scaling_factor: s.number("routed_scaling_factor", Span::POSITIVE),
        sliding_window: s.count("sliding_window", 1..=WIDTH),
        compress_ratios: s.counts("compress_ratios", 0..=2, 2 * LAYERS, false).unwrap_or_default(),
        kv_source_layer_ids: layers("kv_source_layer_ids"),
        index_source_layer_ids: layers("index_source_layer_ids"),
        index_n_heads: s.count("index_n_heads", 1..=4096),
        index_head_dim: s.count("index_head_dim", 1..=4096),
        index_topk: s.count("index_topk", 1..=WIDTH),
        candidate_source_layer_id: s.count("candidate_source_layer_id", 0..=LAYERS - 1),
        candidate_topk_blocks: s.count("candidate_topk_blocks", 1..=WIDTH),
        candidate_block_size: s.count("candidate_block_size", 1..=WIDTH),
        hc_mult: s.count("hc_mult", 1..=16),
        hc_sinkhorn_iters: s.count("hc_sinkhorn_iters", 1..=1000),
        hc_eps: s.number("hc_eps", Span { high: 1.0, ..Span::POSITIVE }),
        engram_layer_ids: layers("engram_layer_ids"),
        engram_num_embeddings: s.counts("engram_num_embeddings", 1..=ROWS, LAYERS, false).unwrap_or_default(),
        engram_max_ngram_size: s.count("engram_max_ngram_size", 2..=8),
        engram_vocab_size: s.count("engram_vocab_size", 2..=1 << 31),
        engram_n_heads: s.count("engram_n_heads", 1..=64),
        engram_head_dim: s.count("engram_head_dim", 1..=4096),
        engram_pad_token_id: s.token("engram_pad_token_id"),
        engram_compressed_vocab_size: s.count("engram_compressed_vocab_size", 1..=section::MAX_TOKEN + 1),
        num_nextn_predict_layers: s.count("num_nextn_predict_layers", 1..=16),
        dspark_block_size: s.count("dspark_block_size", 1..=64),
        dspark_noise_token_id: s.token("dspark_noise_token_id"),
        dspark_target_layer_ids: layers("dspark_target_layer_ids"),
        dspark_markov_rank: s.count("dspark_markov_rank", 1..=WIDTH),
        dspark_n_routed_experts: s.count("dspark_n_routed_experts", 1..=EXPERTS),
        dspark_num_experts_per_tok: s.count("dspark_num_experts_per_tok", 1..=EXPERTS),
    };
    let key = "index_k_source_layer_ids";
    if let Some(ids) = s.counts(key, 0..=LAYERS - 1, LAYERS, true)
        && ids != config.kv_source_layer_ids
    {
        s.report(key, "only the layers of kv_source_layer_ids are supported");
    }
    s.finish();
    config
}

fn read_rope_scaling(s: Section<'_>) -> RopeScaling {
    s.only("rope_type", &text("yarn"));
    let scaling = RopeScaling {
        factor: s.number("factor", Span { low: 1.0, closed: true, high: 1e6 }),
        beta_fast: s.number("beta_fast", Span { high: 1e6, ..Span::POSITIVE }),
        beta_slow: s.number("beta_slow", Span { high: 1e6, ..Span::POSITIVE }),
        original_max_position_embeddings: s.count("original_max_position_embeddings", 1..=POSITIONS),
    };
    s.finish();
    scaling
}

fn read_vision(s: Section<'_>) -> VisionConfig {
    s.only("model_type", &text("deepseek_v41_vision"));
    let vision = VisionConfig {
        num_hidden_layers: s.count("num_hidden_layers", 0..=LAYERS),
        hidden_size: s.count("hidden_size", 1..=WIDTH),
        num_attention_heads: s.count("num_attention_heads", 1..=4096),
        intermediate_size: s.count("intermediate_size", 1..=WIDTH),
        patch_size: s.count("patch_size", 1..=1024),
        rope_theta: s.number("rope_theta", Span { low: 1.0, ..Span::POSITIVE }),
        downsample_ratio: s.count("downsample_ratio", 1..=64),
        max_image_tokens: s.count("max_image_tokens", 1..=POSITIONS),
        min_pixels: s.count("min_pixels", 0..=POSITIONS),
        max_wh_ratio: s.nullable_number("max_wh_ratio", Span::POSITIVE),
    };
    s.finish();
    vision
}

fn read_generation(
    json: &str,
    file: &str,
    config: &Config,
    options: &ConfigOptions,
) -> Result<(GenerationConfig, Vec<String>)> {
    let json = Json::parse(json, file)?;
    let findings = Findings::new(&options.accept);
    let s = Section::root(&json, &findings);
    s.optional_flag("_from_model_config");
    s.optional_text("transformers_version");
    for (key, id) in [("bos_token_id", config.bos_token_id), ("pad_token_id", config.pad_token_id)] {
        if let Some(value) = s.optional_count(key, 0..=section::MAX_TOKEN)
            && value != id as usize
        {
            s.report(key, format!("{value} differs from config.json, which says {id}"));
        }
    }
    let generation = GenerationConfig {
        do_sample: s.optional_flag("do_sample"),
        temperature: s.optional_number("temperature", Span { high: 100.0, ..Span::NOT_NEGATIVE }),
        top_p: s.optional_number("top_p", Span { high: 1.0, ..Span::POSITIVE }),
        top_k: s.optional_count("top_k", 0..=section::MAX_TOKEN),
        eos_token_ids: s.tokens("eos_token_id", config.text.vocab_size),
    };
    s.finish();
    let (faults, accepted) = findings.into_parts();
    if faults.is_empty() {
        Ok((generation, accepted))
    } else {
        Err(Error::Config { file: file.to_owned(), faults })
    }
}
