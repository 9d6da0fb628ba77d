//! Ranges of the attributes that are records: rotary frequencies and Engram hashes.

use super::super::attrs::{Engram, Rope, Yarn};
use super::signature::Walk;
use crate::types::TensorType;
use std::borrow::Borrow;

/// Range of a `rope` attribute.
pub(super) fn rope_attr<T: Borrow<TensorType>>(w: &mut Walk<'_, T>, rope: &Rope) {
    let Rope { dim, theta, yarn } = rope;
    w.attr("rope.dim", (2..1 << 31).contains(dim) && dim % 2 == 0, dim, "even, at least 2 and below 2^31");
    // The base's logarithm is a divisor in YaRN's correction.
    w.attr("rope.theta", theta.is_finite() && *theta > 1.0, theta, "finite and above 1");
    if let Some(Yarn { factor, beta_fast, beta_slow, original }) = yarn {
        let numbers = [
            ("rope.yarn.factor", factor),
            ("rope.yarn.beta_fast", beta_fast),
            ("rope.yarn.beta_slow", beta_slow),
        ];
        for (name, value) in numbers {
            w.attr(name, value.is_finite() && *value > 0.0, value, "finite and above 0");
        }
        w.count("rope.yarn.original", *original);
    }
}

/// Longest n-gram of an Engram hash.
const MAX_LOOKBACKS: usize = 16;

/// Range of an `engram` attribute, whose map and history are matched already.
pub(super) fn engram_attr<T: Borrow<TensorType>>(w: &mut Walk<'_, T>, engram: &Engram) {
    let Engram { multipliers, primes, pad_token } = engram;
    let lookbacks = multipliers.len();
    let must = "a list of 2 to 16 numbers, odd and above 0";
    let odd = multipliers.iter().all(|m| *m > 0 && m % 2 == 1);
    w.attr("engram.multipliers", odd && (2..=MAX_LOOKBACKS).contains(&lookbacks), multipliers, must);
    let lists = primes.len() + 1 == lookbacks && primes.iter().all(|p| !p.is_empty());
    let must = "one list, not empty, for each n-gram length from 2 on";
    w.attr("engram.primes", lists, primes, must);
    let sum = primes.iter().flatten().try_fold(0i64, |s, p| if *p > 0 { s.checked_add(*p) } else { None });
    w.attr("engram.primes", sum.is_some(), primes, "numbers above 0 whose sum fits 64 bits");
    if let Some(vocabulary) = w.names.number("V") {
        w.attr("engram.pad_token", *pad_token < vocabulary, pad_token, "an index of `map`");
    }
    if let Some(ring) = w.names.number("R") {
        let must = "no more numbers than the history has rows";
        w.attr("engram.multipliers", lookbacks <= ring, multipliers, must);
    }
}
