//! Encrypted connections: how they begin, what is refused, and certificates that change.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "a test fails by panicking")]

mod support;

use std::io::Read as _;
use std::time::{Duration, Instant};

use dataglot_server::{HttpConfig, Server, ServerConfig, TlsConfig, TlsMode};
use rcgen::KeyPair;
use support::client::{cancel_request, gss_request, lines, query, ssl_request, startup};
use support::encrypted::{config, directly, on_request};
use support::pki::{Pki, write};
use support::{Client, Served};

const ADMIN: [(&str, &str); 1] = [("user", "admin")];
const OURS: &[&str] = &["postgresql"];

fn served(tls: TlsConfig) -> Served {
    Served::with(ServerConfig { tls: Some(tls), ..ServerConfig::default() })
}

/// A server with metrics, and where they are.
fn measured(tls: TlsConfig) -> (Served, std::net::SocketAddr) {
    let http = HttpConfig { listen: ([127, 0, 0, 1], 0).into(), token_file: None };
    let served = Served::with(ServerConfig { tls: Some(tls), http: Some(http), ..ServerConfig::default() });
    let http = served.http.unwrap();
    (served, http)
}

/// Logs in, and has a statement answered.
#[track_caller]
fn works(client: std::io::Result<support::encrypted::Encrypted>) {
    let mut client = client.unwrap();
    client.send(&startup(&ADMIN));
    assert_eq!(client.until_ready().last().unwrap().line(), "Z:I");
    assert_eq!(client.query("CREATE ROLE r; DROP ROLE r"), "C:CREATE ROLE C:DROP ROLE Z:I");
}

#[test]
fn on_request_and_directly() {
    let pki = Pki::new();
    let served = served(pki.config(TlsMode::Require));
    for alpn in [&[][..], OURS, &["http/1.1", "postgresql"]] {
        works(on_request(served.address, config(&pki, None, alpn)));
    }
    works(directly(served.address, config(&pki, None, OURS)));
    let mut client = Client::connect(served.address);
    client.send(&gss_request());
    assert_eq!(client.byte(), Some(b'N'));
    client.send(&ssl_request());
    assert_eq!(client.byte(), Some(b'S'));
    works(support::encrypted::handshake(client.stream, config(&pki, None, &[])));
}

/// Much in both directions: answers that TLS takes in pieces, messages longer than its records.
#[test]
fn long_messages_pass() {
    let pki = Pki::new();
    let served = served(pki.config(TlsMode::Allow));
    let mut client = on_request(served.address, config(&pki, None, &[])).unwrap();
    client.send(&startup(&ADMIN));
    client.until_ready();
    let text = "x".repeat(900_000);
    client.send(&query(&format!("SELECT '{text}'")));
    let said = client.until_ready();
    assert_eq!(said.iter().filter(|s| s.kind == b'D').map(|s| s.body.len()).sum::<usize>(), 900_006);
    assert_eq!(said.last().unwrap().line(), "Z:I");
}

#[test]
fn w_08_direct_tls_takes_our_protocol_only() {
    let pki = Pki::new();
    let (served, http) = measured(pki.config(TlsMode::Allow));
    for alpn in [&[][..], &["http/1.1"], &["h2", "smtp"]] {
        assert!(directly(served.address, config(&pki, None, alpn)).is_err(), "{alpn:?}");
    }
    assert!(on_request(served.address, config(&pki, None, &["http/1.1"])).is_err());
    support::http::until(http, "dataglot_tls_handshake_failures_total{reason=\"alpn\"}", |n| n == 4.0);
}

#[test]
fn w_07_nothing_in_clear_where_tls_is_required() {
    let pki = Pki::new();
    let strict = served(pki.config(TlsMode::Require));
    for user in ["admin", "nobody"] {
        let mut client = Client::connect(strict.address);
        client.send(&startup(&[("user", user)]));
        let said = client.until_end();
        assert_eq!(lines(&said), "E:FATAL 28000");
        assert_eq!(said[0].field(b'M').as_deref(), Some("this server takes encrypted connections only"));
    }
    let lenient = served(pki.config(TlsMode::Allow));
    Client::login(lenient.address, "admin");
    let without = Served::start();
    let mut client = Client::connect(without.address);
    client.send(&ssl_request());
    assert_eq!(client.byte(), Some(b'N'));
    assert!(directly(without.address, config(&pki, None, OURS)).is_err());
}

