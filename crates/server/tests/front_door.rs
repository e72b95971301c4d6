//! What a peer can do before it has logged in: next to nothing.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "a test fails by panicking")]

mod support;

use std::net::Shutdown;
use std::sync::Arc;
use std::time::Duration;

use dataglot_server::ServerConfig;
use support::client::{
    PROTOCOL_3_0, PROTOCOL_3_2, Said, cancel_request, gss_request, message, packet, query, ssl_request, startup,
    startup_of,
};
use support::{Client, Served};

const ADMIN: [(&str, &str); 1] = [("user", "admin")];

/// What a peer is told that sends `bytes` and nothing else.
#[track_caller]
fn check(served: &Served, bytes: &[u8], expected: &str) {
    assert_eq!(Client::connect(served.address).last(bytes), expected, "{}", bytes.escape_ascii());
}

#[test]
fn p1_w_01_bytes_before_our_answer_close_the_connection() {
    let served = Served::start();
    for request in [ssl_request(), gss_request()] {
        for stuffing in [b"x".to_vec(), [startup(&ADMIN), query("CREATE ROLE stuffed")].concat(), vec![0; 8192]] {
            check(&served, &[request.clone(), stuffing].concat(), "");
        }
    }
    assert_eq!(Client::login(served.address, "admin").query("DROP ROLE stuffed"), "E:42704 Z:I");
}

#[test]
fn p2_w_03_no_error_of_login_leaves_the_connection_usable() {
    let served = Served::start();
    let then_query = |parameters: &[(&str, &str)]| [startup(parameters), query("CREATE ROLE unlet")].concat();
    check(&served, &then_query(&[("user", "nobody")]), "E:FATAL 28000");
    check(&served, &then_query(&[("user", "admin"), ("database", "nowhere")]), "E:FATAL 28000");
    check(&served, &then_query(&[("user", "admin"), ("no_such_setting", "1")]), "E:FATAL 42704");
    check(&served, &then_query(&[("database", "admin")]), "E:FATAL 28000");
    assert_eq!(Client::login(served.address, "admin").query("DROP ROLE unlet"), "E:42704 Z:I");
}

#[test]
fn w_02_p4_nothing_but_first_packets_passes() {
    let served = Served::start();
    let giant = [&b"Q"[..], &(300u32 << 20).to_be_bytes(), b"SELECT 1"].concat();
    check(&served, &giant, "E:FATAL 08P01");
    check(&served, &query("SELECT 1"), "E:FATAL 08P01");
    check(&served, &message(b'p', b"secret\0"), "E:FATAL 08P01");
    check(&served, b"GET / HTTP/1.1\r\n\r\n", "E:FATAL 08P01");
    check(&served, &packet(2 << 16, b"user\0admin\0\0"), "E:FATAL 0A000");
    check(&served, &packet(PROTOCOL_3_0, &[0; 9_993]), "E:FATAL 08P01");
    check(&served, &[0; 8], "E:FATAL 08P01");
    check(&served, &[0xff; 8], "E:FATAL 08P01");
}

#[test]
fn p5_w_12_startup_parameters_are_refused_when_malformed() {
    let served = Served::start();
    for user in [&b"user\0a\xff\0\0"[..], b"user\0a\xfe\0\0"] {
        check(&served, &packet(PROTOCOL_3_0, user), "E:FATAL 22021");
    }
    check(&served, &packet(PROTOCOL_3_0, b"user\0admin\0"), "E:FATAL 08P01");
    check(&served, &packet(PROTOCOL_3_0, b"user\0admin\0\0user\0x\0\0"), "E:FATAL 08P01");
    check(&served, &startup(&[("user", "admin"), ("user", "root")]), "E:FATAL 08P01");
    check(&served, &startup(&[("user", "")]), "E:FATAL 28000");
}

