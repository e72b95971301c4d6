//! A transaction: an overlay on an image, what was done in it, and what it returns to.
//!
//! A block that idles holds nothing but memory: no lock, no place in the queue. All that it did is
//! planned again when it is committed, unless nobody has committed anything since.

use std::sync::Arc;

use dataglot_model::{Actor, HeadRecord, Name, Notice, SqlState, Timestamp, TransactionId, TransactionModes};
use dataglot_planner::{Image, Plan};
use dataglot_store::State;

use crate::audit::Audited;
use crate::compiler::{OrgState, Planned, PlannedStatement, Redo, SeenPassword};
use crate::credentials::NewPassword;
use crate::error::SessionError;
use crate::session::Scoped;
use dataglot_model::{Command, Sealed};

/// Statements whose commands are kept for planning again; later ones of a long script are read again
/// from their text, which takes a tenth of the memory.
const TYPED_STATEMENTS_MAX: usize = 1_000;
/// Most savepoints of one transaction.
const SAVEPOINTS_MAX: usize = 1_000;

/// A transaction of a session.
pub(crate) struct Transaction {
    /// BEGIN was said; else it ends with the message (or, in the extended protocol, at Sync).
    pub(crate) explicit: bool,
    /// It may hold several statements: what the first looks at, the others are decided on.
    pub(crate) spans: bool,
    /// The store was asked how new it is before the transaction looked at its image.
    pub(crate) is_fresh: bool,
    /// The store was to be asked, and could not be reached.
    pub(crate) has_missed_store: bool,
    /// What it is called when it is committed. `None`: nothing in it has changed anything.
    pub(crate) id: Option<TransactionId>,
    /// A statement failed: all that is left is its end.
    pub(crate) failed: bool,
    /// When it started.
    pub(crate) now: Timestamp,
    /// As it was asked for.
    pub(crate) isolation: &'static str,
    pub(crate) read_only: bool,
    pub(crate) deferrable: bool,
    /// A statement has read or changed something.
    pub(crate) queried: bool,
    /// LISTEN (true) or UNLISTEN in it.
    pub(crate) listen: Option<bool>,
    /// What the session's own user is given for a password.
    pub(crate) own_password: Option<NewPassword>,
    /// What ROLLBACK returns to.
    pub(crate) before: Scoped,
    work: Option<Work>,
    savepoints: Vec<Savepoint>,
}

/// There as soon as a statement looks at the image.
struct Work {
    base: Arc<OrgState>,
    image: Image,
    statements: Vec<PlannedStatement>,
    weight: usize,
}

struct Savepoint {
    name: Name,
    image: Option<Image>,
    statements: usize,
    weight: usize,
    listen: Option<bool>,
    own_password: Option<NewPassword>,
    scoped: Scoped,
}

impl Transaction {
    pub(crate) fn new(
        explicit: bool,
        now: Timestamp,
        isolation: &'static str,
        read_only: bool,
        before: Scoped,
    ) -> Self {
        Transaction {
            explicit,
            spans: explicit,
            is_fresh: false,
            has_missed_store: false,
            id: None,
            failed: false,
            now,
            isolation,
            read_only,
            deferrable: false,
            queried: false,
            listen: None,
            own_password: None,
            before,
            work: None,
            savepoints: Vec::new(),
        }
    }

    /// Sets the modes that BEGIN or SET TRANSACTION names.
    ///
    /// # Errors
    /// 25001: too late for it.
    pub(crate) fn set_modes(&mut self, modes: TransactionModes) -> Result<(), SessionError> {
        let TransactionModes { isolation, read_only, deferrable } = modes;
        let too_late = |what: &str| {
            Err(SessionError::new(SqlState::ActiveTransaction, format!("{what} must be set before any query")))
        };
        if let Some(isolation) = isolation {
            if self.queried && isolation.as_str() != self.isolation {
                return Err(SessionError::new(
                    SqlState::ActiveTransaction,
                    "SET TRANSACTION ISOLATION LEVEL must be called before any query",
                ));
            }
            self.isolation = isolation.as_str();
        }
        if let Some(read_only) = read_only {
            if self.queried && self.read_only && !read_only {
                return too_late("transaction read-write mode");
            }
            self.read_only = read_only;
        }
        if let Some(deferrable) = deferrable {
            self.deferrable = deferrable;
        }
        Ok(())
    }

    /// The same modes, for AND CHAIN.
    pub(crate) fn chained(&self, now: Timestamp, before: Scoped) -> Transaction {
        let mut next = Transaction::new(true, now, self.isolation, self.read_only, before);
        next.deferrable = self.deferrable;
        next
    }

    /// The image as this transaction sees it, if it has looked at one.
    pub(crate) fn image(&self) -> Option<&Image> {
        self.work.as_ref().map(|w| &w.image)
    }

    /// The head of what it began with, if it has looked at anything.
    pub(crate) fn base(&self) -> Option<HeadRecord> {
        self.work.as_ref().map(|w| w.base.head())
    }

    /// Forgets what it has looked at, if nothing was done on that. False: it is too late.
    pub(crate) fn forget_image(&mut self) -> bool {
        let is_unused = self.work.as_ref().is_none_or(|w| w.statements.is_empty());
        if is_unused {
            self.work = None;
        }
        is_unused
    }

    /// Forks `newest`, unless it was done before.
    pub(crate) fn look_at(&mut self, newest: &Arc<OrgState>) -> &Image {
        let work = self.work.get_or_insert_with(|| Work {
            base: Arc::clone(newest),
            image: newest.0.clone(),
            statements: Vec::new(),
            weight: 0,
        });
        &work.image
    }

