//! How a group is planned: each job on what the ones before it will have made of the orgs.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use dataglot_model::{HeadRecord, OrgName, Seq};

use super::{Committer, answer};
use crate::group::{Build, Transaction, empty_head};
use crate::queue::{Job, Meanwhile};
use crate::{Compiled, Compiler, OrgWrite, State, StoreError, SubmitError};

/// Bytes of requests that are planned while a group is on its way: those whose group it is do not wait for a large
/// one that is none of theirs.
const AHEAD_BYTES_MAX: usize = 512 << 10;

/// A job that was planned, and what it is answered once the group is durable.
pub(super) struct Planned<C: Compiler> {
    pub(super) job: Job<C>,
    pub(super) answer: Result<(Option<Seq>, C::Answer), C::Refusal>,
}

impl<C: Compiler> Planned<C> {
    /// Whether the group holds something of it.
    pub(super) fn wrote(&self) -> bool {
        matches!(self.answer, Ok((Some(_), _)))
    }
}

/// A group, planned.
pub(super) struct Plan<C: Compiler> {
    pub(super) build: Build<C::State>,
    pub(super) planned: Vec<Planned<C>>,
    /// Jobs that cannot be planned, as it looks: that is said once it is durable what it looks like.
    pub(super) put_off: Vec<Job<C>>,
    /// The heads that were looked at, of what is published or will have been; `None`: there is no such org.
    pub(super) consulted: Consulted,
    /// What the requests take, about.
    pub(super) bytes: usize,
}

impl<C: Compiler> Plan<C> {
    pub(super) fn new() -> Self {
        let consulted = RefCell::default();
        Plan { build: Build::new(), planned: Vec::new(), put_off: Vec::new(), consulted, bytes: 0 }
    }

    pub(super) fn into_jobs(self) -> impl Iterator<Item = Job<C>> {
        self.planned.into_iter().map(|planned| planned.job).chain(self.put_off)
    }

    /// Whether it writes something, and to every org that it looked at: then its commit compares all of them.
    pub(super) fn writes_to_all(&self) -> bool {
        !self.build.is_empty() && self.consulted.borrow().keys().all(|org| self.build.state(org).is_some())
    }
}

/// Heads of images, as planning looks at them.
pub(super) type Consulted = RefCell<BTreeMap<OrgName, Option<HeadRecord>>>;

/// A group that is being planned.
struct Draft<'a, S> {
    build: &'a mut Build<S>,
    /// The group that is on its way.
    on: Option<&'a Build<S>>,
    consulted: &'a Consulted,
}

impl<C: Compiler> Committer<C> {
    /// Plans each job on the newest image, `on` a group that is on its way if there is one. Answers those that can
    /// be answered whatever becomes of the group: what was planned on uncommitted state has to wait for it, however
    /// it ended, and in a shared store all wait until it is known that their images are the newest.
    pub(super) fn plan(&self, plan: &mut Plan<C>, on: Option<&Build<C::State>>, jobs: Vec<Job<C>>) {
        let is_shared = self.follower.contact.is_shared();
        for mut job in jobs {
            let alone = plan.build.is_empty() && on.is_none() && !is_shared;
            let mut draft = Draft { build: &mut plan.build, on, consulted: &plan.consulted };
            match self.plan_one(&mut draft, &mut job) {
                // What does not depend on the group itself is said at once: later it might be put off again and again.
                Err(_) if on.is_some() || plan.build.state(&job.submission.org).is_some() => {
                    plan.bytes = plan.bytes.saturating_add(job.weight);
                    plan.put_off.push(job);
                }
                Err(error) => answer(job, Err(SubmitError::Failed(error))),
                Ok(Err(refusal)) if alone => answer(job, Err(SubmitError::Refused(refusal))),
                Ok(outcome) => {
                    plan.bytes = plan.bytes.saturating_add(job.weight);
                    plan.planned.push(Planned { job, answer: outcome });
                }
            }
        }
    }

