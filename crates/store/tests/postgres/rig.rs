//! A store in a database of its own.

use std::path::Path;
use std::sync::{Arc, Mutex};

use dataglot_model::OrgName;
use dataglot_pgtest::{Cluster, Database};
use dataglot_store::conformance::Rig;
use dataglot_store::fault::{Fault, FaultStore};
use dataglot_store::{Dsn, MetaStore, PostgresOptions, open_postgres};

/// What is put around each store.
type Wrap = fn(Arc<dyn MetaStore>) -> Arc<dyn MetaStore>;

pub struct PostgresRig {
    dir: tempfile::TempDir,
    database: Database,
    wrap: Wrap,
    /// What the case calls the store; another handle each time, on connections of its own.
    opened: Mutex<Vec<Arc<dyn MetaStore>>>,
}

/// Opens the store in `database`.
pub fn open(database: &Database) -> Arc<dyn MetaStore> {
    open_postgres(options(database)).unwrap()
}

pub fn options(database: &Database) -> PostgresOptions {
    PostgresOptions::new(Dsn::parse(&database.dsn()).unwrap())
}

/// Two of three commits do not say what became of them.
pub fn spoiled(store: Arc<dyn MetaStore>) -> Arc<dyn MetaStore> {
    let store = FaultStore::new(store);
    store.cycle([Fault::None, Fault::LostReply, Fault::LostRequest]);
    store
}

impl PostgresRig {
    pub fn new(wrap: Wrap) -> Self {
        let database = Cluster::shared().database();
        PostgresRig { dir: tempfile::tempdir().unwrap(), database, wrap, opened: Mutex::default() }
    }
}

impl Rig for PostgresRig {
    fn store(&self) -> Arc<dyn MetaStore> {
        // Two processes, whatever the case does: a third handle is the first one again.
        let mut opened = self.opened.lock().unwrap();
        if opened.len() < 2 {
            opened.push((self.wrap)(open(&self.database)));
        } else {
            opened.rotate_left(1);
        }
        Arc::clone(opened.last().unwrap())
    }

    fn reopen(&self) -> Arc<dyn MetaStore> {
        self.opened.lock().unwrap().clear();
        self.store()
    }

    fn dir(&self) -> &Path {
        self.dir.path()
    }

    fn seed(&self) -> u64 {
        0x5eed
    }

    fn overwrite_history(&self, org: &OrgName, key: &[u8], value: &[u8]) -> bool {
        let (seq, step) = key.split_at(8);
        let seq = u64::from_be_bytes(seq.try_into().unwrap());
        let step = u32::from_be_bytes(step.try_into().unwrap());
        let raw: String = value.iter().map(|byte| format!("{byte:02x}")).collect();
        let org = org.as_str();
        self.database.execute(&format!(
            "SET search_path = dataglot;
             ALTER TABLE changes DISABLE TRIGGER append_only;
             INSERT INTO changes (org, seq, step, format, checksum, raw) VALUES ('{org}', {seq}, {step}, 0, 0, '\\x{raw}')
             ON CONFLICT (org, seq, step) DO UPDATE SET format = 0, checksum = 0, body = NULL, raw = excluded.raw;
             ALTER TABLE changes ENABLE ALWAYS TRIGGER append_only"
        ));
        true
    }
}
