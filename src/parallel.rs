//! The same work on many items, shared by threads.

use std::thread;

/// Applies `work` to every item on at most `threads` threads; results in the order of the items.
///
/// # Panics
/// Where `work` does.
pub fn in_parallel<T: Sync, R: Send>(items: &[T], threads: usize, work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let threads = threads.clamp(1, items.len().max(1));
    let work = &work;
    let mut results: Vec<Option<R>> = Vec::new();
    results.resize_with(items.len(), || None);
    let parts: Vec<Vec<(usize, R)>> = thread::scope(|scope| {
        let spawn = |first: usize| {
            let mine = items.iter().enumerate().skip(first).step_by(threads);
            scope.spawn(move || mine.map(|(at, item)| (at, work(item))).collect())
        };
        let handles: Vec<_> = (0..threads).map(spawn).collect();
        handles
            .into_iter()
            .map(|handle| handle.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect()
    });
    for (at, result) in parts.into_iter().flatten() {
        results[at] = Some(result);
    }
    results.into_iter().flatten().collect()
}
