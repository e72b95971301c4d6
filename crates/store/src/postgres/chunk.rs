//! Rows that are written together, of each key what was written last, and which of them are new.
//!
//! An object's header says in which transaction the object was made. If that is one of the group's, no row
//! of it can be there yet, unless the group took one away before. The server has to look for an old row
//! otherwise, which is a quarter of its work for a new object. A guess that is wrong does no harm: the
//! statement fails as a whole.

use std::collections::{BTreeMap, BTreeSet};

use dataglot_model::Seq;

use super::layout::{created_in, key_columns, key_texts};
use super::rows::{KeyParameters, PutParameters};
use crate::record::key;
use crate::{StoreError, Table};

/// Some rows.
#[derive(Default)]
pub(super) struct Chunk {
    tables: BTreeMap<Table, BTreeMap<Vec<u8>, Written>>,
    /// About what they take in memory.
    bytes: usize,
}

/// What was written to a key.
struct Written {
    /// `None`: it was deleted.
    value: Option<Vec<u8>>,
    /// It was deleted at some point: there may be one in the store.
    deleted: bool,
}

/// What is done to one table.
pub(super) struct TableRows<'a> {
    pub(super) table: Table,
    /// The keys of rows that go.
    pub(super) gone: KeyParameters<'a>,
    /// Rows that come, perhaps over others.
    pub(super) put: PutParameters<'a>,
    /// Rows that come and are new.
    pub(super) new: PutParameters<'a>,
}

impl Chunk {
    pub(super) fn add(&mut self, table: Table, key: &[u8], value: Option<&[u8]>) {
        self.bytes += 64 + key.len() + value.map_or(0, <[u8]>::len);
        let deleted = value.is_none();
        let written = Written { value: value.map(<[u8]>::to_vec), deleted };
        let before = self.tables.entry(table).or_default().insert(key.to_vec(), written);
        if before.is_some_and(|before| before.deleted)
            && let Some(written) = self.tables.get_mut(&table).and_then(|rows| rows.get_mut(key))
        {
            written.deleted = true;
        }
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// What it does to each table, as parameters. `base`: the number of the org's last transaction before
    /// it; `None`: nothing is taken for new.
    pub(super) fn parameters(&self, base: Option<Seq>) -> Result<Vec<TableRows<'_>>, StoreError> {
        let made = base.map(|base| self.objects_made_after(base)).unwrap_or_default();
        self.tables.iter().map(|(table, rows)| TableRows::of(*table, rows, &made)).collect()
    }

    /// The keys of the headers of objects that were made after `base`.
    fn objects_made_after(&self, base: Seq) -> BTreeSet<&[u8]> {
        let headers = self.tables.get(&Table::Objects).into_iter().flatten();
        let made =
            headers.filter(|(_, written)| written.value.as_deref().and_then(created_in).is_some_and(|seq| seq > base));
        made.map(|(key, _)| key.as_slice()).collect()
    }
}

impl<'a> TableRows<'a> {
    fn of(table: Table, rows: &'a BTreeMap<Vec<u8>, Written>, made: &BTreeSet<&[u8]>) -> Result<Self, StoreError> {
        let columns = key_columns(table);
        let mut header = Vec::new();
        let mut of_table = TableRows {
            table,
            gone: KeyParameters::default(),
            put: PutParameters::default(),
            new: PutParameters::default(),
        };
        for (key, written) in rows {
            let Some(value) = &written.value else {
                of_table.gone.push(key_texts(columns, key));
                continue;
            };
            let is_new = !written.deleted && !made.is_empty() && is_of_one(table, key, made, &mut header);
            let rows = if is_new { &mut of_table.new } else { &mut of_table.put };
            rows.push(table, columns, key, value)?;
        }
        of_table.put.finish();
        of_table.new.finish();
        Ok(of_table)
    }
}

