//! Health checks and metrics, as a balancer and Prometheus see them.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "a test fails by panicking")]

mod support;

use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use dataglot_pgtest::{Cluster, ClusterOptions};
use dataglot_server::{HttpConfig, HttpError, ServeError, Server, ServerConfig};
use dataglot_store::fault::{Fault, FaultStore, SharedStore};
use dataglot_store::{Dsn, MetaStore, PostgresOptions, RedbOptions, open_memory, open_postgres, open_redb};
use support::client::{cancel_request, query, startup};
use support::http::{Answer, get, send, send_all, until, value};
use support::{Client, Served};

fn on_loopback() -> ServerConfig {
    let http = HttpConfig { listen: SocketAddr::from(([127, 0, 0, 1], 0)), token_file: None };
    ServerConfig { http: Some(http), ..ServerConfig::default() }
}

fn http(served: &Served) -> SocketAddr {
    served.http.unwrap()
}

/// Asks `/readyz` until it answers with `status`.
#[track_caller]
fn until_ready_is(address: SocketAddr, status: u16) -> Answer {
    let deadline = Instant::now() + Duration::from_secs(30);
    loop {
        let answer = get(address, "/readyz");
        if answer.status == status {
            return answer;
        }
        assert!(Instant::now() < deadline, "{answer:?}");
        std::thread::yield_now();
    }
}

#[test]
fn a_server_says_that_it_lives_and_serves() {
    let served = Served::with(on_loopback());
    let alive = get(http(&served), "/healthz");
    assert_eq!((alive.status, alive.body.as_str()), (200, "ok\n"));
    let ready = get(http(&served), "/readyz");
    assert_eq!(
        (ready.status, ready.body.as_str()),
        (200, "{\"ready\":true,\"images\":1,\"contact_age_seconds\":0.000}\n")
    );
    assert!(ready.head.contains("content-type: application/json"), "{}", ready.head);
    assert!(ready.head.contains("connection: close"), "{}", ready.head);
    assert_eq!(get(http(&served), "/").status, 404);
    assert_eq!(get(http(&served), "/metrics/../healthz").status, 404);
    let posted = send(http(&served), b"POST /healthz HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n").unwrap();
    assert_eq!(posted.status, 405);
}

#[test]
fn without_the_setting_nothing_listens() {
    assert_eq!(Served::start().http, None);
}

#[test]
fn metrics_move_with_what_is_done() {
    let store = FaultStore::new(open_memory().unwrap());
    let served = Served::on(Arc::clone(&store) as Arc<dyn MetaStore>, on_loopback());
    let at_first = get(http(&served), "/metrics");
    assert!(at_first.head.contains("content-type: application/openmetrics-text; version=1.0.0; charset=utf-8"));
    assert!(at_first.body.ends_with("# EOF\n"));
    let first = |series: &str| value(&at_first.body, series).unwrap_or_else(|| panic!("{series} in {}", at_first.body));
    assert_eq!(first("dataglot_ready"), 1.0);
    assert_eq!(first("dataglot_store_up"), 1.0);
    assert_eq!(first("dataglot_connections_max"), 500.0);
    assert!(first("process_resident_memory_bytes") > 1e6);
    assert!(first("process_start_time_seconds") > 1.7e9);
    assert_eq!(first(&format!("dataglot_build_info{{version=\"{}\"}}", env!("CARGO_PKG_VERSION"))), 1.0);

    let mut client = Client::login(served.address, "admin");
    assert!(client.query("CREATE ROLE r; CREATE ROLE s").starts_with("C:CREATE ROLE C:CREATE ROLE "));
    assert_eq!(client.query("CREATE ROLE r"), "E:42710 Z:I");
    store.next([Fault::Conflict, Fault::LostReply]);
    assert!(client.query("CREATE ROLE t").starts_with("C:CREATE ROLE "));
    let text = get(http(&served), "/metrics").body;
    let moved = |series: &str| value(&text, series).unwrap() - first(series);
    assert_eq!(moved("dataglot_statements_total{outcome=\"ok\"}"), 3.0);
    assert_eq!(moved("dataglot_statements_total{outcome=\"error\"}"), 1.0);
    assert_eq!(moved("dataglot_image_rows"), 3.0);
    assert_eq!(moved("dataglot_commit_conflicts_total"), 1.0);
    assert_eq!(moved("dataglot_commit_unknown_outcomes_total"), 1.0);
    assert!(moved("dataglot_commit_seconds_count") >= 1.0, "{text}");
    assert!(moved("dataglot_commit_group_transactions_sum") >= 1.0, "{text}");
    assert_eq!(moved("dataglot_connections"), 1.0);
    assert_eq!(moved("dataglot_logins_total{outcome=\"ok\",sqlstate_class=\"00\"}"), 1.0);
    drop(client);
    until(http(&served), "dataglot_connections", |n| n == 0.0);
}

