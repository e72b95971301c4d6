//! Wrong proofs are slowed down: for one user from one address, so that nobody can keep a user out who comes from
//! somewhere else.
//!
//! An attempt that has failed counts, and so does one that was given up; that count goes down with time. From some
//! count on an attempt waits, each one longer; from a higher one on it is refused without a look, and does not count.
//! Only so many attempts go on at once, and the others wait for their turn before they are judged: many wrong ones at
//! once are no way round, and many right ones are only that.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;
use unicode_normalization::UnicodeNormalization as _;

use super::hba::cut;

/// How many failed attempts slow nobody down.
const FREE: f64 = 5.0;
/// From so many on, attempts are refused.
const MOST: f64 = 20.0;
/// How many attempts of one user from one address go on at once.
const TURNS: usize = 5;
/// How long the first one waits that does; each further one waits twice as long.
const WAIT_MIN: Duration = Duration::from_millis(100);
/// How long an attempt waits at most. A login has 10 s.
const WAIT_MAX: Duration = Duration::from_secs(3);
/// How long until one attempt is forgotten.
const FORGET: Duration = Duration::from_secs(3);
/// How much of a user's name tells it from others. No user has a longer one.
const USER_CHARS_MAX: usize = 128;
/// How many users and addresses are remembered.
const ENTRIES_MAX: usize = 20_000;

/// A user as attempts are counted, and the network it comes from.
type Key = (String, IpAddr);

#[derive(Clone, Debug)]
struct Count {
    /// How many had failed at `at`.
    failures: f64,
    at: Instant,
    /// There as long as an attempt goes on or waits for its turn.
    turns: Weak<Semaphore>,
}

impl Count {
    fn none(now: Instant) -> Count {
        Count { failures: 0.0, at: now, turns: Weak::new() }
    }

    fn now(&self, now: Instant) -> f64 {
        let forgotten = now.saturating_duration_since(self.at).as_secs_f64() / FORGET.as_secs_f64();
        (self.failures - forgotten).max(0.0)
    }

    /// Whether nobody has a turn, or waits for one, but `ours`.
    fn is_idle(&self, ours: usize) -> bool {
        self.turns.strong_count() <= ours
    }
}

/// The counts.
#[derive(Debug, Default)]
pub(super) struct Throttle {
    counts: Mutex<HashMap<Key, Count>>,
}

/// An attempt that goes on. Dropped, it has failed.
#[derive(Debug)]
pub(super) struct Attempt<'a> {
    throttle: &'a Throttle,
    key: Key,
    not_before: Instant,
    has_failed: bool,
    _turn: OwnedSemaphorePermit,
}

impl Throttle {
    /// Whether `user` may try from `address`, as soon as it is its turn. `None`: not now.
    pub(super) async fn enter(&self, user: &str, address: IpAddr) -> Option<Attempt<'_>> {
        let key = (canonical(user), network(address));
        // Who is refused anyhow does not wait for it.
        self.judge(&key, Instant::now())?;
        let turn = self.turns(&key, Instant::now()).acquire_owned().await.ok()?;
        let not_before = self.judge(&key, Instant::now())?;
        Some(Attempt { throttle: self, key, not_before, has_failed: true, _turn: turn })
    }

    fn counts(&self) -> MutexGuard<'_, HashMap<Key, Count>> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// When an attempt may be looked at. `None`: never.
    fn judge(&self, key: &Key, now: Instant) -> Option<Instant> {
        let before = self.counts().get(key).map_or(0.0, |count| count.now(now));
        (before < MOST).then(|| now + wait(before))
    }

    /// The turns of those who come from there as that user.
    fn turns(&self, key: &Key, now: Instant) -> Arc<Semaphore> {
        let mut counts = self.counts();
        let count = entry(&mut counts, key, now);
        count.turns.upgrade().unwrap_or_else(|| {
            let turns = Arc::new(Semaphore::new(TURNS));
            count.turns = Arc::downgrade(&turns);
            turns
        })
    }

    fn failed(&self, key: &Key, now: Instant) {
        let mut counts = self.counts();
        let count = entry(&mut counts, key, now);
        count.failures = count.now(now) + 1.0;
        count.at = now;
    }
}

impl Attempt<'_> {
    /// When it may be looked at.
    pub(super) fn not_before(&self) -> Instant {
        self.not_before
    }

    /// It does not count: it was right, or nobody could tell.
    pub(super) fn does_not_count(mut self) {
        self.has_failed = false;
    }
}

impl Drop for Attempt<'_> {
    /// The next one is judged after this: the turn is given up last.
    fn drop(&mut self) {
        let now = Instant::now();
        if self.has_failed {
            self.throttle.failed(&self.key, now);
            return;
        }
        let mut counts = self.throttle.counts();
        if counts.get(&self.key).is_some_and(|count| count.now(now) <= 0.0 && count.is_idle(1)) {
            counts.remove(&self.key);
        }
    }
}

/// The count of `key`, for which there is room.
fn entry<'a>(counts: &'a mut HashMap<Key, Count>, key: &Key, now: Instant) -> &'a mut Count {
    if counts.len() >= ENTRIES_MAX && !counts.contains_key(key) {
        make_room(counts, now);
    }
    counts.entry(key.clone()).or_insert_with(|| Count::none(now))
}

fn wait(before: f64) -> Duration {
    if before < FREE {
        return Duration::ZERO;
    }
    WAIT_MIN.mul_f64((before - FREE).exp2()).min(WAIT_MAX)
}

