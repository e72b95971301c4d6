//! What a backend has to be.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use dataglot_model::{HeadRecord, OrgName, Seq, Timestamp, TransactionId};

use crate::{CommitError, StoreError, Table};

/// What a store says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreFacts {
    /// `redb`, `postgres`, `memory`.
    pub backend: &'static str,
    /// Where it is, without any credential; for people.
    pub location: String,
    /// The file, where it is one.
    pub path: Option<PathBuf>,
    /// Made with the store and never again.
    pub store_id: [u8; 16],
    /// The format of its tables.
    pub schema_version: u32,
    /// Whether it outlives the process.
    pub durable: bool,
    /// Whether other processes may write to it meanwhile.
    pub shared: bool,
}

/// Takes one row: table, key without the org, value; `None` deletes.
pub type RowSink<'a> = dyn FnMut(Table, &[u8], Option<&[u8]>) -> Result<(), StoreError> + 'a;

/// Rows of one org in the order in which they are to be written. Encoded while they are written:
/// they are never in memory together.
pub trait Rows {
    /// Hands every row to `sink`, and stops at its first error. Can be called again, with the same
    /// outcome.
    ///
    /// # Errors
    /// Those of `sink`.
    fn write(&self, sink: &mut RowSink<'_>) -> Result<(), StoreError>;
}

/// The state of an org that a group was planned on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Base {
    /// There was no such org.
    Absent,
    /// It was this one, at this sequence number.
    At {
        /// [`HeadRecord::org_id`]
        org_id: u64,
        /// [`HeadRecord::seq`]
        seq: Seq,
        /// [`HeadRecord::at`]: another history may have a transaction of the same number.
        at: Timestamp,
    },
}

impl From<&HeadRecord> for Base {
    fn from(head: &HeadRecord) -> Self {
        Base::At { org_id: head.org_id, seq: head.seq, at: head.at }
    }
}

/// What a group does to one org.
pub struct OrgGroup<'a> {
    /// Which.
    pub org: &'a OrgName,
    /// What it has to be for the group to be written.
    pub base: Base,
    /// Every row that the org has, changes included, goes first: it is dropped (and perhaps made anew).
    pub erase: bool,
    /// Its head afterwards; `None`: the org is gone.
    pub head: Option<HeadRecord>,
    /// Its rows.
    pub rows: &'a dyn Rows,
}

/// What is committed at once: all of it, or nothing. At most one entry an org.
pub struct Group<'a> {
    /// The orgs.
    pub orgs: Vec<OrgGroup<'a>>,
}

/// Takes an org's image.
pub trait ImageSink {
    /// First: the head that all rows belong to.
    fn begin(&mut self, head: HeadRecord);
    /// Then each row: table, key without the org, value.
    fn row(&mut self, table: Table, key: &[u8], value: &[u8]);
}

/// Takes what has become of an org since a state.
pub trait DeltaSink {
    /// First: the head that all the rest belongs to. False: that is all that was wanted.
    fn begin(&mut self, head: HeadRecord) -> bool;
    /// Then each row of [`Table::Changes`] from the asked sequence number on: number, step, value. False: no
    /// more of them are wanted.
    fn change(&mut self, seq: Seq, step: u32, value: &[u8]) -> bool;
    /// Asked once after them: the addresses of the rows that they touch.
    fn touched(&mut self) -> Vec<(Table, Vec<u8>)>;
    /// Last, each of those rows as it is now: table, key without the org, value; `None`: it is gone.
    fn row(&mut self, table: Table, key: &[u8], value: Option<&[u8]>);
}

/// Is told by a shared store what it sees of other writers. Called from the store's own thread; must
/// not block.
pub trait Watcher: Send + Sync + 'static {
    /// The orgs whose heads are of interest.
    fn orgs(&self) -> Vec<OrgName>;
    /// The heads of those orgs (`None`: it is gone), as the store had them at `at` or later.
    fn seen(&self, at: Instant, heads: Vec<(OrgName, Option<HeadRecord>)>);
    /// A hint that an org may have got the transaction `seq`.
    fn hint(&self, org: OrgName, seq: Seq);
    /// Others write a lot to the server that has the store, and will go on until then, as far as one can tell.
    fn others_write(&self, until: Instant);
    /// The store cannot be reached; tries go on, and [`Watcher::seen`] says when one has worked.
    fn lost(&self, error: &StoreError);
}

