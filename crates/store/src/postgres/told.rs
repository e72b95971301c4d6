//! What the thread that listens is given: what to tell the other coordinators, and that there is more to look for.
//!
//! A commit does not notify by itself: in its transaction that would hold the server's one lock for
//! notifications until it is on disk, and commits of different orgs would wait for each other.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use dataglot_model::{OrgName, Seq};
use tokio::sync::Notify;
use tokio::time::timeout_at;

use crate::{Base, Group};

/// Until when nobody is told of an org: a moment ago nobody wanted to know.
pub(super) type Silences = BTreeMap<OrgName, Instant>;

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
        let mut is_new = false;
        for org in &group.orgs {
            let before = match org.base {
                Base::At { seq, .. } => seq,
                Base::Absent => Seq(0),
            };
            // Of an org that was dropped, or made anew, a number that is news to everybody.
            let seq =
                org.head.map_or(before.next(), |head| if org.erase { head.seq.max(before.next()) } else { head.seq });
            match news.get_mut(org.org) {
                // It waits already.
                Some(known) => *known = seq.max(*known),
                None => {
                    news.insert(org.org.clone(), seq);
                    is_new = true;
                }
            }
        }
        drop(news);
        if is_new {
            self.some.notify_one();
        }
    }

    /// Waits until there is some that is due: not before `from`, and of an org not before the end of its silence.
    pub(super) async fn due(&self, from: Instant, silences: &Silences) {
        loop {
            let first = self.news().keys().map(|org| silences.get(org).map_or(from, |until| from.max(*until))).min();
            match first {
                None => self.some.notified().await,
                Some(at) if at <= Instant::now() => return,
                // Another org's may be due earlier.
                Some(at) => drop(timeout_at(at.into(), self.some.notified()).await),
            }
        }
    }

    /// All that wait and are not silenced, as they are told. A name and a number: there is a limit of 8,000 bytes,
    /// and whoever wants more reads it.
    pub(super) fn take(&self, silences: &Silences) -> Vec<(OrgName, String)> {
        let payload = |org: &OrgName, seq| format!("{{\"org\":\"{}\",\"seq\":{seq}}}", org.as_str());
        let now = Instant::now();
        let is_due = |org: &OrgName| silences.get(org).is_none_or(|until| *until <= now);
        let mut news = self.news();
        let due: Vec<_> = news.iter().filter(|(org, _)| is_due(org)).map(|(org, seq)| (org.clone(), *seq)).collect();
        news.retain(|org, _| !is_due(org));
        drop(news);
        due.into_iter().map(|(org, seq)| (org.clone(), payload(&org, seq))).collect()
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn an_org_that_is_silenced_waits_and_holds_nobody_up() {
        let [one, two] = ["one", "two"].map(|org| OrgName::new(org).unwrap());
        let told = Told::default();
        let now = Instant::now();
        let silences = Silences::from([(one.clone(), now + Duration::from_secs(3600))]);
        told.news().insert(one.clone(), Seq(7));
        assert_eq!(told.take(&silences), []);
        let waits = told.due(now, &silences);
        let comes = async {
            tokio::task::yield_now().await;
            told.news().insert(two.clone(), Seq(3));
            told.some.notify_one();
        };
        tokio::join!(waits, comes);
        assert_eq!(told.take(&silences), [(two, r#"{"org":"two","seq":3}"#.to_owned())]);
        // What came meanwhile is told when the silence is over.
        told.due(now, &Silences::new()).await;
        assert_eq!(told.take(&Silences::new()), [(one, r#"{"org":"one","seq":7}"#.to_owned())]);
        assert!(told.news().is_empty());
    }
}
