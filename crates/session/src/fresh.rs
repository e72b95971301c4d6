//! How new the image is that a statement looks at.
//!
//! In a store that other coordinators write to, an image may lag behind. A change that stands alone is
//! decided by the committer on the store's own state. Everything else looks at an image here, and this
//! is where that image is made as new as it has to be:
//!
//! * a transaction of several statements begins with what the store has, so nothing in it is decided on
//!   less than all that was acknowledged before;
//! * a read is never older than what its session has seen, nor than `min_version`; with `read_freshness =
//!   strict` the store is asked first;
//! * while the store is out of reach, reads go on and say so, and what decides on rights ends with the lease.
//!
//! None of it costs anything in a store that nobody else writes to.

use std::sync::Arc;

use dataglot_model::{Notice, Problem, Seq, SqlState};
use dataglot_store::{Freshness, State, StoreError};

use crate::access;
use crate::compiler::{OrgState, moved};
use crate::error::SessionError;
use crate::session::Session;
use crate::transaction::Transaction;

/// What a statement looks at the image for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Look {
    /// To answer what is there.
    Read,
    /// To decide who the session may be.
    Decide,
    /// To plan a change.
    Write,
}

/// `read_freshness`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReadFreshness {
    Strict,
    Session,
    Local,
}

impl Session {
    /// The newest image, as new as `look` demands. A transaction that has looked before goes on with its own.
    ///
    /// # Errors
    /// The store cannot be asked, and the statement is nothing without it; 55000: the version that it is to
    /// wait for has not come; 40001: the transaction has seen less than the store has; those of
    /// [`Session::newest`].
    pub(crate) async fn look(&mut self, look: Look) -> Result<Arc<OrgState>, SessionError> {
        let has_fork = self.transaction.as_ref().is_some_and(|t| t.image().is_some());
        let mode = self.read_freshness();
        if self.engine.is_shared() && self.asks_store(look, mode, has_fork) {
            Box::pin(self.ask_store(look, mode)).await?;
        }
        self.await_version(mode, has_fork).await?;
        let newest = self.newest().await?;
        let looked_at = match self.transaction.as_ref().and_then(Transaction::base) {
            Some(base) => base.seq,
            None => newest.head().seq,
        };
        self.see(looked_at);
        Ok(newest)
    }

    /// The session knows that its org has that version.
    pub(crate) fn see(&mut self, seq: Seq) {
        self.seen = self.seen.max(seq);
    }

    /// The session knows what is published.
    pub(crate) async fn see_newest(&mut self) {
        if let Ok(Some(newest)) = self.engine.image(&self.org).await {
            self.see(newest.head().seq);
        }
    }

    fn read_freshness(&self) -> ReadFreshness {
        match self.scoped.settings.changed("read_freshness") {
            Some("strict") => ReadFreshness::Strict,
            Some("local") => ReadFreshness::Local,
            Some(_) | None => ReadFreshness::Session,
        }
    }

    fn min_version(&self) -> Seq {
        Seq(self.scoped.settings.changed("min_version").and_then(|v| v.parse().ok()).unwrap_or(0))
    }

    /// Whether the store is asked how new it is before the statement.
    fn asks_store(&self, look: Look, mode: ReadFreshness, has_fork: bool) -> bool {
        match (&self.transaction, look) {
            // Its fork stays what it is; only a change has to know that it was new enough.
            (Some(transaction), Look::Write) => !(has_fork && transaction.is_fresh),
            (Some(_), Look::Read | Look::Decide) if has_fork => false,
            (Some(_) | None, Look::Decide) => true,
            (Some(transaction), Look::Read) => {
                let is_snapshot = mode == ReadFreshness::Local && transaction.read_only;
                mode == ReadFreshness::Strict || (transaction.spans && !is_snapshot)
            }
            (None, Look::Read) => mode == ReadFreshness::Strict,
            // It stands alone: the committer decides.
            (None, Look::Write) => false,
        }
    }

    /// Brings the image up to the store, and notes in the transaction whether that was possible.
    async fn ask_store(&mut self, look: Look, mode: ReadFreshness) -> Result<(), SessionError> {
        let needs_store = look == Look::Write || (look == Look::Read && mode == ReadFreshness::Strict);
        let is_lost = match self.engine.hub().freshness_of(&self.org) {
            Freshness::Current => false,
            Freshness::Stale { .. } | Freshness::Expired { .. } => true,
        };
        // Who can do without does not wait for a store that is known to be out of reach.
        if is_lost && !needs_store {
            self.missed_store();
            return Ok(());
        }
        let hub = self.engine.hub();
        let asked = self.interruptible(async { Ok(hub.refresh(&self.org).await) }).await?;
        match asked {
            Ok(()) => self.met_store().await,
            Err(error) if needs_store || !is_out_of_reach(&error) => Err(SessionError::of(&error)),
            Err(_) => {
                self.missed_store();
                Ok(())
            }
        }
    }

    fn missed_store(&mut self) {
        if let Some(transaction) = &mut self.transaction {
            transaction.has_missed_store = true;
        }
    }

