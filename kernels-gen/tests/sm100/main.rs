//! Schedules for SM100 on the Tile IR interpreter against their fragments on the oracle.

mod hc_mix;
mod linear;
mod moe;

use std::collections::BTreeMap;
use std::sync::Arc;
use tessera_ir::graph::interp::{self, Data, State, Tensor, Weights};
use tessera_ir::graph::{Decl, DeclKind, Module, parse, verify};
use tessera_ir::{Bindings, Elem, Verified, tile};
use tessera_kernels::Family;
use tessera_kernels::sm100::{Knobs, schedule};

/// Numbers from a seed.
pub(crate) struct Rng(u64);

impl Rng {
    pub(crate) fn new(seed: u64) -> Self {
        Rng(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }
    pub(crate) fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % n.max(1)
    }
    fn unit(&mut self) -> f32 {
        self.below(1 << 24) as f32 / (1 << 23) as f32 - 1.0
    }
}

/// Values that the format holds exactly: for scaled ones any code under a power of two for each 32×32 elements.
fn values(decl: &Decl, bindings: &Bindings, rng: &mut Rng) -> Tensor {
    const CODES: [f32; 8] = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0];
    let shape: Vec<usize> = decl.ty.shape.iter().map(|d| d.eval(bindings).expect("bound")).collect();
    let cols = shape.last().copied().unwrap_or(1).max(1);
    let count = shape.iter().product::<usize>();
    let scale = rng.below(1000);
    let data = (0..count)
        .map(|i| match (decl.ty.format.group, decl.ty.format.elem) {
            (Some(_), _) => {
                let place = (i / cols / 32 * 7 + i % cols / 32 * 3 + scale) % 5;
                let sign = if rng.below(2) == 0 { 1.0 } else { -1.0 };
                sign * CODES[rng.below(8)] * 2f32.powi(place as i32 - 3)
            }
            (None, Elem::Bf16) => f32::from_bits(rng.unit().to_bits() & 0xffff_0000),
            (None, _) => rng.unit(),
        })
        .collect();
    Tensor::f32(shape, data)
}

struct Given(BTreeMap<String, Tensor>);

impl Weights for Given {
    fn weight(&self, decl: &Decl) -> Result<Arc<Tensor>, interp::Error> {
        Ok(Arc::new(self.0[&decl.name].clone()))
    }
}

/// A fragment from its text.
pub(crate) fn fragment(text: &str) -> Verified<Module> {
    let module = parse(&format!("tessera.graph 1\n{text}")).unwrap_or_else(|e| panic!("{e}\n{text}"));
    verify(module).unwrap_or_else(|e| panic!("{e:?}\n{text}"))
}

/// The verified schedule of a fragment.
pub(crate) fn scheduled(family: Family, module: &Verified<Module>, knobs: &Knobs) -> Verified<tile::Kernel> {
    let kernel = schedule(family, module, knobs).unwrap_or_else(|e| panic!("{e}"));
    let text = tile::print(&kernel);
    assert!(tile::parse(&text).as_ref() == Ok(&kernel), "the text form keeps everything:\n{text}");
    tile::verify(kernel).unwrap_or_else(|e| panic!("{e}\n{text}"))
}

/// Runs fragment and schedule on the same operands. Integer inputs come from `lists`; `near` is the difference that is
/// allowed, relative to 1 and to the value.
pub(crate) fn check(
    module: &Verified<Module>,
    kernel: &Verified<tile::Kernel>,
    symbols: &[(&str, usize)],
    lists: &BTreeMap<&str, Vec<i32>>,
    near: f32,
) {
    let mut bindings = Bindings::new();
    for (s, n) in symbols {
        bindings.set(s, *n);
    }
    let mut rng = Rng::new(symbols.iter().map(|(_, n)| *n as u64 + 5).sum());
    let (mut inputs, mut weights) = (BTreeMap::new(), BTreeMap::new());
    let mut params = Vec::new();
    for d in &module.decls {
        let tensor = match lists.get(d.name.as_str()) {
            Some(list) => {
                let shape: Vec<usize> =
                    d.ty.shape.iter().map(|d| d.eval(&bindings).expect("bound")).collect();
                Tensor::i32(shape, list.clone())
            }
            None => values(d, &bindings, &mut rng),
        };
        params.push(tensor.clone());
        match d.kind {
            DeclKind::Weight => weights.insert(d.name.clone(), tensor),
            DeclKind::Input | DeclKind::State => inputs.insert(d.name.clone(), tensor),
        };
    }
    let given = Given(weights);
    let want =
        interp::run(module, &bindings, &inputs, &given, &mut State::default()).expect("the oracle runs");
    params.extend(module.outputs.iter().map(|o| want[&o.name].clone()));
    for (t, p) in params.iter_mut().zip(&kernel.params) {
        t.shape = p.ty.shape.iter().map(|d| d.eval(&bindings).expect("bound")).collect();
    }
    let given = params.clone();
    for t in params.iter_mut().skip(module.decls.len()) {
        if let Data::F32(x) = &mut t.data {
            x.fill(f32::NAN);
        }
    }
    tile::interp::run(kernel, &bindings, &mut params, 3).unwrap_or_else(|e| panic!("{}: {e}", kernel.name));
    for (got, want) in params.iter().zip(&given).skip(module.decls.len()) {
        let (Data::F32(got), Data::F32(want)) = (&got.data, &want.data) else { panic!("reals") };
        for (i, (g, w)) in got.iter().zip(want).enumerate() {
            let off = (g - w).abs();
            assert!(off <= near * (1.0 + w.abs()), "{} {symbols:?}, element {i}: {g}, not {w}", kernel.name);
        }
    }
}
