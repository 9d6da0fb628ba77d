//! What the benches share: criterion's samples, kept for a table of medians on standard output.
#![allow(dead_code, reason = "each bench uses a part of this")]
#![allow(clippy::print_stdout, reason = "a bench's tables are its result")]

pub(crate) mod clock;

use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, Criterion};
use std::hint::black_box;
use std::time::Duration;

/// Criterion as every bench here uses it: few samples, so that all benches together stay within minutes. Medians of them
/// withstand a busy machine better than means do.
pub(crate) fn criterion(samples: usize, measurement: Duration) -> Criterion {
    Criterion::default()
        .sample_size(samples)
        .warm_up_time(measurement / 4)
        .measurement_time(measurement)
        .nresamples(10_000)
        .configure_from_args()
}

/// Seconds an iteration of each benchmark that ran, in the order they ran.
#[derive(Debug)]
pub(crate) struct Medians {
    samples: usize,
    rows: Vec<(String, f64)>,
}

impl Medians {
    /// Of benchmarks of `samples` samples each.
    pub(crate) fn new(samples: usize) -> Medians {
        Medians { samples, rows: Vec::new() }
    }

    /// Runs a benchmark whose `run` makes that many iterations and says how long they took.
    pub(crate) fn custom(
        &mut self,
        group: &mut BenchmarkGroup<'_, WallTime>,
        name: &str,
        mut run: impl FnMut(u64) -> Duration,
    ) {
        let mut seconds = Vec::new();
        group.bench_function(name, |b| {
            b.iter_custom(|iters| {
                let time = run(iters);
                seconds.push(time.as_secs_f64() / iters as f64);
                time
            });
        });
        // The first ones were warm-up. A benchmark that the command line filters out has none at all.
        let from = seconds.len().saturating_sub(self.samples);
        if let Some(median) = median(&mut seconds[from..]) {
            self.rows.push((name.to_owned(), median));
        }
    }

    /// Runs a benchmark of `work`, which stays on this thread, on what `setup` gives. Only the thread's time in `work` counts,
    /// not dropping what it returns either.
    pub(crate) fn on<I, O>(
        &mut self,
        group: &mut BenchmarkGroup<'_, WallTime>,
        name: &str,
        mut setup: impl FnMut() -> I,
        mut work: impl FnMut(I) -> O,
    ) {
        self.custom(group, name, |iters| {
            let mut total = Duration::ZERO;
            for _ in 0..iters {
                let input = setup();
                let start = clock::ran();
                let output = black_box(work(black_box(input)));
                total += clock::ran() - start;
                drop(output);
            }
            total
        });
    }

    /// Runs a benchmark of `work`, which stays on this thread and needs no setup.
    pub(crate) fn of<O>(
        &mut self,
        group: &mut BenchmarkGroup<'_, WallTime>,
        name: &str,
        mut work: impl FnMut() -> O,
    ) {
        self.on(group, name, || (), |()| work());
    }

    /// Name and median of every benchmark that ran.
    pub(crate) fn rows(&self) -> &[(String, f64)] {
        &self.rows
    }
}

/// The middle value; `None` of nothing.
pub(crate) fn median(values: &mut [f64]) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let n = values.len();
    if n == 0 { None } else { Some((values[(n - 1) / 2] + values[n / 2]) / 2.0) }
}

/// Prints a table; columns beyond the first `left` are right-aligned.
pub(crate) fn table(title: &str, head: &[&str], left: usize, rows: &[Vec<String>]) {
    let width = |column: usize| {
        let cells = rows.iter().map(|row| row[column].chars().count());
        cells.chain([head[column].chars().count()]).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..head.len()).map(width).collect();
    let line = |cells: &[String]| {
        let cells: Vec<String> = cells
            .iter()
            .zip(&widths)
            .enumerate()
            .map(|(i, (cell, w))| if i < left { format!("{cell:<w$}") } else { format!("{cell:>w$}") })
            .collect();
        println!("{}", cells.join("  ").trim_end());
    };
    println!("\n{title}");
    line(&head.iter().map(|cell| (*cell).to_owned()).collect::<Vec<_>>());
    rows.iter().for_each(|row| line(row));
}

/// A time with three digits.
pub(crate) fn seconds(time: f64) -> String {
    let (value, unit) = match time {
        t if t >= 1.0 => (t, "s"),
        t if t >= 1e-3 => (t * 1e3, "ms"),
        t if t >= 1e-6 => (t * 1e6, "µs"),
        t => (t * 1e9, "ns"),
    };
    format!("{} {unit}", digits(value))
}

/// Three digits, or all of those before the point.
pub(crate) fn digits(value: f64) -> String {
    match value {
        v if v >= 100.0 => format!("{v:.0}"),
        v if v >= 10.0 => format!("{v:.1}"),
        v => format!("{v:.2}"),
    }
}
