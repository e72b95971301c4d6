//! The committer: one thread that plans, commits in groups, publishes and answers, in that order.
//!
//! It keeps three promises. Nothing is answered that depends on what is not durable: an answer that
//! was planned on the uncommitted part of a group waits for the group, and is planned anew if that
//! fails. Nothing is published before it is durable. After a commit of unknown outcome nothing is
//! committed before that outcome is known.
//!
//! While a group of some size is on its way to the store, the next one is planned on what it will have made
//! of the orgs. It is sent as soon as that is durable, before anybody is told; if that comes to nothing, all of
//! it is planned anew.
//!
//! Other processes may write to a shared store. There nothing is answered either, not even a refusal,
//! that was planned on an image older than the store: the commit itself compares the orgs that it
//! changes, and the others are compared before it.

mod plan;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use dataglot_model::{HeadRecord, OrgName, Seq, TransactionId};

use self::plan::{Plan, Planned};
use crate::flight::{Flights, commit};
use crate::follower::Follower;
use crate::group::Build;
use crate::queue::{Job, Queue, Work};
use crate::{CommitError, Compiler, Done, HubLimits, StoreError, SubmitError};

/// How often a group is planned again because other writers of the same store were faster.
const ATTEMPTS_MAX: u32 = 16;
/// After so many losses we ask for a turn of our own.
const LOSSES_MAX: u32 = 3;

pub(crate) struct Committer<C: Compiler> {
    compiler: Arc<C>,
    queue: Arc<Queue<C>>,
    follower: Follower<C::State>,
    flights: Flights<C::State>,
    group_requests_max: usize,
    group_bytes_max: usize,
    ahead_from: usize,
    /// What was planned of the next group while the last one was on its way.
    ahead: Option<Plan<C>>,
    /// The group that is on its way.
    sent: Option<Sent<C>>,
    /// What was planned on a group that came to nothing, or could not be planned on it.
    again: Vec<Job<C>>,
    /// What is still to be tried of a group that did not fit, each by itself.
    apart: VecDeque<Job<C>>,
    /// It may be our turn to write, and nobody else's.
    has_turn: bool,
    /// The group whose outcome is not known yet.
    unsettled: Option<Arc<Build<C::State>>>,
    /// The orgs that the store took no writes to in this group.
    refused: BTreeMap<OrgName, StoreError>,
}

/// However the committer ends: nobody waits for one that is gone.
struct Closing<C: Compiler>(Arc<Queue<C>>);

impl<C: Compiler> Drop for Closing<C> {
    fn drop(&mut self) {
        self.0.close();
    }
}

/// A group that is on its way to the store.
struct Sent<C: Compiler> {
    build: Arc<Build<C::State>>,
    planned: Vec<Planned<C>>,
    at: Instant,
}

/// A group that was tried to be committed.
struct Tried<C: Compiler> {
    build: Arc<Build<C::State>>,
    planned: Vec<Planned<C>>,
    fate: Fate,
}

/// What a group starts from.
enum Start<C: Compiler> {
    /// A plan, and jobs that are to be planned too.
    Planned(Plan<C>, Vec<Job<C>>),
    Sent(Sent<C>),
}

/// What became of a group.
enum Fate {
    Durable,
    Conflict,
    /// It has to get other ids.
    Fenced,
    Failed(StoreError),
    Unknown,
}

impl<C: Compiler> Committer<C> {
    pub(crate) fn new(
        compiler: Arc<C>,
        queue: Arc<Queue<C>>,
        follower: Follower<C::State>,
        limits: &HubLimits,
    ) -> Result<Self, StoreError> {
        let HubLimits { group_requests_max, group_bytes_max, ahead_from, .. } = *limits;
        let flights = Flights::start(Arc::clone(&follower.store), Arc::clone(&queue))?;
        Ok(Committer {
            compiler,
            queue,
            follower,
            flights,
            group_requests_max,
            group_bytes_max,
            ahead_from,
            ahead: None,
            sent: None,
            again: Vec::new(),
            apart: VecDeque::new(),
            has_turn: false,
            unsettled: None,
            refused: BTreeMap::new(),
        })
    }