#[test]
fn w_09_tls_is_asked_for_once() {
    let pki = Pki::new();
    let served = served(pki.config(TlsMode::Allow));
    for request in [ssl_request(), gss_request()] {
        for begun in [on_request, directly] {
            let mut client = begun(served.address, config(&pki, None, OURS)).unwrap();
            assert_eq!(client.last(&request), "E:FATAL 08P01");
        }
    }
}

/// Bytes in clear after a request for TLS, at every split between what comes with the request and what comes
/// after it: never an answer, never a statement that is run.
#[test]
fn p1_w_01_stuffed_bytes_reach_nobody() {
    let pki = Pki::new();
    let served = served(pki.config(TlsMode::Allow));
    let injected = [startup(&ADMIN), query("CREATE ROLE stuffed")].concat();
    let request = ssl_request();
    let mut all = [request.clone(), injected.clone()].concat();
    for split in 1..all.len() {
        let mut client = Client::connect(served.address);
        client.send(&all[..split]);
        if split == request.len() {
            assert_eq!(client.byte(), Some(b'S'));
        }
        let _ = std::io::Write::write_all(&mut client.stream, &all[split..]);
        let mut said = Vec::new();
        let _ = client.stream.read_to_end(&mut said);
        assert!(said.is_empty() || said == b"S", "split at {split}: {}", said.escape_ascii());
    }
    for bytes in [1, 2, 8, 4095, 4096, 4097, 8192] {
        all.resize(request.len() + bytes, b'x');
        assert_eq!(Client::connect(served.address).last(&all), "", "{bytes}");
    }
    works(on_request(served.address, config(&pki, None, &[])));
    let mut client = Client::login(served.address, "admin");
    assert_eq!(client.query("DROP ROLE stuffed"), "E:42704 Z:I");
}

/// A ClientHello that came before our answer may be anybody's.
#[test]
fn w_01_a_handshake_that_comes_too_early_is_none() {
    let pki = Pki::new();
    let served = served(pki.config(TlsMode::Allow));
    let hello = hello(0x0303, &[0x1301, 0xc02b], true);
    assert_eq!(Client::connect(served.address).last(&[ssl_request(), hello].concat()), "");
}

#[test]
fn w_05_the_deadline_covers_the_handshake() {
    let pki = Pki::new();
    let login_timeout = Duration::from_millis(200);
    let served = Served::with(ServerConfig {
        tls: Some(pki.config(TlsMode::Require)),
        login_timeout,
        ..ServerConfig::default()
    });
    let hello = hello(0x0303, &[0x1301, 0xc02b], true);
    for sent in [0, 1, 5, 40, hello.len() - 1, hello.len()] {
        let mut client = Client::connect(served.address);
        client.send(&ssl_request());
        assert_eq!(client.byte(), Some(b'S'));
        client.send(&hello[..sent]);
        // Whatever TLS says, there is an end, and nothing in clear.
        let mut said = Vec::new();
        let _ = client.stream.read_to_end(&mut said);
        assert!(said.is_empty() || said[0] == 0x16 || sent == 0, "{sent}: {}", said.escape_ascii());
    }
    let mut client = on_request(served.address, config(&pki, None, &[])).unwrap();
    assert_eq!(lines(&client.until_end()), "E:FATAL 57014");
}

#[test]
fn c091_a_cancel_request_may_be_encrypted() {
    let pki = Pki::new();
    let (served, http) = measured(pki.config(TlsMode::Require));
    let mut client = on_request(served.address, config(&pki, None, &[])).unwrap();
    assert_eq!(client.last(&cancel_request(1, &[0; 4])), "");
    support::http::until(http, "dataglot_cancel_requests_total{outcome=\"heard\"}", |n| n == 1.0);
}

#[test]
fn a_session_ends_with_close_notify() {
    let pki = Pki::new();
    let mut served = served(pki.config(TlsMode::Require));
    let mut client = on_request(served.address, config(&pki, None, &[])).unwrap();
    client.send(&startup(&ADMIN));
    client.until_ready();
    served.stop();
    assert_eq!(lines(&client.until_end()), "E:FATAL 57P01");
    // Without it, this would be an error.
    assert_eq!(client.stream.read(&mut [0]).unwrap(), 0);
}

