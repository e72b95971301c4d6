//! The audit stream: an event for each statement that changed something, was refused or was rolled back.
//!
//! What was done is in the history too, where it cannot be missing; what was not done is here alone. Events
//! go to the log under the target [`TARGET`]: `info` for what was refused, rolled back or is in doubt,
//! `debug` for what was done. Each names who, and who logged in if that is somebody else, from where, and the statement in its canonical form with every
//! literal left out. A session that is refused again and again gets a bounded number of them.

use std::sync::Arc;

use dataglot_grammar::without_literals;
use dataglot_model::{Actor, Name, Seq, SqlState, TransactionId};
use tokio::time::Instant;
use tracing::Level;

use crate::session::Session;

/// Under which target of the log it is found.
const TARGET: &str = "dataglot::audit";
/// How many events of things not done a session may leave at once.
const BURST_MAX: u32 = 100;
/// How many more it gets a second.
const PER_SECOND: u32 = 10;
/// How long the text of a statement may be, in bytes.
const STATEMENT_BYTES_MAX: usize = 64 << 10;

/// What became of a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It is durable.
    Done(Option<Seq>),
    /// It was not allowed, or not possible.
    Refused(SqlState),
    /// It was possible, and its transaction came to nothing: because of an error, or because that was wanted.
    RolledBack(Option<SqlState>),
    /// Nobody knows whether it is durable.
    Unknown,
}

impl Fate {
    /// What becomes of a single statement that ends with that error.
    pub(crate) fn of_error(code: SqlState) -> Self {
        if code == SqlState::TransactionResolutionUnknown { Fate::Unknown } else { Fate::Refused(code) }
    }

    /// What becomes of the statements of a transaction whose COMMIT ends with that error.
    pub(crate) fn of_commit_error(code: SqlState) -> Self {
        if code == SqlState::TransactionResolutionUnknown { Fate::Unknown } else { Fate::RolledBack(Some(code)) }
    }

    const fn outcome(self) -> &'static str {
        match self {
            Fate::Done(_) => "done",
            Fate::Refused(_) => "refused",
            Fate::RolledBack(_) => "rolled back",
            Fate::Unknown => "unknown",
        }
    }

    fn sqlstate(self) -> Option<&'static str> {
        match self {
            Fate::Refused(code) | Fate::RolledBack(Some(code)) => Some(code.code()),
            Fate::Unknown => Some(SqlState::TransactionResolutionUnknown.code()),
            Fate::Done(_) | Fate::RolledBack(None) => None,
        }
    }
}

/// A statement as the audit stream names it: who acted, and its canonical text.
#[derive(Clone)]
pub(crate) struct Audited {
    pub(crate) actor: Arc<Actor>,
    pub(crate) sql: Arc<str>,
}

/// How many more events a session may leave.
pub(crate) struct Budget {
    left: u32,
    counted: Instant,
    /// Events that were left out since the last that was not.
    left_out: u64,
}

impl Default for Budget {
    fn default() -> Self {
        Budget { left: BURST_MAX, counted: Instant::now(), left_out: 0 }
    }
}

impl Budget {
    /// Whether there is one more. Says how many were left out before it.
    fn take(&mut self, now: Instant) -> Option<u64> {
        let seconds = now.saturating_duration_since(self.counted).as_secs();
        if seconds > 0 {
            let more = u32::try_from(seconds).unwrap_or(u32::MAX).saturating_mul(PER_SECOND);
            self.left = self.left.saturating_add(more).min(BURST_MAX);
            self.counted = now;
        }
        match self.left.checked_sub(1) {
            Some(left) => {
                self.left = left;
                Some(std::mem::take(&mut self.left_out))
            }
            None => {
                self.left_out += 1;
                None
            }
        }
    }
}

impl Session {
    /// Leaves an event for a statement.
    pub(crate) fn audit(&mut self, statement: &Audited, id: Option<TransactionId>, fate: Fate) {
        if matches!(fate, Fate::Done(_)) {
            if tracing::enabled!(target: TARGET, Level::DEBUG) {
                self.leave(statement, id, fate, 0);
            }
        } else if tracing::enabled!(target: TARGET, Level::INFO)
            && let Some(left_out) = self.audit_budget.take(Instant::now())
        {
            self.leave(statement, id, fate, left_out);
        }
    }

    /// The same for each statement of a transaction.
    pub(crate) fn audit_all(&mut self, statements: &[Audited], id: Option<TransactionId>, fate: Fate) {
        if statements.is_empty() {
            return;
        }
        statements.iter().for_each(|statement| self.audit(statement, id, fate));
        self.audit_left_out();
    }

    /// Leaves an event that says how many were left out.
    pub(crate) fn audit_left_out(&mut self) {
        let left_out = std::mem::take(&mut self.audit_budget.left_out);
        if left_out > 0 {
            let (org, client, pid) = (self.org().as_str(), self.client(), self.pid());
            tracing::info!(target: TARGET, outcome = "left out", left_out, org, client, pid, "statements");
        }
    }

    fn leave(&self, statement: &Audited, id: Option<TransactionId>, fate: Fate, left_out: u64) {
        let Audited { actor, sql } = statement;
        let outcome = fate.outcome();
        let sqlstate = fate.sqlstate();
        let seq = match fate {
            Fate::Done(seq) => seq.map(|s| s.0),
            Fate::Refused(_) | Fate::RolledBack(_) | Fate::Unknown => None,
        };
        let org = self.org().as_str();
        let transaction = id.map(|id| id.to_string());
        let transaction = transaction.as_deref();
        let (role, user) = (actor.current_user.as_str(), actor.session_user.as_str());
        let login = self.assumed_by().map(Name::as_str);
        let (client, pid) = (self.client(), self.pid());
        let left_out = (left_out > 0).then_some(left_out);
        let sql = bounded(without_literals(sql));
        let sql = sql.as_str();
        if matches!(fate, Fate::Done(_)) {
            tracing::debug!(target: TARGET, outcome, org, actor = role, session_user = user, login, client, pid, transaction, seq, sql, "statement");
        } else {
            tracing::info!(target: TARGET, outcome, sqlstate, org, actor = role, session_user = user, login, client, pid, transaction, left_out, sql, "statement");
        }
    }
}

/// `text`, cut to what an event may hold.
fn bounded(mut text: String) -> String {
    if text.len() > STATEMENT_BYTES_MAX {
        text.truncate(text.floor_char_boundary(STATEMENT_BYTES_MAX));
        text.push('…');
    }
    text
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn i08_refusals_are_bounded_and_counted() {
        let mut budget = Budget::default();
        let start = budget.counted;
        for _ in 0..BURST_MAX {
            assert_eq!(budget.take(start), Some(0));
        }
        assert_eq!(budget.take(start), None);
        assert_eq!(budget.take(start), None);
        let later = start + Duration::from_secs(1);
        assert_eq!(budget.take(later), Some(2), "what was left out is counted");
        for _ in 1..PER_SECOND {
            assert_eq!(budget.take(later), Some(0));
        }
        assert_eq!(budget.take(later), None);
    }

    #[test]
    fn texts_are_cut_between_characters() {
        assert_eq!(bounded("a".to_owned()), "a");
        let cut = bounded("é".repeat(STATEMENT_BYTES_MAX));
        assert!(cut.len() <= STATEMENT_BYTES_MAX + '…'.len_utf8() && cut.ends_with('…'));
    }
}
