//! Cases on what is planned while a group is on its way.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use dataglot_model::{Mutation, Seq, TransactionId};
use tokio::time::timeout;

use super::Rig;
use super::hub::{agrees, block_on, default, has, hub, until_done};
use super::image::{Planner, Refusal, Request, submit};
use super::sample::{org, role};
use super::shared::{DEADLINE, shared, timed, until};
use crate::fault::{Fault, FaultStore};
use crate::{Hub, HubLimits, StoreError, SubmitError, Ticket};

/// So many are planned at a time.
const AT_ONCE: u128 = 8;

/// While the store holds a first transaction back, others are planned on it: how that went, and what became of all.
struct Ahead {
    hub: Hub<Planner>,
    store: Arc<FaultStore>,
    first: Ticket<Planner>,
    others: Vec<Ticket<Planner>>,
    /// How often one of the others was planned.
    planned: Arc<AtomicUsize>,
    /// How many commits there had been before.
    commits: usize,
}

impl Ahead {
    /// Begins. `faults` of the commits, the first one's first.
    fn start(rig: &dyn Rig, faults: &[Fault], first: Request, other: impl Fn(u128) -> Request) -> Ahead {
        let (hub, store) = hub(rig, HubLimits { ahead_from: 1, ..HubLimits::default() });
        let commits = store.commits();
        let before = hub.state(&default()).unwrap();
        let planned = Arc::new(AtomicUsize::new(0));
        let held = store.hold();
        let first = submit(&hub, &default(), 1, first);
        held.until_waiting();
        let submit_one = |i| submit(&hub, &default(), 2 + i, Request::Counted(Arc::clone(&planned), other(i).into()));
        let others = (0..AT_ONCE).map(submit_one).collect();
        until("all are planned", || planned.load(Ordering::Acquire) == 8);
        // Nothing is there yet, and nothing is seen.
        assert_eq!(store.commits() - commits, 1);
        assert_eq!(hub.state(&default()).unwrap(), before);
        store.next(faults.iter().copied());
        drop(held);
        Ahead { hub, store, first, others, planned, commits }
    }
}

/// The rig's own faults may come on top of those of the case.
fn is_spoiled(error: &SubmitError<Refusal>) -> bool {
    matches!(error, SubmitError::Failed(StoreError::Io { .. }))
}

pub fn what_was_planned_ahead_is_committed_next(rig: &dyn Rig) {
    let one = |i| Request::CreateIfNotExists(role(&format!("r{i}")));
    let ahead = Ahead::start(rig, &[], Request::CreateIfNotExists(role("first")), one);
    let first = ahead.first.wait();
    let others: Vec<_> = ahead.others.into_iter().map(Ticket::wait).collect();
    if first.is_ok() && others.iter().all(Result::is_ok) {
        let numbers: Vec<_> = others.iter().map(|done| done.as_ref().ok().unwrap().seq.unwrap().0).collect();
        assert_eq!(numbers, (3..11).collect::<Vec<_>>());
        // Planned once, and committed as one group.
        let commits = ahead.store.commits() - ahead.commits;
        assert_eq!((ahead.planned.load(Ordering::Acquire), commits), (8, 2));
    }
    for (i, outcome) in (0..AT_ONCE).zip(others) {
        if let Err(error) = outcome {
            assert!(is_spoiled(&error), "{error:?}");
            until_done(&ahead.hub, &default(), 10_000 * (i + 1), || one(i));
        }
        assert!(has(&ahead.hub, &default(), &format!("r{i}")));
    }
    agrees(&ahead.hub, &default());
}

/// "It exists" is no answer when what exists was not committed in the end.
pub fn what_was_planned_on_a_group_that_failed_is_thought_over(rig: &dyn Rig) {
    for fault in [Fault::Fail, Fault::LostRequest, Fault::Full] {
        let one = |i: u128| {
            if i.is_multiple_of(2) { Request::Create(role("x")) } else { Request::CreateIfNotExists(role("x")) }
        };
        let ahead = Ahead::start(rig, &[fault], Request::Create(role("x")), one);
        assert!(matches!(ahead.first.wait(), Err(SubmitError::Failed(_))), "{fault:?}");
        let outcomes: Vec<_> = ahead.others.into_iter().map(Ticket::wait).collect();
        let made = outcomes.iter().filter(|o| matches!(o, Ok(done) if done.seq.is_some())).count();
        let spoiled = outcomes.iter().filter(|o| o.as_ref().is_err_and(is_spoiled)).count();
        assert!(made == 1, "{fault:?}: {made} made, {spoiled} spoiled");
        let refused = SubmitError::Refused(Refusal::Exists);
        assert!(outcomes.iter().all(|o| o.as_ref().err().is_none_or(|e| *e == refused || is_spoiled(e))));
        assert!(has(&ahead.hub, &default(), "x"));
        agrees(&ahead.hub, &default());
        until_done(&ahead.hub, &default(), 100_000, || Request::Write(vec![Mutation::Delete(role("x").key())]));
    }
}

