//! M5: who is told of a transaction that it was not committed is never proved wrong.

use std::thread;

use dataglot_model::{Seq, TransactionId};
use dataglot_pgtest::{Cluster, Database};
use dataglot_store::conformance::hub::block_on;
use dataglot_store::conformance::image::{Request, submit};
use dataglot_store::conformance::sample::role;
use dataglot_store::fault::{Fault, FaultStore};
use dataglot_store::{StoreError, SubmitError, open_postgres};

use crate::backend::{committed, create, default, has, hub, until, until_looked};
use crate::outage::{Session, through};
use crate::proxy::Proxy;
use crate::rig::open;

/// Lets what is held go on to the server, and waits until the session that commits has done it.
fn deliver(proxy: &Proxy, database: &Database) {
    let now = database.query_one("SELECT clock_timestamp()");
    proxy.hold_questions(false);
    let done = format!(
        "SELECT count(*) FROM pg_stat_activity a JOIN pg_locks l USING (pid) \
         WHERE l.locktype = 'advisory' AND l.mode = 'ExclusiveLock' AND a.datname = current_database() \
         AND a.state = 'idle' \
         AND a.query_start > '{now}'"
    );
    until("it arrives", || database.query_one(&done) == "1");
}

/// The commit is on a line that is held, and its coordinator has given up. Another coordinator says that it
/// was not committed; then it arrives.
#[test]
fn m5_a_commit_that_arrives_after_the_answer_does_nothing() {
    let database = Cluster::shared().database();
    let proxy = Proxy::start(Cluster::shared().port());
    let (one, two) = (hub(open_postgres(through(&proxy, &database)).unwrap()), hub(open(&database)));
    until_looked(&database, 2);
    create(&one, 6, "before").unwrap();
    proxy.hold_questions(true);
    let lost = thread::scope(|scope| {
        let writer = scope.spawn(|| create(&one, 7, "a"));
        until("it is sent", || proxy.holds(&TransactionId(7).to_string()));
        proxy.refuse_new(true);
        proxy.cut_clients();
        writer.join().unwrap()
    });
    assert_eq!(lost, Err(SubmitError::Unknown(TransactionId(7))));
    assert_eq!(block_on(two.transaction(&default(), TransactionId(7))), Ok(None));
    deliver(&proxy, &database);
    assert_eq!(committed(&database), "2");
    assert_eq!(block_on(two.transaction(&default(), TransactionId(7))), Ok(None));
    // Its own coordinator says the same, and goes on.
    proxy.refuse_new(false);
    until("it is reached", || block_on(one.transaction(&default(), TransactionId(7))) == Ok(None));
    let done = submit(&one, &default(), 8, Request::Create(role("b"))).wait().unwrap_or_else(|e| panic!("{e:?}"));
    assert_eq!(done.seq, Some(Seq(3)));
    assert!(has(&one, "b") && !has(&one, "a"));
    // What is there is found by everybody.
    for hub in [&one, &two] {
        assert_eq!(block_on(hub.transaction(&default(), done.id)), Ok(Some(Seq(3))));
    }
}

/// The same where the coordinator has not given up: it commits the transaction all the same, under another id.
#[test]
fn m5_what_was_said_not_to_be_committed_is_not_committed_by_a_retry() {
    let database = Cluster::shared().database();
    let proxy = Proxy::start(Cluster::shared().port());
    let (one, two) = (hub(open_postgres(through(&proxy, &database)).unwrap()), hub(open(&database)));
    until_looked(&database, 2);
    create(&one, 6, "before").unwrap();
    proxy.hold_questions(true);
    let ticket = submit(&one, &default(), 7, Request::Create(role("a")));
    until("it is sent", || proxy.holds(&TransactionId(7).to_string()));
    assert_eq!(block_on(two.transaction(&default(), TransactionId(7))), Ok(None));
    proxy.hold_questions(false);
    let done = ticket.wait().unwrap_or_else(|error| panic!("{error:?}"));
    assert_eq!(done.seq, Some(Seq(3)));
    assert_ne!(done.id, TransactionId(7));
    for hub in [&one, &two] {
        assert_eq!(block_on(hub.transaction(&default(), TransactionId(7))), Ok(None));
        assert_eq!(block_on(hub.transaction(&default(), done.id)), Ok(Some(Seq(3))));
    }
}

