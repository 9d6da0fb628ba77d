//! The typing rule of each op, as its documentation in the op table states it.

use super::super::fault::{Rule, Subject};
use super::super::module::Value;
use super::super::ops::Op;
use super::attrs::{engram_attr, rope_attr};
use super::matrix::{linear, moe_linear};
use super::pattern::Pat::{Any, Fixed, Is, Tail};
use super::signature::{ResultShape, Signature, Walk};
use crate::types::{Dim, Format, TensorType};
use std::borrow::Borrow;

const FLOAT: &[Format] = &[Format::BF16, Format::F32];
const F32: &[Format] = &[Format::F32];
const I32: &[Format] = &[Format::I32];
const I64: &[Format] = &[Format::I64];
const PLAIN: &[Format] = &[Format::BF16, Format::F32, Format::I32, Format::I64];
const QUANTIZED: &[Format] = &[Format::MX8, Format::KV8, Format::KV4, Format::INDEX4];
/// Keys that are also values, in a window or a cache.
const KEYS: &[Format] = &[Format::KV8, Format::KV4, Format::BF16, Format::F32];
const INDEX: &[Format] = &[Format::INDEX4, Format::BF16, Format::F32];
const TABLE: &[Format] = &[Format::MX8];
/// Any format; what is stored has the format of what it is stored in.
const ANY: &[Format] = &[];

fn product(a: Option<usize>, b: Option<usize>) -> Option<usize> {
    a?.checked_mul(b?)
}

/// What the types say about `op`.
pub(super) fn signature<T: Borrow<TensorType>>(op: &Op, types: &[T]) -> Signature {
    let mut w = Walk::new(types, op.mnemonic());
    walk(&mut w, op);
    w.found
}

