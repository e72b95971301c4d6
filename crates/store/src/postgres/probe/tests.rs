//! Real servers, proxies and standbys, and what is said of each.

use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use dataglot_model::Problem;
use dataglot_pgtest::{Cluster, ClusterOptions, Database};

use super::settings::Facts;
use super::*;
use crate::postgres::connect::tests::{dsn, run};

/// A running pgbouncer. It ends with this value, and with this process however that ends.
struct Bouncer {
    port: u16,
    shell: Child,
    _directory: tempfile::TempDir,
}

#[expect(clippy::disallowed_methods, reason = "where programs are is the developer's environment")]
fn bouncer_binary() -> PathBuf {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path)
        .chain(["/usr/sbin".into(), "/usr/local/sbin".into()])
        .map(|directory| directory.join("pgbouncer"))
        .find(|file| file.is_file());
    found.expect("pgbouncer is needed by this test and is not here. Debian: apt-get install pgbouncer")
}

impl Bouncer {
    /// In front of `cluster`, for the owner of `database`, with these settings.
    fn start(cluster: &Cluster, database: &Database, settings: &str) -> Bouncer {
        let directory = tempfile::tempdir().unwrap();
        std::fs::set_permissions(directory.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let file = |name: &str, text: String| std::fs::write(directory.path().join(name), text).unwrap();
        file("users", format!("\"{}\" \"\"\n", database.name()));
        file(
            "pgbouncer.ini",
            format!(
                "[databases]\n* = host={} port={}\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\n\
                 unix_socket_dir =\nauth_type = trust\nauth_file = users\n{settings}\n",
                cluster.socket_directory(),
                cluster.port(),
            ),
        );
        // It refuses to run as root. When the pipe from this process closes, it is told to end.
        let mut command = Command::new("/bin/sh");
        command.args(["-c", r#""$@" & read -r _; kill $!; wait"#, "bouncer"]).arg(bouncer_binary());
        if std::fs::metadata(directory.path()).unwrap().uid() == 0 {
            command.args(["-u", "postgres"]);
        }
        let command = command.arg("pgbouncer.ini").current_dir(directory.path());
        let shell = command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let bouncer = Bouncer { port, shell, _directory: directory };
        let begun = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(begun.elapsed() < Duration::from_secs(30), "pgbouncer does not answer");
            std::thread::sleep(Duration::from_millis(5));
        }
        bouncer
    }

    fn dsn(&self, database: &Database) -> Dsn {
        dsn(&format!("host=127.0.0.1 port={} sslmode=disable user={1} dbname={1}", self.port, database.name()))
    }
}

impl Drop for Bouncer {
    fn drop(&mut self) {
        drop(self.shell.stdin.take());
        let _ = self.shell.wait();
    }
}

fn probed(dsn: &Dsn) -> Result<Vec<String>, PostgresError> {
    run(probe(dsn)).map(|findings| findings.into_iter().map(|f| f.what).collect())
}

const NO_FSYNC: [&str; 2] = [
    "fsync is off: a crash of the server's machine may lose acknowledged changes or damage the store",
    "full_page_writes is off: a crash of the server's machine may damage the store",
];

/// With one server session for all, with many, taken in turn, and with all state forgotten between
/// transactions.
#[test]
fn a_transaction_pooler_is_refused() {
    let cluster = Cluster::shared();
    let database = cluster.database();
    for settings in [
        "",
        "default_pool_size = 1",
        "min_pool_size = 5",
        "server_round_robin = 1\nmin_pool_size = 5",
        "server_reset_query_always = 1",
        "server_reset_query_always = 1\nserver_round_robin = 1\nmin_pool_size = 5",
    ] {
        let bouncer = Bouncer::start(cluster, &database, &format!("pool_mode = transaction\n{settings}"));
        let error = probed(&bouncer.dsn(&database)).expect_err(settings);
        let location = format!("host=127.0.0.1 port={} dbname={1} user={1}", bouncer.port, database.name());
        assert_eq!(error.to_string(), format!("there is a transaction-pooling proxy at \"{location}\""), "{settings}");
        assert!(error.detail().unwrap().starts_with("A "), "{settings}");
        assert!(error.hint().unwrap().contains("session mode"));
    }
}

/// Nobody else's session is changed by the look.
#[test]
fn a_pool_is_left_as_it_was() {
    let cluster = Cluster::shared();
    let database = cluster.database();
    let bouncer = Bouncer::start(cluster, &database, "pool_mode = transaction\ndefault_pool_size = 1");
    probed(&bouncer.dsn(&database)).expect_err("it is refused");
    let seen = run(async {
        let mut link = connect_bare(&bouncer.dsn(&database)).await.unwrap();
        let sql = "SELECT current_setting('dataglot.probe', true), current_setting('search_path'), \
                   (SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid())";
        ask(&mut link, sql).await.unwrap()
    });
    assert_eq!(seen, [Some(String::new()), Some("\"$user\", public".to_owned()), Some("0".to_owned())]);
}

#[test]
fn a_session_pooler_is_accepted() {
    let cluster = Cluster::shared();
    let database = cluster.database();
    for settings in ["", "server_round_robin = 1\nmin_pool_size = 5"] {
        let bouncer = Bouncer::start(cluster, &database, &format!("pool_mode = session\n{settings}"));
        assert_eq!(probed(&bouncer.dsn(&database)).unwrap(), NO_FSYNC, "{settings}");
    }
}

/// A role that may have few connections can still be looked at; with one there is no way to tell.
#[test]
fn few_connections_are_enough() {
    let cluster = Cluster::shared();
    let database = cluster.database();
    for limit in [2, 3] {
        cluster.execute(&format!("ALTER ROLE {} CONNECTION LIMIT {limit}", database.name()));
        let begun = Instant::now();
        // The sessions of the look before may still be about to end.
        while let Err(error) = probed(&dsn(&database.dsn())) {
            assert!(matches!(error, PostgresError::Connect(_)), "{error}");
            assert!(begun.elapsed() < Duration::from_secs(30), "{limit}: {error}");
        }
    }
}

#[test]
fn a_replica_is_refused_and_standbys_are_noticed() {
    let primary = Cluster::start(ClusterOptions { fsync: true, ..ClusterOptions::default() });
    let database = primary.database();
    let at = |cluster: &Cluster, more: &str| {
        format!("host=127.0.0.1 port={} user={1} dbname={1} {more}", cluster.port(), database.name())
    };
    assert_eq!(probed(&dsn(&at(&primary, ""))).unwrap(), Vec::<String>::new());
    let standby = Cluster::standby_of(&primary, ClusterOptions { fsync: true, ..ClusterOptions::default() });
    standby.catch_up_with(&primary);

    for more in ["", "target_session_attrs=any", "target_session_attrs=standby", "target_session_attrs=prefer-standby"]
    {
        let error = probed(&dsn(&at(&standby, more))).expect_err(more);
        let location = format!("host=127.0.0.1 port={} dbname={1} user={1}", standby.port(), database.name());
        assert_eq!(error, PostgresError::Replica { location }, "{more}");
    }
    let lossy = ["no standby is synchronous: a failover may lose acknowledged changes"];
    assert_eq!(probed(&dsn(&at(&primary, ""))).unwrap(), lossy);
    // Both servers named: the one that takes writes is used.
    let both = format!(
        "host=127.0.0.1,127.0.0.1 port={},{} user={2} dbname={2}",
        standby.port(),
        primary.port(),
        database.name()
    );
    assert_eq!(probed(&dsn(&both)).unwrap(), lossy);

    primary.execute("ALTER SYSTEM SET synchronous_standby_names = '*'");
    primary.execute("SELECT pg_reload_conf()");
    let begun = Instant::now();
    while primary.query_one("SHOW synchronous_standby_names") != "*" {
        assert!(begun.elapsed() < Duration::from_secs(30), "the configuration is not reloaded");
    }
    assert_eq!(probed(&dsn(&at(&primary, ""))).unwrap(), Vec::<String>::new());
    standby.stop_fast();
    let begun = Instant::now();
    let waiting = ["synchronous_standby_names is set and no standby is connected: commits wait until one is"];
    while probed(&dsn(&at(&primary, ""))).unwrap() != waiting {
        assert!(begun.elapsed() < Duration::from_secs(30), "the standby is still taken for connected");
    }
    // The database is dropped by a transaction that would wait, too.
    primary.execute("ALTER SYSTEM RESET synchronous_standby_names");
    primary.execute("SELECT pg_reload_conf()");
}

#[test]
fn a_session_that_is_read_only_is_refused() {
    let cluster = Cluster::shared();
    let database = cluster.database();
    cluster.execute(&format!("ALTER ROLE {} SET default_transaction_read_only = on", database.name()));
    let replica = PostgresError::Replica { location: dsn(&database.dsn()).location() };
    assert_eq!(probed(&dsn(&database.dsn())), Err(replica.clone()));
    assert_eq!(probed(&dsn(&format!("{} target_session_attrs=any", database.dsn()))), Err(replica));
}

#[test]
fn weak_settings_are_named() {
    let cluster = Cluster::shared();
    let database = cluster.database();
    // A session's own default is raised, and so is no finding.
    cluster.execute(&format!("ALTER ROLE {} SET synchronous_commit = off", database.name()));
    assert_eq!(probed(&dsn(&database.dsn())).unwrap(), NO_FSYNC);
    let superuser = "the role is a superuser: whoever gets its password gets the whole server";
    let all: Vec<_> = NO_FSYNC.into_iter().chain([superuser]).collect();
    assert_eq!(probed(&dsn(&database.superuser_dsn())).unwrap(), all);
}

#[test]
fn another_encoding_is_refused() {
    let cluster = Cluster::shared();
    cluster.execute("CREATE DATABASE probe_latin1 ENCODING 'LATIN1' TEMPLATE template0");
    let text = format!("host={} port={} user=postgres dbname=probe_latin1", cluster.socket_directory(), cluster.port());
    let error = probed(&dsn(&text)).unwrap_err();
    assert_eq!(error, PostgresError::Encoding { location: dsn(&text).location(), encoding: "LATIN1".to_owned() });
}

/// What no server here says.
#[test]
fn what_other_servers_would_say() {
    let good = Facts {
        version_number: 140_000,
        version: "14.0".to_owned(),
        encoding: "UTF8".to_owned(),
        superuser: false,
        fsync: true,
        full_page_writes: true,
        synchronous_commit: "on".to_owned(),
        synchronous_standby_names: String::new(),
        standbys: 0,
    };
    assert_eq!(good.check("x"), Ok(()));
    assert_eq!(good.findings(1), []);
    assert_eq!(good.findings(2).len(), 1, "several servers mean that a failover is to be expected");
    let old = Facts { version_number: 130_020, version: "13.20".to_owned(), ..good };
    assert_eq!(
        old.check("x").unwrap_err().to_string(),
        "the server at \"x\" is version 13.20, and 14 or later is needed"
    );
    let weak = Facts { synchronous_commit: "local".to_owned(), ..old };
    assert_eq!(
        weak.findings(1)[0].what,
        "synchronous_commit is local and cannot be raised: a crash may lose acknowledged changes"
    );
}

#[test]
fn a_server_that_is_not_checked_is_named() {
    let found = |text: &str| unchecked_server(&dsn(text)).map(|f| f.what);
    let weak = "sslmode is weaker than verify-full: whoever answers in place of host \"db\" port 5432 is believed";
    for mode in ["disable", "allow", "prefer", "require", "verify-ca"] {
        assert_eq!(found(&format!("host=/tmp,localhost,db sslmode={mode}")).as_deref(), Some(weak), "{mode}");
    }
    assert_eq!(found("host=/tmp,localhost,db"), None);
    assert_eq!(found("host=/tmp,localhost sslmode=disable"), None);
}

/// Where nothing listens, that is said, and not that it is a replica.
#[test]
fn no_server_is_no_replica() {
    let error = probed(&dsn("host=/nowhere user=u dbname=d")).unwrap_err();
    assert!(matches!(error, PostgresError::Connect(_)), "{error}");
}
