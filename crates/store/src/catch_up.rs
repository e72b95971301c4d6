//! From an image to a newer one: what other writers have made of the org meanwhile.
//!
//! History has no ciphertext and no verifier, so it only says which rows were touched; the rows
//! themselves come from their tables, in the snapshot that history was read in.

use std::collections::BTreeSet;

use dataglot_model::{HeadRecord, Mutation, OrgName, Seq};

use crate::record::{ChangeAssembler, ChangeEntry, decode_row, encode_key, key};
use crate::{DeltaSink, MetaStore, State, StoreError, Table};

/// With more transactions than this, loading the whole image is less work.
const TRANSACTIONS_MAX: u64 = 4096;

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

/// Brings `state` up to what the store has.
pub(crate) fn catch_up<S: State>(store: &dyn MetaStore, org: &OrgName, state: &S) -> Result<CaughtUp<S>, StoreError> {
    let have = state.head();
    let mut delta = Delta {
        have,
        head: None,
        changes: ChangeAssembler::new(org),
        touched: BTreeSet::new(),
        deletes: Vec::new(),
        puts: Vec::new(),
        course: Course::Same,
    };
    store.delta(org, have.seq, &mut delta)?;
    let Delta { head, deletes, puts, course, .. } = delta;
    let Some(head) = head else { return Ok(CaughtUp::Gone) };
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

#[derive(Clone, Copy, PartialEq, Eq)]
enum Course {
    Same,
    Apply,
    Reload,
    Diverged,
}

struct Delta<'a> {
    have: HeadRecord,
    head: Option<HeadRecord>,
    changes: ChangeAssembler<'a>,
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
            if change.at != self.have.at {
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
        } else if head.seq.0 - self.have.seq.0 > TRANSACTIONS_MAX {
            Course::Reload
        } else {
            Course::Apply
        };
        self.course == Course::Apply
    }

    fn change(&mut self, seq: Seq, step: u32, value: &[u8]) {
        if let Some(entry) = self.changes.push(seq, step, value) {
            self.add(entry);
        }
    }

    fn touched(&mut self) -> Vec<(Table, Vec<u8>)> {
        if let Some(entry) = self.changes.finish() {
            self.add(entry);
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
