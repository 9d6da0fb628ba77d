//! Every way in which a configuration can be wrong, generated over the keys of the bundled ones.

mod common;

use common::{json, random, tiny};
use serde_json::{Value, json as value};
use tessera_model::{Config, ConfigOptions, Error};

fn faults(config: &Value) -> Vec<(String, String)> {
    match Config::parse(&config.to_string(), &ConfigOptions::default()) {
        Err(Error::Config { faults, .. }) => {
            faults.into_iter().map(|fault| (fault.key, fault.message)).collect()
        }
        Err(other) => panic!("expected config faults, got {other}"),
        Ok(_) => Vec::new(),
    }
}

/// Paths of all keys, sections included.
fn keys(config: &Value) -> Vec<Vec<String>> {
    fn walk(value: &Value, path: &[String], found: &mut Vec<Vec<String>>) {
        for (key, inner) in value.as_object().into_iter().flatten() {
            let path = [path, std::slice::from_ref(key)].concat();
            walk(inner, &path, found);
            found.push(path);
        }
    }
    let mut found = Vec::new();
    walk(config, &[], &mut found);
    found
}

fn parent<'a>(config: &'a mut Value, path: &[String]) -> &'a mut serde_json::Map<String, Value> {
    path[..path.len() - 1].iter().fold(config, |value, key| &mut value[key]).as_object_mut().unwrap()
}

fn with(config: &Value, path: &str, new: Value) -> Value {
    let path: Vec<String> = path.split('.').map(str::to_owned).collect();
    let mut config = config.clone();
    parent(&mut config, &path).insert(path.last().unwrap().clone(), new);
    config
}

#[test]
fn bundled_and_released_configurations_are_sound() {
    for dir in [tiny(), random()] {
        let config = common::config(&dir);
        assert_eq!(config, Config { generation: config.generation.clone(), ..common::config(&dir) });
    }
    let tiny = common::config(&tiny());
    let generation = tiny.generation.clone().unwrap();
    assert_eq!((generation.temperature, generation.top_p), (Some(1.0), Some(0.95)));
    assert_eq!(tiny.stop_tokens(), [1]);
    assert_eq!(tiny.text.rms_norm_eps, 1e-20);
    assert_eq!(Config::released().unwrap().text.compress_ratios.len(), 43);
}

#[test]
fn every_missing_key_is_named() {
    let config = json(&tiny().join("config.json"));
    let keys = keys(&config);
    assert!(keys.len() > 80);
    for path in keys {
        let mut broken = config.clone();
        parent(&mut broken, &path).remove(path.last().unwrap());
        let name = path.join(".");
        let found = faults(&broken);
        if name == "transformers_version" {
            assert_eq!(found, []);
            continue;
        }
        assert_eq!(found.len(), 1, "{name}: {found:?}");
        assert_eq!(found[0].0, name);
        assert!(found[0].1.starts_with("missing, expected "), "{name}: {}", found[0].1);
    }
}

#[test]
fn every_null_or_mistyped_key_is_named() {
    let config = json(&tiny().join("config.json"));
    for path in keys(&config) {
        let name = path.join(".");
        let old = path.iter().fold(&config, |value, key| &value[key]).clone();
        let mut wrong =
            vec![Value::Null, value!({}), value!({"a": 1}), value!([{}]), value!(["x", null]), value!(-7)];
        wrong.extend([value!("17"), value!(1.5), value!(true), value!(1e300), value!(u64::MAX)]);
        for new in wrong {
            // Some wrong-looking values are right for some keys.
            let real =
                ["theta", "beta", "factor", "eps", "limit", "range"].iter().any(|part| name.contains(part));
            let right = match &old {
                Value::String(_) => name == "transformers_version" && new.is_string(),
                Value::Bool(old) => new == *old,
                Value::Number(_) => real && (new == 1.5 || new == u64::MAX),
                Value::Null => new.is_null() || new == 1.5 || new == u64::MAX,
                Value::Array(_) | Value::Object(_) => false,
            };
            let broken = with(&config, &name, new.clone());
            let found = faults(&broken);
            if right && found.is_empty() {
                continue;
            }
            assert!(!found.is_empty(), "{name} = {new} was accepted");
            let own = |key: &str| {
                key == name || key.starts_with(&format!("{name}.")) || key.starts_with(&format!("{name}["))
            };
            assert!(found.iter().all(|(key, _)| own(key)), "{name} = {new}: {found:?}");
        }
    }
}

