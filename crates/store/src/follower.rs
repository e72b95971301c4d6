//! What the committer does between groups: it brings images up to what other writers have made of the
//! store. All images of loaded orgs change on its thread only, so they never go backwards.

use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Instant;

use dataglot_model::{HeadRecord, OrgName, Seq};
use tokio::sync::{broadcast, oneshot};

use crate::catch_up::{CaughtUp, DeltaLimits, catch_up};
use crate::freshness::Contact;
use crate::images::Images;
use crate::queue::{News, Queue};
use crate::{Compiler, Event, MetaStore, Metrics, State, StoreError, Watcher};

/// Brings images up to date, and says what is new.
pub(crate) struct Follower<S> {
    pub(crate) store: Arc<dyn MetaStore>,
    pub(crate) images: Arc<Images<S>>,
    pub(crate) contact: Arc<Contact>,
    pub(crate) events: broadcast::Sender<Event>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) limits: DeltaLimits,
    /// Orgs whose history diverged, and that the store has been told of.
    pub(crate) marked: BTreeSet<OrgName>,
}

impl<S: State> Follower<S> {
    /// Takes in what is known of other writers, and answers who asked.
    pub(crate) fn take(&mut self, news: News) {
        let News { seen, at, hints, asked } = news;
        let mut all_well = true;
        for (org, head) in seen {
            let is_other = |state: Arc<S>| Some(state.head()) != head || self.contact.is_behind(&org);
            if self.images.get(&org).is_some_and(is_other) {
                all_well &= self.catch_up(&org).is_ok();
            }
        }
        for (org, seq) in hints {
            if self.images.get(&org).is_some_and(|s| s.head().seq < seq) {
                all_well &= self.catch_up(&org).is_ok();
            }
        }
        if let Some(at) = at {
            self.contact.confirm(at);
            if all_well {
                self.metrics.behind(0);
            }
        }
        self.answer(asked);
    }

    /// Answers who wants to know when an image is as new as the store: with one question to the store for all of
    /// them, so that one that does not answer is waited for once.
    fn answer(&mut self, asked: BTreeMap<OrgName, Vec<oneshot::Sender<Result<(), StoreError>>>>) {
        if asked.is_empty() {
            return;
        }
        let mut heads = self.store.heads_of(asked.keys().cloned().collect());
        let mut known = heads.as_mut().map(|heads| heads.drain(..));
        for (org, askers) in asked {
            let outcome = match &mut known {
                Ok(heads) => match heads.next() {
                    Some((_, head)) if head == self.images.get(&org).map(|s| s.head()) => Ok(()),
                    Some(_) | None => self.catch_up(&org),
                },
                Err(error) => Err(error.clone()),
            };
            for asker in askers {
                // He may be gone.
                let _ = asker.send(outcome.clone());
            }
        }
    }

    /// Whether the store's head of `org` is `head`. If not, the image is brought up to it.
    ///
    /// # Errors
    /// The store cannot be asked, or its history is another one.
    pub(crate) fn confirm(&mut self, org: &OrgName, head: Option<HeadRecord>) -> Result<bool, StoreError> {
        if self.store.head(org)? == head {
            return Ok(true);
        }
        self.catch_up(org)?;
        Ok(false)
    }

    /// Brings the org's image up to the store, if it is loaded.
    ///
    /// # Errors
    /// The store cannot be read, or its history is another one.
    pub(crate) fn catch_up(&mut self, org: &OrgName) -> Result<(), StoreError> {
        let outcome = self.bring_up(org);
        if outcome.is_err() {
            self.contact.fall_behind(org);
        } else if self.contact.catch_up(org).is_some() {
            tracing::info!(org = org.as_str(), "the history in the meta store is again the one that was seen before");
            self.marked.remove(org);
        }
        outcome
    }

    fn bring_up(&mut self, org: &OrgName) -> Result<(), StoreError> {
        let started = Instant::now();
        let Some(state) = self.images.get(org) else { return Ok(()) };
        let have = state.head();
        let default = self.images.default_head(org);
        let caught_up = || catch_up(self.store.as_ref(), org, state.as_ref(), default.as_ref(), self.limits);
        let now = match catch_unwind(AssertUnwindSafe(caught_up)).unwrap_or(Err(StoreError::Internal))? {
            CaughtUp::Same => return Ok(()),
            CaughtUp::Newer(state) => {
                let head = state.head();
                self.images.publish(vec![(org.clone(), Some(Arc::new(state)))]);
                head
            }
            CaughtUp::Reload => self.images.reload(org, &have)?.head(),
            CaughtUp::Gone => {
                self.images.publish(vec![(org.clone(), None)]);
                return Ok(());
            }
            CaughtUp::Diverged => return Err(self.diverge(org, have.seq)),
        };
        let missed = if have.org_id == now.org_id { have.seq.0 + 1 } else { 1 };
        self.metrics.applied((now.seq.0 + 1).saturating_sub(missed), started.elapsed());
        self.announce((missed..=now.seq.0).map(|seq| (org.clone(), Seq(seq))));
        Ok(())
    }

