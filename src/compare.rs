//! Compares two files of tensors element by element: what differs, by how much, and where first.

use crate::error::{Error, Result};
use crate::tensors::{self, Values};
use std::collections::BTreeMap;
use std::path::Path;
use tessera_model::checkpoint::{SafetensorsFile, TensorView};

/// How files are compared.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Options {
    /// Absolute tolerance of reals.
    pub atol: f64,
    /// Tolerance relative to the second file's value.
    pub rtol: f64,
    /// Only tensors of the first file whose names begin so take part; it is cut off.
    pub prefix_a: String,
    /// The same for the second file.
    pub prefix_b: String,
    /// Only tensors whose names, prefix cut off, match this pattern (`*` any text, `?` one character) take part.
    pub only: Option<String>,
}

impl Options {
    /// Refuses tolerances that are negative or not finite.
    ///
    /// # Errors
    /// Names the tolerance.
    pub fn check(&self) -> Result<()> {
        for (name, value) in [("atol", self.atol), ("rtol", self.rtol)] {
            if !value.is_finite() || value < 0.0 {
                return Err(Error::Request(format!("{name} is {value}; it must be 0 or a positive number")));
            }
        }
        Ok(())
    }
}

/// An element beyond the tolerance.
#[derive(Clone, Debug, PartialEq)]
pub struct Beyond {
    /// Index, outermost dimension first.
    pub index: Vec<usize>,
    /// Value in the first file.
    pub a: f64,
    /// Value in the second.
    pub b: f64,
}

/// Figures over the elements of a pair of tensors. Positions where both are NaN, or both the same infinity, count as
/// equal and enter no figure but the number of elements.
#[derive(Clone, Debug, PartialEq)]
pub struct Figures {
    /// Extents.
    pub shape: Vec<usize>,
    /// Elements.
    pub elements: usize,
    /// Elements beyond the tolerance.
    pub beyond: usize,
    /// The first of them.
    pub first: Option<Beyond>,
    /// Largest |a − b|; NaN if an element is NaN on one side only.
    pub max_abs: f64,
    /// Largest |a − b| / |b|, elements with a = b = 0 counting 0; infinite where only b is 0.
    pub max_rel: f64,
    /// ‖a − b‖₂ / ‖b‖₂; 0 where both norms are 0.
    pub rel_l2: f64,
    /// Cosine of the angle between a and b; 1 where both norms are 0, NaN where one is.
    pub cosine: f64,
    /// Mean of a − b.
    pub mean_signed: f64,
}

/// The outcome for one name.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// Both files have it, in one shape.
    Compared(Figures),
    /// Only the first file has it.
    OnlyA,
    /// Only the second file has it.
    OnlyB,
    /// Both have it, but shape or kind differ.
    Mismatch(String),
}

impl Outcome {
    /// Whether the tensors agree.
    pub fn pass(&self) -> bool {
        match self {
            Outcome::Compared(figures) => figures.beyond == 0,
            Outcome::OnlyA | Outcome::OnlyB | Outcome::Mismatch(_) => false,
        }
    }
}

/// Compares all tensors that take part, by ascending name.
///
/// # Errors
/// A file cannot be read, a tolerance is out of range, or no tensor takes part.
pub fn files(a: &Path, b: &Path, options: &Options) -> Result<BTreeMap<String, Outcome>> {
    options.check()?;
    let (file_a, file_b) = (tensors::open(a)?, tensors::open(b)?);
    let (names_a, names_b) =
        (chosen(&file_a, &options.prefix_a, options), chosen(&file_b, &options.prefix_b, options));
    let mut all: Vec<&str> = names_a.keys().chain(names_b.keys()).copied().collect();
    all.sort_unstable();
    all.dedup();
    if all.is_empty() {
        return Err(Error::Request(
            "no tensor takes part in the comparison; check --prefix-a, --prefix-b and --only against the names in the files"
                .to_owned(),
        ));
    }
    let outcome = |name: &str| match (names_a.get(name), names_b.get(name)) {
        (Some(a), Some(b)) => pair(a, b, options),
        (Some(_), None) => Outcome::OnlyA,
        (None, _) => Outcome::OnlyB,
    };
    Ok(all.into_iter().map(|name| (name.to_owned(), outcome(name))).collect())
}

