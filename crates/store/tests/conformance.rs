//! The suite over every backend, bare and with commits whose outcome is not told.

#![allow(clippy::unwrap_used, reason = "these are tests")]

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use dataglot_store::conformance::Rig;
use dataglot_store::fault::{Fault, FaultStore};
use dataglot_store::{MetaStore, RedbOptions, open_memory, open_redb};

/// Opens the store of a rig.
type Open = fn(&Path) -> Arc<dyn MetaStore>;

struct TestRig {
    dir: tempfile::TempDir,
    open: Open,
    store: Mutex<Option<Arc<dyn MetaStore>>>,
}

impl TestRig {
    fn new(open: Open) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let store = Mutex::new(Some(open(dir.path())));
        TestRig { dir, open, store }
    }
}

impl Rig for TestRig {
    fn store(&self) -> Arc<dyn MetaStore> {
        self.store.lock().unwrap().clone().unwrap()
    }

    fn reopen(&self) -> Arc<dyn MetaStore> {
        let mut store = self.store.lock().unwrap();
        drop(store.take());
        *store = Some((self.open)(self.dir.path()));
        store.clone().unwrap()
    }

    fn dir(&self) -> &Path {
        self.dir.path()
    }

    fn seed(&self) -> u64 {
        0x5eed
    }
}

fn memory(_: &Path) -> Arc<dyn MetaStore> {
    open_memory().unwrap()
}

fn redb(dir: &Path) -> Arc<dyn MetaStore> {
    let path: PathBuf = dir.join("meta.redb");
    open_redb(&path, RedbOptions::default()).unwrap()
}

/// Two of three commits do not say what became of them.
fn spoiled(store: Arc<dyn MetaStore>) -> Arc<dyn MetaStore> {
    let store = FaultStore::new(store);
    store.cycle([Fault::None, Fault::LostReply, Fault::LostRequest]);
    store
}

mod memory_bare {
    use super::*;
    dataglot_store::conformance_tests!(TestRig::new(memory));
}

mod memory_spoiled {
    use super::*;
    dataglot_store::conformance_tests!(TestRig::new(|dir| spoiled(memory(dir))));
}

mod redb_bare {
    use super::*;
    dataglot_store::conformance_tests!(TestRig::new(redb));
}

mod redb_spoiled {
    use super::*;
    dataglot_store::conformance_tests!(TestRig::new(|dir| spoiled(redb(dir))));
}
