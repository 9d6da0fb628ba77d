//! Every kernel for SM100 of the released and of the tiny model before two versions of the assembler, and the table of what they take.

mod common;

use common::repo;
use std::fmt::Write;
use tessera::assembler::Ptxas;
use tessera::generate::{Generated, Request, Target, generate};
use tessera::load::default_model;
use tessera::model::{Config, ConfigOptions, Topology};
use tessera::parallel::in_parallel;
use tessera::session::default_threads;
use tessera::verify::{Checked, Checker};

/// Version of the assembler whose figures the table holds.
const VERSION: &str = "13.5.37";

const TABLE: &str = "docs/kernels_sm100.md";

/// The tools, if they are there; CI must have them.
#[allow(clippy::print_stderr, reason = "says why nothing was tested")]
fn tools(disassemble: bool) -> Option<Checker> {
    match Checker::find(disassemble).and_then(Checker::with_floor) {
        Ok(checker) => Some(checker),
        Err(error) => {
            assert!(std::env::var_os("TESSERA_REQUIRE_PTXAS").is_none(), "{error}");
            eprintln!("skipped: no ptxas ({error})");
            None
        }
    }
}

fn tiny() -> Config {
    Config::from_dir(default_model().unwrap(), &ConfigOptions::default()).unwrap()
}

/// Every kernel of a model at decode steps of 1, 6 and 64 rows and prompt pieces of 4096.
fn kernels(config: &Config) -> Vec<Generated> {
    generate(config, &Topology::derive(config), &Request::all(Target::Sm100a)).unwrap()
}

fn check(checker: &Checker, kernels: &[Generated]) -> Vec<Checked> {
    in_parallel(kernels, default_threads(), |k| checker.check(&k.code.text, Some(&k.code)).unwrap())
}

/// No error, warning or advice of either assembler, no stack, no spilled register, shared and tensor memory within
/// 232,448 bytes and 512 columns.
fn assert_sound(kernels: &[Generated], checked: &[Checked]) {
    let unsound: Vec<String> = kernels
        .iter()
        .zip(checked)
        .filter(|(_, checked)| !checked.sound())
        .map(|(kernel, checked)| format!("{}: {}", kernel.name, checked.reports.join("\n    ")))
        .collect();
    assert!(unsound.is_empty(), "{} of {}:\n  {}", unsound.len(), kernels.len(), unsound.join("\n  "));
    for (kernel, checked) in kernels.iter().zip(checked) {
        let [used] = &checked.resources[..] else { panic!("{}: {:?}", kernel.name, checked.resources) };
        assert_eq!(used.entry, kernel.code.entry);
        assert_eq!((used.stack, used.spill_stores, used.spill_loads), (0, 0, 0));
        assert!(used.shared + kernel.code.smem <= 232_448 && kernel.code.tmem_columns <= 512);
    }
}

/// Products use the matrix unit and bulk copies, with at most ten other instructions for each matrix instruction in the loop that
/// issues them, and no thread's own memory.
fn assert_busy(kernels: &[Generated], checked: &[Checked]) {
    let mut faults = Vec::new();
    let mut seen = 0;
    for (kernel, checked) in kernels.iter().zip(checked) {
        let [code] = &checked.code[..] else {
            panic!("{}: {} sections of code", kernel.name, checked.code.len())
        };
        assert_eq!(code.local, 0, "{}", kernel.name);
        let has = |kind: &str| code.counts.contains_key(kind);
        let products =
            ["linear", "moe_up", "moe_linear", "hc_mix", "index_scores", "attention", "block_attention"];
        if !products.contains(&kernel.family.as_str()) {
            continue;
        }
        seen += 1;
        let matrix = ["UTCQMMA", "UTCHMMA", "UTCOMMA"].into_iter().any(has);
        if !matrix || !has("UTMALDG") || !has("UTCBAR") || !has("LDTM") {
            faults.push(format!("{}: {:?}", kernel.name, code.counts));
        }
        // Scores of an indexer take two matrix instructions a block of keys; their vector code is what limits them.
        for steady in code.loops.iter().filter(|l| l.steady && kernel.family != "index_scores") {
            if steady.others > 10 * steady.mma {
                faults.push(format!("{}: {} others for {} MMA", kernel.name, steady.others, steady.mma));
            }
        }
        if code.mma_outside_loops > 0 {
            faults.push(format!("{}: {} MMA outside loops", kernel.name, code.mma_outside_loops));
        }
    }
    assert!(faults.is_empty() && seen > 30, "of {seen} products:\n  {}", faults.join("\n  "));
}

#[test]
fn every_kernel_of_the_tiny_model_assembles() {
    let Some(checker) = tools(false) else { return };
    let kernels = kernels(&tiny());
    assert!(kernels.len() > 100);
    assert_sound(&kernels, &check(&checker, &kernels));
}

/// The same for the released model, machine code included; the documents hold the figures.
#[test]
fn the_table_of_kernels_is_current() {
    let Some(checker) = tools(true) else { return };
    let kernels = kernels(&Config::released().unwrap());
    assert!(kernels.len() > 100);
    let checked = check(&checker, &kernels);
    assert_sound(&kernels, &checked);
    assert_busy(&kernels, &checked);
    if Ptxas::find().unwrap().version().unwrap() != VERSION {
        return;
    }
    let current = table(&kernels, &checked);
    if std::env::var_os("TESSERA_WRITE_TABLE").is_some() {
        std::fs::write(repo(TABLE), current).unwrap();
        return;
    }
    let stored = std::fs::read_to_string(repo(TABLE)).unwrap_or_default();
    let differs = stored.lines().zip(current.lines()).find(|(a, b)| a != b);
    assert!(
        stored == current,
        "{TABLE} is out of date; run `cargo xtask table`. First difference: {differs:?}"
    );
}

/// The document.
fn table(kernels: &[Generated], checked: &[Checked]) -> String {
    let mut text = format!(
        "# Kernels for SM100\n\n\
         Every kernel of the released model, as `cargo xtask table` writes it: generated, assembled for `sm_100a` by ptxas {VERSION}, disassembled; nothing here ran \
         on a device. A kernel is chosen for the listed numbers of rows and right for any other. Registers are a thread's, SMEM is static and dynamic shared memory in \
         bytes, TMEM columns of tensor memory. Instructions are those of the machine code; MMA and others are the matrix instructions of its steady loop and the other \
         instructions there for each of them, by the rule of `cargo xtask help`.\n\n\
         | kernel | shape | rows | threads | registers | SMEM | TMEM | instructions | MMA | others |\n\
         |---|---|---|---|---|---|---|---|---|---|\n"
    );
    for (kernel, checked) in kernels.iter().zip(checked) {
        let (used, code) = (&checked.resources[0], &checked.code[0]);
        let rows: Vec<String> = kernel.rows.iter().map(ToString::to_string).collect();
        let (mma, others) = match code.steady() {
            Some(steady) => {
                (steady.mma.to_string(), format!("{:.1}", steady.others_per_mma.unwrap_or_default()))
            }
            None => ("–".to_owned(), "–".to_owned()),
        };
        writeln!(
            text,
            "| `{}` | {} | {} | {} | {} | {} | {} | {} | {mma} | {others} |",
            kernel.name,
            kernel.shape,
            rows.join(", "),
            kernel.code.block.iter().product::<u32>(),
            used.registers,
            used.shared + kernel.code.smem,
            kernel.code.tmem_columns,
            code.instructions,
        )
        .unwrap();
    }
    text
}
