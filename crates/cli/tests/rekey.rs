//! `dataglot rekey`: a rotation of the secret key on servers under load, each step cut off and gone on with.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "a test")]

mod support;

use std::collections::BTreeSet;
use std::fs;
use std::hash::{BuildHasher as _, RandomState};
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Output};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};

use dataglot_golden::wire::{Client, error_of, rows_of};
use dataglot_pgtest::Cluster;
use support::{KEY as OLD, OTHER_KEY as NEW, Server, dataglot, done, error_line, run, tempdir, wait_until};

/// Every value and password of the tests has it in it.
const CANARY: &str = "CANARY-7Q";
const SALTS: [&str; 2] = ["c2FsdHNhbHRzYWx0c2FsdA==", "c2FsdHNhbHRzYWx0c2FsdB=="];

/// A verifier, in place of a password: hashing would take the time that the test is after.
fn verifier(which: usize) -> String {
    let salt = SALTS[which % 2].replace("dB==", "dQ==");
    format!(
        "SCRAM-SHA-256$4096:{salt}$AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
    )
}

/// Puts keys into the file that servers and commands are told of.
fn keys(directory: &Path, keys: &[&str]) {
    let path = directory.join("keys");
    fs::write(&path, keys.join("\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
}

fn server(directory: &Path, store: &str) -> Command {
    let arguments = ["serve", "--listen", "127.0.0.1:0", "--auth", "trust", "--secret-key-file", "keys"];
    let mut command = dataglot(directory, &arguments);
    command.env("DATAGLOT_STORE", store);
    command
}

/// `dataglot rekey` through a server.
fn online(directory: &Path, address: SocketAddr, arguments: &[&str]) -> Command {
    let mut command = dataglot(directory, &[&["rekey"], arguments].concat());
    let (host, port) = (address.ip(), address.port());
    command.args(["--server", &format!("host={host} port={port} user=admin sslmode=disable")]);
    command
}

/// `dataglot rekey` on the store.
fn offline(directory: &Path, store: &str, arguments: &[&str]) -> Command {
    let mut command = dataglot(directory, &[&["rekey"], arguments].concat());
    command.env("DATAGLOT_STORE", store).args(["--secret-key-file", "keys"]);
    command
}

/// How it ended and what it said, in which there is no key and no value.
#[track_caller]
fn ended(output: &Output) -> (i32, String) {
    let said = String::from_utf8([output.stdout.clone(), output.stderr.clone()].concat()).unwrap();
    for hidden in [OLD, NEW, CANARY, "SCRAM-SHA"] {
        assert!(!said.contains(hidden), "{said}");
    }
    (output.status.code().unwrap(), said)
}

#[track_caller]
fn expect(command: &mut Command, code: i32, part: &str) -> String {
    let (found, said) = ended(&run(command));
    assert!(found == code && said.contains(part), "{code} {part:?}: {found} {said}");
    said
}

/// Clients that write until their server is gone.
struct Load {
    stop: Arc<AtomicBool>,
    count: Arc<AtomicU64>,
    threads: Vec<JoinHandle<BTreeSet<String>>>,
}

impl Load {
    fn start(address: SocketAddr, round: usize) -> Load {
        let (stop, count) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let spawn = |thread: usize, org: &'static str| {
            let (stop, count) = (Arc::clone(&stop), Arc::clone(&count));
            thread::spawn(move || {
                let mut made = BTreeSet::new();
                let Ok(Ok(mut client)) = Client::connect(address, "admin", org) else { return made };
                for n in 0.. {
                    if stop.load(Ordering::Relaxed) {
                        break;
                    }
                    let name = format!("w{round}_{thread}_{n}");
                    let sql = match n % 3 {
                        0 => format!("CREATE SECRET {name} AS '{CANARY} {name}'"),
                        1 => format!("ALTER SECRET changed AS '{CANARY} {name}' GRACE '1 hour'"),
                        _ => format!("ALTER USER u{} PASSWORD '{}'", n % 50, verifier(n / 3)),
                    };
                    let Ok(answer) = client.query(&sql) else { break };
                    if let Some(error) = error_of(&answer) {
                        // What is said while it goes down, or to the slower one of two.
                        assert!(["57P01", "40001"].contains(&error.sqlstate.as_str()), "{error:?}");
                        continue;
                    }
                    count.fetch_add(1, Ordering::Relaxed);
                    if n % 3 == 0 {
                        made.insert(format!("{org} {name}"));
                    }
                }
                made
            })
        };
        let threads = vec![spawn(0, "default"), spawn(1, "default"), spawn(2, "other")];
        Load { stop, count, threads }
    }

    /// What was acknowledged.
    fn end(self) -> BTreeSet<String> {
        self.stop.store(true, Ordering::Relaxed);
        self.threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    }
}

/// A few databases with values, users whose passwords come from before there was a key, and a catalog.
fn fill(directory: &Path, store: &str) {
    let mut keyless = dataglot(directory, &["serve", "--listen", "127.0.0.1:0", "--auth", "trust"]);
    keyless.env("DATAGLOT_STORE", store);
    let running = Server::start(keyless);
    running.query("CREATE ORG other ADMIN admin");
    let users: Vec<String> = (0..250).map(|n| format!("CREATE USER u{n} PASSWORD '{}'", verifier(n))).collect();
    for org in ["default", "other"] {
        let mut client = Client::connect(running.address, "admin", org).unwrap().unwrap();
        assert_eq!(error_of(&client.query(&users.join(";")).unwrap()), None);
    }
    running.stop();
    let running = Server::start(server(directory, store));
    for org in ["default", "other"] {
        let mut client = Client::connect(running.address, "admin", org).unwrap().unwrap();
        let sql = format!(
            "CREATE SECRET kept AS '{CANARY} kept'; CREATE SECRET changed AS '{CANARY}'; CREATE CATALOG c USING mock WITH (password = SECRET kept)"
        );
        assert_eq!(error_of(&client.query(&sql).unwrap()), None);
    }
    running.stop();
}

/// The value of the catalog's secret can be had.
#[track_caller]
fn resolves(directory: &Path, store: &str, out: &str) {
    for org in ["default", "other"] {
        let mut command = dataglot(directory, &["resolve-catalogs", "--resolve", "--out", out, "--org", org]);
        command.env("DATAGLOT_STORE", store).args(["--secret-key-file", "keys"]);
        done(&mut command);
        assert!(fs::read_to_string(directory.join(out)).unwrap().contains(CANARY));
    }
}

fn fingerprint(status: &str, key: usize) -> String {
    support::fingerprints(status)[key].clone()
}

/// The secrets of both databases.
fn secrets(address: SocketAddr) -> BTreeSet<String> {
    let of = |org: &'static str| {
        let mut client = Client::connect(address, "admin", org).unwrap().unwrap();
        let rows = rows_of(&client.query("SHOW SECRETS").unwrap());
        rows.into_iter().map(move |row| {
            assert_eq!(row[2].as_deref(), Some("ok"), "{row:?}");
            format!("{org} {}", row[0].as_deref().unwrap())
        })
    };
    of("default").chain(of("other")).collect()
}

