//! The role of every layer, derived from the configuration (V4.1 §1) and never written down anywhere else.

use crate::config::Config;

/// What a layer attends to besides its own window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LayerKind {
    /// Nothing: sliding window only (ratio 0).
    Window,
    /// Its own compressed entries, chosen by its own indexer: compressor, index keys and index queries.
    Full,
    /// An earlier layer's entries, chosen anew by its own index queries over that layer's index keys.
    Reindex,
    /// An earlier layer's entries and the choice of the latest indexer.
    Reuse,
}

/// The role of one layer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LayerRole {
    /// What the layer attends to.
    pub kind: LayerKind,
    /// Tokens per compressed entry: 1 or 2, and 0 for a window-only layer.
    pub ratio: usize,
    /// Layer whose compressed entries it reads: the latest source at or before it.
    pub kv_source: Option<usize>,
    /// Layer whose selection it uses: the latest indexer at or before it.
    pub index_source: Option<usize>,
    /// Layer whose candidate blocks restrict its index scores.
    pub candidate_source: Option<usize>,
    /// Whether it makes the candidate blocks.
    pub makes_candidates: bool,
    /// Place among the Engram layers, if it has an Engram.
    pub engram: Option<usize>,
    /// Place among the DSpark taps, if its input is one.
    pub tap: Option<usize>,
}

/// The roles of all layers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Topology {
    /// One role a layer.
    pub layers: Vec<LayerRole>,
    /// First layer of the decoder half: the first with ratio 1.
    pub decoder_start: usize,
    /// Number of DSpark stages; each is a window-only block.
    pub stages: usize,
}

impl Topology {
    /// Derives the roles. A [`Config`] is checked when read, so this cannot fail.
    pub fn derive(config: &Config) -> Topology {
        let text = &config.text;
        let ratio = |layer: usize| text.compress_ratios.get(layer).copied().unwrap_or(0);
        let latest =
            |sources: &[usize], layer| sources.iter().copied().filter(|&source| source <= layer).max();
        let place = |ids: &[usize], layer| ids.iter().position(|&id| id == layer);
        let role = |layer: usize| {
            let ratio = ratio(layer);
            let compressed = ratio > 0;
            let kv_source = latest(&text.kv_source_layer_ids, layer).filter(|_| compressed);
            let index_source = latest(&text.index_source_layer_ids, layer).filter(|_| compressed);
            let kind = match (kv_source, index_source) {
                (None, _) => LayerKind::Window,
                (Some(source), _) if source == layer => LayerKind::Full,
                (Some(_), Some(source)) if source == layer => LayerKind::Reindex,
                (Some(_), _) => LayerKind::Reuse,
            };
            let makes_candidates = layer == text.candidate_source_layer_id;
            LayerRole {
                kind,
                ratio,
                kv_source,
                index_source,
                candidate_source: (kind == LayerKind::Reindex && layer > text.candidate_source_layer_id)
                    .then_some(text.candidate_source_layer_id),
                makes_candidates,
                engram: place(&text.engram_layer_ids, layer),
                tap: place(&text.dspark_target_layer_ids, layer),
            }
        };
        let layers: Vec<LayerRole> = (0..text.num_hidden_layers).map(role).collect();
        let decoder_start = layers.iter().position(|role| role.ratio == 1).unwrap_or(layers.len());
        Topology { layers, decoder_start, stages: text.num_nextn_predict_layers }
    }

    /// The layers that own compressed entries, ascending.
    pub fn kv_sources(&self) -> impl Iterator<Item = usize> + '_ {
        self.of_kind(|kind| kind == LayerKind::Full)
    }

    /// The layers that score and select, ascending.
    pub fn indexers(&self) -> impl Iterator<Item = usize> + '_ {
        self.of_kind(|kind| matches!(kind, LayerKind::Full | LayerKind::Reindex))
    }

    /// Layer whose compressed entries `layer` reads, if any.
    pub fn kv_source(&self, layer: usize) -> Option<usize> {
        self.layers.get(layer)?.kv_source
    }

    /// Layer whose selection `layer` uses, if any.
    pub fn index_source(&self, layer: usize) -> Option<usize> {
        self.layers.get(layer)?.index_source
    }

    fn of_kind<'a>(&'a self, wanted: impl Fn(LayerKind) -> bool + 'a) -> impl Iterator<Item = usize> + 'a {
        (0..self.layers.len()).filter(move |&layer| wanted(self.layers[layer].kind))
    }
}
