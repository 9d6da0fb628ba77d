//! Damaged safetensors files, indices that disagree with their shards, and checkpoints that do not fit their model.

mod common;

use std::fs;
use std::path::Path;

use common::{config, random, tiny};
use proptest::prelude::*;
use serde_json::{Value, json};
use tessera_model::checkpoint::header::{self, Dtype, HeaderFault};
use tessera_model::checkpoint::{Checkpoint, Need, SafetensorsFile, TensorFaults, check, expected_tensors};
use tessera_model::{Config, Error, Topology};

/// A file from a header text and data.
fn bytes(header: &str, data: &[u8]) -> Vec<u8> {
    [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), data].concat()
}

fn parse(file: &[u8]) -> Result<header::Header, HeaderFault> {
    header::parse(file, file.len() as u64)
}

fn fault(header: &str, data: usize) -> String {
    parse(&bytes(header, &vec![0; data])).unwrap_err().to_string()
}

const TWO: &str = r#"{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"b":{"dtype":"U8","shape":[],"data_offsets":[8,9]}}"#;

#[test]
fn a_sound_file_gives_names_shapes_types_and_data() {
    let data: Vec<u8> = (1..=9).collect();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.safetensors");
    fs::write(&path, bytes(&format!("{TWO}   "), &data)).unwrap();
    let file = SafetensorsFile::open(&path).unwrap();
    let a = file.tensor("a").unwrap();
    assert_eq!((a.dtype, a.shape, a.data), (Dtype::F32, &[2][..], &data[..8]));
    let b = file.tensor("b").unwrap();
    assert_eq!((b.dtype, b.shape, b.data), (Dtype::U8, &[][..], &data[8..]));
    assert!(file.tensor("c").is_none());
    let empty = parse(&bytes("{\"__metadata__\":{\"format\":\"pt\"}}", &[])).unwrap();
    assert_eq!((empty.tensors.len(), empty.metadata.len()), (0, 1));
    // Tensors without elements take no bytes, wherever they lie.
    let header = r#"{"z":{"dtype":"F32","shape":[0,7],"data_offsets":[4,4]},"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}"#;
    assert_eq!(parse(&bytes(header, &[0; 4])).unwrap().tensors.len(), 2);
}

#[test]
fn every_prefix_of_a_file_is_called_truncated() {
    let file = bytes(TWO, &[0; 9]);
    assert!(parse(&file).is_ok());
    for length in 0..file.len() {
        let message = parse(&file[..length]).unwrap_err().to_string();
        assert!(message.contains("truncated"), "{length}: {message}");
    }
    let short = parse(&file[..file.len() - 1]).unwrap_err();
    assert_eq!(short, HeaderFault::Truncated { need: 9, have: 8, name: "b".to_owned() });
    assert_eq!(parse(&bytes(TWO, &[0; 12])).unwrap_err(), HeaderFault::Trailing(3));
}

#[test]
fn header_length_beyond_the_file_is_refused_without_an_allocation() {
    for length in [116, 1 << 40, u64::MAX - 8, u64::MAX] {
        let mut file = bytes(TWO, &[0; 9]);
        file[..8].copy_from_slice(&length.to_le_bytes());
        if length == 116 {
            file.truncate(100);
        }
        let message = parse(&file).unwrap_err().to_string();
        assert!(
            message.contains(&format!("the header claims {length} bytes, but the file has")),
            "{message}"
        );
    }
    let length = (100_u64 << 20) + 1;
    let fault = header::parse(&length.to_le_bytes(), u64::MAX).unwrap_err();
    assert_eq!(fault, HeaderFault::TooLong(length));
}

