//! The assembler: takes a text, gives machine code with its resources, or says what is wrong.

use crate::error::{Error, Result};
use crate::place;
use serde::Serialize;
use std::ffi::OsStr;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

const NAME: &str = "ptxas";

/// An installed assembler.
#[derive(Clone, Debug)]
pub struct Ptxas {
    path: PathBuf,
}

/// Weight of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// The text is refused.
    Error,
    /// It is accepted, but something is odd.
    Warning,
    /// Advice with a number, as `(C7508)`: the assembler gives up on something that the text asks for.
    Advice,
}

/// What the assembler says about a text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Message {
    /// Its weight.
    pub severity: Severity,
    /// Its number, as `C7508`, where it has one.
    pub code: Option<String>,
    /// Line of the text, from 1, where it names one.
    pub line: Option<usize>,
    /// What it says.
    pub text: String,
}

impl fmt::Display for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(line) = self.line {
            write!(f, "line {line}: ")?;
        }
        match self.severity {
            Severity::Error => f.write_str("error: ")?,
            Severity::Warning => f.write_str("warning: ")?,
            Severity::Advice => f.write_str("advice: ")?,
        }
        match &self.code {
            Some(code) => write!(f, "({code}) {}", self.text),
            None => f.write_str(&self.text),
        }
    }
}

/// What a function takes of the machine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Resources {
    /// Name of the entry function.
    pub entry: String,
    /// Registers of a thread.
    pub registers: usize,
    /// Named barriers of a block.
    pub barriers: usize,
    /// Bytes of a thread's stack.
    pub stack: usize,
    /// Bytes of registers that are written to memory for want of registers.
    pub spill_stores: usize,
    /// Bytes of registers that are read back.
    pub spill_loads: usize,
    /// Bytes of static shared memory.
    pub shared: usize,
}

/// An accepted text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assembled {
    /// Machine code: an ELF file.
    pub cubin: Vec<u8>,
    /// Entry functions in the assembler's order.
    pub functions: Vec<Resources>,
    /// Warnings and advice.
    pub messages: Vec<Message>,
}

impl Ptxas {
    /// The one that `TESSERA_PTXAS` names, else the one in `.tools/bin` here or above, else the one on `PATH`.
    ///
    /// # Errors
    /// [`Error::Absent`].
    pub fn find() -> Result<Ptxas> {
        Ok(Ptxas { path: place::find(NAME, "TESSERA_PTXAS", true)? })
    }

    /// The oldest one that texts must pass: what `TESSERA_PTXAS_FLOOR` names, else the one in `.tools/bin` here or above.
    ///
    /// # Errors
    /// [`Error::Absent`].
    pub fn floor() -> Result<Ptxas> {
        Ok(Ptxas { path: place::find(place::FLOOR, "TESSERA_PTXAS_FLOOR", false)? })
    }

    /// The program.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its version, as `13.5.37`.
    ///
    /// # Errors
    /// It does not run, or says no version.
    pub fn version(&self) -> Result<String> {
        version(NAME, &self.path)
    }

    /// Assembles a text for `arch`, as `sm_100a`.
    ///
    /// # Errors
    /// [`Error::Refused`] with everything the assembler says; it does not run, or says what nobody expects.
    pub fn assemble(&self, text: &str, arch: &str) -> Result<Assembled> {
        let failed = |source| Error::Run { path: self.path.clone(), source };
        let folder = tempfile::tempdir().map_err(failed)?;
        std::fs::write(folder.path().join("kernel.ptx"), text).map_err(failed)?;
        let arch = format!("-arch={arch}");
        let args = [arch.as_str(), "-v", "kernel.ptx", "-o", "kernel.cubin"].map(OsStr::new);
        let output = run(&self.path, &args, folder.path())?;
        let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        let (functions, messages) = read(&said)?;
        if !output.status.success() || messages.iter().any(|message| message.severity == Severity::Error) {
            if messages.is_empty() {
                return Err(Error::Unexpected { tool: NAME, text: format!("{} {said}", output.status) });
            }
            return Err(Error::Refused { messages });
        }
        let cubin = std::fs::read(folder.path().join("kernel.cubin")).map_err(failed)?;
        Ok(Assembled { cubin, functions, messages })
    }
}