/// Forgets those who have failed least. Those who are at it stay: there are no more of them than connections that
/// have not logged in.
fn make_room(counts: &mut HashMap<Key, Count>, now: Instant) {
    let mut limit = 0.0;
    while counts.len() >= ENTRIES_MAX && limit < MOST + TURNS as f64 {
        counts.retain(|_, count| count.now(now) > limit || !count.is_idle(0));
        limit += 1.0;
    }
}

/// One user under all spellings that look alike: case, blanks, forms of the same letter.
fn canonical(user: &str) -> String {
    let plain = user.nfkc().filter(|c| !c.is_whitespace() && !c.is_control() && !is_invisible(*c));
    plain.flat_map(char::to_lowercase).nfkc().take(USER_CHARS_MAX).collect()
}

/// Characters that take no room: soft hyphen, joiners, marks of direction, byte order mark.
fn is_invisible(c: char) -> bool {
    matches!(c, '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2064}' | '\u{feff}')
}

/// Whom an address is given to: an IPv6 network of 64 bits is one customer's.
pub(crate) fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        v4 @ IpAddr::V4(_) => v4,
        v6 @ IpAddr::V6(_) => cut(v6, 64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(user: &str, from: &str) -> Key {
        (canonical(user), network(from.parse().unwrap()))
    }

    /// Fails as often as it may.
    fn exhaust(throttle: &Throttle, key: &Key, now: Instant) -> usize {
        std::iter::from_fn(|| throttle.judge(key, now).map(|_| throttle.failed(key, now))).count()
    }

    #[test]
    fn a_07_attempts_are_counted_for_one_user_from_one_address() {
        let (throttle, now) = (Throttle::default(), Instant::now());
        let admin = key("admin", "192.0.2.1");
        assert_eq!(exhaust(&throttle, &admin, now), 20);
        assert!(throttle.judge(&admin, now).is_none());
        assert!(throttle.judge(&key("admin", "192.0.2.2"), now).is_some(), "another address is not locked out");
        assert!(throttle.judge(&key("other", "192.0.2.1"), now).is_some());
        assert_eq!(exhaust(&throttle, &admin, now + FORGET * 2), 2);
    }

    #[test]
    fn a_07_variants_share_a_count() {
        for variant in ["ADMIN", " admin ", "ad\u{ad}min", "\u{ff41}dmin", "adm\u{200b}in", "\u{1d41a}dmin"] {
            assert_eq!(key(variant, "::ffff:192.0.2.1"), key("admin", "192.0.2.1"), "{variant:?}");
        }
        assert_eq!(key("admin", "2001:db8::1"), key("admin", "2001:db8::ffff:1"));
        assert_ne!(key("admin", "2001:db8::1"), key("admin", "2001:db8:0:1::1"));
    }

    async fn enter<'a>(throttle: &'a Throttle, user: &str) -> Option<Attempt<'a>> {
        throttle.enter(user, "192.0.2.1".parse().unwrap()).await
    }

    /// Whether an attempt is let in at once.
    async fn enters<'a>(throttle: &'a Throttle, user: &str) -> Option<Attempt<'a>> {
        tokio::select! {
            biased;
            attempt = enter(throttle, user) => attempt,
            () = tokio::task::yield_now() => None,
        }
    }

    #[tokio::test]
    async fn a_07_many_right_ones_at_once_are_only_that() {
        let throttle = Throttle::default();
        let mut open = Vec::new();
        for _ in 0..TURNS {
            open.push(enters(&throttle, "a").await.unwrap());
        }
        for _ in 0..100 {
            assert!(enters(&throttle, "a").await.is_none(), "it waits for its turn");
            enters(&throttle, "b").await.unwrap().does_not_count();
            open.remove(0).does_not_count();
            let next = enters(&throttle, "a").await.unwrap();
            assert!(next.not_before() <= Instant::now());
            open.push(next);
        }
        open.into_iter().for_each(Attempt::does_not_count);
        assert!(!throttle.counts().contains_key(&key("a", "192.0.2.1")));
    }

    #[tokio::test]
    async fn a_07_many_wrong_ones_at_once_are_no_way_round() {
        let throttle = Throttle::default();
        let mut looked_at = 0;
        // All of those that may go on fail only once no other one may.
        loop {
            let mut open = Vec::new();
            while let Some(attempt) = enters(&throttle, "a").await {
                open.push(attempt);
            }
            if open.is_empty() {
                break;
            }
            looked_at += open.len();
            assert!(open.len() <= TURNS);
        }
        assert!((20..=20 + TURNS).contains(&looked_at), "{looked_at}");
        let waits = throttle.judge(&key("a", "192.0.2.1"), Instant::now() + FORGET * 6).unwrap();
        assert!(waits > Instant::now() + FORGET * 6 + WAIT_MAX / 2);
    }

    #[test]
    fn waits_grow_and_end() {
        let waits: Vec<u128> = [0.0, 4.0, 5.0, 6.0, 9.0, 19.0].map(|n| wait(n).as_millis()).to_vec();
        assert_eq!(waits, [0, 0, 100, 200, 1600, 3000]);
    }

    #[test]
    fn memory_is_bounded() {
        let (throttle, now) = (Throttle::default(), Instant::now());
        let admin = key("admin", "192.0.2.1");
        exhaust(&throttle, &admin, now);
        let turns = throttle.turns(&key("here", "192.0.2.1"), now);
        for n in 0..ENTRIES_MAX + 10 {
            throttle.failed(&key(&format!("u{n}"), "192.0.2.1"), now);
        }
        assert!(throttle.counts().len() <= ENTRIES_MAX);
        assert!(throttle.judge(&admin, now).is_none(), "the worst are remembered longest");
        assert!(Arc::ptr_eq(&turns, &throttle.turns(&key("here", "192.0.2.1"), now)), "turns are not given twice");
    }
}
