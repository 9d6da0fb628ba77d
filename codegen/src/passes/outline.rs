//! `outline`: each group becomes a fragment, a small module of its own, and a call of it; equal fragments are one.

use crate::error::Error;
use crate::groups::Groups;
use std::collections::BTreeMap;
use tessera_ir::Verified;
use tessera_ir::graph::{Builder, DeclKind, Effect, Module, Value, verify};
use tessera_kernels::Family;

/// What one kernel computes, as graph ops.
#[derive(Clone, Debug)]
pub struct Fragment {
    /// Operator family, which has the schedule.
    pub family: Family,
    /// Declarations are the group's operands in order of first use, outputs the values that leave it.
    pub module: Verified<Module>,
}

/// One use of a fragment: outer values for its declarations and for its outputs, in order.
#[derive(Clone, Debug, PartialEq)]
pub struct Call {
    /// Index into [`Fused::fragments`].
    pub fragment: usize,
    /// Values of the fragment's declarations.
    pub args: Vec<Value>,
    /// Values of its outputs.
    pub results: Vec<Value>,
}

/// A module cut into kernels.
#[derive(Clone, Debug)]
pub struct Fused {
    /// The whole module, after the rewriting passes.
    pub module: Verified<Module>,
    /// Distinct fragments in order of first call.
    pub fragments: Vec<Fragment>,
    /// Calls in execution order.
    pub calls: Vec<Call>,
}

/// Cuts the module along `groups`.
pub fn run(groups: &Groups<'_>) -> Result<Fused, Error> {
    let module = groups.module();
    let types = module.types();
    let mut fused = Fused { module: (*module).clone(), fragments: Vec::new(), calls: Vec::new() };
    let mut ordinal: BTreeMap<Family, usize> = BTreeMap::new();
    for g in groups.in_order() {
        let nodes = groups.nodes(g);
        let family = groups.family(nodes[0]);
        let mut b = Builder::new("");
        let mut inner: BTreeMap<Value, Value> = BTreeMap::new();
        let (mut args, mut results) = (Vec::new(), Vec::new());
        for &n in nodes {
            let node = &module.nodes[n];
            for v in node.op.operands() {
                if inner.contains_key(&v) {
                    continue;
                }
                let kind = match (groups.state(v), module.decls.get(v.index()).map(|d| d.kind)) {
                    (Some(_), _) => DeclKind::State,
                    (None, Some(DeclKind::Weight)) => DeclKind::Weight,
                    (None, Some(DeclKind::Input | DeclKind::State) | None) => DeclKind::Input,
                };
                let name = match kind {
                    DeclKind::Input => "x",
                    DeclKind::Weight => "w",
                    DeclKind::State => "s",
                };
                let here = b.declare(kind, format!("{name}{}", args.len()), types[v.index()].clone());
                inner.insert(v, here);
                args.push(v);
            }
            let mut op = node.op.clone();
            op.map_operands(|v| inner[&v]);
            for (outer, here) in node.results().zip(b.push(op, node.types.clone())) {
                inner.insert(outer, here);
                let leaves = groups.is_output(outer)
                    || groups.readers(outer).iter().any(|r| groups.group(*r) != g)
                    || node.op.effect() == Effect::State;
                if leaves {
                    b.output(format!("y{}", results.len()), here);
                    results.push(outer);
                }
            }
        }
        let mut m = b.finish();
        let known = fused.fragments.iter().position(|f| {
            m.name.clone_from(&f.module.name);
            f.family == family && *f.module == m
        });
        let fragment = match known {
            Some(i) => i,
            None => {
                let k = ordinal.entry(family).or_default();
                m.name = format!("{family}_{k}");
                *k += 1;
                let module = verify(m).map_err(Error::Verify)?;
                fused.fragments.push(Fragment { family, module });
                fused.fragments.len() - 1
            }
        };
        fused.calls.push(Call { fragment, args, results });
    }
    Ok(fused)
}
