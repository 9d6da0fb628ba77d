//! Small kernels from their statements, and a run of one.

use tessera_ir::graph::interp::Tensor;
use tessera_ir::tile::{self, Kernel, interp};
use tessera_ir::{Bindings, Verified};

/// A verified kernel.
pub(crate) fn verified(text: &str) -> Verified<Kernel> {
    let kernel = tile::parse(text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    tile::verify(kernel).unwrap_or_else(|e| panic!("{e}\n{text}"))
}

/// A kernel of one vector role over one tile. `params` and `rings` are lines; `%z` is the index 0.
pub(crate) fn vector(params: &str, rings: &str, body: &str) -> Verified<Kernel> {
    verified(&format!(
        "tessera.tile 1 kernel @k {{ {params} {rings} role vector main {{
           %z = index.const {{value = 0}} : index
           {body} }} }}"
    ))
}

/// The same on SM100, by four warps that add in the lanes that `head` names.
pub(crate) fn sm100(head: &str, params: &str, rings: &str, body: &str) -> Verified<Kernel> {
    verified(&format!(
        "tessera.tile 1 kernel @k for sm100 {{ {params} {rings} role vector main warps 4 {head} {{
           %z = index.const {{value = 0}} : index
           {body} }} }}"
    ))
}

/// Runs a kernel with these tensors under several seeds; all must give the same bits.
pub(crate) fn run(
    kernel: &Verified<Kernel>,
    bindings: &Bindings,
    params: &[Tensor],
) -> Result<Vec<Tensor>, interp::Error> {
    let mut first = None;
    for seed in 0..5 {
        let mut tensors = params.to_vec();
        interp::run(kernel, bindings, &mut tensors, seed)?;
        let first = first.get_or_insert_with(|| tensors.clone());
        assert_eq!(bits(first), bits(&tensors), "seed {seed} gives other results");
    }
    Ok(first.unwrap_or_default())
}

fn bits(tensors: &[Tensor]) -> Vec<Vec<u32>> {
    let reals = |t: &Tensor| t.reals().unwrap_or_default().iter().map(|v| v.to_bits()).collect();
    tensors.iter().map(reals).collect()
}

/// The last tensor of a run, which is the kernel's output, as reals.
pub(crate) fn output(kernel: &Verified<Kernel>, params: &[Tensor]) -> Vec<f32> {
    let out = run(kernel, &Bindings::new(), params).unwrap_or_else(|e| panic!("{e}"));
    out.last().and_then(|t| t.reals()).expect("an output of reals").to_vec()
}

/// The same as 32-bit integers.
pub(crate) fn int_output(kernel: &Verified<Kernel>, params: &[Tensor]) -> Vec<i32> {
    let out = run(kernel, &Bindings::new(), params).unwrap_or_else(|e| panic!("{e}"));
    out.last().and_then(|t| t.ints()).expect("an output of integers").to_vec()
}

/// Unwritten reals.
pub(crate) fn empty(shape: &[usize]) -> Tensor {
    Tensor::f32(shape, vec![0.0; shape.iter().product()])
}

/// Unwritten integers.
pub(crate) fn empty_ints(shape: &[usize]) -> Tensor {
    Tensor::i32(shape, vec![0; shape.iter().product()])
}

/// Numbers between −1 and 1 with no pattern.
pub(crate) fn noise(n: usize, seed: u32) -> Vec<f32> {
    let mut state = seed.wrapping_mul(2_654_435_761).wrapping_add(12_345);
    (0..n)
        .map(|_| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 8) as f32 / (1 << 23) as f32 - 1.0
        })
        .collect()
}
