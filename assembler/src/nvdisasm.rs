//! The disassembler: machine code as text.

use crate::error::{Error, Result};
use crate::place;
use crate::ptxas::{run, version};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

const NAME: &str = "nvdisasm";

/// An installed disassembler.
#[derive(Clone, Debug)]
pub struct Nvdisasm {
    path: PathBuf,
}

impl Nvdisasm {
    /// The one that `TESSERA_NVDISASM` names, else the one in `.tools/bin` here or above, else the one on `PATH`.
    ///
    /// # Errors
    /// [`Error::Absent`].
    pub fn find() -> Result<Nvdisasm> {
        Ok(Nvdisasm { path: place::find(NAME, "TESSERA_NVDISASM", true)? })
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

    /// The code sections of a cubin as text.
    ///
    /// # Errors
    /// It does not run, or cannot read the cubin.
    pub fn disassemble(&self, cubin: &[u8]) -> Result<String> {
        let failed = |source| Error::Run { path: self.path.clone(), source };
        let folder = tempfile::tempdir().map_err(failed)?;
        std::fs::write(folder.path().join("kernel.cubin"), cubin).map_err(failed)?;
        let output = run(&self.path, &["-c", "kernel.cubin"].map(OsStr::new), folder.path())?;
        if !output.status.success() {
            let text = String::from_utf8_lossy(&output.stderr).trim().to_owned();
            return Err(Error::Unexpected { tool: NAME, text });
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }
}