    /// Plans what comes in on the group that is on its way, until that has landed. What has to be loaded first waits:
    /// those whose group it is do not wait for it.
    pub(super) fn plan_ahead(&mut self, on: &Build<C::State>) {
        let mut ahead = Plan::new();
        loop {
            let jobs_max = self.group_requests_max.saturating_sub(ahead.planned.len() + ahead.put_off.len());
            let bytes_max = self.group_bytes_max.min(AHEAD_BYTES_MAX).saturating_sub(ahead.bytes);
            match self.queue.meanwhile(jobs_max, bytes_max) {
                Meanwhile::Landed => break,
                Meanwhile::Jobs(jobs) => {
                    let jobs = jobs.into_iter().filter(|job| job.claim.take()).collect();
                    self.plan(&mut ahead, Some(on), jobs);
                }
            }
        }
        self.again.append(&mut ahead.put_off);
        if !ahead.planned.is_empty() {
            self.ahead = Some(ahead);
        }
    }

    #[allow(clippy::type_complexity, reason = "the outer error is the store's, the inner one the compiler's")]
    fn plan_one(
        &self,
        draft: &mut Draft<'_, C::State>,
        job: &mut Job<C>,
    ) -> Result<Result<(Option<Seq>, C::Answer), C::Refusal>, StoreError> {
        let org = job.submission.org.clone();
        let Some(state) = self.newest(draft, &org)? else {
            return Err(StoreError::NoSuchOrg(org));
        };
        // An image that cannot be loaded must not look like an org that is not there.
        let trouble = RefCell::new(None);
        let outcome = {
            let target = |name: &OrgName| {
                self.newest(draft, name).unwrap_or_else(|error| {
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
            Ok(compiled) => self.add(draft, job, &state, compiled).map(Ok),
        }
    }

    /// Adds what a request comes to.
    fn add(
        &self,
        draft: &mut Draft<'_, C::State>,
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
                if self.newest(draft, &name)?.is_some() {
                    tracing::error!("an org was to be made that exists");
                    return Err(StoreError::Internal);
                }
                let mut made = C::State::new(name.clone(), empty_head(org_id, at));
                statement.mutations.iter().for_each(|m| made.apply(m));
                made.advance(Seq(1), at);
                draft.build.create(name, made, transaction(Seq(1), vec![statement]));
            }
            Some(OrgWrite::Drop { name }) => {
                let Some(dropped) = self.newest(draft, &name)? else {
                    return Err(StoreError::NoSuchOrg(name));
                };
                if name == submission.org {
                    tracing::error!("an org was to be dropped by itself");
                    return Err(StoreError::Internal);
                }
                draft.build.drop_org(name, dropped);
            }
        }
        draft.build.push(&submission.org, &head, state, transaction(seq, statements));
        Ok((Some(seq), answer))
    }

    /// The org's newest image, earlier transactions of the group included. On a group that is on its way it may be
    /// an error that it is not loaded.
    fn newest(&self, draft: &Draft<'_, C::State>, org: &OrgName) -> Result<Option<C::State>, StoreError> {
        if let Some(state) = draft.build.state(org) {
            return Ok(state.cloned());
        }
        let consult = |head| {
            draft.consulted.borrow_mut().entry(org.clone()).or_insert(head);
        };
        if let Some(state) = draft.on.and_then(|on| on.state(org)) {
            consult(state.map(State::head));
            return Ok(state.cloned());
        }
        if let Some(error) = self.refused.get(org).cloned().or_else(|| self.follower.contact.diverged(org)) {
            return Err(error);
        }
        let state = match (draft.on, self.follower.images.get(org)) {
            (_, Some(state)) => Some(state),
            (Some(_), None) => return Err(StoreError::NoSuchOrg(org.clone())),
            (None, None) => self.follower.images.get_or_load(org)?,
        };
        consult(state.as_ref().map(|s| s.head()));
        Ok(state.map(|state| C::State::clone(&state)))
    }
}