/// S-13 with the real binary: under load the server, or the command, is killed at any moment of a rotation, which
/// goes on from there. Whatever is asked for opens all the time. The old key has to stay until the end, and no longer.
#[test]
fn s_13_a_rotation_under_load_outlives_kill_9() {
    let directory = tempdir();
    let (directory, store) = (directory.path(), "path=meta.redb");
    keys(directory, &[OLD]);
    fill(directory, store);
    let old = fingerprint(&expect(&mut offline(directory, store, &["status"]), 0, "default"), 0);

    keys(directory, &[NEW, OLD]);
    let seed = RandomState::new().hash_one(0u8);
    let mut acknowledged = BTreeSet::new();
    for round in 0..4 {
        let running = Server::start(server(directory, store));
        let address = running.address;
        if round == 0 {
            let said = expect(&mut online(directory, address, &["remove", &old]), 11, "has to stay");
            assert!(said.contains("database other needs it") && said.contains("mark is of it"), "{said}");
        }
        let load = Load::start(address, round);
        let moment = RandomState::new().hash_one(seed) % 40;
        let count = Arc::clone(&load.count);
        let mut rewrap = online(directory, address, &["rewrap"]).spawn().unwrap();
        wait_until("some writes", || count.load(Ordering::Relaxed) >= moment);
        if round % 2 == 0 {
            running.kill();
            let (code, said) = ended(&rewrap.wait_with_output().unwrap());
            assert!([0, 12].contains(&code), "round {round}, moment {moment}: {code} {said}");
            acknowledged.extend(load.end());
        } else {
            rewrap.kill().unwrap();
            rewrap.wait().unwrap();
            let problems = expect(&mut online(directory, address, &["verify", "--json"]), 0, "\"ok\":true");
            assert!(!problems.contains("object"), "{problems}");
            acknowledged.extend(load.end());
            running.stop();
        }
        // Whoever reads with both keys reads everything.
        resolves(directory, store, "r.json");
        expect(&mut offline(directory, store, &["verify"]), 0, "everything opens");
    }

    let running = Server::start(server(directory, store));
    let load = Load::start(running.address, 9);
    let said =
        expect(&mut online(directory, running.address, &["rewrap"]), 0, "all databases need the primary key only");
    assert!(said.contains("default: ") && said.contains("other: "), "{said}");
    expect(&mut online(directory, running.address, &["rewrap"]), 0, "nothing is left to be wrapped or sealed anew");
    expect(
        &mut online(directory, running.address, &["verify"]),
        0,
        "everything opens, and is what history recorded last",
    );
    let said = expect(&mut online(directory, running.address, &["remove", &old]), 0, "may be taken out");
    assert!(said.contains("Backups"), "{said}");
    acknowledged.extend(load.end());
    let json = expect(&mut online(directory, running.address, &["status", "--json"]), 0, "\"retired\":true");
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    let keys_of = json["databases"][0]["keys"].as_array().unwrap();
    assert_eq!((&keys_of[1]["fingerprint"], &keys_of[1]["loaded"]), (&old.as_str().into(), &true.into()));
    let new = keys_of[0]["fingerprint"].as_str().unwrap();
    expect(&mut online(directory, running.address, &["remove", new]), 11, "it is the one that seals");
    running.stop();

    keys(directory, &[OLD, NEW]);
    expect(&mut server(directory, store), 4, "another secret key has taken the place of key");
    keys(directory, &[NEW]);
    let running = Server::start(server(directory, store));
    let found = secrets(running.address);
    let lost: Vec<&String> = acknowledged.difference(&found).collect();
    assert!(lost.is_empty(), "{lost:?}");
    running.stop();
    resolves(directory, store, "r.json");
    expect(&mut offline(directory, store, &["verify"]), 0, "everything opens");
    expect(&mut offline(directory, store, &["remove", &old]), 0, "is not loaded here, and nothing needs it");
}

