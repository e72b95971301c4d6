//! Asking a session to stop what it runs.
//!
//! A cancel is a wish: it withdraws a statement that waits, and lets one finish that is being
//! committed. It never tears a commit.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Notify;

/// Asks one session to stop what it runs. Clones speak of the same session.
#[derive(Clone, Debug, Default)]
pub struct CancelHandle {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    running: AtomicBool,
    asked: AtomicBool,
    wake: Notify,
}

impl CancelHandle {
    /// Asks. Without effect on a session that runs nothing.
    pub fn cancel(&self) {
        if self.shared.running.load(Ordering::Acquire) {
            self.shared.asked.store(true, Ordering::Release);
            self.shared.wake.notify_waiters();
        }
    }

    /// A statement starts: wishes meant for an earlier one are forgotten.
    pub(crate) fn arm(&self) {
        self.shared.asked.store(false, Ordering::Release);
        self.shared.running.store(true, Ordering::Release);
    }

    /// Nothing runs any more.
    pub(crate) fn disarm(&self) {
        self.shared.running.store(false, Ordering::Release);
    }

    /// Whether the running statement is to stop.
    pub(crate) fn is_asked(&self) -> bool {
        self.shared.asked.load(Ordering::Acquire)
    }

    /// Resolves when the running statement is to stop.
    pub(crate) async fn asked(&self) {
        loop {
            let wake = self.shared.wake.notified();
            tokio::pin!(wake);
            wake.as_mut().enable();
            if self.is_asked() {
                return;
            }
            wake.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_idle_session_hears_nothing() {
        let handle = CancelHandle::default();
        handle.cancel();
        assert!(!handle.is_asked());
        handle.arm();
        assert!(!handle.is_asked());
        handle.clone().cancel();
        handle.asked().await;
        handle.disarm();
        handle.arm();
        assert!(!handle.is_asked());
    }
}