    /// Until the queue is stopped and empty.
    pub(crate) fn run(mut self) {
        let _closing = Closing(Arc::clone(&self.queue));
        loop {
            if let Some(sent) = self.sent.take() {
                self.group(Start::Sent(sent), true);
                continue;
            }
            let ahead = self.ahead.as_ref();
            let planned = self.again.len() + ahead.map_or(0, |plan| plan.planned.len());
            let bytes = ahead.map_or(0, |plan| plan.bytes) + self.again.iter().map(|job| job.weight).sum::<usize>();
            let bytes_max = self.group_bytes_max.saturating_sub(bytes);
            let Some(Work { jobs, news }) = self.queue.drain(planned, self.group_requests_max, bytes_max) else {
                return;
            };
            let settled = self.settle();
            self.follower.take(news);
            let came = jobs.into_iter().filter(|job| job.claim.take());
            let jobs: Vec<_> = std::mem::take(&mut self.again).into_iter().chain(came).collect();
            let ahead = self.ahead.take();
            match settled {
                Err(error) => fail(ahead.into_iter().flat_map(Plan::into_jobs).chain(jobs), &error),
                Ok(()) if ahead.is_none() && jobs.is_empty() => {}
                Ok(()) => self.group(Start::Planned(ahead.unwrap_or_else(Plan::new), jobs), true),
            }
        }
    }

    /// Commits a group, as often as it takes, and answers each of its jobs. `plans_ahead`: the next group may be
    /// planned meanwhile.
    fn group(&mut self, start: Start<C>, plans_ahead: bool) {
        self.refused.clear();
        self.group_in_turn(start, plans_ahead);
        if std::mem::take(&mut self.has_turn) {
            self.follower.store.pass_turn();
        }
    }

    fn group_in_turn(&mut self, start: Start<C>, plans_ahead: bool) {
        let mut asked = BTreeSet::new();
        let mut start = Some(start);
        let mut jobs = Vec::new();
        for attempt in 0..ATTEMPTS_MAX {
            let Tried { build, planned, fate } = match start.take() {
                Some(Start::Sent(sent)) => self.land(sent),
                Some(Start::Planned(plan, jobs)) => self.attempt(plan, jobs, &mut asked, plans_ahead),
                None => self.attempt(Plan::new(), std::mem::take(&mut jobs), &mut asked, false),
            };
            if !matches!(fate, Fate::Durable) {
                self.again.extend(self.ahead.take().into_iter().flat_map(Plan::into_jobs));
            }
            match fate {
                Fate::Durable => {
                    let finished = build.finish();
                    // Before the next one can be durable: then nobody loads what is newer than what is published.
                    self.follower.images.publish(finished.images);
                    self.send_ahead();
                    return self.tell(&finished.answers, finished.committed, planned);
                }
                Fate::Conflict => {
                    self.follower.metrics.conflict();
                    jobs = planned.into_iter().map(|p| p.job).collect();
                    if let Err(error) = self.catch_up(&build, &mut jobs, attempt) {
                        return fail(jobs, &error);
                    }
                }
                Fate::Fenced => {
                    self.follower.metrics.conflict();
                    jobs = planned.into_iter().map(|p| p.job).collect();
                    let renamed = self.rename_all(&mut jobs);
                    if let Err(error) = renamed.and_then(|()| self.catch_up(&build, &mut jobs, attempt)) {
                        return fail(jobs, &error);
                    }
                }
                // That is the matter of whoever uses the org: what the others sent is planned without it.
                Fate::Failed(StoreError::Diverged { org, seen }) if !self.refused.contains_key(&org) => {
                    self.refused.insert(org.clone(), StoreError::Diverged { org, seen });
                    jobs = planned.into_iter().map(|p| p.job).collect();
                }
                // What does not fit may be one transaction out of many: the others have their try.
                Fate::Failed(StoreError::DiskFull) if planned.len() > 1 => {
                    drop(build);
                    self.apart.extend(planned.into_iter().map(|p| p.job));
                    while let Some(job) = self.apart.pop_front() {
                        if self.unsettled.is_some() {
                            // That is found out before.
                            self.again.push(job);
                        } else {
                            self.group(Start::Planned(Plan::new(), vec![job]), false);
                        }
                    }
                    return;
                }
                Fate::Failed(error) => {
                    drop(build);
                    let (wrote, others): (Vec<_>, Vec<_>) = planned.into_iter().partition(Planned::wrote);
                    if wrote.is_empty() {
                        return fail(others.into_iter().map(|p| p.job), &error);
                    }
                    fail(wrote.into_iter().map(|p| p.job), &error);
                    // They were planned on what is not there now.
                    jobs = others.into_iter().map(|p| p.job).collect();
                    if !jobs.is_empty() {
                        self.group(Start::Planned(Plan::new(), jobs), false);
                    }
                    return;
                }
                Fate::Unknown => {
                    self.unsettled = Some(build);
                    let (wrote, others): (Vec<_>, Vec<_>) = planned.into_iter().partition(Planned::wrote);
                    for Planned { job, .. } in wrote {
                        let id = job.submission.id;
                        answer(job, Err(SubmitError::Unknown(id)));
                    }
                    return fail(others.into_iter().map(|p| p.job), &StoreError::Poisoned);
                }
            }
        }
        fail(jobs, &StoreError::Contended);
    }