fn walk<T: Borrow<TensorType>>(w: &mut Walk<'_, T>, op: &Op) {
    match op {
        Op::Embed { table, tokens } => {
            w.shared("table", *table, &[Fixed("V"), Fixed("d")], FLOAT);
            w.rows("tokens", *tokens, &[Any("T")], I32);
            w.result(&[Any("T"), Fixed("d")], FLOAT);
        }
        Op::Cast { x } => {
            w.rows("x", *x, &[Any("T"), Tail], FLOAT);
            w.result_like(*x, FLOAT);
        }
        Op::Quantize { x } => {
            w.rows("x", *x, &[Any("T"), Tail, Fixed("d")], FLOAT);
            w.result_like(*x, QUANTIZED);
        }
        Op::Scale { x, factor } => {
            w.rows("x", *x, &[Any("T"), Tail], FLOAT);
            w.finite("factor", *factor);
            w.result_like(*x, FLOAT);
        }
        Op::Add { a, b } => {
            w.rows("a", *a, &[Any("T"), Tail], FLOAT);
            w.rows("b", *b, &[Any("T"), Tail], FLOAT);
            w.result_like(*a, FLOAT);
        }
        Op::Concat { parts } => concat(w, parts),
        Op::RmsNorm { x, weight, eps } => {
            w.rows("x", *x, &[Any("T"), Tail, Fixed("d")], FLOAT);
            w.shared("weight", *weight, &[Fixed("d")], FLOAT);
            w.epsilon("eps", *eps);
            w.result_like(*x, FLOAT);
        }
        Op::Linear { x, weight, groups } => linear(w, *x, *weight, *groups),
        Op::SelectRows { x, rows } => {
            w.rows("x", *x, &[Any("T"), Tail], PLAIN);
            w.rows("rows", *rows, &[Any("L")], I32);
            let formats = w.format_of(*x);
            w.result(&[Any("L"), Tail], &formats);
        }
        Op::EveryRow { x, step, offset } => every_row(w, *x, *step, *offset),
        Op::InterleaveRows { parts } => interleave_rows(w, parts),
        Op::Argmax { x } => {
            w.rows("x", *x, &[Any("T"), Any("n")], FLOAT);
            w.result(&[Any("T")], I32);
        }
        Op::RopeTable { pos, rope, stride } => {
            w.rows("pos", *pos, &[Any("T")], I32);
            rope_attr(w, rope);
            w.count("stride", *stride);
            w.result(&[Any("T"), Is(Some(rope.dim), "rope.dim")], F32);
        }
        Op::Rope { x, table, inverse: _ } => {
            w.rows("x", *x, &[Any("T"), Tail, Fixed("d")], FLOAT);
            w.rows("table", *table, &[Any("T"), Fixed("2m")], F32);
            if let (Some(d), Some(angles)) = (w.names.number("d"), w.names.number("2m"))
                && (angles > d || angles % 2 != 0)
            {
                let message =
                    format!("has angles for {angles} channels; the rows of `x` have {d}, rotated in pairs");
                w.fault(Rule::Shape, Subject::Operand("table"), message);
            }
            w.result_like(*x, FLOAT);
        }
        Op::HcOpen { x, streams } => {
            w.rows("x", *x, &[Any("T"), Fixed("d")], FLOAT);
            w.count("streams", *streams);
            let (formats, n) = (w.format_of(*x), Is(Some(*streams), "streams"));
            w.result(&[Any("T"), n, Fixed("d")], &formats);
            w.result(&[Any("T"), n], F32);
        }
        Op::HcMix { x, function, base, scale, iters, eps, norm_eps } => {
            w.rows("x", *x, &[Any("T"), Fixed("n"), Fixed("d")], FLOAT);
            let (n, d) = (w.names.number("n"), w.names.number("d"));
            let coefficients = Is(product(n, n.and_then(|n| n.checked_add(2))), "n·(n+2)");
            w.shared("function", *function, &[coefficients, Is(product(n, d), "n·d")], FLOAT);
            w.shared("base", *base, &[coefficients], FLOAT);
            w.shared("scale", *scale, &[Is(Some(3), "3")], FLOAT);
            w.attr("iters", (1..=1000).contains(iters), iters, "from 1 to 1000");
            w.epsilon("eps", *eps);
            w.epsilon("norm_eps", *norm_eps);
            w.result(&[Any("T"), Fixed("n")], F32);
            w.result(&[Any("T"), Fixed("n")], F32);
            w.result(&[Any("T"), Fixed("n"), Fixed("n")], F32);
        }
        Op::HcCollapse { x, pre } => {
            w.rows("x", *x, &[Any("T"), Fixed("n"), Fixed("d")], FLOAT);
            w.rows("pre", *pre, &[Any("T"), Fixed("n")], F32);
            w.result(&[Any("T"), Fixed("d")], FLOAT);
        }
        Op::HcExpand { y, x, post, comb } => {
            w.rows("y", *y, &[Any("T"), Fixed("d")], FLOAT);
            w.rows("x", *x, &[Any("T"), Fixed("n"), Fixed("d")], FLOAT);
            w.rows("post", *post, &[Any("T"), Fixed("n")], F32);
            w.rows("comb", *comb, &[Any("T"), Fixed("n"), Fixed("n")], F32);
            let formats = w.format_of(*x);
            w.result_like(*x, &formats);
        }
        Op::HcMean { x } => {
            w.rows("x", *x, &[Any("T"), Fixed("n"), Fixed("d")], FLOAT);
            w.result(&[Any("T"), Fixed("d")], FLOAT);
        }
        Op::RingStore { ring, rows, seq, pos } => {
            w.state("ring", *ring, &[Any("S"), Any("R"), Tail], ANY);
            let formats = w.format_of(*ring);
            w.rows("rows", *rows, &[Any("T"), Tail], &formats);
            w.per_row(&[("seq", *seq), ("pos", *pos)]);
            w.result_like(*ring, &formats);
        }
        Op::EngramHash { history, map, seq, pos, engram } => {
            w.state("history", *history, &[Any("S"), Any("R")], I32);
            w.shared("map", *map, &[Fixed("V")], I32);
            w.per_row(&[("seq", *seq), ("pos", *pos)]);
            engram_attr(w, engram);
            w.result(&[Any("T"), Is(Some(engram.columns()), "columns")], I64);
        }
        Op::EngramLookup { table, ids } => {
            w.shared("table", *table, &[Fixed("rows"), Fixed("h")], TABLE);
            w.rows("ids", *ids, &[Any("T"), Fixed("c")], I64);
            let width = product(w.names.number("c"), w.names.number("h"));
            w.result(&[Any("T"), Is(width, "c·h")], FLOAT);
        }
        Op::EngramGate { x, kv, q_weight, k_weight, eps } => {
            w.rows("x", *x, &[Any("T"), Fixed("n"), Fixed("d")], FLOAT);
            let width = product(w.names.number("n").and_then(|n| n.checked_add(1)), w.names.number("d"));
            w.rows("kv", *kv, &[Any("T"), Is(width, "(n+1)·d")], FLOAT);
            w.shared("q_weight", *q_weight, &[Fixed("n"), Fixed("d")], FLOAT);
            w.shared("k_weight", *k_weight, &[Fixed("n"), Fixed("d")], FLOAT);
            w.epsilon("eps", *eps);
            let formats = w.format_of(*x);
            w.result_like(*x, &formats);
        }
        Op::CompressPool { values, gates, seq, pos, ratio } => {
            w.state("values", *values, &[Any("S"), Any("R"), Fixed("D")], F32);
            w.state("gates", *gates, &[Any("S"), Any("R"), Fixed("D")], F32);
            w.per_row(&[("seq", *seq), ("pos", *pos)]);
            w.count("ratio", *ratio);
            if let Some(ring) = w.names.number("R") {
                w.attr("ratio", *ratio <= ring, ratio, "no more than the rings hold");
            }
            w.result(&[Any("T"), Fixed("D")], FLOAT);
        }
        Op::CacheAppend { cache, rows, seq, pos, ratio } => {
            w.state("cache", *cache, &[Any("S"), Any("C"), Fixed("D")], ANY);
            let formats = w.format_of(*cache);
            w.rows("rows", *rows, &[Any("T"), Fixed("D")], &formats);
            w.per_row(&[("seq", *seq), ("pos", *pos)]);
            w.count("ratio", *ratio);
            w.result_like(*cache, &formats);
        }
        Op::IndexScores { q, weights, keys, seq, pos, ratio, round: _ } => {
            w.rows("q", *q, &[Any("T"), Fixed("H"), Fixed("D")], INDEX);
            w.rows("weights", *weights, &[Any("T"), Fixed("H")], FLOAT);
            w.state("keys", *keys, &[Any("S"), Any("C"), Fixed("D")], INDEX);
            w.per_row(&[("seq", *seq), ("pos", *pos)]);
            w.count("ratio", *ratio);
            w.result(&[Any("T"), Any("C")], F32);
        }
        Op::IndexBlocks { scores, pos, ratio, block, keep } => {
            w.rows("scores", *scores, &[Any("T"), Any("C")], F32);
            w.per_row(&[("pos", *pos)]);
            w.count("ratio", *ratio);
            w.count("block", *block);
            w.count("keep", *keep);
            w.result(&[Any("T"), Is(Some(*keep), "keep")], I32);
        }
        Op::IndexRestrict { scores, blocks, block } => {
            w.rows("scores", *scores, &[Any("T"), Any("C")], F32);
            w.rows("blocks", *blocks, &[Any("T"), Fixed("keep")], I32);
            w.count("block", *block);
            w.result_like(*scores, F32);
        }
        Op::TopK { scores, k } => {
            w.rows("scores", *scores, &[Any("T"), Any("C")], F32);
            w.count("k", *k);
            w.result(&[Any("T"), Is(Some(*k), "k")], I32);
        }
        Op::Attention { q, window, cache, selected, sink, seq, pos, lo, scale, round: _ } => {
            w.rows("q", *q, &[Any("T"), Fixed("H"), Fixed("D")], FLOAT);
            w.state("window", *window, &[Any("S"), Any("R"), Fixed("D")], KEYS);
            if let Some(cache) = cache {
                w.state("cache", *cache, &[Any("S"), Any("C"), Fixed("D")], KEYS);
            }
            if let Some(selected) = selected {
                w.rows("selected", *selected, &[Any("T"), Fixed("k")], I32);
            }
            if cache.is_some() != selected.is_some() {
                let message = "has only one of `cache` and `selected`; give both or neither".to_owned();
                w.fault(Rule::Operands, Subject::Node, message);
            }
            w.shared("sink", *sink, &[Fixed("H")], F32);
            w.per_row(&[("seq", *seq), ("pos", *pos), ("lo", *lo)]);
            w.finite("scale", *scale);
            w.result_like(*q, FLOAT);
        }
        Op::BlockAttention { q, window, rows, sink, seq, pos, lo, block, scale, round: _ } => {
            w.rows("q", *q, &[Any("T"), Fixed("H"), Fixed("D")], FLOAT);
            w.state("window", *window, &[Any("S"), Any("R"), Fixed("D")], KEYS);
            let formats = w.format_of(*window);
            w.rows("rows", *rows, &[Any("T"), Fixed("D")], &formats);
            w.shared("sink", *sink, &[Fixed("H")], F32);
            w.per_row(&[("seq", *seq), ("pos", *pos), ("lo", *lo)]);
            w.count("block", *block);
            whole_blocks(w, "q", "block", *block);
            w.finite("scale", *scale);
            w.result_like(*q, FLOAT);
        }
        Op::Router { logits, bias, k, scale } => {
            w.rows("logits", *logits, &[Any("T"), Fixed("E")], F32);
            w.shared("bias", *bias, &[Fixed("E")], F32);
            w.count("k", *k);
            if let Some(experts) = w.names.number("E") {
                w.attr("k", *k <= experts, k, "no more than the number of experts");
            }
            w.finite("scale", *scale);
            w.result(&[Any("T"), Is(Some(*k), "k")], I32);
            w.result(&[Any("T"), Is(Some(*k), "k")], F32);
        }
        Op::MoeGroup { experts, count } => {
            w.rows("experts", *experts, &[Any("T"), Fixed("k")], I32);
            w.count("count", *count);
            w.result(&[Is(count.checked_add(1), "count+1")], I32);
            let choices = w.names.dim("T").zip(w.names.number("k")).and_then(|(t, k)| t.checked_times(k));
            for _ in 0..2 {
                w.result_shape(choices.clone().map(|n| ResultShape::Exactly(vec![n])), I32);
            }
        }
        Op::MoeLinear { x, experts, weight, offsets, pairs, rows } => {
            moe_linear(
                w,
                *x,
                *experts,
                *weight,
                &[("offsets", *offsets), ("pairs", *pairs), ("rows", *rows)],
            );
        }
        Op::SwiGlu { gate, up, weight, limit } => {
            w.rows("gate", *gate, &[Any("T"), Tail, Fixed("n")], FLOAT);
            w.rows("up", *up, &[Any("T"), Tail, Fixed("n")], FLOAT);
            if let Some(weight) = weight {
                w.rows("weight", *weight, &[Any("T"), Tail], FLOAT);
            }
            w.attr("limit", *limit > 0.0 && limit.is_finite(), limit, "finite and above 0");
            w.result_like(*gate, FLOAT);
        }
        Op::MoeCombine { parts, shared } => {
            w.rows("parts", *parts, &[Any("T"), Fixed("k"), Fixed("d")], FLOAT);
            w.rows("shared", *shared, &[Any("T"), Fixed("d")], FLOAT);
            w.result(&[Any("T"), Fixed("d")], FLOAT);
        }
    }
}

