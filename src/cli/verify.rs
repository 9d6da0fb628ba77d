//! `tessera verify`: kernels of a model, or texts, before a foreign assembler.

use crate::cli::failure::Failure;
use crate::cli::kernels::KernelArgs;
use crate::cli::{Done, output};
use serde::Serialize;
use std::path::Path;
use tessera::assembler;
use tessera::assembler::sass::Kernel;
use tessera::codegen::target::ptx::PtxKernel;
use tessera::generate::{Generated, Target, generate, of_text};
use tessera::parallel::in_parallel;
use tessera::prompt::read_text;
use tessera::session::default_threads;
use tessera::texts::{self, Content};
use tessera::verify::{Checked, Checker, Taken};

/// Assemble kernels of a model, or .ptx and .tile files, and report what they take of the machine
///
/// A kernel passes if the assembler takes it without a warning, without stack and spilled registers, and within shared and tensor memory.
/// `cargo xtask tools` installs the assembler.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  tessera verify --all --target sm_100a --config released\n  tessera verify kernel.ptx"
)]
pub(crate) struct Args {
    #[command(flatten)]
    kernels: KernelArgs,
    /// How far to go: assembled
    #[arg(long, value_name = "LEVEL", default_value = "assembled", value_parser = ["assembled", "executed"])]
    level: String,
    /// Runs with other data and interleavings, for level executed
    #[arg(long, value_name = "N", value_parser = crate::cli::positive)]
    seeds: Option<usize>,
    /// Disassemble too: count instructions and those around matrix instructions
    #[arg(long)]
    code: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Report {
    schema: &'static str,
    target: &'static str,
    kernels: Vec<Row>,
    summary: Summary,
}

#[derive(Serialize)]
struct Row {
    name: String,
    family: String,
    shape: String,
    rows: Vec<usize>,
    level: &'static str,
    ok: bool,
    max_error: Option<f64>,
    tolerance: Option<f64>,
    resources: Option<Taken>,
    code: Option<Kernel>,
    reports: Vec<String>,
}

#[derive(Serialize)]
struct Summary {
    kernels: usize,
    executed: usize,
    failed: usize,
}

/// A text to check.
struct Subject {
    name: String,
    family: String,
    shape: String,
    rows: Vec<usize>,
    text: String,
    launch: Option<PtxKernel>,
}

pub(crate) fn main(args: &Args) -> Done {
    let (families, files) = args.kernels.select()?;
    let target = args.kernels.target()?;
    args.refuse(target)?;
    if !args.kernels.of_model() {
        args.kernels.refuse_options_of_models()?;
    }
    let mut subjects = Vec::new();
    for file in &files {
        subjects.push(of_file(file)?);
    }
    if args.kernels.of_model() {
        let request = args.kernels.request(families)?;
        let model = args.kernels.model()?;
        let kernels = generate(&model.config, &model.topology, &request)?;
        subjects.extend(kernels.into_iter().map(of_kernel));
    }
    let checker = Checker::find(args.code)?;
    let bar = output::bar("kernels", subjects.len());
    let checked = in_parallel(&subjects, default_threads(), |subject| {
        let checked = checker.check(&subject.text, subject.launch.as_ref());
        bar.inc(1);
        checked
    });
    bar.finish_and_clear();
    let checked: Result<Vec<Checked>, assembler::Error> = checked.into_iter().collect();
    let rows: Vec<Row> =
        subjects.into_iter().zip(checked?).map(|(subject, checked)| row(subject, checked)).collect();
    let failed = rows.iter().filter(|row| !row.ok).count();
    let summary = Summary { kernels: rows.len(), executed: 0, failed };
    let report = Report { schema: "tessera.verify/1", target: target.name(), kernels: rows, summary };
    if args.json {
        output::json(&report)?;
    } else {
        output::text_line(&text(&report, args.code))?;
    }
    if failed > 0 {
        return Err(Failure::Check(format!("{failed} of {} kernels failed", report.summary.kernels)));
    }
    Ok(())
}

impl Args {
    fn refuse(&self, target: Target) -> Done {
        if self.level == "executed" {
            let message =
                "level executed is not in this version: nothing executes PTX yet; use --level assembled";
            return Err(Failure::Input(message.to_owned()));
        }
        if self.seeds.is_some() {
            let message = "--seeds counts executions, and level assembled executes nothing; leave it out";
            return Err(Failure::Input(message.to_owned()));
        }
        match target {
            Target::Sm100a => Ok(()),
            Target::Cpu => Err(Failure::Input(
                "target cpu needs no assembler: its code is checked by running it, in the tests; use --target sm_100a"
                    .to_owned(),
            )),
        }
    }
}

fn of_kernel(kernel: Generated) -> Subject {
    Subject {
        name: kernel.name,
        family: kernel.family,
        shape: kernel.shape.to_string(),
        rows: kernel.rows,
        text: kernel.code.text.clone(),
        launch: Some(kernel.code),
    }
}

/// A file: PTX as it is, Tile IR through the compiler.
fn of_file(file: &Path) -> Result<Subject, Failure> {
    let name = file.display().to_string();
    let subject = |text: String, launch: Option<PtxKernel>| Subject {
        name: name.clone(),
        family: String::new(),
        shape: String::new(),
        rows: Vec::new(),
        text,
        launch,
    };
    if file.extension().is_some_and(|ending| ending == "ptx") {
        return Ok(subject(read_text(file)?, None));
    }
    let (source, level) = texts::read(file)?;
    let content =
        texts::check(&source, level).map_err(|faults| crate::cli::check::refusal(&name, &faults))?;
    match content {
        Content::Tile(kernel) => {
            let code = of_text(&kernel, Target::Sm100a)?.code;
            Ok(subject(code.text.clone(), Some(code)))
        }
        Content::Graph(_) => Err(Failure::Input(format!(
            "{name} holds a graph module; verify takes kernels: .ptx or .tile (`tessera build {name} --target sm_100a --emit tile`)"
        ))),
    }
}

fn row(subject: Subject, checked: Checked) -> Row {
    Row {
        level: if checked.assembled { "assembled" } else { "generated" },
        ok: checked.sound(),
        max_error: None,
        tolerance: None,
        resources: checked.taken(subject.launch.as_ref()),
        code: checked.code.into_iter().next(),
        reports: checked.reports,
        name: subject.name,
        family: subject.family,
        shape: subject.shape,
        rows: subject.rows,
    }
}

fn text(report: &Report, code: bool) -> String {
    let number = |n: Option<usize>| n.map_or_else(|| "-".to_owned(), |n| n.to_string());
    let cells = |row: &Row| {
        let rows: Vec<String> = row.rows.iter().map(ToString::to_string).collect();
        let taken = row.resources.as_ref();
        let mut cells = vec![
            row.name.clone(),
            row.shape.clone(),
            rows.join(","),
            row.level.to_owned(),
            if row.ok { "ok" } else { "failed" }.to_owned(),
            number(taken.map(|t| t.registers)),
            number(taken.map(|t| t.smem)),
            number(taken.and_then(|t| t.tmem_columns)),
        ];
        if code {
            let steady = row.code.as_ref().and_then(Kernel::steady);
            cells.push(number(row.code.as_ref().map(|code| code.instructions)));
            cells.push(number(steady.map(|l| l.mma)));
            let others = steady.and_then(|l| l.others_per_mma);
            cells.push(others.map_or_else(|| "-".to_owned(), |others| format!("{others:.1}")));
        }
        cells
    };
    let rows: Vec<Vec<String>> = report.kernels.iter().map(cells).collect();
    let mut head = vec!["kernel", "shape", "rows", "level", "", "registers", "smem", "tmem"];
    if code {
        head.extend(["instructions", "mma", "others each"]);
    }
    let mut text = output::table(&head, &rows, 5);
    for row in &report.kernels {
        text += &row.reports.iter().map(|report| format!("{}: {report}\n", row.name)).collect::<String>();
    }
    let Summary { kernels, executed, failed } = report.summary;
    text + &format!("{kernels} kernels, {executed} executed, {failed} failed\n")
}
