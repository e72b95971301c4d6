//! A wrapper that makes any store one that other processes write to, too: what they do is seen when the
//! test says so, it can be out of reach, and another history can take its place.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use dataglot_model::{HeadRecord, OrgName, Seq, TransactionId};

use crate::{CommitError, DeltaSink, Group, ImageSink, MetaStore, PostgresError, StoreError, StoreFacts, Watcher};

/// A store that says that it is shared. All handles on one are made by [`SharedStore::handle`].
pub struct SharedStore {
    server: Arc<Server>,
    watcher: Mutex<Option<Arc<dyn Watcher>>>,
    meanwhile: Mutex<BTreeMap<Moment, Action>>,
}

/// When something can happen that others do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Moment {
    /// Before a head is read.
    Asked,
    /// After an image was read.
    Loaded,
    /// Before it is read what has become of an org.
    Followed,
    /// After a group was committed, or was not.
    Committed,
}

/// What others do.
type Action = Arc<dyn Fn() + Send + Sync>;

/// What all handles share.
struct Server {
    store_id: [u8; 16],
    content: Mutex<Content>,
}

struct Content {
    store: Arc<dyn MetaStore>,
    halted: BTreeMap<OrgName, Seq>,
    down: bool,
}

impl SharedStore {
    /// Shares `store`.
    pub fn new(store: Arc<dyn MetaStore>) -> Arc<Self> {
        let store_id = store.facts().store_id;
        let content = Mutex::new(Content { store, halted: BTreeMap::new(), down: false });
        Arc::new(SharedStore {
            server: Arc::new(Server { store_id, content }),
            watcher: Mutex::default(),
            meanwhile: Mutex::default(),
        })
    }

    /// The same store, as another process has it.
    pub fn handle(&self) -> Arc<Self> {
        let server = Arc::clone(&self.server);
        Arc::new(SharedStore { server, watcher: Mutex::default(), meanwhile: Mutex::default() })
    }

    /// Puts it out of reach, for every handle, or back.
    pub fn set_down(&self, down: bool) {
        self.content().down = down;
    }

    /// Puts another store in its place, as a failover does.
    pub fn replace(&self, store: Arc<dyn MetaStore>) {
        self.content().store = store;
    }

    /// Has `action` called each time that moment comes for this handle.
    pub fn set_meanwhile(&self, moment: Moment, action: impl Fn() + Send + Sync + 'static) {
        self.meanwhile.lock().unwrap_or_else(PoisonError::into_inner).insert(moment, Arc::new(action));
    }

    fn now(&self, moment: Moment) {
        let action = self.meanwhile.lock().unwrap_or_else(PoisonError::into_inner).get(&moment).cloned();
        if let Some(action) = action {
            action();
        }
    }

    /// Tells the watcher of this handle what the store has, or that it is out of reach.
    pub fn look(&self) {
        let watcher = self.watcher.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let Some(watcher) = watcher else { return };
        let at = Instant::now();
        let heads = |org: OrgName| self.head(&org).map(|head| (org, head));
        match watcher.orgs().into_iter().map(heads).collect() {
            Ok(heads) => watcher.seen(at, heads),
            Err(error) => watcher.lost(&error),
        }
    }

    /// Whether somebody has marked the org.
    pub fn is_halted(&self, org: &OrgName) -> bool {
        self.content().halted.contains_key(org)
    }

    fn content(&self) -> MutexGuard<'_, Content> {
        self.server.content.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn store(&self) -> Result<Arc<dyn MetaStore>, StoreError> {
        let content = self.content();
        if content.down {
            return Err(StoreError::Unavailable { reason: "injected fault".into() });
        }
        Ok(Arc::clone(&content.store))
    }
}

impl MetaStore for SharedStore {
    fn facts(&self) -> StoreFacts {
        let store = Arc::clone(&self.content().store);
        StoreFacts { shared: true, ..store.facts() }
    }

    fn heads(&self) -> Result<Vec<(OrgName, HeadRecord)>, StoreError> {
        self.store()?.heads()
    }

    fn head(&self, org: &OrgName) -> Result<Option<HeadRecord>, StoreError> {
        self.now(Moment::Asked);
        self.store()?.head(org)
    }

    fn load(&self, org: &OrgName, sink: &mut dyn ImageSink) -> Result<(), StoreError> {
        self.store()?.load(org, sink)?;
        self.now(Moment::Loaded);
        Ok(())
    }

    fn delta(&self, org: &OrgName, from: Seq, sink: &mut dyn DeltaSink) -> Result<(), StoreError> {
        self.now(Moment::Followed);
        self.store()?.delta(org, from, sink)
    }

    fn watch(&self, watcher: Arc<dyn Watcher>) -> Result<(), StoreError> {
        *self.watcher.lock().unwrap_or_else(PoisonError::into_inner) = Some(watcher);
        Ok(())
    }

    fn orgs_added(&self) {}

    fn halt(&self, org: &OrgName, seen: Seq) -> Result<(), StoreError> {
        self.store()?.head(org)?.ok_or_else(|| StoreError::NoSuchOrg(org.clone()))?;
        self.content().halted.entry(org.clone()).or_insert(seen);
        Ok(())
    }

    fn take_turn(&self, org: &OrgName) -> Result<bool, StoreError> {
        self.store()?.take_turn(org)
    }

    fn pass_turn(&self) {
        if let Ok(store) = self.store() {
            store.pass_turn();
        }
    }

    fn commit(&self, group: &Group<'_>) -> Result<(), CommitError> {
        let store = self.store().map_err(CommitError::Failed)?;
        let halted = group.orgs.iter().find_map(|o| Some((o.org.clone(), *self.content().halted.get(o.org)?)));
        match halted {
            Some((org, seen)) => Err(CommitError::Failed(StoreError::Diverged { org, seen })),
            None => {
                let outcome = store.commit(group);
                self.now(Moment::Committed);
                outcome
            }
        }
    }

    fn changes(
        &self,
        org: &OrgName,
        after: Seq,
        limit: usize,
        sink: &mut dyn FnMut(Seq, u32, &[u8]) -> bool,
    ) -> Result<(), StoreError> {
        self.store()?.changes(org, after, limit, sink)
    }

    fn find_transaction(&self, org: &OrgName, id: TransactionId) -> Result<Option<Seq>, StoreError> {
        self.store()?.find_transaction(org, id)
    }

    fn settle_transaction(&self, org: &OrgName, id: TransactionId) -> Result<Option<Seq>, StoreError> {
        self.store()?.settle_transaction(org, id)
    }

    fn meta_get(&self, key: &str) -> Result<Option<Vec<u8>>, StoreError> {
        self.store()?.meta_get(key)
    }

    fn metas(&self) -> Result<Vec<(String, Vec<u8>)>, StoreError> {
        self.store()?.metas()
    }

    fn meta_init(&self, key: &str, value: &[u8]) -> Result<Vec<u8>, StoreError> {
        self.store()?.meta_init(key, value)
    }

    fn meta_put(&self, key: &str, value: &[u8]) -> Result<(), StoreError> {
        self.store()?.meta_put(key, value)
    }

    fn health(&self) -> Result<(), StoreError> {
        let store = self.store()?;
        let facts = store.facts();
        if facts.store_id != self.server.store_id {
            let error = PostgresError::AnotherStore { location: facts.location };
            return Err(StoreError::Postgres(Box::new(error)));
        }
        store.health()
    }

    fn backup(&self, to: &Path) -> Result<(), StoreError> {
        self.store()?.backup(to)
    }

    fn size(&self) -> Result<u64, StoreError> {
        self.store()?.size()
    }
}
