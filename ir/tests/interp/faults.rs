//! What the caller gives is checked before anything runs, and errors name what is wrong.

use crate::case::Case;
use tessera_ir::graph::Op;
use tessera_ir::graph::interp::{Error, Tensor};
use tessera_ir::types::{Bindings, Format};

fn embed(tokens: Vec<i32>) -> Case {
    let mut c = Case::new();
    let table =
        c.weight("embed.weight", Format::F32, Tensor::f32([4, 2], (0..8).map(|i| i as f32).collect()));
    let tokens = c.ints("tokens", &tokens);
    c.emit(Op::Embed { table, tokens }, Format::F32);
    c
}

#[test]
fn token_ids_outside_the_vocabulary_are_named() {
    assert_eq!(embed(vec![3, 0]).y(), [6.0, 7.0, 0.0, 1.0]);
    for bad in [4, -1] {
        let error = embed(vec![0, bad]).try_run().unwrap_err();
        let text = error.to_string();
        for part in ["embed", "tokens[1]", &bad.to_string(), "0..4", "%2"] {
            assert!(text.contains(part), "`{part}` in: {text}");
        }
    }
}

#[test]
fn missing_unknown_and_misshapen_inputs_are_refused_by_name() {
    let mut c = embed(vec![1]);
    c.inputs.clear();
    assert_eq!(c.try_run(), Err(Error::Missing { kind: "input", name: "tokens".to_owned() }));
    let mut c = embed(vec![1]);
    c.inputs.insert("tokenz".to_owned(), Tensor::i32([1], vec![0]));
    assert_eq!(c.try_run(), Err(Error::UnknownInput { name: "tokenz".to_owned() }));
    for wrong in [
        Tensor::i32([2], vec![0, 0]),
        Tensor::i32([1], vec![0, 0]),
        Tensor::i32([1, 1], vec![0]),
        Tensor::f32([1], vec![0.0]),
        Tensor::i64([1], vec![0]),
    ] {
        let mut c = embed(vec![1]);
        c.inputs.insert("tokens".to_owned(), wrong);
        let error = c.try_run().unwrap_err();
        assert!(matches!(&error, Error::Type { name, .. } if name == "tokens"), "{error}");
    }
}

#[test]
fn unbound_and_overflowing_sizes_are_errors() {
    let mut c = embed(vec![1]);
    c.bindings = Bindings::new();
    assert!(matches!(c.try_run(), Err(Error::Unbound { .. })));
    let mut c = embed(vec![1]);
    c.bindings.set("T", usize::MAX);
    assert!(matches!(c.try_run(), Err(Error::Unbound { .. } | Error::Type { .. })));
}

#[test]
fn a_missing_state_is_an_error_and_foreign_states_are_left_alone() {
    let build = || {
        let mut c = Case::new();
        let ring = c.state("ring", Format::I32, Tensor::i32([1, 2], vec![5, 6]));
        let (rows, seq) = (c.ints("rows", &[9]), c.ints("seq", &[0]));
        let pos = c.ints("pos", &[1]);
        c.inner(Op::RingStore { ring, rows, seq, pos }, Format::I32);
        c
    };
    let mut c = build();
    c.state = Default::default();
    assert_eq!(c.try_run(), Err(Error::Missing { kind: "state", name: "ring".to_owned() }));
    let mut c = build();
    c.state.insert("other", Tensor::i32([1], vec![7]));
    let (out, state) = c.run_with_state();
    out.unwrap();
    assert_eq!(state.get("ring").unwrap().ints(), Some([5, 9].as_slice()));
    assert_eq!(state.get("other").unwrap().ints(), Some([7].as_slice()));
}
