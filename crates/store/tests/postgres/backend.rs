//! What only a store in PostgreSQL has to do: lost answers, lost listeners, a server that goes away.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use dataglot_model::{ChangedStatement, HeadRecord, Mutation, OrgName, Row, Seq, Timestamp, TransactionId};
use dataglot_pgtest::{Cluster, ClusterOptions, Database};
use dataglot_store::conformance::hub::block_on;
use dataglot_store::conformance::image::{Planner, Request, submit};
use dataglot_store::conformance::sample::{name, role, rows};
use dataglot_store::{
    Dsn, FirstOrg, Freshness, Hub, HubLimits, MetaStore, PostgresError, PostgresOptions, StoreError, SubmitError,
    Table, Watcher, open_postgres,
};

use crate::proxy::Proxy;
use crate::rig::{open, options};

/// How long a test waits for what has to happen.
const DEADLINE: Duration = Duration::from_secs(60);

pub(crate) fn default() -> OrgName {
    OrgName::default_org()
}

#[track_caller]
pub(crate) fn until(what: &str, mut done: impl FnMut() -> bool) {
    let deadline = Instant::now() + DEADLINE;
    while !done() {
        assert!(Instant::now() < deadline, "{what}");
        thread::sleep(Duration::from_millis(2));
    }
}

fn first_org() -> FirstOrg {
    let statement = ChangedStatement { sql: "CREATE USER admin".into(), mutations: vec![Mutation::Put(role("admin"))] };
    FirstOrg {
        name: default(),
        org_id: 1,
        id: TransactionId(u128::MAX),
        at: Timestamp(1),
        actor: name("admin"),
        session: "1 (test)".into(),
        statement,
    }
}

pub(crate) fn hub(store: Arc<dyn MetaStore>) -> Hub<Planner> {
    let hub = Hub::open(store, Planner, HubLimits::default()).unwrap();
    match block_on(hub.create_first_org(first_org())) {
        Ok(_) | Err(StoreError::Contended) => hub.state(&default()).unwrap().unwrap(),
        Err(error) => panic!("{error}"),
    };
    hub
}

pub(crate) fn create(
    hub: &Hub<Planner>,
    id: u128,
    text: &str,
) -> Result<Seq, SubmitError<dataglot_store::conformance::image::Refusal>> {
    submit(hub, &default(), id, Request::Create(role(text))).wait().map(|done| done.seq.unwrap())
}

pub(crate) fn has(hub: &Hub<Planner>, text: &str) -> bool {
    hub.state(&default()).unwrap().unwrap().rows.contains_key(&role(text).key())
}

/// A store whose server is reached through `proxy`.
fn through(proxy: &Proxy, database: &Database) -> PostgresOptions {
    let dsn = format!(
        "host=127.0.0.1 port={} user={name} password={} dbname={name} sslmode=disable",
        proxy.port(),
        database.password(),
        name = database.name()
    );
    PostgresOptions::new(Dsn::parse(&dsn).unwrap())
}

fn committed(database: &Database) -> String {
    database.query_one("SELECT coalesce(max(seq), 0) FROM dataglot.changes")
}

/// C041 with two processes: each writer gets a number of its own, and none is missing.
#[test]
fn two_processes_lose_nothing() {
    let database = Cluster::shared().database();
    let hubs = [hub(open(&database)), hub(open(&database))];
    let numbers: BTreeSet<u64> = thread::scope(|scope| {
        let writers: Vec<_> = (0..6u128)
            .map(|writer| {
                let hub = &hubs[usize::from(writer % 2 == 0)];
                scope.spawn(move || {
                    let one = |i| {
                        for attempt in 0..50u128 {
                            match create(hub, 1_000 * writer + 10 * i + 100_000 * attempt, &format!("w{writer}-{i}")) {
                                Ok(seq) => return seq.0,
                                Err(SubmitError::Failed(StoreError::Contended)) => {}
                                Err(error) => panic!("{error:?}"),
                            }
                        }
                        panic!("not done after 50 tries")
                    };
                    (0..10u128).map(one).collect::<Vec<_>>()
                })
            })
            .collect();
        writers.into_iter().flat_map(|w| w.join().unwrap()).collect()
    });
    assert_eq!(numbers, (2..=61).collect());
    for hub in &hubs {
        until("both have all", || hub.state(&default()).unwrap().unwrap().rows.len() == 61);
    }
}

