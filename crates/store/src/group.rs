//! A group while it is being built, and as rows for the store.

use std::collections::BTreeMap;
use std::sync::Arc;

use dataglot_model::def::ObjectId;
use dataglot_model::{ChangedStatement, HeadRecord, Name, OrgName, Seq, Timestamp, TransactionId};

use crate::record::ChangeWriter;
use crate::{Base, CommitError, Group, MetaStore, OrgGroup, RowSink, Rows, State, StoreError};

/// A planned transaction.
pub(crate) struct Transaction {
    pub(crate) id: TransactionId,
    pub(crate) seq: Seq,
    pub(crate) at: Timestamp,
    pub(crate) actor: Name,
    pub(crate) session: Arc<str>,
    pub(crate) statements: Vec<ChangedStatement>,
}

/// The transactions of one org, encoded while they are written.
struct TransactionRows<'a>(&'a [Transaction]);

impl Rows for TransactionRows<'_> {
    fn write(&self, sink: &mut RowSink<'_>) -> Result<(), StoreError> {
        let mut writer = ChangeWriter::default();
        self.0.iter().try_for_each(|t| writer.transaction(t, sink))
    }
}

/// One org in a group that is being built.
pub(crate) struct Working<S> {
    base: Base,
    erase: bool,
    /// After every transaction of the group so far; `None`: dropped.
    state: Option<S>,
    /// The last one before a drop: what those are answered with whose org is gone with the group.
    last: Option<S>,
    transactions: Vec<Transaction>,
}

/// A group that is being built.
pub(crate) struct Build<S> {
    orgs: BTreeMap<OrgName, Working<S>>,
}

impl<S: State> Build<S> {
    pub(crate) fn new() -> Self {
        Build { orgs: BTreeMap::new() }
    }

    /// Whether nothing is to be written.
    pub(crate) fn is_empty(&self) -> bool {
        self.orgs.is_empty()
    }

    /// What the group has made of the org so far: `None` if it has not touched it.
    pub(crate) fn state(&self, org: &OrgName) -> Option<Option<&S>> {
        self.orgs.get(org).map(|w| w.state.as_ref())
    }

    /// Adds a transaction. `before` is the head of the image that it was planned on.
    pub(crate) fn push(&mut self, org: &OrgName, before: &HeadRecord, state: S, transaction: Transaction) {
        let working = self.orgs.entry(org.clone()).or_insert_with(|| Working {
            base: Base::from(before),
            erase: false,
            state: None,
            last: None,
            transactions: Vec::new(),
        });
        working.state = Some(state);
        working.transactions.push(transaction);
    }

    /// Makes an org that is not there.
    pub(crate) fn create(&mut self, org: OrgName, state: S, transaction: Transaction) {
        let working = self.orgs.entry(org).or_insert_with(|| Working {
            base: Base::Absent,
            erase: false,
            state: None,
            last: None,
            transactions: Vec::new(),
        });
        working.state = Some(state);
        working.transactions.push(transaction);
    }

    /// Drops an org that is there, at `state`.
    pub(crate) fn drop_org(&mut self, org: OrgName, state: S) {
        let working = self.orgs.entry(org).or_insert_with(|| Working {
            base: Base::from(&state.head()),
            erase: false,
            state: None,
            last: None,
            transactions: Vec::new(),
        });
        working.erase = true;
        working.transactions.clear();
        working.state = None;
        working.last = Some(state);
    }

    /// A transaction by which the outcome of the whole group can be asked.
    pub(crate) fn probe(&self) -> Option<(OrgName, TransactionId, Seq)> {
        self.orgs.iter().find_map(|(org, w)| w.transactions.last().map(|t| (org.clone(), t.id, t.seq)))
    }

    /// Writes it.
    pub(crate) fn commit(&self, store: &dyn MetaStore) -> Result<(), CommitError> {
        let rows: Vec<_> = self.orgs.values().map(|w| TransactionRows(&w.transactions)).collect();
        let orgs = self.orgs.iter().zip(&rows).filter(|((_, w), _)| w.is_something()).map(|((org, w), rows)| {
            OrgGroup { org, base: w.base, erase: w.erase, head: w.state.as_ref().map(State::head), rows }
        });
        store.commit(&Group { orgs: orgs.collect() })
    }

    /// What it comes to: the images to publish, and what to answer and announce with them.
    pub(crate) fn finish(&self) -> Finished<S> {
        let mut finished = Finished { images: Vec::new(), answers: BTreeMap::new(), committed: Vec::new() };
        for (org, working) in &self.orgs {
            finished.committed.extend(working.transactions.iter().map(|t| (org.clone(), t.seq)));
            let state = working.state.clone().map(Arc::new);
            if let Some(answer) = state.clone().or_else(|| working.last.clone().map(Arc::new)) {
                finished.answers.insert(org.clone(), answer);
            }
            finished.images.push((org.clone(), state));
        }
        finished
    }

    /// The orgs that it touches.
    pub(crate) fn orgs(&self) -> impl Iterator<Item = &OrgName> {
        self.orgs.keys()
    }
}

impl<S> Working<S> {
    /// Not an org that was made and dropped again within the group.
    fn is_something(&self) -> bool {
        !(self.base == Base::Absent && self.state.is_none())
    }
}

/// A group that is durable.
pub(crate) struct Finished<S> {
    /// What to publish.
    pub(crate) images: Vec<(OrgName, Option<Arc<S>>)>,
    /// What to answer with.
    pub(crate) answers: BTreeMap<OrgName, Arc<S>>,
    /// What to announce.
    pub(crate) committed: Vec<(OrgName, Seq)>,
}

/// The head of an org that has nothing yet.
pub(crate) fn empty_head(org_id: u64, at: Timestamp) -> HeadRecord {
    HeadRecord { org_id, seq: Seq(0), next_id: ObjectId(1), at }
}

/// Writes the first transaction of the first org of a store.
pub(crate) fn commit_first(
    store: &dyn MetaStore,
    org: &OrgName,
    head: HeadRecord,
    transaction: Transaction,
) -> Result<(), StoreError> {
    if !store.heads()?.is_empty() {
        return Err(StoreError::Contended);
    }
    let id = transaction.id;
    let transactions = [transaction];
    let rows = TransactionRows(&transactions);
    let first = OrgGroup { org, base: Base::Absent, erase: false, head: Some(head), rows: &rows };
    match store.commit(&Group { orgs: vec![first] }) {
        Ok(()) => Ok(()),
        Err(CommitError::Conflict | CommitError::Fenced) => Err(StoreError::Contended),
        Err(CommitError::Full) => Err(StoreError::DiskFull),
        Err(CommitError::Failed(error)) => Err(error),
        Err(CommitError::Unknown(error)) => match store.find_transaction(org, id)? {
            Some(_) => Ok(()),
            None => Err(error),
        },
    }
}
