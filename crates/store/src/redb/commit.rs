//! Writing: one redb transaction a group.

use std::sync::atomic::Ordering;

use ::redb::{Database, WriteTransaction};

use super::{RedbStore, definition, encode_head, failed, head_key, is_io, read_head};
use crate::record::key;
use crate::{Base, CommitError, Group, OrgGroup, StoreError, Table};

/// Why a transaction was given up before its commit.
pub(super) enum GiveUp {
    /// An org is elsewhere.
    Conflict,
    /// Redb failed.
    Redb(::redb::Error),
    /// Something else did.
    Store(StoreError),
}

impl<E: Into<::redb::Error>> From<E> for GiveUp {
    fn from(error: E) -> Self {
        GiveUp::Redb(error.into())
    }
}

/// How a write ended, and whether the handle is of use after it.
struct Ended {
    result: Result<(), CommitError>,
    broken: bool,
}

impl RedbStore {
    /// Runs `write` in a transaction and commits it durably.
    pub(super) fn write(&self, write: &dyn Fn(&WriteTransaction) -> Result<(), GiveUp>) -> Result<(), CommitError> {
        for again in [true, false] {
            let ended = self.with(|database, gate| {
                let (ended, in_doubt) = match gate.release() {
                    Ok(()) => {
                        let ended = attempt(database, write);
                        // No room is noticed when something is written, not when it is synced.
                        let unknown =
                            matches!(&ended.result, Err(CommitError::Unknown(error)) if *error != StoreError::DiskFull);
                        let in_doubt = ended.broken && unknown;
                        (ended, in_doubt)
                    }
                    Err(error) => {
                        let result = Err(CommitError::Failed(StoreError::io("write", &error)));
                        // It may have been the sync.
                        (Ended { result, broken: true }, true)
                    }
                };
                // While nobody can open it anew: whoever does has to know.
                self.unsynced.fetch_or(in_doubt, Ordering::AcqRel);
                ended
            });
            let Ended { result, broken } = ended.map_err(CommitError::Failed)?;
            if broken {
                self.poison();
            }
            // The error of an earlier call, before anything of this one was written.
            if again && result == Err(CommitError::Failed(StoreError::Poisoned)) {
                continue;
            }
            return result;
        }
        Err(CommitError::Failed(StoreError::Poisoned))
    }
}

fn attempt(database: &Database, write: &dyn Fn(&WriteTransaction) -> Result<(), GiveUp>) -> Ended {
    let txn = match database.begin_write() {
        Ok(txn) => txn,
        Err(error) => return given_up(GiveUp::from(error)),
    };
    if let Err(why) = write(&txn) {
        let mut ended = given_up(why);
        // Nothing was committed, and nothing will be: an error here is one more reason to open anew.
        ended.broken |= txn.abort().is_err();
        return ended;
    }
    match txn.commit() {
        Ok(()) => Ended { result: Ok(()), broken: false },
        // The sync may have failed after the write, or only its answer was lost.
        Err(error) => Ended { result: Err(CommitError::Unknown(failed("write", error))), broken: true },
    }
}

fn given_up(why: GiveUp) -> Ended {
    match why {
        GiveUp::Conflict => Ended { result: Err(CommitError::Conflict), broken: false },
        GiveUp::Store(error) => Ended { result: Err(CommitError::Failed(error)), broken: false },
        GiveUp::Redb(error) => {
            let broken = is_io(&error);
            let error = failed("write", error);
            let error = if error == StoreError::DiskFull { CommitError::Full } else { CommitError::Failed(error) };
            Ended { result: Err(error), broken }
        }
    }
}

type OpenTable<'txn> = ::redb::Table<'txn, &'static [u8], &'static [u8]>;

/// The tables that a transaction has opened so far.
struct Tables<'txn> {
    txn: &'txn WriteTransaction,
    open: Vec<(Table, OpenTable<'txn>)>,
}

impl<'txn> Tables<'txn> {
    fn get(&mut self, table: Table) -> Result<&mut OpenTable<'txn>, ::redb::Error> {
        let at = match self.open.iter().position(|(t, _)| *t == table) {
            Some(at) => at,
            None => {
                self.open.push((table, self.txn.open_table(definition(table))?));
                self.open.len() - 1
            }
        };
        self.open.get_mut(at).map(|(_, table)| table).ok_or(::redb::Error::TransactionPoisoned)
    }
}

/// Writes the rows and heads of a group, if every org is at its base.
pub(super) fn write_group(txn: &WriteTransaction, group: &Group<'_>) -> Result<(), GiveUp> {
    let mut tables = Tables { txn, open: Vec::new() };
    for org in &group.orgs {
        let head = read_head(tables.get(Table::Meta)?, org.org)?.map_err(GiveUp::Store)?;
        if head.as_ref().map_or(Base::Absent, Base::from) != org.base {
            return Err(GiveUp::Conflict);
        }
    }
    let mut key = Vec::new();
    for org in &group.orgs {
        if org.erase {
            erase(&mut tables, org)?;
        }
        key::org_prefix(org.org, &mut key);
        write_rows(&mut tables, org, &mut key)?;
        let meta = tables.get(Table::Meta)?;
        match &org.head {
            Some(head) => drop(meta.insert(head_key(org.org).as_bytes(), encode_head(org.org, head).as_slice())?),
            None => drop(meta.remove(head_key(org.org).as_bytes())?),
        }
    }
    Ok(())
}

/// Writes the rows of one org. `key` holds the org's prefix.
fn write_rows(tables: &mut Tables<'_>, org: &OrgGroup<'_>, key: &mut Vec<u8>) -> Result<(), GiveUp> {
    let prefix = key.len();
    let mut trouble = None;
    let written = org.rows.write(&mut |table, row_key, value| {
        key.truncate(prefix);
        key.extend_from_slice(row_key);
        let put = |tables: &mut Tables<'_>| -> Result<(), ::redb::Error> {
            let table = tables.get(table)?;
            match value {
                Some(value) => drop(table.insert(key.as_slice(), value)?),
                None => drop(table.remove(key.as_slice())?),
            }
            Ok(())
        };
        put(tables).map_err(|error| {
            trouble = Some(error);
            StoreError::Poisoned
        })
    });
    match (written, trouble) {
        (_, Some(error)) => Err(GiveUp::Redb(error)),
        (Err(error), None) => Err(GiveUp::Store(error)),
        (Ok(()), None) => Ok(()),
    }
}

/// Removes every row of one org.
fn erase(tables: &mut Tables<'_>, org: &OrgGroup<'_>) -> Result<(), GiveUp> {
    let mut prefix = Vec::new();
    key::org_prefix(org.org, &mut prefix);
    let end = key::prefix_end(&prefix);
    for table in Table::IMAGE.into_iter().chain([Table::Changes]) {
        tables.get(table)?.retain_in(prefix.as_slice()..end.as_slice(), |_, _| false)?;
    }
    Ok(())
}
