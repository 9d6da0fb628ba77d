//! Time that a thread ran, which a busy machine changes less than it changes the time of day.

use std::time::Duration;

/// Time of the calling thread on a processor so far; where the system does not tell, time since the first call.
#[cfg(target_os = "linux")]
pub(crate) fn ran() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a place to write to.
    let status = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    assert_eq!(status, 0, "every Linux has this clock");
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Time of the calling thread on a processor so far; where the system does not tell, time since the first call.
#[cfg(not(target_os = "linux"))]
pub(crate) fn ran() -> Duration {
    static START: std::sync::OnceLock<std::time::Instant> = std::sync::OnceLock::new();
    START.get_or_init(std::time::Instant::now).elapsed()
}