#[test]
fn refusals_are_counted_by_their_kind() {
    let config = ServerConfig {
        connections_max: 1,
        cancels_per_second_max: 1,
        login_timeout: Duration::from_millis(100),
        ..on_loopback()
    };
    let served = Served::with(config);
    let told = |bytes: &[u8]| Client::connect(served.address).last(bytes);
    assert_eq!(told(&startup(&[("user", "CANARY-7Q")])), "E:FATAL 28000");
    assert_eq!(told(b"GET / HTTP/1.1\r\n\r\n"), "E:FATAL 08P01");
    assert_eq!(told(&[]), "E:FATAL 57014");
    for _ in 0..2 {
        assert_eq!(told(&cancel_request(1, &[0; 4])), "");
    }
    until(http(&served), "dataglot_connections", |n| n == 0.0);
    let seated = Client::login(served.address, "admin");
    assert_eq!(told(&startup(&[("user", "admin")])), "E:FATAL 53300");
    for (series, least) in [
        ("dataglot_logins_total{outcome=\"refused\",sqlstate_class=\"28\"}", 1.0),
        ("dataglot_connections_turned_away_total{reason=\"protocol\"}", 1.0),
        ("dataglot_connections_turned_away_total{reason=\"timeout\"}", 1.0),
        ("dataglot_connections_turned_away_total{reason=\"too_many_connections\"}", 1.0),
        ("dataglot_cancel_requests_total{outcome=\"heard\"}", 1.0),
        ("dataglot_cancel_requests_total{outcome=\"limited\"}", 1.0),
    ] {
        let text = until(http(&served), series, |n| n >= least);
        assert!(!text.contains("CANARY-7Q"), "{text}");
    }
    drop(seated);
}

/// T-10, L-05: what a tenant makes does not make the exposition longer, nor stand in it.
#[test]
fn l_05_names_make_no_series() {
    let served = Served::with(on_loopback());
    let mut client = Client::login(served.address, "admin");
    let lines = || get(http(&served), "/metrics").body.lines().count();
    client.query("CREATE ROLE first");
    let before = lines();
    client.query("CREATE ORG \"canary-7q\"; CREATE ROLE \"canary-7q\"; CREATE SECRET s AS 'canary-7q'");
    assert_eq!(lines(), before);
    let shown = [get(http(&served), "/metrics").body, get(http(&served), "/readyz").body].concat();
    assert!(!shown.contains("canary-7q") && !shown.contains("memory:"), "{shown}");
}

#[test]
fn readiness_goes_with_the_store_and_comes_back() {
    let store = SharedStore::new(open_memory().unwrap());
    let served = Served::on(Arc::clone(&store) as Arc<dyn MetaStore>, on_loopback());
    until_ready_is(http(&served), 200);
    store.set_down(true);
    store.look();
    let down = until_ready_is(http(&served), 503);
    assert_eq!(down.body, "{\"ready\":false,\"reason\":\"the meta store cannot be reached or takes no commits\"}\n");
    let text = until(http(&served), "dataglot_store_up", |n| n == 0.0);
    assert_eq!(value(&text, "dataglot_ready"), Some(0.0));
    assert_eq!(get(http(&served), "/healthz").status, 200);
    store.set_down(false);
    store.look();
    until_ready_is(http(&served), 200);
    until(http(&served), "dataglot_store_up", |n| n == 1.0);
}

