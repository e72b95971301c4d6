//! How old what we know of a shared store may be.
//!
//! An image is confirmed when the store was asked for its heads and every image has caught up with the
//! answer. What counts is when the question was sent, on the monotonic clock: a process that was stopped
//! for a while finds on its return that its lease is over.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::StoreError;

/// Into how many parts the lease is divided: images that were not confirmed for one of them are stale.
const LEASE_PARTS: u32 = 10;

/// How old the images are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Freshness {
    /// As new as the store, but for what is on its way.
    Current,
    /// The store could not be asked lately.
    Stale {
        /// Since when.
        age: Duration,
    },
    /// The store could not be asked for so long that nobody may be let in on what the images say.
    Expired {
        /// Since when.
        age: Duration,
    },
}

/// What a hub knows of its contact with the store.
pub(crate) struct Contact {
    shared: bool,
    lease: Duration,
    confirmed: Mutex<Instant>,
    lost: AtomicBool,
    diverged: Mutex<Option<StoreError>>,
}

impl Contact {
    /// The store has just been read.
    pub(crate) fn new(shared: bool, lease: Duration) -> Self {
        Contact {
            shared,
            lease,
            confirmed: Mutex::new(Instant::now()),
            lost: AtomicBool::new(false),
            diverged: Mutex::new(None),
        }
    }

    /// Whether other processes may write to the store.
    pub(crate) fn is_shared(&self) -> bool {
        self.shared
    }

    /// Every image is at least what the store had at `at`.
    pub(crate) fn confirm(&self, at: Instant) {
        let mut confirmed = self.confirmed.lock().unwrap_or_else(PoisonError::into_inner);
        *confirmed = at.max(*confirmed);
        drop(confirmed);
        self.lost.store(false, Ordering::Release);
    }

    /// The store could not be reached.
    pub(crate) fn lose(&self) {
        self.lost.store(true, Ordering::Release);
    }

    /// How old the images are.
    pub(crate) fn freshness(&self) -> Freshness {
        if !self.shared {
            return Freshness::Current;
        }
        let age = self.confirmed.lock().unwrap_or_else(PoisonError::into_inner).elapsed();
        if age >= self.lease {
            Freshness::Expired { age }
        } else if self.lost.load(Ordering::Acquire) || age >= self.lease / LEASE_PARTS {
            Freshness::Stale { age }
        } else {
            Freshness::Current
        }
    }

    /// How long ago the images were confirmed.
    pub(crate) fn age(&self) -> Duration {
        if self.shared {
            self.confirmed.lock().unwrap_or_else(PoisonError::into_inner).elapsed()
        } else {
            Duration::ZERO
        }
    }

    /// The store's history is another one than before: nothing is written from here on.
    pub(crate) fn diverge(&self, error: StoreError) {
        self.diverged.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
    }

    /// Why nothing is written any more, if it is so.
    pub(crate) fn diverged(&self) -> Option<StoreError> {
        self.diverged.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn m7_images_grow_stale_and_then_nobody_is_let_in() {
        let contact = Contact::new(true, Duration::from_secs(30));
        assert_eq!(contact.freshness(), Freshness::Current);
        contact.lose();
        assert!(matches!(contact.freshness(), Freshness::Stale { .. }));
        contact.confirm(Instant::now());
        assert_eq!(contact.freshness(), Freshness::Current);

        let expired = Contact::new(true, Duration::ZERO);
        assert!(matches!(expired.freshness(), Freshness::Expired { .. }));
        let own = Contact::new(false, Duration::ZERO);
        own.lose();
        assert_eq!(own.freshness(), Freshness::Current, "nobody else writes to it");
    }

    #[test]
    fn an_old_answer_confirms_nothing_newer() {
        let contact = Contact::new(true, Duration::from_secs(30));
        let early = Instant::now();
        let late = early + Duration::from_millis(5);
        contact.confirm(late);
        contact.confirm(early);
        assert_eq!(*contact.confirmed.lock().unwrap(), late);
    }

    #[test]
    fn what_diverged_first_is_what_is_said() {
        let contact = Contact::new(true, Duration::from_secs(30));
        contact.diverge(StoreError::Poisoned);
        contact.diverge(StoreError::Internal);
        assert_eq!(contact.diverged(), Some(StoreError::Poisoned));
    }
}
