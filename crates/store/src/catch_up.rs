//! From an image to a newer one: what other writers have made of the org meanwhile.
//!
//! History has no ciphertext and no verifier, so it only says which rows were touched; the rows
//! themselves come from their tables, in the snapshot that history was read in.

use std::collections::BTreeSet;

use dataglot_model::{HeadRecord, Mutation, ObjectRef, OrgName, Row, RowKey, Seq};

use crate::record::{ChangeAssembler, ChangeEntry, decode_row, encode_key, key, read_changes};
use crate::{DeltaSink, MetaStore, State, StoreError, Table};

/// Up to where an image is brought forward; beyond, loading the whole of it is less work.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DeltaLimits {
    pub(crate) transactions_max: u64,
    /// Of history.
    pub(crate) bytes_max: usize,
}

/// What became of an org since an image of it.
pub(crate) enum CaughtUp<S> {
    /// Nothing.
    Same,
    /// This.
    Newer(S),
    /// It has to be loaded anew: it is another org of that name, or too much has happened, or something
    /// that happened cannot be read.
    Reload,
    /// It was dropped.
    Gone,
    /// The image is not one of its past.
    Diverged,
}

/// Brings `state` up to what the store has. `default` is a head of the org `default` that was there when the
/// org was: its history says that an org was dropped.
pub(crate) fn catch_up<S: State>(
    store: &dyn MetaStore,
    org: &OrgName,
    state: &S,
    default: Option<&HeadRecord>,
    limits: DeltaLimits,
) -> Result<CaughtUp<S>, StoreError> {
    let have = state.head();
    let mut delta = Delta {
        have,
        limits,
        bytes: 0,
        head: None,
        changes: ChangeAssembler::new(org),
        is_known: false,
        touched: BTreeSet::new(),
        deletes: Vec::new(),
        puts: Vec::new(),
        course: Course::Same,
    };
    store.delta(org, have.seq, &mut delta)?;
    let Delta { head, deletes, puts, course, is_known, .. } = delta;
    let is_of_its_past = match (head, course) {
        (None, _) => was_dropped(store, org, &have, default)?,
        (Some(head), Course::Reload) if head.org_id != have.org_id => default_goes_on(store, org, default)?,
        (Some(_), Course::Reload) => is_known || goes_on(store, org, &have)?,
        (Some(_), Course::Same | Course::Apply) => true,
        (Some(_), Course::Diverged) => false,
    };
    let Some(head) = head.filter(|_| is_of_its_past) else {
        return Ok(if is_of_its_past { CaughtUp::Gone } else { CaughtUp::Diverged });
    };
    Ok(match course {
        Course::Same => CaughtUp::Same,
        Course::Reload => CaughtUp::Reload,
        Course::Diverged => CaughtUp::Diverged,
        Course::Apply => {
            let mut state = state.clone();
            // A role that may log in now leaves one table and enters another: first what goes.
            deletes.iter().chain(&puts).for_each(|m| state.apply(m));
            state.set_head(head);
            CaughtUp::Newer(state)
        }
    })
}

/// Whether an org that is not there was dropped: the history of `default` goes on from `known`, a head of the
/// time when the org was there, and has the org no more. Nobody drops `default`.
fn was_dropped(
    store: &dyn MetaStore,
    org: &OrgName,
    have: &HeadRecord,
    known: Option<&HeadRecord>,
) -> Result<bool, StoreError> {
    if org.is_default() {
        return Ok(false);
    }
    let mut listed = Listed { org, org_id: have.org_id, is_listed: false, head: None };
    // No transaction has that number: of history, nothing is wanted.
    store.delta(&OrgName::default_org(), Seq(u64::MAX), &mut listed)?;
    Ok(listed.head.is_some() && !listed.is_listed && default_goes_on(store, org, known)?)
}

/// Whether the history of `default` goes on from `known`: then other orgs are dropped and made in it. It is
/// always the same itself.
fn default_goes_on(store: &dyn MetaStore, org: &OrgName, known: Option<&HeadRecord>) -> Result<bool, StoreError> {
    match known {
        Some(known) if !org.is_default() => goes_on(store, &OrgName::default_org(), known),
        Some(_) | None => Ok(false),
    }
}

/// Whether the org's history has the transaction that was its last one when `known` was read.
fn goes_on(store: &dyn MetaStore, org: &OrgName, known: &HeadRecord) -> Result<bool, StoreError> {
    let before = Seq(known.seq.0.saturating_sub(1));
    Ok(match read_changes(store, org, before, 1)?.first() {
        Some(ChangeEntry::Intact(change)) => (change.seq, change.at) == (known.seq, known.at),
        // Nothing speaks against it.
        Some(ChangeEntry::Damaged { seq, .. }) => *seq == known.seq,
        None => false,
    })
}

