//! Installs the vendor's assembler and disassembler into a folder of the repository that git ignores.
//!
//! They come as Python packages that hold plain programs; nothing of Python's is installed. The programs are their vendor's
//! and under its licence: they are fetched for checking and never handed on.

use crate::Absent;
use crate::chores::root;
use anyhow::{Context, Result, bail};
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use tessera_assembler::{FLOOR, FOLDER};

/// A program in a pinned package.
struct Tool {
    package: &'static str,
    version: &'static str,
    /// Its name in the package's `bin` folder.
    program: &'static str,
    /// Its name here.
    name: &'static str,
}

/// The main assembler and disassembler, and the oldest assembler that texts must pass: the driver's own of CUDA 13.0 reads
/// nothing newer.
const TOOLS: &[Tool] = &[
    Tool { package: "nvidia-cuda-nvcc", version: "13.5.37", program: "ptxas", name: "ptxas" },
    Tool { package: "nvidia-cuda-nvdisasm", version: "13.5.37", program: "nvdisasm", name: "nvdisasm" },
    Tool { package: "nvidia-cuda-cuobjdump", version: "13.5.37", program: "cuobjdump", name: "cuobjdump" },
    Tool { package: "nvidia-cuda-nvcc", version: "13.0.48", program: "ptxas", name: FLOOR },
];

/// Writes the program of an archive (argument 1) whose name (2) lies in a folder `bin` to a file (3).
const UNPACK: &str = "\
import sys, zipfile
archive = zipfile.ZipFile(sys.argv[1])
names = [n for n in archive.namelist() if n.endswith('/bin/' + sys.argv[2])]
if len(names) != 1: sys.exit(f'{sys.argv[1]} holds {len(names)} programs {sys.argv[2]}')
open(sys.argv[3], 'wb').write(archive.read(names[0]))
";

/// Installs what is not there yet, and checks every version.
#[allow(clippy::print_stderr, reason = "a program for the terminal")]
pub(crate) fn install() -> Result<()> {
    let folder = root().join(FOLDER);
    fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    let missing: Vec<&Tool> = TOOLS
        .iter()
        .filter(|tool| version(&folder.join(tool.name)).as_deref() != Some(tool.version))
        .collect();
    if !missing.is_empty() {
        pip()?;
    }
    for tool in missing {
        eprintln!("fetching {} {} as {}/{}", tool.package, tool.version, FOLDER, tool.name);
        fetch(tool, &folder)?;
    }
    for tool in TOOLS {
        eprintln!("{FOLDER}/{:<10} {}", tool.name, tool.version);
    }
    Ok(())
}

/// What a program says its version is; nothing if it does not run.
fn version(path: &Path) -> Option<String> {
    let output = Command::new(path).arg("--version").output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    Some(text.split_once(", V")?.1.split_whitespace().next()?.to_owned())
}

/// Makes sure that packages can be fetched.
fn pip() -> Result<()> {
    let there = Command::new("python3").args(["-m", "pip", "--version"]).output();
    match there {
        Ok(output) if output.status.success() => Ok(()),
        Ok(_) => bail!(Absent(
            "python3 has no pip, which fetches the tools; Debian has it as python3-pip".to_owned()
        )),
        Err(error) => bail!(Absent(format!(
            "python3 does not start ({error}); its pip fetches the tools, Debian has both with python3-pip"
        ))),
    }
}

fn fetch(tool: &Tool, folder: &Path) -> Result<()> {
    let packages = folder.join("packages");
    if packages.exists() {
        fs::remove_dir_all(&packages).with_context(|| format!("cannot empty {}", packages.display()))?;
    }
    let pinned = format!("{}=={}", tool.package, tool.version);
    let args = [
        "-m",
        "pip",
        "download",
        "--no-deps",
        "--only-binary=:all:",
        "--disable-pip-version-check",
        "--quiet",
    ];
    let output = Command::new("python3")
        .args(args)
        .args(["--dest".as_ref(), packages.as_os_str(), OsStr::new(&pinned)])
        .output()
        .context("cannot start python3")?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        let last = said.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("it does not say why");
        bail!(Absent(format!("pip cannot fetch {pinned}: {last}; is there a network?")));
    }
    let archive = archive(&packages)?;
    let fresh = packages.join(tool.program);
    let output = Command::new("python3")
        .args([
            "-c".as_ref(),
            UNPACK.as_ref(),
            archive.as_os_str(),
            OsStr::new(tool.program),
            fresh.as_os_str(),
        ])
        .output()
        .context("cannot start python3")?;
    if !output.status.success() {
        bail!("cannot unpack {pinned}: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    executable(&fresh)?;
    match version(&fresh) {
        Some(found) if found == tool.version => {}
        Some(found) => bail!("{} of {pinned} says that it is version {found}", tool.program),
        None => bail!("{} of {pinned} does not run on this machine", tool.program),
    }
    let place = folder.join(tool.name);
    fs::rename(&fresh, &place).with_context(|| format!("cannot write {}", place.display()))?;
    fs::remove_dir_all(&packages).with_context(|| format!("cannot remove {}", packages.display()))
}

/// The one archive that was fetched.
fn archive(folder: &Path) -> Result<PathBuf> {
    let entries = fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))?;
    let paths: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    match &paths[..] {
        [path] => Ok(path.clone()),
        other => bail!("{} holds {} archives instead of one", folder.display(), other.len()),
    }
}

#[cfg(unix)]
fn executable(path: &Path) -> Result<()> {
    use std::os::unix::fs::PermissionsExt;
    let mode = fs::Permissions::from_mode(0o755);
    fs::set_permissions(path, mode).with_context(|| format!("cannot make {} executable", path.display()))
}

#[cfg(not(unix))]
fn executable(_: &Path) -> Result<()> {
    Ok(())
}