/// The drill of `docs/security.md`: two coordinators of one database, under load, restarted one after the other; others
/// read the store itself all the while.
#[test]
fn s_13_two_coordinators_change_their_key() {
    let database = Cluster::shared().database();
    let directory = tempdir();
    let (directory, store) = (directory.path(), &format!("dsn={}", database.dsn()));
    keys(directory, &[OLD]);
    fill(directory, store);
    let old = fingerprint(&expect(&mut offline(directory, store, &["status"]), 0, "default"), 0);
    let start = || Server::start(server(directory, store));
    let mut acknowledged = BTreeSet::new();
    let mut servers = vec![start(), start()];
    for (round, ring) in [[OLD, NEW], [NEW, OLD]].into_iter().enumerate() {
        keys(directory, &ring);
        for at in 0..2 {
            let load = Load::start(servers[1 - at].address, round * 2 + at);
            let restarted = start();
            std::mem::replace(&mut servers[at], restarted).stop();
            wait_until("some writes", || load.count.load(Ordering::Relaxed) > 5);
            acknowledged.extend(load.end());
            resolves(directory, store, "r.json");
        }
    }
    let late = {
        // Somebody forgot one of them.
        keys(directory, &[OLD, NEW]);
        let late = start();
        keys(directory, &[NEW, OLD]);
        late
    };
    let reading = Arc::new(AtomicBool::new(true));
    let load: Vec<Load> = servers.iter().enumerate().map(|(at, s)| Load::start(s.address, 7 + at)).collect();
    thread::scope(|scope| {
        scope.spawn(|| {
            while reading.load(Ordering::Relaxed) {
                resolves(directory, store, "r2.json");
            }
        });
        for _ in 0..3 {
            let mut rewrap = online(directory, servers[0].address, &["rewrap"]).spawn().unwrap();
            let before = load[1].count.load(Ordering::Relaxed);
            wait_until("some writes", || load[1].count.load(Ordering::Relaxed) > before);
            rewrap.kill().unwrap();
            rewrap.wait().unwrap();
        }
        // On the database itself, while the servers run: another way to the same.
        expect(&mut offline(directory, store, &["rewrap"]), 0, "all databases need the primary key only");
        expect(&mut online(directory, servers[1].address, &["verify"]), 0, "everything opens");
        reading.store(false, Ordering::Relaxed);
    });
    load.into_iter().for_each(|load| acknowledged.extend(load.end()));

    // The one that was forgotten makes nothing that needs the old key.
    late.query("CREATE ORG third ADMIN admin");
    let mut client = Client::connect(late.address, "admin", "third").unwrap().unwrap();
    let answer = client.query("CREATE SECRET s AS 'x'").unwrap();
    assert_eq!(error_of(&answer).unwrap().sqlstate, "55000");
    for server in &servers {
        expect(&mut online(directory, server.address, &["remove", &old]), 0, "may be taken out");
    }
    expect(&mut online(directory, late.address, &["remove", &old]), 11, "it is the one that seals");
    late.stop();
    servers.into_iter().for_each(Server::stop);

    keys(directory, &[OLD, NEW]);
    expect(&mut server(directory, store), 4, "another secret key has taken the place of key");
    keys(directory, &[NEW]);
    let running = start();
    let found = secrets(running.address);
    let lost: Vec<&String> = acknowledged.difference(&found).collect();
    assert!(lost.is_empty(), "{lost:?}");
    expect(&mut offline(directory, store, &["verify"]), 0, "everything opens");
    resolves(directory, store, "r.json");
    running.stop();
}

