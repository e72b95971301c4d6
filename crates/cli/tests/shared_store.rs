//! The real binary on a real PostgreSQL: servers that share a store, its schema, its history.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "a test")]

mod support;

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::Command;
use std::thread;

use dataglot_golden::wire::rows_of;
use dataglot_pgtest::{Cluster, Database};
use support::{KEY, OTHER_KEY, Server, contents, dataglot, done, refused, run, serve_on, tempdir, wait_until};

/// The password of a role that is made for a test.
const PASSWORD: &str = "CANARY-7Q";

fn database() -> Database {
    Cluster::shared().database()
}

fn store(database: &Database) -> String {
    format!("dsn={}", database.dsn())
}

fn server(directory: &Path, database: &Database) -> Command {
    serve_on(directory, &store(database), Some(KEY))
}

/// `dataglot` with these arguments on the database, which is named by the variable.
fn on(database: &Database, directory: &Path, arguments: &[&str]) -> Command {
    let mut command = dataglot(directory, arguments);
    command.env("DATAGLOT_STORE", store(database));
    command
}

/// Three that start on an empty database at the same moment make one store, and go on with it.
#[test]
fn c051_servers_that_start_together_share_one_store() {
    let (database, directory) = (database(), tempdir());
    let servers: Vec<Server> = thread::scope(|scope| {
        let start = |n: usize| {
            let mut command = server(directory.path(), &database);
            command.env("DATAGLOT_NODE", format!("n{n}"));
            scope.spawn(|| Server::start(command))
        };
        let starting: Vec<_> = (0..3).map(start).collect();
        starting.into_iter().map(|s| s.join().expect("it starts")).collect()
    });
    assert_eq!(database.query("SELECT org || ' ' || seq FROM dataglot.heads"), ["default 1"]);
    for (n, server) in servers.iter().enumerate() {
        server.query(&format!("CREATE ROLE made_{n}"));
    }
    for server in &servers {
        wait_until("all roles to be seen", || (0..3).all(|n| server.roles().contains(&format!("made_{n}"))));
    }
    let names = database.query(
        "SELECT DISTINCT application_name FROM pg_stat_activity \
         WHERE datname = current_database() AND application_name LIKE 'dataglot%' ORDER BY 1",
    );
    assert_eq!(names, ["dataglot n0", "dataglot n1", "dataglot n2"]);
    // Another key than the store's is refused here too.
    let said = refused(&mut serve_on(directory.path(), &store(&database), Some(OTHER_KEY)), 4);
    assert!(said.contains("error: "), "{said}");
    servers.into_iter().for_each(Server::stop);
}

/// While servers have it open: a backup is a store of its own.
#[test]
fn a_backup_is_taken_while_servers_run() {
    let (database, directory) = (database(), tempdir());
    let running = Server::start(server(directory.path(), &database));
    running.query("CREATE ROLE kept");
    running.query("CREATE SECRET s1 AS 'CANARY-7Q'");
    let store = store(&database);
    let said = done(&mut dataglot(directory.path(), &["backup", "--store", &store, "--to", "copy.redb"]));
    assert!(said.contains("copy.redb") && !said.contains(database.password()), "{said}");
    running.query("CREATE ROLE later");
    running.stop();
    let copy = Server::start(serve_on(directory.path(), "path=copy.redb", Some(KEY)));
    assert!(copy.roles().contains(&"kept".to_owned()) && !copy.roles().contains(&"later".to_owned()));
    copy.query("ALTER SECRET s1 RENAME TO s2");
    copy.stop();
}