/// Whoever has lost again and again gets a turn of his own. If somebody has moved the fence by then, what he writes
/// in that turn has other ids already: he does not lose once more.
#[test]
fn m5_a_turn_takes_the_fence_as_it_is() {
    let database = Cluster::shared().database();
    let store = FaultStore::new(open(&database));
    let (one, two) = (hub(store.clone()), hub(open(&database)));
    create(&one, 6, "before").unwrap();
    assert_eq!(block_on(two.transaction(&default(), TransactionId(7))), Ok(None));
    store.next([Fault::Conflict; 3]);
    let before = store.commits();
    let done = submit(&one, &default(), 7, Request::Create(role("a"))).wait().unwrap_or_else(|e| panic!("{e:?}"));
    assert_eq!(store.commits() - before, 4);
    assert_eq!(done.seq, Some(Seq(3)));
    assert_ne!(done.id, TransactionId(7));
    assert_eq!(block_on(two.transaction(&default(), TransactionId(7))), Ok(None));
    assert_eq!(block_on(two.transaction(&default(), done.id)), Ok(Some(Seq(3))));
}

/// However many ask, one at a time makes it so: the others neither lock nor write meanwhile.
#[test]
fn m5_who_asks_waits_for_who_asked_before() {
    let database = Cluster::shared().database();
    let hub = hub(open(&database));
    create(&hub, 6, "before").unwrap();
    let blocker = Session::open(&database.superuser_dsn(), "BEGIN; SELECT * FROM dataglot.heads FOR UPDATE");
    let waiting = "SELECT count(*) FROM pg_stat_activity \
                   WHERE wait_event_type = 'Lock' AND query LIKE '%heads%' AND datname = current_database()";
    thread::scope(|scope| {
        let hub = &hub;
        let askers: Vec<_> = (0..4)
            .map(|i| scope.spawn(move || block_on(hub.transaction(&default(), TransactionId(100 + i)))))
            .collect();
        until("one waits", || database.query_one(waiting) != "0");
        // What only reads is not held up by them, however long they wait.
        assert_eq!(block_on(hub.changes(&default(), Seq(0), 10)).unwrap().len(), 2);
        assert!(["0", "1"].contains(&database.query_one(waiting).as_str()));
        drop(blocker);
        for asker in askers {
            // The server gives up on one that waits for long.
            let answer = asker.join().unwrap();
            assert!(matches!(answer, Ok(None) | Err(StoreError::Unavailable { .. })), "{answer:?}");
        }
    });
}

/// Who asks while it is being committed waits for it.
#[test]
fn m5_a_commit_under_way_is_waited_for() {
    let database = Cluster::shared().database();
    let (one, two) = (hub(open(&database)), hub(open(&database)));
    create(&one, 6, "before").unwrap();
    let blocker = Session::open(&database.superuser_dsn(), "BEGIN; SELECT * FROM dataglot.heads FOR UPDATE");
    let waiting = "SELECT count(*) FROM pg_stat_activity \
                   WHERE wait_event_type = 'Lock' AND query LIKE '%heads%' AND datname = current_database()";
    thread::scope(|scope| {
        let writer = scope.spawn(|| create(&one, 7, "a"));
        until("the commit waits", || database.query_one(waiting) == "1");
        let asker = scope.spawn(|| block_on(two.transaction(&default(), TransactionId(7))));
        until("the question waits", || database.query_one(waiting) == "2");
        drop(blocker);
        assert_eq!(writer.join().unwrap().unwrap(), Seq(3));
        assert_eq!(asker.join().unwrap(), Ok(Some(Seq(3))));
    });
}
