//! Runs compiled kernels in this process: executable memory, arguments, guarded scratch memory.
#![allow(unsafe_code, reason = "calls machine code")]

use tessera_ir::Bindings;
use tessera_ir::artifact::Kernel;
use tessera_runtime::micro::{Isa, Symbol, resolve};

/// Bytes aligned for vectors, with a guard behind them.
#[derive(Clone, Debug)]
pub(crate) struct Memory {
    words: Vec<Line>,
    len: usize,
}

/// One cache line.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(align(64))]
struct Line([u8; 64]);

/// What undefined memory and guards hold: as f32 a NaN that no operation makes.
const POISON: u8 = 0xff;

impl Memory {
    /// Undefined bytes.
    pub(crate) fn poisoned(len: usize) -> Self {
        Memory { words: vec![Line([POISON; 64]); len.div_ceil(64) + 2], len }
    }
    /// These bytes.
    pub(crate) fn of(bytes: &[u8]) -> Self {
        let mut m = Self::poisoned(bytes.len());
        m.bytes_mut().copy_from_slice(bytes);
        m
    }
    fn all(&self) -> &[u8] {
        // SAFETY: lines are 64 bytes without padding, one after another.
        unsafe { std::slice::from_raw_parts(self.words.as_ptr().cast(), self.words.len() * 64) }
    }
    /// The bytes.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.all()[..self.len]
    }
    /// The bytes.
    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        let len = self.len;
        // SAFETY: as above, borrowed mutably.
        let all =
            unsafe { std::slice::from_raw_parts_mut(self.words.as_mut_ptr().cast(), self.words.len() * 64) };
        &mut all[..len]
    }
    /// Fails if something behind the bytes was written.
    pub(crate) fn check_guard(&self, what: &str) {
        assert!(self.all()[self.len..].iter().all(|b| *b == POISON), "{what}: written beyond its end");
    }
}

/// Runs tiles `range` of `kernel` on the memory planes of its parameters.
pub(crate) fn run(
    kernel: &Kernel,
    planes: &mut [Vec<Memory>],
    bindings: &Bindings,
    range: std::ops::Range<usize>,
) {
    let isa = Isa::detect();
    let table: Vec<usize> =
        kernel.imports.iter().map(|name| resolve(Symbol::parse(name).expect(name), isa) as usize).collect();
    let mut args: Vec<u64> = Vec::new();
    for memory in planes.iter_mut().flatten() {
        args.push(memory.words.as_mut_ptr() as u64);
    }
    args.extend(kernel.symbols.iter().map(|s| bindings.get(s).expect("bound") as u64));
    let mut scratch = Memory::poisoned(kernel.scratch.eval(bindings).expect("scratch"));
    let mut map = memmap2::MmapMut::map_anon(kernel.code.len().max(1)).expect("memory");
    map[..kernel.code.len()].copy_from_slice(&kernel.code);
    let map = map.make_exec().expect("executable memory");
    type Entry = unsafe extern "C" fn(*const u64, u64, u64, *mut u8, *const usize);
    // SAFETY: the mapping holds the code of a kernel, whose first byte is its entry.
    let entry = unsafe { std::mem::transmute::<*const u8, Entry>(map.as_ptr()) };
    // SAFETY: the calling convention of artifacts; every address stays alive and has the kernel's sizes.
    unsafe {
        entry(
            args.as_ptr(),
            range.start as u64,
            range.end as u64,
            scratch.words.as_mut_ptr().cast(),
            table.as_ptr(),
        );
    }
    scratch.check_guard(&format!("{}, scratch memory", kernel.name));
    for (p, memories) in kernel.params.iter().zip(planes.iter()) {
        memories.iter().for_each(|m| m.check_guard(&p.name));
    }
}