/// The commit is there, its answer is not.
#[test]
fn a_lost_reply_is_settled() {
    let database = Cluster::shared().database();
    let proxy = Proxy::start(Cluster::shared().port());
    let hub = hub(open_postgres(through(&proxy, &database)).unwrap());
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

/// A session that stays open until it is dropped.
struct Session {
    runtime: tokio::runtime::Runtime,
    client: Option<tokio_postgres::Client>,
    connection: Option<tokio::task::JoinHandle<()>>,
}

impl Session {
    fn open(dsn: &str, sql: &str) -> Session {
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

/// C107, H-03: what happened while the listener was away is seen.
#[test]
fn c107_a_listener_that_was_cut_misses_nothing() {
    let database = Cluster::shared().database();
    let (one, two) = (hub(open(&database)), hub(open(&database)));
    for round in 0..5u128 {
        database.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
             WHERE datname = current_database() AND query LIKE '%LISTEN%' AND pid <> pg_backend_pid()",
        );
        for i in 0..5u128 {
            create(&one, 1 + 10 * round + i, &format!("r{round}-{i}")).unwrap();
        }
        until("the other one has them", || has(&two, &format!("r{round}-4")));
    }
    until("and is in contact", || two.freshness() == Freshness::Current);
    assert_eq!(one.state(&default()).unwrap(), two.state(&default()).unwrap());
}

type Heads = Vec<(OrgName, Option<HeadRecord>)>;

/// Remembers what it was told.
#[derive(Default)]
struct Notes {
    seen: Mutex<Option<Heads>>,
    hints: Mutex<Vec<(OrgName, Seq)>>,
    lost: Mutex<usize>,
}

impl Watcher for Notes {
    fn orgs(&self) -> Vec<OrgName> {
        vec![default(), OrgName::new("nobody").unwrap()]
    }

    fn seen(&self, _: Instant, heads: Heads) {
        *self.seen.lock().unwrap() = Some(heads);
    }

    fn hint(&self, org: OrgName, seq: Seq) {
        self.hints.lock().unwrap().push((org, seq));
    }

    fn lost(&self, _: &StoreError) {
        *self.lost.lock().unwrap() += 1;
    }
}

impl Notes {
    /// The number that was seen last.
    fn seq(&self) -> Option<u64> {
        let seen = self.seen.lock().unwrap();
        let heads = seen.as_ref()?;
        assert_eq!(heads.iter().map(|(org, _)| org.as_str()).collect::<Vec<_>>(), ["default", "nobody"]);
        assert_eq!(heads[1].1, None);
        heads[0].1.map(|head| head.seq.0)
    }
}

/// H-01, H-02: a hint is only a hint.
#[test]
fn h01_the_poll_alone_is_enough_and_strange_notifications_do_nothing() {
    let database = Cluster::shared().database();
    let hub = hub(open(&database));
    let store = open(&database);
    let notes = Arc::new(Notes::default());
    store.watch(Arc::<Notes>::clone(&notes)).unwrap();
    until("seen", || notes.seq() == Some(1));
    create(&hub, 2, "a").unwrap();
    until("a hint", || notes.hints.lock().unwrap().contains(&(default(), Seq(2))));
    until("seen", || notes.seq() == Some(2));

    notes.hints.lock().unwrap().clear();
    for payload in
        ["", "x", r#"{"org":"Not An Org","seq":1}"#, r#"{"org":1}"#, r#"{"org":"other","seq":18446744073709551615}"#]
    {
        database.execute(&format!("SELECT pg_notify('dataglot_changes', '{payload}'), pg_notify('foreign', 'x')"));
    }
    // Nobody is told of this one.
    database.execute("UPDATE dataglot.heads SET seq = 3");
    until("seen", || notes.seq() == Some(3));
    let other = (OrgName::new("other").unwrap(), Seq(u64::MAX));
    until("the one that could be", || *notes.hints.lock().unwrap() == [other.clone()]);
    assert_eq!(*notes.lost.lock().unwrap(), 0);

    // The thread ends with the store, and so do all its connections.
    let weak = Arc::downgrade(&notes);
    drop((store, notes));
    until("the follower ends", || weak.upgrade().is_none());
}

/// The listener never holds a transaction: it would keep the server's queue from being emptied.
#[test]
fn h03_the_listener_has_no_transaction_open() {
    let database = Cluster::shared().database();
    let hub = hub(open(&database));
    create(&hub, 2, "a").unwrap();
    let states = "SELECT DISTINCT state FROM pg_stat_activity \
                  WHERE datname = current_database() AND pid <> pg_backend_pid()";
    until("all are idle", || database.query(states) == ["idle"]);
}

/// C109: what goes over the channel is a name and a number, however large the change is.
#[test]
fn c109_a_large_change_has_a_small_notification() {
    let database = Cluster::shared().database();
    let hub = hub(open(&database));
    let view = rows().into_iter().find(|row| matches!(row, Row::View(..))).unwrap();
    let Row::View(view_name, def) = view else { unreachable!() };
    let mut def = def.as_ref().clone();
    def.query = format!("SELECT '{}'", "\u{1F600}".repeat(15_000)).into();
    let big = Mutation::Put(Row::View(view_name.clone(), Arc::new(def.clone())));
    let (grant_key, record) = rows()
        .into_iter()
        .find_map(|row| if let Row::Grant(key, record) = row { Some((key, record)) } else { None })
        .unwrap();
    let grants = (0..5_000).map(|i| {
        let mut key = grant_key.clone();
        key.grantee = dataglot_model::Grantee::Role(name(&format!("grantee{i}")));
        Mutation::Put(Row::Grant(key, Arc::clone(&record)))
    });
    let payloads = Payloads::listen(&database);
    for (id, batch) in [(2, vec![big]), (3, grants.collect::<Vec<_>>())] {
        submit(&hub, &default(), id, Request::Write(batch)).wait().ok().unwrap();
    }
    until("two notifications", || payloads.all().len() == 2);
    assert_eq!(payloads.all(), [r#"{"org":"default","seq":2}"#, r#"{"org":"default","seq":3}"#]);

    // And all of it is there for somebody else.
    let other = self::hub(open(&database));
    let state = other.state(&default()).unwrap().unwrap();
    assert_eq!(state.rows.len(), 5_002);
    let Some(Row::View(_, stored)) = state.rows.get(&Row::View(view_name, Arc::new(def.clone())).key()) else {
        panic!("no view")
    };
    assert_eq!(stored.query, def.query);
}

/// What arrives on the channel.
struct Payloads {
    received: Arc<Mutex<Vec<String>>>,
    _runtime: tokio::runtime::Runtime,
    _client: tokio_postgres::Client,
}

impl Payloads {
    fn listen(database: &Database) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let dsn = database.superuser_dsn();
        let (client, mut connection) = runtime.block_on(tokio_postgres::connect(&dsn, tokio_postgres::NoTls)).unwrap();
        let received = Arc::new(Mutex::new(Vec::new()));
        let sink = Arc::clone(&received);
        runtime.spawn(async move {
            while let Some(Ok(message)) = std::future::poll_fn(|cx| connection.poll_message(cx)).await {
                if let tokio_postgres::AsyncMessage::Notification(n) = message {
                    sink.lock().unwrap().push(n.payload().to_owned());
                }
            }
        });
        runtime.block_on(client.batch_execute("LISTEN dataglot_changes")).unwrap();
        Payloads { received, _runtime: runtime, _client: client }
    }

    fn all(&self) -> Vec<String> {
        self.received.lock().unwrap().clone()
    }
}

/// H-06: the mark is in the store, so every handle on it stops.
#[test]
fn h06_a_halted_org_is_refused_to_everybody() {
    let database = Cluster::shared().database();
    let (one, two) = (hub(open(&database)), hub(open(&database)));
    create(&one, 2, "a").unwrap();
    one.store().halt(&default(), Seq(9)).unwrap();
    // The first mark stays.
    two.store().halt(&default(), Seq(10)).unwrap();
    for (id, hub) in [(3, &one), (4, &two)] {
        let diverged = StoreError::Diverged { org: default(), seen: Seq(9) };
        until("refused", || match create(hub, id, "b") {
            Err(SubmitError::Failed(error)) if error == diverged => true,
            Err(SubmitError::Failed(StoreError::Contended)) => false,
            other => panic!("{other:?}"),
        });
    }
    assert_eq!(committed(&database), "2");
}

/// What is deleted with an org is deleted everywhere, and nothing of another one.
#[test]
fn an_org_goes_with_all_its_rows() {
    let database = Cluster::shared().database();
    let hub = hub(open(&database));
    let acme = OrgName::new("acme").unwrap();
    let run = |id, org: &OrgName, request| submit(&hub, org, id, request).wait().ok().unwrap().seq.unwrap();
    run(2, &default(), Request::CreateOrg(acme.clone(), 7));
    run(3, &acme, Request::Write(rows().into_iter().map(Mutation::Put).collect()));
    let tables = Table::ALL.iter().filter(|t| **t != Table::Meta).map(|t| t.as_str()).chain(["heads"]);
    let counts: Vec<_> = tables.map(|t| format!("(SELECT count(*) FROM dataglot.{t} WHERE org = 'acme')")).collect();
    let of_acme = &format!("SELECT {}", counts.join(" + "));
    let samples: BTreeSet<_> = rows().iter().map(Row::key).collect();
    // Every sample, the first role, two transactions, the head.
    assert_eq!(database.query_one(of_acme), (samples.len() + 4).to_string());
    run(4, &default(), Request::DropOrg(acme.clone()));
    assert_eq!(database.query_one(of_acme), "0");
    assert_eq!(run(5, &default(), Request::CreateOrg(acme.clone(), 8)), Seq(4));
    assert_eq!(run(6, &acme, Request::Create(role("anew"))), Seq(2));
    assert_eq!(database.query_one(of_acme), "5");
    assert_eq!(database.query_one("SELECT count(*) FROM dataglot.changes WHERE org = 'default'"), "4");
}

/// The columns by which people search are written by us: they say what the records say.
#[test]
fn what_people_search_for_is_what_the_records_say() {
    let database = Cluster::shared().database();
    let hub = hub(open(&database));
    let sample = || rows().into_iter().map(Mutation::Put).collect();
    for id in [2, 3] {
        submit(&hub, &default(), id, Request::Write(sample())).wait().ok().unwrap();
        let of_objects = "SELECT count(*) = count(id) AND count(owner) > 0 AND NOT bool_or
            (id IS DISTINCT FROM (body ->> 'id')::bigint OR owner IS DISTINCT FROM body ->> 'owner')
            FROM dataglot.objects";
        assert_eq!(database.query_one(of_objects), "t");
    }
    let of_changes = "SELECT count(at) || ' ' || count(actor) || ' ' || count(*) FILTER
        (WHERE at <> (body ->> 'at')::bigint OR actor <> body ->> 'by' OR transaction_id <> body ->> 'id')
        FROM dataglot.changes";
    assert_eq!(database.query_one(of_changes), "3 3 0");
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

/// A store in use leaves nothing behind when it is dropped, even on a thread of a runtime.
#[test]
fn a_store_that_is_dropped_closes_its_connections() {
    let database = Cluster::shared().database();
    let hub = hub(open_postgres(PostgresOptions { node: "n1".to_owned(), ..options(&database) }).unwrap());
    create(&hub, 2, "a").unwrap();
    let names = "SELECT DISTINCT application_name FROM pg_stat_activity \
                 WHERE datname = current_database() AND pid <> pg_backend_pid()";
    assert_eq!(database.query(names), ["dataglot n1"]);
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async move { drop(hub) });
    until("closed", || database.connections() == 0);
}

/// Four readers at once on fewer connections.
#[test]
fn reads_share_a_few_connections() {
    let database = Cluster::shared().database();
    let hub = hub(open(&database));
    let store = hub.store();
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| (0..50).for_each(|_| assert!(store.head(&default()).unwrap().is_some())));
        }
    });
    // Those that read, the one that writes, the one that listens.
    assert!(database.connections() <= 5, "{}", database.connections());
}

/// More than fits into one message, in one transaction, and read back by a delta and a load.
#[test]
fn what_is_too_large_for_one_statement_is_written_in_several() {
    let database = Cluster::shared().database();
    let (one, two) = (hub(open(&database)), hub(open(&database)));
    let batch: Vec<_> = (0..40_000).map(|i| Mutation::Put(role(&format!("role-with-a-long-name-{i:040}")))).collect();
    assert_eq!(submit(&one, &default(), 2, Request::Write(batch)).wait().ok().unwrap().seq, Some(Seq(2)));
    until("by delta", || two.state(&default()).unwrap().unwrap().rows.len() == 40_001);
    let three = hub(open(&database));
    assert_eq!(three.state(&default()).unwrap(), two.state(&default()).unwrap());
    let gone = (0..40_000).map(|i| Mutation::Delete(role(&format!("role-with-a-long-name-{i:040}")).key())).collect();
    submit(&two, &default(), 3, Request::Write(gone)).wait().ok().unwrap();
    until("by delta", || one.state(&default()).unwrap().unwrap().rows.len() == 1);
    assert_eq!(database.query_one("SELECT count(*) FROM dataglot.roles"), "1");
}
