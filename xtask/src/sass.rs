//! Assembles texts, disassembles the result and counts what is in it, kernel by kernel.

use crate::{Absent, Usage};
use anyhow::{Context, Result, bail};
use std::fs;
use std::path::{Path, PathBuf};
use tessera_assembler::sass::{self, File, Loop, Report};
use tessera_assembler::{Error, Nvdisasm, Ptxas, Resources};

/// Counts files and folders of `.ptx` and `.cubin`.
#[allow(clippy::print_stdout, reason = "the result")]
pub(crate) fn report(json: bool, show: bool, paths: &[String]) -> Result<()> {
    let disassembler = Nvdisasm::find().map_err(absent)?;
    let mut files = Vec::new();
    for path in sources(paths)? {
        let (resources, text) =
            disassembly(&path, &disassembler).with_context(|| format!("cannot count {}", path.display()))?;
        if show {
            print!("{text}");
        }
        let kernels =
            sass::analyse(&text).with_context(|| format!("cannot read the code of {}", path.display()))?;
        files.push(File { file: path.display().to_string(), resources, kernels });
    }
    if json {
        let report = Report::new(files);
        println!("{}", serde_json::to_string(&report)?);
    } else if !show {
        for file in &files {
            print!("{}", human(file));
        }
    }
    Ok(())
}

fn absent(error: Error) -> anyhow::Error {
    match error {
        Error::Absent { .. } => Absent(error.to_string()).into(),
        Error::Refused { .. } | Error::Run { .. } | Error::Unexpected { .. } => error.into(),
    }
}

fn disassembly(path: &Path, disassembler: &Nvdisasm) -> Result<(Vec<Resources>, String)> {
    if path.extension().is_some_and(|ending| ending == "cubin") {
        let cubin = fs::read(path)?;
        return Ok((Vec::new(), disassembler.disassemble(&cubin)?));
    }
    let text = fs::read_to_string(path)?;
    let assembled = Ptxas::find().and_then(|ptxas| ptxas.assemble(&text, target(&text))).map_err(absent)?;
    Ok((assembled.functions, disassembler.disassemble(&assembled.cubin)?))
}

/// The first target that the text names.
fn target(text: &str) -> &str {
    let named = text.lines().find_map(|line| line.trim_start().strip_prefix(".target"));
    named.and_then(|list| list.split([',', ' ', '\t']).find(|word| !word.is_empty())).unwrap_or("sm_100a")
}

/// Files as they are named, and the `.ptx` and `.cubin` in folders, sorted by path.
fn sources(paths: &[String]) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for path in paths.iter().map(PathBuf::from) {
        if path.is_dir() {
            let entries = fs::read_dir(&path).with_context(|| format!("cannot read {}", path.display()))?;
            let mut found: Vec<PathBuf> = entries
                .map(|entry| Ok(entry?.path()))
                .collect::<Result<Vec<_>>>()?
                .into_iter()
                .filter(|file| file.extension().is_some_and(|ending| ending == "ptx" || ending == "cubin"))
                .collect();
            if found.is_empty() {
                bail!("{} holds no .ptx and no .cubin", path.display());
            }
            found.sort();
            files.extend(found);
        } else if !path.is_file() {
            bail!(Usage(format!("there is no file {}", path.display())));
        } else {
            files.push(path);
        }
    }
    if files.is_empty() {
        bail!(Usage("name files or folders of .ptx or .cubin; `tessera gen` writes them".to_owned()));
    }
    Ok(files)
}

fn human(file: &File) -> String {
    let mut text = String::new();
    for kernel in &file.kernels {
        text += &format!("{}: {} instructions", kernel.name, kernel.instructions);
        if let Some(used) = file.resources.iter().find(|used| used.entry == kernel.name) {
            text += &format!(
                ", {} registers, {} bytes of stack, {} + {} bytes spilled",
                used.registers, used.stack, used.spill_stores, used.spill_loads
            );
        }
        let counts: Vec<String> = kernel.counts.iter().map(|(kind, n)| format!("{kind} {n}")).collect();
        text += &format!("\n  {}\n", counts.join("  "));
        if kernel.local > 0 || kernel.lane_loops > 0 || kernel.unknown_branches > 0 {
            text += &format!(
                "  local memory {}, loops over lanes {} (with {} matrix instructions), branches without targets {}\n",
                kernel.local, kernel.lane_loops, kernel.lane_mma, kernel.unknown_branches
            );
        }
        for l in &kernel.loops {
            text += &line(l);
        }
    }
    text
}

fn line(l: &Loop) -> String {
    let indent = "  ".repeat(l.depth + 1);
    let waiting = if l.waiting > 0 { format!(" (and {} waiting)", l.waiting) } else { String::new() };
    let steady = match l.others_per_mma {
        Some(others) if l.steady => format!(", steady: {} MMA, {others:.1} others each", l.mma),
        Some(_) => format!(", {} MMA", l.mma),
        None => String::new(),
    };
    let (first, last) = (l.first, l.last);
    format!(
        "{indent}{first:04x}..{last:04x} lines {}..{}: {} instructions{waiting}{steady}\n",
        l.first_line, l.last_line, l.instructions
    )
}
