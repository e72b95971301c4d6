//! Wrong proofs are slowed down: for one user from one address, so that nobody can keep a user out who comes from
//! somewhere else.
//!
//! Each attempt counts as wrong until it has succeeded, so that many at once are no way round. A count goes down
//! with time. From some count on an attempt waits, each one longer; from a higher one on it is refused without
//! a look, and does not count.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;
use unicode_normalization::UnicodeNormalization as _;

use super::hba::cut;

/// How many attempts are not slowed down.
const FREE: f64 = 5.0;
/// From so many on, attempts are refused.
const MOST: f64 = 20.0;
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

#[derive(Clone, Copy, Debug)]
struct Count {
    attempts: f64,
    at: Instant,
}

impl Count {
    fn now(&self, now: Instant) -> f64 {
        let forgotten = now.saturating_duration_since(self.at).as_secs_f64() / FORGET.as_secs_f64();
        (self.attempts - forgotten).max(0.0)
    }
}

/// The counts.
#[derive(Debug, Default)]
pub(super) struct Throttle {
    counts: Mutex<HashMap<Key, Count>>,
}

/// An attempt that goes on.
#[derive(Debug)]
pub(super) struct Attempt<'a> {
    throttle: &'a Throttle,
    key: Key,
    not_before: Instant,
}

impl Throttle {
    /// Whether `user` may try from `address`. `None`: not now.
    pub(super) fn enter(&self, user: &str, address: IpAddr, now: Instant) -> Option<Attempt<'_>> {
        let key = (canonical(user), network(address));
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let before = counts.get(&key).map_or(0.0, |count| count.now(now));
        if before >= MOST {
            return None;
        }
        if counts.len() >= ENTRIES_MAX && !counts.contains_key(&key) {
            make_room(&mut counts, now);
        }
        counts.insert(key.clone(), Count { attempts: before + 1.0, at: now });
        drop(counts);
        Some(Attempt { throttle: self, key, not_before: now + wait(before) })
    }
}

impl Attempt<'_> {
    /// When it may be looked at.
    pub(super) fn not_before(&self) -> Instant {
        self.not_before
    }

    /// It does not count.
    pub(super) fn succeeded(self) {
        let mut counts = self.throttle.counts.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = counts.get_mut(&self.key) {
            count.attempts -= 1.0;
            if count.attempts <= 0.0 {
                counts.remove(&self.key);
            }
        }
    }
}

fn wait(before: f64) -> Duration {
    if before < FREE {
        return Duration::ZERO;
    }
    WAIT_MIN.mul_f64((before - FREE).exp2()).min(WAIT_MAX)
}

/// Forgets those who have tried least.
fn make_room(counts: &mut HashMap<Key, Count>, now: Instant) {
    counts.retain(|_, count| count.now(now) > 0.0);
    let mut limit = 1.0;
    while counts.len() >= ENTRIES_MAX {
        counts.retain(|_, count| count.now(now) > limit);
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

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    /// Fails as often as it may.
    fn exhaust(throttle: &Throttle, user: &str, from: &str, now: Instant) -> usize {
        std::iter::from_fn(|| throttle.enter(user, address(from), now).map(drop)).count()
    }

    #[test]
    fn a_07_attempts_are_counted_for_one_user_from_one_address() {
        let (throttle, now) = (Throttle::default(), Instant::now());
        assert_eq!(exhaust(&throttle, "admin", "192.0.2.1", now), 20);
        assert!(throttle.enter("admin", address("192.0.2.1"), now).is_none());
        assert!(throttle.enter("admin", address("192.0.2.2"), now).is_some(), "another address is not locked out");
        assert!(throttle.enter("other", address("192.0.2.1"), now).is_some());
        let later = now + FORGET * 2;
        assert_eq!(exhaust(&throttle, "admin", "192.0.2.1", later), 2);
    }

    #[test]
    fn a_07_variants_share_a_count() {
        for variant in ["ADMIN", " admin ", "ad\u{ad}min", "\u{ff41}dmin", "adm\u{200b}in", "\u{1d41a}dmin"] {
            let (throttle, now) = (Throttle::default(), Instant::now());
            exhaust(&throttle, "admin", "192.0.2.1", now);
            assert!(throttle.enter(variant, address("::ffff:192.0.2.1"), now).is_none(), "{variant:?}");
        }
        let (throttle, now) = (Throttle::default(), Instant::now());
        exhaust(&throttle, "admin", "2001:db8::1", now);
        assert!(throttle.enter("admin", address("2001:db8::ffff:1"), now).is_none());
        assert!(throttle.enter("admin", address("2001:db8:0:1::1"), now).is_some());
    }

    #[test]
    fn who_succeeds_is_not_slowed_down() {
        let (throttle, now) = (Throttle::default(), Instant::now());
        for _ in 0..100 {
            let attempt = throttle.enter("a", address("192.0.2.1"), now).unwrap();
            assert_eq!(attempt.not_before(), now);
            attempt.succeeded();
        }
        assert!(throttle.counts.lock().unwrap().is_empty());
    }

    #[test]
    fn waits_grow_and_end() {
        let waits: Vec<u128> = [0.0, 4.0, 5.0, 6.0, 9.0, 19.0].map(|n| wait(n).as_millis()).to_vec();
        assert_eq!(waits, [0, 0, 100, 200, 1600, 3000]);
    }

    #[test]
    fn memory_is_bounded() {
        let (throttle, now) = (Throttle::default(), Instant::now());
        exhaust(&throttle, "admin", "192.0.2.1", now);
        for n in 0..ENTRIES_MAX + 10 {
            drop(throttle.enter(&format!("u{n}"), address("192.0.2.1"), now));
        }
        assert!(throttle.counts.lock().unwrap().len() <= ENTRIES_MAX);
        assert!(throttle.enter("admin", address("192.0.2.1"), now).is_none(), "the worst are remembered longest");
    }
}
