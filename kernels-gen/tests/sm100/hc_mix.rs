//! Coefficients of the residual streams.

use crate::{check, fragment, scheduled};
use std::collections::BTreeMap;
use tessera_kernels::Family;
use tessera_kernels::sm100::Knobs;

#[test]
fn mixing_coefficients_equal_the_oracle() {
    for d in [16, 64, 256] {
        let module = fragment(&format!(
            "module @hc_mix {{\n  %0 = input \"x0\" : [T, 4, {d}] bf16\n  %1 = weight \"w1\" : [24, {}] f32\n  \
             %2 = weight \"w2\" : [24] f32\n  %3 = weight \"w3\" : [3] f32\n  \
             %4, %5, %6 = hc.mix %0, %1, %2, %3 {{iters = 20, eps = 1e-6, norm_eps = 1e-20}} : [T, 4] f32, \
             [T, 4] f32, [T, 4, 4] f32\n  output \"y0\" = %4\n  output \"y1\" = %5\n  output \"y2\" = %6\n}}\n",
            4 * d
        ));
        let kernel = scheduled(Family::HcMix, &module, &Knobs::for_rows(64));
        for t in [0, 1, 5, 130] {
            check(&module, &kernel, &[("T", t)], &BTreeMap::new(), 2e-5);
        }
    }
}