#[test]
fn faults_are_listed_together() {
    let config = json(&tiny().join("config.json"));
    let config = with(&config, "text_config.hidden_size", value!(null));
    let config = with(&config, "text_config.colour", value!("red"));
    let config = with(&config, "quantization_config.quant_method", value!("int4"));
    let config = with(&config, "text_config.dspark_noise_token_id", value!(2048));
    let message = Config::parse(&config.to_string(), &ConfigOptions::default()).unwrap_err().to_string();
    assert_eq!(
        message,
        "config.json: 4 faults\n  \
         quantization_config.quant_method: only \"fp8\" is supported, got \"int4\"\n  \
         text_config.hidden_size: expected an integer from 1 to 1048576, got null\n  \
         text_config.colour: unknown key (pass --accept-config colour to ignore it)\n  \
         text_config.dspark_noise_token_id: 2048 is outside the vocabulary of vocab_size = 2048"
    );
}

#[test]
fn unknown_keys_are_refused_unless_accepted() {
    let config = json(&tiny().join("config.json"));
    for path in ["extra", "text_config.extra", "text_config.rope_scaling.extra", "vision_config.extra"] {
        let broken = with(&config, path, value!(1));
        assert_eq!(faults(&broken).iter().map(|(key, _)| key.as_str()).collect::<Vec<_>>(), [path]);
        for accept in ["extra", path] {
            let options = ConfigOptions { accept: vec![accept.to_owned()] };
            let config = Config::parse(&broken.to_string(), &options).unwrap();
            assert_eq!(config.accepted, [path]);
        }
        let options = ConfigOptions { accept: vec!["extr".to_owned(), format!("{path}.extra")] };
        assert!(Config::parse(&broken.to_string(), &options).is_err());
    }
    // Accepting a known key does not switch its rule off.
    let broken = with(&config, "text_config.attention_bias", value!(true));
    let options = ConfigOptions { accept: vec!["attention_bias".to_owned()] };
    assert!(Config::parse(&broken.to_string(), &options).is_err());
}

#[test]
fn a_key_that_occurs_twice_is_refused() {
    let text = std::fs::read_to_string(tiny().join("config.json")).unwrap();
    let broken = text.replace("\"head_dim\": 128,", "\"head_dim\": 128, \"head_dim\": 128,");
    assert_ne!(text, broken);
    let message = Config::parse(&broken, &ConfigOptions::default()).unwrap_err().to_string();
    assert_eq!(message, "config.json: text_config.head_dim: the key occurs twice");
}

#[test]
fn optional_keys_take_their_only_value() {
    let config = json(&tiny().join("config.json"));
    let sound = [
        ("gate_temp", value!(1.0)),
        ("gate_temp", value!(1)),
        ("hc_shifted", value!(true)),
        ("use_fp4_sparse_kv", value!(true)),
        ("dspark_target_attn_input", value!(true)),
        ("index_k_source_layer_ids", value!([1, 3, 4])),
    ];
    for (key, new) in sound {
        assert_eq!(faults(&with(&config, &format!("text_config.{key}"), new)), []);
    }
    let refused = [
        ("gate_temp", value!(2.0)),
        ("hc_shifted", value!(false)),
        ("use_fp4_sparse_kv", value!(false)),
        ("dspark_target_attn_input", value!(null)),
        ("index_k_source_layer_ids", value!([1, 3])),
    ];
    for (key, new) in refused {
        let path = format!("text_config.{key}");
        let found = faults(&with(&config, &path, new));
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].0, path);
        assert!(found[0].1.contains("only "), "{found:?}");
    }
}

