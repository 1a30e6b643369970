//! Whether what a thread waits for is still wanted, as Ctrl-C says.
//!
//! Law:
//! 1. Only the program's own thread notices signals, through a hook that is handed in once. Threads that
//!    help it with an operation have its flag, and no other operation's.
//! 2. Who waits for something that may never come asks after each `PULSE`.

use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

pub const PULSE: Duration = Duration::from_millis(50);

static HOOK: OnceLock<fn() -> bool> = OnceLock::new();

thread_local! {
    static FLAG: RefCell<Arc<AtomicBool>> = RefCell::default();
}

/// Hand in what says whether the handler of a signal wants this thread to stop.
pub fn set_hook(hook: fn() -> bool) {
    let _ = HOOK.set(hook);
}

/// The flag of what this thread does, for threads that help it.
pub fn flag() -> Arc<AtomicBool> {
    FLAG.with_borrow(Arc::clone)
}

/// Help with what another thread does.
pub fn helping<T>(flag: &Arc<AtomicBool>, act: impl FnOnce() -> T) -> T {
    let before = FLAG.replace(flag.clone());
    let done = act();
    FLAG.set(before);
    done
}

/// Whether this thread shall wait no longer, from now on until `reset`.
pub fn is_stopped() -> bool {
    let flag = flag();
    let stopped = flag.load(SeqCst) || HOOK.get().is_some_and(|hook| hook());
    if stopped {
        flag.store(true, SeqCst);
    }
    stopped
}

/// Begin another operation.
pub fn reset() {
    FLAG.take();
}
