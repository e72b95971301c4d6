//! What a store holds, in a form that two stores can be compared by.

use std::collections::BTreeMap;
use std::fmt;

use dataglot_model::{HeadRecord, OrgName};
use sha2::{Digest as _, Sha256};

use super::rows::each_change;
use crate::record::{key, open};
use crate::{ImageSink, MetaStore, StoreError, Table};

/// A sum of SHA-256 hashes, one of each thing that a store holds: equal for equal content, in whatever
/// order a backend keeps it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Digest([u64; 4]);

impl Digest {
    /// Adds what these parts, each with its length, hash to.
    fn add(&mut self, parts: &[&[u8]]) {
        let mut hash = Sha256::new();
        for part in parts {
            hash.update(u64::try_from(part.len()).unwrap_or(u64::MAX).to_be_bytes());
            hash.update(part);
        }
        let hash: [u8; 32] = hash.finalize().into();
        let mut carry = false;
        for (slot, bytes) in self.0.iter_mut().zip(hash.as_chunks::<8>().0) {
            let (sum, first) = slot.overflowing_add(u64::from_le_bytes(*bytes));
            let (sum, second) = sum.overflowing_add(u64::from(carry));
            (*slot, carry) = (sum, first || second);
        }
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|word| write!(f, "{word:016x}"))
    }
}

/// What a store holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    /// Its identity.
    pub store_id: [u8; 16],
    /// Its orgs, by name.
    pub orgs: Vec<(OrgName, HeadRecord)>,
    /// How many rows there are of each table that has any.
    pub tables: BTreeMap<Table, u64>,
    /// Rows whose checksum is wrong. They are copied as they are.
    pub damaged: u64,
    /// Of everything.
    pub digest: Digest,
}

impl Summary {
    /// How many rows there are, values that the store has once included.
    pub fn rows(&self) -> u64 {
        self.tables.values().sum()
    }

    fn row(&mut self, org: &OrgName, table: Table, key: &[u8], value: &[u8]) {
        *self.tables.entry(table).or_default() += 1;
        self.damaged += u64::from(open(table, key, value).is_err());
        self.digest.add(&[b"row", org.as_str().as_bytes(), table.as_str().as_bytes(), key, value]);
    }

    fn head(&mut self, org: &OrgName, head: HeadRecord) {
        let HeadRecord { org_id, seq, next_id, at } = head;
        let numbers = [org_id.to_be_bytes(), seq.0.to_be_bytes(), next_id.0.to_be_bytes(), at.0.to_be_bytes()];
        self.digest.add(&[b"head", org.as_str().as_bytes(), numbers.as_flattened()]);
        self.orgs.push((org.clone(), head));
    }
}

/// Counts the image of one org.
struct Image<'a> {
    summary: &'a mut Summary,
    org: &'a OrgName,
    head: Option<HeadRecord>,
}

impl ImageSink for Image<'_> {
    fn begin(&mut self, head: HeadRecord) {
        self.head = Some(head);
        self.summary.head(self.org, head);
    }

    fn row(&mut self, table: Table, key: &[u8], value: &[u8]) {
        self.summary.row(self.org, table, key, value);
    }
}

/// Reads everything that `store` holds. Each org is read at one committed state.
///
/// # Errors
/// The store cannot be read.
pub fn summarize(store: &dyn MetaStore) -> Result<Summary, StoreError> {
    let store_id = store.facts().store_id;
    let mut summary =
        Summary { store_id, orgs: Vec::new(), tables: BTreeMap::new(), damaged: 0, digest: Digest::default() };
    summary.digest.add(&[b"store_id", &store_id]);
    for (key, value) in store.metas()? {
        *summary.tables.entry(Table::Meta).or_default() += 1;
        summary.digest.add(&[b"meta", key.as_bytes(), &value]);
    }
    for (org, _) in store.heads()? {
        let mut image = Image { summary: &mut summary, org: &org, head: None };
        store.load(&org, &mut image)?;
        // Dropped since its head was read.
        let Some(head) = image.head else { continue };
        each_change(store, &org, head.seq, &mut |seq, step, value| {
            summary.row(&org, Table::Changes, &key::of_change(seq, step), value);
            true
        })?;
    }
    Ok(summary)
}