/// D-03, with a group that was planned on one whose outcome nobody knows.
pub fn what_was_planned_on_an_unknown_group_is_not_committed_before_that_is_known(rig: &dyn Rig) {
    for fault in [Fault::LostReply, Fault::LostRequest] {
        let (hub, store) = hub(rig, HubLimits { ahead_from: 1, ..HubLimits::default() });
        let planned = Arc::new(AtomicUsize::new(0));
        let held = store.hold();
        let (a, b) = (format!("a-{fault:?}"), format!("b-{fault:?}"));
        let id = if fault == Fault::LostReply { 1 } else { 200_000 };
        let unknown = submit(&hub, &default(), id, Request::Create(role(&a)));
        held.until_waiting();
        let one = |i| {
            let request = Request::Create(role(&format!("{b}-{i}")));
            submit(&hub, &default(), id + 1 + i, Request::Counted(Arc::clone(&planned), request.into()))
        };
        let others: Vec<_> = (0..AT_ONCE).map(one).collect();
        until("all are planned", || planned.load(Ordering::Acquire) == 8);
        store.next([fault]);
        store.fail_lookups(usize::MAX);
        let commits = store.commits();
        drop(held);
        assert_eq!(unknown.wait().err(), Some(SubmitError::Unknown(TransactionId(id))));
        for other in others {
            assert!(matches!(other.wait(), Err(SubmitError::Failed(_))));
        }
        assert_eq!(store.commits(), commits);

        store.fail_lookups(0);
        until_done(&hub, &default(), id + 100, || Request::CreateIfNotExists(role(&b)));
        let found = block_on(hub.transaction(&default(), TransactionId(id))).unwrap();
        assert_eq!(found.is_some(), has(&hub, &default(), &a));
        agrees(&hub, &default());
    }
}

/// Another writer comes between the two groups.
pub fn what_was_planned_on_a_state_that_others_went_on_from_is_planned_again(rig: &dyn Rig) {
    let one = |i| Request::CreateIfNotExists(role(&format!("r{i}")));
    let ahead = Ahead::start(rig, &[Fault::None, Fault::Conflict], Request::CreateIfNotExists(role("first")), one);
    let first = ahead.first.wait();
    let others: Vec<_> = ahead.others.into_iter().map(Ticket::wait).collect();
    if first.is_ok() && others.iter().all(Result::is_ok) {
        assert_eq!(ahead.planned.load(Ordering::Acquire), 16);
        let last = others.last().and_then(|done| done.as_ref().ok()?.seq);
        assert_eq!(last, Some(Seq(10)));
    }
    for (i, outcome) in (0..AT_ONCE).zip(others) {
        if let Err(error) = outcome {
            assert!(is_spoiled(&error), "{error:?}");
            until_done(&ahead.hub, &default(), 10_000 * (i + 1), || one(i));
        }
    }
    agrees(&ahead.hub, &default());
}