fn chosen<'f>(
    file: &'f SafetensorsFile,
    prefix: &str,
    options: &Options,
) -> BTreeMap<&'f str, TensorView<'f>> {
    let names = file.tensors().iter().filter_map(|info| {
        let name = info.name.strip_prefix(prefix)?;
        let wanted = options.only.as_ref().is_none_or(|pattern| glob(pattern, name));
        Some((name, file.tensor(&info.name).filter(|_| wanted)?))
    });
    names.collect()
}

fn pair(a: &TensorView<'_>, b: &TensorView<'_>, options: &Options) -> Outcome {
    if a.shape != b.shape {
        return Outcome::Mismatch(format!("shape {:?} against {:?}", a.shape, b.shape));
    }
    match (tensors::values(a), tensors::values(b)) {
        (Values::Reals(x), Values::Reals(y)) => {
            Outcome::Compared(figures(a.shape, &x, &y, |x, y| close(x, y, options)))
        }
        (Values::Ints(x), Values::Ints(y)) => {
            let exact: Vec<bool> = x.iter().zip(&y).map(|(x, y)| x == y).collect();
            let reals = |v: &[i128]| v.iter().map(|v| *v as f64).collect::<Vec<f64>>();
            let mut at = exact.iter();
            Outcome::Compared(figures(a.shape, &reals(&x), &reals(&y), |_, _| at.next() == Some(&true)))
        }
        (Values::Reals(_), Values::Ints(_)) | (Values::Ints(_), Values::Reals(_)) => {
            Outcome::Mismatch(format!("{} against {}: reals and integers", a.dtype, b.dtype))
        }
    }
}

/// |a − b| ≤ atol + rtol·|b|; NaN and infinities equal only themselves.
fn close(a: f64, b: f64, options: &Options) -> bool {
    if a.is_finite() && b.is_finite() {
        (a - b).abs() <= options.atol + options.rtol * b.abs()
    } else {
        a == b || (a.is_nan() && b.is_nan())
    }
}

/// `passes` is asked for each element once, in order.
fn figures(shape: &[usize], a: &[f64], b: &[f64], mut passes: impl FnMut(f64, f64) -> bool) -> Figures {
    let mut out = Figures {
        shape: shape.to_vec(),
        elements: a.len(),
        beyond: 0,
        first: None,
        max_abs: 0.0,
        max_rel: 0.0,
        rel_l2: 0.0,
        cosine: 0.0,
        mean_signed: 0.0,
    };
    let (mut aa, mut bb, mut ab, mut dd, mut sum, mut count) = (0.0, 0.0, 0.0, 0.0, 0.0, 0u64);
    for (at, (&a, &b)) in a.iter().zip(b).enumerate() {
        if !passes(a, b) {
            out.beyond += 1;
            out.first.get_or_insert_with(|| Beyond { index: unravel(shape, at), a, b });
        }
        let same = a == b || (a.is_nan() && b.is_nan());
        if same && !a.is_finite() {
            continue;
        }
        let difference = if same { 0.0 } else { a - b };
        out.max_abs = larger(out.max_abs, difference.abs());
        out.max_rel = larger(out.max_rel, if difference == 0.0 { 0.0 } else { (difference / b).abs() });
        aa += a * a;
        bb += b * b;
        ab += a * b;
        dd += difference * difference;
        sum += difference;
        count += 1;
    }
    out.rel_l2 = if dd == 0.0 { 0.0 } else { (dd / bb).sqrt() };
    out.cosine = if aa == 0.0 && bb == 0.0 { 1.0 } else { (ab / (aa.sqrt() * bb.sqrt())).clamp(-1.0, 1.0) };
    out.mean_signed = if count == 0 { 0.0 } else { sum / count as f64 };
    out
}