    /// The overlay, to be changed in place and given back by [`Transaction::push`]. Until then the image that
    /// the transaction began with stands in its place.
    pub(crate) fn take_image(&mut self) -> Result<Image, SessionError> {
        let work = self.work.as_mut().ok_or_else(|| SessionError::bug("a plan without an image"))?;
        Ok(std::mem::replace(&mut work.image, work.base.0.clone()))
    }

    /// A statement was planned on the overlay, which is `after` it now.
    pub(crate) fn push(
        &mut self,
        actor: &Arc<Actor>,
        sql: Arc<str>,
        kept: (Command<Sealed>, Option<SeenPassword>),
        has_credential: bool,
        plan: Plan,
        after: Image,
    ) -> Result<(), SessionError> {
        let work = self.work.as_mut().ok_or_else(|| SessionError::bug("a plan without an image"))?;
        let Plan { mutations, tag, notices } = plan;
        work.image = after;
        let is_typed = has_credential || work.statements.len() < TYPED_STATEMENTS_MAX;
        work.weight += 256 + sql.len() + mutations.len() * 256;
        work.statements.push(PlannedStatement {
            actor: Arc::clone(actor),
            sql,
            mutations,
            redo: if is_typed { Redo::Typed(Arc::new(kept)) } else { Redo::Text },
            tag,
            notices,
        });
        Ok(())
    }

    /// Whether it changes anything.
    pub(crate) fn changes(&self) -> bool {
        self.work.as_ref().is_some_and(|w| w.statements.iter().any(|s| !s.mutations.is_empty()))
    }

    /// The statements that changed something, from the `first` on.
    pub(crate) fn audited(&self, first: usize) -> Vec<Audited> {
        let statements = self.work.as_ref().map(|w| w.statements.as_slice()).unwrap_or_default();
        let done = statements.get(first..).unwrap_or_default().iter().filter(|s| !s.mutations.is_empty());
        done.map(|s| Audited { actor: Arc::clone(&s.actor), sql: Arc::clone(&s.sql) }).collect()
    }

    /// What goes to the committer. `None`: nothing changes, so there is nothing to commit.
    pub(crate) fn into_planned(self) -> Option<Planned> {
        if !self.changes() {
            return None;
        }
        let Work { base, image, statements, weight } = self.work?;
        Some(Planned { base: base.head(), image, now: self.now, statements, weight })
    }

    /// A statement failed. What it did so far will not be used any more, and is handed out, unless there is a
    /// savepoint to return to.
    pub(crate) fn fail(&mut self) -> Vec<Audited> {
        self.failed = true;
        if !self.savepoints.is_empty() {
            return Vec::new();
        }
        let undone = self.audited(0);
        self.work = None;
        undone
    }

    /// `SAVEPOINT name`
    pub(crate) fn savepoint(&mut self, name: &Name, scoped: Scoped) -> Result<(), SessionError> {
        if self.savepoints.len() >= SAVEPOINTS_MAX {
            return Err(SessionError::new(SqlState::ProgramLimitExceeded, "too many savepoints")
                .with_detail(format!("A transaction may have at most {SAVEPOINTS_MAX}.")));
        }
        self.savepoints.push(Savepoint {
            name: name.clone(),
            image: self.work.as_ref().map(|w| w.image.clone()),
            statements: self.work.as_ref().map_or(0, |w| w.statements.len()),
            weight: self.work.as_ref().map_or(0, |w| w.weight),
            listen: self.listen,
            own_password: self.own_password,
            scoped,
        });
        Ok(())
    }

    /// `RELEASE name`: it goes, and those made after it.
    pub(crate) fn release(&mut self, name: &Name) -> Result<(), SessionError> {
        let at = self.find(name)?;
        self.savepoints.truncate(at);
        Ok(())
    }

    /// `ROLLBACK TO name`: back to how things were; it stays, and can be returned to again. Hands out what is
    /// undone.
    pub(crate) fn rollback_to(&mut self, name: &Name) -> Result<(Scoped, Vec<Audited>), SessionError> {
        let at = self.find(name)?;
        self.savepoints.truncate(at + 1);
        let undone = self.audited(self.savepoints.last().map_or(0, |s| s.statements));
        let Some(Savepoint { image, statements, weight, listen, own_password, scoped, name: _ }) =
            self.savepoints.last()
        else {
            return Err(SessionError::bug("a savepoint is gone"));
        };
        if let Some(work) = &mut self.work {
            work.image = image.clone().unwrap_or_else(|| work.base.0.clone());
            work.statements.truncate(*statements);
            work.weight = *weight;
        }
        self.listen = *listen;
        self.own_password = *own_password;
        self.failed = false;
        Ok((scoped.clone(), undone))
    }

    fn find(&self, name: &Name) -> Result<usize, SessionError> {
        self.savepoints.iter().rposition(|s| s.name == *name).ok_or_else(|| {
            SessionError::new(SqlState::InvalidSavepoint, format!("savepoint \"{}\" does not exist", name.as_str()))
        })
    }
}

/// There is no transaction to end.
pub(crate) fn no_transaction() -> Notice {
    Notice::new(dataglot_model::Severity::Warning, SqlState::NoActiveTransaction, "there is no transaction in progress")
}

/// There is one already.
pub(crate) fn already_in_progress() -> Notice {
    Notice::new(
        dataglot_model::Severity::Warning,
        SqlState::ActiveTransaction,
        "there is already a transaction in progress",
    )
}

/// `what` outside of a transaction has no effect.
pub(crate) fn only_in_blocks(what: &str) -> Notice {
    Notice::new(
        dataglot_model::Severity::Warning,
        SqlState::NoActiveTransaction,
        format!("{what} can only be used in transaction blocks"),
    )
}

/// `dry_run` is on.
pub(crate) fn dry_run() -> Notice {
    Notice::note("dry run: nothing was committed")
}
