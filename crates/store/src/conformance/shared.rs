//! Cases on several hubs over one store, as several processes have it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use dataglot_model::{Mutation, OrgName};
use tokio::sync::broadcast::Receiver;

use super::hub::{block_on, default, first_org, has, stored, until_done};
use super::image::{Image, Planner, Refusal, Request, submit};
use super::sample::{org, role};
use super::store::random_batch;
use super::{Dice, Rig};
use crate::fault::{Moment, SharedStore};
use crate::{Event, Freshness, Hub, HubLimits, MetaStore, StoreError, SubmitError};

/// How long a case waits for what has to happen.
pub(super) const DEADLINE: Duration = Duration::from_secs(30);

pub(super) fn shared(rig: &dyn Rig) -> (Arc<SharedStore>, Hub<Planner>) {
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
    open_with(store, HubLimits::default())
}

pub(super) fn open_with(store: &Arc<SharedStore>, limits: HubLimits) -> Hub<Planner> {
    let store: Arc<dyn MetaStore> = Arc::<SharedStore>::clone(store);
    // Every group is committed while the next one is planned.
    Hub::open(store, Planner, HubLimits { ahead_from: 1, ..limits }).unwrap()
}

/// A second process on the same store, with the image of `default` loaded.
pub(super) fn second(store: &Arc<SharedStore>) -> (Arc<SharedStore>, Hub<Planner>) {
    let store = store.handle();
    let hub = open(&store);
    hub.state(&default()).unwrap();
    (store, hub)
}

/// Runs with timers.
pub(super) fn timed<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(future)
}

#[track_caller]
pub(super) fn until(what: &str, mut done: impl FnMut() -> bool) {
    let deadline = Instant::now() + DEADLINE;
    while !done() {
        assert!(Instant::now() < deadline, "{what}");
        std::thread::yield_now();
    }
}

/// Why the request is refused; the rig's own faults come before that.
pub(super) fn refused(hub: &Hub<Planner>, id: u128, request: impl Fn() -> Request) -> SubmitError<Refusal> {
    refused_to(hub, &default(), id, request)
}

/// The same, of another org.
pub(super) fn refused_to(
    hub: &Hub<Planner>,
    org: &OrgName,
    id: u128,
    request: impl Fn() -> Request,
) -> SubmitError<Refusal> {
    for attempt in 0..10u128 {
        match submit(hub, org, id + attempt * 1000, request()).wait() {
            Err(SubmitError::Failed(StoreError::Io { .. })) => {}
            Err(error) => return error,
            Ok(_) => panic!("it was not refused"),
        }
    }
    panic!("not refused after 10 tries")
}