/// One durable home of the state. Knows tables, keys, sequence numbers and opaque bytes, and no kind
/// of object. All calls block: never make one on a thread of an async runtime.
pub trait MetaStore: Send + Sync + 'static {
    /// What it is.
    fn facts(&self) -> StoreFacts;

    /// The head of every org, in the order of their names.
    ///
    /// # Errors
    /// [`StoreError`] says why not.
    fn heads(&self) -> Result<Vec<(OrgName, HeadRecord)>, StoreError>;

    /// The head of one org; `None`: there is no such org.
    ///
    /// # Errors
    /// [`StoreError`] says why not.
    fn head(&self, org: &OrgName) -> Result<Option<HeadRecord>, StoreError>;

    /// The heads of some orgs, in their order, as they are at one time or one after the other.
    ///
    /// # Errors
    /// [`StoreError`] says why not.
    #[allow(clippy::type_complexity, reason = "a list of pairs")]
    fn heads_of(&self, orgs: Vec<OrgName>) -> Result<Vec<(OrgName, Option<HeadRecord>)>, StoreError> {
        orgs.into_iter().map(|org| Ok((org.clone(), self.head(&org)?))).collect()
    }

    /// Hands the org's head to `sink`, then every row of its image ([`Table::IMAGE`]), all of one
    /// committed state. Nothing, if there is no such org.
    ///
    /// # Errors
    /// [`StoreError`] says why not; rows may have been handed out before.
    fn load(&self, org: &OrgName, sink: &mut dyn ImageSink) -> Result<(), StoreError>;

    /// Hands what has become of the org since `from` to `sink`, all of one committed state: its head, the
    /// changes from `from` on (itself included), the rows that they touch. Nothing, if there is no such
    /// org.
    ///
    /// # Errors
    /// [`StoreError`] says why not; some of it may have been handed out before.
    fn delta(&self, org: &OrgName, from: Seq, sink: &mut dyn DeltaSink) -> Result<(), StoreError>;

    /// Tells `watcher` of other writers from now on, until the store is dropped. Nothing happens in a
    /// store that is not shared.
    ///
    /// # Errors
    /// It cannot begin to.
    fn watch(&self, watcher: Arc<dyn Watcher>) -> Result<(), StoreError>;

    /// [`Watcher::orgs`] has more orgs than before: what others do to them is wanted at once. Nothing happens in a
    /// store that is not shared.
    fn orgs_added(&self);

    /// Makes every writer's commits to the org fail with [`StoreError::Diverged`] from now on, since
    /// `seen` was there and is not any more. Nothing happens in a store that is not shared.
    ///
    /// # Errors
    /// [`StoreError`]: it cannot be marked now; [`StoreError::NoSuchOrg`]: it is not even there.
    fn halt(&self, org: &OrgName, seen: Seq) -> Result<(), StoreError>;

    /// Waits until nobody else writes to the org, and keeps it so until the next commit, or until
    /// [`MetaStore::pass_turn`]. For who has lost to other writers again and again: they go on from what they
    /// wrote, and who has to read that first is always a step behind. Nothing happens in a store that is not
    /// shared. True: somebody may have been told of a transaction of ours that it will never be committed, so
    /// those that were planned get other ids.
    ///
    /// # Errors
    /// [`StoreError`]: it is not our turn now.
    fn take_turn(&self, org: &OrgName) -> Result<bool, StoreError> {
        let _ = org;
        Ok(false)
    }

    /// Lets others write, if it is our turn.
    fn pass_turn(&self) {}

    /// Writes the group in one durable step, if every org is at its base. A group without orgs
    /// writes nothing.
    ///
    /// # Errors
    /// [`CommitError`] says what is known of the outcome.
    fn commit(&self, group: &Group<'_>) -> Result<(), CommitError>;

    /// Hands the rows of [`Table::Changes`] of up to `limit` transactions after `after` to `sink`, in
    /// order: sequence number, step from 0, value. `sink` returns false to stop after this transaction.
    ///
    /// # Errors
    /// [`StoreError`] says why not; rows may have been handed out before.
    fn changes(
        &self,
        org: &OrgName,
        after: Seq,
        limit: usize,
        sink: &mut dyn FnMut(Seq, u32, &[u8]) -> bool,
    ) -> Result<(), StoreError>;

    /// The sequence number of the transaction `id`; `None`: it was not committed. After a commit of
    /// unknown outcome this is the truth, on whatever it takes to find out.
    ///
    /// # Errors
    /// [`StoreError`]: it cannot be found out now.
    fn find_transaction(&self, org: &OrgName, id: TransactionId) -> Result<Option<Seq>, StoreError>;

    /// The same, for good: a transaction that is not there never will be, whichever writer's it is, and
    /// wherever its commit still is on the way.
    ///
    /// # Errors
    /// [`StoreError`]: it cannot be settled now.
    fn settle_transaction(&self, org: &OrgName, id: TransactionId) -> Result<Option<Seq>, StoreError> {
        self.find_transaction(org, id)
    }

    /// A value that the store has once.
    ///
    /// # Errors
    /// [`StoreError`] says why not.
    fn meta_get(&self, key: &str) -> Result<Option<Vec<u8>>, StoreError>;

    /// All values that the store has once, by their keys.
    ///
    /// # Errors
    /// [`StoreError`] says why not.
    fn metas(&self) -> Result<Vec<(String, Vec<u8>)>, StoreError>;

    /// Sets a value that the store has once, durably, unless it is set. Returns what is there then.
    ///
    /// # Errors
    /// [`StoreError`]: it may or may not have been set.
    fn meta_init(&self, key: &str, value: &[u8]) -> Result<Vec<u8>, StoreError>;

    /// Sets a value that the store has once, durably.
    ///
    /// # Errors
    /// [`StoreError`]: it may or may not have been set.
    fn meta_put(&self, key: &str, value: &[u8]) -> Result<(), StoreError>;

    /// Whether it would take a commit now, as far as can be told without one.
    ///
    /// # Errors
    /// [`StoreError`] says why not.
    fn health(&self) -> Result<(), StoreError>;

    /// Writes a copy of one committed state to the file `to`: under another name first, opened and
    /// checked in full, then renamed. What was at `to` stays until then.
    ///
    /// # Errors
    /// [`StoreError`] says why not; `to` is as it was.
    fn backup(&self, to: &Path) -> Result<(), StoreError>;

    /// Its size on disk, or in memory, in bytes.
    ///
    /// # Errors
    /// [`StoreError`] says why not.
    fn size(&self) -> Result<u64, StoreError>;
}
