//! The input vectors of a step: which rows a chunk of a sequence brings, what each may see, which want logits.
//!
//! One place knows the window rule `lo = max(0, pos − W + 1)`, the clamp of bounded replay (V4.1 §5.4) and the rows of
//! a draft block (V4.1 §2.11); engines, oracle and tests fill the inputs of [`graph`](crate::graph) from here.

use tessera_ir::Bindings;

use crate::config::Config;

/// Which rows of a chunk want logits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// None.
    None,
    /// The last row.
    Last,
    /// All rows (with replay: all kept rows).
    All,
}

/// Consecutive tokens of one sequence that run in one step.
#[derive(Clone, Copy, Debug)]
pub struct Chunk<'a> {
    /// Sequence slot.
    pub slot: usize,
    /// Position of the first token.
    pub start: usize,
    /// Token ids.
    pub tokens: &'a [u32],
    /// First position that has window entries in the decoder half: 0, or where bounded replay began to keep rows.
    pub floor: usize,
    /// Rows that want logits.
    pub logits: Wanted,
}

/// Inputs of the module `step`, row by row. Clearing keeps the allocations.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StepRows {
    /// Token ids.
    pub tokens: Vec<i32>,
    /// Absolute positions.
    pub pos: Vec<i32>,
    /// Sequence slots.
    pub seq: Vec<i32>,
    /// First visible window position in layers of ratio 0 and 2.
    pub lo: Vec<i32>,
    /// First visible window position in layers of ratio 1.
    pub decoder_lo: Vec<i32>,
    /// Rows that want logits; with replay they count kept rows.
    pub logit_rows: Vec<i32>,
}

impl StepRows {
    /// Removes all rows.
    pub fn clear(&mut self) {
        for list in self.lists() {
            list.clear();
        }
    }

    /// Adds the rows of a chunk; `window` is the model's sliding window.
    pub fn push(&mut self, window: usize, chunk: &Chunk<'_>) {
        let first = self.tokens.len();
        for (i, &token) in chunk.tokens.iter().enumerate() {
            let pos = chunk.start + i;
            self.tokens.push(token as i32);
            self.pos.push(pos as i32);
            self.seq.push(chunk.slot as i32);
            self.lo.push(first_visible(window, pos, 0));
            self.decoder_lo.push(first_visible(window, pos, chunk.floor));
        }
        let end = self.tokens.len();
        let wanted = match chunk.logits {
            Wanted::None => end..end,
            Wanted::Last => end.saturating_sub(1).max(first)..end,
            Wanted::All => first..end,
        };
        self.logit_rows.extend(wanted.map(|row| row as i32));
    }

    /// The inputs by name.
    pub fn inputs(&self) -> [(&'static str, &[i32]); 6] {
        let StepRows { tokens, pos, seq, lo, decoder_lo, logit_rows } = self;
        [
            ("tokens", tokens),
            ("pos", pos),
            ("seq", seq),
            ("lo", lo),
            ("decoder_lo", decoder_lo),
            ("logit_rows", logit_rows),
        ]
    }

    /// Binds `T` and `L`.
    pub fn bind(&self, bindings: &mut Bindings) {
        bindings.set("T", self.tokens.len()).set("L", self.logit_rows.len());
    }

    fn lists(&mut self) -> [&mut Vec<i32>; 6] {
        let StepRows { tokens, pos, seq, lo, decoder_lo, logit_rows } = self;
        [tokens, pos, seq, lo, decoder_lo, logit_rows]
    }
}

/// Further inputs of the module `step` built with replay: the rows on which the decoder half runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeptRows {
    /// Rows of the step that are kept.
    pub rows: Vec<i32>,
    /// Their absolute positions.
    pub pos: Vec<i32>,
    /// Their sequence slots.
    pub seq: Vec<i32>,
    /// Their first visible window position in the decoder half.
    pub lo: Vec<i32>,
}

impl KeptRows {
    /// Removes all rows.
    pub fn clear(&mut self) {
        let KeptRows { rows, pos, seq, lo } = self;
        for list in [rows, pos, seq, lo] {
            list.clear();
        }
    }

