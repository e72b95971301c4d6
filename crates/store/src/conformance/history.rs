//! Cases on histories that take the place of others: restored backups, replicas that were behind.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};

use dataglot_model::{OrgName, Seq};

use super::Rig;
use super::hub::{default, has, stored, until_done};
use super::image::{Planner, Refusal, Request, submit};
use super::sample::{org, role};
use super::shared::{image, open_with, refused, refused_to, second, shared, timed, until};
use crate::fault::{Moment, SharedStore};
use crate::{Hub, HubLimits, MetaStore, PostgresError, RedbOptions, StoreError, SubmitError, open_memory, open_redb};

/// A copy of the store as it is now.
fn copy(rig: &dyn Rig, store: &SharedStore, file: &str) -> Arc<dyn MetaStore> {
    let path = rig.dir().join(file);
    store.backup(&path).unwrap();
    open_redb(&path, RedbOptions::default()).unwrap()
}

/// The head of the image that everybody sees.
fn seq(hub: &Hub<Planner>, org: &OrgName) -> Seq {
    image(hub, org).unwrap().head.seq
}

#[track_caller]
fn is_diverged(error: &SubmitError<Refusal>, of: &OrgName) {
    let is = matches!(error, SubmitError::Failed(StoreError::Diverged { org, .. }) if org == of);
    assert!(is, "{error:?}");
}

pub fn h06_a_history_that_goes_backwards_stops_all_writes(rig: &dyn Rig) {
    let (store, one) = shared(rig);
    let (_, two) = second(&store);
    let older = copy(rig, &store, "older.redb");
    until_done(&one, &default(), 1, || Request::CreateIfNotExists(role("a")));
    store.replace(older);
    store.look();
    until("it is noticed", || one.diverged(&default()).is_some());
    let seen = seq(&one, &default());
    let diverged = SubmitError::Failed(StoreError::Diverged { org: default(), seen });
    assert_eq!(refused(&one, 200_000, || Request::CreateIfNotExists(role("b"))), diverged);
    // The other one has not seen what is gone, and is stopped all the same.
    assert_eq!(refused(&two, 300_000, || Request::CreateIfNotExists(role("b"))), diverged);
    assert!(has(&one, &default(), "a"), "what was acknowledged is not forgotten");
    assert_eq!(image(&two, &default()), stored(store.as_ref(), &default()));
}

/// After a copy that does not have the last transaction has taken the store's place, somebody who has not
/// seen it makes `others`.
fn grown_again(rig: &dyn Rig, limits: HubLimits, others: &[&str]) {
    let (store, first) = shared(rig);
    let handle = store.handle();
    let one = open_with(&handle, limits);
    let older = copy(rig, &store, "older.redb");
    until_done(&first, &default(), 1, || Request::CreateIfNotExists(role("a")));
    assert!(has(&one, &default(), "a"));
    store.replace(older);
    let (_, two) = second(&store);
    for (id, other) in (5..).zip(others) {
        until_done(&two, &default(), id * 100_000, || Request::CreateIfNotExists(role(other)));
    }
    is_diverged(&refused(&one, 10_000_000, || Request::CreateIfNotExists(role("z"))), &default());
    is_diverged(&refused(&two, 11_000_000, || Request::CreateIfNotExists(role("z"))), &default());
    assert!(has(&one, &default(), "a") && !has(&one, &default(), "b"));
}

pub fn h06_a_history_that_has_grown_as_long_again_is_noticed(rig: &dyn Rig) {
    grown_again(rig, HubLimits::default(), &["b"]);
}

pub fn h06_a_history_that_has_grown_longer_is_noticed(rig: &dyn Rig) {
    grown_again(rig, HubLimits::default(), &["b", "c", "d"]);
}

/// Even where it is so much longer that images are loaded anew.
pub fn h06_a_history_that_has_grown_much_longer_is_noticed(rig: &dyn Rig) {
    let limits = HubLimits { delta_transactions_max: 3, ..HubLimits::default() };
    grown_again(rig, limits, &["b", "c", "d", "e", "f", "g"]);
}

pub fn h06_a_history_that_has_grown_much_larger_is_noticed(rig: &dyn Rig) {
    let limits = HubLimits { delta_bytes_max: 0, ..HubLimits::default() };
    grown_again(rig, limits, &["b", "c", "d"]);
}