/// Two servers on one PostgreSQL: each counts what the other does, and both notice when it is gone.
#[test]
fn h_01_servers_of_one_postgres_tell_of_each_other_and_of_its_loss() {
    let cluster = Cluster::start(ClusterOptions::default());
    let database = cluster.database();
    let open = || open_postgres(PostgresOptions::new(Dsn::parse(&database.dsn()).unwrap())).unwrap();
    let one = Served::on(open(), on_loopback());
    let other = Served::on(open(), on_loopback());
    until_ready_is(http(&other), 200);
    until(http(&other), "dataglot_feed_listener_connected", |n| n == 1.0);
    assert!(Client::login(one.address, "admin").query("CREATE ROLE r").starts_with("C:CREATE ROLE "));
    until(http(&other), "dataglot_feed_transactions_total", |n| n == 1.0);
    until(http(&other), "dataglot_feed_behind_transactions", |n| n == 0.0);

    cluster.stop_immediate();
    for served in [&one, &other] {
        let down = until_ready_is(http(served), 503);
        assert!(!down.body.contains("host=") && !down.body.contains(database.name()), "{down:?}");
        until(http(served), "dataglot_store_up", |n| n == 0.0);
        until(http(served), "dataglot_feed_listener_losses_total", |n| n >= 1.0);
        assert_eq!(get(http(served), "/healthz").status, 200);
    }
    cluster.start_again();
    for served in [&one, &other] {
        until_ready_is(http(served), 200);
        until(http(served), "dataglot_feed_listener_connects_total", |n| n >= 2.0);
        until(http(served), "dataglot_feed_contact_age_seconds", |n| n < 5.0);
    }
}

#[test]
fn a_diverged_history_is_no_place_for_clients() {
    let store = SharedStore::new(open_memory().unwrap());
    let served = Served::on(Arc::clone(&store) as Arc<dyn MetaStore>, on_loopback());
    let mut client = Client::login(served.address, "admin");
    until_ready_is(http(&served), 200);
    let directory = tempfile::tempdir().unwrap();
    let older = directory.path().join("before-the-role");
    store.backup(&older).unwrap();
    assert!(client.query("CREATE ROLE r").starts_with("C:CREATE ROLE "));
    store.replace(open_redb(&older, RedbOptions::default()).unwrap());
    store.look();
    let answer = until_ready_is(http(&served), 503);
    assert!(answer.body.contains("not the one that was seen before"), "{answer:?}");
    assert!(!answer.body.contains("default"), "no name of an org: {answer:?}");
    until(http(&served), "dataglot_store_diverged", |n| n == 1.0);
}

fn token_file(directory: &tempfile::TempDir, token: &str) -> PathBuf {
    let path = directory.path().join("token");
    std::fs::write(&path, token).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
    path
}

#[test]
fn l_05_beyond_loopback_a_token_has_to_be_brought() {
    let any = SocketAddr::from(([0, 0, 0, 0], 0));
    let with =
        |token_file| ServerConfig { http: Some(HttpConfig { listen: any, token_file }), ..ServerConfig::default() };
    let refused = Server::bind(with(None)).unwrap_err();
    assert!(matches!(refused, ServeError::Http(HttpError::NoToken { .. })), "{refused}");

    let directory = tempfile::tempdir().unwrap();
    let path = token_file(&directory, "CANARY-7Q-0123456789\n");
    let served = Served::with(with(Some(path)));
    let address = SocketAddr::from(([127, 0, 0, 1], http(&served).port()));
    let ask = |path: &str, fields: &str| {
        send(address, format!("GET {path} HTTP/1.1\r\nHost: x\r\n{fields}\r\n").as_bytes()).unwrap()
    };
    let right = "Authorization: Bearer CANARY-7Q-0123456789\r\n";
    for path in ["/healthz", "/readyz", "/metrics"] {
        assert_eq!(ask(path, right).status, 200, "{path}");
        for wrong in [
            "".to_owned(),
            "Authorization: Bearer CANARY-7Q-012345678\r\n".to_owned(),
            "Authorization: Basic CANARY-7Q-0123456789\r\n".to_owned(),
            format!("Authorization: Bearer x\r\n{right}"),
            format!("{right}Authorization: Bearer x\r\n"),
        ] {
            let answer = ask(path, &wrong);
            assert_eq!(answer.status, 401, "{path} {wrong}");
            assert!(answer.head.contains("www-authenticate: bearer"), "{}", answer.head);
            assert_eq!(answer.body, "a token is required\n");
        }
    }
    assert_eq!(ask("/nothing", "").status, 401, "which paths there are is not told");
    assert!(!ask("/metrics", right).body.contains("CANARY-7Q"));
}