/// Reads everything that the assembler says in verbose mode.
fn read(said: &str) -> Result<(Vec<Resources>, Vec<Message>)> {
    let unexpected = |line: &str| Error::Unexpected { tool: NAME, text: line.to_owned() };
    let mut functions: Vec<Resources> = Vec::new();
    let mut messages = Vec::new();
    for line in said.lines().filter(|line| !line.trim().is_empty()) {
        let Some((head, text)) = line.split_once(':') else {
            if let Some(function) = functions.last_mut().filter(|_| line.contains("bytes stack frame")) {
                amounts(line, function).ok_or_else(|| unexpected(line))?;
                continue;
            }
            return Err(unexpected(line));
        };
        let (place, word) = match head.split_once(';') {
            Some((place, word)) => (Some(place), word),
            None => {
                // It calls itself as its file is called.
                let rest = head.strip_prefix(NAME).and_then(|rest| rest.split_once(' '));
                (None, rest.ok_or_else(|| unexpected(line))?.1)
            }
        };
        let text = text.trim();
        let severity = match word.trim() {
            "error" | "fatal" => Severity::Error,
            "warning" => Severity::Warning,
            "info" if text.starts_with("(C") => Severity::Advice,
            "info" => {
                if let Some(rest) = text.strip_prefix("Compiling entry function '") {
                    let entry = rest.split('\'').next().unwrap_or_default().to_owned();
                    functions.push(Resources { entry, ..Resources::default() });
                } else if let (Some(used), Some(function)) =
                    (text.strip_prefix("Used "), functions.last_mut())
                {
                    amounts(used, function).ok_or_else(|| unexpected(line))?;
                }
                continue;
            }
            _ => return Err(unexpected(line)),
        };
        let (code, text) = match text.strip_prefix('(').and_then(|rest| rest.split_once(')')) {
            Some((code, rest)) if code.starts_with('C') => (Some(code.to_owned()), rest.trim()),
            _ => (None, text),
        };
        let line = place.and_then(|place| place.rsplit_once("line ")?.1.trim().parse().ok());
        // The assembler closes with a sentence that says nothing more.
        if !(severity == Severity::Error && text.starts_with("Ptx assembly aborted")) || messages.is_empty() {
            messages.push(Message { severity, code, line, text: text.to_owned() });
        }
    }
    Ok((functions, messages))
}

/// Amounts as `38 registers, used 1 barriers, 32788 bytes smem`; `None` if one cannot be read.
fn amounts(text: &str, into: &mut Resources) -> Option<()> {
    for part in text.split(',').map(str::trim) {
        let part = part.strip_prefix("used ").unwrap_or(part);
        let (number, what) = part.split_once(' ')?;
        let number: usize = number.parse().ok()?;
        match what {
            "registers" => into.registers = number,
            "barriers" => into.barriers = number,
            "bytes smem" => into.shared = number,
            "bytes stack frame" => into.stack = number,
            "bytes spill stores" => into.spill_stores = number,
            "bytes spill loads" => into.spill_loads = number,
            // Constant banks and the like.
            _ => {}
        }
    }
    Some(())
}

/// Runs a program in a folder and collects what it says, in English.
pub(crate) fn run(path: &Path, args: &[&OsStr], folder: &Path) -> Result<Output> {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    Command::new(&path)
        .args(args)
        .current_dir(folder)
        .env("LC_ALL", "C")
        .stdin(Stdio::null())
        .output()
        .map_err(|source| Error::Run { path, source })
}

/// The version a program says it has.
pub(crate) fn version(tool: &'static str, path: &Path) -> Result<String> {
    let output = run(path, &[OsStr::new("--version")], Path::new("."))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let version = text.split_once(", V").and_then(|(_, rest)| rest.split_whitespace().next());
    version.map(str::to_owned).ok_or(Error::Unexpected { tool, text })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resources_are_read_from_what_the_assembler_says() {
        let said = "ptxas info    : 0 bytes gmem\n\
            ptxas info    : Compiling entry function 'a_b' for 'sm_100a'\n\
            ptxas info    : Function properties for a_b\n    88 bytes stack frame, 12 bytes spill stores, 16 bytes spill loads\n\
            ptxas info    : Used 54 registers, used 3 barriers, 88 bytes cumulative stack size, 1024 bytes smem, 400 bytes cmem[0]\n\
            ptxas info    : Compile time = 91.393 ms\n";
        let (functions, messages) = read(said).unwrap();
        let want = Resources {
            entry: "a_b".to_owned(),
            registers: 54,
            barriers: 3,
            stack: 88,
            spill_stores: 12,
            spill_loads: 16,
            shared: 1024,
        };
        assert_eq!((functions, messages), (vec![want], vec![]));
    }

    #[test]
    fn messages_keep_line_and_number() {
        let said = "ptxas kernel.ptx, line 51; error   : Unknown modifier '.bar'\n\
            ptxas kernel.ptx, line 7; warning : odd: very\n\
            ptxas info    : (C7508) Potential Performance Loss: 'setmaxnreg' ignored.\n\
            ptxas fatal   : Ptx assembly aborted due to errors\n";
        let (_, messages) = read(said).unwrap();
        let shown: Vec<String> = messages.iter().map(Message::to_string).collect();
        let want = [
            "line 51: error: Unknown modifier '.bar'",
            "line 7: warning: odd: very",
            "advice: (C7508) Potential Performance Loss: 'setmaxnreg' ignored.",
        ];
        assert_eq!(shown, want);
        let renamed = read("ptxas-13 info    : 0 bytes gmem\nptxas-13 fatal   : no\n").unwrap().1;
        assert_eq!(renamed[0].to_string(), "error: no");
        let alone = read("ptxas fatal   : Ptx assembly aborted due to errors\n").unwrap().1;
        assert_eq!(alone.len(), 1, "a refusal without a reason is still a refusal");
    }

    #[test]
    fn what_nobody_expects_is_an_error() {
        for said in ["Segmentation fault", "ptxas hint : x", "    many bytes stack frame"] {
            assert!(matches!(read(said), Err(Error::Unexpected { .. })), "{said}");
        }
    }
}
