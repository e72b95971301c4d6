//! How many sessions there may be: in all, and from one address, or network of 64 bits of IPv6. The last few are for
//! superusers.
//!
//! A seat is taken when a login is done. Before that a connection has a place in the lobby, and whoever could have no
//! seat is told so before it is asked for a proof.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::auth::network;
use crate::door::Turned;
use crate::lobby::Ticket;
use crate::refusal::Refusal;

/// The caps, and what is taken.
#[derive(Debug)]
pub(crate) struct Admission {
    seats_max: usize,
    per_address_max: usize,
    reserved: usize,
    taken: Mutex<Taken>,
}

#[derive(Debug, Default)]
struct Taken {
    seats: usize,
    by_address: HashMap<IpAddr, usize>,
}

/// A seat. Given back when it is dropped.
#[derive(Debug)]
pub(crate) struct Seat {
    admission: Arc<Admission>,
    address: IpAddr,
}

/// Where a connection is.
#[derive(Debug)]
pub(crate) enum Place {
    /// It has not logged in.
    Lobby(Ticket),
    /// It has.
    #[expect(dead_code, reason = "it is held, and given back")]
    Seat(Seat),
}

impl Admission {
    /// Room for so many, the last `reserved` of which are for superusers.
    pub(crate) fn new(seats_max: usize, per_address_max: usize, reserved: usize) -> Arc<Self> {
        Arc::new(Admission { seats_max, per_address_max, reserved, taken: Mutex::default() })
    }

    /// Whether somebody at `address` could have a seat now, if he is a superuser.
    ///
    /// # Errors
    /// Why not.
    pub(crate) fn check(&self, address: IpAddr) -> Result<(), Refusal> {
        self.allows(&self.taken(), network(address), true)
    }

    /// A seat for somebody at `address`.
    ///
    /// # Errors
    /// There is none for him.
    pub(crate) fn seat(self: &Arc<Self>, address: IpAddr, is_superuser: bool) -> Result<Seat, Refusal> {
        let address = network(address);
        let mut taken = self.taken();
        self.allows(&taken, address, is_superuser)?;
        taken.seats += 1;
        *taken.by_address.entry(address).or_default() += 1;
        Ok(Seat { admission: Arc::clone(self), address })
    }

    /// How many seats are taken.
    pub(crate) fn seats(&self) -> usize {
        self.taken().seats
    }

    fn taken(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn allows(&self, taken: &Taken, address: IpAddr, is_superuser: bool) -> Result<(), Refusal> {
        let here = taken.by_address.get(&address).copied().unwrap_or_default();
        if taken.seats >= self.seats_max {
            Err(Refusal::Full)
        } else if here >= self.per_address_max {
            Err(Refusal::AddressFull)
        } else if !is_superuser && taken.seats >= self.seats_max.saturating_sub(self.reserved) {
            Err(Refusal::Reserved)
        } else {
            Ok(())
        }
    }
}

impl Place {
    /// From the lobby to a seat, for somebody who has just been let in.
    ///
    /// # Errors
    /// There is no seat, or it had to leave the lobby before.
    pub(crate) fn take_seat(
        &mut self,
        admission: &Arc<Admission>,
        address: IpAddr,
        is_superuser: bool,
    ) -> Result<(), Turned> {
        match self {
            Place::Seat(_) => {}
            Place::Lobby(ticket) => {
                let seat = admission.seat(address, is_superuser)?;
                ticket.leave()?;
                *self = Place::Seat(seat);
            }
        }
        Ok(())
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut taken = self.admission.taken();
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
        let refused = |last, is_superuser| admission.seat(address(last), is_superuser).err();
        let seats: Vec<_> = (0..2).map(|_| admission.seat(address(1), false).unwrap()).collect();
        assert_eq!(refused(1, true), Some(Refusal::AddressFull));
        assert_eq!(admission.check(address(1)), Err(Refusal::AddressFull));
        assert_eq!(refused(2, false), Some(Refusal::Reserved), "the last one is for operators");
        assert_eq!(admission.check(address(2)), Ok(()), "who is one is not known before the proof");
        let operator = admission.seat(address(2), true).unwrap();
        assert_eq!(refused(3, true), Some(Refusal::Full));
        assert_eq!(admission.check(address(3)), Err(Refusal::Full));
        drop(seats);
        assert_eq!(refused(1, false), None, "there are others again");
        drop(operator);
        assert_eq!(admission.seats(), 0);
        assert!(admission.taken().by_address.is_empty());
    }

    #[test]
    fn w_06_an_ipv6_network_is_one_address() {
        let admission = Admission::new(10, 2, 0);
        let address = |network: u16, host: u16| IpAddr::from([0x2001, 0xdb8, 0, network, 0, 0, 0, host]);
        let _seats = [1, 2].map(|host| admission.seat(address(0, host), false).unwrap());
        assert_eq!(admission.check(address(0, 3)), Err(Refusal::AddressFull));
        assert_eq!(admission.check(address(1, 3)), Ok(()));
    }
}
