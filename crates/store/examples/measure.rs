//! Figures of the store alone: `cargo run --release -p dataglot-store --example measure -- DIRECTORY`, or
//! `-- dsn='host=…'` for an empty database, or `-- postgres` for a server of its own.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a tool for whoever works on speed")]

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use dataglot_model::def::{Header, ObjectId, Stamp};
use dataglot_model::{
    ChangedStatement, HeadRecord, Mutation, Name, ObjectRef, OrgName, Row, Seq, Timestamp, TransactionId,
};
use dataglot_pgtest::{Cluster, ClusterOptions};
use dataglot_store::conformance::hub::block_on;
use dataglot_store::conformance::sample::{name, role};
use dataglot_store::{
    Compiled, Compiler, Dsn, FirstOrg, Hub, HubLimits, ImageSink, MetaStore, PostgresOptions, RedbOptions, State,
    Submission, Table, Ticket, open_postgres, open_redb, record,
};

/// A role with its header, as CREATE ROLE writes it.
fn create_role(text: &str, id: u64) -> Vec<Mutation> {
    let created = Stamp { seq: Seq(id), at: Timestamp(1_700_000_000_000_000), by: name("admin") };
    let changed = created.clone();
    let header = Header {
        id: ObjectId(id),
        owner: None,
        comment: None,
        version: 1,
        created,
        changed,
        secret: None,
        extra: None,
    };
    vec![Mutation::Put(Row::Header(ObjectRef::Role(name(text)), header.into())), Mutation::Put(role(text))]
}

/// An image of nothing: what is measured is the store.
#[derive(Clone)]
struct Nothing(HeadRecord);

impl State for Nothing {
    fn new(_: OrgName, head: HeadRecord) -> Self {
        Nothing(head)
    }
    fn head(&self) -> HeadRecord {
        self.0
    }
    fn apply(&mut self, _: &Mutation) {}
    fn advance(&mut self, seq: Seq, at: Timestamp) {
        (self.0.seq, self.0.at) = (seq, at);
    }
    fn set_head(&mut self, head: HeadRecord) {
        self.0 = head;
    }
    fn mark_unreadable(&mut self, _: &Name) {}
}

struct Planner;

impl Compiler for Planner {
    type State = Nothing;
    type Request = Vec<ChangedStatement>;
    type Answer = ();
    type Refusal = ();
    fn compile(
        &self,
        state: &Nothing,
        _: &dyn Fn(&OrgName) -> Option<Nothing>,
        request: &mut Vec<ChangedStatement>,
    ) -> Result<Compiled<Nothing, ()>, ()> {
        Ok(Compiled { statements: std::mem::take(request), state: state.clone(), answer: (), org: None })
    }
    fn panicked(&self) {}
}

fn submit(hub: &Hub<Planner>, org: &OrgName, id: u128, request: Vec<ChangedStatement>) -> Ticket<Planner> {
    let (at, actor, session) = (Timestamp(1), name("admin"), Arc::from("1 (measure)"));
    hub.submit(Submission { org: org.clone(), id: TransactionId(id), at, actor, session, request })
}

fn statement(text: &str, mutations: Vec<Mutation>) -> ChangedStatement {
    ChangedStatement { sql: format!("CREATE ROLE {text}").into(), mutations }
}

fn roles(texts: impl Iterator<Item = (String, u64)>) -> Vec<ChangedStatement> {
    texts.map(|(text, id)| statement(&text, create_role(&text, id))).collect()
}

fn rss_mib() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|l| l.starts_with("VmRSS")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<f64>().unwrap() / 1024.0
}

fn peak_mib() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|l| l.starts_with("VmHWM")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<f64>().unwrap() / 1024.0
}

struct Decode(usize, usize);

impl ImageSink for Decode {
    fn begin(&mut self, _: dataglot_model::HeadRecord) {}
    fn row(&mut self, table: Table, key: &[u8], value: &[u8]) {
        self.0 += 1;
        self.1 += usize::from(record::decode_row(table, key, value).is_err());
    }
}

