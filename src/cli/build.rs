//! `tessera build`: takes a file of either IR through the compiler and prints a stage of it.

use crate::cli::check::summary;
use crate::cli::failure::Failure;
use crate::cli::{Done, output};
use serde::Serialize;
use std::path::PathBuf;
use tessera::codegen::Plan;
use tessera::codegen::pipeline::{fuse, pass_names, print_fused};
use tessera::codegen::target::cpu::Cpu;
use tessera::ir::graph::Module;
use tessera::ir::{Verified, tile};
use tessera::texts::{self, Content};
use tessera::{Error, kernels};

/// Compile a file of Graph IR (.tir) or Tile IR (.tile) and print a stage of it
///
/// A graph module is fused into kernels (--emit graph), each is scheduled (--emit tile) and emitted (--emit clif). A kernel
/// is verified and emitted. `tessera inspect --graph` prints the modules of a model.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  tessera inspect --graph > step.tir && tessera build step.tir --target cpu --emit tile"
)]
pub(crate) struct Args {
    /// File to compile
    file: PathBuf,
    /// Machine to compile for: cpu
    #[arg(long, value_name = "T", default_value = "cpu")]
    target: String,
    /// Stage to print: graph, tile or clif
    #[arg(long, value_name = "STAGE", default_value = "tile", value_parser = ["graph", "tile", "clif", "ptx", "asc"])]
    emit: String,
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
}

pub(crate) fn main(args: &Args) -> Done {
    args.refuse()?;
    let (source, level) = texts::read(&args.file)?;
    let file = args.file.display().to_string();
    let content = texts::check(&source, level).map_err(|faults| {
        let listed: Vec<String> = faults.iter().map(|fault| format!("\n{fault}")).collect();
        Failure::Input(format!("{}{}", summary(&file, &faults), listed.concat()))
    })?;
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
        Content::Graph(module) => args.graph(module, &mut report)?,
        Content::Tile(kernel) => args.tile(&kernel, &mut report)?,
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
    fn refuse(&self) -> Done {
        match self.target.as_str() {
            "cpu" => {}
            "sm_100a" | "ascend950" => {
                return Err(Failure::Input(format!(
                    "target {} is not supported by this version; it compiles for cpu",
                    self.target
                )));
            }
            other => {
                return Err(Failure::Input(format!(
                    "unknown target {other}; targets are cpu, sm_100a and ascend950"
                )));
            }
        }
        if matches!(self.emit.as_str(), "ptx" | "asc") {
            return Err(Failure::Input(format!(
                "target cpu has no stage {}; use graph, tile or clif",
                self.emit
            )));
        }
        let passes = pass_names();
        let named = self.dump_after.iter().chain(&self.stop_after);
        match named.into_iter().find(|pass| !passes.contains(&pass.as_str())) {
            Some(unknown) => Err(Failure::Input(format!(
                "there is no pass {unknown}; the passes are {}",
                passes.join(", ")
            ))),
            None => Ok(()),
        }
    }

    fn graph(&self, module: Verified<Module>, report: &mut Report) -> Done {
        let name = module.name.clone();
        let mut stopped = None;
        let fused = fuse(module.clone(), &mut |pass, print| {
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
        let config = kernels::Config::default();
        let plan = Plan::new(&[(name.as_str(), module)], &config).map_err(Error::from)?;
        for kernel in &plan.kernels {
            report.kernels.push(KernelReport {
                name: kernel.kernel.name.clone(),
                family: Some(kernel.family.name()),
                text: self.stage(&kernel.kernel)?,
            });
        }
        Ok(())
    }

    fn tile(&self, kernel: &Verified<tile::Kernel>, report: &mut Report) -> Done {
        if self.emit == "graph" {
            return Err(Failure::Input("a kernel has no graph; use --emit tile or clif".to_owned()));
        }
        if self.stop_after.is_some() || !self.dump_after.is_empty() {
            let message = "passes run on graph modules; a .tile file is a kernel already";
            return Err(Failure::Input(message.to_owned()));
        }
        report.kernels.push(KernelReport {
            name: kernel.name.clone(),
            family: None,
            text: self.stage(kernel)?,
        });
        Ok(())
    }

    fn stage(&self, kernel: &Verified<tile::Kernel>) -> Result<String, Failure> {
        if self.emit == "tile" {
            return Ok(tile::print(kernel));
        }
        let cpu = Cpu::host().map_err(Error::from)?;
        let clif = cpu.clif(kernel).map_err(Error::from)?;
        Ok(format!("; kernel {}\n{clif}", kernel.name))
    }
}