fn not_empty<T: Borrow<TensorType>>(w: &mut Walk<'_, T>, name: &'static str, values: &[Value]) {
    if values.is_empty() {
        w.fault(Rule::Operands, Subject::Operand(name), "is empty; give at least one value".to_owned());
    }
}

fn concat<T: Borrow<TensorType>>(w: &mut Walk<'_, T>, parts: &[Value]) {
    not_empty(w, "parts", parts);
    let formats = parts.first().map_or_else(Vec::new, |v| w.format_of(*v));
    let mut width = Some(0usize);
    for (i, part) in parts.iter().enumerate() {
        // The first part may have any plain format, the others have the first one's.
        let allowed = if i == 0 { PLAIN } else { &formats };
        // Names that only one part has a say in; the width of each is read off its type.
        w.rows("parts", *part, &[Any("T"), Tail, Is(None, "n")], allowed);
        let last = w.ty(*part).and_then(|t| t.shape.last()?.fixed());
        if w.ty(*part).is_some() && last.is_none() {
            let message = "has a symbol as last dimension; parts have numbers there".to_owned();
            w.fault(Rule::Shape, Subject::Operand("parts"), message);
        }
        width = width.zip(last).and_then(|(a, b)| a.checked_add(b));
    }
    w.result(&[Any("T"), Tail, Is(width, "Σ n")], &formats);
}

