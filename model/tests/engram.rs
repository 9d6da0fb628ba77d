//! Engram's constants, rows and token map against the golden data.

mod common;

use common::{config, json, random, tiny};
use tessera_model::checkpoint::{Dtype, SafetensorsFile};
use tessera_model::engram::{EngramHash, TokenMap};
use tessera_model::{Config, Error, Tokenizer};

fn numbers(value: &serde_json::Value) -> Vec<u64> {
    value.as_array().unwrap().iter().map(|item| item.as_u64().unwrap()).collect()
}

#[test]
fn constants_equal_the_golden_ones() {
    let config = config(&random());
    let map = TokenMap::of_model(random(), &config, None).unwrap();
    let hash = EngramHash::new(&config, &map).unwrap();
    let golden = json(&random().join("golden.json"));
    assert_eq!(hash.layers.len(), 2);
    for (i, layer) in hash.layers.iter().enumerate() {
        assert_eq!(layer.layer, config.text.engram_layer_ids[i]);
        assert_eq!(layer.primes, numbers(&golden["primes"][i]));
        assert_eq!(layer.offsets, numbers(&golden["offsets"][i]));
        let multipliers: Vec<u64> = layer.multipliers.iter().map(|&m| m as u64).collect();
        assert_eq!(multipliers, numbers(&golden["multipliers"][i]));
    }
}

#[test]
fn rows_of_every_position_equal_the_golden_ones() {
    let config = config(&random());
    let map = TokenMap::of_model(random(), &config, None).unwrap();
    let hash = EngramHash::new(&config, &map).unwrap();
    let prompt: Vec<u32> =
        numbers(&json(&random().join("golden.json"))["prompt"]).iter().map(|&id| id as u32).collect();
    let file = SafetensorsFile::open(random().join("golden.safetensors")).unwrap();
    let golden = file.tensor("f32.prefill.engram_hash").unwrap();
    assert_eq!((golden.dtype, golden.shape), (Dtype::I64, &[40, 2, 6][..]));
    let mut golden = golden.data.chunks_exact(8).map(|b| u64::from_le_bytes(b.try_into().unwrap()));
    for position in 0..prompt.len() {
        for layer in 0..2 {
            let rows = hash.rows(layer, &prompt[..=position], &map).unwrap();
            assert_eq!(rows, golden.by_ref().take(6).collect::<Vec<_>>(), "position {position}");
            // Only the last four tokens matter, once there are four.
            if position >= 3 {
                assert_eq!(rows, hash.rows(layer, &prompt[position - 3..=position], &map).unwrap());
            }
        }
    }
}

#[test]
fn an_image_token_ends_every_ngram_that_reaches_it() {
    let config = config(&random());
    let map = TokenMap::of_model(random(), &config, None).unwrap();
    let hash = EngramHash::new(&config, &map).unwrap();
    let image = config.image_token_id;
    let rows = |history: &[u32]| hash.rows(0, history, &map).unwrap();
    // What lies behind an image, or before the sequence, is padding.
    assert_eq!(rows(&[7, image, 9]), rows(&[9]));
    assert_eq!(rows(&[7, image, 9]), rows(&[2, 2, 9]));
    assert_eq!(rows(&[9, 7, image]), rows(&[2]));
    assert_ne!(rows(&[7, 8, 9]), rows(&[9]));
}

#[test]
fn token_ids_outside_the_map_are_errors_and_no_row_leaves_its_table() {
    let config = config(&random());
    let map = TokenMap::of_model(random(), &config, None).unwrap();
    let mut hash = EngramHash::new(&config, &map).unwrap();
    for id in [256, u32::MAX] {
        assert!(matches!(hash.rows(0, &[id], &map), Err(Error::TokenRange { size: 256, .. })));
        assert!(hash.rows(0, &[id, 0], &map).is_err());
    }
    for ids in [[0, 0, 0, 0], [255, 255, 255, 255], [0, 255, 0, 255]] {
        let rows = hash.rows(1, &ids, &map).unwrap();
        assert!(rows.iter().all(|&row| row < config.text.engram_num_embeddings[1] as u64));
    }
    // Factors beyond any that the rule can give: wraps, stays in the table, does not panic.
    for layer in &mut hash.layers {
        layer.multipliers = vec![i64::MAX, i64::MAX - 2, i64::MIN + 1, -3];
    }
    let rows = hash.rows(0, &[255, 254, 253 - 1, 251], &map).unwrap();
    assert!(rows.iter().all(|&row| row < config.text.engram_num_embeddings[0] as u64));
}

#[test]
fn the_map_computed_from_the_tokenizer_equals_the_stored_one() {
    let config = config(&tiny());
    let tokenizer = Tokenizer::of_model(tiny(), &config).unwrap().unwrap();
    let computed = TokenMap::from_tokenizer(&tokenizer).unwrap();
    let stored = numbers(&json(&tiny().join("token_map.json")));
    assert_eq!(computed.ids().iter().map(|&id| u64::from(id)).collect::<Vec<_>>(), stored);
    assert_eq!(computed.compressed_size(), 1655);
    assert_eq!(TokenMap::of_model(tiny(), &config, Some(&tokenizer)).unwrap(), computed);
}

#[test]
fn a_stored_map_that_differs_is_refused_by_its_first_differing_id() {
    let config = config(&tiny());
    let tokenizer = Tokenizer::of_model(tiny(), &config).unwrap().unwrap();
    let stored = numbers(&json(&tiny().join("token_map.json")));
    let dir = tempfile::tempdir().unwrap();
    let refuse = |map: &[u64], tokenizer: Option<&Tokenizer>, expected: &str| {
        std::fs::write(dir.path().join("token_map.json"), serde_json::to_string(map).unwrap()).unwrap();
        let message = TokenMap::of_model(dir.path(), &config, tokenizer).unwrap_err().to_string();
        assert!(message.contains(expected), "{message}");
    };
    let mut map = stored.clone();
    (map[900], map[1200]) = (3, 4);
    refuse(&map, Some(&tokenizer), "token id 900 is mapped to 3");
    refuse(&stored[..2000], Some(&tokenizer), "2000 entries, the tokenizer has 2048 ids");
    map[77] = 1655;
    refuse(&map, None, "token id 77 is mapped to 1655, beyond engram_compressed_vocab_size = 1655");
    refuse(&stored[..100], None, "distinct ids, but engram_compressed_vocab_size is 1655");
    refuse(&[&stored[..], &[0]].concat(), None, "2049 entries exceed vocab_size = 2048");
    std::fs::write(dir.path().join("token_map.json"), "[0, 1, -2]").unwrap();
    let message = TokenMap::of_model(dir.path(), &config, None).unwrap_err().to_string();
    assert!(message.contains("token id 2: expected a compressed id, got -2"), "{message}");
    std::fs::remove_file(dir.path().join("token_map.json")).unwrap();
    let message = TokenMap::of_model(dir.path(), &config, None).unwrap_err().to_string();
    assert!(message.contains("neither this file nor a tokenizer.json exists"), "{message}");
}

#[test]
fn the_released_tables_have_the_rows_that_the_configuration_says() {
    // Config::released() is refused unless engram_num_embeddings equals the sums of the primes.
    let config = Config::released().unwrap();
    assert_eq!(config.text.engram_num_embeddings, [384006168, 384016682]);
}