#[test]
fn clients_certificates_are_verified_if_there_are_any() {
    let (pki, other) = (Pki::new(), Pki::new());
    pki.client("ann");
    other.client("eve");
    std::fs::copy(other.path("eve.crt"), pki.path("eve.crt")).unwrap();
    std::fs::copy(other.path("eve.key"), pki.path("eve.key")).unwrap();
    let tls = TlsConfig { client_ca: Some(pki.path("ca.crt")), ..pki.config(TlsMode::Require) };
    let (served, http) = measured(tls);
    works(on_request(served.address, config(&pki, None, &[])));
    works(on_request(served.address, config(&pki, Some("ann"), &[])));
    // In TLS 1.3 the client is done before it is told.
    let refused = on_request(served.address, config(&pki, Some("eve"), &[])).is_ok_and(|mut client| {
        let _ = std::io::Write::write_all(&mut client.stream, &startup(&ADMIN));
        client.stream.read(&mut [0]).is_ok_and(|n| n > 0)
    });
    assert!(!refused);
    support::http::until(http, "dataglot_tls_handshake_failures_total{reason=\"client_certificate\"}", |n| n == 1.0);
}

/// What the server's certificate is signed as, which changes with each.
fn served_certificate(served: &Served, pki: &Pki) -> Vec<u8> {
    let client = on_request(served.address, config(pki, None, &[])).unwrap();
    client.stream.conn.peer_certificates().unwrap()[0].to_vec()
}

#[track_caller]
fn until(what: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while !what() {
        assert!(Instant::now() < deadline, "it does not come true");
        std::thread::yield_now();
    }
}

const EXPIRY: &str = "dataglot_tls_certificate_expiry_seconds{chain=\"server\"}";

#[test]
fn certificates_change_while_connections_are_open() {
    let pki = Pki::new();
    let tls = TlsConfig { poll_interval: Duration::from_millis(20), ..pki.config(TlsMode::Require) };
    let (served, http) = measured(tls);
    let first = served_certificate(&served, &pki);
    support::http::until(http, EXPIRY, |at| at == 4_102_444_800.0);
    let mut open = on_request(served.address, config(&pki, None, &[])).unwrap();
    open.send(&startup(&ADMIN));
    open.until_ready();

    pki.serve(&KeyPair::generate().unwrap(), 2101);
    support::http::until(http, EXPIRY, |at| at == 4_133_980_800.0);
    let second = served_certificate(&served, &pki);
    assert_ne!(first, second);

    // Files that are no use change nothing.
    write(&pki.path("server.crt"), "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n");
    write(&pki.path("server.key"), &KeyPair::generate().unwrap().serialize_pem());
    support::http::until(http, "dataglot_tls_reload_failures_total", |n| n > 0.0);
    assert_eq!(served_certificate(&served, &pki), second);
    assert_eq!(open.query("CREATE ROLE r; DROP ROLE r"), "C:CREATE ROLE C:DROP ROLE Z:I");

    pki.serve(&KeyPair::generate().unwrap(), 2102);
    support::http::until(http, EXPIRY, |at| at == 4_165_516_800.0);
    assert_eq!(open.query("CREATE ROLE r; DROP ROLE r"), "C:CREATE ROLE C:DROP ROLE Z:I");
}

#[test]
fn sighup_reads_certificates_again() {
    let pki = Pki::new();
    let (served, http) = measured(pki.config(TlsMode::Require));
    let first = served_certificate(&served, &pki);
    support::http::until(http, EXPIRY, |at| at == 4_102_444_800.0);
    pki.serve(&KeyPair::generate().unwrap(), 2101);
    rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::HUP).unwrap();
    until(|| served_certificate(&served, &pki) != first);
}

#[test]
fn a_server_does_not_start_with_files_that_are_no_use() {
    let pki = Pki::new();
    let start = |tls: TlsConfig| {
        Server::bind(ServerConfig { tls: Some(tls), ..ServerConfig::default() }).map(drop).unwrap_err().to_string()
    };
    let good = || pki.config(TlsMode::Allow);
    let other = KeyPair::generate().unwrap();
    write(&pki.path("other.key"), &other.serialize_pem());
    write(&pki.path("none"), "CANARY-7Q");
    write(&pki.path("open.key"), &other.serialize_pem());
    std::fs::set_permissions(pki.path("open.key"), std::os::unix::fs::PermissionsExt::from_mode(0o644)).unwrap();
    for (tls, expected) in [
        (TlsConfig { certificate: pki.path("missing"), ..good() }, "cannot be read"),
        (TlsConfig { certificate: pki.path("none"), ..good() }, "it holds no certificate"),
        (TlsConfig { key: pki.path("none"), ..good() }, "it holds no private key"),
        (TlsConfig { key: pki.path("open.key"), ..good() }, "its mode is 0644"),
        (TlsConfig { key: pki.path("other.key"), ..good() }, "it is not the key of the certificate"),
        (TlsConfig { client_ca: Some(pki.path("none")), ..good() }, "it holds no certificate"),
    ] {
        let error = start(tls);
        assert!(error.contains(expected) && !error.contains("CANARY"), "{error}");
    }
}