    /// Plans `jobs` too, and tries to commit all of it.
    fn attempt(
        &mut self,
        mut plan: Plan<C>,
        jobs: Vec<Job<C>>,
        asked: &mut BTreeSet<OrgName>,
        plans_ahead: bool,
    ) -> Tried<C> {
        self.plan(&mut plan, None, jobs);
        let Plan { build, planned, put_off, consulted, bytes: _ } = plan;
        self.again.extend(put_off);
        let build = Arc::new(build);
        match self.confirm(&build, consulted.into_inner(), asked) {
            Ok(true) if build.is_empty() => Tried { build, planned, fate: Fate::Durable },
            Ok(true) => {
                let at = Instant::now();
                if plans_ahead && planned.len() >= self.ahead_from && self.flights.send(&build) {
                    return self.land(Sent { build, planned, at });
                }
                let outcome = commit(&build, self.follower.store.as_ref());
                let fate = self.fate(&build, planned.len(), at, outcome);
                Tried { build, planned, fate }
            }
            Ok(false) => Tried { build, planned, fate: Fate::Conflict },
            Err(error) => Tried { build, planned, fate: Fate::Failed(error) },
        }
    }

    /// Sends what was planned ahead, now that what it was planned on is durable. What others have to say comes
    /// first: while a group is on its way, no image is brought up to date.
    fn send_ahead(&mut self) {
        let is_fit = |plan: &mut Plan<C>| plan.planned.len() >= self.ahead_from && plan.writes_to_all();
        if !self.again.is_empty() || !self.queue.lets_go_on() {
            return;
        }
        let Some(Plan { build, planned, put_off: _, consulted: _, bytes: _ }) = self.ahead.take_if(is_fit) else {
            return;
        };
        let (build, at) = (Arc::new(build), Instant::now());
        if self.flights.send(&build) {
            self.sent = Some(Sent { build, planned, at });
        } else {
            self.again.extend(planned.into_iter().map(|p| p.job));
        }
    }

    /// Plans the next group until this one has landed, and finds out what became of it.
    fn land(&mut self, sent: Sent<C>) -> Tried<C> {
        let Sent { build, planned, at } = sent;
        self.plan_ahead(&build);
        let outcome = self.flights.outcome();
        let fate = self.fate(&build, planned.len(), at, outcome);
        Tried { build, planned, fate }
    }

    /// Whether the images that the group looked at, and does not change, are as new as the store was at some
    /// time since the jobs came. Those that are not are brought up to it. Each is asked for once: what others
    /// write later is no reason to plan again, and on a busy store there would be no end to it.
    fn confirm(
        &mut self,
        build: &Build<C::State>,
        consulted: BTreeMap<OrgName, Option<HeadRecord>>,
        asked: &mut BTreeSet<OrgName>,
    ) -> Result<bool, StoreError> {
        if !self.follower.contact.is_shared() {
            return Ok(true);
        }
        let mut is_newest = true;
        for (org, head) in consulted {
            if build.state(&org).is_none() && !asked.contains(&org) {
                is_newest &= self.follower.confirm(&org, head)?;
                asked.insert(org);
            }
        }
        Ok(is_newest)
    }

    /// What became of a group that was sent `at`.
    fn fate(
        &self,
        build: &Build<C::State>,
        transactions: usize,
        at: Instant,
        outcome: Result<(), CommitError>,
    ) -> Fate {
        let metrics = &self.follower.metrics;
        match outcome {
            Ok(()) => {
                metrics.committed(transactions, at.elapsed());
                Fate::Durable
            }
            Err(CommitError::Conflict) => Fate::Conflict,
            Err(CommitError::Fenced) => Fate::Fenced,
            Err(CommitError::Full) => {
                metrics.commit_failed();
                Fate::Failed(StoreError::DiskFull)
            }
            Err(CommitError::Failed(error)) => {
                metrics.commit_failed();
                Fate::Failed(error)
            }
            Err(CommitError::Unknown(error)) => {
                metrics.unknown_outcome();
                match self.is_durable(build) {
                    Ok(true) => Fate::Durable,
                    Ok(false) => Fate::Failed(error),
                    Err(again) => {
                        tracing::error!(%error, %again, "the outcome of a commit is not known");
                        Fate::Unknown
                    }
                }
            }
        }
    }

    /// Whether the group is there: it is one step, so one of its transactions speaks for all.
    fn is_durable(&self, build: &Build<C::State>) -> Result<bool, StoreError> {
        let Some((org, id, seq)) = build.probe() else { return Ok(true) };
        let find = || self.follower.store.find_transaction(&org, id);
        let found = catch_unwind(AssertUnwindSafe(find)).unwrap_or(Err(StoreError::Internal))?;
        Ok(found == Some(seq))
    }

