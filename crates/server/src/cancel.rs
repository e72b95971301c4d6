//! Which session a CancelRequest may cancel.
//!
//! Every session has a process number and a random key: 4 bytes for protocol 3.0, 32 for 3.2. A
//! request with the right key, a wrong one and one for a session that is not there look the same from
//! outside; guessing is limited per address.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use dataglot_session::CancelHandle;
use subtle::ConstantTimeEq;

use crate::auth::network;

/// How many addresses the limiter remembers.
const ADDRESSES_MAX: usize = 4096;
/// What the limit is counted over.
const WINDOW: Duration = Duration::from_secs(1);

/// A key. No `Debug`: it is in no log.
#[derive(Clone)]
pub(crate) struct Key(Vec<u8>);

impl Key {
    /// A new key for a client of protocol 3.`minor`.
    ///
    /// # Errors
    /// The system has no random numbers.
    pub(crate) fn random(minor: u16) -> Result<Self, getrandom::Error> {
        let mut key = vec![0; if minor >= 2 { 32 } else { 4 }];
        getrandom::fill(&mut key)?;
        Ok(Key(key))
    }

    /// Its bytes, for the client that it belongs to.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }
}

/// The sessions that can be cancelled.
#[derive(Default)]
pub(crate) struct Registry {
    last: AtomicU32,
    sessions: Mutex<HashMap<i32, Option<(Key, CancelHandle)>>>,
}

/// A session's process number. Given back when it is dropped.
pub(crate) struct Registration {
    registry: Arc<Registry>,
    process: i32,
}

impl Registry {
    fn sessions(&self) -> MutexGuard<'_, HashMap<i32, Option<(Key, CancelHandle)>>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A process number that no other session has.
    pub(crate) fn reserve(self: &Arc<Self>) -> Registration {
        let mut sessions = self.sessions();
        loop {
            let next = self.last.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
            // Positive ones only, round and round.
            let process = i32::try_from(next & i32::MAX.cast_unsigned()).unwrap_or_default();
            if process > 0 && !sessions.contains_key(&process) {
                sessions.insert(process, None);
                return Registration { registry: Arc::clone(self), process };
            }
        }
    }

    /// Cancels what session `process` runs, if `key` is its key.
    pub(crate) fn cancel(&self, process: i32, key: &[u8]) {
        let handle = match self.sessions().get(&process) {
            Some(Some((right, handle))) if bool::from(right.bytes().ct_eq(key)) => Some(handle.clone()),
            Some(_) | None => None,
        };
        if let Some(handle) = handle {
            handle.cancel();
        }
    }

    /// Cancels what every session runs.
    pub(crate) fn cancel_all(&self) {
        let handles: Vec<_> = self.sessions().values().flatten().map(|(_, handle)| handle.clone()).collect();
        handles.iter().for_each(CancelHandle::cancel);
    }
}

impl Registration {
    /// The process number.
    pub(crate) fn process(&self) -> i32 {
        self.process
    }

    /// From now on `key` cancels what `handle` speaks of.
    pub(crate) fn publish(&self, key: Key, handle: CancelHandle) {
        self.registry.sessions().insert(self.process, Some((key, handle)));
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        self.registry.sessions().remove(&self.process);
    }
}

/// How often one network has tried lately: an address of IPv4, or 64 bits of IPv6.
pub(crate) struct Limiter {
    per_second_max: u32,
    tries: Mutex<HashMap<IpAddr, (Instant, u32)>>,
}

impl Limiter {
    /// So many tries a second and address.
    pub(crate) fn new(per_second_max: u32) -> Self {
        Limiter { per_second_max, tries: Mutex::default() }
    }

    /// Whether `address` may try at `now`. Where too many addresses try, none of the new ones may.
    pub(crate) fn allows(&self, address: IpAddr, now: Instant) -> bool {
        let address = network(address);
        let mut tries = self.tries.lock().unwrap_or_else(PoisonError::into_inner);
        if tries.len() >= ADDRESSES_MAX && !tries.contains_key(&address) {
            tries.retain(|_, (since, _)| now.duration_since(*since) < WINDOW);
            if tries.len() >= ADDRESSES_MAX {
                return false;
            }
        }
        let (since, count) = tries.entry(address).or_insert((now, 0));
        if now.duration_since(*since) >= WINDOW {
            (*since, *count) = (now, 0);
        }
        *count = count.saturating_add(1);
        *count <= self.per_second_max
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    #[test]
    fn w_13_keys_are_as_long_as_the_protocol_has_them() {
        assert_eq!(Key::random(0).unwrap().bytes().len(), 4);
        assert_eq!(Key::random(2).unwrap().bytes().len(), 32);
        assert_ne!(Key::random(2).unwrap().bytes(), Key::random(2).unwrap().bytes());
    }

    #[test]
    fn process_numbers_are_given_back() {
        let registry = Arc::new(Registry::default());
        let (first, second) = (registry.reserve(), registry.reserve());
        assert!(first.process() > 0 && first.process() != second.process());
        drop(first);
        assert_eq!(registry.sessions().len(), 1);
        registry.last.store(i32::MAX.cast_unsigned(), Ordering::Relaxed);
        assert!(registry.reserve().process() > 0);
    }

    #[test]
    fn w_13_tries_are_limited_per_address() {
        let limiter = Limiter::new(10);
        let (one, two) = (IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V4(Ipv4Addr::UNSPECIFIED));
        let start = Instant::now();
        assert!((0..10).all(|_| limiter.allows(one, start)));
        assert!(!limiter.allows(one, start));
        assert!(limiter.allows(two, start));
        assert!(limiter.allows(one, start + WINDOW));
    }

    #[test]
    fn w_13_an_ipv6_network_is_one_address() {
        let limiter = Limiter::new(10);
        let start = Instant::now();
        let address = |network: u16, host: u16| IpAddr::from([0x2001, 0xdb8, 0, network, 0, 0, 0, host]);
        assert!((0..10).all(|host| limiter.allows(address(0, host), start)));
        assert!(!limiter.allows(address(0, 10), start));
        assert!(limiter.allows(address(1, 0), start));
    }
}
