//! W-04: what strangers make the server remember. Alone in its process, whose memory it measures.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, clippy::print_stdout, reason = "a test")]

mod support;

use std::io::Write as _;
use std::time::{Duration, Instant};

use dataglot_server::{HttpConfig, ServerConfig, TlsMode};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use support::client::ssl_request;
use support::http::{get, value};
use support::pki::Pki;
use support::{Client, Served};

const CONNECTIONS: usize = 1000;
const BYTES_MAX: f64 = (64 << 20) as f64;

/// Of a handshake that never ends: a ClientHello of which `bytes` have come, and as many are to come again.
fn half_a_hello(bytes: usize) -> Vec<u8> {
    let mut hello = vec![1];
    hello.extend_from_slice(&u32::try_from(2 * bytes).unwrap().to_be_bytes()[1..]);
    hello.resize(bytes, 0);
    let record = |piece: &[u8]| [&[0x16, 3, 1][..], &u16::try_from(piece.len()).unwrap().to_be_bytes(), piece].concat();
    hello.chunks(16_000).flat_map(record).collect()
}

fn memory(http: std::net::SocketAddr) -> f64 {
    value(&get(http, "/metrics").body, "process_resident_memory_bytes").unwrap()
}

#[test]
fn w_04_half_open_handshakes_are_bounded() {
    let files = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: files.maximum, maximum: files.maximum }).unwrap();
    let pki = Pki::new();
    let http = HttpConfig { listen: ([127, 0, 0, 1], 0).into(), token_file: None };
    let served = Served::with(ServerConfig {
        tls: Some(pki.config(TlsMode::Require)),
        http: Some(http),
        login_timeout: Duration::from_secs(600),
        ..ServerConfig::default()
    });
    let http = served.http.unwrap();
    let before = memory(http);
    // As much as the server takes: one byte more is too much.
    let most = half_a_hello(24 << 10);
    let most = &most[..24 << 10];
    let mut open = Vec::new();
    for _ in 0..CONNECTIONS {
        let mut client = Client::connect(served.address);
        client.send(&ssl_request());
        assert_eq!(client.byte(), Some(b'S'));
        client.send(most);
        open.push(client);
    }
    // Settled: nothing more is read, and nobody has been turned away.
    let deadline = Instant::now() + Duration::from_secs(60);
    let (mut last, mut same) = (0.0, 0);
    while same < 100 {
        let now = memory(http);
        same = if now > last { 0 } else { same + 1 };
        last = now.max(last);
        assert!(Instant::now() < deadline, "memory grows without end");
    }
    let text = get(http, "/metrics").body;
    assert_eq!(value(&text, "dataglot_connections_waiting"), Some(CONNECTIONS as f64));
    let grown = last - before;
    println!("{CONNECTIONS} half-open handshakes: {:.1} MiB", grown / f64::from(1 << 20));
    assert!(grown < BYTES_MAX, "{grown} bytes");

    // One byte more, and it is over.
    for mut client in open.into_iter().take(10) {
        let _ = client.stream.write_all(&[0]);
        assert_eq!(client.until_end(), []);
    }
}
