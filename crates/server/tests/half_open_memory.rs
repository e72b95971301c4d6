//! W-04: what logins that stop halfway make the server remember. Alone in its process, whose memory it measures.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, clippy::print_stdout, reason = "a test")]

mod support;

use std::io::Write as _;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use dataglot_server::{Authentication, Hba, HttpConfig, Method, ServerConfig};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use support::client::{message, startup};
use support::http::{get, value};
use support::{Client, Served};

const CONNECTIONS: usize = 2000;
const BYTES_MAX: f64 = (64 << 20) as f64;

fn read(http: SocketAddr, series: &str) -> f64 {
    value(&get(http, "/metrics").body, series).unwrap()
}

#[test]
fn w_04_logins_that_stop_halfway_are_bounded() {
    let files = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: files.maximum, maximum: files.maximum }).unwrap();
    let http = HttpConfig { listen: ([127, 0, 0, 1], 0).into(), token_file: None };
    let served = Served::with(ServerConfig {
        authentication: Authentication { hba: Hba::one(Method::ScramSha256), trust_remote: false },
        http: Some(http),
        login_timeout: Duration::from_secs(600),
        ..ServerConfig::default()
    });
    let http = served.http.unwrap();
    let before = read(http, "process_resident_memory_bytes");
    // As much as may be said, and a byte less.
    let proof = message(b'p', &[b'x'; 16 << 10]);
    let mut open = Vec::new();
    for n in 0..CONNECTIONS {
        let mut client = Client::connect(served.address);
        client.send(&startup(&[("user", &format!("u{n}")), ("database", "default"), ("options", &"x".repeat(9_900))]));
        // Most are asked. Some are gone before, for others.
        if client.next().is_some_and(|said| said.kind == b'R') {
            let _ = client.stream.write_all(&proof[..proof.len() - 1]);
        }
        open.push(client);
    }
    // Settled: nothing more is read.
    let deadline = Instant::now() + Duration::from_secs(60);
    let (mut most, mut same) = (0.0, 0);
    while same < 100 {
        let now = read(http, "process_resident_memory_bytes");
        same = if now > most { 0 } else { same + 1 };
        most = now.max(most);
        assert!(Instant::now() < deadline, "memory grows without end");
    }
    let waiting = read(http, "dataglot_connections_waiting");
    let grown = most - before;
    println!("{waiting} of {CONNECTIONS} wait: {:.1} MiB", grown / f64::from(1 << 20));
    assert!(waiting >= 1000.0, "{waiting}");
    assert!(grown < BYTES_MAX, "{grown} bytes");
}
