//! Ops that move whole rows: lookups, selections, concatenation, and the stores into states.

use super::error::{Fault, index, positive};
use super::tensor::Data;

/// Rows `ids` of `data`, which has `limit` rows.
pub(super) fn gather(
    data: &Data,
    limit: usize,
    operand: &'static str,
    ids: impl Iterator<Item = i64>,
) -> Result<Data, Fault> {
    fn pick<T: Copy>(
        data: &[T],
        limit: usize,
        operand: &'static str,
        ids: impl Iterator<Item = i64>,
    ) -> Result<Vec<T>, Fault> {
        let width = data.len().checked_div(limit).unwrap_or(0);
        let mut out = Vec::new();
        for (at, id) in ids.enumerate() {
            let row = index(operand, at, id, limit)?;
            out.extend_from_slice(&data[row * width..(row + 1) * width]);
        }
        Ok(out)
    }
    Ok(match data {
        Data::F32(v) => Data::F32(pick(v, limit, operand, ids)?),
        Data::I32(v) => Data::I32(pick(v, limit, operand, ids)?),
        Data::I64(v) => Data::I64(pick(v, limit, operand, ids)?),
    })
}

/// `concat` and `rows.interleave`: `count` times one piece of each part in turn; the piece of part i has
/// `data.len() / count` elements. `None` if the parts differ in kind.
pub(super) fn deal(parts: &[&Data], count: usize) -> Option<Data> {
    fn zip<T: Copy>(parts: &[&[T]], count: usize) -> Vec<T> {
        let mut out = Vec::new();
        for i in 0..count {
            for p in parts {
                let width = p.len() / count;
                out.extend_from_slice(&p[i * width..(i + 1) * width]);
            }
        }
        out
    }
    let mut reals = Vec::new();
    let mut ints = Vec::new();
    let mut longs = Vec::new();
    for part in parts {
        match part {
            Data::F32(v) => reals.push(v.as_slice()),
            Data::I32(v) => ints.push(v.as_slice()),
            Data::I64(v) => longs.push(v.as_slice()),
        }
    }
    match (reals.is_empty(), ints.is_empty(), longs.is_empty()) {
        (_, true, true) => Some(Data::F32(zip(&reals, count))),
        (true, false, true) => Some(Data::I32(zip(&ints, count))),
        (true, true, false) => Some(Data::I64(zip(&longs, count))),
        (false, _, _) | (true, false, false) => None,
    }
}

/// Index of the largest element; NaN never wins, nor does a later equal one. 0 if all are NaN.
pub(super) fn argmax(row: &[f32]) -> usize {
    let mut best: Option<(usize, f32)> = None;
    for (i, &v) in row.iter().enumerate() {
        if !v.is_nan() && best.is_none_or(|(_, b)| v > b) {
            best = Some((i, v));
        }
    }
    best.map_or(0, |(i, _)| i)
}

/// Sequence slot and position of each row.
pub(super) struct Places<'a> {
    seq: &'a [i32],
    pos: &'a [i32],
    slots: usize,
}

impl<'a> Places<'a> {
    /// Checks that every slot is below `slots` and no position negative.
    pub(super) fn new(seq: &'a [i32], pos: &'a [i32], slots: usize) -> Result<Self, Fault> {
        for (t, &s) in seq.iter().enumerate() {
            index("seq", t, s.into(), slots)?;
        }
        for (t, &p) in pos.iter().enumerate() {
            index("pos", t, p.into(), i32::MAX as usize)?;
        }
        Ok(Places { seq, pos, slots })
    }
    /// Rows of the step.
    pub(super) fn rows(&self) -> usize {
        self.seq.len()
    }
    /// Sequence slot of row `t`.
    pub(super) fn seq(&self, t: usize) -> usize {
        self.seq[t] as usize
    }
    /// Position of row `t`.
    pub(super) fn pos(&self, t: usize) -> usize {
        self.pos[t] as usize
    }
    /// Newest position of each sequence among the rows.
    pub(super) fn newest(&self) -> Vec<usize> {
        let mut newest = vec![0; self.slots];
        for t in 0..self.rows() {
            let n = &mut newest[self.seq(t)];
            *n = self.pos(t).max(*n);
        }
        newest
    }
}

/// Refuses to read positions from `oldest` on in a ring of `have` rows into which `newest` was written.
pub(super) fn check_ring(
    operand: &'static str,
    row: usize,
    oldest: usize,
    newest: usize,
    have: usize,
) -> Result<(), Fault> {
    let need = (newest + 1).saturating_sub(oldest);
    if need > have { Err(Fault::Ring { operand, row, need, have }) } else { Ok(()) }
}

/// Copies row t of `rows` to row `target(t)` of `state` for each t that has one.
/// `None` if the two differ in kind.
fn scatter(
    state: &mut Data,
    state_rows: usize,
    rows: &Data,
    count: usize,
    target: impl Fn(usize) -> Option<usize>,
) -> Option<()> {
    fn copy<T: Copy>(
        state: &mut [T],
        state_rows: usize,
        rows: &[T],
        count: usize,
        target: impl Fn(usize) -> Option<usize>,
    ) {
        let width = state.len().checked_div(state_rows).unwrap_or(0);
        for t in 0..count {
            if let Some(to) = target(t) {
                state[to * width..(to + 1) * width].copy_from_slice(&rows[t * width..(t + 1) * width]);
            }
        }
    }
    match (state, rows) {
        (Data::F32(s), Data::F32(r)) => copy(s, state_rows, r, count, target),
        (Data::I32(s), Data::I32(r)) => copy(s, state_rows, r, count, target),
        (Data::I64(s), Data::I64(r)) => copy(s, state_rows, r, count, target),
        (Data::F32(_) | Data::I32(_) | Data::I64(_), _) => return None,
    }
    Some(())
}

/// `ring.store` into a ring of `slots × len` rows; rows are written in order. `Ok(None)` if the kinds differ.
pub(super) fn ring_store(
    ring: &mut Data,
    len: usize,
    rows: &Data,
    at: &Places<'_>,
) -> Result<Option<()>, Fault> {
    if at.rows() == 0 {
        return Ok(Some(()));
    }
    if len == 0 {
        return Err(Fault::Ring { operand: "ring", row: 0, need: 1, have: 0 });
    }
    Ok(scatter(ring, at.slots * len, rows, at.rows(), |t| Some(at.seq(t) * len + at.pos(t) % len)))
}

/// `cache.append` into a cache of `slots × len` entries. `Ok(None)` if the kinds differ.
pub(super) fn cache_append(
    cache: &mut Data,
    len: usize,
    rows: &Data,
    at: &Places<'_>,
    ratio: usize,
) -> Result<Option<()>, Fault> {
    positive("ratio", ratio)?;
    let ends_group = |t: usize| (at.pos(t) + 1).is_multiple_of(ratio);
    for t in (0..at.rows()).filter(|&t| ends_group(t)) {
        if at.pos(t) / ratio >= len {
            let limit = (len * ratio) as i64;
            return Err(Fault::Range { operand: "pos", at: t, value: at.pos(t) as i64, low: 0, limit });
        }
    }
    Ok(scatter(cache, at.slots * len, rows, at.rows(), |t| {
        ends_group(t).then(|| at.seq(t) * len + at.pos(t) / ratio)
    }))
}
