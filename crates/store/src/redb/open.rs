//! Opening and making a store: what is refused, and why.

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, PoisonError, Weak};

use ::redb::backends::FileBackend;
use ::redb::{Database, DatabaseError, ReadableDatabase as _, StorageBackend, StorageError, TableError};

use super::gate::Gate;
use super::{META, RedbStore, SCHEMA_VERSION, SCHEMA_VERSION_KEY, STORE_ID_KEY, Source, definition, lock};
use crate::{MetaStore, StoreError, Table};

/// A store's file, open and looked at.
pub(super) struct Opened {
    pub(super) database: Database,
    pub(super) gate: Gate,
    pub(super) store_id: [u8; 16],
    pub(super) schema_version: u32,
}

/// How a store is opened.
#[derive(Clone, Debug)]
pub struct RedbOptions {
    /// Make the store if there is none.
    pub create: bool,
    /// Bytes of pages that are kept in memory. Images are elsewhere: this serves the commits.
    pub cache_bytes: usize,
    /// The id of a store that is made; `None`: a random one.
    pub store_id: Option<[u8; 16]>,
}

impl Default for RedbOptions {
    fn default() -> Self {
        RedbOptions { create: true, cache_bytes: 16 << 20, store_id: None }
    }
}

/// Device and inode: the same file under whatever name.
type FileId = (u64, u64);

/// The stores that this process has open.
static OPEN: Mutex<BTreeMap<FileId, Weak<RedbStore>>> = Mutex::new(BTreeMap::new());
/// A store was closed.
static CLOSED: Condvar = Condvar::new();

/// Opens the store in the file `path`, or makes it. Every open of the same file in one process gets the
/// same handle.
///
/// # Errors
/// [`StoreError`] says why it is refused; the file is as it was then.
pub fn open_redb(path: &Path, options: RedbOptions) -> Result<Arc<dyn MetaStore>, StoreError> {
    // The lock is held to the end: of two that open one file, the second one waits and shares.
    let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
    if options.create && is_missing(path)? {
        make(path, &options)?;
    }
    let path = fs::canonicalize(path).map_err(|e| {
        if e.kind() == io::ErrorKind::NotFound {
            StoreError::Missing { path: path.to_owned() }
        } else {
            StoreError::io("open", &e)
        }
    })?;
    let id = file_id(&path)?;
    while let Some(known) = open.get(&id) {
        if let Some(store) = known.upgrade() {
            return Ok(store);
        }
        // It is being closed.
        open = CLOSED.wait(open).unwrap_or_else(PoisonError::into_inner);
    }
    let source = Source::File { path: path.clone(), id };
    let opened = open_source(&source, &options, false)?;
    lock::note(&path);
    let store = Arc::new(RedbStore::new(source, options, opened));
    open.insert(id, Arc::downgrade(&store));
    Ok(store)
}

/// The store of `source` is closed: it can be opened again.
pub(super) fn forget(source: &Source) {
    if let Source::File { id, .. } = source {
        OPEN.lock().unwrap_or_else(PoisonError::into_inner).remove(id);
        CLOSED.notify_all();
    }
}

/// Opens (or makes) a store on a backend of the caller's; for tests that make it fail.
///
/// # Errors
/// [`StoreError`] says why it is refused.
pub fn open_redb_with(factory: super::BackendFactory, options: RedbOptions) -> Result<Arc<dyn MetaStore>, StoreError> {
    let empty = {
        let backend = factory().map_err(|e| StoreError::io("open", &e))?;
        let len = backend.len().map_err(|e| StoreError::io("open", &e))?;
        backend.close().map_err(|e| StoreError::io("open", &e))?;
        len == 0
    };
    let source = Source::Backend(factory);
    if empty && options.create {
        initialize(source.backend()?, &options)?;
    }
    let opened = open_source(&source, &options, false)?;
    Ok(Arc::new(RedbStore::new(source, options, opened)))
}

