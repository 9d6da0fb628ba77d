//! Each micro-kernel of each instruction set against what this machine reads and computes, in the same run.
//!
//! A sample times the limits and then the kernel, so that both meet the same neighbours; shares are medians of samples.
//! The largest operand of every call comes from memory, the others stay in the cache: *bytes* are those of that operand,
//! and a kernel's limit is the longer of the times to read them and to do its multiplications and additions.

#[path = "../common/mod.rs"]
mod common;

mod cases;
mod limits;
mod memory;

use cases::Case;
use common::{Medians, clock, criterion, digits, median, seconds, table};
use criterion::Criterion;
use limits::Limits;
use memory::{Pages, Pool};
use std::time::Duration;
use tessera::runtime::micro::{Isa, Kernels};

const SAMPLES: usize = 11;

/// Operations of a call beyond which the portable kernels are left out where they compute each `fma` in software.
const SLOW: usize = 30_000_000;

/// A line of the table.
fn measure(
    c: &mut Criterion,
    isa: Isa,
    kernels: &Kernels,
    case: &mut Case,
    pool: &mut Pool,
    limits: &mut Limits,
) -> Option<Vec<String>> {
    let (bytes, operations) = (case.cold.len() as f64, case.operations as f64);
    let mut shares: Vec<(f64, bool)> = Vec::new();
    let mut medians = Medians::new(SAMPLES);
    let mut group = c.benchmark_group(format!("micro/{isa}"));
    medians.custom(&mut group, &case.name, |iters| {
        let (read, arithmetic) = limits.measure();
        let (to_read, to_compute) = (bytes / read, operations / arithmetic);
        let start = clock::ran();
        for _ in 0..iters {
            (case.call)(kernels, pool.next());
        }
        let time = clock::ran() - start;
        let each = time.as_secs_f64() / iters as f64;
        shares.push((to_read.max(to_compute) / each, to_compute > to_read));
        time
    });
    group.finish();
    let (_, time) = medians.rows().first()?;
    let shares = &shares[shares.len().saturating_sub(SAMPLES)..];
    let share = median(&mut shares.iter().map(|(share, _)| *share).collect::<Vec<f64>>())?;
    let computes = shares.iter().filter(|(_, computes)| *computes).count() * 2 > shares.len();
    let rate = |n: f64| if n > 0.0 { digits(n / time / 1e9) } else { "-".to_owned() };
    Some(vec![
        case.name.clone(),
        isa.to_string(),
        seconds(*time),
        rate(operations),
        rate(bytes),
        if computes { "compute" } else { "read" }.to_owned(),
        format!("{:.0} %", share * 100.0),
    ])
}

fn main() {
    let mut c = criterion(SAMPLES, Duration::from_millis(250));
    let mut limits = Limits::find();
    let mut pool = Pool::new(Pages::Huge);
    let mut rows = Vec::new();
    for mut case in cases::all() {
        pool.fill(&case.cold);
        for isa in Isa::ALL {
            let Some(kernels) = Kernels::of(isa) else { continue };
            let slow = isa == Isa::Portable && cfg!(target_arch = "x86_64");
            if !(slow && case.operations > SLOW) {
                rows.extend(measure(&mut c, isa, kernels, &mut case, &mut pool, &mut limits));
            }
        }
    }
    let title = format!("micro-kernels, one thread; medians of {SAMPLES}");
    let head = ["kernel", "set", "a call", "GFLOP/s", "GB/s", "limit", "share"];
    table(&title, &head, 2, &rows);
    c.final_summary();
}