/// In every form, from every source, and whatever goes wrong, the password is not in what is printed.
#[test]
fn the_password_is_never_shown() {
    let (database, directory) = (database(), tempdir());
    let keywords = format!("dsn={}", database.tcp_dsn().replace(database.password(), PASSWORD));
    let uri = format!("dsn=postgresql://u:{PASSWORD}@127.0.0.1:{}/no_such", Cluster::shared().port());
    let silent = format!("dsn=host=127.0.0.1 port=1 user=u dbname=d password={PASSWORD}");
    for store in [&keywords, &uri, &silent] {
        for arguments in [
            &["config"][..],
            &["serve", "--listen", "127.0.0.1:0", "--log-filter", "trace"],
            &["migrate", "status"],
            &["migrate", "up"],
            &["migrate", "check", "--json"],
            &["accept-history", "--org", "default"],
        ] {
            if arguments[0] == "serve" && store == &keywords {
                continue;
            }
            let mut command = dataglot(directory.path(), arguments);
            command.args(["--store", store]);
            let output = run(&mut command);
            let said = [output.stdout, output.stderr].concat();
            let said = String::from_utf8_lossy(&said);
            assert!(!said.contains(PASSWORD), "{arguments:?} {said}");
            assert!(said.contains("can be read by every user of this machine"), "{arguments:?} {said}");
        }
    }
    let mut command = dataglot(directory.path(), &["copy", "--from", &silent, "--to", "path=x"]);
    let said = refused(&mut command, 3);
    assert!(!said.contains(PASSWORD) && said.contains("can be read by every user"), "{said}");
    assert!(contents(directory.path()).is_empty());

    // By the variable nobody else can read it.
    let log = fs::File::create(directory.path().join("log")).unwrap();
    let mut command = server(directory.path(), &database);
    command.env("DATAGLOT_LOG_FILTER", "trace").stderr(log);
    Server::start(command).stop();
    let log = fs::read_to_string(directory.path().join("log")).unwrap();
    assert!(!log.contains(database.password()) && log.contains("listening"), "{log}");
    assert!(!log.contains("can be read by every user"), "{log}");
}

/// A server that no one answers for is refused in words, and at once.
#[test]
fn a_database_that_does_not_do_is_refused_with_what_to_do() {
    let (database, directory) = (database(), tempdir());
    let said = refused(&mut serve_on(directory.path(), "dsn=host=127.0.0.1 port=1 user=u dbname=d", None), 3);
    assert!(said.contains("error: "), "{said}");
    // Without the right to make tables, it says who has to run what.
    let name = database.name();
    database.execute(&format!("ALTER DATABASE {name} OWNER TO postgres; REVOKE CREATE ON DATABASE {name} FROM PUBLIC"));
    let said = refused(&mut server(directory.path(), &database), 3);
    assert!(said.contains(&format!("CREATE SCHEMA dataglot AUTHORIZATION \"{name}\"")), "{said}");
    assert!(said.contains("migrate up"), "{said}");
}

#[test]
fn the_schema_is_brought_up_to_date_and_told() {
    let (database, directory) = (database(), tempdir());
    let migrate = |arguments: &[&str]| on(&database, directory.path(), &[&["migrate"], arguments].concat());
    let said = run(&mut migrate(&["status", "--json"]));
    assert_eq!(said.status.code(), Some(6), "{}", String::from_utf8_lossy(&said.stderr));
    let json: serde_json::Value = serde_json::from_slice(&said.stdout).unwrap();
    let count = json["migrations"].as_array().unwrap().len();
    assert!(count > 0 && json["pending"] == count, "{json}");
    assert_eq!((&json["store_id"], &json["migrations"][0]["state"]), (&serde_json::Value::Null, &"pending".into()));
    let said = refused(&mut migrate(&["status"]), 6);
    assert!(said.contains("pending") && said.contains("help: Run dataglot migrate up."), "{said}");
    // What only reads makes no tables.
    let reading = ["resolve-catalogs"];
    assert!(refused(&mut on(&database, directory.path(), &reading), 6).contains("pending"));

    let said = done(&mut migrate(&["up"]));
    assert_eq!(said.lines().count(), count, "{said}");
    assert!(said.starts_with("applied migration 1 ("), "{said}");
    let json: serde_json::Value = serde_json::from_str(&done(&mut migrate(&["up", "--json"]))).unwrap();
    assert_eq!(json["applied"], serde_json::json!([]));
    let json: serde_json::Value = serde_json::from_str(&done(&mut migrate(&["status", "--json"]))).unwrap();
    assert_eq!((json["pending"].as_u64(), json["store_id"].as_str().map(str::len)), (Some(0), Some(32)));
    let first = &json["migrations"][0];
    assert_eq!((&first["applied_by"], &first["state"]), (&database.name().into(), &"applied".into()));
    let said = done(&mut migrate(&["status"]));
    assert!(said.contains("applied") && said.contains(database.name()), "{said}");

    done(&mut migrate(&["check"]));
    database.execute("DROP INDEX dataglot.objects_owner; ALTER TABLE dataglot.heads ADD COLUMN mine text");
    let output = run(&mut migrate(&["check"]));
    assert_eq!(output.status.code(), Some(6));
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(said.contains("missing: index") && said.contains("mine"), "{said}");
    let output = run(&mut migrate(&["check", "--json"]));
    assert_eq!(output.status.code(), Some(6));
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(json["differences"].as_array().unwrap().len(), 2, "{json}");

    database
        .execute("INSERT INTO dataglot.migrations (number, name, checksum, version) VALUES (9999, 'x', 'x', '99.0')");
    let said = refused(&mut migrate(&["status"]), 6);
    assert!(said.contains("of a later version"), "{said}");
    for command in [&mut migrate(&["up"]), &mut server(directory.path(), &database)] {
        let said = refused(command, 3);
        assert!(said.contains("of a later version"), "{said}");
    }
    let said = refused(&mut dataglot(directory.path(), &["migrate", "status", "--store", "path=x.redb"]), 2);
    assert!(said.contains("is a file, not a database"), "{said}");
}

