//! Copies a whole store into an empty one: every org with its history, identities and the values that
//! the store has once, so that a server goes on with the copy as with the original.
//!
//! All orgs are written in one commit, so a copy is there whole or not at all. Rows are handed on while
//! they are read and are never in memory together. What was written is believed only after both stores
//! have been read and compared ([`summarize`]).
//!
//! Deliberately absent: opening stores, but for a target that is a file. The source is read and nothing else.

mod file;
mod rows;
mod summary;

use std::cell::RefCell;
use std::path::PathBuf;

use dataglot_model::{HeadRecord, OrgName, Problem, SqlState};

use self::rows::{OrgRows, Progress, Trouble};
use crate::{Base, CommitError, Group, MetaStore, OrgGroup, RowSink, Rows, StoreError};

pub use file::copy_to_file;
pub use summary::{Digest, Summary, summarize};

/// Why there is no copy. Unless a variant says otherwise, the target has no org, as before.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CopyError {
    /// The source cannot be read.
    #[error("the source cannot be copied: {0}")]
    Source(StoreError),
    /// The target cannot be written.
    #[error("the target cannot be written: {0}")]
    Target(StoreError),
    /// The target has orgs: nothing was written to it.
    #[error("the target is not empty: it has {orgs} {}", if *orgs == 1 { "database" } else { "databases" })]
    TargetNotEmpty {
        /// How many.
        orgs: usize,
    },
    /// There is a file of the target's name: it was left as it is.
    #[error("\"{}\" exists", _0.display())]
    Exists(PathBuf),
    /// The target was made with an identity of its own. Secrets are bound to the store's: they would not
    /// open in it.
    #[error("the target is another store: it has an identity of its own")]
    OtherIdentity,
    /// Somebody wrote to the source meanwhile.
    #[error("the source was written to while it was copied")]
    SourceMoved,
    /// The two differ, read back. The copy was removed.
    #[error("the copy does not read back as the source does")]
    Differs {
        /// The source.
        source_summary: Box<Summary>,
        /// The copy.
        target_summary: Box<Summary>,
    },
    /// There is no good copy, and what was written could not be removed: the target is not to be used.
    #[error("the copy failed, and what was written to the target is still there: {why}")]
    NotRemoved {
        /// Why there is no good copy.
        why: Box<CopyError>,
    },
}

impl Problem for CopyError {
    fn sqlstate(&self) -> SqlState {
        match self {
            CopyError::Source(error) | CopyError::Target(error) => error.sqlstate(),
            CopyError::TargetNotEmpty { .. } | CopyError::Exists(_) | CopyError::OtherIdentity => {
                SqlState::ObjectNotInPrerequisiteState
            }
            CopyError::SourceMoved => SqlState::SerializationFailure,
            CopyError::Differs { .. } => SqlState::DataCorrupted,
            CopyError::NotRemoved { why } => why.sqlstate(),
        }
    }

    fn detail(&self) -> Option<String> {
        match self {
            CopyError::Source(error) | CopyError::Target(error) => error.detail(),
            CopyError::Differs { source_summary, target_summary } => Some(format!(
                "The source has {} rows with digest {}, the copy has {} with digest {}.",
                source_summary.rows(),
                source_summary.digest,
                target_summary.rows(),
                target_summary.digest
            )),
            CopyError::NotRemoved { why } => why.detail(),
            CopyError::TargetNotEmpty { .. }
            | CopyError::Exists(_)
            | CopyError::OtherIdentity
            | CopyError::SourceMoved => None,
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            CopyError::Source(error) | CopyError::Target(error) => error.hint(),
            CopyError::TargetNotEmpty { .. } => Some("Copy to a database without a store in use.".to_owned()),
            CopyError::Exists(_) => Some("Copy to a file that does not exist.".to_owned()),
            CopyError::OtherIdentity => Some("Copy to a database in which no server has been started.".to_owned()),
            CopyError::SourceMoved => Some("Stop the servers that use it, or try again.".to_owned()),
            CopyError::Differs { .. } => None,
            CopyError::NotRemoved { .. } => Some("Remove the target before you try again.".to_owned()),
        }
    }
}

