//! The default backend: one redb file.
//!
//! All work happens on the caller's thread, which is the committer's or a reader's, never one of an async
//! runtime. After an I/O error redb's handle is of no use, and what a failed commit has left on disk is
//! not known (a commit whose sync failed was seen to be there): the handle is dropped, and the next call
//! opens the file again before it does anything else.

pub(crate) mod backup;
mod commit;
mod gate;
mod lock;
mod open;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use ::redb::{Database, ReadTransaction, ReadableDatabase as _, StorageBackend, TableDefinition};
use dataglot_model::{HeadRecord, OrgName, Seq, TransactionId};

use self::gate::Gate;
use self::open::{Opened, open_source};
use crate::feed::Feed;
use crate::record::{Bad, Damage, key, transaction_id};
use crate::{CommitError, DeltaSink, Group, ImageSink, MetaStore, StoreError, StoreFacts, Table, Watcher, record};

pub use open::{RedbOptions, open_redb, open_redb_with};
pub(crate) use open::{beside, put_in_place};

/// The format that this version writes, and the newest one that it reads.
pub(crate) const SCHEMA_VERSION: u32 = 1;

const SCHEMA_VERSION_KEY: &str = "schema_version";
const STORE_ID_KEY: &str = "store_id";
/// What the key of an org's head starts with in `meta`.
const HEAD_PREFIX: &str = "head/";
/// What the keys of [`MetaStore::meta_put`] start with in `meta`.
const VALUE_PREFIX: &str = "value/";

type Definition = TableDefinition<'static, &'static [u8], &'static [u8]>;

const META: Definition = TableDefinition::new(Table::Meta.as_str());

const fn definition(table: Table) -> Definition {
    TableDefinition::new(table.as_str())
}

/// A table as a reader sees it.
type Content = ::redb::ReadOnlyTable<&'static [u8], &'static [u8]>;

