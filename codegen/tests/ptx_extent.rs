//! Numbers of a launch: what they come to, how they read, and that folding changes neither.

use tessera_codegen::target::ptx::{Extent, content_hash};
use tessera_ir::{Bindings, Dim};

fn at(t: usize) -> Bindings {
    let mut bindings = Bindings::new();
    bindings.set("T", t);
    bindings
}

#[test]
fn values_and_texts_of_extents() {
    let t = || Extent::sym("T");
    let tiles = t().ceil_div(128).mul(40usize);
    assert_eq!(tiles.to_string(), "ceil(T / 128) * 40");
    // By hand: 129 rows are 2 tiles of 128.
    for (rows, want) in [(0, 0), (1, 40), (128, 40), (129, 80)] {
        assert_eq!(tiles.eval(&at(rows)), Some(want), "T = {rows}");
    }
    let persistent = tiles.min(148u64);
    assert_eq!(persistent.to_string(), "min(ceil(T / 128) * 40, 148)");
    assert_eq!(persistent.eval(&at(4096)), Some(148));
    let sum = t().add(3u64).mul(Extent::from(Dim::Sym { sym: tessera_ir::Sym::new("S"), times: 6 }));
    assert_eq!(sum.to_string(), "(T + 3) * 6*S");
    assert_eq!(sum.eval(at(1).set("S", 2)), Some(48));
    assert_eq!(sum.eval(&at(1)), None, "S is unbound");
    let mut symbols = Vec::new();
    sum.symbols(&mut symbols);
    assert_eq!(symbols.iter().map(|s| s.as_str()).collect::<Vec<_>>(), ["T", "S"]);
    assert_eq!(t().max(1u64).eval(&at(0)), Some(1));
}

#[test]
fn overflow_is_no_value() {
    let huge = Extent::Const(u64::MAX);
    assert_eq!(huge.clone().mul(2u64).eval(&Bindings::new()), None);
    assert_eq!(huge.add(1u64).eval(&Bindings::new()), None);
}

/// The digits are the first 32 of the published test vector of BLAKE3 for no bytes.
#[test]
fn hashes_are_blake3() {
    assert_eq!(content_hash(""), "af1349b9f5f9a1a6a0404dea36dcc949");
    assert_ne!(content_hash("a"), content_hash("b"));
}