#[test]
fn w_14_texts_for_strangers_are_a_fixed_list() {
    let served = Served::start();
    let told = |parameters: &[(&str, &str)]| {
        let mut client = Client::connect(served.address);
        client.send(&startup(parameters));
        client.until_end()
    };
    let unknown = told(&[("user", "nobody")]);
    assert_eq!(unknown, told(&[("user", "admin"), ("database", "acme")]));
    assert_eq!(unknown[0].field(b'M').as_deref(), Some("login failed"));
}

#[test]
fn w_17_replication_is_refused() {
    let served = Served::start();
    for word in ["true", "database", "1"] {
        check(&served, &startup(&[("user", "admin"), ("replication", word)]), "E:FATAL 0A000");
    }
}

#[test]
fn c083_w_09_requests_for_encryption_in_any_order_and_once() {
    let served = Served::start();
    let (ssl, gss) = (ssl_request(), gss_request());
    for requests in [vec![], vec![&ssl], vec![&gss], vec![&gss, &ssl], vec![&ssl, &gss]] {
        let mut client = Client::connect(served.address);
        for request in requests {
            client.send(request);
            assert_eq!(client.byte(), Some(b'N'));
        }
        client.send(&startup(&ADMIN));
        assert_eq!(client.until_ready().last().unwrap().line(), "Z:I");
    }
    for requests in [vec![&ssl, &ssl], vec![&gss, &gss], vec![&ssl, &gss, &ssl]] {
        let mut client = Client::connect(served.address);
        for request in &requests[1..] {
            client.send(request);
            assert_eq!(client.byte(), Some(b'N'), "in the order {requests:?}");
            if request == &requests[0] {
                break;
            }
        }
        assert_eq!(client.last(requests[0]), "E:FATAL 08P01");
    }
}

#[test]
fn w_05_login_has_one_deadline() {
    let served = Served::with(ServerConfig { login_timeout: Duration::from_millis(100), ..ServerConfig::default() });
    for bytes in [&b""[..], b"\0\0", &startup(&ADMIN)[..9]] {
        check(&served, bytes, "E:FATAL 57014");
    }
}

#[test]
fn w_06_connections_are_capped() {
    for (all, each) in [(2, 9), (9, 2)] {
        let served = Served::with(ServerConfig {
            connections_max: all,
            connections_per_address_max: each,
            ..ServerConfig::default()
        });
        let mut first = Client::login(served.address, "admin");
        let second = Client::login(served.address, "admin");
        check(&served, &startup(&ADMIN), "E:FATAL 53300");
        let mut third = Client::connect(served.address);
        third.send(&ssl_request());
        assert_eq!(third.byte(), Some(b'N'));
        assert_eq!(third.last(&startup(&[("user", "nobody")])), "E:FATAL 53300");
        assert_eq!(first.query("CREATE ROLE r"), "C:CREATE ROLE Z:I");
        drop(second);
        while Client::connect(served.address).ask(&startup(&ADMIN)) == "E:FATAL 53300" {
            std::thread::yield_now();
        }
    }
}

/// The body of BackendKeyData: process and key.
fn key(said: &[Said]) -> (i32, Vec<u8>) {
    let body = &said.iter().find(|said| said.kind == b'K').unwrap().body;
    (i32::from_be_bytes(body[..4].try_into().unwrap()), body[4..].to_vec())
}

#[test]
fn w_13_keys_are_as_long_as_the_protocol_says() {
    let served = Served::start();
    for (protocol, bytes) in [(PROTOCOL_3_0, 4), (PROTOCOL_3_2, 32), (PROTOCOL_3_0 | 9999, 32)] {
        let mut client = Client::connect(served.address);
        client.send(&startup_of(protocol, &ADMIN));
        let said = client.until_ready();
        assert_eq!(key(&said).1.len(), bytes);
        assert_eq!(said[0].kind == b'v', protocol == PROTOCOL_3_0 | 9999);
    }
    let mut client = Client::connect(served.address);
    client.send(&startup_of(PROTOCOL_3_0, &[("user", "admin"), ("_pq_.later", "1")]));
    let said = client.until_ready();
    assert_eq!((said[0].kind, &said[0].body[..]), (b'v', &b"\0\x03\0\0\0\0\0\x01_pq_.later\0"[..]));
}

