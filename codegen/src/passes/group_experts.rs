//! `group-experts`: gives every product of experts the choices sorted by expert, once for each router.

use std::collections::BTreeMap;
use tessera_ir::graph::{Builder, Module, Op, Value};
use tessera_ir::{Dim, Format, TensorType};

/// Inserts a `moe.group` before the first use of each list of choices. The meaning of the module is unchanged.
pub fn run(module: &Module) -> Module {
    let mut b = Builder::new(&module.name);
    let types = module.types();
    let mut map: Vec<Value> =
        module.decls.iter().map(|d| b.declare(d.kind, d.name.clone(), d.ty.clone())).collect();
    let mut sorted: BTreeMap<Value, Vec<Value>> = BTreeMap::new();
    for node in &module.nodes {
        let mut op = node.op.clone();
        op.map_operands(|v| map[v.index()]);
        if let (
            Op::MoeLinear { experts: old, weight: w, .. },
            Op::MoeLinear { experts, offsets, pairs, rows, .. },
        ) = (&node.op, &mut op)
        {
            let choices = &types[old.index()].shape;
            let count = types[w.index()].shape.first().and_then(Dim::fixed);
            let pair_dim = match choices.as_slice() {
                [t, k] => k.fixed().and_then(|k| t.checked_times(k)),
                _ => None,
            };
            // The verifier accepted the module, so both are there; a module that lacks them stays as it is.
            if let (Some(count), Some(pair_dim)) = (count, pair_dim) {
                let lists = sorted.entry(*old).or_insert_with(|| {
                    let list = |d: Dim| TensorType::new([d], Format::I32);
                    b.push(
                        Op::MoeGroup { experts: *experts, count },
                        vec![list(Dim::Fixed(count + 1)), list(pair_dim.clone()), list(pair_dim)],
                    )
                });
                (*offsets, *pairs, *rows) = (Some(lists[0]), Some(lists[1]), Some(lists[2]));
            }
        }
        map.extend(b.push(op, node.types.clone()));
    }
    for o in &module.outputs {
        b.output(o.name.clone(), map[o.value.index()]);
    }
    b.finish()
}