/// Asks the org `default` whether it has an org.
struct Listed<'a> {
    org: &'a OrgName,
    org_id: u64,
    is_listed: bool,
    head: Option<HeadRecord>,
}

impl DeltaSink for Listed<'_> {
    fn begin(&mut self, head: HeadRecord) -> bool {
        self.head = Some(head);
        true
    }

    fn change(&mut self, _: Seq, _: u32, _: &[u8]) -> bool {
        true
    }

    fn touched(&mut self) -> Vec<(Table, Vec<u8>)> {
        let mut key = Vec::new();
        let table = encode_key(&RowKey::Header(ObjectRef::Org(self.org.clone())), &mut key);
        vec![(table, key)]
    }

    fn row(&mut self, table: Table, key: &[u8], value: Option<&[u8]>) {
        self.is_listed = match value.map(|value| decode_row(table, key, value)) {
            // One of another id was made after it was dropped.
            Some(Ok(Row::Header(_, header))) => header.id.0 == self.org_id,
            Some(_) => true,
            None => false,
        };
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Course {
    Same,
    Apply,
    Reload,
    Diverged,
}

struct Delta<'a> {
    have: HeadRecord,
    limits: DeltaLimits,
    bytes: usize,
    head: Option<HeadRecord>,
    changes: ChangeAssembler<'a>,
    /// The last transaction of the image is there.
    is_known: bool,
    touched: BTreeSet<(Table, Vec<u8>)>,
    deletes: Vec<Mutation>,
    puts: Vec<Mutation>,
    course: Course,
}

impl Delta<'_> {
    /// Collects what a transaction has touched.
    fn add(&mut self, entry: ChangeEntry) {
        let change = match entry {
            ChangeEntry::Intact(change) => change,
            ChangeEntry::Damaged { .. } => {
                self.course = worse(self.course, Course::Reload);
                return;
            }
        };
        if change.seq == self.have.seq {
            // The same number, at another time: the history that the image knows is not this one.
            self.is_known = change.at == self.have.at;
            if !self.is_known {
                self.course = Course::Diverged;
            }
            return;
        }
        let mut buffer = Vec::new();
        for mutation in change.statements.iter().flat_map(|s| &s.mutations) {
            let table = encode_key(&mutation.key(), &mut buffer);
            self.touched.insert((table, buffer.clone()));
        }
    }
}

/// What was diverged stays so.
fn worse(course: Course, to: Course) -> Course {
    if course == Course::Diverged { course } else { to }
}

impl DeltaSink for Delta<'_> {
    fn begin(&mut self, head: HeadRecord) -> bool {
        self.head = Some(head);
        // The ids of orgs grow, as all ids do.
        self.course = if head.org_id < self.have.org_id {
            Course::Diverged
        } else if head.org_id > self.have.org_id {
            Course::Reload
        } else if head.seq < self.have.seq || (head.seq == self.have.seq && head != self.have) {
            Course::Diverged
        } else if head.seq == self.have.seq {
            Course::Same
        } else if head.seq.0 - self.have.seq.0 > self.limits.transactions_max {
            Course::Reload
        } else {
            Course::Apply
        };
        self.course == Course::Apply
    }

    fn change(&mut self, seq: Seq, step: u32, value: &[u8]) -> bool {
        if let Some(entry) = self.changes.push(seq, step, value) {
            self.add(entry);
        }
        self.bytes = self.bytes.saturating_add(value.len());
        if self.bytes > self.limits.bytes_max {
            self.course = worse(self.course, Course::Reload);
        }
        self.course == Course::Apply
    }

    fn touched(&mut self) -> Vec<(Table, Vec<u8>)> {
        if let Some(entry) = self.changes.finish() {
            self.add(entry);
        }
        if self.course == Course::Apply && !self.is_known {
            self.course = Course::Diverged;
        }
        if self.course != Course::Apply {
            return Vec::new();
        }
        self.touched.iter().cloned().collect()
    }

    fn row(&mut self, table: Table, key: &[u8], value: Option<&[u8]>) {
        match value {
            None => match key::read(table, key) {
                Ok(row_key) => self.deletes.push(Mutation::Delete(row_key)),
                Err(_) => self.course = worse(self.course, Course::Reload),
            },
            Some(value) => match decode_row(table, key, value) {
                Ok(row) => self.puts.push(Mutation::Put(row)),
                // Loading knows what to do with damage.
                Err(_) => self.course = worse(self.course, Course::Reload),
            },
        }
    }
}
