//! Random valid graph modules, for property tests and benchmarks of whatever reads modules.

use super::attrs::{Engram, Rope, Round, Yarn};
use super::fault::TypeFault;
use super::module::{Builder, DeclKind, Module, Value};
use super::ops::{Effect, Op};
use crate::types::{Dim, Format, TensorType};

/// A valid module with about `size` nodes; equal arguments give equal modules. Every op of the table appears in time.
///
/// # Errors
/// Only if generator and typing rules disagree, which is a fault of one of them.
pub fn module(seed: u64, size: usize) -> Result<Module, TypeFault> {
    let mut g = Gen {
        random: seed,
        b: Builder::new(""),
        fresh: Vec::new(),
        states: Vec::new(),
        named: 0,
        rows: Dim::sym("T"),
    };
    g.rows =
        [Dim::sym("T"), Dim::Sym { sym: crate::Sym::new("Q"), times: 6 }, Dim::Fixed(12)][g.below(3)].clone();
    g.b = Builder::new(["step", "draft", "with space", "quote\"d \\ \n", "é", "0", ""][g.below(7)]);
    while g.fresh.len() < size {
        let mnemonic = Op::MNEMONICS[g.below(Op::MNEMONICS.len())];
        g.node(mnemonic)?;
    }
    for i in 0..g.below(4) {
        let at = g.below(g.fresh.len());
        let value = g.fresh[at];
        g.b.output(format!("out {i}"), value);
    }
    for state in g.states {
        g.b.output(format!("state {}", state.0), state);
    }
    Ok(g.b.finish())
}

struct Gen {
    random: u64,
    b: Builder,
    /// Values that are neither weights, states nor groupings.
    fresh: Vec<Value>,
    /// Newest version of each state.
    states: Vec<Value>,
    named: usize,
    /// The dimension that counts rows.
    rows: Dim,
}

const FLOAT: [Format; 2] = [Format::BF16, Format::F32];
const FACTOR: [Format; 3] = [Format::MX8, Format::BF16, Format::F32];
const MATRIX: [Format; 4] = [Format::W8, Format::MX4, Format::BF16, Format::F32];
const KEYS: [Format; 4] = [Format::KV8, Format::KV4, Format::BF16, Format::F32];
const INDEX: [Format; 3] = [Format::INDEX4, Format::BF16, Format::F32];
const QUANTIZED: [Format; 4] = [Format::MX8, Format::KV8, Format::KV4, Format::INDEX4];

