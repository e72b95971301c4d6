//! `dataglot reset-secrets`: nothing without the store's id and a decision.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "a test")]

mod support;

use dataglot_golden::wire::rows_of;
use dataglot_pgtest::Cluster;
use std::path::Path;
use std::process::Command;
use support::{KEY, OTHER_KEY, Server, dataglot, done, refused, serve_on, tempdir};

fn reset(directory: &Path, store: &str, key: &str, more: &[&str]) -> Command {
    let mut command = dataglot(directory, &["reset-secrets", "--store", store]);
    command.args(more).env("DATAGLOT_SECRET_KEY", key);
    command
}

fn drill(directory: &Path, store: &str) {
    let server = Server::start(serve_on(directory, store, Some(KEY)));
    server.query("CREATE SECRET s AS 'CANARY-7Q'; CREATE USER ana PASSWORD 'CANARY-7Q'");
    // While a server has it open, nothing is looked at.
    refused(&mut reset(directory, store, OTHER_KEY, &[]), 3);
    server.stop();
    refused(&mut serve_on(directory, store, Some(OTHER_KEY)), 4);
    // With the key there is nothing to do.
    let told = done(&mut reset(directory, store, KEY, &[]));
    assert!(told.contains("nothing is lost"), "{told}");
    let id = told.lines().next().unwrap().strip_prefix("store id ").unwrap().to_owned();
    let mut asked = reset(directory, store, OTHER_KEY, &[]);
    let output = support::run(&mut asked);
    assert_eq!(output.status.code(), Some(2));
    let told = String::from_utf8(output.stdout).unwrap();
    assert!(told.contains("In database default no key that is given opens\n  secrets (1): s\n"), "{told}");
    assert!(told.contains("  passwords of users (1): ana\n  data keys (1)\n"), "{told}");
    refused(&mut reset(directory, store, OTHER_KEY, &["--yes"]), 2);
    refused(&mut reset(directory, store, OTHER_KEY, &["--confirm", &id]), 2);
    refused(&mut reset(directory, store, OTHER_KEY, &["--confirm", "00", "--yes"]), 2);
    refused(&mut dataglot(directory, &["reset-secrets", "--store", store, "--confirm", &id, "--yes"]), 4);
    // None of these did anything.
    let server = Server::start(serve_on(directory, store, Some(KEY)));
    server.stop();
    let told = done(&mut reset(directory, store, OTHER_KEY, &["--confirm", &id, "--yes"]));
    assert!(told.contains("done: "), "{told}");
    refused(&mut serve_on(directory, store, Some(KEY)), 4);
    let server = Server::start(serve_on(directory, store, Some(OTHER_KEY)));
    let rows = rows_of(&server.query("SHOW SECRETS"));
    assert_eq!((rows[0][0].as_deref(), rows[0][2].as_deref()), (Some("s"), Some("lost")));
    server.query("ALTER SECRET s AS 'new'; ALTER USER ana PASSWORD 'new'");
    server.stop();
    assert!(done(&mut reset(directory, store, OTHER_KEY, &[])).contains("nothing is lost"));
}

#[test]
fn a_lost_key_in_a_file() {
    let directory = tempdir();
    drill(directory.path(), "path=meta.redb");
}

#[test]
fn a_lost_key_in_a_database() {
    let directory = tempdir();
    let database = Cluster::shared().database();
    drill(directory.path(), &format!("dsn={}", database.dsn()));
}
