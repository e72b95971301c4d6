//! Lost answers, a network that is cut, a server that dies.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use dataglot_model::{Seq, TransactionId};
use dataglot_pgtest::{Cluster, ClusterOptions, Database};
use dataglot_store::conformance::image::Planner;
use dataglot_store::{
    Dsn, Freshness, Hub, HubLimits, PostgresError, PostgresOptions, StoreError, SubmitError, open_postgres,
};

use crate::backend::{committed, create, default, has, hub, until, until_looked};
use crate::proxy::Proxy;
use crate::rig::open;

/// A store whose server is reached through `proxy`.
pub(crate) fn through(proxy: &Proxy, database: &Database) -> PostgresOptions {
    let dsn = format!(
        "host=127.0.0.1 port={} user={name} password={} dbname={name} sslmode=disable",
        proxy.port(),
        database.password(),
        name = database.name()
    );
    PostgresOptions::new(Dsn::parse(&dsn).unwrap())
}

/// The commit is there, its answer is not.
#[test]
fn a_lost_reply_is_settled() {
    let database = Cluster::shared().database();
    let proxy = Proxy::start(Cluster::shared().port());
    let hub = hub(open_postgres(through(&proxy, &database)).unwrap());
    until_looked(&database, 1);
    // So that the next one is one message.
    create(&hub, 6, "before").unwrap();
    proxy.lose_replies(true);
    thread::scope(|scope| {
        let writer = scope.spawn(|| create(&hub, 7, "a"));
        until("committed", || committed(&database) == "3");
        proxy.lose_replies(false);
        proxy.cut_clients();
        assert_eq!(writer.join().unwrap().unwrap(), Seq(3));
    });
    assert!(has(&hub, "a"));
    assert_eq!(create(&hub, 8, "b").unwrap(), Seq(4));
}

/// The commit is still on its way when its connection is lost: it must not arrive after it was declared lost.
#[test]
fn a_commit_that_was_declared_lost_does_not_come_after_all() {
    let database = Cluster::shared().database();
    let proxy = Proxy::start(Cluster::shared().port());
    let store = open_postgres(through(&proxy, &database)).unwrap();
    let hub = hub(Arc::clone(&store));
    let blocker = Session::open(&database.superuser_dsn(), "BEGIN; SELECT * FROM dataglot.heads FOR UPDATE");
    let waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%heads%'";
    thread::scope(|scope| {
        let writer = scope.spawn(|| create(&hub, 7, "a"));
        until("the commit waits", || database.query_one(waiting) == "1");
        proxy.cut_clients();
        let lost = writer.join().unwrap();
        assert!(matches!(lost, Err(SubmitError::Failed(StoreError::ConnectionLost))), "{lost:?}");
    });
    // The session that wanted it is gone, though nobody told the server that its client was.
    assert_eq!(database.query_one(waiting), "0");
    drop(blocker);
    assert_eq!(store.find_transaction(&default(), TransactionId(7)), Ok(None));
    assert_eq!(create(&hub, 8, "b").unwrap(), Seq(2));
    assert!(!has(&hub, "a"));
}

/// A head that somebody keeps locked is waited for once, and not again and again.
#[test]
fn a_lock_that_is_not_to_be_had_fails_the_commit() {
    let database = Cluster::shared().database();
    let hub = hub(open(&database));
    create(&hub, 6, "before").unwrap();
    let blocker = Session::open(&database.superuser_dsn(), "BEGIN; SELECT * FROM dataglot.heads FOR UPDATE");
    let given_up = create(&hub, 7, "a");
    assert!(matches!(given_up, Err(SubmitError::Failed(StoreError::Unavailable { .. }))), "{given_up:?}");
    drop(blocker);
    assert_eq!(create(&hub, 8, "b"), Ok(Seq(3)));
    assert!(!has(&hub, "a"));
}

/// A server that stops where it is, as a machine that hangs does: once that is known, nothing is sent to it.
#[test]
fn m7_a_server_that_falls_silent_is_not_asked() {
    let cluster = Cluster::start(ClusterOptions::default());
    let database = cluster.database();
    let hub = hub(open(&database));
    let lease = Duration::from_secs(3600);
    let hub = {
        let store = Arc::clone(hub.store());
        drop(hub);
        Hub::open(store, Planner, HubLimits { lease, ..HubLimits::default() }).unwrap()
    };
    hub.state(&default()).unwrap().unwrap();
    create(&hub, 2, "a").unwrap();
    // All that read.
    thread::scope(|scope| {
        for _ in 0..6 {
            scope.spawn(|| (0..20).for_each(|_| assert!(hub.store().head(&default()).unwrap().is_some())));
        }
    });
    cluster.pause();
    // With such a lease that is not by its age.
    until("it is noticed", || matches!(hub.freshness(), Freshness::Stale { .. }));
    let down = create(&hub, 3, "b");
    assert!(matches!(down, Err(SubmitError::Failed(StoreError::Unavailable { .. }))), "{down:?}");
    for _ in 0..4 {
        let read = hub.store().head(&default());
        assert!(matches!(read, Err(StoreError::Unavailable { .. })), "{read:?}");
    }
    cluster.resume();
    until("it is back", || hub.freshness() == Freshness::Current);
    until("writes go on", || create(&hub, 4, "c").is_ok());
    assert!(has(&hub, "a") && !has(&hub, "b") && has(&hub, "c"));
    assert_eq!(committed(&database), "3");
}

