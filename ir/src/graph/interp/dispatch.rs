//! One match over all ops: takes operands apart, calls the family, rounds the results.

use super::attention::{Queries, Selected, attention, block_attention};
use super::error::{Fault, positive};
use super::format::round_row;
use super::linear::{Order, linear, moe_linear};
use super::rows::{Places, argmax, cache_append, deal, gather, ring_store};
use super::tensor::{Data, Tensor};
use super::{engram, hc, index, pointwise, pool, router};
use crate::graph::{Node, Op, Value};
use crate::types::{Format, TensorType};
use std::sync::Arc;

/// All values of a module during a run.
pub(super) struct Scope<'a> {
    /// Types by value number.
    pub(super) types: Vec<&'a TensorType>,
    /// Shapes under the bindings, by value number.
    pub(super) shapes: Vec<Vec<usize>>,
    /// Tensors that exist and are still needed, by value number.
    pub(super) values: Vec<Option<Arc<Tensor>>>,
}

impl Scope<'_> {
    fn tensor(&self, v: Value) -> Result<&Tensor, Fault> {
        self.values.get(v.index()).and_then(|t| t.as_deref()).ok_or(Fault::Operand(v))
    }
    fn reals(&self, v: Value) -> Result<&[f32], Fault> {
        self.tensor(v)?.reals().ok_or(Fault::Operand(v))
    }
    fn ints(&self, v: Value) -> Result<&[i32], Fault> {
        self.tensor(v)?.ints().ok_or(Fault::Operand(v))
    }
    fn longs(&self, v: Value) -> Result<&[i64], Fault> {
        self.tensor(v)?.longs().ok_or(Fault::Operand(v))
    }
    fn format(&self, v: Value) -> Format {
        self.types[v.index()].format
    }
    /// Dimension `i`.
    fn dim(&self, v: Value, i: usize) -> usize {
        self.shapes[v.index()].get(i).copied().unwrap_or(1)
    }
    /// The last dimension.
    fn last(&self, v: Value) -> usize {
        self.shapes[v.index()].last().copied().unwrap_or(1)
    }
    /// Product of the dimensions before the last.
    fn outer(&self, v: Value) -> usize {
        self.shapes[v.index()].iter().rev().skip(1).product()
    }
    /// Slots and positions of the rows of a step that use `state`.
    fn places(&self, state: Value, seq: Value, pos: Value) -> Result<Places<'_>, Fault> {
        Places::new(self.ints(seq)?, self.ints(pos)?, self.dim(state, 0))
    }
    /// Unrounded reals as result `v`: the one rounding of an op.
    fn round(&self, v: Value, mut reals: Vec<f32>) -> Result<Data, Fault> {
        let format = self.format(v);
        match format.group {
            None => round_row(&mut reals, format)?,
            Some(_) => {
                for row in reals.chunks_mut(self.last(v).max(1)) {
                    round_row(row, format)?;
                }
            }
        }
        Ok(Data::F32(reals))
    }
    /// Moved elements as result `v`; reals may widen or narrow on the way.
    fn moved(&self, v: Value, data: Data) -> Result<Data, Fault> {
        match data {
            Data::F32(reals) => self.round(v, reals),
            Data::I32(_) | Data::I64(_) => Ok(data),
        }
    }
    /// The newest version of a state, no longer to be read under its old number.
    fn take(&mut self, v: Value) -> Result<Arc<Tensor>, Fault> {
        self.values.get_mut(v.index()).and_then(Option::take).ok_or(Fault::Operand(v))
    }
}