/// Whether the row with this key is one of an object whose header is in `made`.
fn is_of_one(table: Table, key: &[u8], made: &BTreeSet<&[u8]>, header: &mut Vec<u8>) -> bool {
    let words: &[&str] = match table {
        Table::Objects => return made.contains(key),
        Table::Entries => &["catalog"],
        Table::Secrets => &["secret"],
        Table::Users | Table::Roles => &["role"],
        Table::Policies => &["mask", "row_filter"],
        Table::DerivedProducts => &["view"],
        Table::RoleMembers
        | Table::Grants
        | Table::DataKeys
        | Table::PreviousSecrets
        | Table::Changes
        | Table::Meta => &[],
    };
    words.iter().any(|word| {
        header.clear();
        header.extend_from_slice(word.as_bytes());
        header.push(key::SEPARATOR);
        header.extend_from_slice(key);
        made.contains(header.as_slice())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A header that was made in that transaction.
    fn header(seq: u64) -> Vec<u8> {
        let body = format!("{{\"id\":7,\"version\":1,\"created\":{{\"seq\":{seq},\"at\":1,\"by\":\"a\"}}}}");
        [&[1, 0, 0, 0, 0], body.as_bytes()].concat()
    }

    type TestRow<'a> = (Table, &'a [u8], Option<&'a [u8]>);

    /// Of each table: rows that go, that go over others, that are new.
    #[track_caller]
    fn check(rows: &[TestRow<'_>], base: Option<u64>, expected: &[(Table, usize, usize, usize)]) {
        let mut chunk = Chunk::default();
        rows.iter().for_each(|(table, key, value)| chunk.add(*table, key, *value));
        let tables = chunk.parameters(base.map(Seq)).unwrap();
        let found: Vec<_> = tables.iter().map(|t| (t.table, t.gone.len(), t.put.len(), t.new.len())).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn rows_of_a_new_object_are_new() {
        let (new, old) = (header(8), header(7));
        let (new, old, some) = (Some(new.as_slice()), Some(old.as_slice()), Some(b"\x01\0\0\0\0{}".as_slice()));
        let role: &[u8] = b"role\0r";
        let made = [(Table::Objects, role, new), (Table::Roles, b"r".as_slice(), some)];
        check(&made, Some(7), &[(Table::Objects, 0, 0, 1), (Table::Roles, 0, 0, 1)]);
        check(&made, None, &[(Table::Objects, 0, 1, 0), (Table::Roles, 0, 1, 0)]);
        // It was there before.
        check(&made, Some(8), &[(Table::Objects, 0, 1, 0), (Table::Roles, 0, 1, 0)]);
        let changed = [(Table::Objects, role, old), (Table::Roles, b"r", some)];
        check(&changed, Some(7), &[(Table::Objects, 0, 1, 0), (Table::Roles, 0, 1, 0)]);
        // So was one of its name.
        let anew = [(Table::Roles, b"r".as_slice(), None), (Table::Objects, role, None), made[0], made[1]];
        check(&anew, Some(7), &[(Table::Objects, 0, 1, 0), (Table::Roles, 0, 1, 0)]);
        let gone = [made[0], made[1], (Table::Roles, b"r", None), (Table::Objects, role, None)];
        check(&gone, Some(7), &[(Table::Objects, 1, 0, 0), (Table::Roles, 1, 0, 0)]);
        // Another one's name, another kind's name, and what is no part of an object.
        let others = [
            made[0],
            (Table::Roles, b"s", some),
            (Table::Secrets, b"r", some),
            (Table::RoleMembers, b"r\0s", some),
            (Table::Changes, &[0; 12], some),
        ];
        let expected = [
            (Table::Objects, 0, 0, 1),
            (Table::Secrets, 0, 1, 0),
            (Table::Roles, 0, 1, 0),
            (Table::RoleMembers, 0, 1, 0),
            (Table::Changes, 0, 1, 0),
        ];
        check(&others, Some(7), &expected);
    }

    #[test]
    fn every_kind_that_has_a_row_besides_its_header_is_known() {
        let (new, some) = (header(8), b"\x01\0\0\0\0{}".as_slice());
        for (table, kind, key) in [
            (Table::Entries, "catalog", "c"),
            (Table::Secrets, "secret", "s"),
            (Table::Users, "role", "u"),
            (Table::Roles, "role", "r"),
            (Table::Policies, "mask", "m"),
            (Table::Policies, "row_filter", "f"),
            (Table::DerivedProducts, "view", "c\0s\0v"),
        ] {
            let full = format!("{kind}\0{key}");
            let rows = [(Table::Objects, full.as_bytes(), Some(new.as_slice())), (table, key.as_bytes(), Some(some))];
            check(&rows, Some(7), &[(Table::Objects, 0, 0, 1), (table, 0, 0, 1)]);
        }
    }
}
