//! The head of an entry, and the finished program.

use super::target::{Feature, PtxVersion, Target};
use super::ty::Ty;
use std::collections::BTreeMap;
use std::fmt::Write;

/// What a parameter is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParamKind {
    /// A pointer to global memory.
    Pointer,
    /// A 32-bit integer.
    U32,
    /// A 64-bit integer.
    U64,
    /// An f32.
    F32,
    /// A tensor map, 128 bytes aligned to 64.
    TensorMap,
}

impl ParamKind {
    /// The type of a load of the parameter; none for tensor maps, which are used by address.
    pub fn ty(self) -> Option<Ty> {
        match self {
            ParamKind::Pointer | ParamKind::U64 => Some(Ty::U64),
            ParamKind::U32 => Some(Ty::U32),
            ParamKind::F32 => Some(Ty::F32),
            ParamKind::TensorMap => None,
        }
    }
    /// Bytes and alignment in the parameter block.
    pub fn size(self) -> (u32, u32) {
        match self {
            ParamKind::Pointer | ParamKind::U64 => (8, 8),
            ParamKind::U32 | ParamKind::F32 => (4, 4),
            ParamKind::TensorMap => (128, 64),
        }
    }
}

/// A parameter of an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Param {
    /// Name, unique in the entry.
    pub name: String,
    /// What it is.
    pub kind: ParamKind,
}

/// Name and launch bounds of an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Name of the kernel: letters, digits and `_`, not beginning with a digit.
    pub name: String,
    /// Threads of a block, exactly.
    pub threads: u32,
    /// Blocks of a cluster in x; 1 for none.
    pub cluster: u32,
    /// Registers per thread at launch.
    pub max_registers: Option<u32>,
    /// The machine.
    pub target: Target,
    /// The language's version.
    pub version: PtxVersion,
    /// Lines put before the entry as comments.
    pub notes: Vec<String>,
}

impl Entry {
    /// An entry for B200, PTX 8.7, without cluster.
    pub fn new(name: &str, threads: u32) -> Self {
        Entry {
            name: name.to_owned(),
            threads,
            cluster: 1,
            max_registers: None,
            target: Target::Sm100a,
            version: PtxVersion(8, 7),
            notes: Vec::new(),
        }
    }
    /// With clusters of `blocks`.
    pub fn cluster(self, blocks: u32) -> Self {
        Entry { cluster: blocks, ..self }
    }
    /// With `registers` per thread at launch.
    pub fn max_registers(self, registers: u32) -> Self {
        Entry { max_registers: Some(registers), ..self }
    }
    /// For another machine.
    pub fn target(self, target: Target, version: PtxVersion) -> Self {
        Entry { target, version, ..self }
    }
    /// What is wrong with the head.
    pub(crate) fn faults(&self, params: &[Param]) -> Vec<String> {
        let mut faults = Vec::new();
        let mut check = |holds: bool, what: &dyn Fn() -> String| {
            if !holds {
                faults.push(what());
            }
        };
        check(is_name(&self.name), &|| format!("`{}` is no name for an entry", self.name));
        check((1..=1024).contains(&self.threads), &|| format!("blocks of {} threads", self.threads));
        check((1..=16).contains(&self.cluster), &|| format!("clusters of {} blocks", self.cluster));
        let registers = self.max_registers.unwrap_or(24);
        check((1..=255).contains(&registers), &|| format!("{registers} registers per thread"));
        check(self.version >= self.target.version(), &|| {
            format!("{} is newer than PTX {}", self.target, self.version)
        });
        check(self.notes.iter().all(|n| !n.contains('\n')), &|| "a note of two lines".to_owned());
        for (i, param) in params.iter().enumerate() {
            check(is_name(&param.name), &|| format!("`{}` is no name for a parameter", param.name));
            check(param.name != "smem", &|| "`smem` names shared memory".to_owned());
            check(param.name != self.name, &|| {
                format!("parameter `{}` is called like its entry", param.name)
            });
            check(params[..i].iter().all(|p| p.name != param.name), &|| {
                format!("two parameters `{}`", param.name)
            });
        }
        let bytes =
            params.iter().fold(0, |end: u32, p| end.next_multiple_of(p.kind.size().1) + p.kind.size().0);
        check(bytes <= 4096, &|| format!("parameters of {bytes} bytes; 4096 at most"));
        faults
    }
    /// The text up to the opening brace.
    pub(crate) fn head(&self, params: &[Param], shared: bool) -> String {
        let mut text = format!(".version {}\n.target {}\n.address_size 64\n\n", self.version, self.target);
        for note in &self.notes {
            // Writing into a string cannot fail.
            let _ = writeln!(text, "// {note}");
        }
        if shared {
            text.push_str(".extern .shared .align 1024 .b8 smem[];\n\n");
        }
        let _ = write!(text, ".visible .entry {}(", self.name);
        for (i, param) in params.iter().enumerate() {
            text.push_str(if i == 0 { "\n    " } else { ",\n    " });
            let name = &param.name;
            let _ = match param.kind {
                ParamKind::Pointer => write!(text, ".param .u64 .ptr .global .align 16 {name}"),
                ParamKind::U32 => write!(text, ".param .u32 {name}"),
                ParamKind::U64 => write!(text, ".param .u64 {name}"),
                ParamKind::F32 => write!(text, ".param .f32 {name}"),
                ParamKind::TensorMap => write!(text, ".param .align 64 .b8 {name}[128]"),
            };
        }
        text.push_str(if params.is_empty() { ")\n" } else { "\n)\n" });
        let _ = writeln!(text, ".reqntid {}, 1, 1", self.threads);
        if let Some(registers) = self.max_registers {
            let _ = writeln!(text, ".maxnreg {registers}");
        }
        if self.cluster > 1 {
            let _ = writeln!(text, ".explicitcluster\n.reqnctapercluster {}, 1, 1", self.cluster);
        }
        text
    }
}

fn is_name(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// A finished, legal program of one entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// The head it was made for.
    pub entry: Entry,
    /// Parameters in order.
    pub params: Vec<Param>,
    /// PTX.
    pub text: String,
    /// Instructions in the text.
    pub instructions: usize,
    /// What each form of instruction in the text needs, by mnemonic, followed by the special register that is
    /// read, if any, and by `count` where an arrival has one.
    pub forms: BTreeMap<String, (PtxVersion, Feature)>,
}

impl Program {
    /// The least version and set of instructions that the program is content with.
    pub fn requires(&self) -> (PtxVersion, Feature) {
        let least = (self.entry.target.version(), Feature::Sm80);
        self.forms.values().fold(least, |most, needs| (most.0.max(needs.0), most.1.max(needs.1)))
    }
}
