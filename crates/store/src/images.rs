//! The published images: what every reader sees.
//!
//! An image is loaded once. The committer never writes for an org whose image is not here, so one
//! that is loaded meanwhile cannot be older than what it replaces.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Instant;

use dataglot_model::OrgName;

use crate::record::{Damage, load_state};
use crate::{MetaStore, Metrics, State, StoreError};

pub(crate) struct Images<S> {
    store: Arc<dyn MetaStore>,
    published: RwLock<BTreeMap<OrgName, Published<S>>>,
    /// One lock for each org that is being loaded.
    loading: Mutex<BTreeMap<OrgName, Arc<Mutex<()>>>>,
    metrics: Arc<Metrics>,
}

struct Published<S> {
    state: Arc<S>,
    damage: Arc<[Damage]>,
}

impl<S: State> Images<S> {
    pub(crate) fn new(store: Arc<dyn MetaStore>, metrics: Arc<Metrics>) -> Self {
        Images { store, published: RwLock::default(), loading: Mutex::default(), metrics }
    }

    /// The image, if it is loaded.
    pub(crate) fn get(&self, org: &OrgName) -> Option<Arc<S>> {
        let published = self.published.read().unwrap_or_else(PoisonError::into_inner);
        published.get(org).map(|p| Arc::clone(&p.state))
    }

    /// The image, loaded if need be. `None`: there is no such org.
    pub(crate) fn get_or_load(&self, org: &OrgName) -> Result<Option<Arc<S>>, StoreError> {
        if let Some(state) = self.get(org) {
            return Ok(Some(state));
        }
        let turn =
            Arc::clone(self.loading.lock().unwrap_or_else(PoisonError::into_inner).entry(org.clone()).or_default());
        let loaded = {
            let _mine = turn.lock().unwrap_or_else(PoisonError::into_inner);
            match self.get(org) {
                Some(state) => Ok(Some(state)),
                None => self.reload(org),
            }
        };
        // The lock goes with the last who holds it: while somebody waits for it, nobody may get another
        // one and load beside him.
        let mut loading = self.loading.lock().unwrap_or_else(PoisonError::into_inner);
        if Arc::strong_count(&turn) <= 2 {
            loading.remove(org);
        }
        drop(loading);
        loaded
    }

    /// Replaces the image by what the store holds now.
    pub(crate) fn reload(&self, org: &OrgName) -> Result<Option<Arc<S>>, StoreError> {
        let started = Instant::now();
        let Some((state, damage)) = load_state::<S>(self.store.as_ref(), org)? else {
            self.publish(vec![(org.clone(), None)]);
            return Ok(None);
        };
        self.metrics.image_loaded(started.elapsed());
        let state = Arc::new(state);
        let entry = Published { state: Arc::clone(&state), damage: damage.into() };
        self.published.write().unwrap_or_else(PoisonError::into_inner).insert(org.clone(), entry);
        Ok(Some(state))
    }

    /// Swaps images, all at once. `None`: the org is gone.
    pub(crate) fn publish(&self, images: Vec<(OrgName, Option<Arc<S>>)>) {
        // Images that go are dropped after the lock: that can take a while.
        let mut gone = Vec::with_capacity(images.len());
        let mut published = self.published.write().unwrap_or_else(PoisonError::into_inner);
        for (org, state) in images {
            match state {
                None => gone.extend(published.remove(&org).map(|p| p.state)),
                Some(state) => match published.get_mut(&org) {
                    Some(entry) => gone.push(std::mem::replace(&mut entry.state, state)),
                    None => {
                        published.insert(org, Published { state, damage: Arc::default() });
                    }
                },
            }
        }
        drop(published);
        drop(gone);
    }

    /// The orgs whose images are loaded.
    pub(crate) fn loaded(&self) -> Vec<OrgName> {
        self.published.read().unwrap_or_else(PoisonError::into_inner).keys().cloned().collect()
    }

    /// What was damaged when the org was loaded.
    pub(crate) fn damage(&self, org: &OrgName) -> Arc<[Damage]> {
        let published = self.published.read().unwrap_or_else(PoisonError::into_inner);
        published.get(org).map(|p| Arc::clone(&p.damage)).unwrap_or_default()
    }
}
