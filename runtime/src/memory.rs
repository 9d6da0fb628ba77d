//! Aligned, zeroed blocks of memory that JIT code and micro-kernels work on.

use crate::error::{Error, Result};
use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ptr::NonNull;

/// From this size on a block is aligned to huge pages and the system is asked for them.
const HUGE: usize = 2 << 20;

/// An owned block. Large blocks come from the system zero-filled and untouched, so unused parts take no memory.
#[derive(Debug)]
pub(crate) struct Memory {
    at: NonNull<u8>,
    layout: Layout,
}

// SAFETY: a block is plain bytes without interior references; who may touch them when is the executor's matter
// (kernels of one step write disjoint ranges), not tied to a thread.
unsafe impl Send for Memory {}
// SAFETY: as above; shared access through `&Memory` only reads.
unsafe impl Sync for Memory {}

impl Memory {
    /// A zeroed block of at least `bytes` bytes, 64-byte aligned. `what` serves the error message.
    pub(crate) fn zeroed(bytes: usize, what: &str) -> Result<Self> {
        let align = if bytes >= 2 * HUGE { HUGE } else { 64 };
        let refused = || Error::Memory { what: what.to_owned(), bytes };
        let layout = Layout::from_size_align(bytes.max(64), align).map_err(|_| refused())?;
        // SAFETY: the layout's size is not zero.
        let at = NonNull::new(unsafe { alloc_zeroed(layout) }).ok_or_else(refused)?;
        #[cfg(target_os = "linux")]
        if align == HUGE {
            // SAFETY: the range is the block just allocated. The advice changes no contents; a refusal is harmless.
            unsafe { libc::madvise(at.as_ptr().cast(), bytes, libc::MADV_HUGEPAGE) };
        }
        Ok(Memory { at, layout })
    }
    /// Size in bytes.
    pub(crate) fn len(&self) -> usize {
        self.layout.size()
    }
    /// Address of the first byte.
    pub(crate) fn as_ptr(&self) -> *mut u8 {
        self.at.as_ptr()
    }
    /// The bytes, for filling.
    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: the block is ours, initialised (zeroed) and exclusively borrowed.
        unsafe { std::slice::from_raw_parts_mut(self.at.as_ptr(), self.layout.size()) }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: allocated in `zeroed` with this layout.
        unsafe { dealloc(self.at.as_ptr(), self.layout) };
    }
}
