//! What was seen from outside in a run: operations of clients with what they were answered, and what the
//! store says of itself afterwards.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use crate::model::Answer;
use crate::statement::{Show, Statement};

/// A point of the run. All of them are in one order, which is that of time: what was drawn earlier is less.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment {
    pub tick: u64,
    /// Since the start of the run; for people.
    pub at: Duration,
}

/// How the statements of a change are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Form {
    /// One statement, by the simple protocol.
    Simple,
    /// One statement, by Parse, Bind and Execute.
    Extended,
    /// Several in one query string, which makes them one transaction.
    Script,
    /// BEGIN to COMMIT in one query string.
    BlockAtOnce,
    /// BEGIN to COMMIT, each statement on its own.
    Block,
    /// BEGIN to ROLLBACK, each on its own.
    RolledBack,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    Change {
        form: Form,
        statements: Vec<Statement>,
    },
    /// All in one query string, so that they show one state.
    Read {
        strict: bool,
        shows: Vec<Show>,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Every statement was answered, BEGIN, COMMIT and ROLLBACK apart.
    Done { answers: Vec<Answer> },
    /// An error that says that nothing was done. `answers` were there before it.
    Refused { sqlstate: String, message: String, answers: Vec<Answer> },
    /// The connection was lost before the end of the transaction was sent.
    Abandoned,
    /// No answer, or the answer that it is not known, with the transaction's id. Then another coordinator was
    /// asked at once, and any of them later in the run: what those said that knew, in order.
    Unknown { transaction: Option<String>, asked: Vec<Status> },
}

/// One operation of a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Op {
    pub client: usize,
    /// Counts the client's connections. A session is one of them.
    pub session: u64,
    /// The coordinator.
    pub node: usize,
    /// The mark in history, which no other operation has.
    pub id: String,
    /// What the session has set `min_version` to, or 0.
    pub min_version: u64,
    pub kind: Kind,
    pub invoked: Moment,
    /// When the client knew. What is not known may still happen later.
    pub completed: Moment,
    pub outcome: Outcome,
    /// The version that the session was told of together with the answer.
    pub version: Option<u64>,
}

/// One transaction in the store's history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    pub version: u64,
    /// The mark of the operation. `None`: it has none.
    pub id: Option<String>,
    pub transaction: String,
    pub statements: Vec<String>,
}

/// What became of an operation of unknown outcome, as the store said afterwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    Committed(u64),
    NotCommitted,
}

/// A state as somebody showed it at the end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Final {
    pub who: String,
    pub version: u64,
    pub shows: BTreeMap<Show, String>,
}

/// A whole run.
#[derive(Clone, Debug, Default)]
pub struct History {
    pub ops: Vec<Op>,
    pub records: Vec<Record>,
    /// By transaction id.
    pub statuses: BTreeMap<String, Status>,
    pub finals: Vec<Final>,
}

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.3} s (#{})", self.at.as_secs_f64(), self.tick)
    }
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} on node {} in session {}", self.id, self.node + 1, self.session)?;
        write!(f, ", {} to {}: ", self.invoked, self.completed)?;
        match &self.kind {
            Kind::Change { form, statements } => {
                let text: Vec<String> = statements.iter().map(ToString::to_string).collect();
                write!(f, "{form:?} [{}]", text.join("; "))?;
            }
            Kind::Read { strict, shows } => {
                let text: Vec<String> = shows.iter().map(ToString::to_string).collect();
                write!(f, "{} read [{}]", if *strict { "strict" } else { "session" }, text.join("; "))?;
            }
        }
        if self.min_version > 0 {
            write!(f, " with min_version {}", self.min_version)?;
        }
        write!(f, " -> ")?;
        match &self.outcome {
            Outcome::Done { answers } => write!(f, "done {}", answers_text(answers))?,
            Outcome::Refused { sqlstate, message, answers } => {
                write!(f, "refused {sqlstate} {message} {}", answers_text(answers))?;
            }
            Outcome::Abandoned => write!(f, "abandoned before its end")?,
            Outcome::Unknown { transaction: None, .. } => write!(f, "unknown")?,
            Outcome::Unknown { transaction: Some(id), asked } => {
                write!(f, "unknown, transaction {id}, said in the run to be {asked:?}")?;
            }
        }
        if let Some(version) = self.version {
            write!(f, ", told of version {version}")?;
        }
        Ok(())
    }
}

fn answers_text(answers: &[Answer]) -> String {
    let text: Vec<String> = answers
        .iter()
        .map(|answer| {
            let mut text = answer.tag.clone();
            for notice in &answer.notices {
                text.push_str(&format!(" ({notice})"));
            }
            if let Some(rows) = &answer.rows {
                text.push_str(&format!(" <{}>", rows.trim_end().replace('\n', ", ")));
            }
            text
        })
        .collect();
    format!("[{}]", text.join("; "))
}
