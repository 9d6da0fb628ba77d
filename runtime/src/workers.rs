//! Worker threads that stay alive: they take grid tiles of one kernel after another.
//!
//! Which thread runs a tile does not matter for the result: tiles write disjoint memory and none reads what another
//! tile of the same launch writes. Between launches the workers spin for a short while, then park.

use crate::code::Entry;
use crate::error::{Error, Result};
use crate::memory::Memory;
use std::cell::UnsafeCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread::{self, JoinHandle, Thread};

/// Turns of the spin loop before a waiting worker parks: some tens of microseconds.
const SPINS: usize = 20_000;

/// One launch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Job {
    /// The kernel.
    pub(crate) entry: Entry,
    /// Its arguments.
    pub(crate) args: *const u64,
    /// Its micro-kernels.
    pub(crate) table: *const usize,
    /// Number of grid tiles.
    pub(crate) tiles: usize,
}

/// The launch is open: workers may still join it.
const OPEN: u64 = 1 << 32;
/// One launch on, in [`Shared::state`].
const NEXT: u64 = 1 << 33;
/// The workers that have joined and not left.
const JOINED: u64 = OPEN - 1;

#[derive(Debug)]
struct Shared {
    job: UnsafeCell<Option<Job>>,
    /// Number of the launch, whether it is open, and how many workers have joined it. A worker joins by counting itself
    /// in while the launch is open; one that comes late, because the system ran something else, is not waited for.
    state: AtomicU64,
    /// Next tile to take.
    next: AtomicUsize,
    stop: AtomicBool,
    parked: Vec<AtomicBool>,
    chunk: AtomicUsize,
}

// SAFETY: `job` is written by the launching thread only while the launch is closed and no worker is counted in, and read
// by a worker only after it has counted itself in on an open launch (acquire of the store that opened it). The pointers
// in it are valid until `run` returns, which is after the launch was closed and the last worker counted itself out.
unsafe impl Sync for Shared {}
// SAFETY: as above.
unsafe impl Send for Shared {}

/// A pool of `threads − 1` workers; the calling thread is the last one.
#[derive(Debug)]
pub(crate) struct Workers {
    shared: Arc<Shared>,
    handles: Vec<JoinHandle<()>>,
    threads: Vec<Thread>,
    scratch: Vec<Arc<Memory>>,
}

impl Workers {
    /// Starts the workers. Each thread gets `scratch_bytes` of scratch memory.
    pub(crate) fn new(threads: usize, scratch_bytes: usize) -> Result<Self> {
        let count = threads.max(1) - 1;
        let shared = Arc::new(Shared {
            job: UnsafeCell::new(None),
            state: AtomicU64::new(0),
            next: AtomicUsize::new(0),
            stop: AtomicBool::new(false),
            parked: (0..count).map(|_| AtomicBool::new(false)).collect(),
            chunk: AtomicUsize::new(1),
        });
        let scratch: Result<Vec<Arc<Memory>>> =
            (0..=count).map(|_| Memory::zeroed(scratch_bytes, "scratch memory").map(Arc::new)).collect();
        let mut workers = Workers { shared, handles: Vec::new(), threads: Vec::new(), scratch: scratch? };
        for i in 0..count {
            let shared = workers.shared.clone();
            let scratch = workers.scratch[i + 1].clone();
            let handle = thread::Builder::new()
                .name(format!("tessera-{}", i + 1))
                .spawn(move || work(&shared, i, scratch.as_ptr()))
                .map_err(|e| Error::Request(format!("cannot start worker thread {}: {e}", i + 1)))?;
            workers.threads.push(handle.thread().clone());
            workers.handles.push(handle);
        }
        Ok(workers)
    }
    /// Number of threads, the caller's included.
    pub(crate) fn threads(&self) -> usize {
        self.scratch.len()
    }
    /// Runs all tiles of `job` and returns when they are done; with `alone`, on the calling thread.
    ///
    /// # Safety
    /// `job` must follow the calling convention of `tessera_ir::artifact` with pointers valid for every access the
    /// kernel makes, and its scratch need must not exceed the pool's.
    pub(crate) unsafe fn run(&mut self, job: Job, alone: bool) {
        let scratch = self.scratch[0].as_ptr();
        if alone || self.handles.is_empty() || job.tiles < 2 {
            // SAFETY: the caller vouches for the job.
            unsafe { (job.entry)(job.args, 0, job.tiles as u64, scratch, job.table) };
            return;
        }
        let s = &*self.shared;
        // About eight pieces a thread: fine enough to balance, coarse enough to keep the counter cool.
        s.chunk.store((job.tiles / (self.threads() * 8)).max(1), Ordering::Relaxed);
        s.next.store(0, Ordering::Relaxed);
        // SAFETY: the last launch was closed and every worker left it, so none reads the cell now.
        unsafe { *s.job.get() = Some(job) };
        let launch = (s.state.load(Ordering::Relaxed) & !(OPEN | JOINED)).wrapping_add(NEXT);
        // SeqCst on both sides: a worker that parks sets `parked` before it looks at the state once more.
        s.state.store(launch | OPEN, Ordering::SeqCst);
        for (flag, thread) in s.parked.iter().zip(&self.threads) {
            if flag.load(Ordering::SeqCst) {
                thread.unpark();
            }
        }
        // SAFETY: the caller vouches for the job.
        unsafe { take_tiles(s, job, scratch) };
        s.state.fetch_and(!OPEN, Ordering::AcqRel);
        let mut spins = 0usize;
        while s.state.load(Ordering::Acquire) & JOINED != 0 {
            spins += 1;
            if spins.is_multiple_of(1024) {
                thread::yield_now();
            } else {
                std::hint::spin_loop();
            }
        }
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::SeqCst);
        for (handle, thread) in self.handles.drain(..).zip(&self.threads) {
            thread.unpark();
            // A worker runs no code that unwinds; if it died all the same, there is nothing left to wait for.
            let _ = handle.join();
        }
    }
}

