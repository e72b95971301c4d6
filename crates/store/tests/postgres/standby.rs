//! What was acknowledged is on the standby that a commit has to reach.

use std::thread;
use std::time::Duration;

use dataglot_model::{Seq, TransactionId};
use dataglot_pgtest::{Cluster, ClusterOptions, Database};
use dataglot_store::conformance::hub::block_on;
use dataglot_store::{Dsn, Freshness, PostgresOptions, StoreError, SubmitError, open_postgres};

use crate::backend::{committed, create, default, has, hub, until};
use crate::rig::options;

/// M4: the session that waits for a standby is ended, which makes its transaction visible; that alone is
/// no reason to say that it is durable.
#[test]
fn m4_a_commit_that_no_standby_has_is_not_acknowledged() {
    let cluster = Cluster::start(ClusterOptions::default());
    let database = cluster.database();
    let patience = Duration::from_secs(1);
    let store = open_postgres(PostgresOptions { statement_timeout: patience, ..options(&database) }).unwrap();
    let hub = hub(store);
    create(&hub, 1, "before").unwrap();

    let wanted = Wanted(&cluster);
    wanted.set("nobody");
    // The server takes the setting over in its own time.
    let (id, seq) = (2..10_000)
        .find_map(|id| match create(&hub, id, &format!("r{id}")) {
            Ok(_) => None,
            Err(SubmitError::Unknown(_)) => Some((id, Seq(u64::try_from(id).unwrap() + 1))),
            Err(error) => panic!("{error:?}"),
        })
        .unwrap();
    let lost = format!("r{id}");
    let on_server = format!("SELECT count(*) FROM dataglot.changes WHERE seq = {seq}");
    assert_eq!(database.query_one(&on_server), "1", "the server has it, and cannot take it back");
    // To look for another one settles nothing.
    for _ in 0..2 {
        assert!(hub.store().find_transaction(&default(), TransactionId(99_999)).is_err());
    }
    assert!(hub.store().find_transaction(&default(), TransactionId(id)).is_err());
    // Nor is anything else done before it is known.
    assert!(matches!(create(&hub, 20_000, "next"), Err(SubmitError::Failed(_))));

    drop(wanted);
    let settled = || hub.store().find_transaction(&default(), TransactionId(id)) == Ok(Some(seq));
    until("it is settled", settled);
    assert_eq!(create(&hub, 30_000, "next"), Ok(seq.next()));
    assert!(has(&hub, &lost));
}

/// How many sessions of the node wait for a standby.
fn waiting(database: &Database, node: &str) -> String {
    database.query_one(&format!(
        "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND datname = current_database() \
         AND application_name = 'dataglot {node}'"
    ))
}

/// A server whose commits wait for ever from now on, and a store in it for the node, which is as patient.
fn patient(database: &Database, node: &str) -> PostgresOptions {
    PostgresOptions { statement_timeout: Duration::from_secs(120), node: node.to_owned(), ..options(database) }
}

/// Until the server has taken over what `wanted` set: a commit waits then.
fn until_commits_wait(database: &Database) {
    let cluster_says = "SHOW synchronous_standby_names";
    until("it is set", || database.query_one(cluster_says) == "nobody");
}

/// M4: whoever asks for a transaction that is visible and on no standby yet waits until it is there.
#[test]
fn m4_a_transaction_that_no_standby_has_is_not_said_to_be_committed() {
    let cluster = Cluster::start(ClusterOptions::default());
    let database = cluster.database();
    let one = hub(open_postgres(patient(&database, "one")).unwrap());
    let two = hub(open_postgres(patient(&database, "two")).unwrap());
    let mut last = create(&one, 1, "before").unwrap().0;
    let wanted = Wanted(&cluster);
    wanted.set("nobody");
    until_commits_wait(&database);
    thread::scope(|scope| {
        // The server's other processes take the setting over in their own time.
        let id = (2..10_000)
            .find(|&id| {
                let one = &one;
                let writer = scope.spawn(move || create(one, id, &format!("r{id}")).is_ok());
                until("it is committed or waits", || writer.is_finished() || waiting(&database, "one") == "1");
                last += 1;
                !writer.is_finished()
            })
            .unwrap();
        // The session that waits is ended: the transaction is visible. Its coordinator waits on.
        database.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'");
        until("it is visible", || committed(&database) == last.to_string());
        let two = &two;
        let asker = scope.spawn(move || block_on(two.transaction(&default(), TransactionId(id))));
        until("the question is answered or waits", || asker.is_finished() || waiting(&database, "two") == "1");
        assert!(!asker.is_finished(), "{:?}", asker.join());
        drop(wanted);
        assert_eq!(asker.join().unwrap(), Ok(Some(Seq(last))));
    });
}