/// The image that everybody sees.
pub(super) fn image(hub: &Hub<Planner>, org: &OrgName) -> Option<Image> {
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
    store.set_meanwhile(Moment::Asked, move || {
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

/// A committer that is gone leaves nobody waiting.
pub fn a_committer_that_panics_leaves_nobody_waiting(rig: &dyn Rig) {
    let (store, one) = shared(rig);
    let hub = one.clone();
    let (sender, queued) = std::sync::mpsc::channel();
    store.set_meanwhile(Moment::Asked, move || {
        // They wait for the group that is under way.
        let ticket = submit(&hub, &default(), 2, Request::CreateIfNotExists(role("b")));
        let _ = sender.send(ticket);
        panic!("asked to");
    });
    let taken = submit(&one, &default(), 1, Request::CreateIfNotExists(role("admin"))).wait();
    assert_eq!(taken.err(), Some(SubmitError::Unknown(dataglot_model::TransactionId(1))));
    assert_eq!(queued.recv().unwrap().wait().err(), Some(SubmitError::Stopped));
    let later = submit(&one, &default(), 3, Request::CreateIfNotExists(role("b"))).wait();
    assert_eq!(later.err(), Some(SubmitError::Stopped));
    assert!(matches!(timed(one.refresh(&default())), Err(StoreError::Unavailable { .. })));
    assert!(has(&one, &default(), "admin"), "reads go on");
}

/// Who began to load an image before the committer published a newer one takes that one, and does not bring a
/// dropped org back.
pub fn h01_an_image_never_goes_backwards(rig: &dyn Rig) {
    for (round, dropped) in [(0u128, false), (1, true)] {
        let (store, one) = shared(rig);
        let acme = org(if dropped { "dropped" } else { "acme" });
        let (loaded, is_loaded) = std::sync::mpsc::channel();
        let (go, wait) = std::sync::mpsc::channel::<()>();
        let wait = std::sync::Mutex::new(wait);
        let is_next = Arc::new(AtomicBool::new(false));
        // Who loads it next has read it, and is held up.
        let is_held = Arc::clone(&is_next);
        store.set_meanwhile(Moment::Loaded, move || {
            if is_held.swap(false, Ordering::AcqRel) {
                let _ = loaded.send(());
                let _ = wait.lock().unwrap().recv();
            }
        });
        let (hub, name, is_loaded) = (one.clone(), acme.clone(), std::sync::Mutex::new(is_loaded));
        let (sender, reader) = std::sync::mpsc::channel();
        store.set_meanwhile(Moment::Committed, move || {
            // Committed, and not published.
            let (hub, name) = (hub.clone(), name.clone());
            if hub.images().iter().any(|image| image.org == name) || hub.store().head(&name).unwrap().is_none() {
                return;
            }
            is_next.store(true, Ordering::Release);
            let _ = sender.send(std::thread::spawn(move || hub.state(&name).unwrap()));
            is_loaded.lock().unwrap().recv().unwrap();
        });
        let id = 10_000_000 * (round + 1);
        until_done(&one, &default(), id, || Request::CreateOrg(acme.clone(), 7));
        let reader = reader.recv().unwrap();
        if dropped {
            until_done(&one, &default(), id + 100_000, || Request::DropOrg(acme.clone()));
        } else {
            until_done(&one, &acme, id + 100_000, || Request::CreateIfNotExists(role("a")));
        }
        drop(go);
        let read = reader.join().unwrap();
        assert_eq!(read.map(|image| image.head), stored(store.as_ref(), &acme).map(|image| image.head));
        assert_eq!(image(&one, &acme), stored(store.as_ref(), &acme));
    }
}

/// Where one org cannot catch up, the others are confirmed all the same.
pub fn m7_an_org_that_cannot_catch_up_expires_alone(rig: &dyn Rig) {
    let (store, one) = shared(rig);
    let acme = org("acme");
    until_done(&one, &default(), 1, || Request::CreateOrg(acme.clone(), 7));
    let other = store.handle();
    let two = open_with(&other, HubLimits { lease: Duration::from_millis(100), ..HubLimits::default() });
    assert!(image(&two, &default()).is_some() && image(&two, &acme).is_some());
    other.set_meanwhile(Moment::Followed, || panic!("asked to"));
    until_done(&one, &acme, 200_000, || Request::CreateIfNotExists(role("a")));
    until("it is too old", || {
        other.look();
        matches!(two.freshness_of(&acme), Freshness::Expired { .. })
    });
    until("the other one is not", || {
        other.look();
        !matches!(two.freshness_of(&default()), Freshness::Expired { .. })
    });
    assert!(matches!(two.freshness_of(&acme), Freshness::Expired { .. }));
    other.set_meanwhile(Moment::Followed, || {});
    until("it has caught up", || {
        other.look();
        !matches!(two.freshness_of(&acme), Freshness::Expired { .. })
    });
    assert_eq!(image(&two, &acme), stored(store.as_ref(), &acme));
}

/// What is too much to be brought forward is loaded anew.
pub fn h01_however_much_others_write_it_is_seen(rig: &dyn Rig) {
    let (store, one) = shared(rig);
    for (id, limits) in [
        (1, HubLimits { delta_transactions_max: 2, ..HubLimits::default() }),
        (2, HubLimits { delta_bytes_max: 300, ..HubLimits::default() }),
    ] {
        let other = store.handle();
        let two = open_with(&other, limits);
        two.state(&default()).unwrap();
        let mut events = two.subscribe();
        let before = image(&two, &default()).unwrap().head.seq;
        for n in 1..=5 {
            let create = || Request::CreateIfNotExists(role(&format!("r{id}-{n}")));
            until_done(&one, &default(), 1_000_000 * id + 100_000 * n, create);
        }
        timed(two.refresh(&default())).unwrap();
        let newest = stored(store.as_ref(), &default());
        assert_eq!(image(&two, &default()), newest);
        let seqs: Vec<u64> = std::iter::from_fn(|| events.try_recv().ok()).map(|event| event.seq.0).collect();
        assert_eq!(seqs, (before.0 + 1..=newest.unwrap().head.seq.0).collect::<Vec<_>>());
    }
}
