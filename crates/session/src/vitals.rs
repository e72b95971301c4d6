//! How an engine does, for those who watch the process: what its store and its images are like.

use std::sync::Arc;
use std::time::Duration;

use dataglot_store::{Freshness, Metrics};

use crate::engine::Engine;

/// What can be seen at a glance, without asking the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Vitals {
    /// Orgs whose images are loaded.
    pub images: usize,
    /// Rows of all those images.
    pub rows: usize,
    /// How long ago the images were last known to be as new as a shared store; zero where it is not shared.
    pub contact_age: Duration,
    /// Whether the store's history of some org is not the one that was seen before.
    pub diverged: bool,
}

/// Why an engine is not to be sent any clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unready {
    /// The store cannot be reached, or would not take a commit.
    Store,
    /// An image cannot be loaded.
    Image,
    /// The store's history is not the one that was seen before, of all orgs that are loaded.
    Diverged,
    /// A shared store could not be asked for so long that nobody is let in.
    Expired,
}

impl Engine {
    /// What can be seen at a glance. Waits for nothing.
    pub fn vitals(&self) -> Vitals {
        let hub = self.hub();
        let images = hub.images();
        Vitals {
            images: images.len(),
            rows: images.iter().map(|state| state.0.rows()).sum(),
            contact_age: hub.contact_age(),
            diverged: !hub.all_diverged().is_empty(),
        }
    }

    /// Whether clients would be served: asks the store, and loads an image if none is loaded. Blocks; not for
    /// threads of an async runtime.
    ///
    /// # Errors
    /// [`Unready`] says why not; the log says more.
    pub fn check_ready(&self) -> Result<(), Unready> {
        let hub = self.hub();
        let diverged = hub.all_diverged().len();
        // As long as there is an org that is served in full, its clients come.
        if diverged > 0 && diverged >= hub.images().len() {
            return Err(Unready::Diverged);
        }
        let failed = |why| {
            move |error| {
                tracing::debug!(%error, "not ready");
                why
            }
        };
        hub.store().health().map_err(failed(Unready::Store))?;
        match hub.freshness() {
            Freshness::Current | Freshness::Stale { .. } => {}
            Freshness::Expired { .. } => return Err(Unready::Expired),
        }
        if hub.images().is_empty()
            && let Some(org) = hub.orgs().map_err(failed(Unready::Store))?.first()
        {
            hub.state(org).map_err(failed(Unready::Image))?;
        }
        Ok(())
    }

    /// What is counted and timed of the store.
    pub fn store_metrics(&self) -> &Arc<Metrics> {
        self.hub().metrics()
    }
}
