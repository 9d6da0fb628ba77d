//! What must hold for any input: the bodies of the fuzz targets. `tests/fuzz_seeds.rs` runs them on the seeds.

use tessera_ir::text::ParseError;
use tessera_ir::{graph, tile};
use tessera_model::checkpoint::{expected_tensors, header};
use tessera_model::{Config, ConfigOptions, Topology};

/// Graph IR: what parses prints as a text that parses to the same text, and the verifier answers. What doesn't parse is
/// reported at a place of the text.
pub fn graph_text(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    match graph::parse(text) {
        Ok(module) => {
            // A NaN differs from itself, so texts are compared rather than modules.
            let printed = graph::print(&module);
            assert_same(&printed, graph::parse(&printed).map(|again| graph::print(&again)));
            if let Err(faults) = graph::verify(module) {
                assert!(!faults.to_string().is_empty());
            }
        }
        Err(fault) => assert_placed(text, &fault),
    }
}

/// Tile IR: as [`graph_text`]; a verified kernel can also be sequenced.
pub fn tile_text(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    match tile::parse(text) {
        Ok(kernel) => {
            let printed = tile::print(&kernel);
            assert_same(&printed, tile::parse(&printed).map(|again| tile::print(&again)));
            match tile::verify(kernel) {
                Ok(kernel) => {
                    assert!(tile::sequence(&kernel).is_ok(), "verified, but has no order:\n{printed}")
                }
                Err(faults) => assert!(!faults.to_string().is_empty()),
            }
        }
        Err(fault) => assert_placed(text, &fault),
    }
}

/// Configurations: a sound one has a topology and a list of tensors, a faulty one a message.
pub fn config_json(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    match Config::parse(text, &ConfigOptions::default()) {
        Ok(config) => {
            let topology = Topology::derive(&config);
            let tensors = expected_tensors(&config, &topology);
            assert!(!tensors.is_empty());
            for tensor in &tensors {
                assert!(tensor.bytes() > 0, "{} is empty", tensor.name);
            }
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

/// Headers of safetensors files: the tensors of a sound one tile the data without gap or overlap.
pub fn safetensors_header(bytes: &[u8]) {
    let length = bytes.len() as u64;
    match header::parse(bytes, length) {
        Ok(header) => {
            let mut end = 0;
            for tensor in &header.tensors {
                assert_eq!(tensor.begin, end, "{}", tensor.name);
                assert_eq!(
                    tensor.shape.iter().product::<usize>() * tensor.dtype.size(),
                    tensor.end - tensor.begin
                );
                end = tensor.end;
            }
            assert_eq!((header.data_start + end) as u64, length);
        }
        Err(fault) => assert!(!fault.to_string().is_empty()),
    }
}

fn assert_same(printed: &str, again: Result<String, ParseError>) {
    match again {
        Ok(again) => assert_eq!(again, printed),
        Err(fault) => panic!("a printed text does not parse: {fault}\n{printed}"),
    }
}

fn assert_placed(text: &str, fault: &ParseError) {
    assert!(fault.span.start <= fault.span.end && fault.span.end <= text.len(), "{fault:?}");
    assert!(fault.line >= 1 && fault.column >= 1);
    assert!(fault.to_string().ends_with('^'), "{fault}");
}