/// An org that is on its way is there for whoever comes next, and is not if it did not arrive.
pub fn an_org_that_is_being_made_can_be_written_to(rig: &dyn Rig) {
    for fault in [Fault::None, Fault::Fail] {
        let name = org(if fault == Fault::None { "acme" } else { "gone" });
        let (hub, store) = hub(rig, HubLimits { ahead_from: 1, ..HubLimits::default() });
        let planned = Arc::new(AtomicUsize::new(0));
        let held = store.hold();
        let made = submit(&hub, &default(), 1, Request::CreateOrg(name.clone(), 7));
        held.until_waiting();
        let counted = |request: Request| Request::Counted(Arc::clone(&planned), request.into());
        let inside = submit(&hub, &name, 2, counted(Request::CreateIfNotExists(role("inside"))));
        let seven = |i| submit(&hub, &default(), 3 + i, counted(Request::CreateOrg(name.clone(), 8)));
        let again: Vec<_> = (0..AT_ONCE - 1).map(seven).collect();
        until("all are planned", || planned.load(Ordering::Acquire) == 8);
        store.next([fault]);
        drop(held);
        match (made.wait(), inside.wait()) {
            (Ok(_), Ok(done)) => assert_eq!(done.seq, Some(Seq(2))),
            (Ok(_), Err(error)) => assert!(is_spoiled(&error), "{error:?}"),
            (Err(_), Err(error)) => {
                assert!(is_spoiled(&error) || error == SubmitError::Failed(StoreError::NoSuchOrg(name.clone())));
            }
            (Err(error), Ok(done)) => panic!("{error:?}, and {:?} inside", done.seq),
        }
        let outcomes: Vec<_> = again.into_iter().map(Ticket::wait).collect();
        let refused = outcomes.iter().filter(|o| o.as_ref().err() == Some(&SubmitError::Refused(Refusal::Exists)));
        assert!(refused.count() >= 6 || outcomes.iter().any(|o| o.as_ref().is_err_and(is_spoiled)));
        agrees(&hub, &default());
        agrees(&hub, &name);
    }
}

/// An org is being dropped: whoever comes next is told that it is gone when it is, and not if it stays.
pub fn an_org_that_is_being_dropped_is_there_until_it_is_gone(rig: &dyn Rig) {
    for fault in [Fault::None, Fault::Fail] {
        let name = org(if fault == Fault::None { "acme" } else { "stays" });
        let (hub, store) = hub(rig, HubLimits { ahead_from: 1, ..HubLimits::default() });
        until_done(&hub, &default(), 100_000, || Request::CreateOrg(name.clone(), 7));
        let planned = Arc::new(AtomicUsize::new(0));
        let held = store.hold();
        let dropped = submit(&hub, &default(), 1, Request::DropOrg(name.clone()));
        held.until_waiting();
        let inside = submit(&hub, &name, 2, Request::CreateIfNotExists(role("inside")));
        let beside = |i| {
            let request = Request::CreateIfNotExists(role(&format!("beside{i}")));
            submit(&hub, &default(), 3 + i, Request::Counted(Arc::clone(&planned), request.into()))
        };
        let beside: Vec<_> = (0..AT_ONCE - 1).map(beside).collect();
        until("all are planned", || planned.load(Ordering::Acquire) == 7);
        store.next([fault]);
        drop(held);
        let (dropped, inside) = (dropped.wait(), inside.wait());
        let gone = SubmitError::Failed(StoreError::NoSuchOrg(name.clone()));
        match (dropped, inside) {
            (Ok(_), Err(error)) => assert_eq!(error, gone),
            (Err(error), inside) => {
                assert!(is_spoiled(&error), "{error:?}");
                assert!(inside.as_ref().err().is_none_or(is_spoiled), "{:?}", inside.err());
            }
            (Ok(_), Ok(done)) => panic!("{:?} in an org that is gone", done.seq),
        }
        beside.into_iter().for_each(|ticket| drop(ticket.wait()));
        agrees(&hub, &default());
        agrees(&hub, &name);
    }
}

/// One group after the other is on its way, and who asks how new an image is gets an answer all the same. So does who
/// has something for an org that is not there.
pub fn who_asks_is_answered_however_much_is_written(rig: &dyn Rig) {
    let (_, hub) = shared(rig);
    let nobody = org("nobody");
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        for writer in 0..16u128 {
            let (hub, is_over) = (hub.clone(), &is_over);
            scope.spawn(move || {
                for i in (0..).take_while(|_| !is_over.load(Ordering::Acquire)) {
                    let request = || Request::CreateIfNotExists(role(&format!("w{writer}-{i}")));
                    until_done(&hub, &default(), 1 + 100_000_000 * writer + 100_000 * i, request);
                }
            });
        }
        // However it ends, the writers do.
        let answered = catch_unwind(AssertUnwindSafe(|| {
            for id in 0..20 {
                timed(hub.refresh(&default())).unwrap();
                let ticket = submit(&hub, &nobody, 10_000_000_000 + id, Request::Write(Vec::new()));
                let told = timed(async { timeout(DEADLINE, ticket).await }).expect("an answer in time").err();
                assert_eq!(told, Some(SubmitError::Failed(StoreError::NoSuchOrg(nobody.clone()))));
            }
        }));
        is_over.store(true, Ordering::Release);
        answered.unwrap_or_else(|panic| resume_unwind(panic));
    });
    agrees(&hub, &default());
}