impl Source {
    fn backend(&self) -> Result<Box<dyn StorageBackend>, StoreError> {
        match self {
            Source::Backend(factory) => factory().map_err(|e| StoreError::io("open", &e)),
            Source::File { path, id } => {
                let file = OpenOptions::new().read(true).write(true).open(path);
                let file = file.map_err(|e| StoreError::io("open", &e))?;
                let meta = file.metadata().map_err(|e| StoreError::io("open", &e))?;
                if (meta.dev(), meta.ino()) != *id {
                    return Err(refused(path, "another file has taken its place since it was opened"));
                }
                if !meta.is_file() {
                    return Err(refused(path, "it is not a file"));
                }
                if meta.mode() & 0o077 != 0 {
                    return Err(StoreError::Permissions { path: path.clone(), mode: meta.mode() & 0o7777 });
                }
                Ok(Box::new(file_backend(file)?))
            }
        }
    }

    fn name(&self) -> PathBuf {
        match self {
            Source::File { path, .. } => path.clone(),
            Source::Backend(_) => PathBuf::from("(backend)"),
        }
    }
}

fn file_backend(file: File) -> Result<FileBackend, StoreError> {
    FileBackend::new(file).map_err(|e| {
        tracing::error!(error = %e, "meta store: cannot open");
        StoreError::Io { doing: "open", reason: None }
    })
}

fn refused(path: &Path, why: &'static str) -> StoreError {
    StoreError::NotAStore { path: path.to_owned(), why }
}

fn is_missing(path: &Path) -> Result<bool, StoreError> {
    match fs::symlink_metadata(path) {
        Ok(_) => Ok(false),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(true),
        Err(e) => Err(StoreError::io("open", &e)),
    }
}

fn file_id(path: &Path) -> Result<FileId, StoreError> {
    let meta = fs::metadata(path).map_err(|e| StoreError::io("open", &e))?;
    Ok((meta.dev(), meta.ino()))
}

/// Opens a store that is there. Nothing is written to its file before it is known to be ours. `rewrite`:
/// a sync has failed since it was opened last.
pub(super) fn open_source(source: &Source, options: &RedbOptions, rewrite: bool) -> Result<Opened, StoreError> {
    let path = source.name();
    let backend = source.backend()?;
    if backend.len().map_err(|e| StoreError::io("open", &e))? == 0 {
        return Err(refused(&path, "it is empty"));
    }
    let gate = Gate::new(backend);
    let builder = builder(options);
    let backend = gate.clone();
    // redb asserts some things of its files that a damaged one need not hold.
    let database = catch_unwind(AssertUnwindSafe(|| builder.create_with_backend(backend)))
        .map_err(|_| refused(&path, "its pages are damaged or cut short"))?
        .map_err(|e| cannot_open(&path, e))?;
    let look = catch_unwind(AssertUnwindSafe(|| look(&database, &path)));
    let (schema_version, store_id) = look.map_err(|_| refused(&path, "its pages are damaged or cut short"))??;
    if rewrite {
        gate.rewrite().map_err(|e| StoreError::io("write", &e))?;
    }
    Ok(Opened { database, gate, store_id, schema_version })
}

fn builder(options: &RedbOptions) -> ::redb::Builder {
    let mut builder = Database::builder();
    builder.set_cache_size(options.cache_bytes);
    builder
}

/// Reads what every store has, and refuses one that is of a later version.
fn look(database: &Database, path: &Path) -> Result<(u32, [u8; 16]), StoreError> {
    let damaged = |e: &dyn std::fmt::Display| {
        tracing::error!(path = %path.display(), error = %e, "meta store: cannot read");
        refused(path, "its pages are damaged or cut short")
    };
    let txn = database.begin_read().map_err(|e| damaged(&e))?;
    let meta = match txn.open_table(META) {
        Ok(meta) => meta,
        Err(TableError::TableDoesNotExist(_)) => return Err(refused(path, "it is a redb file of something else")),
        Err(e) => return Err(damaged(&e)),
    };
    let get = |key: &str| meta.get(key.as_bytes()).map(|v| v.map(|v| v.value().to_vec())).map_err(|e| damaged(&e));
    let version = get(SCHEMA_VERSION_KEY)?.and_then(|v| std::str::from_utf8(&v).ok()?.parse::<u32>().ok());
    let version = version.ok_or_else(|| refused(path, "it is a redb file of something else"))?;
    if version > SCHEMA_VERSION {
        return Err(StoreError::Newer { path: path.to_owned(), found: version, known: SCHEMA_VERSION });
    }
    let store_id = get(STORE_ID_KEY)?.and_then(|v| <[u8; 16]>::try_from(v).ok());
    let store_id = store_id.ok_or_else(|| refused(path, "it has no id"))?;
    Ok((version, store_id))
}

