//! Read-only memory mapping of a file: the one place that trusts the file not to shrink underneath.

use std::fs::File;
use std::ops::Deref;
use std::path::Path;

use memmap2::Mmap;

use crate::error::{Error, Result};

/// A file mapped into memory; its pages are read when touched and belong to the page cache.
#[derive(Debug)]
pub(crate) struct Mapping(Option<Mmap>);

impl Mapping {
    /// Maps a whole file.
    pub(crate) fn open(path: &Path) -> Result<Mapping> {
        let fault = |source| Error::Read { path: path.to_owned(), source };
        let file = File::open(path).map_err(fault)?;
        if file.metadata().map_err(fault)?.len() == 0 {
            return Ok(Mapping(None));
        }
        // SAFETY: the mapping is private and read-only, and the type hands out shared bytes only. A file that another
        // process truncates or rewrites while it is mapped is outside our contract, as for every mapped checkpoint.
        let map = unsafe { Mmap::map(&file) }.map_err(fault)?;
        Ok(Mapping(Some(map)))
    }
}

impl Deref for Mapping {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.0.as_deref().unwrap_or(&[])
    }
}
