//! Engram: hashed n-grams of the last tokens look up rows that are added to the streams (V4.1 §2.4).

use tessera_ir::graph::{Engram, Op, Value};
use tessera_ir::{Dim, Format};

use super::block::Stream;
use super::net::{Net, Rows};
use crate::config::Config;
use crate::engram::LayerHash;

/// Adds the Engram of `layer` to the streams; `history` holds the ids up to the rows' own. `trace` names the output
/// of the table rows.
pub(super) fn engram(
    net: &mut Net<'_>,
    layer: usize,
    constants: &Engram,
    stream: Stream,
    (history, at): (Value, Rows),
    trace: Option<String>,
) -> Stream {
    let t = net.text;
    let p = format!("layers.{layer}.engram");
    let (n, d, width) = (t.hc_mult, t.hidden_size, t.engram_head_dim);
    let columns = constants.columns();
    let rows: i64 = constants.primes.iter().flatten().sum();
    let act = net.mode.activation();
    let map = net.weight("token_map", &[t.vocab_size], Format::I32);
    let op = Op::EngramHash { history, map, seq: at.seq, pos: at.pos, engram: constants.clone() };
    let ids = net.emit_rows(op, at.pos, &[columns], Format::I64);
    if let Some(name) = trace {
        net.output(name, ids);
    }
    let table = net.weight(&format!("{p}.embed.weight"), &[rows as usize, width], Format::MX8);
    let found = net.emit_rows(Op::EngramLookup { table, ids }, ids, &[columns * width], act);
    let kv = net.dense(found, &format!("{p}.wkv"), &[(n + 1) * d]);
    let q_weight = net.weight(&format!("{p}.q_weight"), &[n, d], Format::BF16);
    let k_weight = net.weight(&format!("{p}.k_weight"), &[n, d], Format::BF16);
    let eps = t.rms_norm_eps as f32;
    let op = Op::EngramGate { x: stream.x, kv, q_weight, k_weight, eps };
    Stream { x: net.emit_same(op, stream.x, act), ..stream }
}

/// Hash constants of every Engram layer, in the order of the configuration.
pub(super) fn constants(config: &Config) -> Vec<Engram> {
    let (heads, pad_token) = (config.text.engram_n_heads, config.text.engram_pad_token_id as usize);
    let layer = |hash: LayerHash| {
        let primes: Vec<i64> = hash.primes.iter().map(|&prime| prime as i64).collect();
        let primes = primes.chunks(heads).map(<[i64]>::to_vec).collect();
        Engram { multipliers: hash.multipliers, primes, pad_token }
    };
    LayerHash::all(config).into_iter().map(layer).collect()
}

/// Shape of the token history: ids by slot and position.
pub(super) fn history_shape() -> [Dim; 2] {
    [Dim::sym("S"), Dim::sym("G")]
}