fn cannot_open(path: &Path, error: DatabaseError) -> StoreError {
    if matches!(error, DatabaseError::DatabaseAlreadyOpen | DatabaseError::LockProtocolMismatch) {
        return StoreError::Locked { path: path.to_owned(), holder: lock::holder(path) };
    }
    if let DatabaseError::Storage(StorageError::Io(e)) = &error {
        return if matches!(e.kind(), io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof) {
            refused(path, "it is not a redb file, or it is cut short")
        } else {
            StoreError::io("open", e)
        };
    }
    tracing::error!(path = %path.display(), %error, "meta store: cannot open");
    if matches!(error, DatabaseError::UpgradeRequired(_)) {
        refused(path, "it is a redb file of another format")
    } else {
        refused(path, "its pages are damaged or cut short")
    }
}

/// Makes a store at `path`, where nothing is: under another name first, so that a store is there whole
/// or not at all.
fn make(path: &Path, options: &RedbOptions) -> Result<(), StoreError> {
    let failed = |e: io::Error| StoreError::io("create", &e);
    let parent = path.parent().filter(|p| !p.as_os_str().is_empty());
    let missing: Vec<_> = parent.into_iter().flat_map(Path::ancestors).take_while(|p| !p.exists()).collect();
    if let Some(parent) = missing.first() {
        DirBuilder::new().recursive(true).mode(0o700).create(parent).map_err(failed)?;
        // A directory whose name is not durable takes the store with it.
        missing.iter().try_for_each(|made| sync_directory(made)).map_err(failed)?;
    }
    let unfinished = beside(path, "new");
    let file = create_file(&unfinished)?;
    let made = file_backend(file)
        .and_then(|backend| initialize(Box::new(backend), options))
        // Where somebody else was faster: his is as good.
        .and_then(|()| put_in_place(&unfinished, path).map(drop).map_err(failed));
    // It is another name of the store now, or of no use.
    let _ = fs::remove_file(&unfinished);
    made
}

/// Gives the file `unfinished` the name `path`, durably. False: there is something of that name, and it
/// stays. It may have its old name too afterwards.
pub(crate) fn put_in_place(unfinished: &Path, path: &Path) -> io::Result<bool> {
    match fs::hard_link(unfinished, path) {
        Ok(()) => {}
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => return Ok(false),
        // Not every file system has links.
        Err(e) if matches!(e.kind(), io::ErrorKind::Unsupported | io::ErrorKind::PermissionDenied) => {
            fs::rename(unfinished, path)?;
        }
        Err(e) => return Err(e),
    }
    sync_directory(path)?;
    Ok(true)
}

/// A new file that only its owner may open.
pub(super) fn create_file(path: &Path) -> Result<File, StoreError> {
    // One of that name can only be what a process that was killed has left.
    let _ = fs::remove_file(path);
    let file = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(path);
    file.map_err(|e| StoreError::io("create", &e))
}

/// A name in the same directory that only this process uses.
pub(crate) fn beside(path: &Path, what: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{what}-{}", std::process::id()));
    PathBuf::from(name)
}

/// Makes what happened to the names in the directory of `path` durable.
pub(super) fn sync_directory(path: &Path) -> io::Result<()> {
    let directory = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(directory)?.sync_all()
}

/// Writes an empty store.
pub(super) fn initialize(backend: Box<dyn StorageBackend>, options: &RedbOptions) -> Result<(), StoreError> {
    let store_id = match options.store_id {
        Some(id) => id,
        None => super::new_store_id()?,
    };
    let gate = Gate::new(backend);
    gate.release().map_err(|e| StoreError::io("create", &e))?;
    let create = || -> Result<(), ::redb::Error> {
        let database = builder(options).create_with_backend(gate)?;
        let txn = database.begin_write()?;
        for table in Table::ALL {
            txn.open_table(definition(table))?;
        }
        let mut meta = txn.open_table(META)?;
        meta.insert(SCHEMA_VERSION_KEY.as_bytes(), SCHEMA_VERSION.to_string().as_bytes())?;
        meta.insert(STORE_ID_KEY.as_bytes(), store_id.as_slice())?;
        drop(meta);
        txn.commit()?;
        drop(database);
        Ok(())
    };
    create().map_err(|e| super::failed("create", e))
}
