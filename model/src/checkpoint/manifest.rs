//! Every tensor that a configuration asks for: name, shape and type (V4.1 §4).

use super::Dtype;
use crate::config::{Config, VisionConfig};
use crate::topology::{LayerKind, LayerRole, Topology};

/// Whether a tensor must be there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// The language model or its draft stages use it.
    Required,
    /// Part of the vision tower: may be present, is not used.
    Vision,
    /// A copy of the backbone's embedding or head inside a draft stage: may be present, is skipped.
    Tied,
}

/// A tensor that a checkpoint holds or may hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExpectedTensor {
    /// Name without a leading `model.`.
    pub name: String,
    /// Extents, outermost first; FP4 experts count bytes, two codes each.
    pub shape: Vec<usize>,
    /// Element type.
    pub dtype: Dtype,
    /// Whether it must be there.
    pub need: Need,
}

impl ExpectedTensor {
    /// Bytes of the tensor.
    pub fn bytes(&self) -> u64 {
        self.shape
            .iter()
            .fold(self.dtype.size() as u64, |product, &extent| product.saturating_mul(extent as u64))
    }
}

/// All tensors of a model, in the order of the forward pass: backbone, draft stages, vision.
pub fn expected_tensors(config: &Config, topology: &Topology) -> Vec<ExpectedTensor> {
    let text = &config.text;
    let mut list = List { config, tensors: Vec::new() };
    let (vocabulary, d) = (text.vocab_size, text.hidden_size);
    list.bf16("embed.weight", &[vocabulary, d]);
    list.bf16("head.weight", &[vocabulary, d]);
    list.bf16("norm.weight", &[d]);
    for (layer, role) in topology.layers.iter().enumerate() {
        let prefix = format!("layers.{layer}");
        list.block(&prefix, text.n_routed_experts);
        list.compressed(&prefix, role);
        if let Some(place) = role.engram {
            list.engram(&prefix, text.engram_num_embeddings[place]);
        }
    }
    for stage in 0..topology.stages {
        list.stage(stage, stage + 1 == topology.stages);
    }
    if config.vision.num_hidden_layers > 0 {
        list.vision(&config.vision);
    }
    list.tensors
}

struct List<'a> {
    config: &'a Config,
    tensors: Vec<ExpectedTensor>,
}

/// Width of a block scale.
const BLOCK: usize = 32;

