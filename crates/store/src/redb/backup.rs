//! Copies of a store: written under another name, opened and checked in full, then renamed.

use std::fs;
use std::path::Path;

use ::redb::backends::FileBackend;
use ::redb::{Database, ReadTransaction, ReadableDatabase as _, ReadableTable as _};
use dataglot_model::{HeadRecord, OrgName};

use super::open::{beside, create_file, initialize, sync_directory};
use super::{
    Attempt, HEAD_PREFIX, META, RedbOptions, STORE_ID_KEY, VALUE_PREFIX, decode_head, definition, encode_head,
    existing, failed, head_key,
};
use crate::record::{Bad, Damage, key, open};
use crate::{StoreError, StoreFacts, Table};

/// Rows that are committed at once, so that memory stays small.
const STEP_ROWS_MAX: usize = 20_000;
/// How many damaged records are listed.
const DAMAGE_MAX: usize = 100;

/// Takes the content of a store.
pub(crate) trait CopySink {
    /// The head of an org.
    fn head(&mut self, org: &OrgName, head: &HeadRecord) -> Result<(), StoreError>;
    /// A value that the store has once.
    fn meta(&mut self, key: &str, value: &[u8]) -> Result<(), StoreError>;
    /// A row; its key with the org.
    fn row(&mut self, table: Table, key: &[u8], value: &[u8]) -> Result<(), StoreError>;
}

/// Writes what `feed` hands out to the file `to`, as [`crate::MetaStore::backup`] says.
pub(crate) fn write(
    to: &Path,
    facts: &StoreFacts,
    feed: &mut dyn FnMut(&mut dyn CopySink) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    let unfinished = beside(to, "backup");
    let written = write_unfinished(&unfinished, facts, feed).and_then(|()| {
        let rename = fs::rename(&unfinished, to).and_then(|()| sync_directory(to));
        rename.map_err(|e| StoreError::io("back up", &e))
    });
    if written.is_err() {
        // There may be none, or it may be half of one: nobody needs it.
        let _ = fs::remove_file(&unfinished);
    }
    written
}

fn write_unfinished(
    path: &Path,
    facts: &StoreFacts,
    feed: &mut dyn FnMut(&mut dyn CopySink) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    let options = RedbOptions { store_id: Some(facts.store_id), ..RedbOptions::default() };
    let file = create_file(path)?;
    let again = file.try_clone().map_err(|e| StoreError::io("back up", &e))?;
    initialize(Box::new(backend(file)?), &options)?;
    let mut copy = Copy { database: database(again)?, waiting: Vec::new(), rows: 0 };
    feed(&mut copy)?;
    copy.flush()?;
    let Copy { database: written, rows, .. } = copy;
    drop(written);
    let file = fs::OpenOptions::new().read(true).write(true).open(path).map_err(|e| StoreError::io("back up", &e))?;
    let found = check(&database(file)?, facts)?;
    if found == rows {
        Ok(())
    } else {
        tracing::error!(rows, found, "the copy does not hold what was written to it");
        Err(StoreError::Internal)
    }
}

fn backend(file: fs::File) -> Result<FileBackend, StoreError> {
    FileBackend::new(file).map_err(|error| {
        tracing::error!(%error, "the copy cannot be opened");
        StoreError::Io { doing: "back up", reason: None }
    })
}

fn database(file: fs::File) -> Result<Database, StoreError> {
    let mut builder = Database::builder();
    builder.set_cache_size(RedbOptions::default().cache_bytes);
    builder.create_with_backend(backend(file)?).map_err(|e| failed("back up", e))
}

/// A copy while it is being written.
struct Copy {
    database: Database,
    waiting: Vec<(Table, Vec<u8>, Vec<u8>)>,
    /// All that were handed in.
    rows: u64,
}

impl Copy {
    fn push(&mut self, table: Table, key: &[u8], value: &[u8]) -> Result<(), StoreError> {
        self.rows += 1;
        self.waiting.push((table, key.to_vec(), value.to_vec()));
        if self.waiting.len() < STEP_ROWS_MAX { Ok(()) } else { self.flush() }
    }

