//! What waits for the committer: transactions, up to a bound, and news of other writers.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use dataglot_model::{HeadRecord, OrgName, Seq};
use tokio::sync::oneshot;

use crate::ticket::{Claim, Outcome};
use crate::{Compiler, StoreError, Submission};

/// How long a group waits for those whose answers have just gone out, while others write to the same server.
const FILL_MAX: Duration = Duration::from_micros(500);
/// So many jobs are planned at a time while a group is on its way: to be woken for each costs more than it gains.
const AHEAD_AT_ONCE: usize = 8;
/// Groups that were smaller are not waited for.
const FILL_FROM: usize = 4;

/// A transaction in the queue, with the way back to its submitter.
pub(crate) struct Job<C: Compiler> {
    pub(crate) submission: Submission<C::Request>,
    /// Bytes, about.
    pub(crate) weight: usize,
    pub(crate) claim: Arc<Claim>,
    pub(crate) reply: oneshot::Sender<Outcome<C>>,
}

/// What is known, or asked, of other writers of the store. Bounded by the orgs that are loaded and the
/// sessions that ask.
#[derive(Default)]
pub(crate) struct News {
    /// The heads that the store was seen to have.
    pub(crate) seen: BTreeMap<OrgName, Option<HeadRecord>>,
    /// When they were read; `None`: nobody has.
    pub(crate) at: Option<Instant>,
    /// Transactions that may be there.
    pub(crate) hints: BTreeMap<OrgName, Seq>,
    /// Who wants to know when an org's image is as new as the store.
    pub(crate) asked: BTreeMap<OrgName, Vec<oneshot::Sender<Result<(), StoreError>>>>,
}

impl News {
    fn is_empty(&self) -> bool {
        self.at.is_none() && self.hints.is_empty() && self.asked.is_empty()
    }
}

/// What the committer does next while a group is on its way.
pub(crate) enum Meanwhile<C: Compiler> {
    /// Plans these.
    Jobs(Vec<Job<C>>),
    /// The group has landed.
    Landed,
}

/// What the committer does next.
pub(crate) struct Work<C: Compiler> {
    pub(crate) jobs: Vec<Job<C>>,
    pub(crate) news: News,
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
    news: News,
    stopped: bool,
    /// So many transactions have to be there before the committer is woken.
    wanted: usize,
    /// So many the last group had.
    last: usize,
    /// The group that was on its way has landed.
    landed: bool,
    /// Until when others are taken to write to the same server.
    others: Option<Instant>,
}

impl<C: Compiler> Waiting<C> {
    /// Whether the next group waits for a moment for those who have just got their answers.
    fn is_to_be_filled(&self) -> bool {
        self.last >= FILL_FROM && self.others.is_some_and(|until| Instant::now() < until)
    }

    /// The first jobs, up to the bounds, but `at_least` so many if they are there.
    fn take(&mut self, at_least: usize, jobs_max: usize, bytes_max: usize) -> Vec<Job<C>> {
        let mut jobs = Vec::with_capacity(self.jobs.len().min(jobs_max.max(at_least)));
        let mut bytes = 0usize;
        loop {
            let fits = |job: &Job<C>| {
                jobs.len() < at_least || (jobs.len() < jobs_max && bytes.saturating_add(job.weight) <= bytes_max)
            };
            if !self.jobs.front().is_some_and(fits) {
                return jobs;
            }
            let Some(job) = self.jobs.pop_front() else { return jobs };
            bytes = bytes.saturating_add(job.weight);
            self.bytes = self.bytes.saturating_sub(job.weight);
            jobs.push(job);
        }
    }
}

impl<C: Compiler> Queue<C> {
    pub(crate) fn new(jobs_max: usize, bytes_max: usize) -> Self {
        let (jobs, news) = (VecDeque::new(), News::default());
        let waiting = Waiting { jobs, bytes: 0, news, stopped: false, wanted: 0, last: 0, landed: false, others: None };
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
        let enough = waiting.jobs.len() >= waiting.wanted;
        drop(waiting);
        if enough {
            self.ready.notify_one();
        }
        Ok(())
    }

