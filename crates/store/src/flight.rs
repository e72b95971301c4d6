//! A group on its way to the store: committed on a thread of its own, while the committer plans the next one.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use crate::group::Build;
use crate::queue::Queue;
use crate::{CommitError, Compiler, MetaStore, State, StoreError};

/// The thread that commits groups, one at a time.
pub(crate) struct Flights<S> {
    /// There until it is dropped.
    groups: Option<Sender<Arc<Build<S>>>>,
    outcomes: Receiver<Result<(), CommitError>>,
    thread: Option<JoinHandle<()>>,
}

/// However a group ends: whoever waits for it is woken.
struct Landing<C: Compiler>(Arc<Queue<C>>);

impl<C: Compiler> Drop for Landing<C> {
    fn drop(&mut self) {
        self.0.land();
    }
}

impl<S: State> Flights<S> {
    /// Starts the thread. It tells `queue` when a group has landed.
    ///
    /// # Errors
    /// No thread can be started.
    pub(crate) fn start<C: Compiler<State = S>>(
        store: Arc<dyn MetaStore>,
        queue: Arc<Queue<C>>,
    ) -> Result<Self, StoreError> {
        let (groups, to_commit) = channel::<Arc<Build<S>>>();
        let (committed, outcomes) = channel();
        let run = move || {
            while let Ok(build) = to_commit.recv() {
                let _landing = Landing(Arc::clone(&queue));
                // Whoever does not take it any more is gone.
                let _ = committed.send(commit(&build, store.as_ref()));
            }
        };
        let thread = std::thread::Builder::new().name("store-writer".to_owned()).spawn(run);
        let thread = thread.map_err(|e| StoreError::io("start a thread for", &e))?;
        Ok(Flights { groups: Some(groups), outcomes, thread: Some(thread) })
    }

    /// Sends a group. False: there is nobody to commit it.
    pub(crate) fn send(&self, build: &Arc<Build<S>>) -> bool {
        self.groups.as_ref().is_some_and(|groups| groups.send(Arc::clone(build)).is_ok())
    }

    /// What became of the group that has landed.
    pub(crate) fn outcome(&self) -> Result<(), CommitError> {
        self.outcomes.recv().unwrap_or(Err(CommitError::Unknown(StoreError::Internal)))
    }
}

impl<S> Drop for Flights<S> {
    fn drop(&mut self) {
        self.groups = None;
        if self.thread.take().is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("the thread that commits panicked");
        }
    }
}

/// Commits a group. After a panic nothing is known of it.
pub(crate) fn commit<S: State>(build: &Build<S>, store: &dyn MetaStore) -> Result<(), CommitError> {
    catch_unwind(AssertUnwindSafe(|| build.commit(store))).unwrap_or(Err(CommitError::Unknown(StoreError::Internal)))
}