    /// Adds the rows of `chunk` to `step` and those at or after its `floor` to the kept ones, among which the wanted
    /// logits are counted. A chunk that ends before the floor keeps nothing and has no logits.
    pub fn push(&mut self, step: &mut StepRows, window: usize, chunk: &Chunk<'_>) {
        let first = step.tokens.len();
        step.push(window, &Chunk { logits: Wanted::None, ..*chunk });
        let skipped = chunk.floor.saturating_sub(chunk.start).min(chunk.tokens.len());
        let before = self.rows.len();
        for row in first + skipped..step.tokens.len() {
            self.rows.push(row as i32);
            self.pos.push(step.pos[row]);
            self.seq.push(step.seq[row]);
            self.lo.push(step.decoder_lo[row]);
        }
        let end = self.rows.len();
        let wanted = match chunk.logits {
            Wanted::None => end..end,
            Wanted::Last => end.saturating_sub(1).max(before)..end,
            Wanted::All => before..end,
        };
        step.logit_rows.extend(wanted.map(|row| row as i32));
    }

    /// The inputs by name.
    pub fn inputs(&self) -> [(&'static str, &[i32]); 4] {
        let KeptRows { rows, pos, seq, lo } = self;
        [("kept_rows", rows), ("kept_pos", pos), ("kept_seq", seq), ("kept_lo", lo)]
    }

    /// Binds `K`.
    pub fn bind(&self, bindings: &mut Bindings) {
        bindings.set("K", self.rows.len());
    }
}

/// Inputs of the module `draft`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DraftRows {
    /// Last sampled token, then noise, for each sequence.
    pub tokens: Vec<i32>,
    /// Absolute positions.
    pub pos: Vec<i32>,
    /// Sequence slots.
    pub seq: Vec<i32>,
    /// First visible position of the stage windows.
    pub lo: Vec<i32>,
}

impl DraftRows {
    /// Removes all rows.
    pub fn clear(&mut self) {
        let DraftRows { tokens, pos, seq, lo } = self;
        for list in [tokens, pos, seq, lo] {
            list.clear();
        }
    }

    /// Adds the block of the sequence in `slot`, whose last token `token` was sampled but not fed yet and will lie at
    /// `position` ≥ 1. `floor` as in [`Chunk::floor`].
    pub fn push(&mut self, config: &Config, slot: usize, position: usize, token: u32, floor: usize) {
        let text = &config.text;
        let lo = first_visible(text.sliding_window, position.saturating_sub(1), floor);
        for i in 0..text.dspark_block_size {
            self.tokens.push(if i == 0 { token } else { text.dspark_noise_token_id } as i32);
            self.pos.push((position + i) as i32);
            self.seq.push(slot as i32);
            self.lo.push(lo);
        }
    }

    /// The inputs by name.
    pub fn inputs(&self) -> [(&'static str, &[i32]); 4] {
        let DraftRows { tokens, pos, seq, lo } = self;
        [("tokens", tokens), ("pos", pos), ("seq", seq), ("lo", lo)]
    }

    /// Binds `Q`.
    pub fn bind(&self, config: &Config, bindings: &mut Bindings) {
        bindings.set("Q", self.tokens.len() / config.text.dspark_block_size);
    }
}

/// First position whose window entry a row at `pos` sees.
fn first_visible(window: usize, pos: usize, floor: usize) -> i32 {
    (pos + 1).saturating_sub(window).max(floor) as i32
}

/// First position that bounded replay keeps of a prompt of `len` tokens (V4.1 §5.4).
pub fn replay_floor(len: usize, keep: usize) -> usize {
    len.saturating_sub(keep)
}

/// Sizes of the states: what a caller must provide for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capacity {
    /// Sequence slots.
    pub slots: usize,
    /// Tokens of the longest sequence.
    pub tokens: usize,
    /// Rows of one sequence in one step at most, those of a rejected draft included.
    pub rows: usize,
}

