//! The committer: one thread that plans, commits in groups, publishes and answers, in that order.
//!
//! It keeps three promises. Nothing is answered that depends on what is not durable: an answer that
//! was planned on the uncommitted part of a group waits for the group, and is planned anew if that
//! fails. Nothing is published before it is durable. After a commit of unknown outcome nothing is
//! committed before that outcome is known.
//!
//! Other processes may write to a shared store. There nothing is answered either, not even a refusal,
//! that was planned on an image older than the store: the commit itself compares the orgs that it
//! changes, and the others are compared before it.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use dataglot_model::{HeadRecord, OrgName, Seq, TransactionId};

use crate::follower::Follower;
use crate::group::{Build, Transaction, empty_head};
use crate::queue::{Job, Queue, Work};
use crate::{CommitError, Compiled, Compiler, Done, HubLimits, OrgWrite, State, StoreError, SubmitError};

/// How often a group is planned again because other writers of the same store were faster.
const ATTEMPTS_MAX: u32 = 16;
/// After so many losses we ask for a turn of our own.
const LOSSES_MAX: u32 = 3;

pub(crate) struct Committer<C: Compiler> {
    compiler: Arc<C>,
    queue: Arc<Queue<C>>,
    follower: Follower<C::State>,
    group_requests_max: usize,
    group_bytes_max: usize,
    /// The group whose outcome is not known yet.
    unsettled: Option<Build<C::State>>,
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

/// A job that was planned, and what it is answered once the group is durable.
struct Planned<C: Compiler> {
    job: Job<C>,
    answer: Result<(Option<Seq>, C::Answer), C::Refusal>,
}

impl<C: Compiler> Planned<C> {
    /// Whether the group holds something of it.
    fn wrote(&self) -> bool {
        matches!(self.answer, Ok((Some(_), _)))
    }
}

/// A group, planned.
struct Plan<C: Compiler> {
    build: Build<C::State>,
    planned: Vec<Planned<C>>,
    /// The heads of the published images that were looked at; `None`: there is no such org.
    consulted: BTreeMap<OrgName, Option<HeadRecord>>,
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

/// Heads of images, as planning looks at them.
type Consulted = RefCell<BTreeMap<OrgName, Option<HeadRecord>>>;

impl<C: Compiler> Committer<C> {
    pub(crate) fn new(
        compiler: Arc<C>,
        queue: Arc<Queue<C>>,
        follower: Follower<C::State>,
        limits: &HubLimits,
    ) -> Self {
        let HubLimits { group_requests_max, group_bytes_max, .. } = *limits;
        let refused = BTreeMap::new();
        Committer { compiler, queue, follower, group_requests_max, group_bytes_max, unsettled: None, refused }
    }

    /// Until the queue is stopped and empty.
    pub(crate) fn run(mut self) {
        let _closing = Closing(Arc::clone(&self.queue));
        while let Some(Work { jobs, news }) = self.queue.drain(self.group_requests_max, self.group_bytes_max) {
            let settled = self.settle();
            self.follower.take(news);
            let jobs: Vec<_> = jobs.into_iter().filter(|job| job.claim.take()).collect();
            match settled {
                Err(error) => fail(jobs, &error),
                Ok(()) if jobs.is_empty() => {}
                Ok(()) => self.group(jobs),
            }
        }
    }

    /// Plans and commits `jobs`, as often as it takes, and answers each of them.
    fn group(&mut self, jobs: Vec<Job<C>>) {
        self.refused.clear();
        self.group_in_turn(jobs);
        self.follower.store.pass_turn();
    }