/// The dimension that counts every `step`-th of `dim`.
fn divided(dim: &Dim, step: usize) -> Option<Dim> {
    match dim {
        Dim::Fixed(n) if n.checked_rem(step) == Some(0) => Some(Dim::Fixed(n / step)),
        Dim::Sym { sym, times } if times.checked_rem(step) == Some(0) => {
            Some(Dim::Sym { sym: sym.clone(), times: times / step })
        }
        Dim::Fixed(_) | Dim::Sym { .. } => None,
    }
}

/// A fault unless the rows, T, are whole blocks.
fn whole_blocks<T: Borrow<TensorType>>(
    w: &mut Walk<'_, T>,
    operand: &'static str,
    attr: &str,
    size: usize,
) -> Option<Dim> {
    let rows = w.names.dim("T")?;
    let blocks = divided(&rows, size);
    if blocks.is_none() && size > 0 {
        let message = format!("has {rows} rows, which is no whole multiple of {attr} = {size}");
        w.fault(Rule::Shape, Subject::Operand(operand), message);
    }
    blocks
}

fn every_row<T: Borrow<TensorType>>(w: &mut Walk<'_, T>, x: Value, step: usize, offset: usize) {
    w.rows("x", x, &[Any("T"), Tail], PLAIN);
    w.count("step", step);
    w.attr("offset", offset < step, &offset, "less than `step`");
    let blocks = whole_blocks(w, "x", "step", step);
    let formats = w.format_of(x);
    let shape = blocks.zip(w.names.tail()).map(|(b, tail)| with_rows(b, tail));
    w.result_shape(shape, &formats);
}

fn interleave_rows<T: Borrow<TensorType>>(w: &mut Walk<'_, T>, parts: &[Value]) {
    not_empty(w, "parts", parts);
    let formats = parts.first().map_or_else(Vec::new, |v| w.format_of(*v));
    for (i, part) in parts.iter().enumerate() {
        let allowed = if i == 0 { PLAIN } else { &formats };
        w.rows("parts", *part, &[Any("Q"), Tail], allowed);
    }
    let rows = w.names.dim("Q").and_then(|q| q.checked_times(parts.len()));
    let shape = rows.zip(w.names.tail()).map(|(rows, tail)| with_rows(rows, tail));
    w.result_shape(shape, &formats);
}

fn with_rows(rows: Dim, tail: &[Dim]) -> ResultShape {
    let mut dims = vec![rows];
    dims.extend_from_slice(tail);
    ResultShape::Exactly(dims)
}
