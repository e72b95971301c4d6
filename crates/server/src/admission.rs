//! How many connections there may be: in all, and from one address. The last few are for superusers.
//!
//! A connection beyond the caps is not dropped at once: it may bring a CancelRequest, and else is to
//! be told why. For that there is a small number of standing places; beyond those it is dropped.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

use crate::refusal::Refusal;

/// How many connections beyond the caps are heard at once.
const STANDING_MAX: usize = 64;

/// The caps, and what is taken.
#[derive(Debug)]
pub(crate) struct Admission {
    connections_max: usize,
    per_address_max: usize,
    reserved: usize,
    taken: Mutex<Taken>,
}

#[derive(Debug, Default)]
struct Taken {
    seats: usize,
    standing: usize,
    by_address: HashMap<IpAddr, usize>,
}

/// A connection's place. Given back when it is dropped.
#[derive(Debug)]
pub(crate) struct Place {
    admission: Arc<Admission>,
    address: IpAddr,
    refusal: Option<Refusal>,
    is_reserved: bool,
}

impl Admission {
    /// Room for so many, the last `reserved` of which are for superusers.
    pub(crate) fn new(connections_max: usize, per_address_max: usize, reserved: usize) -> Arc<Self> {
        Arc::new(Admission { connections_max, per_address_max, reserved, taken: Mutex::default() })
    }

    /// A place for a peer at `address`; `None`: not even a standing one.
    pub(crate) fn enter(self: &Arc<Self>, address: IpAddr) -> Option<Place> {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let here = taken.by_address.get(&address).copied().unwrap_or_default();
        let refusal = if taken.seats >= self.connections_max {
            Some(Refusal::Full)
        } else if here >= self.per_address_max {
            Some(Refusal::AddressFull)
        } else {
            None
        };
        let is_reserved = taken.seats >= self.connections_max.saturating_sub(self.reserved);
        if refusal.is_some() {
            if taken.standing >= STANDING_MAX {
                return None;
            }
            taken.standing += 1;
        } else {
            taken.seats += 1;
            taken.by_address.insert(address, here + 1);
        }
        Some(Place { admission: Arc::clone(self), address, refusal, is_reserved })
    }

    /// How many seats are taken.
    pub(crate) fn seats(&self) -> usize {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner).seats
    }
}

impl Place {
    /// Whether it is for a superuser: it was when it was taken, and no other has been given back since.
    pub(crate) fn is_reserved(&self) -> bool {
        let unreserved = self.admission.connections_max.saturating_sub(self.admission.reserved);
        self.is_reserved && self.admission.seats() > unreserved
    }

    /// Why it is a standing place, if it is one.
    pub(crate) fn refusal(&self) -> Option<&Refusal> {
        self.refusal.as_ref()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = self.admission.taken.lock().unwrap_or_else(PoisonError::into_inner);
        if self.refusal.is_some() {
            taken.standing -= 1;
            return;
        }
        taken.seats -= 1;
        if let Some(here) = taken.by_address.get_mut(&self.address) {
            *here -= 1;
            if *here == 0 {
                taken.by_address.remove(&self.address);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    fn address(last: u8) -> IpAddr {
        IpAddr::V4(Ipv4Addr::new(127, 0, 0, last))
    }

    #[test]
    fn w_06_caps_in_all_and_per_address() {
        let admission = Admission::new(3, 2, 1);
        let places: Vec<_> = (0..2).map(|_| admission.enter(address(1)).unwrap()).collect();
        assert!(places.iter().all(|place| place.refusal().is_none()));
        assert_eq!(admission.enter(address(1)).unwrap().refusal(), Some(&Refusal::AddressFull));
        let other = admission.enter(address(2)).unwrap();
        assert_eq!(other.refusal(), None);
        assert!(other.is_reserved() && !places.iter().any(Place::is_reserved), "the last one is for operators");
        assert_eq!(admission.enter(address(3)).unwrap().refusal(), Some(&Refusal::Full));
        drop(places);
        assert!(!other.is_reserved(), "there are others again");
        assert_eq!(admission.enter(address(1)).unwrap().refusal(), None);
        drop(other);
        assert!(admission.taken.lock().unwrap().by_address.is_empty());
    }

    #[test]
    fn standing_places_are_bounded() {
        let admission = Admission::new(0, 0, 0);
        let standing: Vec<_> = (0..STANDING_MAX).map(|_| admission.enter(address(1)).unwrap()).collect();
        assert!(admission.enter(address(1)).is_none());
        drop(standing);
        assert!(admission.enter(address(1)).is_some());
    }
}