/// The results of `node`, in order.
pub(super) fn eval(scope: &mut Scope<'_>, node: &Node) -> Result<Vec<Data>, Fault> {
    let out = node.first;
    if let Op::RingStore { ring, rows, seq, pos } = &node.op {
        let mut state = scope.take(*ring)?;
        let data = &mut Arc::make_mut(&mut state).data;
        let places = scope.places(*ring, *seq, *pos)?;
        ring_store(data, scope.dim(*ring, 1), &scope.tensor(*rows)?.data, &places)?
            .ok_or(Fault::Operand(*rows))?;
        return Ok(vec![Arc::unwrap_or_clone(state).data]);
    }
    if let Op::CacheAppend { cache, rows, seq, pos, ratio } = &node.op {
        let mut state = scope.take(*cache)?;
        let data = &mut Arc::make_mut(&mut state).data;
        let places = scope.places(*cache, *seq, *pos)?;
        cache_append(data, scope.dim(*cache, 1), &scope.tensor(*rows)?.data, &places, *ratio)?
            .ok_or(Fault::Operand(*rows))?;
        return Ok(vec![Arc::unwrap_or_clone(state).data]);
    }
    let s = &*scope;
    let one = |reals: Vec<f32>| Ok(vec![s.round(out, reals)?]);
    match &node.op {
        Op::Embed { table, tokens } => {
            let ids = s.ints(*tokens)?.iter().map(|i| i64::from(*i));
            let data = gather(&s.tensor(*table)?.data, s.dim(*table, 0), "tokens", ids)?;
            Ok(vec![s.moved(out, data)?])
        }
        Op::Cast { x } | Op::Quantize { x } => one(s.reals(*x)?.to_vec()),
        Op::Scale { x, factor } => one(s.reals(*x)?.iter().map(|v| v * factor).collect()),
        Op::Add { a, b } => one(s.reals(*a)?.iter().zip(s.reals(*b)?).map(|(a, b)| a + b).collect()),
        Op::Concat { parts } => dealt(s, out, parts, s.outer(out)),
        Op::InterleaveRows { parts } => {
            let rows = parts.first().map_or(0, |p| s.dim(*p, 0));
            dealt(s, out, parts, rows)
        }
        Op::RmsNorm { x, weight, eps } => one(pointwise::rmsnorm(s.reals(*x)?, s.reals(*weight)?, *eps)),
        Op::Linear { x, weight, groups } => {
            let order = Order::new(s.format(*x), s.format(*weight));
            let (rows, n) = (s.dim(*x, 0), s.dim(*weight, 0));
            one(linear(order, s.reals(*x)?, rows, s.reals(*weight)?, n, *groups)?)
        }
        Op::SelectRows { x, rows } => {
            let ids = s.ints(*rows)?.iter().map(|i| i64::from(*i));
            let data = gather(&s.tensor(*x)?.data, s.dim(*x, 0), "rows", ids)?;
            Ok(vec![s.moved(out, data)?])
        }
        Op::EveryRow { x, step, offset } => {
            let count = s.dim(*x, 0) / positive("step", *step)?;
            let ids = (0..count).map(|q| (q * step + offset) as i64);
            let data = gather(&s.tensor(*x)?.data, s.dim(*x, 0), "x", ids)?;
            Ok(vec![s.moved(out, data)?])
        }
        Op::Argmax { x } => {
            let (x, n, rows) = (s.reals(*x)?, s.last(*x), s.dim(*x, 0));
            let best = (0..rows).map(|t| argmax(&x[t * n..(t + 1) * n]) as i32);
            Ok(vec![Data::I32(best.collect())])
        }
        Op::RopeTable { pos, rope, stride } => {
            positive("stride", *stride)?;
            let pos = s.ints(*pos)?;
            let places = Places::new(&[], pos, 0)?;
            let rotary = (0..pos.len()).map(|t| places.pos(t) / stride * stride);
            one(pointwise::rope_table(rotary, &rope.frequencies()))
        }
        Op::Rope { x, table, inverse } => {
            let heads = s.outer(*x).checked_div(s.dim(*x, 0)).unwrap_or(1);
            let (dim, d) = (s.last(*table), s.last(*x));
            one(pointwise::rope(s.reals(*x)?, d, heads, s.reals(*table)?, dim, *inverse))
        }
        Op::HcOpen { x, streams } => {
            positive("streams", *streams)?;
            let [copies, pre] = hc::open(s.reals(*x)?, s.dim(*x, 0), *streams);
            Ok(vec![s.round(out, copies)?, s.round(node.result(1), pre)?])
        }
        Op::HcMix { x, function, base, scale, iters, eps, norm_eps } => {
            let mix = hc::mix(&hc::Mix {
                x: s.reals(*x)?,
                rows: s.dim(*x, 0),
                streams: s.dim(*x, 1),
                function: s.reals(*function)?,
                base: s.reals(*base)?,
                scale: s.reals(*scale)?,
                iters: *iters,
                eps: *eps,
                norm_eps: *norm_eps,
            })?;
            mix.into_iter().enumerate().map(|(i, v)| s.round(node.result(i), v)).collect()
        }
        Op::HcCollapse { x, pre } => {
            one(hc::collapse(s.reals(*x)?, s.reals(*pre)?, s.dim(*x, 0), s.dim(*x, 1), s.dim(*x, 2)))
        }
        Op::HcExpand { y, x, post, comb } => {
            let dims = [s.dim(*x, 0), s.dim(*x, 1), s.dim(*x, 2)];
            one(hc::expand(s.reals(*y)?, s.reals(*x)?, s.reals(*post)?, s.reals(*comb)?, dims))
        }
        Op::HcMean { x } => one(hc::mean(s.reals(*x)?, s.dim(*x, 0), s.dim(*x, 1), s.dim(*x, 2))),
        Op::EngramHash { history, map, seq, pos, engram } => {
            let places = s.places(*history, *seq, *pos)?;
            let ring = s.dim(*history, 1);
            let hash = engram::hash(s.ints(*history)?, ring, s.ints(*map)?, &places, engram)?;
            Ok(vec![Data::I64(hash)])
        }
        Op::EngramLookup { table, ids } => {
            let ids = s.longs(*ids)?.iter().copied();
            let data = gather(&s.tensor(*table)?.data, s.dim(*table, 0), "ids", ids)?;
            Ok(vec![s.moved(out, data)?])
        }
        Op::EngramGate { x, kv, q_weight, k_weight, eps } => {
            let dims = [s.dim(*x, 0), s.dim(*x, 1), s.dim(*x, 2)];
            let (q, k) = (s.reals(*q_weight)?, s.reals(*k_weight)?);
            one(engram::gate(s.reals(*x)?, s.reals(*kv)?, q, k, dims, *eps))
        }
        Op::CompressPool { values, gates, seq, pos, ratio } => {
            let places = s.places(*values, *seq, *pos)?;
            let (ring, d) = (s.dim(*values, 1), s.dim(*values, 2));
            one(pool::pool(s.reals(*values)?, s.reals(*gates)?, ring, d, &places, *ratio)?)
        }
        Op::IndexScores { q, weights, keys, seq, pos, ratio, round } => {
            let places = s.places(*keys, *seq, *pos)?;
            let scores = index::Scores {
                q: s.reals(*q)?,
                weights: s.reals(*weights)?,
                keys: s.reals(*keys)?,
                heads: s.dim(*q, 1),
                d: s.dim(*q, 2),
                len: s.dim(*keys, 1),
            };
            one(index::scores(&scores, &places, *ratio, *round)?)
        }
        Op::IndexBlocks { scores, pos, ratio, block, keep } => {
            let (scores, n) = (s.reals(*scores)?, s.last(*scores));
            let blocks = index::blocks(scores, n, s.ints(*pos)?, *ratio, *block, *keep)?;
            Ok(vec![Data::I32(blocks)])
        }
        Op::IndexRestrict { scores, blocks, block } => {
            let (n, keep) = (s.last(*scores), s.last(*blocks));
            one(index::restrict(s.reals(*scores)?, n, s.ints(*blocks)?, keep, *block)?)
        }
        Op::TopK { scores, k } => {
            let (rows, n) = (s.dim(*scores, 0), s.last(*scores));
            Ok(vec![Data::I32(index::top_k(s.reals(*scores)?, rows, n, *k))])
        }
        Op::Attention { q, window, cache, selected, sink, seq, pos, lo, scale, round } => {
            let places = s.places(*window, *seq, *pos)?;
            let selected = match (cache, selected) {
                (Some(cache), Some(list)) => Some(Selected {
                    cache: s.reals(*cache)?,
                    len: s.dim(*cache, 1),
                    list: s.ints(*list)?,
                    k: s.last(*list),
                }),
                (None, None) => None,
                (Some(v), None) | (None, Some(v)) => return Err(Fault::Operand(*v)),
            };
            let queries = queries(s, *q, *window, *sink, *lo, *scale, *round)?;
            one(attention(&queries, selected.as_ref(), &places)?)
        }
        Op::BlockAttention { q, window, rows, sink, seq, pos, lo, block, scale, round } => {
            let places = s.places(*window, *seq, *pos)?;
            let queries = queries(s, *q, *window, *sink, *lo, *scale, *round)?;
            one(block_attention(&queries, s.reals(*rows)?, &places, *block)?)
        }
        Op::Router { logits, bias, k, scale } => {
            let (ids, weights) = router::router(s.reals(*logits)?, s.reals(*bias)?, *k, *scale);
            Ok(vec![Data::I32(ids), s.round(node.result(1), weights)?])
        }
        Op::MoeGroup { experts, count } => {
            let group = router::group(s.ints(*experts)?, s.last(*experts), *count)?;
            Ok(group.map(Data::I32).into())
        }
        Op::MoeLinear { x, experts, weight, offsets, pairs, rows } => {
            let order = Order::new(s.format(*x), s.format(*weight));
            let dims = [s.dim(*weight, 0), s.dim(*weight, 1), s.dim(*weight, 2)];
            let shared = s.shapes[x.index()].len() == 2;
            let (experts, choices) = (s.ints(*experts)?, s.last(*experts));
            let group = router::group(experts, choices, dims[0])?;
            for (given, want) in [offsets, pairs, rows].into_iter().zip(&group) {
                if let Some(given) = given.filter(|g| s.ints(*g) != Ok(want)) {
                    return Err(Fault::Grouping(given));
                }
            }
            one(moe_linear(order, s.reals(*x)?, shared, &group, s.reals(*weight)?, dims))
        }
        Op::SwiGlu { gate, up, weight, limit } => {
            let weight = weight.map(|w| s.reals(w)).transpose()?;
            one(pointwise::swiglu(s.reals(*gate)?, s.reals(*up)?, weight, s.last(*gate), *limit))
        }
        Op::MoeCombine { parts, shared } => {
            let (choices, d) = (s.dim(*parts, 1), s.last(*shared));
            one(pointwise::moe_combine(s.reals(*parts)?, s.reals(*shared)?, choices, d))
        }
        Op::RingStore { ring: state, .. } | Op::CacheAppend { cache: state, .. } => {
            Err(Fault::Operand(*state))
        }
    }
}

/// `count` pieces of each part in turn.
fn dealt(s: &Scope<'_>, out: Value, parts: &[Value], count: usize) -> Result<Vec<Data>, Fault> {
    let data: Result<Vec<&Data>, Fault> = parts.iter().map(|p| Ok(&s.tensor(*p)?.data)).collect();
    let mixed = Fault::Operand(parts.first().copied().unwrap_or(out));
    Ok(vec![s.moved(out, deal(&data?, count).ok_or(mixed)?)?])
}

/// The operands that both attention ops share.
fn queries<'a>(
    s: &'a Scope<'_>,
    q: Value,
    window: Value,
    sink: Value,
    lo: Value,
    scale: f32,
    round: crate::graph::Round,
) -> Result<Queries<'a>, Fault> {
    Ok(Queries {
        q: s.reals(q)?,
        heads: s.dim(q, 1),
        d: s.dim(q, 2),
        window: s.reals(window)?,
        ring: s.dim(window, 1),
        sink: s.reals(sink)?,
        lo: s.ints(lo)?,
        scale,
        round,
    })
}
