//! The bounded queue in front of the committer.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

use crate::ticket::{Claim, Outcome};
use crate::{Compiler, Submission};

/// A transaction in the queue, with the way back to its submitter.
pub(crate) struct Job<C: Compiler> {
    pub(crate) submission: Submission<C::Request>,
    /// Bytes, about.
    pub(crate) weight: usize,
    pub(crate) claim: Arc<Claim>,
    pub(crate) reply: oneshot::Sender<Outcome<C>>,
}

/// Why the queue did not take a job.
pub(crate) enum PushError {
    Full,
    Stopped,
}

pub(crate) struct Queue<C: Compiler> {
    waiting: Mutex<Waiting<C>>,
    ready: Condvar,
    jobs_max: usize,
    bytes_max: usize,
}

struct Waiting<C: Compiler> {
    jobs: VecDeque<Job<C>>,
    bytes: usize,
    stopped: bool,
}

impl<C: Compiler> Queue<C> {
    pub(crate) fn new(jobs_max: usize, bytes_max: usize) -> Self {
        let waiting = Waiting { jobs: VecDeque::new(), bytes: 0, stopped: false };
        Queue { waiting: Mutex::new(waiting), ready: Condvar::new(), jobs_max, bytes_max }
    }

    /// Appends a job. One that is too large for the queue alone is taken when the queue is empty.
    pub(crate) fn push(&self, job: Job<C>) -> Result<(), (Job<C>, PushError)> {
        let mut waiting = self.lock();
        if waiting.stopped {
            return Err((job, PushError::Stopped));
        }
        let bytes = waiting.bytes.saturating_add(job.weight);
        if waiting.jobs.len() >= self.jobs_max || (bytes > self.bytes_max && !waiting.jobs.is_empty()) {
            return Err((job, PushError::Full));
        }
        waiting.bytes = bytes;
        waiting.jobs.push_back(job);
        drop(waiting);
        self.ready.notify_one();
        Ok(())
    }

    /// The jobs of the next group: whatever is there, up to the bounds, and one at least. Waits only
    /// while there is none. `None`: stopped, and nothing is left.
    pub(crate) fn drain(&self, jobs_max: usize, bytes_max: usize) -> Option<Vec<Job<C>>> {
        let mut waiting = self.lock();
        while waiting.jobs.is_empty() {
            if waiting.stopped {
                return None;
            }
            waiting = self.ready.wait(waiting).unwrap_or_else(PoisonError::into_inner);
        }
        let mut group = Vec::with_capacity(waiting.jobs.len().min(jobs_max));
        let mut bytes = 0usize;
        while group.len() < jobs_max.max(1) {
            let fits = |job: &Job<C>| group.is_empty() || bytes.saturating_add(job.weight) <= bytes_max;
            if !waiting.jobs.front().is_some_and(fits) {
                break;
            }
            let Some(job) = waiting.jobs.pop_front() else { break };
            bytes = bytes.saturating_add(job.weight);
            waiting.bytes = waiting.bytes.saturating_sub(job.weight);
            group.push(job);
        }
        Some(group)
    }

    /// Takes no more; what is there is still drained.
    pub(crate) fn stop(&self) {
        self.lock().stopped = true;
        self.ready.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, Waiting<C>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
