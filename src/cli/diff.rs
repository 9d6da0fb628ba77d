//! `tessera diff`: compares two files of tensors.

use crate::cli::failure::Failure;
use crate::cli::{Done, output};
use serde::Serialize;
use std::path::PathBuf;
use tessera::compare::{self, Beyond, Figures, Options, Outcome};

/// Compare two safetensors files element by element
///
/// An element passes if |a - b| <= atol + rtol * |b|. NaN equals NaN only, integers must be equal, and a tensor that
/// only one file has is a failure.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  tessera diff mine.safetensors golden.safetensors --prefix-b f32. --only 'prefill.*' --atol 1e-3"
)]
pub(crate) struct Args {
    /// File under test
    a: PathBuf,
    /// File to compare with
    b: PathBuf,
    /// Absolute tolerance
    #[arg(long, value_name = "X", default_value_t = 0.0, allow_negative_numbers = true)]
    atol: f64,
    /// Tolerance relative to the values of B
    #[arg(long, value_name = "X", default_value_t = 0.0, allow_negative_numbers = true)]
    rtol: f64,
    /// Take only tensors of A whose names begin so, and cut that off
    #[arg(long, value_name = "P", default_value = "")]
    prefix_a: String,
    /// Take only tensors of B whose names begin so, and cut that off
    #[arg(long, value_name = "P", default_value = "")]
    prefix_b: String,
    /// Take only tensors whose names (prefix cut off) match: `*` any text, `?` one character
    #[arg(long, value_name = "GLOB")]
    only: Option<String>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Report {
    schema: &'static str,
    pass: bool,
    compared: usize,
    failed: usize,
    atol: f64,
    rtol: f64,
    tensors: Vec<TensorReport>,
}

/// Figures are null where they are infinite or undefined, and where nothing was compared.
#[derive(Serialize)]
struct TensorReport {
    name: String,
    pass: bool,
    problem: Option<String>,
    shape: Option<Vec<usize>>,
    elements: usize,
    beyond: usize,
    max_abs: Option<f64>,
    max_rel: Option<f64>,
    rel_l2: Option<f64>,
    cosine: Option<f64>,
    mean_signed: Option<f64>,
    first: Option<First>,
}

#[derive(Serialize)]
struct First {
    index: Vec<usize>,
    a: Option<f64>,
    b: Option<f64>,
}

pub(crate) fn main(args: &Args) -> Done {
    let options = Options {
        atol: args.atol,
        rtol: args.rtol,
        prefix_a: args.prefix_a.clone(),
        prefix_b: args.prefix_b.clone(),
        only: args.only.clone(),
    };
    let outcomes = compare::files(&args.a, &args.b, &options)?;
    let failed = outcomes.values().filter(|outcome| !outcome.pass()).count();
    let count = outcomes.len();
    if args.json {
        let tensors = outcomes.iter().map(|(name, outcome)| report(name, outcome)).collect();
        output::json(&Report {
            schema: "tessera.diff/1",
            pass: failed == 0,
            compared: count,
            failed,
            atol: args.atol,
            rtol: args.rtol,
            tensors,
        })?;
    } else {
        let head = [
            "tensor",
            "result",
            "shape",
            "max abs",
            "max rel",
            "rel l2",
            "cosine",
            "mean signed",
            "first beyond",
        ];
        let rows: Vec<Vec<String>> = outcomes.iter().map(|(name, outcome)| row(name, outcome)).collect();
        output::text_line(&output::table(&head, &rows, 3))?;
    }
    if failed == 0 {
        return Ok(());
    }
    Err(Failure::Check(format!(
        "{failed} of {count} tensors differ by more than the tolerance or are in one file only"
    )))
}

fn problem(outcome: &Outcome) -> Option<String> {
    match outcome {
        Outcome::Compared(_) => None,
        Outcome::OnlyA => Some("only in A".to_owned()),
        Outcome::OnlyB => Some("only in B".to_owned()),
        Outcome::Mismatch(what) => Some(what.clone()),
    }
}

fn report(name: &str, outcome: &Outcome) -> TensorReport {
    let figures = match outcome {
        Outcome::Compared(figures) => Some(figures),
        Outcome::OnlyA | Outcome::OnlyB | Outcome::Mismatch(_) => None,
    };
    let number = |of: fn(&Figures) -> f64| figures.map(of).filter(|v| v.is_finite());
    let first = |beyond: &Beyond| First {
        index: beyond.index.clone(),
        a: Some(beyond.a).filter(|v| v.is_finite()),
        b: Some(beyond.b).filter(|v| v.is_finite()),
    };
    TensorReport {
        name: name.to_owned(),
        pass: outcome.pass(),
        problem: problem(outcome),
        shape: figures.map(|f| f.shape.clone()),
        elements: figures.map_or(0, |f| f.elements),
        beyond: figures.map_or(0, |f| f.beyond),
        max_abs: number(|f| f.max_abs),
        max_rel: number(|f| f.max_rel),
        rel_l2: number(|f| f.rel_l2),
        cosine: number(|f| f.cosine),
        mean_signed: number(|f| f.mean_signed),
        first: figures.and_then(|f| f.first.as_ref()).map(first),
    }
}

fn row(name: &str, outcome: &Outcome) -> Vec<String> {
    let result = if outcome.pass() { "pass" } else { "FAIL" };
    match outcome {
        Outcome::Compared(f) => {
            let first = f.first.as_ref();
            let first = first.map_or("-".to_owned(), |first| {
                format!("{:?}: {} against {}", first.index, first.a, first.b)
            });
            let exact = |v: f64| if v == 0.0 { "0".to_owned() } else { format!("{v:.2e}") };
            vec![
                name.to_owned(),
                result.to_owned(),
                format!("{:?}", f.shape),
                exact(f.max_abs),
                exact(f.max_rel),
                exact(f.rel_l2),
                format!("{:.6}", f.cosine),
                exact(f.mean_signed),
                first,
            ]
        }
        Outcome::OnlyA | Outcome::OnlyB | Outcome::Mismatch(_) => {
            vec![name.to_owned(), result.to_owned(), problem(outcome).unwrap_or_default()]
        }
    }
}
