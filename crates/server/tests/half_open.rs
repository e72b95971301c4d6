//! Peers that connect and never log in: they are many, and keep nobody out.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "a test fails by panicking")]

mod support;

use std::net::SocketAddr;

use dataglot_server::{Authentication, Hba, HttpConfig, Method, Names, Rule, ServerConfig};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use support::client::{ssl_request, startup};
use support::http::until;
use support::login::{connect_from, log_in, login_on};
use support::{Client, Served};

const ADMIN: [(&str, &str); 1] = [("user", "admin")];
const EVICTED: &str = "dataglot_connections_turned_away_total{reason=\"evicted\"}";

/// Trust for `admin`, passwords for all others, and health checks.
fn config() -> ServerConfig {
    let admin = Rule { users: Names::Of(vec!["admin".to_owned()]), ..Rule::for_all(Method::Trust) };
    let hba = Hba::new(vec![admin, Rule::for_all(Method::ScramSha256)]);
    ServerConfig {
        authentication: Authentication { hba, trust_remote: false },
        http: Some(HttpConfig { listen: ([127, 0, 0, 1], 0).into(), token_file: None }),
        ..ServerConfig::default()
    }
}

/// A server with a user `ann`.
fn served(config: ServerConfig) -> Served {
    let served = Served::with(config);
    let made = Client::login(served.address, "admin").query("CREATE USER ann PASSWORD 'right'");
    assert_eq!(made, "C:CREATE ROLE Z:I");
    until(served.http.unwrap(), "dataglot_connections", |n| n == 0.0);
    served
}

/// Stops somewhere on the way to a login.
fn stop_halfway(client: &mut Client, n: usize) {
    match n % 5 {
        0 => {}
        1 => client.send(&startup(&ADMIN)[..9]),
        2 => {
            client.send(&ssl_request());
            assert_eq!(client.byte(), Some(b'N'));
        }
        3 => client.send(&[0, 0]),
        _ => {
            client.send(&startup(&[("user", &format!("u{n}")), ("database", "default")]));
            assert_eq!(client.next().unwrap().kind, b'R');
        }
    }
}

fn half_open(address: SocketAddr, n: usize) -> Client {
    let mut client = Client::connect(address);
    stop_halfway(&mut client, n);
    client
}

#[test]
fn w_05_thousands_of_slow_peers_do_not_hinder_a_login() {
    let files = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: files.maximum, maximum: files.maximum }).unwrap();
    // They could hold all seats twenty times, and all places four times.
    let served = served(ServerConfig { connections_max: 100, connections_waiting_max: 500, ..config() });
    let mut open = Vec::new();
    for n in 0..2000 {
        open.push(half_open(served.address, n));
        if n % 100 == 99 {
            drop(log_in(served.address, "ann", "right"));
        }
    }
    until(served.http.unwrap(), EVICTED, |n| n >= 1500.0);
    drop(log_in(served.address, "ann", "right"));
}

#[test]
fn w_06_who_has_only_connected_takes_no_seat() {
    // Of two seats, one is for superusers.
    let served =
        served(ServerConfig { connections_max: 2, connections_reserved: 1, connections_waiting_max: 3, ..config() });
    let mut hostile: Vec<_> = (0..3)
        .map(|n| {
            let mut client = connect_from("127.0.0.2", served.address);
            stop_halfway(&mut client, n);
            client
        })
        .collect();
    let seated = log_in(served.address, "ann", "right");
    // One of them had to go for it, without a word: the oldest.
    assert_eq!(hostile[0].until_end(), []);
    until(served.http.unwrap(), "dataglot_connections", |n| n == 1.0);
    let reserved = Client::login(served.address, "admin");
    // Refusals are told, though all seats are taken, and nothing is asked before.
    for user in ["ann", "admin", "nobody"] {
        let mut client = Client::connect(served.address);
        let outcome = login_on(&mut client, user, "default", "right");
        assert_eq!((outcome.said.len(), outcome.error().as_str()), (1, "53300 too many connections"));
    }
    drop((reserved, seated));
    until(served.http.unwrap(), "dataglot_connections", |n| n == 0.0);
    drop(log_in(served.address, "ann", "right"));
}

/// A login that goes on is not the oldest of the address with the most, however many come and go meanwhile.
#[test]
fn w_06_a_login_that_goes_on_stays_while_others_come() {
    let served = served(ServerConfig { connections_waiting_max: 4, ..config() });
    let mut slow = Client::connect(served.address);
    slow.send(&startup(&[("user", "ann"), ("database", "default")])[..20]);
    until(served.http.unwrap(), "dataglot_connections_waiting", |n| n == 1.0);
    let hostile: Vec<_> = (0..50).map(|_| connect_from("127.0.0.2", served.address)).collect();
    until(served.http.unwrap(), EVICTED, |n| n == 47.0);
    slow.send(&startup(&[("user", "ann"), ("database", "default")])[20..]);
    let outcome = support::login::go_on(&mut slow, "ann", "right");
    assert!(outcome.is_in(), "{}", outcome.line);
    drop(hostile);
    until(served.http.unwrap(), "dataglot_connections_waiting", |n| n == 0.0);
}

/// More than fits in memory is held by nobody.
#[test]
fn w_04_the_memory_of_half_open_peers_is_bounded() {
    let served = served(ServerConfig { connections_waiting_bytes_max: 100 << 10, ..config() });
    let long = startup(&[("user", "ann"), ("options", &"x".repeat(9_000))]);
    let mut open: Vec<_> = (0..20).map(|_| Client::connect(served.address)).collect();
    for client in &mut open {
        // All but the last byte. Some are gone before.
        let _ = std::io::Write::write_all(&mut client.stream, &long[..long.len() - 1]);
    }
    until(served.http.unwrap(), EVICTED, |n| n >= 13.0);
    until(served.http.unwrap(), "dataglot_connections_waiting", |n| n <= 7.0);
    drop(log_in(served.address, "ann", "right"));
}
