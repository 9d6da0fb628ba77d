//! Text and modules stand for each other: print, parse and verify on generated modules and on damaged texts.

use proptest::prelude::*;
use std::collections::BTreeSet;
use tessera_ir::graph::{self, Module, Op, testgen};

fn generated(seed: u64, size: usize) -> Module {
    testgen::module(seed, size).unwrap_or_else(|e| panic!("seed {seed}: {e}"))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn printed_modules_read_back_equal(seed: u64, size in 1usize..60) {
        let module = generated(seed, size);
        let text = graph::print(&module);
        let read = graph::parse(&text).map_err(|e| TestCaseError::fail(format!("{e}\n{text}")))?;
        prop_assert_eq!(&read, &module);
        prop_assert_eq!(graph::print(&read), text);
    }

    #[test]
    fn generated_modules_verify(seed: u64, size in 1usize..60) {
        let module = generated(seed, size);
        let text = graph::print(&module);
        if let Err(e) = graph::verify(module) {
            return Err(TestCaseError::fail(format!("{e}\n{text}")));
        }
    }

    #[test]
    fn any_text_parses_or_fails_in_order(text in "\\PC*") {
        check_no_panic(&text);
    }

    #[test]
    fn any_tokens_parse_or_fail_in_order(text in tokens()) {
        check_no_panic(&format!("tessera.graph 1\nmodule @m {{\n{text}"));
    }

    #[test]
    fn damaged_modules_parse_or_fail_in_order(seed: u64, cuts in prop::collection::vec(cut(), 1..4)) {
        let mut text = graph::print(&generated(seed, 12)).into_bytes();
        for (at, len, insert) in cuts {
            let at = at.index(text.len() + 1);
            let end = (at + len).min(text.len());
            text.splice(at..end, insert.bytes());
        }
        check_no_panic(&String::from_utf8_lossy(&text));
    }
}

/// A place, a number of bytes to remove there and a text to put there instead.
fn cut() -> impl Strategy<Value = (prop::sample::Index, usize, String)> {
    (any::<prop::sample::Index>(), 0usize..12, prop_oneof![token().boxed(), "\\PC{0,3}".boxed()])
}

fn token() -> impl Strategy<Value = String> {
    let fixed = prop::sample::select(vec![
        "%0",
        "%1",
        "=",
        ":",
        ",",
        "{",
        "}",
        "[",
        "]",
        "(",
        ")",
        "*",
        "-",
        "_",
        "\"",
        "\"x\"",
        "\\",
        "@",
        "%",
        ";",
        "\n",
        "input",
        "weight",
        "state",
        "output",
        "module",
        "T",
        "f32",
        "bf16",
        "w8",
        "panels16",
        "none",
        "true",
        "inf",
        "nan",
        "1e999",
        "99999999999999999999",
        "1000000000000000000",
        "-9223372036854775808",
        "0.1",
        "\u{0}",
        "é",
    ]);
    let mnemonic = prop::sample::select(Op::MNEMONICS.to_vec());
    prop_oneof![3 => fixed, 1 => mnemonic].prop_map(str::to_owned)
}

fn tokens() -> impl Strategy<Value = String> {
    prop::collection::vec(token(), 0..40).prop_map(|t| t.join(" "))
}

/// Whatever is read also survives the verifier and comes out as text that reads the same.
fn check_no_panic(text: &str) {
    match graph::parse(text) {
        Ok(module) => {
            let printed = graph::print(&module);
            // A NaN differs from itself, so texts are compared rather than modules.
            let again = graph::parse(&printed).map(|m| graph::print(&m));
            assert_eq!(again.as_deref(), Ok(printed.as_str()));
            if let Err(e) = graph::verify(module) {
                assert!(!e.to_string().is_empty());
            }
        }
        Err(e) => {
            assert!(e.span.start <= e.span.end && e.span.end <= text.len());
            assert!(e.line >= 1 && e.column >= 1);
            let shown = e.to_string();
            let lines: Vec<&str> = shown.lines().collect();
            assert!(lines.len() >= 4 && lines[lines.len() - 1].contains('^'), "{shown}");
        }
    }
}

#[test]
fn the_generator_uses_every_operation() {
    let mut seen = BTreeSet::new();
    for seed in 0..200 {
        seen.extend(generated(seed, 60).nodes.iter().map(|n| n.op.mnemonic()));
    }
    let all: BTreeSet<&str> = Op::MNEMONICS.iter().copied().collect();
    assert_eq!(seen, all);
}

#[test]
fn equal_seeds_give_equal_modules() {
    assert_eq!(generated(7, 40), generated(7, 40));
    assert_ne!(generated(7, 40), generated(8, 40));
}
