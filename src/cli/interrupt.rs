//! Ctrl-C: the first asks for an orderly end, the second ends the program at once.

use signal_hook::consts::SIGINT;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether the user asked for an end.
#[derive(Clone, Debug)]
pub(crate) struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Listens from now on. Where signals cannot be handled, Ctrl-C ends the program as usual.
    pub(crate) fn listen() -> Interrupt {
        let flag = Arc::new(AtomicBool::new(false));
        // In this order: the first signal finds the flag unset, so that only the second ends the program.
        let second = signal_hook::flag::register_conditional_shutdown(SIGINT, 130, flag.clone());
        if second.is_ok() {
            // Refused only for signals that cannot be caught.
            let _ = signal_hook::flag::register(SIGINT, flag.clone());
        }
        Interrupt(flag)
    }
    /// Whether Ctrl-C was pressed.
    pub(crate) fn requested(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
