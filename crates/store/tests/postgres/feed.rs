//! The feed: what other writers did is seen, whatever happens to the notifications.

use std::sync::{Arc, Mutex};
use std::time::Instant;

use dataglot_model::{HeadRecord, Mutation, OrgName, Row, Seq};
use dataglot_pgtest::{Cluster, Database};
use dataglot_store::conformance::image::{Request, submit};
use dataglot_store::conformance::sample::{name, role, rows};
use dataglot_store::{Freshness, StoreError, Watcher};

use crate::backend::{create, default, has, hub, until};
use crate::rig::open;

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
    others: Mutex<Option<Instant>>,
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

    fn others_write(&self, until: Instant) {
        *self.others.lock().unwrap() = Some(until);
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

/// How many coordinators follow an org.
fn follows(database: &Database) -> String {
    database.query_one(
        "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND mode = 'ShareLock' AND granted \
         AND database = (SELECT oid FROM pg_database WHERE datname = current_database())",
    )
}

/// H-05: a notification wakes every coordinator, so none is sent of an org that nobody else follows.
#[test]
fn h05_whoever_follows_an_org_is_told_and_nobody_is_told_for_nothing() {
    let database = Cluster::shared().database();
    let one = hub(open(&database));
    until("it follows", || follows(&database) == "1");
    let payloads = Payloads::listen(&database);
    create(&one, 2, "a").unwrap();
    let told = "SELECT count(*) FROM pg_stat_activity \
                WHERE datname = current_database() AND state = 'idle' AND query LIKE 'SELECT place, pg_notify(%'";
    until("it has looked for somebody to tell", || database.query_one(told) == "1");
    assert_eq!(payloads.all(), [""; 0]);

    let two = hub(open(&database));
    assert!(has(&two, "a"));
    until("it follows", || follows(&database) == "2");
    create(&one, 3, "b").unwrap();
    until("it is told", || payloads.all() == [r#"{"org":"default","seq":3}"#]);
    until("it has it", || has(&two, "b"));

    // An org that is made here is followed from then on.
    let acme = OrgName::new("acme").unwrap();
    submit(&one, &default(), 4, Request::CreateOrg(acme.clone(), 7)).wait().ok().unwrap();
    until("both follow it", || {
        two.state(&acme).unwrap();
        follows(&database) == "4"
    });
    submit(&two, &acme, 5, Request::Create(role("c"))).wait().ok().unwrap();
    let told = r#"{"org":"acme","seq":2}"#.to_owned();
    until("it is told", || payloads.all().contains(&told));
}

/// Whoever shares a server with busy others is told so.
#[test]
fn it_is_noticed_that_others_write_a_lot() {
    let database = Cluster::shared().database();
    let busy = hub(open(&database));
    let store = open(&database);
    let notes = Arc::new(Notes::default());
    store.watch(Arc::<Notes>::clone(&notes)).unwrap();
    let mut id = 2;
    until("it is noticed", || {
        create(&busy, id, &format!("r{id}")).unwrap();
        id += 1;
        notes.others.lock().unwrap().is_some_and(|until| until > Instant::now())
    });
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
    let _follows = self::hub(open(&database));
    until("it is told", || follows(&database) == "2");
    for (id, batch) in [(2, vec![big]), (3, grants.collect::<Vec<_>>())] {
        submit(&hub, &default(), id, Request::Write(batch)).wait().ok().unwrap();
    }
    // One for each, or one for both.
    until("they are told", || payloads.all().last().is_some_and(|last| last == r#"{"org":"default","seq":3}"#));
    // The first transaction may be told of late.
    let told: Vec<_> = (1..=3).map(|seq| format!(r#"{{"org":"default","seq":{seq}}}"#)).collect();
    assert!(payloads.all().iter().all(|payload| told.contains(payload)));

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