/// The rows of a table; `None` in a store of before there was such a table, until the first row is written.
fn existing(txn: &::redb::ReadTransaction, table: Table) -> Result<Option<Content>, ::redb::TableError> {
    match txn.open_table(definition(table)) {
        Ok(rows) => Ok(Some(rows)),
        Err(::redb::TableError::TableDoesNotExist(_)) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Makes a backend for redb, each time that the store is opened.
pub type BackendFactory = Arc<dyn Fn() -> std::io::Result<Box<dyn StorageBackend>> + Send + Sync>;

/// Where the store is.
enum Source {
    File { path: PathBuf, id: (u64, u64) },
    Backend(BackendFactory),
}

/// A store in a redb file.
pub struct RedbStore {
    source: Source,
    options: RedbOptions,
    store_id: [u8; 16],
    schema_version: u32,
    handle: RwLock<Handle>,
    /// A commit failed at a point at which a sync may have been the cause.
    unsynced: AtomicBool,
}

/// `None`: it failed, and has to be opened again.
type Handle = Option<(Database, Gate)>;

/// What a read comes to: the outer error is redb's, and may cost the handle; the inner one is ours.
type Attempt<T> = Result<Result<T, StoreError>, ::redb::Error>;

impl RedbStore {
    fn new(source: Source, options: RedbOptions, opened: Opened) -> Self {
        let Opened { database, gate, store_id, schema_version } = opened;
        let handle = RwLock::new(Some((database, gate)));
        RedbStore { source, options, store_id, schema_version, handle, unsynced: AtomicBool::new(false) }
    }

    /// Calls `f` with the database, opened again first if it has to be.
    fn with<T>(&self, f: impl Fn(&Database, &Gate) -> T) -> Result<T, StoreError> {
        loop {
            if let Some((database, gate)) = &*self.handle.read().unwrap_or_else(PoisonError::into_inner) {
                return Ok(f(database, gate));
            }
            let mut handle = self.handle.write().unwrap_or_else(PoisonError::into_inner);
            if handle.is_none() {
                // Until it is open, whatever fails may be a sync.
                let rewrite = self.unsynced.swap(true, Ordering::AcqRel);
                let opened = open_source(&self.source, &self.options, rewrite)?;
                if opened.store_id != self.store_id {
                    return Err(StoreError::NotAStore {
                        path: self.location().into(),
                        why: "another store has taken its place since it was opened",
                    });
                }
                opened.gate.release().map_err(|e| StoreError::io("open", &e))?;
                tracing::warn!(store = self.location(), "the meta store was opened again after an I/O error");
                self.unsynced.store(false, Ordering::Release);
                *handle = Some((opened.database, opened.gate));
            }
        }
    }

    /// Drops the handle: the next call opens the file again.
    fn poison(&self) {
        let handle = self.handle.write().unwrap_or_else(PoisonError::into_inner).take();
        // Closing a database that failed may panic inside; it is gone in any case.
        let close = std::panic::AssertUnwindSafe(move || drop(handle));
        if std::panic::catch_unwind(close).is_err() {
            tracing::error!("closing the meta store after an I/O error panicked");
        }
    }

    /// Reads in one snapshot. An error of an earlier call that redb remembers costs a second try.
    fn read<T>(&self, f: &mut dyn FnMut(&ReadTransaction) -> Attempt<T>) -> Result<T, StoreError> {
        let f = std::cell::RefCell::new(f);
        for again in [true, false] {
            let result = self.with(|database, _| {
                let txn = database.begin_read()?;
                (f.borrow_mut())(&txn)
            })?;
            match result {
                Ok(value) => return value,
                Err(::redb::Error::PreviousIo) if again => self.poison(),
                Err(error) => {
                    if is_io(&error) {
                        self.poison();
                    }
                    return Err(failed("read", error));
                }
            }
        }
        Err(StoreError::Poisoned)
    }

    fn location(&self) -> String {
        match &self.source {
            Source::File { path, .. } => path.display().to_string(),
            Source::Backend(_) => "(backend)".to_owned(),
        }
    }
}

impl Drop for RedbStore {
    fn drop(&mut self) {
        if let Source::File { path, .. } = &self.source {
            // While the lock is still ours.
            lock::forget(path);
        }
        self.poison();
        open::forget(&self.source);
    }
}

impl MetaStore for RedbStore {
    fn facts(&self) -> StoreFacts {
        StoreFacts {
            backend: "redb",
            location: self.location(),
            path: match &self.source {
                Source::File { path, .. } => Some(path.clone()),
                Source::Backend(_) => None,
            },
            store_id: self.store_id,
            schema_version: self.schema_version,
            durable: true,
            shared: false,
        }
    }

    fn heads(&self) -> Result<Vec<(OrgName, HeadRecord)>, StoreError> {
        self.read(&mut |txn| {
            let meta = txn.open_table(META)?;
            let end = prefix_end(HEAD_PREFIX);
            let mut heads = Vec::new();
            for row in meta.range(HEAD_PREFIX.as_bytes()..end.as_slice())? {
                let (key, value) = row?;
                match decode_head(key.value(), value.value()) {
                    Ok(head) => heads.push(head),
                    Err(damage) => return Ok(Err(damage)),
                }
            }
            Ok(Ok(heads))
        })
    }

    fn head(&self, org: &OrgName) -> Result<Option<HeadRecord>, StoreError> {
        self.read(&mut |txn| read_head(&txn.open_table(META)?, org))
    }

    fn load(&self, org: &OrgName, sink: &mut dyn ImageSink) -> Result<(), StoreError> {
        let mut prefix = Vec::new();
        key::org_prefix(org, &mut prefix);
        let end = key::prefix_end(&prefix);
        // Once rows were handed out there is no second try: the sink would get them twice.
        let mut begun = false;
        self.read(&mut |txn| {
            let head = match read_head(&txn.open_table(META)?, org)? {
                Ok(Some(head)) => head,
                Ok(None) => return Ok(Ok(())),
                Err(error) => return Ok(Err(error)),
            };
            if std::mem::replace(&mut begun, true) {
                return Ok(Err(StoreError::Poisoned));
            }
            sink.begin(head);
            for table in Table::IMAGE {
                let Some(rows) = existing(txn, table)? else { continue };
                for row in rows.range(prefix.as_slice()..end.as_slice())? {
                    let (key, value) = row?;
                    sink.row(table, key.value().get(prefix.len()..).unwrap_or_default(), value.value());
                }
            }
            Ok(Ok(()))
        })
    }

    fn delta(&self, org: &OrgName, from: Seq, sink: &mut dyn DeltaSink) -> Result<(), StoreError> {
        let mut prefix = Vec::new();
        key::org_prefix(org, &mut prefix);
        let start = [prefix.as_slice(), &key::of_change(from, 0)].concat();
        let end = key::prefix_end(&prefix);
        let mut begun = false;
        self.read(&mut |txn| {
            let head = match read_head(&txn.open_table(META)?, org)? {
                Ok(Some(head)) => head,
                Ok(None) => return Ok(Ok(())),
                Err(error) => return Ok(Err(error)),
            };
            if std::mem::replace(&mut begun, true) {
                return Ok(Err(StoreError::Poisoned));
            }
            if !sink.begin(head) {
                return Ok(Ok(()));
            }
            for row in txn.open_table(definition(Table::Changes))?.range(start.as_slice()..end.as_slice())? {
                let (key, value) = row?;
                let key = key.value().get(prefix.len()..).unwrap_or_default();
                if let Ok((seq, step)) = key::read_change(key)
                    && !sink.change(seq, step, value.value())
                {
                    break;
                }
            }
            for (table, key) in sink.touched() {
                let full = [prefix.as_slice(), &key].concat();
                let row = match existing(txn, table)? {
                    Some(rows) => rows.get(full.as_slice())?,
                    None => None,
                };
                sink.row(table, &key, row.as_ref().map(::redb::AccessGuard::value));
            }
            Ok(Ok(()))
        })
    }

    fn watch(&self, _watcher: Arc<dyn Watcher>) -> Result<(), StoreError> {
        Ok(())
    }

    fn orgs_added(&self) {}

    fn halt(&self, _org: &OrgName, _seen: Seq) -> Result<(), StoreError> {
        Ok(())
    }

    fn commit(&self, group: &Group<'_>) -> Result<(), CommitError> {
        if group.orgs.is_empty() {
            return Ok(());
        }
        let write = |txn: &::redb::WriteTransaction| commit::write_group(txn, group);
        self.write(&write)
    }

    fn changes(
        &self,
        org: &OrgName,
        after: Seq,
        limit: usize,
        sink: &mut dyn FnMut(Seq, u32, &[u8]) -> bool,
    ) -> Result<(), StoreError> {
        let mut prefix = Vec::new();
        key::org_prefix(org, &mut prefix);
        let start = [prefix.as_slice(), &key::of_change(after.next(), 0)].concat();
        let end = key::prefix_end(&prefix);
        let mut begun = false;
        self.read(&mut |txn| {
            if std::mem::replace(&mut begun, true) {
                return Ok(Err(StoreError::Poisoned));
            }
            let mut feed = Feed::new(limit, sink);
            for row in txn.open_table(definition(Table::Changes))?.range(start.as_slice()..end.as_slice())? {
                let (key, value) = row?;
                let key = key.value().get(prefix.len()..).unwrap_or_default();
                let Ok((seq, step)) = key::read_change(key) else { continue };
                if !feed.row(seq, step, value.value()) {
                    break;
                }
            }
            Ok(Ok(()))
        })
    }

    fn find_transaction(&self, org: &OrgName, id: TransactionId) -> Result<Option<Seq>, StoreError> {
        let mut prefix = Vec::new();
        key::org_prefix(org, &mut prefix);
        let end = key::prefix_end(&prefix);
        self.read(&mut |txn| {
            // The newest first: it is nearly always one of the last that is asked for.
            for row in txn.open_table(definition(Table::Changes))?.range(prefix.as_slice()..end.as_slice())?.rev() {
                let (key, value) = row?;
                if transaction_id(value.value()) == Some(id) {
                    let key = key.value().get(prefix.len()..).unwrap_or_default();
                    return Ok(Ok(key::read_change(key).ok().map(|(seq, _)| seq)));
                }
            }
            Ok(Ok(None))
        })
    }

    fn meta_get(&self, key: &str) -> Result<Option<Vec<u8>>, StoreError> {
        let key = format!("{VALUE_PREFIX}{key}");
        self.read(&mut |txn| {
            let meta = txn.open_table(META)?;
            Ok(Ok(meta.get(key.as_bytes())?.map(|value| value.value().to_vec())))
        })
    }

    fn metas(&self) -> Result<Vec<(String, Vec<u8>)>, StoreError> {
        self.read(&mut |txn| {
            let end = prefix_end(VALUE_PREFIX);
            let mut values = Vec::new();
            for row in txn.open_table(META)?.range(VALUE_PREFIX.as_bytes()..end.as_slice())? {
                let (key, value) = row?;
                let key = key.value().get(VALUE_PREFIX.len()..).unwrap_or_default();
                values.push((String::from_utf8_lossy(key).into_owned(), value.value().to_vec()));
            }
            Ok(Ok(values))
        })
    }

    fn meta_init(&self, key: &str, value: &[u8]) -> Result<Vec<u8>, StoreError> {
        // One process has the file: nobody else can set it between the two.
        if let Some(there) = self.meta_get(key)? {
            return Ok(there);
        }
        self.meta_put(key, value)?;
        Ok(value.to_vec())
    }

    fn meta_put(&self, key: &str, value: &[u8]) -> Result<(), StoreError> {
        let key = format!("{VALUE_PREFIX}{key}");
        let write = |txn: &::redb::WriteTransaction| {
            txn.open_table(META)?.insert(key.as_bytes(), value)?;
            Ok(())
        };
        self.write(&write).map_err(|error| match error {
            CommitError::Conflict | CommitError::Fenced => StoreError::Contended,
            CommitError::Full => StoreError::DiskFull,
            CommitError::Unknown(error) | CommitError::Failed(error) => error,
        })
    }

    fn health(&self) -> Result<(), StoreError> {
        self.read(&mut |txn| {
            let meta = txn.open_table(META)?;
            let found = meta.get(STORE_ID_KEY.as_bytes())?.is_some_and(|id| id.value() == self.store_id);
            Ok(if found { Ok(()) } else { Err(StoreError::Internal) })
        })
    }

    fn backup(&self, to: &Path) -> Result<(), StoreError> {
        if let Source::File { path, .. } = &self.source
            && std::fs::canonicalize(to).is_ok_and(|to| to == *path)
        {
            return Err(StoreError::NotAStore { path: to.to_owned(), why: "it is the store itself" });
        }
        let facts = self.facts();
        self.read(&mut |txn| backup::copy(txn, to, &facts))
    }

    fn size(&self) -> Result<u64, StoreError> {
        self.with(|_, gate| gate.file_len())
    }
}

/// The id of a new store.
pub(crate) fn new_store_id() -> Result<[u8; 16], StoreError> {
    let mut id = [0; 16];
    getrandom::fill(&mut id).map_err(|error| {
        tracing::error!(%error, "no random number for the id of a new store");
        StoreError::Internal
    })?;
    Ok(id)
}

/// The key of an org's head in `meta`.
fn head_key(org: &OrgName) -> String {
    format!("{HEAD_PREFIX}{}", org.as_str())
}

/// The first key after all that start with `prefix`.
fn prefix_end(prefix: &str) -> Vec<u8> {
    let mut end = prefix.as_bytes().to_vec();
    if let Some(last) = end.last_mut() {
        *last += 1;
    }
    end
}

fn encode_head(org: &OrgName, head: &HeadRecord) -> Vec<u8> {
    let mut value = Vec::new();
    record::begin(&mut value);
    // A head always has a JSON form, and a buffer takes it.
    let _ = serde_json::to_writer(&mut value, head);
    record::finish(Table::Meta, head_key(org).as_bytes(), &mut value);
    value
}

fn decode_head(key: &[u8], value: &[u8]) -> Result<(OrgName, HeadRecord), StoreError> {
    let decode = || {
        let name = key.strip_prefix(HEAD_PREFIX.as_bytes()).and_then(|n| std::str::from_utf8(n).ok());
        let org = OrgName::new(name.ok_or(Bad::Key)?).map_err(|_| Bad::Key)?;
        let body = record::open(Table::Meta, key, value)?;
        Ok((org, serde_json::from_slice(body).map_err(|_| Bad::Value)?))
    };
    decode().map_err(|why| {
        let damage = Damage { table: Table::Meta, key: key.to_vec(), why };
        tracing::error!("damaged: {damage}");
        StoreError::Damaged { damage: vec![damage] }
    })
}

/// The head of `org`.
fn read_head(
    meta: &impl ::redb::ReadableTable<&'static [u8], &'static [u8]>,
    org: &OrgName,
) -> Attempt<Option<HeadRecord>> {
    let key = head_key(org);
    let Some(value) = meta.get(key.as_bytes())? else { return Ok(Ok(None)) };
    Ok(decode_head(key.as_bytes(), value.value()).map(|(_, head)| Some(head)))
}

/// Whether the database is of no use after this.
fn is_io(error: &::redb::Error) -> bool {
    use ::redb::Error::{Backend, Corrupted, DatabaseClosed, Io, LockPoisoned, PreviousIo};
    matches!(error, Io(_) | Backend(_) | PreviousIo | LockPoisoned(_) | DatabaseClosed | Corrupted(_))
}

/// What we say of an error of redb's.
fn failed(doing: &'static str, error: impl Into<::redb::Error>) -> StoreError {
    let error = error.into();
    if let ::redb::Error::Io(error) = &error {
        return StoreError::io(doing, error);
    }
    if matches!(error, ::redb::Error::PreviousIo) {
        return StoreError::Poisoned;
    }
    tracing::error!(doing, %error, "meta store: redb failed");
    StoreError::Io { doing, reason: None }
}
