//! Three coordinators on one PostgreSQL, eight clients, and everything breaks: lines are cut and go
//! quiet, sessions are ended, PostgreSQL is stopped at once and paused, coordinators are killed and
//! paused. What the clients were told and what is in the store afterwards must be what a strictly
//! serializable store can give (M1), each unknown outcome must be settled (M5), nobody reads backwards
//! (M6), and once the faults stop all work and agree.
//!
//! `DATAGLOT_JEPSEN_SECONDS=3600` runs longer than CI does; `DATAGLOT_JEPSEN_SEED` repeats the choices of
//! a run, though not what the machine makes of them. `DATAGLOT_JEPSEN_LOG=dataglot=debug` makes the
//! coordinators say more. If something is wrong, logs and history are kept, and the test says where.

#![allow(
    clippy::disallowed_methods,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    clippy::unwrap_used,
    clippy::wildcard_enum_match_arm,
    missing_docs,
    reason = "a test's own helpers; its knobs come from the environment"
)]

mod checker;
mod checker_tests;
mod client;
mod coordinator;
mod history;
mod model;
mod nemesis;
mod proxy;
mod random;
mod report;
mod session;
mod simulated;
mod statement;
mod survey;

use std::fmt::Write as _;
use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use dataglot_pgtest::{Cluster, ClusterOptions, Database};

use crate::client::{Worker, World};
use crate::coordinator::Coordinator;
use crate::history::{Final, Form, History, Kind, Op};
use crate::nemesis::Nemesis;
use crate::statement::{ADMIN, Show, Statement};
use crate::survey::{history_of, state_of, statuses, wait_for};

const NODES: usize = 3;
const CLIENTS: usize = 8;
/// As long as CI takes.
const SECONDS: u64 = 300;
/// How long the system may take to be whole again once nothing is broken any more.
const RECOVERY_MAX: Duration = Duration::from_secs(90);

