//! How connections and the server end.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "a test fails by panicking")]

mod support;

use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

use dataglot_server::ServerConfig;
use dataglot_store::fault::FaultStore;
use dataglot_store::{MetaStore, open_memory};
use support::client::{lines, query, startup};
use support::{Client, Served};

#[test]
fn idle_sessions_are_told_of_the_end() {
    let mut served = Served::start();
    let mut idle = Client::login(served.address, "admin");
    let mut in_block = Client::login(served.address, "admin");
    assert_eq!(in_block.query("BEGIN; CREATE ROLE r"), "C:BEGIN C:CREATE ROLE Z:T");
    served.stop();
    assert_eq!(lines(&idle.until_end()), "E:FATAL 57P01");
    assert_eq!(lines(&in_block.until_end()), "E:FATAL 57P01");
    served.wait();
    assert!(std::net::TcpStream::connect(served.address).is_err());
}

#[test]
fn a_statement_in_flight_finishes() {
    let store = FaultStore::new(open_memory().unwrap());
    let mut served = Served::on(Arc::clone(&store) as Arc<dyn MetaStore>, ServerConfig::default());
    let mut client = Client::login(served.address, "admin");
    let held = store.hold();
    client.send(&query("CREATE ROLE r"));
    held.until_waiting();
    served.stop();
    drop(held);
    assert_eq!(lines(&client.until_end()), "C:CREATE ROLE Z:I E:FATAL 57P01");
}

#[test]
fn a_statement_that_does_not_finish_is_told_of_the_end() {
    let store = FaultStore::new(open_memory().unwrap());
    let config = ServerConfig { shutdown_timeout: Duration::ZERO, ..ServerConfig::default() };
    let mut served = Served::on(Arc::clone(&store) as Arc<dyn MetaStore>, config);
    let mut client = Client::login(served.address, "admin");
    let held = store.hold();
    client.send(&query("CREATE ROLE r"));
    held.until_waiting();
    served.stop();
    let told = lines(&client.until_end());
    assert!(told.ends_with("E:FATAL 57P01"), "{told}");
    assert!(!told.contains("CREATE ROLE"), "nothing is acknowledged that is not known to be kept: {told}");
    drop(held);
}

#[test]
fn w_16_idle_sessions_time_out() {
    let config = ServerConfig { idle_timeout: Some(Duration::from_millis(20)), ..ServerConfig::default() };
    let served = Served::with(config);
    let mut client = Client::login(served.address, "admin");
    assert_eq!(lines(&client.until_end()), "E:FATAL 57P05");
}

#[test]
fn w_16_a_session_sets_its_own_idle_timeout() {
    let served = Served::start();
    let mut client = Client::login(served.address, "admin");
    assert_eq!(client.query("SET idle_session_timeout = 20"), "C:SET Z:I");
    assert_eq!(lines(&client.until_end()), "E:FATAL 57P05");
}

#[test]
fn w_16_sessions_idle_in_a_block_time_out() {
    let served = Served::start();
    let mut client = Client::login(served.address, "admin");
    assert_eq!(client.query("SET idle_in_transaction_session_timeout = 20"), "C:SET Z:I");
    assert_eq!(client.query("BEGIN"), "C:BEGIN Z:T");
    assert_eq!(lines(&client.until_end()), "E:FATAL 25P03");
}

/// A peer that asks and does not read loses its connection, and its place.
#[test]
fn w_16_a_peer_that_does_not_read_is_dropped() {
    let served = Served::with(ServerConfig {
        connections_max: 1,
        write_timeout: Duration::from_millis(50),
        ..ServerConfig::default()
    });
    let mut client = Client::login(served.address, "admin");
    client.stream.set_write_timeout(Some(Duration::from_millis(200))).unwrap();
    let ask = query("SHOW ALL").repeat(100);
    while client.stream.write_all(&ask).is_ok() {}
    while Client::connect(served.address).ask(&startup(&[("user", "admin")])) == "E:FATAL 53300" {
        std::thread::yield_now();
    }
}

#[test]
fn a_dropped_user_is_out() {
    let served = Served::start();
    let mut admin = Client::login(served.address, "admin");
    admin.query("CREATE USER u");
    let mut user = Client::connect(served.address);
    user.send(&startup(&[("user", "u"), ("database", "default")]));
    user.until_ready();
    admin.query("DROP USER u");
    user.send(&query("SHOW ROLES"));
    assert_eq!(lines(&user.until_end()), "E:FATAL 28000");
}
