//! What stops a statement from outside: a cancel, its timeout, a panic.

use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::Poll;

use tokio::time::Instant;

use crate::error::SessionError;
use crate::session::Session;

impl Session {
    /// The running statement's time begins.
    pub(crate) fn start_statement(&mut self) {
        self.deadline = self.scoped.settings.timeout("statement_timeout").map(|t| Instant::now() + t);
    }

    /// # Errors
    /// 57014: the running statement is to stop.
    pub(crate) fn check_interrupt(&self) -> Result<(), SessionError> {
        if self.cancel.is_asked() {
            return Err(SessionError::canceled());
        }
        match self.deadline {
            Some(deadline) if deadline <= Instant::now() => Err(SessionError::timed_out()),
            Some(_) | None => Ok(()),
        }
    }

    /// Resolves when the running statement is to stop, with what the client is told.
    pub(crate) async fn interrupted(&self) -> SessionError {
        let late = async {
            match self.deadline {
                Some(deadline) => tokio::time::sleep_until(deadline).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            () = self.cancel.asked() => SessionError::canceled(),
            () = late => SessionError::timed_out(),
        }
    }

    /// `work`, unless the statement is to stop first.
    pub(crate) async fn interruptible<T>(
        &self,
        work: impl Future<Output = Result<T, SessionError>>,
    ) -> Result<T, SessionError> {
        tokio::select! {
            biased;
            done = work => done,
            why = self.interrupted() => Err(why),
        }
    }
}

/// Runs `work` to its end. `None`: it panicked. It is pinned by the caller, so that it lies in one place and is not
/// moved again.
pub(crate) fn guard<F: Future>(mut work: Pin<&mut F>) -> impl Future<Output = Option<F::Output>> {
    poll_fn(move |cx| match catch_unwind(AssertUnwindSafe(|| work.as_mut().poll(cx))) {
        Ok(Poll::Pending) => Poll::Pending,
        Ok(Poll::Ready(output)) => Poll::Ready(Some(output)),
        Err(_) => Poll::Ready(None),
    })
}
