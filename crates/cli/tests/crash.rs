//! Kills the real binary with SIGKILL, at random moments, under eight clients, over and over: every
//! statement that was acknowledged is there afterwards, and no transaction is there by half.
//!
//! `DATAGLOT_CRASH_ROUNDS=1000` runs more rounds than CI does; `DATAGLOT_CRASH_SEED` repeats a run.

#![allow(
    clippy::disallowed_methods,
    clippy::expect_used,
    clippy::unwrap_used,
    reason = "a test's own helpers; its knobs come from the environment"
)]

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use dataglot_golden::wire::{Client, error_of, rows_of};

/// Rounds that CI runs.
const ROUNDS: u64 = 50;
/// Clients of each round.
const CLIENTS: u64 = 8;
/// How long a server may take until it answers.
const START_MAX: Duration = Duration::from_secs(30);

struct Server {
    child: Child,
    address: SocketAddr,
}

impl Server {
    /// Starts `dataglot dev` in `directory` on a free port and waits until it says where it listens.
    fn start(directory: &Path) -> Server {
        let mut child = Command::new(env!("CARGO_BIN_EXE_dataglot"))
            .args(["dev", "--listen", "127.0.0.1:0"])
            .current_dir(directory)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("the binary starts");
        let stdout = child.stdout.take().unwrap();
        let mut lines = BufReader::new(stdout).lines();
        let address = loop {
            let line = lines.next().expect("the server says where it listens").unwrap();
            if let Some(found) = line.split_whitespace().find_map(|word| word.parse::<SocketAddr>().ok()) {
                break found;
            }
        };
        // The pipe is kept open, so that the server can go on printing.
        thread::spawn(move || lines.for_each(drop));
        Server { child, address }
    }

    fn kill(mut self) {
        self.child.kill().expect("SIGKILL is sent");
        self.child.wait().expect("the server ends");
    }

    fn client(&self) -> Client {
        let start = Instant::now();
        loop {
            match Client::connect(self.address, "admin", "default") {
                Ok(Ok(client)) => return client,
                other => assert!(start.elapsed() < START_MAX, "no connection: {:?}", other.err()),
            }
            thread::yield_now();
        }
    }
}

/// xorshift64*, so that a run can be repeated from its seed.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) % limit
    }
}

/// What one client got acknowledged before the server died: the numbers of its statements.
fn drive(address: SocketAddr, round: u64, client: u64, acknowledged: &AtomicU64) -> Vec<u64> {
    let mut done = Vec::new();
    let Ok(Ok(mut connection)) = Client::connect(address, "admin", "default") else { return done };
    for n in 0u64.. {
        let name = format!("x{round}_{client}_{n}");
        // Every third one is a transaction of two roles and a membership: all of it, or nothing.
        let sql = if n.is_multiple_of(3) {
            format!("BEGIN; CREATE ROLE {name}; CREATE ROLE {name}_pair; GRANT {name} TO {name}_pair; COMMIT")
        } else {
            format!("CREATE ROLE {name}")
        };
        match connection.query(&sql) {
            Ok(messages) => {
                assert_eq!(error_of(&messages), None, "{sql}");
                done.push(n);
                acknowledged.fetch_add(1, Ordering::Relaxed);
            }
            Err(_) => return done,
        }
    }
    done
}

fn number(variable: &str, default: u64) -> u64 {
    std::env::var(variable).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

#[test]
fn d01_acknowledged_statements_survive_sigkill() {
    let rounds = number("DATAGLOT_CRASH_ROUNDS", ROUNDS);
    let seed = number("DATAGLOT_CRASH_SEED", u64::from(std::process::id()) | 1);
    println!("{rounds} rounds, DATAGLOT_CRASH_SEED={seed}");
    let mut random = Random(seed);
    let directory = tempfile::tempdir().unwrap();
    let mut expected: BTreeSet<String> = BTreeSet::new();
    let mut server = Server::start(directory.path());
    for round in 0..rounds {
        let acknowledged = Arc::new(AtomicU64::new(0));
        let stopped = Arc::new(AtomicBool::new(false));
        let address = server.address;
        let threads: Vec<_> = (0..CLIENTS)
            .map(|client| {
                let (acknowledged, stopped) = (Arc::clone(&acknowledged), Arc::clone(&stopped));
                thread::spawn(move || {
                    let done = drive(address, round, client, &acknowledged);
                    stopped.store(true, Ordering::Relaxed);
                    (client, done)
                })
            })
            .collect();
        // The moment is a number of acknowledgements, and a spin on top of it so that it falls anywhere
        // in the life of a commit.
        let kill_after = random.below(200);
        let start = Instant::now();
        while acknowledged.load(Ordering::Relaxed) < kill_after && !stopped.load(Ordering::Relaxed) {
            assert!(start.elapsed() < START_MAX, "the server makes no progress");
            thread::yield_now();
        }
        (0..random.below(100_000)).for_each(|_| std::hint::spin_loop());
        server.kill();
        for thread in threads {
            let (client, done) = thread.join().unwrap();
            for n in done {
                let name = format!("x{round}_{client}_{n}");
                if n.is_multiple_of(3) {
                    expected.insert(format!("{name}_pair"));
                }
                expected.insert(name);
            }
        }
        server = Server::start(directory.path());
        let mut client = server.client();
        let roles: BTreeSet<String> = rows_of(&client.query("SHOW ROLES").unwrap())
            .into_iter()
            .filter_map(|row| row.into_iter().next().flatten())
            .collect();
        let lost: Vec<&String> = expected.difference(&roles).collect();
        assert!(lost.is_empty(), "round {round}: acknowledged and lost: {lost:?}");
        let memberships: BTreeSet<String> = rows_of(&client.query("SHOW ROLE GRANTS").unwrap())
            .into_iter()
            .filter_map(|row| row.into_iter().next().flatten())
            .collect();
        for role in roles.iter().filter(|r| r.starts_with('x') && !r.ends_with("_pair")) {
            let n: u64 = role.rsplit('_').next().unwrap().parse().unwrap();
            let pair = roles.contains(&format!("{role}_pair"));
            assert_eq!(pair, n.is_multiple_of(3), "round {round}: {role} is there by half");
            assert_eq!(memberships.contains(role), n.is_multiple_of(3), "round {round}: the membership of {role}");
        }
        // What was not acknowledged may be there too; from now on it has to stay.
        expected.extend(roles.into_iter().filter(|r| r.starts_with('x')));
    }
    server.kill();
}
