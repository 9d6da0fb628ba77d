//! Stop strings over text that arrives in pieces: what may become one is held back until it is decided.

use crate::error::{Error, Result};

/// Looks for the first of several strings in a text that arrives in pieces.
#[derive(Clone, Debug, Default)]
pub struct StopMatcher {
    stops: Vec<String>,
    /// Text that was not given out: a stop string may begin in it.
    held: String,
    found: bool,
}

impl StopMatcher {
    /// A matcher for `stops`.
    ///
    /// # Errors
    /// One of them is empty.
    pub fn new(stops: &[String]) -> Result<StopMatcher> {
        if stops.iter().any(String::is_empty) {
            return Err(Error::Request("a stop string is empty; it would end every text at once".to_owned()));
        }
        Ok(StopMatcher { stops: stops.to_vec(), held: String::new(), found: false })
    }

    /// Takes the next piece and returns the text that no stop string can touch any more. After a stop string was found
    /// nothing comes.
    pub fn push(&mut self, piece: &str) -> String {
        if self.found {
            return String::new();
        }
        self.held.push_str(piece);
        // The string that is complete first counts, so that nothing depends on how the text was cut.
        let found = self
            .stops
            .iter()
            .filter_map(|stop| self.held.find(stop.as_str()).map(|at| (at + stop.len(), at)));
        if let Some((_, at)) = found.min() {
            self.found = true;
            self.held.truncate(at);
            return std::mem::take(&mut self.held);
        }
        let keep = self.stops.iter().map(|stop| overlap(&self.held, stop)).max().unwrap_or(0);
        let rest = self.held.split_off(self.held.len() - keep);
        std::mem::replace(&mut self.held, rest)
    }

    /// Whether a stop string was found; the text before it was given out.
    pub fn found(&self) -> bool {
        self.found
    }

    /// Ends the text: what was held back is part of it.
    pub fn finish(mut self) -> String {
        std::mem::take(&mut self.held)
    }
}

/// Bytes of the longest end of `text` that is a beginning of `stop`.
fn overlap(text: &str, stop: &str) -> usize {
    let starts = stop.char_indices().map(|(at, _)| at).skip(1);
    starts.filter(|&len| text.ends_with(&stop[..len])).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What comes out for every way to cut `text` into three pieces.
    fn run(stops: &[&str], text: &str) -> Vec<(String, bool)> {
        let stops: Vec<String> = stops.iter().map(|s| (*s).to_owned()).collect();
        let cuts: Vec<usize> = (0..=text.len()).filter(|at| text.is_char_boundary(*at)).collect();
        let mut results = Vec::new();
        for &a in &cuts {
            for &b in cuts.iter().filter(|b| **b >= a) {
                let mut matcher = StopMatcher::new(&stops).unwrap();
                let mut out = String::new();
                for piece in [&text[..a], &text[a..b], &text[b..]] {
                    out += &matcher.push(piece);
                }
                let found = matcher.found();
                out += &matcher.finish();
                results.push((out, found));
            }
        }
        results.dedup();
        results
    }

    #[test]
    fn text_ends_before_the_first_stop_string_however_it_is_cut() {
        assert_eq!(run(&["lo w"], "hello world"), [("hel".to_owned(), true)]);
        assert_eq!(run(&["world", "o"], "hello world"), [("hell".to_owned(), true)]);
        assert_eq!(run(&["llo w", "l"], "hello world"), [("he".to_owned(), true)]);
        assert_eq!(run(&["aab"], "aaaab"), [("aa".to_owned(), true)]);
        assert_eq!(run(&["ée"], "caféé"), [("caféé".to_owned(), false)]);
        assert_eq!(run(&["xyz"], "hello xy"), [("hello xy".to_owned(), false)]);
    }

    #[test]
    fn text_that_cannot_become_a_stop_string_is_not_held_back() {
        let mut matcher = StopMatcher::new(&["stop".to_owned()]).unwrap();
        assert_eq!(matcher.push("a st"), "a ");
        assert_eq!(matcher.push("ar"), "star");
    }

    #[test]
    fn an_empty_stop_string_is_refused() {
        assert!(StopMatcher::new(&[String::new()]).is_err());
    }
}
