//! In steady state a decode step allocates nothing, on any thread; memory stays near checkpoint and caches.

mod common;

use common::golden::{Golden, ids};
use common::{session, tiny};
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};
use tessera::compile::Build;
use tessera::model::graph::Mode;
use tessera::model::rows::Wanted;
use tessera::runtime::{Feed, Sampler, Sampling};
use tessera::session::Size;

/// The system's allocator with a count of what it was asked for.
struct Counting;

static CALLS: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call goes to the system's allocator unchanged; counting has no effect on memory.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        CALLS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller's promises are those of this function.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        CALLS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: as above.
        unsafe { System.dealloc(at, layout) }
    }
    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        CALLS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: as above.
        unsafe { System.realloc(at, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Memory beyond checkpoint and caches.
const OVERHEAD: usize = 150 << 20;

/// One test, so that nothing else allocates meanwhile.
#[test]
fn decode_steps_allocate_nothing_and_memory_stays_small() {
    let golden = Golden::open("tiny-v41");
    let prompt = ids(&golden.json["prompts"][5]["ids"]);
    for (mode, temperature) in [(Mode::Ref, 0.0), (Mode::F32, 0.7)] {
        let session = session(tiny(), Build { draft: true, ..Build::plain(mode) });
        let size = Size { threads: 2, slots: 1, context: prompt.len() + 80, rows: 64, all_logits: false };
        let mut engine = session.engine(size).unwrap();
        let mut sampler = Sampler::new(engine.config().text.vocab_size);
        let sampling = Sampling { temperature, seed: 5, ..Sampling::default() };
        for piece in prompt.chunks(64) {
            engine.feed(&[Feed { slot: 0, tokens: piece, logits: Wanted::Last }]).unwrap();
        }
        let mut token = 0;
        let mut before = 0;
        for step in 0..70 {
            // The first steps may still grow the lists of rows to their size.
            if step == 4 {
                before = CALLS.load(Ordering::Relaxed);
            }
            token = sampler.choose(engine.logits().unwrap(), &sampling, engine.len(0));
            engine.draft(&[(0, token)]).unwrap();
            engine.feed(&[Feed { slot: 0, tokens: &[token], logits: Wanted::Last }]).unwrap();
        }
        let calls = CALLS.load(Ordering::Relaxed) - before;
        assert_eq!(calls, 0, "{} allocator calls in 66 steps of {}, last token {token}", calls, mode.name());
        if let Some(peak) = peak_memory() {
            let caches = engine.instance().state_bytes();
            let limit = session.folder.report.used_bytes as usize + caches + OVERHEAD;
            assert!(peak <= limit, "{peak} bytes at the peak, {limit} allowed");
        }
    }
}

/// The largest resident size of this process so far, where the system tells it.
fn peak_memory() -> Option<usize> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    Some(line.split_whitespace().nth(1)?.parse::<usize>().ok()? * 1024)
}