#[test]
fn l_05_a_token_counts_on_loopback_too() {
    let directory = tempfile::tempdir().unwrap();
    let path = token_file(&directory, "CANARY-7Q-0123456789");
    let loopback = SocketAddr::from(([127, 0, 0, 1], 0));
    let config = HttpConfig { listen: loopback, token_file: Some(path.clone()) };
    let served = Served::with(ServerConfig { http: Some(config.clone()), ..ServerConfig::default() });
    assert_eq!(get(http(&served), "/healthz").status, 401);
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
    let refused = Server::bind(ServerConfig { http: Some(config), ..ServerConfig::default() }).unwrap_err();
    assert!(matches!(refused, ServeError::Http(HttpError::Token { .. })), "{refused}");
}

#[test]
fn garbage_does_no_harm() {
    let served = Served::with(on_loopback());
    let long = format!("GET /healthz HTTP/1.1\r\nHost: x\r\nX: {}\r\n\r\n", "x".repeat(1 << 20));
    let many = format!("GET /healthz HTTP/1.1\r\n{}\r\n", "X: y\r\n".repeat(5_000));
    let path = format!("GET /{} HTTP/1.1\r\nHost: x\r\n\r\n", "x".repeat(100_000));
    for bytes in [
        &b""[..],
        b"\0",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"GET",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nHost: x\r\nHost\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        &startup(&[("user", "admin")]),
        &query("SELECT 1"),
        long.as_bytes(),
        many.as_bytes(),
        path.as_bytes(),
    ] {
        let answer = send_all(http(&served), bytes);
        assert!(answer.as_ref().is_none_or(|a| a.status >= 400), "{answer:?}");
    }
    for bytes in [long.as_bytes(), many.as_bytes(), path.as_bytes(), b"\0\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n"] {
        let answer = send(http(&served), bytes);
        assert!(answer.as_ref().is_none_or(|a| a.status >= 400), "{answer:?}");
    }
    assert_eq!(get(http(&served), "/healthz").status, 200);
    assert!(Client::login(served.address, "admin").query("CREATE ROLE r").starts_with("C:CREATE ROLE "));
}

/// Peers that connect and say nothing keep others out for the length of their lives only, and not the server
/// from ending.
#[test]
fn silent_peers_do_not_keep_the_server() {
    let mut served = Served::with(on_loopback());
    let mut silent: Vec<TcpStream> = (0..20).map(|_| TcpStream::connect(http(&served)).unwrap()).collect();
    for stream in &mut silent {
        stream.write_all(b"GET /healthz HTTP/1.1\r\n").unwrap();
    }
    assert_eq!(get(http(&served), "/healthz").status, 200);
    served.stop();
    served.wait();
    assert!(TcpStream::connect(http(&served)).is_err());
}

#[test]
fn while_statements_finish_health_checks_are_told_of_the_end() {
    let store = FaultStore::new(open_memory().unwrap());
    let mut served = Served::on(Arc::clone(&store) as Arc<dyn MetaStore>, on_loopback());
    until_ready_is(http(&served), 200);
    let mut client = Client::login(served.address, "admin");
    let held = store.hold();
    client.send(&query("CREATE ROLE r"));
    held.until_waiting();
    served.stop();
    let answer = until_ready_is(http(&served), 503);
    assert_eq!(answer.body, "{\"ready\":false,\"reason\":\"the server is shutting down\"}\n");
    assert_eq!(get(http(&served), "/healthz").status, 200);
    drop(held);
    served.wait();
    assert!(TcpStream::connect(http(&served)).is_err());
}