#[test]
fn what_cannot_be_done_is_said() {
    let directory = tempdir();
    let directory = directory.path();
    keys(directory, &[OLD]);
    let running = Server::start(server(directory, "path=meta.redb"));
    let said = expect(&mut offline(directory, "path=meta.redb", &["status"]), 3, "error: ");
    error_line(&said);
    running.query("CREATE USER plain");
    running.query("CREATE ORG other ADMIN boss");
    // A superuser of every database is asked for.
    expect(&mut online(directory, running.address, &["status"]), 12, "database other: ");
    expect(&mut online(directory, running.address, &["status", "--org", "default"]), 0, "default");
    let conninfo = format!("host=127.0.0.1 port={} user=plain sslmode=disable", running.address.port());
    let mut plain = dataglot(directory, &["rekey", "rewrap", "--org", "default", "--server", &conninfo]);
    expect(&mut plain, 12, "permission denied");
    let key = "0123456789abcdef";
    expect(&mut online(directory, running.address, &["remove", key, "--org", "default"]), 2, "no database needs it");
    expect(
        &mut online(directory, running.address, &["remove", CANARY.replace("CANARY", "c").as_str()]),
        2,
        "not the fingerprint",
    );
    let mut with_both = online(directory, running.address, &["status"]);
    expect(with_both.args(["--store", "path=meta.redb"]), 2, "cannot be used with");
    let mut wrong =
        dataglot(directory, &["rekey", "status", "--server", &format!("host=h password='{CANARY}' prot=1 '")]);
    expect(&mut wrong, 2, "--server is not a connection string");
    running.stop();
    let mut nobody = dataglot(directory, &["rekey", "status", "--server", "host=127.0.0.1 port=1 user=u"]);
    expect(&mut nobody, 12, "database default: ");
    // Without a server, each database's own superuser is found.
    expect(&mut offline(directory, "path=meta.redb", &["status"]), 0, "other");
    expect(&mut offline(directory, "path=meta.redb", &["rewrap"]), 0, "all databases");
    let mut keyless = dataglot(directory, &["rekey", "status", "--store", "path=meta.redb"]);
    expect(&mut keyless, 4, "secrets are sealed with key");
}