    fn group_in_turn(&mut self, mut jobs: Vec<Job<C>>) {
        let mut asked = BTreeSet::new();
        for attempt in 0..ATTEMPTS_MAX {
            let Plan { build, planned, consulted } = self.plan(jobs);
            let fate = match self.confirm(&build, consulted, &mut asked) {
                Ok(true) if build.is_empty() => Fate::Durable,
                Ok(true) => self.commit(&build, planned.len()),
                Ok(false) => Fate::Conflict,
                Err(error) => Fate::Failed(error),
            };
            match fate {
                Fate::Durable => return self.publish(build, planned),
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
                    let renamed = jobs.iter_mut().try_for_each(rename);
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
                    return planned.into_iter().for_each(|p| self.group(vec![p.job]));
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
                        self.group(jobs);
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

    /// Plans each job on the newest image. Answers those that can be answered whatever becomes of the
    /// group: what was planned on uncommitted state has to wait for it, however it ended, and in a shared
    /// store all wait until it is known that their images are the newest.
    fn plan(&self, jobs: Vec<Job<C>>) -> Plan<C> {
        let mut build = Build::new();
        let mut planned = Vec::with_capacity(jobs.len());
        let consulted = RefCell::default();
        let is_shared = self.follower.contact.is_shared();
        for mut job in jobs {
            let alone = build.is_empty() && !is_shared;
            match self.plan_one(&mut build, &consulted, &mut job) {
                Err(error) => answer(job, Err(SubmitError::Failed(error))),
                Ok(Err(refusal)) if alone => answer(job, Err(SubmitError::Refused(refusal))),
                Ok(outcome) => planned.push(Planned { job, answer: outcome }),
            }
        }
        Plan { build, planned, consulted: consulted.into_inner() }
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

    #[allow(clippy::type_complexity, reason = "the outer error is the store's, the inner one the compiler's")]
    fn plan_one(
        &self,
        build: &mut Build<C::State>,
        consulted: &Consulted,
        job: &mut Job<C>,
    ) -> Result<Result<(Option<Seq>, C::Answer), C::Refusal>, StoreError> {
        let org = job.submission.org.clone();
        let Some(state) = self.newest(build, consulted, &org)? else {
            return Err(StoreError::NoSuchOrg(org));
        };
        // An image that cannot be loaded must not look like an org that is not there.
        let trouble = RefCell::new(None);
        let outcome = {
            let target = |name: &OrgName| {
                self.newest(build, consulted, name).unwrap_or_else(|error| {
                    *trouble.borrow_mut() = Some(error);
                    None
                })
            };
            let request = &mut job.submission.request;
            catch_unwind(AssertUnwindSafe(|| self.compiler.compile(&state, &target, request)))
                .unwrap_or_else(|_| Err(self.compiler.panicked()))
        };
        if let Some(error) = trouble.into_inner() {
            return Err(error);
        }
        match outcome {
            Err(refusal) => Ok(Err(refusal)),
            Ok(compiled) => self.add(build, consulted, job, &state, compiled).map(Ok),
        }
    }

    /// Adds what a request comes to.
    fn add(
        &self,
        build: &mut Build<C::State>,
        consulted: &Consulted,
        job: &Job<C>,
        before: &C::State,
        compiled: Compiled<C::State, C::Answer>,
    ) -> Result<(Option<Seq>, C::Answer), StoreError> {
        let Compiled { statements, mut state, answer, org: write } = compiled;
        if statements.is_empty() && write.is_none() {
            return Ok((None, answer));
        }
        let submission = &job.submission;
        let at = submission.at;
        let transaction = |seq, statements| Transaction {
            id: submission.id,
            seq,
            at,
            actor: submission.actor.clone(),
            session: Arc::clone(&submission.session),
            statements,
        };
        let head = before.head();
        let seq = head.seq.next();
        state.advance(seq, at);
        match write {
            None => {}
            Some(OrgWrite::Create { name, org_id, statement }) => {
                if self.newest(build, consulted, &name)?.is_some() {
                    tracing::error!("an org was to be made that exists");
                    return Err(StoreError::Internal);
                }
                let mut made = C::State::new(name.clone(), empty_head(org_id, at));
                statement.mutations.iter().for_each(|m| made.apply(m));
                made.advance(Seq(1), at);
                build.create(name, made, transaction(Seq(1), vec![statement]));
            }
            Some(OrgWrite::Drop { name }) => {
                let Some(dropped) = self.newest(build, consulted, &name)? else {
                    return Err(StoreError::NoSuchOrg(name));
                };
                if name == submission.org {
                    tracing::error!("an org was to be dropped by itself");
                    return Err(StoreError::Internal);
                }
                build.drop_org(name, dropped);
            }
        }
        build.push(&submission.org, &head, state, transaction(seq, statements));
        Ok((Some(seq), answer))
    }

    /// The org's newest image, earlier transactions of the group included.
    fn newest(
        &self,
        build: &Build<C::State>,
        consulted: &Consulted,
        org: &OrgName,
    ) -> Result<Option<C::State>, StoreError> {
        if let Some(state) = build.state(org) {
            return Ok(state.cloned());
        }
        if let Some(error) = self.refused.get(org).cloned().or_else(|| self.follower.contact.diverged(org)) {
            return Err(error);
        }
        let state = self.follower.images.get_or_load(org)?;
        consulted.borrow_mut().entry(org.clone()).or_insert_with(|| state.as_ref().map(|s| s.head()));
        Ok(state.map(|state| C::State::clone(&state)))
    }

    /// Commits, and finds out what became of it.
    fn commit(&self, build: &Build<C::State>, transactions: usize) -> Fate {
        let Follower { store, metrics, .. } = &self.follower;
        let started = Instant::now();
        let commit = || build.commit(store.as_ref());
        match catch_unwind(AssertUnwindSafe(commit)).unwrap_or(Err(CommitError::Unknown(StoreError::Internal))) {
            Ok(()) => {
                metrics.committed(transactions, started.elapsed());
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
            Ok(true) => self.publish(build, Vec::new()),
            Ok(false) => {}
            Err(error) => {
                self.unsettled = Some(build);
                return Err(error);
            }
        }
        Ok(())
    }

    /// Takes over what other writers have made of the group's orgs.
    fn catch_up(&mut self, build: &Build<C::State>, jobs: &mut [Job<C>], attempt: u32) -> Result<(), StoreError> {
        let mut orgs = build.orgs();
        if attempt + 1 >= LOSSES_MAX
            && let (Some(org), None) = (orgs.next(), orgs.next())
        {
            match self.follower.store.take_turn(org) {
                Ok(is_fenced) => {
                    if is_fenced {
                        jobs.iter_mut().try_for_each(rename)?;
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

    /// The group is durable: swap the images, then answer, then announce.
    fn publish(&self, build: Build<C::State>, planned: Vec<Planned<C>>) {
        let finished = build.finish();
        let images = &self.follower.images;
        images.publish(finished.images);
        for Planned { job, answer: outcome } in planned {
            let org = &job.submission.org;
            let state = finished.answers.get(org).cloned().or_else(|| images.get(org));
            let outcome = match (outcome, state) {
                (Err(refusal), _) => Err(SubmitError::Refused(refusal)),
                (Ok((seq, answer)), Some(state)) => Ok(Done { id: job.submission.id, seq, answer, state }),
                // Its org was dropped, by a later transaction of the same group.
                (Ok(_), None) => Err(SubmitError::Failed(StoreError::NoSuchOrg(org.clone()))),
            };
            answer(job, outcome);
        }
        self.follower.announce(finished.committed);
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