/// M4: a server whose wait for a standby is cancelled says that all went well, and warns.
#[test]
fn m4_a_commit_whose_wait_was_cancelled_is_not_acknowledged() {
    let cluster = Cluster::start(ClusterOptions::default());
    let database = cluster.database();
    let hub = hub(open_postgres(patient(&database, "one")).unwrap());
    create(&hub, 1, "before").unwrap();
    let wanted = Wanted(&cluster);
    wanted.set("nobody");
    until_commits_wait(&database);
    let cancel = "SELECT count(pg_cancel_backend(pid)) FROM pg_stat_activity WHERE wait_event = 'SyncRep'";
    let (id, answer) = (2..10_000)
        .find_map(|id| {
            let answer = thread::scope(|scope| {
                let writer = scope.spawn(|| create(&hub, id, &format!("r{id}")));
                let mut cancelled = false;
                until("it is answered", || {
                    cancelled |= database.query_one(cancel) != "0";
                    writer.is_finished()
                });
                cancelled.then(|| writer.join().unwrap())
            });
            answer.map(|answer| (id, answer))
        })
        .unwrap();
    assert_eq!(answer, Err(SubmitError::Unknown(TransactionId(id))));
    drop(wanted);
    until("it is settled", || matches!(block_on(hub.transaction(&default(), TransactionId(id))), Ok(Some(_))));
    until("writes go on", || create(&hub, 20_000, "next").is_ok());
    assert!(has(&hub, &format!("r{id}")));
}

/// H-06: a replica that is behind is no shorter history, whatever kind of server the string admits.
#[test]
fn h06_a_replica_is_not_read() {
    let primary = Cluster::start(ClusterOptions::default());
    let database = primary.database();
    let standby = Cluster::standby_of(&primary, ClusterOptions::default());
    let dsn = |attrs: &str| {
        let text = format!(
            "host=127.0.0.1,127.0.0.1 port={},{} user={name} dbname={name} target_session_attrs={attrs}",
            primary.port(),
            standby.port(),
            name = database.name()
        );
        PostgresOptions::new(Dsn::parse(&text).unwrap())
    };
    let refused = open_postgres(dsn("prefer-standby")).err().unwrap();
    assert!(refused.to_string().contains("read replica"), "{refused}");
    let hub = hub(open_postgres(dsn("any")).unwrap());
    standby.catch_up_with(&primary);
    standby.execute("SELECT pg_wal_replay_pause()");
    create(&hub, 2, "a").unwrap();
    primary.stop_fast();
    until("it is noticed", || matches!(hub.freshness(), Freshness::Stale { .. }));
    for _ in 0..3 {
        let read = hub.store().head(&default());
        assert!(matches!(read, Err(StoreError::Unavailable { .. })), "{read:?}");
    }
    primary.start_again();
    until("it is back", || hub.freshness() == Freshness::Current);
    assert_eq!(hub.diverged(&default()), None);
    create(&hub, 3, "b").unwrap();
}

/// The standby that commits have to reach. When it is dropped, none: nothing could be tidied up otherwise.
struct Wanted<'a>(&'a Cluster);

impl Wanted<'_> {
    fn set(&self, names: &str) {
        self.0.execute(&format!("ALTER SYSTEM SET synchronous_standby_names = '{names}'"));
        self.0.execute("SELECT pg_reload_conf()");
    }
}

impl Drop for Wanted<'_> {
    fn drop(&mut self) {
        self.set("");
    }
}
