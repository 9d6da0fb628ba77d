//! Properties of all kernels: text reads back, verified kernels run the same under every seed, no text panics.

#[path = "tile/generate.rs"]
mod generate;

use generate::{Choices, kernel};
use proptest::prelude::*;
use tessera_ir::graph::interp::Tensor;
use tessera_ir::tile::{self, Kernel, interp};
use tessera_ir::{Bindings, Elem, Sym, Verified};

fn verified(k: Kernel) -> Verified<Kernel> {
    tile::verify(k.clone()).unwrap_or_else(|e| panic!("{e}\n{}", tile::print(&k)))
}

/// Tensors of the parameters' types; reals are small multiples of 1/8, integers below the rows of a table.
fn tensors(k: &Kernel, bindings: &Bindings, seed: u64) -> Vec<Tensor> {
    let mut c = Choices::new(seed);
    let tensor = |p: &tile::Param| {
        let shape: Vec<usize> = p.ty.shape.iter().map(|d| d.eval(bindings).expect("bound")).collect();
        let n: usize = shape.iter().product();
        match (p.name.as_str(), p.ty.format.elem) {
            // Borders of groups, ascending from 0 to all rows.
            ("offsets", _) => {
                let rows = bindings.get(&Sym::new("T")).expect("bound");
                let mut inner: Vec<i32> = (2..n).map(|_| c.below(rows + 1) as i32).collect();
                inner.sort_unstable();
                Tensor::i32(shape, [vec![0], inner, vec![rows as i32]].concat())
            }
            // Each row once.
            ("perm", _) => Tensor::i32(shape, (0..n).rev().map(|i| i as i32).collect()),
            ("blocks", _) => Tensor::i32(shape, (0..n).map(|i| -((i % 2) as i32)).collect()),
            (_, elem) => match elem {
                Elem::I32 => Tensor::i32(shape, (0..n).map(|_| c.below(4) as i32).collect()),
                Elem::I64 => Tensor::i64(shape, (0..n).map(|_| c.below(4) as i64).collect()),
                Elem::F32 | Elem::Bf16 | Elem::E4m3 | Elem::E2m1 => {
                    Tensor::f32(shape, (0..n).map(|_| c.below(9) as f32 * 0.125 - 0.5).collect())
                }
            },
        }
    };
    k.params.iter().map(tensor).collect()
}

fn bits(tensors: &[Tensor]) -> Vec<Vec<u32>> {
    let reals = |t: &Tensor| t.reals().unwrap_or_default().iter().map(|v| v.to_bits()).collect();
    tensors.iter().map(reals).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn text_reads_back(seed in any::<u64>()) {
        let k = kernel(seed);
        let text = tile::print(&k);
        let back = tile::parse(&text).unwrap_or_else(|e| panic!("{e}\n{text}"));
        prop_assert_eq!(&back, &k, "{}", text);
        prop_assert_eq!(tile::print(&back), text);
    }

    #[test]
    fn every_interleaving_gives_the_same_bits(seed in any::<u64>(), rows in 0usize..6, others in any::<[u64; 2]>()) {
        let k = verified(kernel(seed));
        let mut bindings = Bindings::new();
        bindings.set("T", rows).set("C", 1 + rows * 3);
        let given = tensors(&k, &bindings, seed);
        let mut first = given.clone();
        let result = interp::run(&k, &bindings, &mut first, 0);
        prop_assert!(result.is_ok(), "{}\n{}", result.unwrap_err(), tile::print(&k));
        for other in others {
            let mut again = given.clone();
            let result = interp::run(&k, &bindings, &mut again, other);
            prop_assert!(result.is_ok(), "{}\n{}", result.unwrap_err(), tile::print(&k));
            prop_assert_eq!(bits(&first), bits(&again), "seed {}\n{}", other, tile::print(&k));
        }
    }

    #[test]
    fn damaged_text_is_refused_or_read_but_never_a_panic(seed in any::<u64>(), damage in any::<u64>()) {
        let text = generate::damaged(&tile::print(&kernel(seed)), damage);
        if let Ok(k) = tile::parse(&text)
            && let Ok(k) = tile::verify(k)
        {
            let printed = tile::print(&k);
            prop_assert_eq!(&tile::parse(&printed).expect("printed text"), &*k);
            prop_assert!(tile::sequence(&k).is_ok());
        }
    }

    #[test]
    fn arbitrary_text_never_panics(text in "\\PC{0,200}") {
        let _ = tile::parse(&text);
        let _ = tile::parse(&format!("tessera.tile 1 kernel @k {{ {text} }}"));
    }
}

#[test]
fn generated_kernels_use_every_construct() {
    let text: String = (0..400).map(|seed| tile::print(&kernel(seed))).collect();
    for mnemonic in tile::Op::MNEMONICS {
        assert!(text.contains(&format!("{mnemonic} ")), "no kernel has {mnemonic}");
    }
    let words = [
        "for ",
        "if ",
        "copy ->",
        "depth 2",
        "update",
        "panels16",
        "tile<1x2*C",
        "@\"",
        " for sm100 {",
        "persistent ",
        "cluster 2",
        "scope pair",
        " groups %offsets",
        "path codes + scales -> matrix",
        " warps 4",
        " registers 64",
        " lanes 96x3 {",
        "blocks128",
        "pitch16",
        "part = scales",
        "trans = true",
    ];
    for word in words {
        assert!(text.contains(word), "no kernel has {word}");
    }
}