fn number(variable: &str, default: u64) -> u64 {
    std::env::var(variable).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// The owner's connection string through a port of our own.
fn dsn(database: &Database, port: u16) -> String {
    let (name, password) = (database.name(), database.password());
    format!(
        "host=127.0.0.1 port={port} user={name} password={password} dbname={name} sslmode=disable connect_timeout=3"
    )
}

#[test]
fn m1_strictly_serializable_under_faults() {
    let seconds = number("DATAGLOT_JEPSEN_SECONDS", SECONDS);
    let seed = number("DATAGLOT_JEPSEN_SEED", u64::from(std::process::id()));
    println!("{seconds} s on {}, DATAGLOT_JEPSEN_SEED={seed}", dataglot_pgtest::version());
    let directory = tempfile::tempdir().unwrap();
    let cluster = Cluster::start(ClusterOptions { fsync: true, ..ClusterOptions::default() });
    let database = cluster.database();
    let (proxies, lines) = proxy::proxies(cluster.port(), NODES);
    let ports = proxy::free_ports(NODES);
    // All at once: one of them finds the store empty.
    let coordinators: Vec<Coordinator> = (0..NODES)
        .map(|n| {
            Coordinator::start(&format!("n{}", n + 1), &dsn(&database, proxies[n].port), ports[n], directory.path())
        })
        .collect();
    let addresses: Vec<SocketAddr> = coordinators.iter().map(|c| c.address).collect();
    let world = World::new(addresses.clone());
    agreed(&addresses, RECOVERY_MAX);

    let nemesis = Nemesis::new(&cluster, &database, &proxies, &coordinators, seed);
    let end = Instant::now() + Duration::from_secs(seconds);
    let (mut ops, faults, diary) = thread::scope(|scope| {
        let workers: Vec<_> = (0..CLIENTS)
            .map(|client| {
                let world = &world;
                scope.spawn(move || Worker::new(world, client, seed).run())
            })
            .collect();
        let (faults, diary) = nemesis.run(end);
        world.stop.store(true, Ordering::SeqCst);
        let ops: Vec<Op> = workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect();
        (ops, faults, diary)
    });
    ops.extend(recover(&world, seed));
    let finals = agreed(&addresses, RECOVERY_MAX);
    let records = history_of(addresses[0]);
    let statuses = statuses(&ops, &addresses);
    let mut history = History { ops, records, statuses, finals };

    let mut troubles = std::mem::take(&mut *world.troubles.lock().unwrap());
    coordinators.into_iter().for_each(|coordinator| troubles.extend(coordinator.stop()));
    drop(proxies);
    lines.join().unwrap();
    troubles.extend(read_by_another(&database, &mut history, directory.path()));
    troubles.extend(panics(directory.path()));

    let violations = checker::check(&history);
    let mut report = format!("DATAGLOT_JEPSEN_SEED={seed}, {seconds} s\n{}\n", report::summary(&history));
    let _ = writeln!(report, "faults: {}", report::list(&faults));
    let _ = writeln!(report, "logins refused: {}", world.logins_refused.load(Ordering::Relaxed));
    print!("{report}");
    if violations.is_empty() && troubles.is_empty() {
        return;
    }
    let kept = directory.keep();
    for violation in &violations {
        let _ = writeln!(report, "\n{}", report::explain(&history, violation));
    }
    troubles.iter().for_each(|trouble| report.push_str(&format!("\n{trouble}\n")));
    write_down(&kept, &history, &diary, &cluster.log(), &report);
    panic!("{report}\nlogs, history and this are in {}", kept.display());
}

/// Once nothing is broken, each coordinator commits and reads.
fn recover(world: &World, seed: u64) -> Vec<Op> {
    let until = Instant::now() + RECOVERY_MAX;
    let mut ops = Vec::new();
    for node in 0..NODES {
        let statements =
            vec![Statement::CommentOnRole { name: ADMIN, text: Some(format!("node {} is back", node + 1).into()) }];
        let kinds = vec![
            Kind::Change { form: Form::Simple, statements },
            Kind::Read { strict: true, shows: Show::STATE.to_vec() },
        ];
        ops.extend(Worker::new(world, CLIENTS + node, seed).insist(node, kinds, until));
    }
    ops
}

/// Waits until all coordinators answer and show the same; what they show.
fn agreed(addresses: &[SocketAddr], within: Duration) -> Vec<Final> {
    wait_for("the coordinators to agree", Instant::now() + within, || {
        let states: Result<Vec<Final>, String> =
            addresses.iter().enumerate().map(|(n, address)| state_of(&format!("n{}", n + 1), *address)).collect();
        let states = states?;
        let same = states.windows(2).all(|two| (two[0].version, &two[0].shows) == (two[1].version, &two[1].shows));
        if same { Ok(states) } else { Err(format!("they differ: {states:?}")) }
    })
}

/// A coordinator that has never seen the store reads it too.
fn read_by_another(database: &Database, history: &mut History, directory: &Path) -> Vec<String> {
    let fresh = Coordinator::start("n4", &database.tcp_dsn(), proxy::free_ports(1)[0], directory);
    let mut finals = agreed(&[fresh.address], RECOVERY_MAX);
    finals.iter_mut().for_each(|shown| "n4, which is new,".clone_into(&mut shown.who));
    history.finals.extend(finals);
    let records = history_of(fresh.address);
    let mut troubles = fresh.stop();
    if records != history.records {
        troubles.push("a new coordinator shows another history".to_owned());
    }
    troubles
}

/// What the coordinators' logs say of faults of ours.
fn panics(directory: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()) {
        let text = fs::read_to_string(&entry).unwrap_or_default();
        let lines = text.lines().filter(|line| line.contains("panicked at"));
        found.extend(lines.map(|line| format!("{}: {line}", entry.display())));
    }
    found
}

fn write_down(directory: &Path, history: &History, diary: &[String], postgres: &str, report: &str) {
    let mut ops: Vec<&Op> = history.ops.iter().collect();
    ops.sort_by_key(|op| op.invoked);
    let text: String = ops.iter().map(|op| format!("{op}\n")).collect();
    fs::write(directory.join("operations.txt"), text).unwrap();
    let text: String = history.records.iter().map(|record| format!("{record:?}\n")).collect();
    fs::write(directory.join("versions.txt"), text).unwrap();
    fs::write(directory.join("faults.txt"), diary.join("\n")).unwrap();
    fs::write(directory.join("postgres.log"), postgres).unwrap();
    fs::write(directory.join("report.txt"), report).unwrap();
}
