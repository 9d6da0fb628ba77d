//! `tessera build`: takes a file of either IR through the compiler and prints a stage of it.

use crate::cli::check::refusal;
use crate::cli::failure::Failure;
use crate::cli::kernels::pair;
use crate::cli::{Done, output};
use serde::Serialize;
use std::path::PathBuf;
use tessera::Error;
use tessera::codegen::pipeline::{fuse_for, pass_names_for, print_fused};
use tessera::generate::{self, Entry, Planned, Target};
use tessera::ir::graph::Module;
use tessera::ir::{Bindings, Verified, tile};
use tessera::texts::{self, Content};

/// Compile a file of Graph IR (.tir) or Tile IR (.tile) and print a stage of it
///
/// A graph module is fused into kernels (--emit graph), each is scheduled (--emit tile) and emitted (--emit ptx or clif). A kernel
/// is verified and emitted. `tessera inspect --graph` prints the modules of a model.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  tessera inspect --graph > step.tir && tessera build step.tir --target cpu --emit tile\n  \
                  tessera build kernel.tile --target sm_100a --emit ptx"
)]
pub(crate) struct Args {
    /// File to compile
    file: PathBuf,
    /// Machine to compile for: cpu or sm_100a
    #[arg(long, value_name = "T", default_value = "cpu")]
    target: String,
    /// Stage to print: graph, tile, and clif or ptx
    #[arg(long, value_name = "STAGE", default_value = "tile", value_parser = ["graph", "tile", "clif", "ptx", "asc"])]
    emit: String,
    /// Rows of a step that schedules of a module are chosen for, for sm_100a [default: 1]
    #[arg(long, value_name = "N", value_parser = crate::cli::positive)]
    rows: Option<usize>,
    /// Values of knobs of a module's schedules
    #[arg(long, value_name = "KNOB=V,…", value_delimiter = ',', value_parser = pair)]
    set: Vec<(String, usize)>,
    /// Print the module after this pass too; may be repeated
    #[arg(long, value_name = "PASS")]
    dump_after: Vec<String>,
    /// Print the module after this pass and stop
    #[arg(long, value_name = "PASS")]
    stop_after: Option<String>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Report {
    schema: &'static str,
    file: String,
    target: String,
    emit: String,
    dumps: Vec<Dump>,
    kernels: Vec<KernelReport>,
    text: Option<String>,
}

#[derive(Serialize)]
struct Dump {
    pass: &'static str,
    text: String,
}

#[derive(Serialize)]
struct KernelReport {
    name: String,
    family: Option<&'static str>,
    text: String,
    /// What launching it needs, where its code was emitted.
    launch: Option<Entry>,
}

pub(crate) fn main(args: &Args) -> Done {
    let target = args.refuse()?;
    let (source, level) = texts::read(&args.file)?;
    let file = args.file.display().to_string();
    let content = texts::check(&source, level).map_err(|faults| refusal(&file, &faults))?;
    let mut report = Report {
        schema: "tessera.build/1",
        file,
        target: args.target.clone(),
        emit: args.emit.clone(),
        dumps: Vec::new(),
        kernels: Vec::new(),
        text: None,
    };
    match content {
        Content::Graph(module) => args.graph(target, module, &mut report)?,
        Content::Tile(kernel) => args.tile(target, &kernel, &mut report)?,
    }
    if args.json {
        return output::json(&report);
    }
    let mut text = String::new();
    for dump in &report.dumps {
        text += &format!("; after pass {}\n{}\n", dump.pass, dump.text);
    }
    text += report.text.as_deref().unwrap_or_default();
    let kernels: Vec<&str> = report.kernels.iter().map(|kernel| kernel.text.as_str()).collect();
    text += &kernels.join("\n");
    output::text_line(&text)
}

impl Args {
    fn refuse(&self) -> Result<Target, Failure> {
        let target = Target::named(&self.target)?;
        if matches!(self.emit.as_str(), "ptx" | "asc" | "clif") && self.emit != target.ending() {
            return Err(Failure::Input(format!(
                "target {} has no stage {}; use graph, tile or {}",
                target.name(),
                self.emit,
                target.ending()
            )));
        }
        if target == Target::Cpu && self.rows.is_some() {
            let message = "--rows chooses schedules for sm_100a; those for cpu are the same for any number";
            return Err(Failure::Input(message.to_owned()));
        }
        let passes = pass_names_for(target.machine());
        let named = self.dump_after.iter().chain(&self.stop_after);
        match named.into_iter().find(|pass| !passes.contains(&pass.as_str())) {
            Some(unknown) => Err(Failure::Input(format!(
                "there is no pass {unknown} for {}; the passes are {}",
                target.name(),
                passes.join(", ")
            ))),
            None => Ok(target),
        }
    }

    fn graph(&self, target: Target, module: Verified<Module>, report: &mut Report) -> Done {
        let name = module.name.clone();
        let mut stopped = None;
        let fused = fuse_for(target.machine(), module.clone(), &mut |pass, print| {
            if self.dump_after.iter().any(|p| p == pass) {
                report.dumps.push(Dump { pass, text: print() });
            }
            if self.stop_after.as_deref() == Some(pass) {
                stopped = Some(print());
            }
        });
        let fused = fused.map_err(Error::from)?;
        if stopped.is_some() {
            report.text = stopped;
            return Ok(());
        }
        if self.emit == "graph" {
            report.text = Some(print_fused(&fused));
            return Ok(());
        }
        let modules = [(name.as_str(), module)];
        let planned = Planned::of(&modules, target, &[self.rows.unwrap_or(1)], &self.set, &[])?;
        for (kernel, _) in planned.kernels() {
            report.kernels.push(self.stage(target, Some(kernel.family.name()), &kernel.kernel)?);
        }
        Ok(())
    }

    fn tile(&self, target: Target, kernel: &Verified<tile::Kernel>, report: &mut Report) -> Done {
        if self.emit == "graph" {
            return Err(Failure::Input(format!(
                "a kernel has no graph; use --emit tile or {}",
                target.ending()
            )));
        }
        if self.stop_after.is_some() || !self.dump_after.is_empty() {
            let message = "passes run on graph modules; a .tile file is a kernel already";
            return Err(Failure::Input(message.to_owned()));
        }
        if self.rows.is_some() || !self.set.is_empty() {
            let message =
                "--rows and --set choose schedules for graph modules; a .tile file is a schedule already";
            return Err(Failure::Input(message.to_owned()));
        }
        report.kernels.push(self.stage(target, None, kernel)?);
        Ok(())
    }

    fn stage(
        &self,
        target: Target,
        family: Option<&'static str>,
        kernel: &Verified<tile::Kernel>,
    ) -> Result<KernelReport, Failure> {
        let name = kernel.name.clone();
        if self.emit == "tile" {
            return Ok(KernelReport { name, family, text: tile::print(kernel), launch: None });
        }
        let mut generated = generate::of_text(kernel, target)?;
        generated.family = family.unwrap_or_default().to_owned();
        let launch = generate::entry(target, &generated, &|_| Bindings::new());
        Ok(KernelReport { name, family, text: generated.code.text, launch: Some(launch) })
    }
}
