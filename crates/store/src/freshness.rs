//! How old what we know of a shared store may be.
//!
//! Images are confirmed when the store was asked for its heads and they have caught up with the answer; one
//! that cannot catch up is behind, and the others are confirmed without it. What counts is when the question
//! was sent, on the monotonic clock: a process that was stopped for a while finds on its return that its
//! lease is over.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use dataglot_model::OrgName;

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
    confirmed: Mutex<Confirmed>,
}

struct Confirmed {
    /// When all images were, but for those that are behind.
    at: Instant,
    behind: BTreeMap<OrgName, Behind>,
    /// When the store could not be reached, if it has answered no question since.
    lost: Option<Instant>,
}

/// An image that could not be brought up to the store.
struct Behind {
    /// When it was confirmed last.
    at: Instant,
    /// The store's history is another one than the image's.
    diverged: Option<StoreError>,
}

impl Contact {
    /// The store has just been read.
    pub(crate) fn new(shared: bool, lease: Duration) -> Self {
        let confirmed = Confirmed { at: Instant::now(), behind: BTreeMap::new(), lost: None };
        Contact { shared, lease, confirmed: Mutex::new(confirmed) }
    }

    /// Whether other processes may write to the store.
    pub(crate) fn is_shared(&self) -> bool {
        self.shared
    }

    /// Every image is at least what the store had at `at`, but for those that are behind.
    pub(crate) fn confirm(&self, at: Instant) {
        let mut confirmed = self.confirmed();
        confirmed.at = at.max(confirmed.at);
        // An answer to a question from before says nothing of now.
        confirmed.lost.take_if(|lost| *lost <= at);
    }

    /// The store could not be reached.
    pub(crate) fn lose(&self) {
        self.confirmed().lost = Some(Instant::now());
    }

    /// The org's image could not be brought up to the store.
    pub(crate) fn fall_behind(&self, org: &OrgName) {
        self.confirmed().fall_behind(org);
    }

    /// The store's history of the org is another one than before: nothing is written to it.
    pub(crate) fn diverge(&self, org: &OrgName, error: StoreError) {
        self.confirmed().fall_behind(org).diverged.get_or_insert(error);
    }

    /// The org's image is as new as the store, or gone. Returns why it had diverged, if it had.
    pub(crate) fn catch_up(&self, org: &OrgName) -> Option<StoreError> {
        self.confirmed().behind.remove(org)?.diverged
    }

    /// Whether the org's image is behind.
    pub(crate) fn is_behind(&self, org: &OrgName) -> bool {
        self.confirmed().behind.contains_key(org)
    }

    /// How old the images are.
    pub(crate) fn freshness(&self) -> Freshness {
        self.freshness_at(self.age())
    }

    /// How old the org's image is.
    pub(crate) fn freshness_of(&self, org: &OrgName) -> Freshness {
        let confirmed = self.confirmed();
        let at = confirmed.behind.get(org).map_or(confirmed.at, |behind| behind.at);
        drop(confirmed);
        self.freshness_at(at.elapsed())
    }

    fn freshness_at(&self, age: Duration) -> Freshness {
        if !self.shared {
            Freshness::Current
        } else if age >= self.lease {
            Freshness::Expired { age }
        } else if self.confirmed().lost.is_some() || age >= self.lease / LEASE_PARTS {
            Freshness::Stale { age }
        } else {
            Freshness::Current
        }
    }

    /// How long ago the images were confirmed, but for those that are behind.
    pub(crate) fn age(&self) -> Duration {
        if self.shared { self.confirmed().at.elapsed() } else { Duration::ZERO }
    }

    /// Why nothing is written to the org any more, if it is so.
    pub(crate) fn diverged(&self, org: &OrgName) -> Option<StoreError> {
        self.confirmed().behind.get(org)?.diverged.clone()
    }

    /// The orgs that nothing is written to any more.
    pub(crate) fn all_diverged(&self) -> Vec<OrgName> {
        let confirmed = self.confirmed();
        let diverged = confirmed.behind.iter().filter(|(_, behind)| behind.diverged.is_some());
        diverged.map(|(org, _)| org.clone()).collect()
    }

    fn confirmed(&self) -> MutexGuard<'_, Confirmed> {
        self.confirmed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Confirmed {
    fn fall_behind(&mut self, org: &OrgName) -> &mut Behind {
        let at = self.at;
        self.behind.entry(org.clone()).or_insert_with(|| Behind { at, diverged: None })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn m7_images_grow_stale_and_then_nobody_is_let_in() {
        let contact = Contact::new(true, Duration::from_secs(30));
        assert_eq!(contact.freshness(), Freshness::Current);
        let before = Instant::now();
        contact.lose();
        assert!(matches!(contact.freshness(), Freshness::Stale { .. }));
        contact.confirm(before.checked_sub(Duration::from_millis(1)).unwrap());
        assert!(matches!(contact.freshness(), Freshness::Stale { .. }), "that was asked before");
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
        assert_eq!(contact.confirmed().at, late);
    }

    #[test]
    fn who_is_behind_is_so_alone() {
        let contact = Contact::new(true, Duration::from_secs(30));
        let [one, two] = ["one", "two"].map(|org| OrgName::new(org).unwrap());
        contact.diverge(&one, StoreError::Poisoned);
        contact.diverge(&one, StoreError::Internal);
        contact.fall_behind(&one);
        assert_eq!(contact.diverged(&one), Some(StoreError::Poisoned), "the first is what is said");
        assert_eq!((contact.diverged(&two), contact.all_diverged()), (None, vec![one.clone()]));
        assert!(contact.is_behind(&one) && !contact.is_behind(&two));
        assert_eq!(contact.catch_up(&one), Some(StoreError::Poisoned));
        assert!(!contact.is_behind(&one) && contact.all_diverged().is_empty());

        let contact = Contact::new(true, Duration::from_millis(50));
        contact.fall_behind(&one);
        while !matches!(contact.freshness_of(&one), Freshness::Expired { .. }) {
            contact.confirm(Instant::now());
            std::thread::yield_now();
        }
        contact.confirm(Instant::now() + Duration::from_secs(60));
        assert_eq!((contact.freshness(), contact.freshness_of(&two)), (Freshness::Current, Freshness::Current));
        assert!(matches!(contact.freshness_of(&one), Freshness::Expired { .. }));
        contact.catch_up(&one);
        assert_eq!(contact.freshness_of(&one), Freshness::Current);
    }
}