/// A ClientHello as of that version, with these suites, in a record. `newest`: with what TLS 1.3 needs.
fn hello(version: u16, suites: &[u16], newest: bool) -> Vec<u8> {
    let list = |bytes: usize, body: &[u8]| {
        let length = u32::try_from(body.len()).unwrap().to_be_bytes();
        [&length[4 - bytes..], body].concat()
    };
    let extension = |kind: u16, body: &[u8]| [&kind.to_be_bytes()[..], &list(2, body)].concat();
    let suites: Vec<u8> = suites.iter().flat_map(|suite| suite.to_be_bytes()).collect();
    let mut extensions = [
        // Groups: x25519, P-256. Points: uncompressed. Signatures: RSA-PSS, RSA and ECDSA with SHA-256.
        extension(10, &list(2, &[0, 0x1d, 0, 0x17])),
        extension(11, &list(1, &[0])),
        extension(13, &list(2, &[8, 4, 4, 1, 4, 3])),
        extension(23, &[]),
    ]
    .concat();
    if newest {
        extensions.extend(extension(43, &list(1, &[3, 4, 3, 3])));
        extensions.extend(extension(51, &list(2, &[&[0, 0x1d][..], &list(2, &[9; 32])].concat())));
    }
    let body =
        [&version.to_be_bytes()[..], &[7; 32], &[0], &list(2, &suites), &list(1, &[0]), &list(2, &extensions)].concat();
    let message = [&[1][..], &list(3, &body)].concat();
    [&[0x16, 3, 1][..], &list(2, &message)].concat()
}

/// Whether the server goes on with that ClientHello: TLS's first answer is a handshake, not an alert.
fn goes_on(served: &Served, hello: &[u8]) -> bool {
    let mut client = Client::connect(served.address);
    client.send(&ssl_request());
    assert_eq!(client.byte(), Some(b'S'));
    client.send(hello);
    match client.byte() {
        Some(0x16) => true,
        Some(0x15) => false,
        other => panic!("neither a handshake nor an alert: {other:?}"),
    }
}

/// Every suite that IANA has given a number in the ranges in use, one by one, as a scanner asks for them.
#[test]
fn w_07_suites_are_a_golden_list() {
    let golden: [(&str, &[u16]); 2] = [
        // AES-128-GCM, AES-256-GCM, ChaCha20-Poly1305: of TLS 1.3, then with ECDHE of TLS 1.2.
        ("ecdsa", &[0x1301, 0x1302, 0x1303, 0xc02b, 0xc02c, 0xcca9]),
        ("rsa", &[0x1301, 0x1302, 0x1303, 0xc02f, 0xc030, 0xcca8]),
    ];
    for (kind, expected) in golden {
        let pki = Pki::new();
        if kind == "rsa" {
            pki.serve_rsa();
        }
        let served = served(pki.config(TlsMode::Require));
        let suites = (0..0x100).chain(0x1300..0x1310).chain(0xc000..0xc100).chain(0xcca0..0xccb0);
        // 0x00ff and 0x5600 are signals, no suites.
        let taken: Vec<u16> =
            suites.filter(|suite| goes_on(&served, &hello(0x0303, &[*suite], *suite >> 8 == 0x13))).collect();
        assert_eq!(taken, expected, "{kind}");
    }
}

#[test]
fn w_07_older_versions_are_refused() {
    let pki = Pki::new();
    let served = served(pki.config(TlsMode::Require));
    let suites = [0xc02b, 0xc02c, 0xc009, 0xc00a, 0x002f];
    for (version, expected) in [(0x0303, true), (0x0302, false), (0x0301, false), (0x0300, false)] {
        assert_eq!(goes_on(&served, &hello(version, &suites, false)), expected, "{version:x}");
    }
}
