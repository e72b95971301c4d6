//! Cases on several hubs over one store, as several processes have it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use dataglot_model::{Mutation, OrgName};
use tokio::sync::broadcast::Receiver;

use super::hub::{block_on, default, first_org, has, stored, until_done};
use super::image::{Image, Planner, Refusal, Request, submit};
use super::sample::{org, role};
use super::store::random_batch;
use super::{Dice, Rig};
use crate::fault::SharedStore;
use crate::{Event, Freshness, Hub, HubLimits, MetaStore, RedbOptions, StoreError, SubmitError, open_redb};

/// How long a case waits for what has to happen.
const DEADLINE: Duration = Duration::from_secs(30);

fn shared(rig: &dyn Rig) -> (Arc<SharedStore>, Hub<Planner>) {
    let store = SharedStore::new(rig.store());
    let hub = open(&store);
    for _ in 0..10 {
        match block_on(hub.create_first_org(first_org())) {
            Ok(_) | Err(StoreError::Contended) => return (store, hub),
            Err(StoreError::Io { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }
    panic!("no first org after 10 tries")
}

fn open(store: &Arc<SharedStore>) -> Hub<Planner> {
    let store: Arc<dyn MetaStore> = Arc::<SharedStore>::clone(store);
    Hub::open(store, Planner, HubLimits::default()).unwrap()
}

/// A second process on the same store, with the image of `default` loaded.
fn second(store: &Arc<SharedStore>) -> (Arc<SharedStore>, Hub<Planner>) {
    let store = store.handle();
    let hub = open(&store);
    hub.state(&default()).unwrap();
    (store, hub)
}

/// Runs with timers.
fn timed<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(future)
}

#[track_caller]
fn until(what: &str, mut done: impl FnMut() -> bool) {
    let deadline = Instant::now() + DEADLINE;
    while !done() {
        assert!(Instant::now() < deadline, "{what}");
        std::thread::yield_now();
    }
}

/// Why the request is refused; the rig's own faults come before that.
fn refused(hub: &Hub<Planner>, id: u128, request: impl Fn() -> Request) -> SubmitError<Refusal> {
    for attempt in 0..10u128 {
        match submit(hub, &default(), id + attempt * 1000, request()).wait() {
            Err(SubmitError::Failed(StoreError::Io { .. })) => {}
            Err(error) => return error,
            Ok(_) => panic!("it was not refused"),
        }
    }
    panic!("not refused after 10 tries")
}

/// The image that everybody sees.
fn image(hub: &Hub<Planner>, org: &OrgName) -> Option<Image> {
    hub.state(org).unwrap().map(|state| state.as_ref().clone())
}

pub fn c105_a_refusal_is_decided_on_the_store(rig: &dyn Rig) {
    let (store, one) = shared(rig);
    until_done(&one, &default(), 1, || Request::CreateIfNotExists(role("a")));
    let (_, two) = second(&store);
    until_done(&one, &default(), 200_000, || Request::Write(vec![Mutation::Delete(role("a").key())]));
    // `two` believes that it is there.
    assert!(has(&two, &default(), "a"));
    assert!(until_done(&two, &default(), 300_000, || Request::CreateIfNotExists(role("a"))).is_some());
    // `one` believes that it is not.
    assert!(!has(&one, &default(), "a"));
    let why = refused(&one, 400_000, || Request::Create(role("a")));
    assert_eq!(why, SubmitError::Refused(Refusal::Exists));
    assert!(has(&one, &default(), "a"), "and has learnt it by that");
}

pub fn c105_a_refusal_comes_however_much_others_write(rig: &dyn Rig) {
    let (store, one) = shared(rig);
    until_done(&one, &default(), 1, || Request::CreateIfNotExists(role("a")));
    let (_, two) = second(&store);
    let ids = AtomicU64::new(10);
    store.set_rival(move || {
        let id = |n| u128::from(n) * 100_000;
        let delete = || Request::Write(vec![Mutation::Delete(role("b").key())]);
        until_done(&two, &default(), id(ids.fetch_add(1, Ordering::Relaxed)), || Request::CreateIfNotExists(role("b")));
        until_done(&two, &default(), id(ids.fetch_add(1, Ordering::Relaxed)), delete);
    });
    let why = refused(&one, 200_000, || Request::Create(role("a")));
    assert_eq!(why, SubmitError::Refused(Refusal::Exists));
}

pub fn c105_an_org_of_another_writer_is_known_at_once(rig: &dyn Rig) {
    let (store, one) = shared(rig);
    let (_, two) = second(&store);
    let acme = org("acme");
    until_done(&one, &default(), 1, || Request::CreateOrg(acme.clone(), 7));
    let why = refused(&two, 200_000, || Request::CreateOrg(acme.clone(), 7));
    assert_eq!(why, SubmitError::Refused(Refusal::Exists));
    until_done(&two, &default(), 300_000, || Request::DropOrg(acme.clone()));
    // The image of the dropped org is here still.
    assert!(image(&one, &acme).is_some());
    let why = refused(&one, 400_000, || Request::DropOrg(acme.clone()));
    assert_eq!(why, SubmitError::Refused(Refusal::DoesNotExist));
    assert_eq!(image(&one, &acme), None);
    until_done(&two, &default(), 500_000, || Request::CreateOrg(acme.clone(), 9));
    timed(one.refresh(&default())).unwrap();
    assert_eq!(image(&one, &acme), stored(store.as_ref(), &acme));
}

pub fn h01_what_another_writer_does_is_seen(rig: &dyn Rig) {
    let (store, one) = shared(rig);
    let (seen_by_two, two) = second(&store);
    let mut events = two.subscribe();
    let told = |events: &mut Receiver<Event>| std::iter::from_fn(|| events.try_recv().ok()).collect::<Vec<_>>();
    let mut dice = Dice::new(rig.seed());
    let mut next = image(&two, &default()).unwrap().head.seq.next();
    for round in 0..20 {
        for id in 1..=3 {
            let batch = random_batch(&mut dice, &image(&one, &default()).unwrap());
            until_done(&one, &default(), 1_000_000 * round + 100_000 * id, || Request::Write(batch.clone()));
        }
        let newest = stored(store.as_ref(), &default()).unwrap();
        if round % 2 == 0 {
            seen_by_two.look();
            until("another writer's changes are seen", || image(&two, &default()).unwrap() == newest);
        } else {
            timed(two.refresh(&default())).unwrap();
            assert_eq!(image(&two, &default()).unwrap(), newest);
        }
        // H-02: what is said twice, and of what nobody has, has no effect.
        seen_by_two.look();
        until("announced", || {
            let all = told(&mut events);
            for event in all {
                assert_eq!(event, Event { org: default(), seq: next });
                next = next.next();
            }
            next == newest.head.seq.next()
        });
    }
}

pub fn a_version_from_elsewhere_is_waited_for(rig: &dyn Rig) {
    let (store, one) = shared(rig);
    let (_, two) = second(&store);
    let seq = until_done(&one, &default(), 1, || Request::CreateIfNotExists(role("a"))).unwrap();
    assert_eq!(timed(two.wait_for(&default(), seq, DEADLINE)), Ok(true));
    assert!(has(&two, &default(), "a"));
    assert_eq!(timed(two.wait_for(&default(), seq.next(), Duration::ZERO)), Ok(false));
}

pub fn m7_without_contact_writes_fail_at_once_and_reads_go_on(rig: &dyn Rig) {
    let (store, one) = shared(rig);
    until_done(&one, &default(), 1, || Request::CreateIfNotExists(role("a")));
    assert_eq!(one.freshness(), Freshness::Current);
    store.set_down(true);
    store.look();
    until("it is noticed", || matches!(one.freshness(), Freshness::Stale { .. }));
    assert!(has(&one, &default(), "a"));
    for request in [Request::CreateIfNotExists(role("b")), Request::CreateIfNotExists(role("a"))] {
        let failed = submit(&one, &default(), 200_000, request).wait().err();
        assert!(matches!(failed, Some(SubmitError::Failed(StoreError::Unavailable { .. }))), "{failed:?}");
    }
    assert!(matches!(timed(one.refresh(&default())), Err(StoreError::Unavailable { .. })));
    store.set_down(false);
    store.look();
    until("it is back", || one.freshness() == Freshness::Current);
    until_done(&one, &default(), 300_000, || Request::CreateIfNotExists(role("b")));
    assert_eq!(image(&one, &default()), stored(store.as_ref(), &default()));
}

/// A copy of the store as it is now.
fn copy(rig: &dyn Rig, store: &SharedStore, file: &str) -> Arc<dyn MetaStore> {
    let path = rig.dir().join(file);
    store.backup(&path).unwrap();
    open_redb(&path, RedbOptions::default()).unwrap()
}

pub fn h06_a_history_that_goes_backwards_stops_all_writes(rig: &dyn Rig) {
    let (store, one) = shared(rig);
    let (_, two) = second(&store);
    let older = copy(rig, &store, "older.redb");
    until_done(&one, &default(), 1, || Request::CreateIfNotExists(role("a")));
    store.replace(older);
    store.look();
    until("it is noticed", || one.diverged().is_some());
    let seen = image(&one, &default()).unwrap().head.seq;
    let diverged = SubmitError::Failed(StoreError::Diverged { org: default(), seen });
    assert_eq!(refused(&one, 200_000, || Request::CreateIfNotExists(role("b"))), diverged);
    // The other one has not seen what is gone, and is stopped all the same.
    assert_eq!(refused(&two, 300_000, || Request::CreateIfNotExists(role("b"))), diverged);
    assert!(has(&one, &default(), "a"), "what was acknowledged is not forgotten");
    assert_eq!(image(&two, &default()), stored(store.as_ref(), &default()));
}

/// After a copy that does not have the last transaction has taken the store's place, somebody who has not
/// seen it makes `others`.
fn grown_again(rig: &dyn Rig, others: &[&str]) {
    let (store, one) = shared(rig);
    let older = copy(rig, &store, "older.redb");
    until_done(&one, &default(), 1, || Request::CreateIfNotExists(role("a")));
    store.replace(older);
    let (_, two) = second(&store);
    for (id, other) in (5..).zip(others) {
        until_done(&two, &default(), id * 100_000, || Request::CreateIfNotExists(role(other)));
    }
    let diverged = |hub: &Hub<Planner>, id| {
        let why = refused(hub, id, || Request::CreateIfNotExists(role("z")));
        assert!(matches!(why, SubmitError::Failed(StoreError::Diverged { .. })), "{why:?}");
    };
    diverged(&one, 1_000_000);
    diverged(&two, 1_100_000);
    assert!(has(&one, &default(), "a") && !has(&one, &default(), "b"));
}

pub fn h06_a_history_that_has_grown_as_long_again_is_noticed(rig: &dyn Rig) {
    grown_again(rig, &["b"]);
}

pub fn h06_a_history_that_has_grown_longer_is_noticed(rig: &dyn Rig) {
    grown_again(rig, &["b", "c", "d"]);
}
