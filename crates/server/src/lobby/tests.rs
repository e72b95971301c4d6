//! Who has to go, and that nothing is left behind.

use std::net::Ipv4Addr;

use proptest::prelude::*;

use super::*;

const PLENTY: usize = 1 << 30;

fn address(last: u8) -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(192, 0, 2, last))
}

fn lobby(places: usize, bytes: usize) -> Arc<Lobby> {
    Lobby::new(places, bytes, Counter::default())
}

/// The numbers of those that are in, among `tickets`.
fn inside(tickets: &[Ticket]) -> Vec<usize> {
    let is_in = |ticket: &Ticket| ticket.0.charge(0).is_ok();
    (0..tickets.len()).filter(|n| is_in(&tickets[*n])).collect()
}

#[test]
fn w_06_the_oldest_of_the_address_with_the_most_goes() {
    let lobby = lobby(4, PLENTY);
    // A good one, older than three hostile ones of one address.
    let mut tickets: Vec<_> = [1, 9, 9, 9].map(|last| lobby.enter(address(last))).into();
    assert_eq!(inside(&tickets), [0, 1, 2, 3]);
    for (last, expected) in [(9, vec![0, 2, 3, 4]), (9, vec![0, 3, 4, 5]), (2, vec![0, 4, 5, 6]), (3, vec![0, 5, 6, 7])]
    {
        tickets.push(lobby.enter(address(last)));
        assert_eq!(inside(&tickets), expected);
    }
    // All have one: the oldest of all.
    tickets.push(lobby.enter(address(4)));
    assert_eq!(inside(&tickets), [5, 6, 7, 8]);
    assert_eq!(lobby.evicted.get(), 5);
    drop(tickets);
    assert_eq!(lobby.len(), 0);
}

#[test]
fn w_06_who_has_left_cannot_be_closed_and_who_was_closed_cannot_leave() {
    let lobby = lobby(1, PLENTY);
    let first = lobby.enter(address(1));
    assert_eq!(first.leave(), Ok(()));
    let second = lobby.enter(address(1));
    assert_eq!(lobby.evicted.get(), 0);
    let third = lobby.enter(address(2));
    assert_eq!((second.leave(), second.0.charge(1)), (Err(Evicted), Err(Evicted)));
    assert_eq!(third.leave(), Ok(()));
    assert!(!lobby.evict_one(), "nobody is there");
}

#[test]
fn w_04_memory_is_bounded_as_places_are() {
    let lobby = lobby(100, 10 * BASE_BYTES);
    let tickets: Vec<_> = (0..10).map(|n| lobby.enter(address(n))).collect();
    assert_eq!(inside(&tickets).len(), 10);
    assert_eq!(tickets[9].0.charge(3 * BASE_BYTES), Ok(()));
    assert_eq!(inside(&tickets), [3, 4, 5, 6, 7, 8, 9]);
    let another = lobby.enter(address(20));
    assert_eq!(inside(&tickets), [4, 5, 6, 7, 8, 9]);
    // More than there is: all go, and at last itself.
    assert_eq!(another.0.charge(11 * BASE_BYTES), Err(Evicted));
    assert_eq!((lobby.len(), lobby.waiting().bytes), (0, 0));
}

#[tokio::test]
async fn the_task_of_who_goes_is_ended() {
    let lobby = lobby(1, PLENTY);
    for is_late in [false, true] {
        let ticket = lobby.enter(address(1));
        let meter = ticket.meter();
        let task = tokio::spawn(async move {
            let _ticket = ticket;
            std::future::pending::<()>().await;
        });
        let mut newer = None;
        if is_late {
            newer = Some(lobby.enter(address(2)));
        }
        meter.is_served_by(task.abort_handle());
        let newer = newer.unwrap_or_else(|| lobby.enter(address(2)));
        assert!(task.await.unwrap_err().is_cancelled());
        drop(newer);
        let waiting = lobby.waiting();
        assert!(waiting.entries.is_empty() && waiting.condemned.is_empty());
    }
}

proptest! {
    /// Whatever comes and goes, sums and order are those of the entries.
    #[test]
    fn sums_are_kept(steps in proptest::collection::vec((0u8..4, 0u8..5, 0usize..5000), 0..200)) {
        let lobby = lobby(12, 16 * BASE_BYTES);
        let mut tickets: Vec<Ticket> = Vec::new();
        for (what, last, n) in steps {
            match what {
                0 | 1 => tickets.push(lobby.enter(address(last))),
                2 if !tickets.is_empty() => drop(tickets.remove(n % tickets.len())),
                _ => drop(tickets.get(n % tickets.len().max(1)).map(|ticket| ticket.0.charge(n))),
            }
            let waiting = lobby.waiting();
            prop_assert!(waiting.entries.len() <= 12 && waiting.bytes <= 16 * BASE_BYTES);
            prop_assert_eq!(waiting.bytes, waiting.entries.values().map(|entry| entry.bytes).sum::<usize>());
            prop_assert_eq!(waiting.entries.len(), waiting.counts.values().sum::<usize>());
            let ranks: BTreeSet<_> = waiting.counts.keys().filter_map(|address| waiting.rank(*address)).collect();
            prop_assert_eq!(&ranks, &waiting.order);
        }
        drop(tickets);
        prop_assert_eq!(lobby.len(), 0);
    }
}
