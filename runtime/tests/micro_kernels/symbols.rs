//! The table of kernels.

use tessera_runtime::micro::{Isa, Kernels, Symbol, describe, resolve};

#[test]
fn names_are_stable_unique_and_parse_back() {
    let names: Vec<&str> = Symbol::ALL.iter().map(|symbol| symbol.name()).collect();
    let mut unique = names.clone();
    unique.sort_unstable();
    unique.dedup();
    assert_eq!(unique.len(), names.len());
    for (symbol, name) in Symbol::ALL.iter().zip(&names) {
        assert!(name.starts_with("tsr_"), "{name}");
        assert_eq!(Symbol::parse(name), Some(*symbol));
    }
    assert_eq!(Symbol::parse("tsr_nothing"), None);
    for name in ["tsr_mma_w4", "tsr_softplus_sqrt", "tsr_topk_ranked", "tsr_quant_index4"] {
        assert!(names.contains(&name), "{name}");
    }
}

#[test]
fn addresses_are_distinct_and_null_where_they_would_not_run() {
    let mut seen = Vec::new();
    for isa in Isa::ALL {
        for &symbol in Symbol::ALL {
            let address = resolve(symbol, isa);
            assert_eq!(address.is_null(), !isa.available(), "{isa} {}", symbol.name());
            if !address.is_null() {
                seen.push(address);
            }
        }
    }
    assert_eq!(
        Kernels::of(Isa::Portable).map(|k| k.dot as *const u8),
        Some(resolve(Symbol::Dot, Isa::Portable))
    );
    assert!(seen.len() >= Symbol::ALL.len());
}

#[test]
fn the_choice_is_explained() {
    let text = describe();
    assert!(Isa::detect().available());
    assert!(text.starts_with(&format!("micro-kernels: {}", Isa::detect())), "{text}");
    for isa in Isa::ALL {
        assert!(text.contains(isa.name()), "{text}");
        assert_eq!(isa.available(), !isa.features().iter().any(|&(_, present)| !present));
    }
}