#[test]
fn rules_over_several_keys_name_the_key_and_the_reason() {
    let config = json(&tiny().join("config.json"));
    let ratios = |list: &str| value!(list.bytes().map(|digit| digit - b'0').collect::<Vec<_>>());
    let cases = [
        ("compress_ratios", ratios("0222111100"), "10 entries, expected 11"),
        ("compress_ratios", ratios("02221111000000"), "14 entries, expected 11"),
        ("compress_ratios", ratios("01112222000"), "entry 4 is 2 after 1"),
        ("compress_ratios", ratios("02221110000"), "entry 7 is 0 after 1"),
        ("compress_ratios", ratios("02222222000"), "no layer has ratio 1"),
        ("compress_ratios", ratios("02221111010"), "DSpark stage 1 has ratio 1, expected 0"),
        ("kv_source_layer_ids", value!([1, 4, 3]), "is not strictly ascending"),
        ("kv_source_layer_ids", value!([1, 3, 3, 4]), "is not strictly ascending"),
        ("kv_source_layer_ids", value!([1, 3, 4, 8]), "beyond num_hidden_layers = 8"),
        ("kv_source_layer_ids", value!([0, 1, 3, 4]), "layer 0 has ratio 0"),
        ("kv_source_layer_ids", value!([3, 4]), "lacks layer 1, the first layer with ratio 2"),
        ("kv_source_layer_ids", value!([1, 3]), "lacks layer 4, the first layer with ratio 1"),
        ("kv_source_layer_ids", value!([1, 2, 3, 4]), "not all among index_source_layer_ids"),
        ("kv_source_layer_ids", value!([1, 3, 4, 6]), "only the first of them may be a source"),
        ("index_source_layer_ids", value!([1, 3, 6]), "lacks layer 4"),
        ("candidate_source_layer_id", value!(3), "layer 3 is not an index source with ratio 1"),
        ("candidate_source_layer_id", value!(5), "layer 5 is not an index source with ratio 1"),
        ("engram_layer_ids", value!([1, 4]), "must lie before layer 4"),
        ("engram_layer_ids", value!([3, 1]), "is not strictly ascending"),
        ("engram_num_embeddings", value!([6126, 6333]), "expected [6126, 6332]: the sums of the hash primes"),
        ("engram_num_embeddings", value!([6126]), "expected [6126, 6332]"),
        ("dspark_target_layer_ids", value!([3, 6, 7]), "must not lie before layer 4"),
        ("hidden_size", value!(250), "250 is not a multiple of 32"),
        ("moe_intermediate_size", value!(100), "100 is not a multiple of 32"),
        ("engram_head_dim", value!(48), "48 is not a multiple of 32"),
        ("num_attention_heads", value!(5), "5 heads do not divide into o_groups = 2"),
        ("qk_rope_head_dim", value!(31), "31 is odd"),
        ("qk_rope_head_dim", value!(64), "64 exceeds index_head_dim = 32"),
        ("num_experts_per_tok", value!(9), "9 exceeds n_routed_experts = 8"),
        ("dspark_num_experts_per_tok", value!(7), "7 exceeds dspark_n_routed_experts = 6"),
        ("dspark_markov_rank", value!(0), "expected an integer from 1"),
        ("engram_compressed_vocab_size", value!(2049), "2049 exceeds vocab_size = 2048"),
        ("engram_pad_token_id", value!(2048), "2048 is outside the vocabulary"),
        ("num_hidden_layers", value!(1_000_000_000), "expected an integer from 1 to 1024"),
        ("num_key_value_heads", value!(2), "only 1 is supported, got 2"),
        ("scoring_func", value!("softmax"), "only \"sqrtsoftplus\" is supported, got \"softmax\""),
        ("hc_eps", value!(0), "expected a number above 0 and at most 1, got 0"),
    ];
    for (key, new, expected) in cases {
        let path = format!("text_config.{key}");
        let found = faults(&with(&config, &path, new));
        assert!(
            found.iter().any(|(name, message)| *name == path && message.contains(expected)),
            "{path}: {found:?}"
        );
    }
    for key in ["bos_token_id", "eos_token_id", "pad_token_id", "image_token_id"] {
        let found = faults(&with(&config, key, value!(5000)));
        assert_eq!(
            found,
            [(key.to_owned(), "5000 is outside the vocabulary of vocab_size = 2048".to_owned())]
        );
    }
}

