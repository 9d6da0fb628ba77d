//! Weights off by at most one unit in the last place: shows which results hang on a rounding.

use std::sync::Arc;

use tessera_ir::graph::Decl;
use tessera_ir::graph::interp::{Data, Error, Tensor, Weights};

/// `weights`, but each value of the query matrices of the draft stages replaced by itself or a neighbour in f32, as
/// `seed` has it; seed 0 changes nothing. That moves what a stage's attention adds by about 1e-7 of its size.
pub(crate) struct OneUlp<'a> {
    pub(crate) weights: &'a dyn Weights,
    pub(crate) seed: u64,
}

impl Weights for OneUlp<'_> {
    fn weight(&self, decl: &Decl) -> Result<Arc<Tensor>, Error> {
        let tensor = self.weights.weight(decl)?;
        let chosen = decl.name.starts_with("mtp.") && decl.name.ends_with(".wq_b.weight");
        if self.seed == 0 || !chosen {
            return Ok(tensor);
        }
        let mut tensor = (*tensor).clone();
        let Data::F32(values) = &mut tensor.data else { panic!("{} is not real", decl.name) };
        let mut random = self.seed;
        for value in values.iter_mut().filter(|value| **value != 0.0) {
            random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            *value = match (random >> 33) % 3 {
                0 => value.next_up(),
                1 => value.next_down(),
                _ => *value,
            };
        }
        Ok(Arc::new(tensor))
    }
}
