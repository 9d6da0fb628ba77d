//! Executable memory: the kernels of an artifact, copied into pages that are then made executable and read-only.

use crate::error::{Error, Result};
use crate::micro::{Isa, Symbol, resolve};
use tessera_ir::artifact::Artifact;

/// A compiled kernel's entry, see the calling convention in `tessera_ir::artifact`.
pub(crate) type Entry = unsafe extern "C" fn(*const u64, u64, u64, *mut u8, *const usize);

/// The code of all kernels of an artifact, and the addresses of the micro-kernels each of them calls.
#[derive(Debug)]
pub struct Code {
    base: *mut libc::c_void,
    len: usize,
    entries: Vec<Entry>,
    tables: Vec<Vec<usize>>,
}

// SAFETY: the pages are read-only and executable after `load`, and unmapped only when the last owner drops them.
unsafe impl Send for Code {}
// SAFETY: as above.
unsafe impl Sync for Code {}

/// Name of this machine as a target of artifacts.
pub fn host_target() -> String {
    format!("cpu-{}", std::env::consts::ARCH)
}

impl Code {
    /// Loads the kernels, micro-kernels taken for `isa`.
    pub fn load(artifact: &Artifact, isa: Isa) -> Result<Self> {
        let want = host_target();
        if artifact.target != want {
            return Err(Error::Target { have: artifact.target.clone(), want });
        }
        if let Some(f) = artifact.features.iter().find(|f| !has_feature(f)) {
            return Err(Error::Feature(f.clone()));
        }
        let mut tables = Vec::with_capacity(artifact.kernels.len());
        for k in &artifact.kernels {
            let table: Result<Vec<usize>> = k
                .imports
                .iter()
                .map(|name| match Symbol::parse(name) {
                    Some(s) => Ok(resolve(s, isa) as usize),
                    None => Err(Error::Import { kernel: k.name.clone(), import: name.clone() }),
                })
                .collect();
            tables.push(table?);
        }
        let len: usize =
            artifact.kernels.iter().map(|k| k.code.len().next_multiple_of(64)).sum::<usize>().max(64);
        let refused = || Error::Memory { what: "code".to_owned(), bytes: len };
        // SAFETY: a fresh private anonymous mapping; no existing memory is touched.
        let base = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                len,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        if base == libc::MAP_FAILED {
            return Err(refused());
        }
        let mut code = Code { base, len, entries: Vec::with_capacity(artifact.kernels.len()), tables };
        let mut at = 0;
        for k in &artifact.kernels {
            let to = base.cast::<u8>().wrapping_add(at);
            // SAFETY: `at + code.len() ≤ len` by the sum above, and the mapping is writable and ours. The transmuted
            // address is the kernel's first byte, whose code follows the convention of `Entry`; it is called only
            // after the mapping has become executable below.
            unsafe {
                std::ptr::copy_nonoverlapping(k.code.as_ptr(), to, k.code.len());
                code.entries.push(std::mem::transmute::<*mut u8, Entry>(to));
            }
            at += k.code.len().next_multiple_of(64);
        }
        // SAFETY: changes the protection of our own mapping.
        if unsafe { libc::mprotect(base, len, libc::PROT_READ | libc::PROT_EXEC) } != 0 {
            return Err(refused());
        }
        Ok(code)
    }
    /// Entry of kernel `i`.
    pub(crate) fn entry(&self, i: usize) -> Entry {
        self.entries[i]
    }
    /// Addresses of the micro-kernels that kernel `i` imports.
    pub(crate) fn table(&self, i: usize) -> &[usize] {
        &self.tables[i]
    }
}

impl Drop for Code {
    fn drop(&mut self) {
        // SAFETY: the mapping made in `load`; entries cannot outlive `self`'s owners.
        unsafe { libc::munmap(self.base, self.len) };
    }
}

/// True if the processor has the feature of this name. A name that is not known here counts as lacking.
fn has_feature(name: &str) -> bool {
    #[cfg(target_arch = "x86_64")]
    {
        match name {
            "sse3" => is_x86_feature_detected!("sse3"),
            "ssse3" => is_x86_feature_detected!("ssse3"),
            "sse4.1" => is_x86_feature_detected!("sse4.1"),
            "sse4.2" => is_x86_feature_detected!("sse4.2"),
            "popcnt" => is_x86_feature_detected!("popcnt"),
            "avx" => is_x86_feature_detected!("avx"),
            "avx2" => is_x86_feature_detected!("avx2"),
            "fma" => is_x86_feature_detected!("fma"),
            "bmi1" => is_x86_feature_detected!("bmi1"),
            "bmi2" => is_x86_feature_detected!("bmi2"),
            "lzcnt" => is_x86_feature_detected!("lzcnt"),
            _ => false,
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        let _ = name;
        false
    }
}
