//! `tessera doctor`: what this machine offers, and what is missing for more.

use crate::cli::{Done, output};
use serde::Serialize;
use std::path::{Path, PathBuf};
use tessera::assembler::{self, Nvdisasm, Ptxas};
use tessera::codegen::target::cpu::Cpu;
use tessera::load::default_model;
use tessera::runtime::micro::{self, Isa};
use tessera::session::default_threads;

/// Show what this machine offers: processor, instruction sets, threads, huge pages, optional tools
///
/// Nothing here is required beyond the processor; what is missing is said, and the exit code is 0.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  tessera doctor")]
pub(crate) struct Args {
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Report {
    schema: &'static str,
    cpu: CpuReport,
    micro_kernels: Micro,
    code: Code,
    huge_pages: Option<String>,
    default_model: bool,
    devices: Vec<Device>,
    tools: Vec<Tool>,
}

#[derive(Serialize)]
struct CpuReport {
    name: Option<String>,
    arch: &'static str,
    threads: usize,
}

#[derive(Serialize)]
struct Micro {
    chosen: &'static str,
    sets: Vec<Set>,
}

#[derive(Serialize)]
struct Set {
    name: &'static str,
    available: bool,
    missing: Vec<&'static str>,
}

#[derive(Serialize)]
struct Code {
    target: Option<String>,
    features: Vec<String>,
    problem: Option<String>,
}

#[derive(Serialize)]
struct Device {
    name: &'static str,
    available: bool,
}

#[derive(Serialize)]
struct Tool {
    name: &'static str,
    found: Option<String>,
    used_for: &'static str,
}

/// Optional programs: what they are called, by what names they are looked for, what they serve.
const TOOLS: [(&str, &[&str], &str); 2] = [
    ("C++ compiler", &["c++", "g++", "clang++"], "running AscendC kernels (not in this version)"),
    ("LLVM", &["llvm-config-22", "llvm-config", "llc"], "the optional llvm target (not in this version)"),
];

pub(crate) fn main(args: &Args) -> Done {
    let report = report();
    if args.json {
        return output::json(&report);
    }
    let mut text = String::new();
    let mut line = |name: &str, value: String| text += &format!("{name:15}{value}\n");
    let name = report.cpu.name.as_deref().unwrap_or("unknown");
    line("processor", format!("{name} ({}), {} threads", report.cpu.arch, report.cpu.threads));
    for (at, row) in micro::describe().trim_end().lines().enumerate() {
        match row.strip_prefix("micro-kernels: ") {
            Some(chosen) if at == 0 => line("micro-kernels", chosen.to_owned()),
            _ => line("", row.to_owned()),
        }
    }
    line(
        "generated code",
        match (&report.code.target, &report.code.problem) {
            (Some(target), None) => format!("{target}, with {}", report.code.features.join(" ")),
            (_, problem) => format!("unavailable: {}", problem.as_deref().unwrap_or("unknown")),
        },
    );
    line("huge pages", report.huge_pages.clone().unwrap_or_else(|| "unknown".to_owned()));
    line(
        "default model",
        if report.default_model { "found" } else { "not found; use --model DIR" }.to_owned(),
    );
    for device in &report.devices {
        line(
            "device",
            format!(
                "{}: {}",
                device.name,
                if device.available { "available" } else { "not in this version" }
            ),
        );
    }
    for tool in &report.tools {
        let found = tool.found.as_deref().unwrap_or("not found");
        line("optional", format!("{}: {found}; for {}", tool.name, tool.used_for));
    }
    output::text_line(&text)
}

fn report() -> Report {
    let set = |isa: Isa| {
        let missing =
            isa.features().into_iter().filter(|(_, present)| !present).map(|(name, _)| name).collect();
        Set { name: isa.name(), available: isa.available(), missing }
    };
    let code = match Cpu::host() {
        Ok(cpu) => Code { target: Some(cpu.target()), features: cpu.features(), problem: None },
        Err(error) => Code { target: None, features: Vec::new(), problem: Some(error.to_string()) },
    };
    let tool = |(name, programs, used_for): (&'static str, &[&str], &'static str)| Tool {
        name,
        found: programs.iter().find_map(|program| on_path(program)).map(|path| path.display().to_string()),
        used_for,
    };
    let found = |path: &Path, version: assembler::Result<String>| match version {
        Ok(version) => format!("{}, version {version}", path.display()),
        Err(error) => error.to_string(),
    };
    let mut tools = vec![
        Tool {
            name: "ptxas",
            found: Ptxas::find().ok().map(|tool| found(tool.path(), tool.version())),
            used_for: "checking PTX; `cargo xtask tools` installs it",
        },
        Tool {
            name: "nvdisasm",
            found: Nvdisasm::find().ok().map(|tool| found(tool.path(), tool.version())),
            used_for: "counting machine code; `cargo xtask tools` installs it",
        },
    ];
    tools.extend(TOOLS.into_iter().map(tool));
    Report {
        schema: "tessera.doctor/1",
        cpu: CpuReport { name: cpu_name(), arch: std::env::consts::ARCH, threads: default_threads() },
        micro_kernels: Micro { chosen: Isa::detect().name(), sets: Isa::ALL.into_iter().map(set).collect() },
        code,
        huge_pages: huge_pages(),
        default_model: default_model().is_ok(),
        devices: vec![
            Device { name: "cpu", available: true },
            Device { name: "cuda", available: false },
            Device { name: "ascend", available: false },
        ],
        tools,
    }
}

/// The processor's name, where the system tells it.
fn cpu_name() -> Option<String> {
    let text = std::fs::read_to_string("/proc/cpuinfo").ok()?;
    let line = text.lines().find(|line| line.starts_with("model name"))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

/// Linux's policy for transparent huge pages: the word in brackets.
fn huge_pages() -> Option<String> {
    let text = std::fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled").ok()?;
    let (_, rest) = text.split_once('[')?;
    Some(rest.split_once(']')?.0.to_owned())
}

/// The first file of this name in the folders of PATH.
fn on_path(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(program)).find(|file| file.is_file())
}