    /// Finds out what became of the last group, if that is not known. Nothing is planned before.
    fn settle(&mut self) -> Result<(), StoreError> {
        let Some(build) = self.unsettled.take() else { return Ok(()) };
        match self.is_durable(&build) {
            // Others may have gone on from there, and the images with them.
            Ok(true) if self.follower.contact.is_shared() => {
                // One that cannot catch up is behind; the commit would notice.
                build.orgs().for_each(|org| drop(self.follower.catch_up(org)));
            }
            Ok(true) => {
                let finished = build.finish();
                self.follower.images.publish(finished.images);
                self.follower.announce(finished.committed);
            }
            Ok(false) => {}
            Err(error) => {
                self.unsettled = Some(build);
                return Err(error);
            }
        }
        Ok(())
    }

    /// Gives other ids to `jobs` and to all that may be sent later: somebody may have been told of the present ones that
    /// they are not committed.
    fn rename_all(&mut self, jobs: &mut [Job<C>]) -> Result<(), StoreError> {
        jobs.iter_mut().chain(&mut self.again).chain(&mut self.apart).try_for_each(rename)
    }

    /// Takes over what other writers have made of the group's orgs.
    fn catch_up(&mut self, build: &Build<C::State>, jobs: &mut [Job<C>], attempt: u32) -> Result<(), StoreError> {
        let mut orgs = build.orgs();
        if attempt + 1 >= LOSSES_MAX
            && let (Some(org), None) = (orgs.next(), orgs.next())
        {
            self.has_turn = true;
            match self.follower.store.take_turn(org) {
                Ok(is_fenced) => {
                    if is_fenced {
                        self.rename_all(jobs)?;
                    }
                    return self.take_over(org);
                }
                // Whoever has it keeps it for longer than anybody is to wait.
                Err(error @ StoreError::Unavailable { .. }) => return Err(error),
                Err(error) => tracing::debug!(%error, "it is not our turn to write"),
            }
        }
        if attempt > 0 && !build.is_empty() {
            // Two writers that collide again and again must get out of step; ids are random enough. The wait
            // comes first: what is planned on should be as new as can be.
            let salt = build.probe().map_or(0, |(_, TransactionId(id), _)| id % 8);
            let millis = u64::try_from(salt).unwrap_or(0) + (1 << attempt.min(6));
            std::thread::sleep(Duration::from_millis(millis));
        }
        build.orgs().try_for_each(|org| self.take_over(org))
    }

    /// Brings an image up to the store. If its history is another one, who uses the org is told when his job
    /// is planned again, and nobody else.
    fn take_over(&mut self, org: &OrgName) -> Result<(), StoreError> {
        match self.follower.catch_up(org) {
            Ok(()) | Err(StoreError::Diverged { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// The group is durable and published: answer, then announce.
    fn tell(
        &self,
        answers: &BTreeMap<OrgName, Arc<C::State>>,
        committed: Vec<(OrgName, Seq)>,
        planned: Vec<Planned<C>>,
    ) {
        for Planned { job, answer: outcome } in planned {
            let org = &job.submission.org;
            let state = answers.get(org).cloned().or_else(|| self.follower.images.get(org));
            let outcome = match (outcome, state) {
                (Err(refusal), _) => Err(SubmitError::Refused(refusal)),
                (Ok((seq, answer)), Some(state)) => Ok(Done { id: job.submission.id, seq, answer, state }),
                // Its org was dropped, by a later transaction of the same group.
                (Ok(_), None) => Err(SubmitError::Failed(StoreError::NoSuchOrg(org.clone()))),
            };
            answer(job, outcome);
        }
        self.follower.announce(committed);
    }
}

/// Gives a transaction another id: somebody may have been told that it was not committed under the old one.
fn rename<C: Compiler>(job: &mut Job<C>) -> Result<(), StoreError> {
    let mut id = [0; 16];
    getrandom::fill(&mut id).map_err(|error| {
        tracing::error!(%error, "no random number for a transaction");
        StoreError::Internal
    })?;
    job.submission.id = TransactionId::new(job.submission.at, id);
    job.claim.rename(job.submission.id);
    Ok(())
}

fn fail<C: Compiler>(jobs: impl IntoIterator<Item = Job<C>>, error: &StoreError) {
    jobs.into_iter().for_each(|job| answer(job, Err(SubmitError::Failed(error.clone()))));
}

fn answer<C: Compiler>(job: Job<C>, outcome: Result<Done<C>, SubmitError<C::Refusal>>) {
    // The submitter may be gone: the transaction stands all the same.
    let _ = job.reply.send(outcome);
}