/// The larger value; NaN wins.
fn larger(a: f64, b: f64) -> f64 {
    if a.is_nan() || b.is_nan() { f64::NAN } else { a.max(b) }
}

/// Index of element `at` of a row-major tensor.
fn unravel(shape: &[usize], mut at: usize) -> Vec<usize> {
    let mut index = vec![0; shape.len()];
    for (place, &extent) in index.iter_mut().zip(shape).rev() {
        *place = at % extent.max(1);
        at /= extent.max(1);
    }
    index
}

/// Whether `name` matches a pattern of `*` (any text) and `?` (one character).
pub fn glob(pattern: &str, name: &str) -> bool {
    let (pattern, name): (Vec<char>, Vec<char>) = (pattern.chars().collect(), name.chars().collect());
    let (mut p, mut n) = (0, 0);
    // Place after the latest star, and the end of what it took so far.
    let mut star: Option<(usize, usize)> = None;
    while n < name.len() {
        match pattern.get(p) {
            Some('*') => {
                p += 1;
                star = Some((p, n));
            }
            Some(&c) if c == '?' || c == name[n] => {
                p += 1;
                n += 1;
            }
            Some(_) | None => match &mut star {
                Some((after, taken)) => {
                    *taken += 1;
                    (p, n) = (*after, *taken);
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|c| *c == '*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn globs_match_as_shells_do() {
        for (pattern, name, want) in [
            ("*", "", true),
            ("prefill.*", "prefill.logits", true),
            ("*.logits", "prefill.logits", true),
            ("*.logits", "prefill.logits_last", false),
            ("prefill.topk.?", "prefill.topk.4", true),
            ("prefill.topk.?", "prefill.topk.14", false),
            ("a*b*c", "a__b_b__c", true),
            ("a*b*c", "a__b_b__", false),
            ("", "x", false),
        ] {
            assert_eq!(glob(pattern, name), want, "{pattern} {name}");
        }
    }

    fn compare(a: &[f64], b: &[f64], atol: f64, rtol: f64) -> Figures {
        let options = Options { atol, rtol, ..Options::default() };
        figures(&[a.len()], a, b, |a, b| close(a, b, &options))
    }

    #[test]
    fn the_tolerance_is_absolute_plus_relative_to_the_second_value() {
        assert_eq!(compare(&[1.5], &[1.0], 0.25, 0.25).beyond, 0);
        assert_eq!(compare(&[1.5], &[1.0], 0.25, 0.2).beyond, 1);
        // Relative to b, not to a.
        assert_eq!(compare(&[2.0], &[1.0], 0.0, 0.6).beyond, 1);
        assert_eq!(compare(&[1.0], &[2.0], 0.0, 0.6).beyond, 0);
    }

    #[test]
    fn nan_and_infinity_equal_only_themselves() {
        let (nan, inf) = (f64::NAN, f64::INFINITY);
        let found = compare(&[nan, inf, 1.0], &[nan, inf, 1.0], 0.0, 0.0);
        assert_eq!((found.beyond, found.max_abs, found.mean_signed), (0, 0.0, 0.0));
        for (a, b) in [(nan, 1.0), (1.0, nan), (inf, -inf), (1.0, inf), (inf, 1.0)] {
            let found = compare(&[a], &[b], 1e30, 1.0);
            assert_eq!(found.beyond, 1, "{a} against {b}");
        }
        assert!(compare(&[nan], &[1.0], 0.0, 0.0).max_abs.is_nan());
    }

    #[test]
    fn figures_are_those_of_hand_arithmetic() {
        let found = compare(&[3.0, 5.0], &[3.0, 4.0], 0.0, 0.0);
        assert_eq!((found.max_abs, found.max_rel, found.rel_l2, found.mean_signed), (1.0, 0.25, 0.2, 0.5));
        assert!((found.cosine - 29.0 / (34f64.sqrt() * 5.0)).abs() < 1e-15);
        assert_eq!(found.first, Some(Beyond { index: vec![1], a: 5.0, b: 4.0 }));
        assert_eq!(unravel(&[2, 3, 4], 23), [1, 2, 3]);
    }
}
