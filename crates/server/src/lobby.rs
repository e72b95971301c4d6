//! Connections before their login: how many there may be, and which of them goes when a newer one needs room.
//!
//! They have places of their own, so that who has only connected takes no seat from those who log in. Places are
//! bounded, and so is the memory that goes with them. Where either runs out, a connection of the address that has the
//! most is closed, and of several such addresses or connections the one that has waited longest. A login takes a few
//! messages: whoever waits longest will most likely never finish it, and whoever holds thousands loses his own first.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use prometheus_client::metrics::counter::Counter;
use tokio::task::AbortHandle;

/// What a connection counts that has sent nothing yet: its socket, its task, its place here. As it was measured.
const BASE_BYTES: usize = 4608;
/// How often the log speaks of connections that were closed for newer ones.
const WARN_INTERVAL: Duration = Duration::from_secs(10);

/// The connection was closed to make room for another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Evicted;

/// The places.
#[derive(Debug)]
pub(crate) struct Lobby {
    places_max: usize,
    bytes_max: usize,
    evicted: Counter,
    waiting: Mutex<Waiting>,
}

#[derive(Debug, Default)]
struct Waiting {
    last: u64,
    bytes: usize,
    /// By address, the oldest first.
    entries: BTreeMap<(IpAddr, u64), Entry>,
    counts: HashMap<IpAddr, usize>,
    /// Each address once: how many connections it has, and its oldest. The last one is the next to lose it.
    order: BTreeSet<(usize, Reverse<u64>, IpAddr)>,
    /// Those that had to go before it was known how to end them.
    condemned: HashSet<u64>,
    warned: Option<Instant>,
}

#[derive(Debug)]
struct Entry {
    bytes: usize,
    /// `None`: it begins just now.
    task: Option<AbortHandle>,
}

/// A connection in the lobby, for whoever takes memory for it.
#[derive(Clone, Debug)]
pub(crate) struct Meter {
    lobby: Arc<Lobby>,
    address: IpAddr,
    number: u64,
}

/// A place. Given back when it is dropped.
#[derive(Debug)]
pub(crate) struct Ticket(Meter);

impl Lobby {
    /// Room for so many connections, and so much memory of theirs. Those that have to go are counted in `evicted`.
    pub(crate) fn new(places_max: usize, bytes_max: usize, evicted: Counter) -> Arc<Self> {
        Arc::new(Lobby { places_max: places_max.max(1), bytes_max, evicted, waiting: Mutex::default() })
    }

    /// A place for a connection from `address`. If there is none another connection loses its own.
    pub(crate) fn enter(self: &Arc<Self>, address: IpAddr) -> Ticket {
        let mut waiting = self.waiting();
        let mut out = Vec::new();
        while waiting.entries.len() >= self.places_max && self.evict(&mut waiting, &mut out).is_some() {}
        waiting.last += 1;
        let number = waiting.last;
        waiting.change(address, |waiting| {
            waiting.entries.insert((address, number), Entry { bytes: BASE_BYTES, task: None });
            waiting.bytes += BASE_BYTES;
            *waiting.counts.entry(address).or_default() += 1;
        });
        while waiting.bytes > self.bytes_max && self.evict(&mut waiting, &mut out).is_some() {}
        drop(waiting);
        end(&out);
        Ticket(Meter { lobby: Arc::clone(self), address, number })
    }

    /// Closes the connection that is the next to go; `false`: there is none.
    pub(crate) fn evict_one(&self) -> bool {
        let mut out = Vec::new();
        let evicted = self.evict(&mut self.waiting(), &mut out).is_some();
        end(&out);
        evicted
    }

    /// How many connections have not logged in yet.
    pub(crate) fn len(&self) -> usize {
        self.waiting().entries.len()
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the place of the next one away. Its task is to be ended when the lock is given back.
    fn evict(&self, waiting: &mut Waiting, out: &mut Vec<AbortHandle>) -> Option<()> {
        let &(count, Reverse(number), address) = waiting.order.last()?;
        match waiting.remove(address, number)?.task {
            Some(task) => out.push(task),
            None => drop(waiting.condemned.insert(number)),
        }
        self.evicted.inc();
        let now = Instant::now();
        if waiting.warned.is_none_or(|at| now.duration_since(at) >= WARN_INTERVAL) {
            waiting.warned = Some(now);
            tracing::warn!(
                addr = %address,
                connections = count,
                of = waiting.entries.len() + 1,
                "too many connections that do not log in: the oldest of the address with the most are closed"
            );
        }
        Some(())
    }
}

fn end(tasks: &[AbortHandle]) {
    tasks.iter().for_each(AbortHandle::abort);
}

impl Waiting {
    /// Does `change` to the connections of `address`, and keeps the order.
    fn change<T>(&mut self, address: IpAddr, change: impl FnOnce(&mut Self) -> T) -> T {
        let before = self.rank(address);
        let changed = change(self);
        let after = self.rank(address);
        if before != after {
            if let Some(before) = before {
                self.order.remove(&before);
            }
            self.order.extend(after);
        }
        changed
    }

    fn rank(&self, address: IpAddr) -> Option<(usize, Reverse<u64>, IpAddr)> {
        let count = *self.counts.get(&address)?;
        let ((_, oldest), _) = self.entries.range((address, 0)..=(address, u64::MAX)).next()?;
        Some((count, Reverse(*oldest), address))
    }

    fn remove(&mut self, address: IpAddr, number: u64) -> Option<Entry> {
        self.change(address, |waiting| {
            let entry = waiting.entries.remove(&(address, number))?;
            waiting.bytes -= entry.bytes;
            let count = waiting.counts.get_mut(&address)?;
            *count -= 1;
            if *count == 0 {
                waiting.counts.remove(&address);
            }
            Some(entry)
        })
    }
}

impl Meter {
    /// `task` serves the connection. It is ended if the connection has to go.
    pub(crate) fn is_served_by(&self, task: AbortHandle) {
        let mut waiting = self.lobby.waiting();
        if waiting.condemned.remove(&self.number) {
            drop(waiting);
            task.abort();
        } else if let Some(entry) = waiting.entries.get_mut(&(self.address, self.number)) {
            entry.task = Some(task);
        }
    }

    /// The connection is about to take `bytes` of memory more. Others may have to go for that, or it has itself.
    ///
    /// # Errors
    /// It had to go.
    pub(crate) fn charge(&self, bytes: usize) -> Result<(), Evicted> {
        let key = (self.address, self.number);
        let mut waiting = self.lobby.waiting();
        let entry = waiting.entries.get_mut(&key).ok_or(Evicted)?;
        entry.bytes = entry.bytes.saturating_add(bytes);
        waiting.bytes = waiting.bytes.saturating_add(bytes);
        let mut out = Vec::new();
        while waiting.bytes > self.lobby.bytes_max && self.lobby.evict(&mut waiting, &mut out).is_some() {}
        let is_in = waiting.entries.contains_key(&key);
        drop(waiting);
        end(&out);
        if is_in { Ok(()) } else { Err(Evicted) }
    }
}

impl Ticket {
    /// For those who take memory for the connection.
    pub(crate) fn meter(&self) -> Meter {
        self.0.clone()
    }

    /// The login is done: from now on the connection can't be closed for a newer one.
    ///
    /// # Errors
    /// It had to go before.
    pub(crate) fn leave(&self) -> Result<(), Evicted> {
        let left = self.0.lobby.waiting().remove(self.0.address, self.0.number);
        left.map(drop).ok_or(Evicted)
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        // Gone already where it was left, or taken away.
        let _ = self.leave();
    }
}

#[cfg(test)]
mod tests;
