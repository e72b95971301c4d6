//! What only a store in PostgreSQL has to do, while all is well.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use dataglot_model::def::{Header, ObjectId, Stamp};
use dataglot_model::{ChangedStatement, Mutation, ObjectRef, OrgName, Row, Seq, Timestamp, TransactionId};
use dataglot_pgtest::{Cluster, Database};
use dataglot_store::conformance::hub::block_on;
use dataglot_store::conformance::image::{Planner, Refusal, Request, submit};
use dataglot_store::conformance::sample::{name, role, rows};
use dataglot_store::{
    FirstOrg, Hub, HubLimits, MetaStore, PostgresOptions, StoreError, SubmitError, Table, open_postgres,
};

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

/// Waits until `hubs` follow one org each, and have read its head since: there is nothing to be looked at for a while.
#[track_caller]
pub(crate) fn until_looked(database: &Database, hubs: usize) {
    let looked = "SELECT count(*) FROM pg_stat_activity a JOIN pg_locks l USING (pid) \
                  WHERE a.datname = current_database() AND l.locktype = 'advisory' AND l.mode = 'ShareLock' \
                  AND a.state = 'idle' AND a.query LIKE 'SELECT pg_stat_get_tuples_updated%'";
    until("all have looked", || database.query_one(looked) == hubs.to_string());
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

pub(crate) fn create(hub: &Hub<Planner>, id: u128, text: &str) -> Result<Seq, SubmitError<Refusal>> {
    submit(hub, &default(), id, Request::Create(role(text))).wait().map(|done| done.seq.unwrap())
}

pub(crate) fn has(hub: &Hub<Planner>, text: &str) -> bool {
    hub.state(&default()).unwrap().unwrap().rows.contains_key(&role(text).key())
}

pub(crate) fn committed(database: &Database) -> String {
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

/// H-06: in the middle of a restore there is no head to mark. It is marked when it comes.
#[test]
fn h06_heads_that_are_not_there_yet_are_no_drop() {
    let database = Cluster::shared().database();
    let one = hub(open(&database));
    create(&one, 2, "a").unwrap();
    database.execute("DELETE FROM dataglot.heads");
    until("it is noticed", || one.diverged(&default()).is_some());
    assert!(has(&one, "a"));
    let diverged = || SubmitError::Failed(StoreError::Diverged { org: default(), seen: Seq(2) });
    assert_eq!(create(&one, 3, "b"), Err(diverged()));
    assert_eq!(one.store().halt(&default(), Seq(2)), Err(StoreError::NoSuchOrg(default())));
    let two = Hub::open(open(&database), Planner, HubLimits::default()).unwrap();
    database.execute("INSERT INTO dataglot.heads (org, org_id, seq, next_id, at) VALUES ('default', 1, 1, 1, 1)");
    let mark = "SELECT coalesce(halted_at_seq, 0) FROM dataglot.heads";
    until("it is marked", || database.query_one(mark) == "2");
    // So it stops others, too.
    until("the other one is refused", || create(&two, 4, "b") == Err(diverged()));
    assert!(has(&one, "a"));
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

/// A long history takes as long as it takes to remove, and is removed whole.
#[test]
fn an_org_with_a_long_history_goes() {
    let database = Cluster::shared().database();
    let acme = OrgName::new("acme").unwrap();
    let one = hub(open(&database));
    submit(&one, &default(), 2, Request::CreateOrg(acme.clone(), 7)).wait().ok().unwrap();
    drop(one);
    // A server that takes longer for it than it may for a statement, and is not heard from for longer than that.
    database.execute(
        "SET search_path = dataglot;
         INSERT INTO changes (org, seq, step, format, checksum, raw)
         SELECT 'acme', seq, 0, 0, 0, '' FROM generate_series(2, 25000) AS s (seq);
         UPDATE heads SET seq = 25000 WHERE org = 'acme';
         CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_sleep(3); RETURN NULL; END';
         CREATE TRIGGER slow BEFORE DELETE ON roles FOR EACH STATEMENT EXECUTE FUNCTION slow()",
    );
    let statement_timeout = Duration::from_millis(500);
    let two = hub(open_postgres(PostgresOptions { statement_timeout, ..options(&database) }).unwrap());
    let dropped = submit(&two, &default(), 3, Request::DropOrg(acme)).wait();
    assert_eq!(dropped.map(|done| done.seq).ok(), Some(Some(Seq(3))));
    assert_eq!(database.query_one("SELECT count(*) FROM dataglot.changes WHERE org = 'acme'"), "0");
    assert_eq!(database.query_one("SELECT count(*) FROM dataglot.changes"), "3");
}

/// What the writer takes for new is looked for all the same where it turns out not to be.
#[test]
fn a_row_that_nobody_expected_is_written_over() {
    let database = Cluster::shared().database();
    let hub = hub(open(&database));
    database.execute(
        "INSERT INTO dataglot.roles (org, name, format, checksum, raw) VALUES ('default', 'ann', 0, 0, 'left behind')",
    );
    let at = hub.state(&default()).unwrap().unwrap().head.seq.next();
    let created = Stamp { seq: at, at: Timestamp(1), by: name("admin") };
    let header = |version| {
        let (created, changed) = (created.clone(), created.clone());
        let (owner, comment, secret, extra) = (None, None, None, None);
        let header = Header { id: ObjectId(9), owner, comment, version, created, changed, secret, extra };
        Row::Header(ObjectRef::Role(name("ann")), Arc::new(header))
    };
    let put = |version| vec![Mutation::Put(header(version)), Mutation::Put(role("ann"))];
    let gone = put(1).into_iter().map(|m| Mutation::Delete(m.key()));
    let write = |id, batch| submit(&hub, &default(), id, Request::Write(batch)).wait().ok().unwrap().seq;
    assert_eq!(write(2, put(1)), Some(at));
    assert_eq!(write(3, put(2)), Some(at.next()));
    // Away and there again at once.
    assert_eq!(write(4, gone.chain(put(3)).collect()), Some(at.next().next()));
    let other = self::hub(open(&database));
    assert_eq!(other.state(&default()).unwrap(), hub.state(&default()).unwrap());
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