#[test]
fn absurd_sizes_are_refused_at_once() {
    let config = json(&tiny().join("config.json"));
    for path in keys(&config).iter().map(|path| path.join(".")) {
        for new in
            [value!(1_000_000_000_000_000_u64), value!(vec![1_000_000_000_u64; 3]), value!(vec![0; 100_000])]
        {
            let found = faults(&with(&config, &path, new.clone()));
            let free = path == "vision_config.max_wh_ratio"
                || path.contains("theta")
                || path.ends_with("swiglu_limit");
            let free = free || path.ends_with("routed_scaling_factor") || path.ends_with("initializer_range");
            assert!(!found.is_empty() || free, "{path} accepts {new}");
        }
    }
    // Each number alone is allowed, their product is not.
    let config = with(&config, "text_config.n_routed_experts", value!(16384));
    let config = with(&config, "text_config.num_hidden_layers", value!(1024));
    let found = faults(&config);
    assert!(
        found.iter().any(|(_, message)| message.contains("exceed the limit of 1048576 experts")),
        "{found:?}"
    );
}

#[test]
fn text_that_is_not_a_configuration_is_refused() {
    let message = |text: &str| Config::parse(text, &ConfigOptions::default()).unwrap_err().to_string();
    assert!(message("").contains("not valid JSON"));
    assert!(message("{\"text_config\": ").contains("not valid JSON"));
    assert!(message("[1, 2]").contains("top level: expected an object, got an array of 2"));
    assert!(message(&"[".repeat(100_000)).contains("not valid JSON"));
    assert!(message("{\"vocab_size\": 1e999}").contains("not valid JSON"));
    assert!(message("{}").contains("text_config: missing, expected an object"));
}

#[test]
fn files_that_cannot_be_read_are_named() {
    let dir = tempfile::tempdir().unwrap();
    let read = || Config::from_dir(dir.path(), &ConfigOptions::default()).map_err(|error| error.to_string());
    assert!(read().unwrap_err().contains("config.json"));
    std::fs::write(dir.path().join("config.json"), b"{\"a\": \"\xff\"}").unwrap();
    assert!(read().unwrap_err().contains("config.json: byte 7 is not valid UTF-8"));
    std::fs::copy(tiny().join("config.json"), dir.path().join("config.json")).unwrap();
    assert_eq!(read().unwrap().generation, None);
    let generation = |text: &str| std::fs::write(dir.path().join("generation_config.json"), text).unwrap();
    generation("{\"eos_token_id\": [1, 7], \"temperature\": 0.5}");
    assert_eq!(read().unwrap().stop_tokens(), [1, 7]);
    generation("{\"eos_token_id\": 9}");
    assert_eq!(read().unwrap().stop_tokens(), [1, 9]);
    for (text, expected) in [
        ("{\"temperature\": null}", "generation_config.json: temperature: expected a number at least 0"),
        ("{\"top_p\": 0}", "top_p: expected a number above 0 and at most 1, got 0"),
        ("{\"repetition_penalty\": 1.1}", "repetition_penalty: unknown key"),
        ("{\"bos_token_id\": 4}", "bos_token_id: 4 differs from config.json, which says 0"),
        ("{\"eos_token_id\": [1, 2048]}", "eos_token_id[1]: expected an integer from 0 to 2047, got 2048"),
        ("{", "not valid JSON"),
    ] {
        generation(text);
        let message = read().unwrap_err();
        assert!(message.contains(expected), "{message}");
    }
}