/// # Safety
/// As [`Workers::run`].
unsafe fn take_tiles(s: &Shared, job: Job, scratch: *mut u8) {
    let chunk = s.chunk.load(Ordering::Relaxed);
    loop {
        let begin = s.next.fetch_add(chunk, Ordering::Relaxed);
        if begin >= job.tiles {
            return;
        }
        let end = (begin + chunk).min(job.tiles);
        // SAFETY: the range lies within the launch; the caller vouches for the rest.
        unsafe { (job.entry)(job.args, begin as u64, end as u64, scratch, job.table) };
    }
}

fn work(s: &Shared, me: usize, scratch: *mut u8) {
    // The number of the last launch that this worker joined or saw closed.
    let mut done = 0;
    let mut spins = 0;
    while !s.stop.load(Ordering::SeqCst) {
        let state = s.state.load(Ordering::SeqCst);
        let launch = state & !(OPEN | JOINED);
        if launch != done && state & OPEN != 0 {
            if s.state.compare_exchange(state, state + 1, Ordering::AcqRel, Ordering::Relaxed).is_err() {
                continue;
            }
            // SAFETY: counted in on an open launch, so the job was written and stays until this worker counts out.
            if let Some(job) = unsafe { *s.job.get() } {
                // SAFETY: `Workers::run` vouches for the job until this worker counts out.
                unsafe { take_tiles(s, job, scratch) };
            }
            s.state.fetch_sub(1, Ordering::Release);
            done = launch;
            spins = 0;
            continue;
        }
        spins += 1;
        if spins < SPINS {
            std::hint::spin_loop();
            continue;
        }
        s.parked[me].store(true, Ordering::SeqCst);
        if s.state.load(Ordering::SeqCst) == state && !s.stop.load(Ordering::SeqCst) {
            thread::park();
        }
        s.parked[me].store(false, Ordering::SeqCst);
        spins = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Adds `1 << (tile % 60)` to the element of each of its tiles.
    unsafe extern "C" fn mark(
        args: *const u64,
        begin: u64,
        end: u64,
        _scratch: *mut u8,
        _table: *const usize,
    ) {
        for tile in begin..end {
            // SAFETY: the test passes one array with an element for each tile.
            unsafe { *(*args as *mut u64).add(tile as usize) += 1 << (tile % 60) };
        }
    }

    #[test]
    fn every_tile_runs_once_for_any_number_of_threads_and_launches() {
        for threads in 1..=4 {
            let mut workers = Workers::new(threads, 64).expect("threads");
            let mut marks = vec![0u64; 997];
            let args = [marks.as_mut_ptr() as u64];
            for tiles in (0..300).chain([997]) {
                marks.fill(0);
                let job = Job { entry: mark, args: args.as_ptr(), table: std::ptr::null(), tiles };
                // SAFETY: `mark` touches the first `tiles` elements of `marks` only, which outlives the launch.
                unsafe { workers.run(job, tiles == 5) };
                let right =
                    marks.iter().enumerate().all(|(i, m)| *m == if i < tiles { 1 << (i % 60) } else { 0 });
                assert!(right, "{threads} threads, {tiles} tiles");
            }
        }
    }
}