impl List<'_> {
    fn push(&mut self, name: String, shape: &[usize], dtype: Dtype, need: Need) {
        self.tensors.push(ExpectedTensor { name, shape: shape.to_vec(), dtype, need });
    }

    fn bf16(&mut self, name: impl Into<String>, shape: &[usize]) {
        self.push(name.into(), shape, Dtype::Bf16, Need::Required);
    }

    fn f32(&mut self, name: impl Into<String>, shape: &[usize]) {
        self.push(name.into(), shape, Dtype::F32, Need::Required);
    }

    fn optional(&mut self, name: impl Into<String>, shape: &[usize], need: Need) {
        self.push(name.into(), shape, Dtype::Bf16, need);
    }

    /// E4M3 with one scale for each 32×32 tile.
    fn fp8(&mut self, name: &str, [rows, columns]: [usize; 2]) {
        self.push(format!("{name}.weight"), &[rows, columns], Dtype::F8E4M3, Need::Required);
        let scale = [rows.div_ceil(BLOCK), columns.div_ceil(BLOCK)];
        self.push(format!("{name}.scale"), &scale, Dtype::F8E8M0, Need::Required);
    }

    /// E2M1, two codes a byte, with one scale for each 32 columns of a row.
    fn fp4(&mut self, name: &str, [rows, columns]: [usize; 2]) {
        self.push(format!("{name}.weight"), &[rows, columns / 2], Dtype::I8, Need::Required);
        self.push(format!("{name}.scale"), &[rows, columns.div_ceil(BLOCK)], Dtype::F8E8M0, Need::Required);
    }

    /// What every block has, in the backbone and in a draft stage.
    fn block(&mut self, prefix: &str, experts: usize) {
        let t = &self.config.text;
        let (d, heads, hd, hc) = (t.hidden_size, t.num_attention_heads, t.head_dim, t.hc_mult);
        let (q_rank, o_rank, groups, width) =
            (t.q_lora_rank, t.o_lora_rank, t.o_groups, t.moe_intermediate_size);
        self.bf16(format!("{prefix}.attn_norm.weight"), &[d]);
        self.bf16(format!("{prefix}.ffn_norm.weight"), &[d]);
        self.f32(format!("{prefix}.attn.attn_sink"), &[heads]);
        self.fp8(&format!("{prefix}.attn.wq_a"), [q_rank, d]);
        self.bf16(format!("{prefix}.attn.q_norm.weight"), &[q_rank]);
        self.fp8(&format!("{prefix}.attn.wq_b"), [heads * hd, q_rank]);
        self.fp8(&format!("{prefix}.attn.wkv"), [hd, d]);
        self.bf16(format!("{prefix}.attn.kv_norm.weight"), &[hd]);
        self.fp8(&format!("{prefix}.attn.wo_a"), [groups * o_rank, heads * hd / groups]);
        self.fp8(&format!("{prefix}.attn.wo_b"), [d, groups * o_rank]);
        for sublayer in ["attn", "ffn"] {
            let mixes = hc * (hc + 2);
            self.f32(format!("{prefix}.hc_{sublayer}_fn"), &[mixes, hc * d]);
            self.f32(format!("{prefix}.hc_{sublayer}_base"), &[mixes]);
            self.f32(format!("{prefix}.hc_{sublayer}_scale"), &[3]);
        }
        self.bf16(format!("{prefix}.ffn.gate.weight"), &[experts, d]);
        self.f32(format!("{prefix}.ffn.gate.bias"), &[experts]);
        self.f32(format!("{prefix}.ffn.gate.bias_vl"), &[experts]);
        for expert in 0..experts {
            for (matrix, shape) in [("w1", [width, d]), ("w2", [d, width]), ("w3", [width, d])] {
                self.fp4(&format!("{prefix}.ffn.experts.{expert}.{matrix}"), shape);
            }
        }
        for (matrix, shape) in [("w1", [width, d]), ("w2", [d, width]), ("w3", [width, d])] {
            self.fp8(&format!("{prefix}.ffn.shared_experts.{matrix}"), shape);
        }
    }

    /// Compressor, index keys and index queries of the layers that own them.
    fn compressed(&mut self, prefix: &str, role: &LayerRole) {
        let t = &self.config.text;
        let (d, hd, heads, index) = (t.hidden_size, t.head_dim, t.index_n_heads, t.index_head_dim);
        let q_rank = t.q_lora_rank;
        let (owns_entries, scores) = match role.kind {
            LayerKind::Full => (true, true),
            LayerKind::Reindex => (false, true),
            LayerKind::Window | LayerKind::Reuse => (false, false),
        };
        if owns_entries {
            self.bf16(format!("{prefix}.attn.compressor.wkv.weight"), &[hd, d]);
            if role.ratio > 1 {
                self.bf16(format!("{prefix}.attn.compressor.wgate.weight"), &[hd, d]);
            }
            self.bf16(format!("{prefix}.attn.compressor.norm.weight"), &[hd]);
            self.bf16(format!("{prefix}.attn.indexer.wk.weight"), &[index, hd]);
            self.bf16(format!("{prefix}.attn.indexer.k_norm.weight"), &[index]);
        }
        if scores {
            self.fp8(&format!("{prefix}.attn.indexer.wq_b"), [heads * index, q_rank]);
            self.bf16(format!("{prefix}.attn.indexer.weights_proj.weight"), &[heads, d]);
        }
    }

    fn engram(&mut self, prefix: &str, rows: usize) {
        let t = &self.config.text;
        let (d, hc, width) = (t.hidden_size, t.hc_mult, t.engram_head_dim);
        let columns = (t.engram_max_ngram_size - 1) * t.engram_n_heads;
        let embed = format!("{prefix}.engram.embed");
        self.push(format!("{embed}.weight"), &[rows, width], Dtype::F8E4M3, Need::Required);
        self.push(format!("{embed}.scale"), &[rows, width.div_ceil(BLOCK)], Dtype::F8E8M0, Need::Required);
        self.fp8(&format!("{prefix}.engram.wkv"), [(hc + 1) * d, columns * width]);
        self.bf16(format!("{prefix}.engram.q_weight"), &[hc, d]);
        self.bf16(format!("{prefix}.engram.k_weight"), &[hc, d]);
    }

    /// A DSpark stage: the first projects the taps, the last drafts.
    fn stage(&mut self, stage: usize, last: bool) {
        let t = &self.config.text;
        let (d, vocabulary, rank) = (t.hidden_size, t.vocab_size, t.dspark_markov_rank);
        let (taps, experts) = (t.dspark_target_layer_ids.len(), t.dspark_n_routed_experts);
        let prefix = format!("mtp.{stage}");
        if stage == 0 {
            self.fp8(&format!("{prefix}.main_proj"), [d, taps * d]);
            self.bf16(format!("{prefix}.main_norm.weight"), &[d]);
        }
        self.block(&prefix, experts);
        if last {
            self.bf16(format!("{prefix}.norm.weight"), &[d]);
            self.bf16(format!("{prefix}.markov_head.embed.weight"), &[vocabulary, rank]);
            self.bf16(format!("{prefix}.markov_head.head.weight"), &[vocabulary, rank]);
            self.bf16(format!("{prefix}.confidence_head.proj.weight"), &[1, d + rank]);
        }
        for copy in ["embed", "head"] {
            self.optional(format!("{prefix}.{copy}.weight"), &[vocabulary, d], Need::Tied);
        }
    }

    fn vision(&mut self, v: &VisionConfig) {
        let (d, width, inner) = (self.config.text.hidden_size, v.hidden_size, v.intermediate_size);
        let patch = 3 * v.patch_size * v.patch_size;
        let unfolded = width * v.downsample_ratio * v.downsample_ratio;
        for name in ["image_start", "image_end", "image_newline"] {
            self.optional(name, &[d], Need::Vision);
        }
        self.linear("vision.patch_embed.proj", [width, patch]);
        for block in 0..v.num_hidden_layers {
            let prefix = format!("vision.blocks.{block}");
            self.optional(format!("{prefix}.norm1.weight"), &[width], Need::Vision);
            self.optional(format!("{prefix}.norm2.weight"), &[width], Need::Vision);
            self.linear(&format!("{prefix}.attn.wqkv"), [3 * width, width]);
            self.linear(&format!("{prefix}.attn.wo"), [width, width]);
            self.optional(format!("{prefix}.mlp.w1.weight"), &[2 * inner, width], Need::Vision);
            self.optional(format!("{prefix}.mlp.w2.weight"), &[width, inner], Need::Vision);
        }
        self.optional("vision.norm.weight", &[width], Need::Vision);
        self.linear("aligner.w1", [d, unfolded]);
        self.linear("aligner.w2", [d, d]);
    }

    /// A vision linear with its bias.
    fn linear(&mut self, name: &str, [rows, columns]: [usize; 2]) {
        self.optional(format!("{name}.weight"), &[rows, columns], Need::Vision);
        self.optional(format!("{name}.bias"), &[rows], Need::Vision);
    }
}
