//! The published images: what every reader sees.
//!
//! An image is loaded once, and published unless the committer was faster: what it has published is newer
//! than what somebody began to load before. It never writes for an org whose image is not here.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockWriteGuard};
use std::time::Instant;

use dataglot_model::{HeadRecord, OrgName};

use crate::record::{Damage, load_state};
use crate::{MetaStore, Metrics, State, StoreError};

pub(crate) struct Images<S> {
    store: Arc<dyn MetaStore>,
    shared: bool,
    published: RwLock<Published<S>>,
    /// The orgs that are being loaded.
    loading: Mutex<BTreeMap<OrgName, Arc<Loading>>>,
    metrics: Arc<Metrics>,
}

type Published<S> = BTreeMap<OrgName, Entry<S>>;

struct Entry<S> {
    state: Arc<S>,
    damage: Arc<[Damage]>,
    /// A head of the org `default` when this one was there, in a shared store: see [`Images::default_head`].
    default: Option<HeadRecord>,
}

/// An org that is being loaded.
#[derive(Default)]
struct Loading {
    /// One at a time.
    turn: Mutex<()>,
    /// The org was dropped since.
    overtaken: AtomicBool,
}

impl<S: State> Images<S> {
    pub(crate) fn new(store: Arc<dyn MetaStore>, metrics: Arc<Metrics>) -> Self {
        let shared = store.facts().shared;
        Images { store, shared, published: RwLock::default(), loading: Mutex::default(), metrics }
    }

    /// The image, if it is loaded.
    pub(crate) fn get(&self, org: &OrgName) -> Option<Arc<S>> {
        let published = self.published.read().unwrap_or_else(PoisonError::into_inner);
        published.get(org).map(|entry| Arc::clone(&entry.state))
    }

    /// The image, loaded if need be. `None`: there is no such org.
    pub(crate) fn get_or_load(&self, org: &OrgName) -> Result<Option<Arc<S>>, StoreError> {
        if let Some(state) = self.get(org) {
            return Ok(Some(state));
        }
        let loading =
            Arc::clone(self.loading.lock().unwrap_or_else(PoisonError::into_inner).entry(org.clone()).or_default());
        let loaded = self.load_in_turn(org, &loading);
        // It goes with the last who holds it: while somebody waits for his turn, nobody may get another one
        // and load beside him.
        let mut all = self.loading.lock().unwrap_or_else(PoisonError::into_inner);
        if Arc::strong_count(&loading) <= 2 {
            all.remove(org);
        }
        drop(all);
        loaded
    }

    fn load_in_turn(&self, org: &OrgName, loading: &Loading) -> Result<Option<Arc<S>>, StoreError> {
        let _mine = loading.turn.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            loading.overtaken.store(false, Ordering::Release);
            if let Some(state) = self.get(org) {
                return Ok(Some(state));
            }
            let loaded = self.load(org)?;
            let mut published = self.write();
            if let Some(newer) = published.get(org) {
                return Ok(Some(Arc::clone(&newer.state)));
            }
            if loading.overtaken.load(Ordering::Acquire) {
                continue;
            }
            let Some(entry) = loaded else { return Ok(None) };
            let state = Arc::clone(&entry.state);
            published.insert(org.clone(), entry);
            drop(published);
            self.store.orgs_added();
            return Ok(Some(state));
        }
    }

    fn load(&self, org: &OrgName) -> Result<Option<Entry<S>>, StoreError> {
        let started = Instant::now();
        let Some((state, damage)) = load_state::<S>(self.store.as_ref(), org)? else { return Ok(None) };
        self.metrics.image_loaded(started.elapsed());
        let default = if self.shared && !org.is_default() { self.store.head(&OrgName::default_org())? } else { None };
        Ok(Some(Entry { state: Arc::new(state), damage: damage.into(), default }))
    }

    /// Replaces the image of before `have` by what the store holds now; for the committer's thread.
    ///
    /// # Errors
    /// It cannot be loaded; [`StoreError::Contended`]: the store has nothing newer (any more).
    pub(crate) fn reload(&self, org: &OrgName, have: &HeadRecord) -> Result<Arc<S>, StoreError> {
        let entry = self.load(org)?.ok_or(StoreError::Contended)?;
        let (state, now) = (Arc::clone(&entry.state), entry.state.head());
        if (now.org_id, now.seq) < (have.org_id, have.seq) {
            return Err(StoreError::Contended);
        }
        let before = self.write().insert(org.clone(), entry);
        drop(before);
        Ok(state)
    }

    /// Swaps images, all at once. `None`: the org is gone.
    pub(crate) fn publish(&self, images: Vec<(OrgName, Option<Arc<S>>)>) {
        // Images that go are dropped after the lock: that can take a while.
        let mut gone = Vec::with_capacity(images.len());
        // Who makes an org does so in a transaction of `default`.
        let default = images.iter().find(|(org, _)| org.is_default());
        let default = default.and_then(|(_, state)| Some(state.as_ref()?.head()));
        let mut published = self.write();
        let mut is_more = false;
        for (org, state) in images {
            match state {
                None => {
                    gone.extend(published.remove(&org).map(|entry| entry.state));
                    if let Some(loading) = self.loading.lock().unwrap_or_else(PoisonError::into_inner).get(&org) {
                        loading.overtaken.store(true, Ordering::Release);
                    }
                }
                Some(state) => match published.get_mut(&org) {
                    Some(entry) => {
                        if entry.state.head().org_id != state.head().org_id {
                            entry.default = default;
                        }
                        gone.push(std::mem::replace(&mut entry.state, state));
                    }
                    None => {
                        published.insert(org, Entry { state, damage: Arc::default(), default });
                        is_more = true;
                    }
                },
            }
        }
        drop(published);
        if is_more {
            self.store.orgs_added();
        }
        drop(gone);
    }

    /// A head of the org `default` when `org`, another one, was there: in a history that goes on from it, the
    /// org was made, and if it is not there any more, it was dropped.
    pub(crate) fn default_head(&self, org: &OrgName) -> Option<HeadRecord> {
        self.published.read().unwrap_or_else(PoisonError::into_inner).get(org)?.default
    }

    /// The orgs whose images are loaded.
    pub(crate) fn loaded(&self) -> Vec<OrgName> {
        self.published.read().unwrap_or_else(PoisonError::into_inner).keys().cloned().collect()
    }

    /// What was damaged when the org was loaded.
    pub(crate) fn damage(&self, org: &OrgName) -> Arc<[Damage]> {
        let published = self.published.read().unwrap_or_else(PoisonError::into_inner);
        published.get(org).map(|entry| Arc::clone(&entry.damage)).unwrap_or_default()
    }

    fn write(&self) -> RwLockWriteGuard<'_, Published<S>> {
        self.published.write().unwrap_or_else(PoisonError::into_inner)
    }
}