    /// Says that transactions are durable.
    pub(crate) fn announce(&self, committed: impl IntoIterator<Item = (OrgName, Seq)>) {
        for (org, seq) in committed {
            // Without a receiver there is nobody to tell.
            let _ = self.events.send(Event { org, seq });
        }
    }

    /// The org's history is not the one that we know: nothing more is written to it, here or elsewhere.
    fn diverge(&mut self, org: &OrgName, seen: Seq) -> StoreError {
        // Another store has another history.
        if let Err(error @ StoreError::Postgres(_)) = self.store.health() {
            return error;
        }
        let error = StoreError::Diverged { org: org.clone(), seen };
        if self.contact.diverged(org).is_none() {
            tracing::error!(
                org = org.as_str(),
                %seen,
                "the history in the meta store is not the one that was seen before: a restored backup, or a replica \
                 that was behind when it took over; no more writes"
            );
        }
        self.contact.diverge(org, error.clone());
        // Once: it is taken away by an operator. Tried again with the next look until it works.
        if !self.marked.contains(org) {
            match self.store.halt(org, seen) {
                Ok(()) => drop(self.marked.insert(org.clone())),
                Err(error) => {
                    tracing::warn!(org = org.as_str(), %error, "the meta store could not be marked as diverged");
                }
            }
        }
        error
    }
}

/// Passes on to the committer what a shared store says. It holds nothing alive.
pub(crate) struct Watch<C: Compiler> {
    queue: Weak<Queue<C>>,
    images: Weak<Images<C::State>>,
    contact: Arc<Contact>,
    metrics: Arc<Metrics>,
    /// Whether the store's last word was that it cannot be reached, or none yet.
    silent: AtomicBool,
}

impl<C: Compiler> Watch<C> {
    pub(crate) fn new(
        queue: &Arc<Queue<C>>,
        images: &Arc<Images<C::State>>,
        contact: Arc<Contact>,
        metrics: Arc<Metrics>,
    ) -> Self {
        let (queue, images) = (Arc::downgrade(queue), Arc::downgrade(images));
        Watch { queue, images, contact, metrics, silent: AtomicBool::new(true) }
    }
}

/// How many transactions `heads` have that the images lack.
fn behind<S: State>(images: &Images<S>, heads: &[(OrgName, Option<HeadRecord>)]) -> u64 {
    let lacking = |(org, head): &(OrgName, Option<HeadRecord>)| {
        let have = images.get(org)?.head().seq.0;
        Some(head.as_ref()?.seq.0.saturating_sub(have))
    };
    heads.iter().filter_map(lacking).sum()
}

impl<C: Compiler> Watcher for Watch<C> {
    fn orgs(&self) -> Vec<OrgName> {
        self.images.upgrade().map(|images| images.loaded()).unwrap_or_default()
    }

    fn seen(&self, at: Instant, heads: Vec<(OrgName, Option<HeadRecord>)>) {
        let Some(queue) = self.queue.upgrade() else { return };
        if self.silent.swap(false, Ordering::AcqRel) {
            self.metrics.listener_connected();
        }
        if let Some(images) = self.images.upgrade() {
            self.metrics.behind(behind(&images, &heads));
        }
        queue.tell(|news| {
            news.at = news.at.max(Some(at));
            news.seen.extend(heads);
        });
    }

    fn hint(&self, org: OrgName, seq: Seq) {
        let (Some(queue), Some(images)) = (self.queue.upgrade(), self.images.upgrade()) else { return };
        // Of an org that nobody uses here: no reason to wake the committer. An image that is being loaded gets
        // a hint of its own afterwards.
        if images.get(&org).is_none_or(|state| state.head().seq >= seq) {
            return;
        }
        queue.tell(|news| {
            let newest = news.hints.entry(org).or_default();
            *newest = seq.max(*newest);
        });
    }

    fn others_write(&self, until: Instant) {
        if let Some(queue) = self.queue.upgrade() {
            queue.others_write(until);
        }
    }

    fn lost(&self, error: &StoreError) {
        self.contact.lose();
        if !self.silent.swap(true, Ordering::AcqRel) {
            self.metrics.listener_lost();
        }
        tracing::debug!(%error, "the meta store is not reached");
    }
}