impl Capacity {
    /// Binds `S`, `R`, `G`, `C1` and `C2`.
    ///
    /// A step stores all its rows before any of them reads, and rows of rejected drafts stay until they are
    /// overwritten: a ring holds the window of the step's first row besides the step's other rows. Window rings have whole
    /// blocks of 64 rows, in which attention kernels keep their scores.
    pub fn bind(&self, config: &Config, bindings: &mut Bindings) {
        let text = &config.text;
        let others = self.rows.saturating_sub(1);
        let lookback = text.engram_max_ngram_size.max(2);
        bindings
            .set("S", self.slots)
            .set("R", (text.sliding_window + others).next_multiple_of(64))
            .set("G", lookback + others)
            .set("C1", self.tokens)
            .set("C2", self.tokens / 2);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOKENS: [u32; 6] = [50, 51, 52, 53, 54, 55];

    fn chunk(start: usize, floor: usize, logits: Wanted) -> Chunk<'static> {
        Chunk { slot: 3, start, tokens: &TOKENS, floor, logits }
    }

    #[test]
    fn rows_see_a_full_window_and_no_more() {
        let mut rows = StepRows::default();
        rows.push(4, &chunk(1, 0, Wanted::Last));
        assert_eq!(rows.pos, [1, 2, 3, 4, 5, 6]);
        assert_eq!(rows.lo, [0, 0, 0, 1, 2, 3]);
        assert_eq!(rows.decoder_lo, rows.lo);
        assert_eq!((rows.tokens[0], rows.seq[5]), (50, 3));
        rows.push(4, &chunk(9, 11, Wanted::All));
        assert_eq!(rows.lo[6..], [6, 7, 8, 9, 10, 11]);
        assert_eq!(rows.decoder_lo[6..], [11, 11, 11, 11, 11, 11]);
        assert_eq!(rows.logit_rows, [5, 6, 7, 8, 9, 10, 11]);
        rows.clear();
        assert_eq!(rows, StepRows::default());
    }

    #[test]
    fn an_empty_chunk_wants_no_logits() {
        let mut rows = StepRows::default();
        rows.push(4, &chunk(0, 0, Wanted::None));
        rows.push(4, &Chunk { tokens: &[], ..chunk(6, 0, Wanted::Last) });
        assert!(rows.logit_rows.is_empty());
    }

    #[test]
    fn replay_keeps_the_rows_from_the_floor_on() {
        let (mut step, mut kept) = (StepRows::default(), KeptRows::default());
        // Prompt of 18 tokens in three chunks, the last 8 kept: before, across and after position 10.
        assert_eq!(replay_floor(18, 8), 10);
        assert_eq!(replay_floor(18, 20), 0);
        kept.push(&mut step, 4, &chunk(0, 10, Wanted::Last));
        assert_eq!((kept.rows.len(), step.logit_rows.len(), step.tokens.len()), (0, 0, 6));
        kept.push(&mut step, 4, &chunk(6, 10, Wanted::All));
        kept.push(&mut step, 4, &chunk(12, 10, Wanted::Last));
        assert_eq!(kept.rows, [10, 11, 12, 13, 14, 15, 16, 17]);
        assert_eq!(kept.pos, [10, 11, 12, 13, 14, 15, 16, 17]);
        assert_eq!(kept.lo, [10, 10, 10, 10, 11, 12, 13, 14]);
        assert_eq!(step.logit_rows, [0, 1, 7]);
    }

    #[test]
    fn a_draft_block_sees_the_window_of_the_token_before_it() -> crate::Result<()> {
        let config = Config::released()?;
        let noise = config.text.dspark_noise_token_id as i32;
        let mut rows = DraftRows::default();
        rows.push(&config, 1, 300, 42, 0);
        rows.push(&config, 2, 130, 43, 120);
        assert_eq!(rows.tokens[..6], [42, noise, noise, noise, noise, 43]);
        assert_eq!(rows.pos[..6], [300, 301, 302, 303, 304, 130]);
        // Position 299 is the last one processed: its window of 128 begins at 172.
        assert_eq!(rows.lo[..6], [172, 172, 172, 172, 172, 120]);
        let mut bindings = Bindings::new();
        rows.bind(&config, &mut bindings);
        assert_eq!(bindings.get(&tessera_ir::Sym::new("Q")), Some(2));
        Ok(())
    }
}