/// A session that stays open until it is dropped.
pub(crate) struct Session {
    runtime: tokio::runtime::Runtime,
    client: Option<tokio_postgres::Client>,
    connection: Option<tokio::task::JoinHandle<()>>,
}

impl Session {
    pub(crate) fn open(dsn: &str, sql: &str) -> Session {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let (client, connection) = runtime.block_on(tokio_postgres::connect(dsn, tokio_postgres::NoTls)).unwrap();
        let connection = runtime.spawn(async move { drop(connection.await) });
        runtime.block_on(client.batch_execute(sql)).unwrap();
        Session { runtime, client: Some(client), connection: Some(connection) }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        drop(self.client.take());
        if let Some(connection) = self.connection.take() {
            let _ = self.runtime.block_on(connection);
        }
    }
}

/// Without its server reads go on and writes fail; with it all is well again, without a restart.
#[test]
fn m7_a_server_that_dies_is_survived() {
    let cluster = Cluster::start(ClusterOptions { fsync: true, ..ClusterOptions::default() });
    let database = cluster.database();
    let hub = hub(open(&database));
    create(&hub, 2, "a").unwrap();
    cluster.stop_immediate();
    let down = create(&hub, 3, "b");
    assert!(
        matches!(down, Err(SubmitError::Failed(StoreError::Unavailable { .. } | StoreError::ConnectionLost))),
        "{down:?}"
    );
    until("it is noticed", || matches!(hub.freshness(), Freshness::Stale { .. }));
    assert!(has(&hub, "a"));
    assert!(hub.store().health().is_err());
    cluster.start_again();
    until("it is back", || hub.freshness() == Freshness::Current);
    until("writes go on", || create(&hub, 4, "c").is_ok());
    assert!(has(&hub, "a") && !has(&hub, "b") && has(&hub, "c"));
    assert_eq!(committed(&database), "3");
}

/// The same where it is the way to the server that is gone: the listener finds the way back, and the others
/// by it.
#[test]
fn m7_a_network_that_is_cut_is_survived() {
    let database = Cluster::shared().database();
    let proxy = Proxy::start(Cluster::shared().port());
    let hub = hub(open_postgres(through(&proxy, &database)).unwrap());
    for round in 0..3u128 {
        proxy.set_down(true);
        until("it is noticed", || matches!(hub.freshness(), Freshness::Stale { .. }));
        let down = create(&hub, 10 * round, "never");
        assert!(matches!(down, Err(SubmitError::Failed(StoreError::Unavailable { .. }))), "{down:?}");
        assert!(matches!(hub.store().head(&default()), Err(StoreError::Unavailable { .. })));
        proxy.set_down(false);
        until("it is back", || hub.freshness() == Freshness::Current);
        create(&hub, 10 * round + 1, &format!("r{round}")).unwrap();
    }
    assert_eq!(hub.state(&default()).unwrap().unwrap().rows.len(), 4);
}

/// A connection that the server has closed while nobody used it is replaced before anybody notices.
#[test]
fn idle_connections_that_were_cut_are_replaced() {
    let database = Cluster::shared().database();
    let hub = hub(open(&database));
    for id in 2..6u64 {
        database.terminate_connections();
        assert_eq!(create(&hub, u128::from(id), &format!("r{id}")).unwrap(), Seq(id));
        database.terminate_connections();
        assert_eq!(hub.store().head(&default()).unwrap().unwrap().seq, Seq(id));
    }
}

/// Another database behind the same name is noticed before anything is written to it.
#[test]
fn another_store_in_the_place_of_ours_is_not_written() {
    let (ours, theirs) = (Cluster::shared().database(), Cluster::shared().database());
    let hub = hub(open(&ours));
    drop(open(&theirs));
    ours.terminate_connections();
    let id = theirs.query_one("SELECT encode(value, 'hex') FROM dataglot.meta WHERE key = 'store_id'");
    ours.execute(&format!(
        "SET search_path = dataglot; ALTER TABLE meta DISABLE TRIGGER ALL;
         UPDATE meta SET value = decode('{id}', 'hex') WHERE key = 'store_id'"
    ));
    let refused = create(&hub, 2, "a");
    let Err(SubmitError::Failed(StoreError::Postgres(error))) = &refused else { panic!("{refused:?}") };
    assert!(matches!(**error, PostgresError::AnotherStore { .. }), "{error:?}");
    assert_eq!(committed(&ours), "1");
    assert!(hub.store().health().is_err());
}