/// An administrator makes the tables, the servers' role only uses them.
#[test]
fn a_role_of_its_own_serves_the_store() {
    let (database, directory) = (database(), tempdir());
    let role = format!("{}_server", database.name());
    let said = refused(&mut on(&database, directory.path(), &["migrate", "up", "--role", &role]), 3);
    assert!(said.contains(&format!("role \"{role}\" does not exist")), "{said}");
    database.execute(&format!("CREATE ROLE {role} LOGIN PASSWORD 'x'"));
    done(&mut on(&database, directory.path(), &["migrate", "up", "--role", &role]));
    let dsn = database.dsn().replace(&format!("user={}", database.name()), &format!("user={role}"));
    let serving = Server::start(serve_on(directory.path(), &format!("dsn={dsn}"), Some(KEY)));
    serving.query("CREATE SECRET s1 AS 'x'");
    serving.stop();
    database.execute(&format!("DROP OWNED BY {role}; DROP ROLE {role}"));
}

/// After a failover to a shorter history nobody writes until an operator has decided.
#[test]
fn m_01_a_halted_history_waits_for_an_operator() {
    let (database, directory) = (database(), tempdir());
    let accept = |arguments: &[&str]| {
        on(&database, directory.path(), &[&["accept-history", "--org", "default"], arguments].concat())
    };
    let running = Server::start(server(directory.path(), &database));
    running.query("CREATE ROLE before");
    assert!(done(&mut accept(&[])).contains("nothing is to be accepted"));
    running.stop();

    database.execute("UPDATE dataglot.heads SET halted_at_seq = 7");
    let halted = Server::start(server(directory.path(), &database));
    let answer = format!("{:?}", halted.client().query("CREATE ROLE after").unwrap());
    assert!(answer.contains("history") && answer.contains("accept-history"), "{answer}");
    let output = run(&mut accept(&[]));
    let said = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("seen    transaction 7") && said.contains("found   transaction 2"), "{said}");
    assert!(said.contains("have the store open"), "{said}");
    assert_eq!(database.query_one("SELECT halted_at_seq FROM dataglot.heads"), "7");
    let mut copy = dataglot(directory.path(), &["copy", "--from", &store(&database), "--to", "path=x"]);
    assert!(refused(&mut copy, 7).contains("accept-history"));
    halted.stop();

    let json: serde_json::Value = serde_json::from_str(&done(&mut accept(&["--yes", "--json"]))).unwrap();
    assert_eq!((&json["accepted"], &json["seen"], &json["found"]), (&true.into(), &7.into(), &2.into()));
    assert_eq!(database.query_one("SELECT halted_at_seq FROM dataglot.heads"), "");
    let running = Server::start(server(directory.path(), &database));
    running.query("CREATE ROLE after");
    assert_eq!(rows_of(&running.query("SHOW ROLES LIKE 'after'")).len(), 1);
    running.stop();
    let said = refused(&mut on(&database, directory.path(), &["accept-history", "--org", "a/b"]), 2);
    assert!(said.contains("--org"), "{said}");
}

/// Of two that start on an empty database with different keys, one wins and the other is refused.
#[test]
fn c037_two_keys_do_not_share_an_empty_database() {
    let directory = tempdir();
    for _ in 0..4 {
        let database = database();
        let ended = thread::scope(|scope| {
            let start = |key| {
                let mut command = serve_on(directory.path(), &store(&database), Some(key));
                scope.spawn(move || {
                    let mut child = command.spawn().unwrap();
                    let mut line = String::new();
                    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
                    let listens = line.starts_with("listening on ");
                    if listens {
                        child.kill().unwrap();
                    }
                    (listens, child.wait().unwrap().code())
                })
            };
            [KEY, OTHER_KEY].map(start).map(|started| started.join().unwrap())
        });
        assert_eq!(ended.iter().filter(|(listens, _)| *listens).count(), 1, "{ended:?}");
        assert!(ended.contains(&(false, Some(4))), "{ended:?}");
    }
}
