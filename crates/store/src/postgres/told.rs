//! What the thread that listens is given: what to tell the other coordinators, and that there is more to look for.
//!
//! A commit does not notify by itself: in its transaction that would hold the server's one lock for
//! notifications until it is on disk, and commits of different orgs would wait for each other.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use dataglot_model::{OrgName, Seq};
use tokio::sync::Notify;

use crate::{Base, Group};

/// News that wait to be told: of each org the last transaction. Bounded by the orgs.
#[derive(Default)]
pub(super) struct Told {
    news: Mutex<BTreeMap<OrgName, Seq>>,
    some: Notify,
    moved: AtomicU64,
    /// There are images that were not looked for yet.
    is_more: AtomicBool,
    more: Notify,
}

impl Told {
    /// The group was committed.
    pub(super) fn committed(&self, group: &Group<'_>) {
        let moved = group.orgs.iter().filter(|o| matches!(o.base, Base::At { .. }) && o.head.is_some() && !o.erase);
        self.moved.fetch_add(moved.count() as u64, Ordering::Relaxed);
        let mut news = self.news();
        for org in &group.orgs {
            let before = match org.base {
                Base::At { seq, .. } => seq,
                Base::Absent => Seq(0),
            };
            // Of an org that was dropped, or made anew, a number that is news to everybody.
            let seq =
                org.head.map_or(before.next(), |head| if org.erase { head.seq.max(before.next()) } else { head.seq });
            match news.get_mut(org.org) {
                Some(known) => *known = seq.max(*known),
                None => drop(news.insert(org.org.clone(), seq)),
            }
        }
        drop(news);
        self.some.notify_one();
    }

    /// Waits until there are some.
    pub(super) async fn some(&self) {
        while self.news().is_empty() {
            self.some.notified().await;
        }
    }

    /// All that wait, as they are told. A name and a number: there is a limit of 8,000 bytes, and whoever wants
    /// more reads it.
    pub(super) fn take(&self) -> Vec<(OrgName, String)> {
        let payload = |org: &OrgName, seq| format!("{{\"org\":\"{}\",\"seq\":{seq}}}", org.as_str());
        let news = std::mem::take(&mut *self.news());
        news.into_iter().map(|(org, seq)| (org.clone(), payload(&org, seq))).collect()
    }

    /// How many heads were moved here.
    pub(super) fn moved(&self) -> u64 {
        self.moved.load(Ordering::Relaxed)
    }

    /// There are more images.
    pub(super) fn look_for_more(&self) {
        self.is_more.store(true, Ordering::Release);
        self.more.notify_one();
    }

    /// Waits until there are.
    pub(super) async fn more(&self) {
        while !self.is_more.load(Ordering::Acquire) {
            self.more.notified().await;
        }
    }

    /// All that there are from here on are looked for.
    pub(super) fn looks(&self) {
        self.is_more.store(false, Ordering::Release);
    }

    fn news(&self) -> MutexGuard<'_, BTreeMap<OrgName, Seq>> {
        self.news.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
