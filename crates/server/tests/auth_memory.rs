//! what hashing passwords takes. Alone in its process, whose memory it measures.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, clippy::print_stdout, reason = "a test")]

mod support;

use std::time::Duration;

use dataglot_server::{Authentication, Hba, Method, Names, Rule, ServerConfig};
use support::client::{message, startup};
use support::login::log_in;
use support::{Client, Served};

const ATTEMPTS: usize = 400;
const BYTES_MAX: usize = 64 << 20;

/// Memory of this process, in bytes.
fn memory() -> usize {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap();
    text.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4096
}

#[test]
fn a_08_argon2_runs_two_at_a_time() {
    let admin = Rule { users: Names::Of(vec!["admin".to_owned()]), ..Rule::for_all(Method::Trust) };
    let hba = Hba::new(vec![admin, Rule::for_all(Method::Password)]);
    let served = Served::with(ServerConfig {
        authentication: Authentication { hba, trust_remote: false },
        login_timeout: Duration::from_secs(600),
        ..ServerConfig::default()
    });
    let sql = "SET password_encryption = 'argon2id'; CREATE USER ann PASSWORD 'right'";
    assert!(Client::login(served.address, "admin").query(sql).contains("C:CREATE ROLE"));
    drop(log_in(served.address, "ann", "right"));
    let before = memory();
    let mut open: Vec<Client> = (0..ATTEMPTS)
        .map(|n| {
            let mut client = Client::connect(served.address);
            // Nobody that is there: it costs as much.
            client.send(&startup(&[("user", &format!("u{n}")), ("database", "default")]));
            client
        })
        .collect();
    for client in &mut open {
        assert_eq!(client.next().unwrap().body, [0, 0, 0, 3]);
        client.send(&message(b'p', b"guess\0"));
    }
    let mut most = before;
    for client in &mut open {
        assert_eq!(client.until_end().last().unwrap().field(b'C').as_deref(), Some("28P01"));
        most = most.max(memory());
    }
    println!("{ATTEMPTS} attempts: {} bytes more", most - before);
    assert!(most - before < BYTES_MAX, "{} bytes more", most - before);
}
