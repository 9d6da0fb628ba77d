//! Worker threads that stay alive: they take grid tiles of one kernel after another.
//!
//! Which thread runs a tile does not matter for the result: tiles write disjoint memory and none reads what another
//! tile of the same launch writes. Between launches the workers spin for a short while, then park.

use crate::code::Entry;
use crate::error::{Error, Result};
use crate::memory::Memory;
use std::cell::UnsafeCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
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

#[derive(Debug)]
struct Shared {
    job: UnsafeCell<Option<Job>>,
    /// Number of the current launch; workers wait for it to change.
    epoch: AtomicUsize,
    /// Next tile to take.
    next: AtomicUsize,
    /// Workers still busy with the current launch.
    busy: AtomicUsize,
    stop: AtomicBool,
    parked: Vec<AtomicBool>,
    chunk: AtomicUsize,
}

// SAFETY: `job` is written by the launching thread only while no worker is busy (`busy` is 0), and read by workers
// only after they have seen the new `epoch` (release/acquire), before they count themselves out of `busy`. The pointers
// in it are valid for the whole launch, since `run` returns only after `busy` is 0 again.
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
            epoch: AtomicUsize::new(0),
            next: AtomicUsize::new(0),
            busy: AtomicUsize::new(0),
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
    /// Runs all tiles of `job` and returns when they are done.
    ///
    /// # Safety
    /// `job` must follow the calling convention of `tessera_ir::artifact` with pointers valid for every access the
    /// kernel makes, and its scratch need must not exceed the pool's.
    pub(crate) unsafe fn run(&mut self, job: Job) {
        let scratch = self.scratch[0].as_ptr();
        if self.handles.is_empty() || job.tiles < 2 {
            // SAFETY: the caller vouches for the job.
            unsafe { (job.entry)(job.args, 0, job.tiles as u64, scratch, job.table) };
            return;
        }
        let s = &*self.shared;
        // About eight pieces a thread: fine enough to balance, coarse enough to keep the counter cool.
        s.chunk.store((job.tiles / (self.threads() * 8)).max(1), Ordering::Relaxed);
        s.next.store(0, Ordering::Relaxed);
        s.busy.store(self.handles.len(), Ordering::Relaxed);
        // SAFETY: no worker is busy between launches, so none reads the cell now.
        unsafe { *s.job.get() = Some(job) };
        // SeqCst on both sides: a worker that parks sets `parked` before it looks at the epoch once more.
        s.epoch.fetch_add(1, Ordering::SeqCst);
        for (flag, thread) in s.parked.iter().zip(&self.threads) {
            if flag.load(Ordering::SeqCst) {
                thread.unpark();
            }
        }
        // SAFETY: the caller vouches for the job.
        unsafe { take_tiles(s, job, scratch) };
        let mut spins = 0usize;
        while s.busy.load(Ordering::Acquire) != 0 {
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
        self.shared.epoch.fetch_add(1, Ordering::SeqCst);
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
    let mut seen = 0;
    loop {
        let mut spins = 0;
        loop {
            let now = s.epoch.load(Ordering::SeqCst);
            if now != seen {
                seen = now;
                break;
            }
            spins += 1;
            if spins < SPINS {
                std::hint::spin_loop();
                continue;
            }
            s.parked[me].store(true, Ordering::SeqCst);
            if s.epoch.load(Ordering::SeqCst) == seen {
                thread::park();
            }
            s.parked[me].store(false, Ordering::SeqCst);
        }
        if s.stop.load(Ordering::SeqCst) {
            return;
        }
        // SAFETY: the epoch changed, so the launching thread has written the job and waits for `busy`.
        if let Some(job) = unsafe { *s.job.get() } {
            // SAFETY: `Workers::run` vouches for the job while `busy` is not 0.
            unsafe { take_tiles(s, job, scratch) };
        }
        s.busy.fetch_sub(1, Ordering::Release);
    }
}
