//! The servers do what the tests that use them rely on.

#![allow(clippy::unwrap_used, clippy::panic, clippy::disallowed_methods, reason = "a test")]

use std::path::Path;
use std::time::{Duration, Instant};

use dataglot_pgtest::{Cluster, ClusterOptions};

fn wait_until(what: &str, done: impl Fn() -> bool) {
    let begun = Instant::now();
    while !done() {
        assert!(begun.elapsed() < Duration::from_secs(30), "{what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn databases_are_apart_and_their_owners_can_do_nothing_else() {
    let (a, b) = (Cluster::shared().database(), Cluster::shared().database());
    assert_ne!(a.name(), b.name());
    a.execute("CREATE TABLE t (x int); INSERT INTO t VALUES (1), (2)");
    assert_eq!(a.query("SELECT x FROM t ORDER BY 1"), ["1", "2"]);
    assert_eq!(a.query_one("SELECT count(*) FROM t"), "2");
    assert!(b.try_execute("SELECT * FROM t").unwrap_err().starts_with("42P01"));

    assert!(a.try_execute_as_owner("CREATE SCHEMA mine").is_ok());
    assert!(a.try_execute_as_owner("CREATE DATABASE other").unwrap_err().starts_with("42501"));
    assert!(a.try_execute_as_owner("CREATE ROLE other").unwrap_err().starts_with("42501"));
    assert!(a.try_execute_as_owner("SELECT * FROM t").unwrap_err().starts_with("42501"));
}

#[tokio::test]
async fn a_database_can_be_used_inside_a_runtime_and_goes_with_its_connections() {
    let database = Cluster::shared().database();
    let name = database.name().to_owned();
    for dsn in [database.dsn(), database.tcp_dsn(), database.superuser_dsn()] {
        let (client, connection) = tokio_postgres::connect(&dsn, tokio_postgres::NoTls).await.unwrap();
        let driver = tokio::spawn(connection);
        assert_eq!(client.query_one("SELECT current_database()::text", &[]).await.unwrap().get::<_, String>(0), name);
        assert_eq!(database.connections(), 1);
        assert_eq!(database.terminate_connections(), 1);
        assert!(driver.await.unwrap().is_err());
    }
    let (client, connection) = tokio_postgres::connect(&database.dsn(), tokio_postgres::NoTls).await.unwrap();
    let driver = tokio::spawn(connection);
    drop(database);
    assert!(driver.await.unwrap().is_err());
    assert!(client.is_closed());
    let left = format!("SELECT count(*) FROM pg_roles WHERE rolname = '{name}'");
    assert_eq!(Cluster::shared().query_one(&left), "0");
}

#[test]
fn a_server_recovers_from_an_immediate_stop() {
    let cluster = Cluster::start(ClusterOptions { fsync: true, ..ClusterOptions::default() });
    assert_eq!(cluster.query_one("SHOW fsync"), "on");
    let database = cluster.database();
    database.execute("CREATE TABLE t (x int)");
    database.execute("INSERT INTO t VALUES (7)");
    cluster.stop_immediate();
    assert_eq!(cluster.pid(), None);
    assert!(database.try_execute("SELECT 1").is_err());
    cluster.start_again();
    assert_eq!(database.query_one("SELECT x FROM t"), "7");
    assert!(cluster.log().contains("automatic recovery in progress"), "{}", cluster.log());
}

#[test]
fn a_paused_server_answers_when_it_goes_on() {
    let cluster = Cluster::start(ClusterOptions::default());
    let database = cluster.database();
    cluster.pause();
    let (done, answer) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        scope.spawn(|| done.send(database.query_one("SELECT 1")).unwrap());
        assert!(answer.recv_timeout(Duration::from_millis(200)).is_err(), "nobody answers");
        cluster.resume();
        assert_eq!(answer.recv_timeout(Duration::from_secs(30)).unwrap(), "1");
    });
    // Dropping it paused must not hang.
    cluster.pause();
}

#[test]
fn a_standby_follows_and_takes_over() {
    let primary = Cluster::start(ClusterOptions::default());
    let standby = Cluster::standby_of(&primary, ClusterOptions::default());
    primary.execute("CREATE TABLE t (x int); INSERT INTO t VALUES (7)");
    standby.catch_up_with(&primary);
    assert_eq!(standby.query_one("SELECT x FROM t"), "7");
    assert_eq!(standby.query_one("SELECT pg_is_in_recovery()"), "t");
    primary.stop_immediate();
    standby.promote();
    standby.execute("INSERT INTO t VALUES (8)");
}

#[test]
fn passwords_are_asked_for_where_the_options_say_so() {
    let cluster = Cluster::start(ClusterOptions::default().hba("host all all 127.0.0.1/32 scram-sha-256"));
    let database = cluster.database();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        assert!(tokio_postgres::connect(&database.tcp_dsn(), tokio_postgres::NoTls).await.is_ok());
        let wrong = database.tcp_dsn().replace(database.password(), "wrong");
        assert!(tokio_postgres::connect(&wrong, tokio_postgres::NoTls).await.is_err());
        assert!(tokio_postgres::connect(&database.dsn(), tokio_postgres::NoTls).await.is_err(), "no line lets it in");
    });
}

/// Not a test of its own: the process that the next one kills.
#[test]
fn child_that_is_killed() {
    let Ok(path) = std::env::var("PGTEST_CHILD") else { return };
    let cluster = Cluster::start(ClusterOptions::default());
    let text = format!("{} {}", cluster.pid().unwrap(), cluster.socket_directory());
    cluster.pause();
    std::fs::write(format!("{path}.new"), text).unwrap();
    std::fs::rename(format!("{path}.new"), path).unwrap();
    std::thread::sleep(Duration::from_secs(300));
}

#[test]
fn a_server_ends_with_its_process_even_if_that_is_killed() {
    let directory = tempfile::tempdir().unwrap();
    let told = directory.path().join("told");
    let mut child = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child_that_is_killed"])
        .env("PGTEST_CHILD", &told)
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    wait_until("the child has started its server", || told.exists());
    let text = std::fs::read_to_string(&told).unwrap();
    let (pid, root) = text.split_once(' ').unwrap();
    let process = Path::new("/proc").join(pid);
    assert!(process.exists() && Path::new(root).exists());
    child.kill().unwrap();
    child.wait().unwrap();
    wait_until("the directory is removed", || !Path::new(root).exists());
    // Where nobody reaps orphans, what is left of it is its name.
    wait_until("the server is gone", || {
        std::fs::read_to_string(process.join("stat")).map_or(true, |stat| stat.contains(") Z "))
    });
}