    fn flush(&mut self) -> Result<(), StoreError> {
        let write = || -> Result<(), ::redb::Error> {
            let txn = self.database.begin_write()?;
            for chunk in self.waiting.chunk_by(|(a, ..), (b, ..)| a == b) {
                let Some((table, ..)) = chunk.first() else { continue };
                let mut table = txn.open_table(definition(*table))?;
                for (_, key, value) in chunk {
                    table.insert(key.as_slice(), value.as_slice())?;
                }
            }
            Ok(txn.commit()?)
        };
        write().map_err(|e| failed("back up", e))?;
        self.waiting.clear();
        Ok(())
    }
}

impl CopySink for Copy {
    fn head(&mut self, org: &OrgName, head: &HeadRecord) -> Result<(), StoreError> {
        self.push(Table::Meta, head_key(org).as_bytes(), &encode_head(org, head))
    }

    fn meta(&mut self, key: &str, value: &[u8]) -> Result<(), StoreError> {
        self.push(Table::Meta, format!("{VALUE_PREFIX}{key}").as_bytes(), value)
    }

    fn row(&mut self, table: Table, key: &[u8], value: &[u8]) -> Result<(), StoreError> {
        self.push(table, key, value)
    }
}

/// Reads every row of a copy, and counts them.
fn check(database: &Database, facts: &StoreFacts) -> Result<u64, StoreError> {
    let mut damage = Vec::new();
    let mut rows = 0;
    let mut read = || -> Result<bool, ::redb::Error> {
        let txn = database.begin_read()?;
        let meta = txn.open_table(META)?;
        if meta.get(STORE_ID_KEY.as_bytes())?.is_none_or(|id| id.value() != facts.store_id) {
            return Ok(false);
        }
        for row in meta.iter()? {
            let (key, value) = row?;
            let (head, other) = (HEAD_PREFIX.as_bytes(), VALUE_PREFIX.as_bytes());
            rows += u64::from(key.value().starts_with(head) || key.value().starts_with(other));
            if key.value().starts_with(head)
                && let Err(StoreError::Damaged { damage: found }) = decode_head(key.value(), value.value())
            {
                damage.extend(found);
            }
        }
        for table in Table::ALL.into_iter().filter(|t| *t != Table::Meta) {
            let Some(content) = existing(&txn, table)? else { continue };
            for row in content.iter()? {
                let (key, value) = row?;
                rows += 1;
                let within = key.value().splitn(2, |b| *b == key::SEPARATOR).nth(1);
                let why = match within {
                    Some(within) => open(table, within, value.value()).err(),
                    None => Some(Bad::Key),
                };
                if let Some(why) = why
                    && damage.len() < DAMAGE_MAX
                {
                    damage.push(Damage { table, key: within.unwrap_or(key.value()).to_vec(), why });
                }
            }
        }
        Ok(true)
    };
    let ours = read().map_err(|e| failed("back up", e))?;
    if !damage.is_empty() {
        return Err(StoreError::Damaged { damage });
    }
    if ours { Ok(rows) } else { Err(StoreError::Internal) }
}

/// Copies the state that `txn` sees.
pub(super) fn copy(txn: &ReadTransaction, to: &Path, facts: &StoreFacts) -> Attempt<()> {
    let mut trouble = None;
    let written = write(to, facts, &mut |sink| match read(txn, sink) {
        Ok(result) => result,
        Err(error) => {
            trouble = Some(error);
            Err(StoreError::Poisoned)
        }
    });
    trouble.map_or(Ok(written), Err)
}

fn read(txn: &ReadTransaction, sink: &mut dyn CopySink) -> Attempt<()> {
    for row in txn.open_table(META)?.iter()? {
        let (key, value) = row?;
        let (key, value) = (key.value(), value.value());
        if key.starts_with(HEAD_PREFIX.as_bytes()) || key.starts_with(VALUE_PREFIX.as_bytes()) {
            // As it is: a damaged one is found when the copy is checked.
            if let Err(error) = sink.row(Table::Meta, key, value) {
                return Ok(Err(error));
            }
        }
    }
    for table in Table::ALL.into_iter().filter(|t| *t != Table::Meta) {
        let Some(rows) = existing(txn, table)? else { continue };
        for row in rows.iter()? {
            let (key, value) = row?;
            if let Err(error) = sink.row(table, key.value(), value.value()) {
                return Ok(Err(error));
            }
        }
    }
    Ok(Ok(()))
}