/// Copies `from` into `to`, which has no org and the identity of `from`, and compares the two. Returns
/// what both hold.
///
/// # Errors
/// [`CopyError`] says why not, and what has become of the target. The source is as it was.
pub fn copy(from: &dyn MetaStore, to: &dyn MetaStore) -> Result<Summary, CopyError> {
    if from.facts().store_id != to.facts().store_id {
        return Err(CopyError::OtherIdentity);
    }
    let there = to.heads().map_err(CopyError::Target)?.len();
    if there > 0 {
        return Err(CopyError::TargetNotEmpty { orgs: there });
    }
    let heads = from.heads().map_err(CopyError::Source)?;
    let progress = RefCell::new(Progress::default());
    write(from, to, &heads, &progress)?;
    let why = match compare(from, to, &heads) {
        Ok(copied) => return Ok(copied),
        Err(why) => why,
    };
    match remove(to, &heads) {
        Ok(()) => Err(why),
        Err(error) => {
            tracing::error!(%error, "a copy that failed could not be removed");
            Err(CopyError::NotRemoved { why: Box::new(why) })
        }
    }
}

/// Writes all that `from` has. The values first: an org without the mark of its key would be taken for
/// one whose key is lost, a mark without an org does no harm.
fn write(
    from: &dyn MetaStore,
    to: &dyn MetaStore,
    heads: &[(OrgName, HeadRecord)],
    progress: &RefCell<Progress>,
) -> Result<(), CopyError> {
    for (key, value) in from.metas().map_err(CopyError::Source)? {
        to.meta_put(&key, &value).map_err(CopyError::Target)?;
    }
    let rows: Vec<_> = heads.iter().map(|(org, head)| OrgRows::new(from, org, *head, progress)).collect();
    let orgs = heads.iter().zip(&rows).map(|((org, head), rows)| OrgGroup {
        org,
        base: Base::Absent,
        erase: false,
        head: Some(*head),
        rows,
    });
    let committed = to.commit(&Group { orgs: orgs.collect() });
    // What went wrong at the source says more than what the target makes of it.
    match progress.borrow_mut().trouble.take() {
        Some(Trouble::Moved) => return Err(CopyError::SourceMoved),
        Some(Trouble::Store(error)) => return Err(CopyError::Source(error)),
        None => {}
    }
    match committed {
        Ok(()) => Ok(()),
        Err(CommitError::Conflict | CommitError::Fenced) => {
            Err(CopyError::TargetNotEmpty { orgs: to.heads().map_or(1, |h| h.len()) })
        }
        Err(CommitError::Full) => Err(CopyError::Target(StoreError::DiskFull)),
        Err(CommitError::Failed(error)) => Err(CopyError::Target(error)),
        Err(CommitError::Unknown(error)) => find_out(to, progress, error),
    }
}

/// After a commit of unknown outcome: whether it is there.
fn find_out(to: &dyn MetaStore, progress: &RefCell<Progress>, error: StoreError) -> Result<(), CopyError> {
    let Some((org, id)) = progress.borrow().last.clone() else { return Err(CopyError::Target(error)) };
    match to.find_transaction(&org, id) {
        Ok(Some(_)) => Ok(()),
        Ok(None) => Err(CopyError::Target(error)),
        Err(_) => Err(CopyError::NotRemoved { why: Box::new(CopyError::Target(error)) }),
    }
}

/// Reads both, and compares.
fn compare(from: &dyn MetaStore, to: &dyn MetaStore, heads: &[(OrgName, HeadRecord)]) -> Result<Summary, CopyError> {
    let target = summarize(to).map_err(CopyError::Target)?;
    let source = summarize(from).map_err(CopyError::Source)?;
    if source == target {
        Ok(target)
    } else if source.orgs != heads {
        Err(CopyError::SourceMoved)
    } else {
        Err(CopyError::Differs { source_summary: Box::new(source), target_summary: Box::new(target) })
    }
}

/// No rows.
struct Nothing;

impl Rows for Nothing {
    fn write(&self, _sink: &mut RowSink<'_>) -> Result<(), StoreError> {
        Ok(())
    }
}

/// Takes back what [`write`] has written, unless somebody has gone on with it.
fn remove(to: &dyn MetaStore, heads: &[(OrgName, HeadRecord)]) -> Result<(), CommitError> {
    let orgs = heads.iter().map(|(org, head)| OrgGroup {
        org,
        base: Base::from(head),
        erase: true,
        head: None,
        rows: &Nothing,
    });
    to.commit(&Group { orgs: orgs.collect() })
}

#[cfg(test)]
mod tests;
