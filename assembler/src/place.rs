//! Where the foreign programs are looked for.

use crate::error::{Error, Result};
use std::path::{Path, PathBuf};

/// Folder of installed programs, from the repository's root.
pub const FOLDER: &str = ".tools/bin";

/// Name of the oldest assembler that texts must pass, in [`FOLDER`].
pub const FLOOR: &str = "ptxas-13.0";

/// A program: what the variable `variable` names, else `name` in [`FOLDER`] of this folder, of one above or of the
/// repository this crate was built in, else, where `search` is set, in the folders of `PATH`.
///
/// # Errors
/// [`Error::Absent`]. A variable that names no file is an error and not a reason to look elsewhere.
pub(crate) fn find(name: &'static str, variable: &str, search: bool) -> Result<PathBuf> {
    if let Some(named) = std::env::var_os(variable) {
        let path = PathBuf::from(named);
        if path.is_file() {
            return Ok(path);
        }
        let reason = format!("{variable} names {}, which is no file", path.display());
        return Err(Error::Absent { tool: name, reason });
    }
    let here = std::env::current_dir().unwrap_or_default();
    let built = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or(Path::new(""));
    let installed = here.ancestors().chain([built]).map(|folder| folder.join(FOLDER));
    let path = std::env::var_os("PATH").filter(|_| search).unwrap_or_default();
    let mut places = installed.chain(std::env::split_paths(&path)).map(|folder| folder.join(name));
    places.find(|file| file.is_file()).ok_or_else(|| {
        let beyond = if search { ", nor on PATH" } else { "" };
        let reason = format!(
            "it is neither in {FOLDER} of this folder or one above{beyond}; `cargo xtask tools` installs it, or {variable} names it"
        );
        Error::Absent { tool: name, reason }
    })
}
