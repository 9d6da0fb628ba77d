//! The CPU: machine code from Tile IR, through Cranelift, with calls of the runtime's micro-kernels.
//!
//! A kernel's roles become one program ([`tessera_ir::tile::sequence`]), a program becomes one function that runs a range of
//! grid tiles (calling convention: [`tessera_ir::artifact`]). Rings are regions of scratch memory, small tiles are
//! registers, chains of elementwise ops are one loop of 4-wide vectors, and everything heavy is a call through the
//! artifact's table of micro-kernels. The code has no relocations: it may be copied anywhere, 64-byte aligned.

mod calls;
mod emit;
mod scratch;

pub use calls::{Arg, Call};

use crate::error::Error;
use cranelift_codegen::Context;
use cranelift_codegen::control::ControlPlane;
use cranelift_codegen::isa::{Builder, OwnedTargetIsa};
use cranelift_codegen::settings::{self, Configurable};
use tessera_ir::Verified;
use tessera_ir::artifact;
use tessera_ir::tile::{self, Kernel};

/// How code is made for a CPU.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CpuOptions {
    /// Instruction set extensions, by the names the standard library's detection uses; `None`: those of this machine.
    pub features: Option<Vec<String>>,
    /// Lets Cranelift check every function. Always on in debug builds.
    pub verify: bool,
}

/// x86-64 extensions that Cranelift's code for 128-bit vectors profits from: our name, its flag.
const X86: &[(&str, &str)] = &[
    ("sse3", "has_sse3"),
    ("ssse3", "has_ssse3"),
    ("sse4.1", "has_sse41"),
    ("sse4.2", "has_sse42"),
    ("popcnt", "has_popcnt"),
    ("avx", "has_avx"),
    ("avx2", "has_avx2"),
    ("bmi1", "has_bmi1"),
    ("bmi2", "has_bmi2"),
    ("lzcnt", "has_lzcnt"),
];

/// The CPU that code is made for.
pub struct Cpu {
    isa: OwnedTargetIsa,
    features: Vec<String>,
}

impl Cpu {
    /// This machine.
    ///
    /// # Errors
    /// [`Error::Host`] if Cranelift has no code for it.
    pub fn host() -> Result<Cpu, Error> {
        Self::with(&CpuOptions::default())
    }

    /// A CPU of this machine's architecture.
    ///
    /// # Errors
    /// [`Error::Host`] if Cranelift has no code for it, or not for one of the features.
    pub fn with(options: &CpuOptions) -> Result<Cpu, Error> {
        let host = |why: &str| Error::Host(why.to_owned());
        let native = cranelift_native::builder_with_options(true).map_err(host)?;
        let mut builder = cranelift_native::builder_with_options(false).map_err(host)?;
        let known = match builder.triple().architecture.to_string().as_str() {
            "x86_64" => X86,
            _ => &[],
        };
        let flags = flags(options.verify || cfg!(debug_assertions))?;
        let features = match &options.features {
            Some(list) => list.clone(),
            None => present(&native, &flags, known)?,
        };
        for name in &features {
            let Some((_, flag)) = known.iter().find(|(n, _)| n == name) else {
                return Err(Error::Host(format!("`{name}` is no feature that the code generator knows")));
            };
            builder.enable(flag).map_err(|e| Error::Host(e.to_string()))?;
        }
        let isa = builder.finish(flags).map_err(|e| Error::Host(e.to_string()))?;
        Ok(Cpu { isa, features })
    }

    /// Compiles a kernel of an operator family.
    ///
    /// # Errors
    /// [`Error::Sequence`] if its roles have no order, [`Error::Unsupported`] with every op that has no code,
    /// [`Error::Emit`] if the code generator fails.
    pub fn compile(&self, family: &str, k: &Verified<Kernel>) -> Result<artifact::Kernel, Error> {
        let emitted = self.emit(k)?;
        let failed = |reason: String| Error::Emit { kernel: k.name.clone(), reason };
        let mut context = Context::for_function(emitted.func);
        let compiled = context
            .compile(&*self.isa, &mut ControlPlane::default())
            .map_err(|e| failed(cranelift_codegen::print_errors::pretty_error(e.func, e.inner)))?;
        if let Some(reloc) = compiled.buffer.relocs().first() {
            return Err(failed(format!("the code refers to {:?}", reloc.target)));
        }
        if compiled.buffer.alignment > ENTRY_ALIGN {
            return Err(failed(format!("the code wants alignment {}", compiled.buffer.alignment)));
        }
        let code = compiled.code_buffer().to_vec();
        let params = k.params.iter().map(|p| artifact::Param {
            name: p.name.clone(),
            ty: p.ty.clone(),
            access: p.access,
        });
        Ok(artifact::Kernel {
            name: k.name.clone(),
            family: family.to_owned(),
            code,
            imports: emitted.imports,
            params: params.collect(),
            symbols: emitted.symbols,
            grid: k.grid.clone(),
            scratch: emitted.scratch,
        })
    }

    /// The function that `compile` makes, before Cranelift's optimisations, in its text form.
    ///
    /// # Errors
    /// As [`Cpu::compile`].
    pub fn clif(&self, k: &Verified<Kernel>) -> Result<String, Error> {
        Ok(self.emit(k)?.func.display().to_string())
    }

    /// CPU features that the code needs, by the names the standard library's detection uses.
    pub fn features(&self) -> Vec<String> {
        self.features.clone()
    }

    /// Name of the target in artifacts.
    pub fn target(&self) -> String {
        format!("cpu-{}", self.isa.triple().architecture)
    }

    fn emit(&self, k: &Kernel) -> Result<emit::Emitted, Error> {
        match k.target {
            tile::Target::Cpu => {}
            tile::Target::Sm100 => {
                return Err(Error::Machine {
                    kernel: k.name.clone(),
                    written: k.target.name(),
                    asked: "cpu",
                });
            }
        }
        let program = tile::sequence(k)
            .map_err(|fault| Error::Sequence { kernel: k.name.clone(), fault: Box::new(fault) })?;
        emit::emit(k, &program, &*self.isa)
            .map_err(|faults| Error::Unsupported { kernel: k.name.clone(), faults })
    }
}

/// What the loader aligns a kernel's first byte to.
const ENTRY_ALIGN: u32 = 64;

fn flags(verify: bool) -> Result<settings::Flags, Error> {
    let mut b = settings::builder();
    let wanted = [
        ("opt_level", "speed"),
        ("is_pic", "true"),
        ("unwind_info", "false"),
        ("enable_probestack", "false"),
        ("enable_verifier", if verify { "true" } else { "false" }),
    ];
    for (name, value) in wanted {
        b.set(name, value).map_err(|e| Error::Host(format!("{name}: {e}")))?;
    }
    Ok(settings::Flags::new(b))
}

/// Which of `known` the native builder turned on.
fn present(native: &Builder, flags: &settings::Flags, known: &[(&str, &str)]) -> Result<Vec<String>, Error> {
    let isa = native.finish(flags.clone()).map_err(|e| Error::Host(e.to_string()))?;
    let on: Vec<&str> =
        isa.isa_flags().iter().filter(|v| v.as_bool() == Some(true)).map(|v| v.name).collect();
    Ok(known.iter().filter(|(_, flag)| on.contains(flag)).map(|(name, _)| (*name).to_owned()).collect())
}
