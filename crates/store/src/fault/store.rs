//! A wrapper that spoils commits.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use dataglot_model::{HeadRecord, OrgName, Seq, TransactionId};

use crate::{CommitError, DeltaSink, Group, ImageSink, MetaStore, StoreError, StoreFacts, Watcher};

/// What happens to a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Nothing: it goes through.
    None,
    /// It is not written, and the answer says so.
    Fail,
    /// It is not written, and the answer does not say so.
    LostRequest,
    /// It is written, and the answer does not say so.
    LostReply,
    /// It is not written: there is no room.
    Full,
    /// It is not written: another writer was faster, or so it says.
    Conflict,
    /// It takes that long first.
    Slow(Duration),
}

/// A store whose commits can be spoiled. Without a fault it is the store that it wraps.
pub struct FaultStore {
    inner: Arc<dyn MetaStore>,
    plan: Mutex<Plan>,
    changed: Condvar,
}

#[derive(Default)]
struct Plan {
    /// For the next commits, in order.
    next: VecDeque<Fault>,
    /// Then these, over and over.
    cycle: Vec<Fault>,
    commits: usize,
    /// That many look-ups of a transaction fail.
    lookups_fail: usize,
    /// While it is not 0, commits wait.
    held: usize,
    /// Commits that wait.
    waiting: usize,
}

impl FaultStore {
    /// Wraps `inner`.
    pub fn new(inner: Arc<dyn MetaStore>) -> Arc<Self> {
        Arc::new(FaultStore { inner, plan: Mutex::default(), changed: Condvar::new() })
    }

    /// Spoils the next commits, in this order.
    pub fn next(&self, faults: impl IntoIterator<Item = Fault>) {
        self.plan().next.extend(faults);
    }

    /// Spoils all commits after those of [`FaultStore::next`], over and over in this order.
    pub fn cycle(&self, faults: impl IntoIterator<Item = Fault>) {
        self.plan().cycle = faults.into_iter().collect();
    }

    /// Makes the next `count` look-ups of a transaction fail.
    pub fn fail_lookups(&self, count: usize) {
        self.plan().lookups_fail = count;
    }

    /// How many commits were asked for.
    pub fn commits(&self) -> usize {
        self.plan().commits
    }

    /// Makes commits wait until what it returns is dropped.
    pub fn hold(self: &Arc<Self>) -> Held {
        self.plan().held += 1;
        Held(Arc::clone(self))
    }

    fn plan(&self) -> MutexGuard<'_, Plan> {
        self.plan.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits while commits are held, and says what happens to this one.
    fn fault(&self) -> Fault {
        let mut plan = self.plan();
        plan.commits += 1;
        plan.waiting += 1;
        self.changed.notify_all();
        while plan.held > 0 {
            plan = self.changed.wait(plan).unwrap_or_else(PoisonError::into_inner);
        }
        plan.waiting -= 1;
        let cycled = plan.cycle.get(plan.commits % plan.cycle.len().max(1)).copied();
        plan.next.pop_front().or(cycled).unwrap_or(Fault::None)
    }
}

/// Commits wait while it is there.
pub struct Held(Arc<FaultStore>);

impl Held {
    /// Blocks until a commit waits: it has been planned then, and is not written.
    pub fn until_waiting(&self) {
        let mut plan = self.0.plan();
        while plan.waiting == 0 {
            plan = self.0.changed.wait(plan).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let mut plan = self.0.plan();
        plan.held = plan.held.saturating_sub(1);
        drop(plan);
        self.0.changed.notify_all();
    }
}

/// What a spoiled commit says.
fn injected() -> StoreError {
    StoreError::Io { doing: "write", reason: Some("injected fault".into()) }
}

impl MetaStore for FaultStore {
    fn facts(&self) -> StoreFacts {
        self.inner.facts()
    }

    fn heads(&self) -> Result<Vec<(OrgName, HeadRecord)>, StoreError> {
        self.inner.heads()
    }

    fn head(&self, org: &OrgName) -> Result<Option<HeadRecord>, StoreError> {
        self.inner.head(org)
    }

    fn heads_of(&self, orgs: Vec<OrgName>) -> Result<Vec<(OrgName, Option<HeadRecord>)>, StoreError> {
        self.inner.heads_of(orgs)
    }

    fn load(&self, org: &OrgName, sink: &mut dyn ImageSink) -> Result<(), StoreError> {
        self.inner.load(org, sink)
    }

    fn delta(&self, org: &OrgName, from: Seq, sink: &mut dyn DeltaSink) -> Result<(), StoreError> {
        self.inner.delta(org, from, sink)
    }

    fn watch(&self, watcher: Arc<dyn Watcher>) -> Result<(), StoreError> {
        self.inner.watch(watcher)
    }

    fn orgs_added(&self) {
        self.inner.orgs_added();
    }

    fn halt(&self, org: &OrgName, seen: Seq) -> Result<(), StoreError> {
        self.inner.halt(org, seen)
    }

    fn take_turn(&self, org: &OrgName) -> Result<bool, StoreError> {
        self.inner.take_turn(org)
    }

    fn pass_turn(&self) {
        self.inner.pass_turn();
    }

    fn commit(&self, group: &Group<'_>) -> Result<(), CommitError> {
        if group.orgs.is_empty() {
            // Nothing is written: nothing can be lost.
            return self.inner.commit(group);
        }
        match self.fault() {
            Fault::None => self.inner.commit(group),
            Fault::Fail => Err(CommitError::Failed(injected())),
            Fault::LostRequest => Err(CommitError::Unknown(injected())),
            Fault::LostReply => {
                self.inner.commit(group)?;
                Err(CommitError::Unknown(injected()))
            }
            Fault::Full => Err(CommitError::Full),
            Fault::Conflict => Err(CommitError::Conflict),
            Fault::Slow(time) => {
                std::thread::sleep(time);
                self.inner.commit(group)
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
        self.inner.changes(org, after, limit, sink)
    }

    fn find_transaction(&self, org: &OrgName, id: TransactionId) -> Result<Option<Seq>, StoreError> {
        let mut plan = self.plan();
        if plan.lookups_fail > 0 {
            plan.lookups_fail -= 1;
            return Err(injected());
        }
        drop(plan);
        self.inner.find_transaction(org, id)
    }

    fn settle_transaction(&self, org: &OrgName, id: TransactionId) -> Result<Option<Seq>, StoreError> {
        self.find_transaction(org, id)?;
        self.inner.settle_transaction(org, id)
    }

    fn meta_get(&self, key: &str) -> Result<Option<Vec<u8>>, StoreError> {
        self.inner.meta_get(key)
    }

    fn metas(&self) -> Result<Vec<(String, Vec<u8>)>, StoreError> {
        self.inner.metas()
    }

    fn meta_init(&self, key: &str, value: &[u8]) -> Result<Vec<u8>, StoreError> {
        self.inner.meta_init(key, value)
    }

    fn meta_put(&self, key: &str, value: &[u8]) -> Result<(), StoreError> {
        self.inner.meta_put(key, value)
    }

    fn health(&self) -> Result<(), StoreError> {
        self.inner.health()
    }

    fn backup(&self, to: &Path) -> Result<(), StoreError> {
        self.inner.backup(to)
    }

    fn size(&self) -> Result<u64, StoreError> {
        self.inner.size()
    }
}
