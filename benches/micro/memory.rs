//! Memory that is too large for any cache, on small or on huge pages, of which a bench uses ever new parts.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::ptr::NonNull;

/// Bytes that no cache holds.
pub(crate) const COLD: usize = 416 << 20;

/// Size and alignment of a huge page.
const HUGE: usize = 2 << 20;

/// The pages that memory is asked for on; the system may refuse.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pages {
    /// 4 KB.
    Small,
    /// 2 MB.
    Huge,
}

/// [`COLD`] bytes.
#[derive(Debug)]
pub(crate) struct Pool {
    at: NonNull<u8>,
    unit: usize,
    next: usize,
}

impl Pool {
    const LAYOUT: Layout = match Layout::from_size_align(COLD, HUGE) {
        Ok(layout) => layout,
        Err(_) => panic!("the size is a multiple of the alignment"),
    };

    /// Zeroed, every page touched.
    pub(crate) fn new(pages: Pages) -> Pool {
        // SAFETY: the layout's size is not zero.
        let at = unsafe { alloc_zeroed(Self::LAYOUT) };
        let Some(at) = NonNull::new(at) else { handle_alloc_error(Self::LAYOUT) };
        #[cfg(target_os = "linux")]
        {
            let advice = match pages {
                Pages::Small => libc::MADV_NOHUGEPAGE,
                Pages::Huge => libc::MADV_HUGEPAGE,
            };
            // SAFETY: the range is the block just allocated. The advice changes no contents; a refusal is harmless.
            unsafe { libc::madvise(at.as_ptr().cast(), COLD, advice) };
        }
        #[cfg(not(target_os = "linux"))]
        let _ = pages;
        let mut pool = Pool { at, unit: COLD, next: 0 };
        pool.fill(&[1; 64]);
        pool
    }

    /// Fills the pool with copies of `unit`, 64-byte aligned; [`Pool::next`] gives one after another.
    pub(crate) fn fill(&mut self, unit: &[u8]) {
        self.unit = unit.len().next_multiple_of(64);
        let size = self.unit;
        // SAFETY: the block is ours, initialised (zeroed) and exclusively borrowed.
        let bytes = unsafe { std::slice::from_raw_parts_mut(self.at.as_ptr(), COLD) };
        for part in bytes.chunks_exact_mut(size) {
            part[..unit.len()].copy_from_slice(unit);
        }
        self.next = 0;
    }

    /// The next copy of the unit, not used since all others were.
    #[inline]
    pub(crate) fn next(&mut self) -> *const u8 {
        if self.next + self.unit > COLD {
            self.next = 0;
        }
        // SAFETY: the unit lies within the block.
        let at = unsafe { self.at.as_ptr().add(self.next) };
        self.next += self.unit;
        at
    }

    /// The next unit as cache lines.
    pub(crate) fn next_lines(&mut self) -> &[[u64; 8]] {
        let at = self.next();
        // SAFETY: the unit lies within the block, which is initialised, 64-byte aligned and borrowed meanwhile.
        unsafe { std::slice::from_raw_parts(at.cast(), self.unit / 64) }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        // SAFETY: allocated in `new` with this layout.
        unsafe { dealloc(self.at.as_ptr(), Self::LAYOUT) };
    }
}