impl Gen {
    /// SplitMix64 (Steele, Lea, Flood 2014).
    fn next(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.random ^ (self.random >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
    fn below(&mut self, n: usize) -> usize {
        (self.next() % n.max(1) as u64) as usize
    }
    fn pick<A: Copy, const N: usize>(&mut self, from: [A; N]) -> A {
        from[self.below(N)]
    }
    fn count(&mut self) -> usize {
        1 + self.below(4)
    }
    /// A width that every format's groups divide.
    fn width(&mut self) -> usize {
        32 * self.count()
    }
    fn float(&mut self) -> f32 {
        let value = f32::from_bits(self.next() as u32);
        if value.is_finite() { value } else { 0.1 }
    }
    fn positive(&mut self) -> f32 {
        let value = self.float().abs();
        if value > 0.0 { value } else { 1e-20 }
    }
    fn round(&mut self) -> Round {
        self.pick([Round::None, Round::Bf16])
    }

    fn declare(&mut self, kind: DeclKind, shape: Vec<Dim>, format: Format) -> Value {
        self.named += 1;
        let stem =
            self.pick(["tokens", "layers.0.ffn.experts.*.w1.weight", "a b", "\"\\", "\n\t", "λ;", "%1"]);
        let name = format!("{stem}{}", self.named);
        self.b.declare(kind, name, TensorType::new(shape, format))
    }
    fn reuse(&mut self, among: Vec<Value>, shape: &[Dim], format: Format) -> Option<Value> {
        let fitting = |v: &Value| {
            let ty = self.b.ty(*v);
            ty.shape == shape && ty.format == format
        };
        let fitting: Vec<Value> = among.into_iter().filter(fitting).collect();
        // Now and then something new, so that not all operands become one value.
        if fitting.is_empty() || self.below(4) == 0 { None } else { Some(fitting[self.below(fitting.len())]) }
    }
    /// A value with these dimensions after the rows.
    fn act(&mut self, tail: &[usize], format: Format) -> Value {
        let mut shape = vec![self.rows.clone()];
        shape.extend(tail.iter().copied().map(Dim::Fixed));
        self.value(shape, format)
    }
    fn value(&mut self, shape: Vec<Dim>, format: Format) -> Value {
        if let Some(v) = self.reuse(self.fresh.clone(), &shape, format) {
            return v;
        }
        let v = self.declare(DeclKind::Input, shape, format);
        self.fresh.push(v);
        v
    }
    fn weight(&mut self, shape: &[usize], format: Format) -> Value {
        self.declare(DeclKind::Weight, shape.iter().copied().map(Dim::Fixed).collect(), format)
    }
    /// A state of slots × `ring`, with these dimensions after them.
    fn state(&mut self, ring: &str, tail: &[usize], format: Format) -> Value {
        let mut shape = vec![Dim::sym("S"), Dim::sym(ring)];
        shape.extend(tail.iter().copied().map(Dim::Fixed));
        if let Some(v) = self.reuse(self.states.clone(), &shape, format) {
            return v;
        }
        let v = self.declare(DeclKind::State, shape, format);
        self.states.push(v);
        v
    }
    fn per_row(&mut self) -> Value {
        self.act(&[], Format::I32)
    }
    fn scores(&mut self) -> Value {
        self.value(vec![self.rows.clone(), Dim::sym("C")], Format::F32)
    }
    fn tail(&mut self) -> Vec<usize> {
        let mut tail: Vec<usize> = (0..self.below(3)).map(|_| self.count()).collect();
        tail.push(self.width());
        tail
    }

    fn node(&mut self, mnemonic: &str) -> Result<(), TypeFault> {
        let (op, tail) = match mnemonic {
            "linear" => self.linear(),
            "moe.linear" => (self.moe_linear()?, Vec::new()),
            other => match self.mixing(other).or_else(|| self.caching(other)).or_else(|| self.rowwise(other))
            {
                Some(op) => (op, Vec::new()),
                None => return Ok(()),
            },
        };
        let open = if matches!(op, Op::Quantize { .. }) { self.pick(QUANTIZED) } else { self.pick(FLOAT) };
        let stored = first_operand(&op).filter(|_| op.effect() == Effect::State);
        if !tail.is_empty() {
            let v = self.b.emit_split(op, &tail, open)?;
            self.fresh.push(v);
            return Ok(());
        }
        let grouping = matches!(op, Op::MoeGroup { .. });
        let results = self.b.emit_many(op, open)?;
        match self.states.iter().position(|s| Some(*s) == stored) {
            Some(i) => self.states[i] = results[0],
            None if grouping => {}
            None => self.fresh.extend(results),
        }
        Ok(())
    }

    fn linear(&mut self) -> (Op, Vec<usize>) {
        let groups = self.count();
        let (piece, per_group) = (self.width(), self.count());
        let (x, weight) = (self.pick(FACTOR), self.pick(MATRIX));
        let x = self.act(&[groups, piece], x);
        let weight = self.weight(&[groups * per_group, piece], weight);
        (Op::Linear { x, weight, groups }, [vec![], vec![groups, per_group]][self.below(2)].clone())
    }

    fn moe_linear(&mut self) -> Result<Op, TypeFault> {
        let (k, width, count) = (self.count(), self.width(), self.count());
        let experts = self.act(&[k], Format::I32);
        let tail = [vec![width], vec![k, width]][self.below(2)].clone();
        let (x, format) = (self.pick(FACTOR), self.pick(MATRIX));
        let x = self.act(&tail, x);
        let weight = self.weight(&[count, 5, width], format);
        let mut group = [None; 3];
        if self.below(2) == 0 {
            let results = self.b.emit_many(Op::MoeGroup { experts, count }, Format::F32)?;
            group = [0, 1, 2].map(|i| results.get(i).copied());
        }
        let [offsets, pairs, rows] = group;
        Ok(Op::MoeLinear { x, experts, weight, offsets, pairs, rows })
    }

    fn rowwise(&mut self, mnemonic: &str) -> Option<Op> {
        let format = self.pick(FLOAT);
        let (tail, k) = (self.tail(), self.count());
        let width = tail.last().copied().unwrap_or(32);
        Some(match mnemonic {
            "embed" => Op::Embed { table: self.weight(&[7, 5], format), tokens: self.per_row() },
            "cast" => Op::Cast { x: self.act(&tail, format) },
            "quantize" => Op::Quantize { x: self.act(&tail, format) },
            "scale" => Op::Scale { x: self.act(&tail, format), factor: self.float() },
            "add" => Op::Add { a: self.act(&tail, format), b: self.act(&tail, Format::F32) },
            "concat" => Op::Concat { parts: (0..k).map(|n| self.act(&[k, n + 1], format)).collect() },
            "rmsnorm" => Op::RmsNorm {
                x: self.act(&tail, format),
                weight: self.weight(&[width], format),
                eps: self.positive(),
            },
            "rows.select" => {
                let rows = self.value(vec![Dim::sym("L")], Format::I32);
                Op::SelectRows { x: self.act(&tail, format), rows }
            }
            "rows.every" => {
                let step = self.pick([1, 2, 3, 6]);
                let x =
                    self.value(vec![Dim::Sym { sym: crate::Sym::new("Z"), times: 6 }, Dim::Fixed(5)], format);
                Op::EveryRow { x, step, offset: self.below(step) }
            }
            "rows.interleave" => {
                Op::InterleaveRows { parts: (0..k).map(|_| self.act(&tail, format)).collect() }
            }
            "argmax" => Op::Argmax { x: self.act(&[width], format) },
            "router" => Op::Router {
                logits: self.act(&[8], Format::F32),
                bias: self.weight(&[8], Format::F32),
                k,
                scale: self.float(),
            },
            "moe.group" => Op::MoeGroup { experts: self.act(&[k], Format::I32), count: self.count() },
            "swiglu" => {
                let weight = if k < 3 { Some(self.act(&tail[..tail.len() - 1], Format::F32)) } else { None };
                Op::SwiGlu {
                    gate: self.act(&tail, format),
                    up: self.act(&tail, format),
                    weight,
                    limit: self.positive(),
                }
            }
            "moe.combine" => {
                Op::MoeCombine { parts: self.act(&[k, width], format), shared: self.act(&[width], format) }
            }
            "rope.table" => {
                let yarn = Yarn {
                    factor: self.positive(),
                    beta_fast: self.positive(),
                    beta_slow: self.positive(),
                    original: k,
                };
                let yarn = if k < 3 { Some(yarn) } else { None };
                let theta = self.positive().max(2.0);
                Op::RopeTable {
                    pos: self.per_row(),
                    rope: Rope { dim: 2 * k, theta, yarn },
                    stride: self.count(),
                }
            }
            "rope" => {
                let inverse = self.below(2) == 0;
                Op::Rope { x: self.act(&tail, format), table: self.act(&[2 * k], Format::F32), inverse }
            }
            _ => return None,
        })
    }

    fn mixing(&mut self, mnemonic: &str) -> Option<Op> {
        let format = self.pick(FLOAT);
        let (n, d) = (self.count(), self.width());
        Some(match mnemonic {
            "hc.open" => Op::HcOpen { x: self.act(&[d], format), streams: n },
            "hc.mix" => Op::HcMix {
                x: self.act(&[n, d], format),
                function: self.weight(&[n * (n + 2), n * d], format),
                base: self.weight(&[n * (n + 2)], Format::F32),
                scale: self.weight(&[3], Format::F32),
                iters: self.count(),
                eps: self.positive(),
                norm_eps: 0.0,
            },
            "hc.collapse" => {
                Op::HcCollapse { x: self.act(&[n, d], format), pre: self.act(&[n], Format::F32) }
            }
            "hc.expand" => Op::HcExpand {
                y: self.act(&[d], format),
                x: self.act(&[n, d], format),
                post: self.act(&[n], Format::F32),
                comb: self.act(&[n, n], Format::F32),
            },
            "hc.mean" => Op::HcMean { x: self.act(&[n, d], format) },
            "engram.hash" => {
                let multipliers = (0..n + 1).map(|_| (self.next() >> 2) as i64 * 2 + 1).collect();
                let primes =
                    (0..n).map(|_| (0..self.count()).map(|_| (self.next() >> 40) as i64 + 1).collect());
                let engram = Engram { multipliers, primes: primes.collect(), pad_token: self.below(9) };
                let (map, history) = (self.weight(&[9], Format::I32), self.state("G", &[], Format::I32));
                Op::EngramHash { history, map, seq: self.per_row(), pos: self.per_row(), engram }
            }
            "engram.lookup" => Op::EngramLookup {
                table: self.weight(&[100, d], Format::MX8),
                ids: self.act(&[n], Format::I64),
            },
            "engram.gate" => Op::EngramGate {
                x: self.act(&[n, d], format),
                kv: self.act(&[(n + 1) * d], format),
                q_weight: self.weight(&[n, d], format),
                k_weight: self.weight(&[n, d], format),
                eps: self.positive(),
            },
            _ => return None,
        })
    }

    fn caching(&mut self, mnemonic: &str) -> Option<Op> {
        let (h, d, ratio) = (self.count(), self.width(), self.count());
        let (seq, pos, lo) = (self.per_row(), self.per_row(), self.per_row());
        let (float, keys, index) = (self.pick(FLOAT), self.pick(KEYS), self.pick(INDEX));
        Some(match mnemonic {
            "ring.store" => {
                Op::RingStore { ring: self.state("R", &[d], keys), rows: self.act(&[d], keys), seq, pos }
            }
            "compress.pool" => {
                let (values, gates) =
                    (self.state("R", &[d], Format::F32), self.state("R", &[d], Format::F32));
                Op::CompressPool { values, gates, seq, pos, ratio }
            }
            "cache.append" => Op::CacheAppend {
                cache: self.state("C", &[d], keys),
                rows: self.act(&[d], keys),
                seq,
                pos,
                ratio,
            },
            "index.scores" => Op::IndexScores {
                q: self.act(&[h, d], index),
                weights: self.act(&[h], float),
                keys: self.state("C", &[d], index),
                seq,
                pos,
                ratio,
                round: self.round(),
            },
            "index.blocks" => {
                Op::IndexBlocks { scores: self.scores(), pos, ratio, block: h, keep: self.count() }
            }
            "index.restrict" => {
                let blocks = self.act(&[h], Format::I32);
                Op::IndexRestrict { scores: self.scores(), blocks, block: self.count() }
            }
            "topk" => Op::TopK { scores: self.scores(), k: self.count() },
            "attention" => {
                let q = self.act(&[h, d], float);
                let (window, sink) = (self.state("R", &[d], keys), self.weight(&[h], Format::F32));
                let (mut cache, mut selected) = (None, None);
                if self.below(2) == 0 {
                    cache = Some(self.state("C", &[d], Format::KV4));
                    selected = Some(self.act(&[h], Format::I32));
                }
                let (scale, round) = (self.float(), self.round());
                Op::Attention { q, window, cache, selected, sink, seq, pos, lo, scale, round }
            }
            "attention.block" => {
                // All shapes of rows that have blocks: a multiple of a symbol, or a number.
                let block = if self.rows == Dim::sym("T") { 1 } else { self.pick([1, 2, 3, 6]) };
                let q = self.act(&[h, d], float);
                let (window, rows) = (self.state("R", &[d], keys), self.act(&[d], keys));
                let (sink, scale, round) = (self.weight(&[h], Format::F32), self.float(), self.round());
                Op::BlockAttention { q, window, rows, sink, seq, pos, lo, block, scale, round }
            }
            _ => return None,
        })
    }
}

fn first_operand(op: &Op) -> Option<Value> {
    let mut first = None;
    op.for_each_operand(|_, values| {
        if first.is_none() {
            first = values.values().first().copied();
        }
    });
    first
}
