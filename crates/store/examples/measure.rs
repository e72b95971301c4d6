//! Figures of the store alone: `cargo run --release -p dataglot-store --example measure -- DIRECTORY`.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a tool for whoever works on speed")]

use std::path::PathBuf;
use std::time::Instant;

use dataglot_model::def::{Header, ObjectId, Stamp};
use dataglot_model::{ChangedStatement, Mutation, ObjectRef, OrgName, Row, Seq, Timestamp, TransactionId};
use dataglot_store::conformance::hub::block_on;
use dataglot_store::conformance::image::{Planner, Request, submit};
use dataglot_store::conformance::sample::{name, role};
use dataglot_store::{FirstOrg, Hub, HubLimits, ImageSink, RedbOptions, Table, open_redb, record};

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
    let dir = PathBuf::from(std::env::args().nth(1).unwrap_or_else(|| ".".to_owned()));
    let path = dir.join("measure.redb");
    let _ = std::fs::remove_file(&path);
    let store = open_redb(&path, RedbOptions::default()).unwrap();
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

    for (clients, each) in [(1u64, 300u64), (16, 200), (64, 200), (64, 200)] {
        let start = Instant::now();
        std::thread::scope(|scope| {
            for client in 0..clients {
                let (hub, org) = (hub.clone(), org.clone());
                scope.spawn(move || {
                    for i in 0..each {
                        let at = rand(client * 1_000_003 + i + clients);
                        let request = Request::Write(create_role(&format!("r{at:016x}"), at >> 8));
                        submit(&hub, &org, u128::from(at), request).wait().ok().unwrap();
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
    println!("rss {:.0} MiB, file {} KiB", rss_mib(), hub.store().size().unwrap() / 1024);

    let mutations: Vec<Mutation> =
        (0..100_000u64).flat_map(|i| create_role(&format!("big{i:06}"), i + (1 << 40))).collect();
    let before = rss_mib();
    let start = Instant::now();
    submit(&hub, &org, 7, Request::Write(mutations)).wait().ok().unwrap();
    println!(
        "100,000 roles in one transaction: {:.2} s, rss {before:.0} -> {:.0}, peak {:.0} MiB",
        start.elapsed().as_secs_f64(),
        rss_mib(),
        peak_mib()
    );
    for step in 0..9u64 {
        let mutations: Vec<Mutation> =
            (0..50_000u64).flat_map(|i| create_role(&format!("m{step}-{i:06}"), (step << 20) + i)).collect();
        submit(&hub, &org, 100 + u128::from(step), Request::Write(mutations)).wait().ok().unwrap();
    }
    drop(hub);
    let start = Instant::now();
    let store = open_redb(&path, RedbOptions::default()).unwrap();
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