/// While a backup is being restored there is nothing: that is no DROP ORG. What was seen is remembered, and
/// the store is marked as soon as there is something to mark.
pub fn h06_an_empty_store_is_no_drop(rig: &dyn Rig) {
    let empty = copy(rig, &SharedStore::new(rig.store()), "empty.redb");
    let (store, one) = shared(rig);
    let acme = org("acme");
    until_done(&one, &default(), 1, || Request::CreateOrg(acme.clone(), 7));
    let older = copy(rig, &store, "older.redb");
    until_done(&one, &default(), 200_000, || Request::CreateIfNotExists(role("a")));
    until_done(&one, &acme, 300_000, || Request::CreateIfNotExists(role("b")));
    store.replace(empty);
    for org in [&default(), &acme] {
        assert!(matches!(timed(one.refresh(org)), Err(StoreError::Diverged { .. })));
        assert!(one.diverged(org).is_some());
        is_diverged(&refused_to(&one, org, 400_000, || Request::CreateIfNotExists(role("c"))), org);
    }
    assert!(has(&one, &default(), "a") && has(&one, &acme, "b"), "what was acknowledged is not forgotten");
    store.replace(older);
    store.look();
    let (_, two) = second(&store);
    for org in [&default(), &acme] {
        until("it is marked", || store.is_halted(org));
        is_diverged(&refused_to(&two, org, 500_000, || Request::CreateIfNotExists(role("b"))), org);
    }
    assert!(has(&one, &default(), "a") && has(&one, &acme, "b"));
}

/// What was seen before is there again: everything goes on.
pub fn h06_a_history_that_is_back_is_gone_on_from(rig: &dyn Rig) {
    let empty = copy(rig, &SharedStore::new(rig.store()), "empty.redb");
    let (store, one) = shared(rig);
    until_done(&one, &default(), 1, || Request::CreateIfNotExists(role("a")));
    let same = copy(rig, &store, "same.redb");
    store.replace(empty);
    store.look();
    until("it is noticed", || one.diverged(&default()).is_some());
    // The mark was tried, too: it does not come to what is put in the place of this one.
    assert!(timed(one.refresh(&default())).is_err());
    store.replace(same);
    store.look();
    until("it is noticed", || one.diverged(&default()).is_none());
    assert!(until_done(&one, &default(), 200_000, || Request::CreateIfNotExists(role("b"))).is_some());
    assert_eq!(image(&one, &default()), stored(store.as_ref(), &default()));
}

/// A replica that was behind lacks a young org: nobody dropped it. Whoever has only that org loaded knows, too.
pub fn h06_an_org_that_a_lagging_replica_lacks_was_not_dropped(rig: &dyn Rig) {
    let (store, one) = shared(rig);
    let acme = org("acme");
    let older = copy(rig, &store, "older.redb");
    until_done(&one, &default(), 1, || Request::CreateOrg(acme.clone(), 7));
    let handle = store.handle();
    let two = open_with(&handle, HubLimits::default());
    assert!(image(&two, &acme).is_some());
    store.replace(older);
    let (_, three) = second(&store);
    until_done(&three, &default(), 200_000, || Request::CreateIfNotExists(role("b")));
    until_done(&three, &default(), 300_000, || Request::CreateOrg(org("other"), 8));
    for hub in [&one, &two] {
        assert!(matches!(timed(hub.refresh(&acme)), Err(StoreError::Diverged { .. })));
        assert!(image(hub, &acme).is_some());
        is_diverged(&refused_to(hub, &acme, 400_000, || Request::CreateIfNotExists(role("c"))), &acme);
    }
    // Nor was it dropped and made anew, where somebody makes one of its name.
    if until_made(&three, &acme) {
        assert!(matches!(timed(two.refresh(&acme)), Err(StoreError::Diverged { .. })));
    }
}

/// Makes the org with a later id. False: its history has been stopped already.
fn until_made(hub: &Hub<Planner>, org: &OrgName) -> bool {
    for id in 0..10u128 {
        match submit(hub, &default(), 600_000 + id, Request::CreateOrg(org.clone(), 20)).wait() {
            Ok(_) => return true,
            Err(SubmitError::Failed(StoreError::Io { .. })) => {}
            Err(error) => {
                is_diverged(&error, &default());
                return false;
            }
        }
    }
    panic!("not made after 10 tries")
}