#[test]
fn headers_that_are_not_the_documented_json_are_refused() {
    let mut file = bytes(r#"{"a?":{}}"#, &[]);
    file[11] = 0xff;
    assert_eq!(parse(&file).unwrap_err(), HeaderFault::NotUtf8(3));
    for (header, expected) in [
        ("", "header: EOF"),
        ("{\"a\":", "header: EOF"),
        ("{} x", "header: trailing characters"),
        ("[]", "header: expected an object of tensors, got an array of 0"),
        (r#"{"__metadata__":{"a":1}}"#, "__metadata__: expected an object of strings"),
        (r#"{"__metadata__":{"a":"1","a":"2"}}"#, "__metadata__: a occurs twice"),
        (r#"{"a":3}"#, "tensor a: expected an object, got 3"),
        (r#"{"a":{"dtype":"F32","shape":[]}}"#, "tensor a: data_offsets is missing"),
        (r#"{"a":{"shape":[],"data_offsets":[0,4]}}"#, "tensor a: dtype is missing"),
        (r#"{"a":{"dtype":"F32","data_offsets":[0,4]}}"#, "tensor a: shape is missing"),
        (
            r#"{"a":{"dtype":"F32","dtype":"F32","shape":[],"data_offsets":[0,4]}}"#,
            "tensor a: dtype occurs twice",
        ),
        (r#"{"a":{"dtype":"F32","shape":[],"data_offsets":[0,4],"x":0}}"#, "tensor a: unknown key x"),
        (
            r#"{"a":{"dtype":"F8_E3M4","shape":[4],"data_offsets":[0,4]}}"#,
            "tensor a: unknown dtype \"F8_E3M4\"; known are BOOL, U8",
        ),
        (r#"{"a":{"dtype":7,"shape":[4],"data_offsets":[0,4]}}"#, "tensor a: unknown dtype 7"),
        (
            r#"{"a":{"dtype":"U8","shape":[-4],"data_offsets":[0,4]}}"#,
            "tensor a: shape: expected an array of extents",
        ),
        (
            r#"{"a":{"dtype":"U8","shape":[4.0],"data_offsets":[0,4]}}"#,
            "tensor a: shape: expected an array of extents",
        ),
        (
            r#"{"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4,8]}}"#,
            "tensor a: data_offsets: expected two byte offsets",
        ),
        (
            r#"{"a":{"dtype":"U8","shape":[4],"data_offsets":[4,0]}}"#,
            "tensor a: data_offsets [4, 0] run backwards",
        ),
        (
            r#"{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}}"#,
            "tensor a: shape [2] of F32 takes 8 bytes, but data_offsets span 4",
        ),
        (
            r#"{"a":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0]}}"#,
            "tensor a: the product of its shape [4294967296, 4294967296] overflows",
        ),
        (
            r#"{"a":{"dtype":"F64","shape":[2305843009213693952],"data_offsets":[0,0]}}"#,
            "tensor a: the product of its shape [2305843009213693952] overflows",
        ),
    ] {
        let message = fault(header, 4);
        assert!(message.contains(expected), "{header}: {message}");
    }
}

#[test]
fn duplicate_overlapping_and_gapped_tensors_are_named() {
    let tensor = |name: &str, begin: usize, end: usize| {
        format!(r#""{name}":{{"dtype":"U8","shape":[{}],"data_offsets":[{begin},{end}]}}"#, end - begin)
    };
    let file = |tensors: [String; 2]| format!("{{{}}}", tensors.join(","));
    assert_eq!(fault(&file([tensor("a", 0, 4), tensor("a", 4, 8)]), 8), "tensor a is listed twice");
    assert_eq!(fault(&file([tensor("b", 3, 8), tensor("a", 0, 4)]), 8), "tensor b overlaps tensor a");
    assert_eq!(fault(&file([tensor("a", 0, 8), tensor("b", 0, 8)]), 8), "tensor b overlaps tensor a");
    assert_eq!(fault(&file([tensor("a", 0, 8), tensor("b", 2, 4)]), 8), "tensor b overlaps tensor a");
    assert_eq!(
        fault(&file([tensor("a", 0, 3), tensor("b", 4, 8)]), 8),
        "1 bytes before tensor b belong to no tensor"
    );
    assert_eq!(
        fault(&file([tensor("a", 2, 4), tensor("b", 4, 8)]), 8),
        "2 bytes before tensor a belong to no tensor"
    );
    assert_eq!(
        fault(&file([tensor("a", 0, 4), tensor("b", 4, 900)]), 8),
        "truncated: the tensors need 900 bytes, the file has 8; the first incomplete one is b"
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn arbitrary_bytes_never_panic(file in proptest::collection::vec(any::<u8>(), 0..200), length in any::<u64>()) {
        let _ = header::parse(&file, length);
        let _ = parse(&file);
    }

    #[test]
    fn a_sound_file_with_changed_bytes_never_panics_and_never_yields_ranges_outside(
        changes in proptest::collection::vec((0_usize..130, any::<u8>()), 1..4),
    ) {
        let mut file = bytes(TWO, &[0; 9]);
        for (at, byte) in changes {
            let at = at % file.len();
            file[at] = byte;
        }
        if let Ok(header) = parse(&file) {
            for info in &header.tensors {
                prop_assert!(info.begin <= info.end);
                prop_assert!(header.data_start + info.end <= file.len());
            }
        }
    }

    #[test]
    fn configurations_with_changed_bytes_never_panic(
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
    ) {
        let mut text = include_bytes!("../data/deepseek-v4.1-flash.json").to_vec();
        for (at, byte) in changes {
            let at = at.index(text.len());
            text[at] = byte;
        }
        let _ = Config::parse(&String::from_utf8_lossy(&text), &tessera_model::ConfigOptions::default());
    }
}

/// A safetensors file of byte tensors.
fn write_shard(path: &Path, tensors: &[(&str, Dtype, Vec<usize>)]) {
    let mut header = serde_json::Map::new();
    let mut at = 0;
    for (name, dtype, shape) in tensors {
        let end = at + shape.iter().product::<usize>() * dtype.size();
        header.insert(
            (*name).to_owned(),
            json!({"dtype": dtype.name(), "shape": shape, "data_offsets": [at, end]}),
        );
        at = end;
    }
    fs::write(path, bytes(&Value::Object(header).to_string(), &vec![0; at])).unwrap();
}

#[test]
fn shards_and_index_must_agree() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    let open = || Checkpoint::open(dir.path()).map_err(|error| error.to_string());
    let index = |map: Value, size: Value| {
        let text = json!({"metadata": {"total_size": size}, "weight_map": map}).to_string();
        fs::write(path("model.safetensors.index.json"), text).unwrap();
    };
    let refused = |expected: &str| {
        let message = open().unwrap_err();
        assert!(message.contains(expected), "{message}");
    };

    refused("neither model.safetensors.index.json nor model.safetensors exists in this folder");
    write_shard(&path("s1.safetensors"), &[("model.a", Dtype::U8, vec![3])]);
    write_shard(&path("s2.safetensors"), &[("b", Dtype::U8, vec![2]), ("c", Dtype::U8, vec![1])]);
    refused("it holds s1.safetensors: shards need their index");

    let good = json!({"model.a": "s1.safetensors", "b": "s2.safetensors", "c": "s2.safetensors"});
    index(good.clone(), json!(6));
    let checkpoint = open().unwrap();
    assert_eq!((checkpoint.len(), checkpoint.files().len(), checkpoint.total_bytes()), (3, 2, 6));
    assert_eq!(checkpoint.tensor("a").unwrap().shape, [3]);
    assert!(checkpoint.tensor("model.a").is_none());
    assert_eq!(checkpoint.tensors().map(|(name, _)| name).collect::<Vec<_>>(), ["a", "b", "c"]);
    index(good.clone(), json!(6.0));
    assert!(open().is_ok());

    index(good.clone(), json!(7));
    refused("metadata.total_size is 7, but the shards hold 6 bytes");
    index(good.clone(), json!("6"));
    refused("metadata.total_size: expected a number of bytes, got \"6\"");
    index(json!({"a": "s1.safetensors", "b": "s2.safetensors", "c": "s3.safetensors"}), json!(6));
    refused("names shard s3.safetensors for 1 tensors, but there is no such file");
    index(json!({"a": "s1.safetensors", "b": "s2.safetensors", "c": "s1.safetensors"}), json!(6));
    refused("names tensor c in s1.safetensors, but it is in s2.safetensors");
    index(
        json!({"a": "s1.safetensors", "b": "s2.safetensors", "c": "s2.safetensors", "d": "s1.safetensors"}),
        json!(6),
    );
    refused("names tensor d in s1.safetensors, but the file does not hold it");
    index(json!({"a": "s1.safetensors", "b": "s2.safetensors"}), json!(6));
    refused("does not name tensor c, which s2.safetensors holds");
    index(
        json!({"a": "s1.safetensors", "model.a": "s1.safetensors", "b": "s2.safetensors", "c": "s2.safetensors"}),
        json!(6),
    );
    refused("a is listed twice: with and without a leading `model.`");
    for shard in [
        json!("../s1.safetensors"),
        json!("/s1.safetensors"),
        json!(".safetensors"),
        json!("s1.bin"),
        json!(1),
    ] {
        index(json!({"a": shard}), json!(6));
        refused("tensor a: expected the name of a .safetensors file beside the index");
    }
    for text in [
        "{",
        "[]",
        "{}",
        r#"{"weight_map": []}"#,
        r#"{"weight_map": {"a": "x.safetensors", "a": "y.safetensors"}}"#,
    ] {
        fs::write(path("model.safetensors.index.json"), text).unwrap();
        refused("model.safetensors.index.json: ");
    }
    fs::write(path("model.safetensors.index.json"), b"{\"\xc3\x28\"}").unwrap();
    refused("byte 2 is not valid UTF-8");

    index(good.clone(), json!(6));
    write_shard(&path("s1.safetensors"), &[("a", Dtype::U8, vec![3]), ("c", Dtype::U8, vec![1])]);
    refused("s2.safetensors: tensor c is stored twice: also in");
    write_shard(&path("s1.safetensors"), &[("a", Dtype::U8, vec![3]), ("model.a", Dtype::U8, vec![1])]);
    refused("tensor a is stored twice: with and without a leading `model.`");
    fs::write(path("s1.safetensors"), b"").unwrap();
    refused("s1.safetensors: truncated: 0 bytes are too few");

    fs::remove_file(path("model.safetensors.index.json")).unwrap();
    write_shard(&path("model.safetensors"), &[("model.a", Dtype::U8, vec![3])]);
    assert!(open().unwrap().tensor("a").is_some());
}

/// Rewrites the header of the random checkpoint, data untouched.
fn edited(edit: impl FnOnce(&mut serde_json::Map<String, Value>)) -> (tempfile::TempDir, Checkpoint) {
    let file = fs::read(random().join("model.safetensors")).unwrap();
    let length = u64::from_le_bytes(file[..8].try_into().unwrap()) as usize;
    let mut header: serde_json::Map<String, Value> = serde_json::from_slice(&file[8..8 + length]).unwrap();
    edit(&mut header);
    let dir = tempfile::tempdir().unwrap();
    let text = Value::Object(header).to_string();
    fs::write(dir.path().join("model.safetensors"), bytes(&text, &file[8 + length..])).unwrap();
    let checkpoint = Checkpoint::open(dir.path()).unwrap();
    (dir, checkpoint)
}

fn faults_of(checkpoint: &Checkpoint) -> TensorFaults {
    let config = config(&random());
    match check(checkpoint, &expected_tensors(&config, &Topology::derive(&config))) {
        Err(Error::Tensors(faults)) => *faults,
        other => panic!("expected tensor faults, got {other:?}"),
    }
}

#[test]
fn missing_extra_and_wrong_tensors_are_listed_together() {
    let (_dir, checkpoint) = edited(|header| {
        let moved = header.remove("mtp.1.ffn.shared_experts.w2.scale").unwrap();
        header.insert("mtp.1.ffn.shared_expert.w2.scale".to_owned(), moved);
        header["embed.weight"]["shape"] = json!([128, 256]);
        header["layers.3.attn.wq_a.scale"]["dtype"] = json!("U8");
        header["layers.0.ffn.experts.7.w1.weight"]["dtype"] = json!("U8");
        header["norm.weight"]["dtype"] = json!("F16");
    });
    let faults = faults_of(&checkpoint);
    assert_eq!(faults.missing, ["mtp.1.ffn.shared_experts.w2.scale"]);
    assert_eq!(faults.extra, ["mtp.1.ffn.shared_expert.w2.scale"]);
    assert_eq!(faults.wrong_shape, ["embed.weight is [128, 256], expected [256, 128]"]);
    assert_eq!(faults.wrong_dtype.len(), 3);
    let message = Error::Tensors(Box::new(faults)).to_string();
    for expected in [
        "missing (1):\n    mtp.1.ffn.shared_experts.w2.scale",
        "extra (1):\n    mtp.1.ffn.shared_expert.w2.scale",
        "norm.weight is F16, expected BF16",
        "layers.3.attn.wq_a.scale is U8, expected F8_E8M0 (if the bytes are biased exponents, write them again",
        "layers.0.ffn.experts.7.w1.weight is U8, expected I8 (packed E2M1 codes are stored as I8",
    ] {
        assert!(message.contains(expected), "{message}");
    }
}

#[test]
fn e8m0_scales_stored_as_f32_are_refused_with_what_to_do() {
    let dir = tempfile::tempdir().unwrap();
    write_shard(
        &dir.path().join("model.safetensors"),
        &[("layers.0.attn.wkv.scale", Dtype::F32, vec![2, 4])],
    );
    let faults = faults_of(&Checkpoint::open(dir.path()).unwrap());
    assert_eq!(
        faults.wrong_dtype,
        [
            "layers.0.attn.wkv.scale is F32, expected F8_E8M0 (write each scale 2^n as one byte n + 127 with dtype F8_E8M0)"
        ]
    );
    assert_eq!(faults.missing.len(), 1025);
    let message = faults.to_string();
    assert!(message.contains("missing (1025):") && message.contains("… and 1005 more"), "{message}");
    assert!(message.lines().count() < 40);
}

#[test]
fn copies_of_embedding_and_head_in_a_stage_are_skipped_and_said() {
    let dir = tempfile::tempdir().unwrap();
    let config = config(&random());
    let expected = expected_tensors(&config, &Topology::derive(&config));
    let absent = ["mtp.0.embed.weight", "mtp.0.head.weight", "mtp.1.head.weight"];
    let kept = expected.iter().filter(|tensor| !absent.contains(&tensor.name.as_str()));
    let kept: Vec<_> =
        kept.map(|tensor| (tensor.name.as_str(), tensor.dtype, tensor.shape.clone())).collect();
    write_shard(&dir.path().join("model.safetensors"), &kept);
    let report = check(&Checkpoint::open(dir.path()).unwrap(), &expected).unwrap();
    assert_eq!(report.tied, ["mtp.1.embed.weight", "mtp.2.embed.weight", "mtp.2.head.weight"]);
    assert_eq!(report.used, 1026);
    assert_eq!(
        report.notes(),
        [
            "mtp.1.embed.weight, mtp.2.embed.weight, mtp.2.head.weight skipped: the draft stages use the backbone's embedding and head"
        ]
    );
}

#[test]
fn vision_tensors_may_be_present_and_are_reported_unused() {
    let mut config = config(&random());
    config.vision.num_hidden_layers = 2;
    let expected = expected_tensors(&config, &Topology::derive(&config));
    let dir = tempfile::tempdir().unwrap();
    let write = |vision: fn(&str) -> bool| {
        let kept = expected.iter().filter(|tensor| match tensor.need {
            Need::Required => true,
            Need::Vision => vision(&tensor.name),
            Need::Tied => false,
        });
        let kept: Vec<_> =
            kept.map(|tensor| (tensor.name.as_str(), tensor.dtype, tensor.shape.clone())).collect();
        write_shard(&dir.path().join("model.safetensors"), &kept);
        check(&Checkpoint::open(dir.path()).unwrap(), &expected)
    };
    assert_eq!(write(|_| false).unwrap().vision, 0);
    let report = write(|_| true).unwrap();
    assert_eq!((report.vision, report.vision_described, report.used), (26, 26, 1026));
    assert_eq!(report.notes(), ["26 of 26 vision tensors are present and not used: only text is supported"]);
    assert_eq!(write(|name| name.contains("blocks.1")).unwrap().vision, 8);
}

#[test]
fn opening_a_checkpoint_does_not_copy_its_data() {
    let checkpoint = Checkpoint::open(tiny()).unwrap();
    let tensors: Vec<_> = checkpoint.tensors().map(|(name, _)| checkpoint.tensor(name).unwrap()).collect();
    // Views of one file lie in one mapping: their addresses differ as their offsets do.
    let offsets: Vec<_> = checkpoint.tensors().map(|(_, info)| info.begin).collect();
    let base = tensors[0].data.as_ptr() as usize - offsets[0];
    for (view, offset) in tensors.iter().zip(offsets) {
        assert_eq!(view.data.as_ptr() as usize, base + offset);
    }
}
