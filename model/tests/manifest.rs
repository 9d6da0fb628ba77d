//! The tensor list: the released model's published totals, and both bundled checkpoints.

mod common;

use common::{config, random, tiny};
use tessera_model::checkpoint::{Checkpoint, Dtype, Need, check, expected_tensors};
use tessera_model::{Config, LayerKind, Topology};

/// V4.1 [H]: counts published with the checkpoint, and `metadata.total_size` of its index.
#[test]
fn released_model_has_the_published_number_of_tensors_and_bytes() {
    let config = Config::released().unwrap();
    let tensors = expected_tensors(&config, &Topology::derive(&config));
    let stored: Vec<_> = tensors.iter().filter(|tensor| tensor.need != Need::Tied).collect();
    assert_eq!(stored.len(), 96_085);
    assert_eq!(stored.iter().map(|tensor| tensor.bytes()).sum::<u64>(), 510_286_023_000);
    assert_eq!(tensors.iter().filter(|tensor| tensor.need == Need::Vision).count(), 266);
    let find = |name: &str| {
        let tensor = tensors.iter().find(|tensor| tensor.name == name).unwrap();
        (tensor.shape.clone(), tensor.dtype)
    };
    assert_eq!(find("layers.14.engram.embed.weight"), (vec![384016682, 256], Dtype::F8E4M3));
    assert_eq!(find("layers.7.ffn.experts.383.w2.weight"), (vec![5120, 1152], Dtype::I8));
    assert_eq!(find("layers.7.ffn.experts.383.w2.scale"), (vec![5120, 72], Dtype::F8E8M0));
    assert_eq!(find("mtp.0.main_proj.scale"), (vec![160, 480], Dtype::F8E8M0));
    assert_eq!(find("mtp.2.confidence_head.proj.weight"), (vec![1, 5376], Dtype::Bf16));
    assert_eq!(find("vision.blocks.31.mlp.w1.weight"), (vec![5632, 1024], Dtype::Bf16));
}

#[test]
fn released_layers_have_the_roles_of_the_table() {
    let topology = Topology::derive(&Config::released().unwrap());
    assert_eq!(topology.layers.len(), 40);
    assert_eq!((topology.decoder_start, topology.stages), (20, 3));
    assert_eq!(topology.kv_sources().collect::<Vec<_>>(), [2, 8, 14, 20]);
    assert_eq!(topology.indexers().collect::<Vec<_>>(), [2, 8, 14, 20, 24, 28, 32, 36]);
    for (layer, role) in topology.layers.iter().enumerate() {
        let (kind, ratio) = match layer {
            0 | 1 => (LayerKind::Window, 0),
            2 | 8 | 14 => (LayerKind::Full, 2),
            3..20 => (LayerKind::Reuse, 2),
            20 => (LayerKind::Full, 1),
            24 | 28 | 32 | 36 => (LayerKind::Reindex, 1),
            _ => (LayerKind::Reuse, 1),
        };
        assert_eq!((role.kind, role.ratio), (kind, ratio), "layer {layer}");
        let kv = match layer {
            0 | 1 => None,
            2..8 => Some(2),
            8..14 => Some(8),
            14..20 => Some(14),
            _ => Some(20),
        };
        let index = if layer > 23 { Some(layer / 4 * 4) } else { kv };
        assert_eq!((topology.kv_source(layer), topology.index_source(layer)), (kv, index), "layer {layer}");
        assert_eq!(role.makes_candidates, layer == 20);
        assert_eq!(role.candidate_source, (kind == LayerKind::Reindex).then_some(20));
        assert_eq!(role.engram, [1, 14].iter().position(|&id| id == layer));
        assert_eq!(role.tap, [37, 38, 39].iter().position(|&id| id == layer));
    }
}

#[test]
fn bundled_checkpoints_hold_exactly_what_their_configurations_ask_for() {
    for (dir, count) in [(tiny(), 870), (random(), 1026)] {
        let config = config(&dir);
        let checkpoint = Checkpoint::open(&dir).unwrap();
        let report = check(&checkpoint, &expected_tensors(&config, &Topology::derive(&config))).unwrap();
        assert_eq!((checkpoint.len(), report.used), (count, count));
        assert_eq!(checkpoint.total_bytes(), report.used_bytes);
        assert_eq!(report.notes(), [""; 0]);
    }
}