    /// Adds news.
    pub(crate) fn tell(&self, news: impl FnOnce(&mut News)) {
        let mut waiting = self.lock();
        if waiting.stopped {
            // Who asks learns from his channel that nobody will answer.
            return;
        }
        news(&mut waiting.news);
        drop(waiting);
        self.ready.notify_one();
    }

    /// Others write to the same server until then.
    pub(crate) fn others_write(&self, until: Instant) {
        self.lock().others = Some(until);
    }

    /// All news, and the jobs of the next group, of which `ahead` are planned already: whatever is there, up to the
    /// bounds, and one at least if there is any. Waits only while there is nothing to do, or for a moment for the
    /// group to fill. `None`: stopped, and nothing is left.
    pub(crate) fn drain(&self, ahead: usize, jobs_max: usize, bytes_max: usize) -> Option<Work<C>> {
        let mut waiting = self.lock();
        let jobs_max = jobs_max.saturating_sub(ahead);
        let expected = waiting.last.saturating_add(waiting.jobs.len()).min(jobs_max);
        while ahead == 0 && waiting.jobs.is_empty() && waiting.news.is_empty() {
            if waiting.stopped {
                return None;
            }
            waiting = self.ready.wait(waiting).unwrap_or_else(PoisonError::into_inner);
        }
        if waiting.is_to_be_filled() {
            waiting = self.fill(waiting, expected);
        }
        let news = std::mem::take(&mut waiting.news);
        let at_least = usize::from(ahead == 0);
        let jobs = waiting.take(at_least, jobs_max, bytes_max);
        if ahead + jobs.len() > 0 {
            waiting.last = ahead + jobs.len();
        }
        Some(Work { jobs, news })
    }

    /// A few jobs to plan while a group is on its way, up to the bounds, unless it has landed.
    pub(crate) fn meanwhile(&self, jobs_max: usize, bytes_max: usize) -> Meanwhile<C> {
        let mut waiting = self.lock();
        let wanted = AHEAD_AT_ONCE.min(jobs_max);
        loop {
            if std::mem::take(&mut waiting.landed) {
                waiting.wanted = 0;
                return Meanwhile::Landed;
            }
            if wanted > 0 && waiting.jobs.len() >= wanted {
                let jobs = waiting.take(0, wanted, bytes_max);
                if !jobs.is_empty() {
                    waiting.wanted = 0;
                    return Meanwhile::Jobs(jobs);
                }
            }
            // Where no more of them fit, none wakes us.
            waiting.wanted = if waiting.jobs.len() >= wanted { usize::MAX } else { wanted };
            waiting = self.ready.wait(waiting).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Whether the next group may be sent before the queue is looked at: nobody has news, and it is not to be filled.
    pub(crate) fn lets_go_on(&self) -> bool {
        let waiting = self.lock();
        waiting.news.is_empty() && !waiting.is_to_be_filled()
    }

    /// The group that was on its way has landed.
    pub(crate) fn land(&self) {
        self.lock().landed = true;
        self.ready.notify_one();
    }

    /// Waits for a moment until `expected` jobs are there. Who has just got an answer as a rule comes back at
    /// once. Alone we would only lose time; but where several writers share a server, a few large groups cost it,
    /// and everybody, much less than many small ones, and the others use the time.
    fn fill<'q>(&'q self, mut waiting: MutexGuard<'q, Waiting<C>>, expected: usize) -> MutexGuard<'q, Waiting<C>> {
        let until = Instant::now() + FILL_MAX;
        waiting.wanted = expected;
        while waiting.jobs.len() < expected && waiting.news.is_empty() && !waiting.stopped {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            waiting = self.ready.wait_timeout(waiting, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        waiting.wanted = 0;
        waiting
    }

    /// Takes no more; what is there is still drained.
    pub(crate) fn stop(&self) {
        self.lock().stopped = true;
        self.ready.notify_all();
    }

    /// Takes no more, and drops what is there: whoever waits for it learns that nobody will answer.
    pub(crate) fn close(&self) {
        let mut waiting = self.lock();
        waiting.stopped = true;
        let (jobs, news) = (std::mem::take(&mut waiting.jobs), std::mem::take(&mut waiting.news));
        drop(waiting);
        drop((jobs, news));
        self.ready.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, Waiting<C>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
