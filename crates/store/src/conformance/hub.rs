//! Cases on a hub over a store.

use std::collections::BTreeSet;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

use dataglot_model::{Mutation, OrgName, Seq, Timestamp, TransactionId};

use super::Rig;
use super::image::{Image, Planner, Refusal, Request, submit};
use super::sample::{name, org, role};
use crate::fault::{Fault, FaultStore};
use crate::record::{ChangeEntry, load_state};
use crate::{Event, FirstOrg, Hub, HubLimits, MetaStore, StoreError, SubmitError};

/// Runs a future on this thread. What it waits for comes from other threads.
pub fn block_on<F: Future>(future: F) -> F::Output {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(value) => return value,
            Poll::Pending => thread::park(),
        }
    }
}

pub(super) fn default() -> OrgName {
    OrgName::default_org()
}

pub(super) fn first_org() -> FirstOrg {
    let statement = dataglot_model::ChangedStatement {
        sql: "CREATE USER admin".into(),
        mutations: vec![Mutation::Put(role("admin"))],
    };
    FirstOrg {
        name: default(),
        org_id: 1,
        id: TransactionId(1_000_000),
        at: Timestamp(1),
        actor: name("admin"),
        session: "1 (test)".into(),
        statement,
    }
}

/// A hub with its first org, on a store whose commits can be spoiled.
pub(super) fn hub(rig: &dyn Rig, limits: HubLimits) -> (Hub<Planner>, Arc<FaultStore>) {
    let store = FaultStore::new(rig.store());
    let hub = open(Arc::clone(&store), limits);
    // The rig may spoil commits of its own; the first org is asked for until it is there.
    for _ in 0..10 {
        match block_on(hub.create_first_org(first_org())) {
            Ok(_) | Err(StoreError::Contended) => return (hub, store),
            Err(StoreError::Io { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }
    panic!("no first org after 10 tries")
}

fn open(store: Arc<FaultStore>, limits: HubLimits) -> Hub<Planner> {
    Hub::open(store, Planner, limits).unwrap()
}

pub(super) fn stored(store: &dyn MetaStore, org: &OrgName) -> Option<Image> {
    load_state::<Image>(store, org).unwrap().map(|(image, _)| image)
}

/// What everybody sees is what is in the store.
#[track_caller]
pub(super) fn agrees(hub: &Hub<Planner>, org: &OrgName) {
    let seen = hub.state(org).unwrap().map(|state| state.as_ref().clone());
    assert_eq!(seen, stored(hub.store().as_ref(), org));
}

pub(super) fn has(hub: &Hub<Planner>, org: &OrgName, text: &str) -> bool {
    hub.state(org).unwrap().is_some_and(|state| state.rows.contains_key(&role(text).key()))
}

/// The rig's own faults look like a store that fails now and then: try again, as a client would.
pub(super) fn until_done(hub: &Hub<Planner>, org: &OrgName, id: u128, request: impl Fn() -> Request) -> Option<Seq> {
    for attempt in 0..10u128 {
        match submit(hub, org, id + attempt * 1000, request()).wait() {
            Ok(done) => return done.seq,
            Err(SubmitError::Failed(StoreError::Io { .. })) => {}
            Err(error) => panic!("{error:?}"),
        }
    }
    panic!("not done after 10 tries")
}

pub fn a_transaction_is_answered_when_it_is_durable(rig: &dyn Rig) {
    let (hub, store) = hub(rig, HubLimits::default());
    assert_eq!(block_on(hub.create_first_org(first_org())).err(), Some(StoreError::Contended));
    let held = store.hold();
    let ticket = submit(&hub, &default(), 1, Request::CreateIfNotExists(role("a")));
    held.until_waiting();
    // Planned, and not there: nobody sees it.
    assert!(!has(&hub, &default(), "a"));
    assert!(!ticket.cancel());
    drop(held);
    match block_on(ticket) {
        Ok(done) => {
            assert_eq!((done.seq, done.answer), (Some(Seq(2)), "done"));
            assert!(done.state.rows.contains_key(&role("a").key()));
        }
        Err(error) => {
            assert!(matches!(error, SubmitError::Failed(StoreError::Io { .. })), "{error:?}");
            until_done(&hub, &default(), 1, || Request::CreateIfNotExists(role("a")));
        }
    }
    agrees(&hub, &default());
    let last = hub.state(&default()).unwrap().unwrap().head.seq;
    let ChangeEntry::Intact(change) = block_on(hub.changes(&default(), Seq(1), 9)).unwrap().remove(0) else {
        panic!("damaged")
    };
    assert_eq!(block_on(hub.transaction(&default(), change.id)).unwrap(), Some(last));
    assert_eq!(block_on(hub.load(&default())).unwrap().unwrap().head.seq, last);
    assert!(block_on(hub.load(&org("nobody"))).unwrap().is_none());
    let missing = submit(&hub, &org("nobody"), 2, Request::Write(Vec::new())).wait();
    assert_eq!(missing.err(), Some(SubmitError::Failed(StoreError::NoSuchOrg(org("nobody")))));
}

pub fn a_transaction_that_changes_nothing_writes_nothing(rig: &dyn Rig) {
    let (hub, store) = hub(rig, HubLimits::default());
    let before = (store.commits(), hub.state(&default()).unwrap().unwrap().head);
    for id in 0..5 {
        let done = submit(&hub, &default(), id, Request::CreateIfNotExists(role("admin"))).wait().ok().unwrap();
        assert_eq!(done.seq, None);
    }
    assert_eq!((store.commits(), hub.state(&default()).unwrap().unwrap().head), before);
}

/// C055: all of one group; one makes it, the others see that it is there.
pub fn c055_racing_creates_make_one(rig: &dyn Rig) {
    let (hub, store) = hub(rig, HubLimits::default());
    let held = store.hold();
    let _first = submit(&hub, &default(), 0, Request::CreateIfNotExists(role("zero")));
    held.until_waiting();
    let quiet: Vec<_> = (1..=8).map(|id| submit(&hub, &default(), id, Request::CreateIfNotExists(role("r")))).collect();
    let strict: Vec<_> = (9..=16).map(|id| submit(&hub, &default(), id, Request::Create(role("r")))).collect();
    drop(held);
    let quiet: Vec<_> = quiet.into_iter().map(|t| t.wait()).collect();
    let strict: Vec<_> = strict.into_iter().map(|t| t.wait()).collect();
    let made = quiet.iter().chain(&strict).filter(|o| matches!(o, Ok(done) if done.seq.is_some())).count();
    let failed = quiet.iter().chain(&strict).filter(|o| matches!(o, Err(SubmitError::Failed(_)))).count();
    // Where the rig fails a commit, its writer is told, and the next one makes the row.
    assert!(made == 1, "{made} made, {failed} failed");
    let refused = strict.iter().filter(|o| matches!(o, Err(SubmitError::Refused(Refusal::Exists)))).count();
    assert!(refused + failed >= 7 && refused <= 8);
    agrees(&hub, &default());
}

/// "It exists" is no answer when what exists was not committed in the end.
pub fn a_refusal_that_depends_on_a_failed_group_is_thought_over(rig: &dyn Rig) {
    let (hub, store) = hub(rig, HubLimits::default());
    let held = store.hold();
    let blocker = submit(&hub, &default(), 1, Request::CreateIfNotExists(role("blocker")));
    held.until_waiting();
    let writer = submit(&hub, &default(), 2, Request::Create(role("x")));
    let refused = submit(&hub, &default(), 3, Request::Create(role("x")));
    let noop = submit(&hub, &default(), 4, Request::CreateIfNotExists(role("x")));
    store.next([Fault::None, Fault::Fail]);
    drop(held);
    let _ = blocker.wait();
    assert!(matches!(writer.wait(), Err(SubmitError::Failed(StoreError::Io { .. }))));
    // One of the two made it.
    match (refused.wait(), noop.wait()) {
        (Ok(done), Ok(after)) => assert!(done.seq.is_some() && after.seq.is_none()),
        (Err(SubmitError::Failed(_)), Ok(done)) => assert!(done.seq.is_some()),
        (a, b) => panic!("{:?} {:?}", a.err(), b.err()),
    }
    assert!(has(&hub, &default(), "x"));
    agrees(&hub, &default());
}

/// C113: one too large for the disk fails alone.
pub fn c113_what_does_not_fit_takes_no_other_with_it(rig: &dyn Rig) {
    let (hub, store) = hub(rig, HubLimits::default());
    let held = store.hold();
    let blocker = submit(&hub, &default(), 1, Request::CreateIfNotExists(role("blocker")));
    held.until_waiting();
    let large = submit(&hub, &default(), 2, Request::Create(role("large")));
    let small = submit(&hub, &default(), 3, Request::CreateIfNotExists(role("small")));
    // The group does not fit; the large one does not fit; the small one does.
    store.next([Fault::None, Fault::Full, Fault::Full]);
    drop(held);
    let _ = blocker.wait();
    assert_eq!(large.wait().err(), Some(SubmitError::Failed(StoreError::DiskFull)));
    if small.wait().is_err() {
        until_done(&hub, &default(), 4, || Request::CreateIfNotExists(role("small")));
    }
    assert!(!has(&hub, &default(), "large") && has(&hub, &default(), "small"));
    agrees(&hub, &default());
}

/// D-03, where a group did not fit and its transactions are tried one by one: not after one whose outcome nobody knows.
pub fn nothing_is_tried_apart_after_an_unknown_outcome(rig: &dyn Rig) {
    let (hub, store) = hub(rig, HubLimits::default());
    let held = store.hold();
    let blocker = submit(&hub, &default(), 1, Request::CreateIfNotExists(role("blocker")));
    held.until_waiting();
    let (a, b) = (submit(&hub, &default(), 2, Request::Create(role("a"))), Request::Create(role("b")));
    let b = submit(&hub, &default(), 3, b);
    store.next([Fault::None, Fault::Full, Fault::LostReply]);
    store.fail_lookups(usize::MAX);
    let commits = store.commits();
    drop(held);
    let (blocker, a, b) = (blocker.wait(), a.wait(), b.wait());
    assert!(matches!(b.err(), Some(SubmitError::Failed(_))));
    if blocker.is_err() {
        // The rig has lost the blocker's answer: that is the unknown outcome, and nothing more was tried.
        assert_eq!(store.commits(), commits);
        return;
    }
    assert_eq!(a.err(), Some(SubmitError::Unknown(TransactionId(2))));
    assert_eq!(store.commits() - commits, 2);
    store.fail_lookups(0);
    until_done(&hub, &default(), 400_000, || Request::CreateIfNotExists(role("b")));
    let found = block_on(hub.transaction(&default(), TransactionId(2))).unwrap();
    assert_eq!(found.is_some(), has(&hub, &default(), "a"));
    agrees(&hub, &default());
}

/// Lost on the way there: it failed. Lost on the way back: it is done.
pub fn an_unknown_outcome_is_found_out(rig: &dyn Rig) {
    let (hub, store) = hub(rig, HubLimits::default());
    store.next([Fault::LostRequest]);
    let lost = submit(&hub, &default(), 1, Request::Create(role("a"))).wait();
    assert!(matches!(lost.err(), Some(SubmitError::Failed(StoreError::Io { .. }))));
    assert!(!has(&hub, &default(), "a"));
    agrees(&hub, &default());

    store.next([Fault::LostReply]);
    match submit(&hub, &default(), 2, Request::Create(role("b"))).wait() {
        Ok(done) => assert_eq!(done.seq, Some(Seq(2))),
        // The rig's own fault.
        Err(error) => assert!(matches!(error, SubmitError::Failed(StoreError::Io { .. }))),
    }
    agrees(&hub, &default());
}

/// D-03: who asks while nobody knows is told so; then everything goes on, on what is really there.
pub fn nothing_is_committed_before_an_unknown_outcome_is_known(rig: &dyn Rig) {
    for (fault, id) in [(Fault::LostReply, 1), (Fault::LostRequest, 20_000)] {
        let (hub, store) = hub(rig, HubLimits::default());
        let before = hub.state(&default()).unwrap().unwrap();
        let (a, b) = (format!("a-{fault:?}"), format!("b-{fault:?}"));
        store.next([fault]);
        // For the commit itself, and for whatever asks again: the next transaction, news of other writers.
        store.fail_lookups(usize::MAX);
        let unknown = submit(&hub, &default(), id, Request::Create(role(&a))).wait();
        assert_eq!(unknown.err(), Some(SubmitError::Unknown(TransactionId(id))));
        let meanwhile = submit(&hub, &default(), id + 1, Request::Create(role(&b))).wait();
        assert!(matches!(meanwhile.err(), Some(SubmitError::Failed(_))));
        // What is there is seen where others write, too; it is only not known as this hub's own.
        let seen = hub.state(&default()).unwrap().unwrap();
        let followed = store.facts().shared && seen.rows.contains_key(&role(&a).key());
        assert!(if followed { fault == Fault::LostReply } else { seen == before });

        store.fail_lookups(0);
        until_done(&hub, &default(), id + 2, || Request::CreateIfNotExists(role(&b)));
        let found = block_on(hub.transaction(&default(), TransactionId(id))).unwrap();
        assert_eq!(found.is_some(), has(&hub, &default(), &a));
        assert!(found.is_none() || fault == Fault::LostReply);
        agrees(&hub, &default());
        // For the other round.
        until_done(&hub, &default(), id + 3, || Request::Write(vec![Mutation::Delete(role(&b).key())]));
    }
}

pub fn a_ticket_can_be_withdrawn_in_time(rig: &dyn Rig) {
    let (hub, store) = hub(rig, HubLimits::default());
    let held = store.hold();
    let taken = submit(&hub, &default(), 1, Request::CreateIfNotExists(role("taken")));
    held.until_waiting();
    let waiting = submit(&hub, &default(), 2, Request::CreateIfNotExists(role("withdrawn")));
    assert!(!taken.cancel());
    assert!(waiting.cancel());
    assert!(!waiting.cancel());
    assert_eq!(block_on(waiting).err(), Some(SubmitError::Withdrawn));
    drop(held);
    let _ = taken.wait();
    until_done(&hub, &default(), 3, || Request::CreateIfNotExists(role("after")));
    assert!(!has(&hub, &default(), "withdrawn"));
    agrees(&hub, &default());
}

pub fn the_queue_is_bounded(rig: &dyn Rig) {
    // Three requests of 100 bytes, or 250 bytes of them.
    for limits in [
        HubLimits { queue_requests_max: 2, ..HubLimits::default() },
        HubLimits { queue_bytes_max: 250, ..HubLimits::default() },
    ] {
        let (hub, store) = hub(rig, limits);
        let held = store.hold();
        let _taken = submit(&hub, &default(), 1, Request::CreateIfNotExists(role(&format!("t{:?}", store.commits()))));
        held.until_waiting();
        let fits: Vec<_> = (2..4).map(|id| submit(&hub, &default(), id, Request::Write(Vec::new()))).collect();
        let full = submit(&hub, &default(), 4, Request::Write(Vec::new())).wait();
        assert_eq!(full.err(), Some(SubmitError::Full));
        drop(held);
        assert!(fits.into_iter().all(|t| t.wait().is_ok()));
        assert!(submit(&hub, &default(), 5, Request::Write(Vec::new())).wait().is_ok());
        until_done(&hub, &default(), 10_000_000, || Request::Write(vec![Mutation::Delete(role("t2").key())]));
        hub.shutdown();
        let stopped = submit(&hub, &default(), 6, Request::Write(Vec::new())).wait();
        assert_eq!(stopped.err(), Some(SubmitError::Stopped));
    }
}

/// D-12: and the next one works.
pub fn a_panic_refuses_one_request(rig: &dyn Rig) {
    let (hub, _) = hub(rig, HubLimits::default());
    let panicked = submit(&hub, &default(), 1, Request::Panic).wait();
    assert_eq!(panicked.err(), Some(SubmitError::Refused(Refusal::Panicked)));
    until_done(&hub, &default(), 2, || Request::CreateIfNotExists(role("a")));
    agrees(&hub, &default());
}

pub fn orgs_are_made_and_dropped_with_a_statement(rig: &dyn Rig) {
    let (hub, _) = hub(rig, HubLimits::default());
    let acme = org("acme");
    assert!(hub.state(&acme).unwrap().is_none());
    until_done(&hub, &default(), 1, || Request::CreateOrg(acme.clone(), 7));
    agrees(&hub, &default());
    agrees(&hub, &acme);
    let made = hub.state(&acme).unwrap().unwrap();
    assert_eq!((made.head.org_id, made.head.seq), (7, Seq(1)));
    assert_eq!(hub.orgs().unwrap(), [acme.clone(), default()]);
    let again = submit(&hub, &default(), 2, Request::CreateOrg(acme.clone(), 8)).wait();
    assert_eq!(again.err(), Some(SubmitError::Refused(Refusal::Exists)));

    until_done(&hub, &acme, 30, || Request::CreateIfNotExists(role("inside")));
    assert!(!has(&hub, &default(), "inside"));
    agrees(&hub, &acme);

    until_done(&hub, &default(), 50, || Request::DropOrg(acme.clone()));
    assert!(hub.state(&acme).unwrap().is_none());
    assert_eq!(block_on(hub.changes(&acme, Seq(0), 9)).unwrap(), []);
    assert_eq!(hub.orgs().unwrap(), [default()]);
    let late = submit(&hub, &acme, 60, Request::Create(role("late"))).wait();
    assert_eq!(late.err(), Some(SubmitError::Failed(StoreError::NoSuchOrg(acme.clone()))));
    agrees(&hub, &default());

    until_done(&hub, &default(), 70, || Request::CreateOrg(acme.clone(), 9));
    let anew = hub.state(&acme).unwrap().unwrap();
    assert_eq!((anew.head.org_id, anew.head.seq), (9, Seq(1)));
    assert!(!has(&hub, &acme, "inside"));
    agrees(&hub, &acme);
}

/// Another writer moves the org on: the group is planned again on what is there.
pub fn two_hubs_on_one_store_agree(rig: &dyn Rig) {
    let (one, store) = hub(rig, HubLimits::default());
    let two = open(FaultStore::new(rig.store()), HubLimits::default());
    let mut events = two.subscribe();
    two.state(&default()).unwrap();
    until_done(&one, &default(), 1, || Request::CreateIfNotExists(role("a")));
    // `two` does not know of it yet, and must not make it twice.
    let seen = submit(&two, &default(), 200_000, Request::Create(role("b"))).wait();
    if seen.is_err() {
        until_done(&two, &default(), 300_000, || Request::CreateIfNotExists(role("b")));
    }
    assert!(has(&two, &default(), "a") && has(&two, &default(), "b"));
    let again = submit(&two, &default(), 400_000, Request::Create(role("a"))).wait();
    assert_eq!(again.err(), Some(SubmitError::Refused(Refusal::Exists)));
    agrees(&two, &default());
    // Nor is a transaction announced twice, or not at all.
    assert_eq!(events.try_recv().unwrap(), Event { org: default(), seq: Seq(2) });
    assert_eq!(events.try_recv().unwrap(), Event { org: default(), seq: Seq(3) });

    // A store that always says so.
    store.cycle([Fault::Conflict]);
    let contended = submit(&one, &default(), 500_000, Request::Create(role("c"))).wait();
    assert_eq!(contended.err(), Some(SubmitError::Failed(StoreError::Contended)));
}

pub fn stopping_finishes_the_queue(rig: &dyn Rig) {
    let (hub, store) = hub(rig, HubLimits::default());
    let held = store.hold();
    let first = submit(&hub, &default(), 1, Request::CreateIfNotExists(role("r1")));
    held.until_waiting();
    let rest: Vec<_> =
        (2..=20).map(|id| submit(&hub, &default(), id, Request::CreateIfNotExists(role(&format!("r{id}"))))).collect();
    let stopper = {
        let hub = hub.clone();
        thread::spawn(move || hub.shutdown())
    };
    drop(held);
    stopper.join().unwrap();
    let done = [first].into_iter().chain(rest).map(|t| t.wait()).filter(Result::is_ok).count();
    let roles = hub.state(&default()).unwrap().unwrap().rows.len();
    // `admin` was there before. Where the rig fails a commit, its writers were told.
    assert_eq!(roles, done + 1);
    agrees(&hub, &default());
    hub.shutdown();
}

/// H-02: every transaction once, in order, none before it is durable.
pub fn the_feed_has_no_gap(rig: &dyn Rig) {
    let (hub, _) = hub(rig, HubLimits::default());
    let mut events = hub.subscribe();
    for id in 1..=5 {
        until_done(&hub, &default(), id, || Request::CreateIfNotExists(role(&format!("r{id}"))));
    }
    until_done(&hub, &default(), 6, || Request::CreateIfNotExists(role("r1")));
    hub.shutdown();
    let mut seqs = Vec::new();
    while let Ok(event) = events.try_recv() {
        assert_eq!(event.org, default());
        seqs.push(event.seq.0);
    }
    assert_eq!(seqs, (2..=6).collect::<Vec<_>>());
}

/// C041: all at once, on several threads.
pub fn c041_many_writers_lose_nothing(rig: &dyn Rig) {
    // Every group is planned ahead.
    let (hub, _) = hub(rig, HubLimits { ahead_from: 1, ..HubLimits::default() });
    let done: BTreeSet<u64> = thread::scope(|scope| {
        let writers: Vec<_> = (0..8u128)
            .map(|writer| {
                let hub = hub.clone();
                scope.spawn(move || -> Vec<u64> {
                    (0..10u128)
                        .map(|i| {
                            let id = 100 * writer + i;
                            let request = || Request::CreateIfNotExists(role(&format!("w{writer}-{i}")));
                            until_done(&hub, &default(), id, request).unwrap().0
                        })
                        .collect()
                })
            })
            .collect();
        writers.into_iter().flat_map(|w| w.join().unwrap()).collect()
    });
    // Each got a number of its own, and together they have no gap.
    assert_eq!(done, (2..=81).collect());
    assert_eq!(hub.state(&default()).unwrap().unwrap().rows.len(), 81);
    agrees(&hub, &default());
}
