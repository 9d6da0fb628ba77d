//! The map of dynamic shared memory: regions handed out one after another.

/// Regions of shared memory, by offset from its start.
#[derive(Clone, Debug, Default)]
pub(super) struct Map {
    end: u32,
}

impl Map {
    /// A region of `bytes` at a multiple of `align`, a power of two up to 1024.
    pub(super) fn take(&mut self, bytes: u32, align: u32) -> u32 {
        let at = self.end.next_multiple_of(align);
        self.end = at + bytes;
        at
    }
    /// Bytes handed out.
    pub(super) fn bytes(&self) -> u32 {
        self.end
    }
}