    /// The image is as new as the store: a transaction that looked at an older one cannot go on with it.
    async fn met_store(&mut self) -> Result<(), SessionError> {
        let newest = self.newest().await?;
        let Some(transaction) = &mut self.transaction else { return Ok(()) };
        let now = newest.head();
        match transaction.base() {
            Some(base) if (base.org_id, base.seq) != (now.org_id, now.seq) => {
                if transaction.explicit || !transaction.forget_image() {
                    return Err(moved("the meta store could be reached again, and has a newer state"));
                }
            }
            Some(_) | None => {}
        }
        transaction.is_fresh = true;
        transaction.has_missed_store = false;
        Ok(())
    }

    /// Waits for `min_version`, and for what the session has seen.
    async fn await_version(&mut self, mode: ReadFreshness, has_fork: bool) -> Result<(), SessionError> {
        let min = self.min_version();
        if has_fork {
            let have = self.transaction.as_ref().and_then(Transaction::base).map_or(Seq(0), |base| base.seq);
            if have < min {
                return Err(SessionError::new(
                    SqlState::ObjectNotInPrerequisiteState,
                    "the transaction began with an older version than min_version",
                )
                .with_detail(format!("It sees version {have}, and min_version is {min}."))
                .with_hint("Set min_version before the first statement of a transaction."));
            }
            return Ok(());
        }
        let wanted = match mode {
            ReadFreshness::Local => min,
            ReadFreshness::Session | ReadFreshness::Strict => min.max(self.seen),
        };
        let have = self.engine.image(&self.org).await?.map(|state| state.head().seq);
        if have.is_none_or(|have| have >= wanted) {
            return Ok(());
        }
        let (hub, within) = (self.engine.hub(), self.engine.config().version_wait);
        let wait = self.interruptible(async { Ok(hub.wait_for(&self.org, wanted, within).await) });
        let come = Box::pin(wait).await?;
        match come {
            Ok(true) => Ok(()),
            Err(error) => Err(SessionError::of(&error)),
            Ok(false) => {
                let have = self.engine.image(&self.org).await?.map_or(Seq(0), |state| state.head().seq);
                Err(SessionError::new(
                    SqlState::ObjectNotInPrerequisiteState,
                    format!("version {wanted} has not come within {} ms", within.as_millis()),
                )
                .with_detail(format!("The version here is {have}."))
                .with_hint("Check min_version, or try again: it may be on its way."))
            }
        }
    }

    /// Refuses what decides on rights when the lease on the image is over.
    ///
    /// # Errors
    /// 57P03
    pub(crate) fn check_lease(&self) -> Result<(), SessionError> {
        match self.engine.hub().freshness_of(&self.org) {
            Freshness::Expired { age } => Err(access::closed(age)),
            Freshness::Current | Freshness::Stale { .. } => Ok(()),
        }
    }

    /// What goes with the answer of a read, if the image may be older than the store, or is of another
    /// history.
    pub(crate) fn staleness(&self) -> Option<Notice> {
        if !self.engine.is_shared() {
            return None;
        }
        let hub = self.engine.hub();
        let transaction = self.transaction.as_ref();
        let version = transaction.and_then(Transaction::base).map_or(self.seen, |base| base.seq);
        let state = format!("this is the state of version {version}");
        if let Some(error) = hub.diverged(&self.org) {
            let mut notice = Notice::warning(format!("{error}: {state}"));
            (notice.detail, notice.hint) = (error.detail(), error.hint());
            return Some(notice);
        }
        match hub.freshness_of(&self.org) {
            Freshness::Stale { age } | Freshness::Expired { age } if age.as_secs() > 0 => {
                let age = age.as_secs();
                Some(Notice::warning(format!("the meta store has not been reached for {age} s: {state}")))
            }
            Freshness::Stale { .. } | Freshness::Expired { .. } => {
                Some(Notice::warning(format!("the meta store cannot be reached: {state}")))
            }
            Freshness::Current if transaction.is_some_and(|t| t.has_missed_store) => Some(Notice::warning(format!(
                "the meta store could not be reached when the transaction began: {state}"
            ))),
            Freshness::Current => None,
        }
    }
}

/// Whether a read can do without the answer that the store did not give.
pub(crate) fn is_out_of_reach(error: &StoreError) -> bool {
    match error {
        StoreError::Unavailable { .. }
        | StoreError::ConnectionLost
        | StoreError::Io { .. }
        | StoreError::Contended
        | StoreError::Poisoned
        // What the image holds was acknowledged; what the store holds now, nobody has decided yet.
        | StoreError::Diverged { .. }
        | StoreError::Postgres(_) => true,
        StoreError::DiskFull
        | StoreError::Locked { .. }
        | StoreError::Newer { .. }
        | StoreError::NotAStore { .. }
        | StoreError::Missing { .. }
        | StoreError::Permissions { .. }
        | StoreError::Damaged { .. }
        | StoreError::NoSuchOrg(_)
        | StoreError::Internal => false,
    }
}