/// Logs in, as soon as a seat is free.
fn seated(served: &Served, protocol: u32) -> (Client, (i32, Vec<u8>)) {
    loop {
        let mut client = Client::connect(served.address);
        client.send(&startup_of(protocol, &ADMIN));
        let said = client.until_ready();
        if said.last().is_some_and(|said| said.kind == b'Z') {
            return (client, key(&said));
        }
        assert_eq!(support::client::lines(&said), "E:FATAL 53300");
    }
}

/// A statement waits behind another one's commit: it can be cancelled by its own key alone.
#[test]
fn c091_cancel_with_a_wrong_key() {
    let store = dataglot_store::fault::FaultStore::new(dataglot_store::open_memory().unwrap());
    let served = Served::on(
        Arc::clone(&store) as Arc<dyn dataglot_store::MetaStore>,
        // All seats are taken meanwhile: a cancel request needs none.
        ServerConfig { connections_max: 2, cancels_per_second_max: u32::MAX, ..ServerConfig::default() },
    );
    for protocol in [PROTOCOL_3_0, PROTOCOL_3_2] {
        let (mut first, _) = seated(&served, protocol);
        let (mut client, (process, right)) = seated(&served, protocol);

        let held = store.hold();
        first.send(&query("CREATE ROLE one"));
        held.until_waiting();
        client.send(&query("CREATE ROLE two"));
        let mut wrong = right.clone();
        wrong[0] ^= 1;
        let unknown = process.wrapping_add(1000);
        for (process, key) in [(process, &wrong), (unknown, &right), (process, &right)] {
            // A wish that comes before the statement has begun is without effect: ask until it holds.
            check(&served, &cancel_request(process, key), "");
        }
        client.stream.set_nonblocking(true).unwrap();
        while client.stream.peek(&mut [0]).is_err() {
            std::thread::yield_now();
            check(&served, &cancel_request(process, &right), "");
        }
        client.stream.set_nonblocking(false).unwrap();
        assert_eq!(support::client::lines(&client.until_ready()), "E:57014 Z:I");
        drop(held);
        assert_eq!(support::client::lines(&first.until_ready()), "C:CREATE ROLE Z:I");
        assert_eq!(client.query("DROP ROLE two"), "E:42704 Z:I");
        assert_eq!(client.query("DROP ROLE one"), "C:DROP ROLE Z:I");
    }
}

#[test]
fn a_stranger_cannot_cancel() {
    let store = dataglot_store::fault::FaultStore::new(dataglot_store::open_memory().unwrap());
    let served = Served::on(Arc::clone(&store) as Arc<dyn dataglot_store::MetaStore>, ServerConfig::default());
    let mut client = Client::connect(served.address);
    client.send(&startup(&ADMIN));
    let (process, mut wrong) = key(&client.until_ready());
    wrong[3] ^= 0x80;
    let held = store.hold();
    client.send(&query("CREATE ROLE one"));
    held.until_waiting();
    for key in [&wrong[..], &[0; 4], &[0; 32], &[0; 256]] {
        check(&served, &cancel_request(process, key), "");
    }
    drop(held);
    assert_eq!(support::client::lines(&client.until_ready()), "C:CREATE ROLE Z:I");
}

/// Connections that send a part of their login and stop are dropped one by one, and hinder nobody.
#[test]
fn half_a_login_hinders_nobody() {
    let served = Served::start();
    let mut half: Vec<_> = (0..50).map(|_| Client::connect(served.address)).collect();
    let packet = startup(&ADMIN);
    for (n, client) in half.iter_mut().enumerate() {
        client.send(&packet[..n % packet.len()]);
    }
    Client::login(served.address, "admin");
    for client in &mut half {
        client.stream.shutdown(Shutdown::Write).unwrap();
        assert_eq!(client.until_end(), []);
    }
}