fn main() {
    let place = std::env::args().nth(1).unwrap_or_else(|| ".".to_owned());
    let postgres = |dsn: &str| open_postgres(PostgresOptions::new(Dsn::parse(dsn).unwrap())).unwrap();
    if let Some(dsn) = place.strip_prefix("dsn=") {
        return measure(&std::env::temp_dir(), || postgres(dsn));
    }
    if place == "postgres" {
        let cluster = Cluster::start(ClusterOptions { fsync: true, ..ClusterOptions::default() });
        let database = cluster.database();
        return measure(&std::env::temp_dir(), || postgres(&database.dsn()));
    }
    let dir = PathBuf::from(place);
    let path = dir.join("measure.redb");
    let _ = std::fs::remove_file(&path);
    measure(&dir, || open_redb(&path, RedbOptions::default()).unwrap());
}

fn measure(dir: &Path, open: impl Fn() -> Arc<dyn MetaStore>) {
    let store = open();
    let hub = Hub::open(store, Planner, HubLimits::default()).unwrap();
    let org = OrgName::default_org();
    let first = FirstOrg {
        name: org.clone(),
        org_id: 1,
        id: TransactionId(1 << 100),
        at: Timestamp(1),
        actor: name("admin"),
        session: "1".into(),
        statement: ChangedStatement { sql: "CREATE USER admin".into(), mutations: create_role("admin", 1) },
    };
    block_on(hub.create_first_org(first)).unwrap();

    // As in a real store: ids grow, names do not.
    let next_id = AtomicU64::new(2);
    for (clients, each) in [(1u64, 300u64), (16, 200), (64, 200), (64, 200)] {
        let start = Instant::now();
        std::thread::scope(|scope| {
            for client in 0..clients {
                let (hub, org, next_id) = (hub.clone(), org.clone(), &next_id);
                scope.spawn(move || {
                    for _ in 0..each {
                        let id = next_id.fetch_add(1, Ordering::Relaxed);
                        let request = roles(std::iter::once((format!("r{:016x}", rand(id)), id)));
                        let transaction = (u128::from(rand(id)) << 64) | u128::from(client);
                        submit(&hub, &org, transaction, request).wait().ok().unwrap();
                    }
                });
            }
        });
        let time = start.elapsed().as_secs_f64();
        let count = clients * each;
        println!(
            "{clients:3} submitters: {:7.0} transactions/s, {:6.3} ms each",
            count as f64 / time,
            1000.0 * time / each as f64
        );
    }
    println!("rss {:.0} MiB, size {} KiB", rss_mib(), hub.store().size().unwrap() / 1024);

    let request = roles((0..100_000).map(|i| (format!("big{i:06}"), i + (1 << 40))));
    let before = rss_mib();
    let start = Instant::now();
    submit(&hub, &org, 7, request).wait().ok().unwrap();
    let time = start.elapsed().as_secs_f64();
    println!("100,000 statements in one transaction: {time:.2} s, rss {before:.0} MiB, peak {:.0} MiB", peak_mib());
    for step in 0..9 {
        let request = roles((0..100_000).map(|i| (format!("m{step}-{i:06}"), (step << 20) + i)));
        submit(&hub, &org, 100 + u128::from(step), request).wait().ok().unwrap();
    }
    drop(hub);
    let start = Instant::now();
    let store = open();
    let opened = start.elapsed();
    let mut decode = Decode(0, 0);
    store.load(&org, &mut decode).unwrap();
    println!(
        "open {:.1} ms, {} rows read and decoded in {:.2} s, {} damaged",
        opened.as_secs_f64() * 1e3,
        decode.0,
        start.elapsed().as_secs_f64(),
        decode.1
    );
    let start = Instant::now();
    store.backup(&dir.join("measure.backup.redb")).unwrap();
    println!(
        "backup {:.2} s, {} -> {} KiB",
        start.elapsed().as_secs_f64(),
        store.size().unwrap() / 1024,
        std::fs::metadata(dir.join("measure.backup.redb")).unwrap().len() / 1024
    );
}

fn rand(seed: u64) -> u64 {
    let x = (seed ^ (seed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}