/// Whoever has an org loaded, and not `default`, is told by the history of `default` that it was dropped.
pub fn an_org_that_was_dropped_is_gone_for_who_has_only_that(rig: &dyn Rig) {
    let (store, one) = shared(rig);
    let (acme, made_anew) = (org("acme"), org("anew"));
    until_done(&one, &default(), 1, || Request::CreateOrg(acme.clone(), 7));
    until_done(&one, &default(), 200_000, || Request::CreateOrg(made_anew.clone(), 8));
    let handle = store.handle();
    let two = open_with(&handle, HubLimits::default());
    assert!(image(&two, &acme).is_some() && image(&two, &made_anew).is_some());
    until_done(&one, &default(), 300_000, || Request::DropOrg(acme.clone()));
    until_done(&one, &default(), 400_000, || Request::DropOrg(made_anew.clone()));
    until_done(&one, &default(), 500_000, || Request::CreateOrg(made_anew.clone(), 9));
    for org in [&acme, &made_anew] {
        timed(two.refresh(org)).unwrap();
        assert_eq!(image(&two, org), stored(store.as_ref(), org));
    }
    assert_eq!((image(&two, &acme), two.all_diverged()), (None, Vec::new()));
}

/// A history that diverged is the matter of its own org: the others go on, and hear nothing of it, though
/// their transactions come in the same group.
pub fn h06_an_org_that_diverged_stops_no_other(rig: &dyn Rig) {
    let (store, one) = shared(rig);
    let acme = org("acme");
    until_done(&one, &default(), 1, || Request::CreateOrg(acme.clone(), 7));
    let (_, two) = second(&store);
    let older = copy(rig, &store, "older.redb");
    until_done(&one, &acme, 200_000, || Request::CreateIfNotExists(role("a")));
    assert!(image(&two, &acme).is_some());
    let (sender, tickets) = mpsc::channel();
    let (hub, done, server, name) = (one.clone(), AtomicBool::new(false), store.handle(), acme.clone());
    store.set_meanwhile(Moment::Asked, move || {
        if done.swap(true, Ordering::AcqRel) {
            return;
        }
        // They wait for the group that is under way, and are the next one.
        let _ = sender.send(submit(&hub, &name, 300_000, Request::CreateIfNotExists(role("b"))));
        let _ = sender.send(submit(&hub, &default(), 400_000, Request::CreateIfNotExists(role("b"))));
        server.replace(Arc::clone(&older));
    });
    assert_eq!(until_done(&one, &default(), 500_000, || Request::CreateIfNotExists(role("admin"))), None);
    let (of_acme, of_default) = (tickets.recv().unwrap().wait(), tickets.recv().unwrap().wait());
    is_diverged(&of_acme.err().unwrap(), &acme);
    assert!(of_default.is_ok_and(|done| done.seq.is_some()));
    assert_eq!((one.diverged(&default()), one.all_diverged()), (None, vec![acme.clone()]));
    store.look();
    assert!(until_done(&one, &default(), 600_000, || Request::CreateIfNotExists(role("c"))).is_some());
    // The same for who only finds the mark.
    is_diverged(&refused_to(&two, &acme, 700_000, || Request::CreateIfNotExists(role("c"))), &acme);
    timed(two.refresh(&default())).unwrap();
    assert!(until_done(&two, &default(), 800_000, || Request::CreateIfNotExists(role("d"))).is_some());
}

/// The way leads to another store: that is said, and nothing in it is touched.
pub fn h06_another_store_is_not_taken_for_this_one(rig: &dyn Rig) {
    let (store, one) = shared(rig);
    until_done(&one, &default(), 1, || Request::CreateIfNotExists(role("a")));
    store.replace(open_memory().unwrap());
    match timed(one.refresh(&default())) {
        Err(StoreError::Postgres(error)) => assert!(matches!(*error, PostgresError::AnotherStore { .. }), "{error}"),
        other => panic!("{other:?}"),
    }
    assert!(has(&one, &default(), "a"));
    assert_eq!(one.diverged(&default()), None);
}
