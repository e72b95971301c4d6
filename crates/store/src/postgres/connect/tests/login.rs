//! Users, passwords and databases: where they may be written, and what a session is set to.

use dataglot_model::Problem;
use dataglot_pgtest::Cluster;

use super::secure::{NAME, ODD, PASSWORD, Secure, write};
use super::{TIMEOUT, ask, dsn, run, values};
use crate::postgres::connect::{ConnectFailure, connect};
use crate::postgres::dsn::Dsn;
use crate::postgres::dsn::tests::Surroundings;

const WHO: &str = "SELECT current_user, current_database()";

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\\', r"\\").replace('\'', r"\'"))
}

fn encoded(text: &str) -> String {
    text.bytes().map(|b| format!("%{b:02X}")).collect()
}

/// A user, a database and a password with every special character, written in every place.
#[test]
fn special_characters_everywhere() {
    let server = Secure::server();
    let (port, sockets) = (server.cluster.port(), server.cluster.socket_directory());
    let home = tempfile::tempdir().unwrap();
    let field = |text: &str| text.replace('\\', r"\\").replace(':', r"\:");
    let (user, database, password) = (field(ODD), field(ODD), field(PASSWORD));
    write(&home.path().join(".pgpass"), &format!("{NAME}:{port}:{database}:{user}:{password}\n"), 0o600);
    let service = format!("[odd]\nhost={sockets}\nport={port}\nuser={ODD}\ndbname={ODD}\npassword={PASSWORD}\n");
    write(&home.path().join(".pg_service.conf"), &service, 0o600);
    let around = Surroundings::default().at_home(home.path());
    let (user, password, path) = (encoded(ODD), encoded(PASSWORD), encoded(sockets));
    let texts = [
        format!("host={sockets} port={port} user={0} dbname={0} password={1}", quoted(ODD), quoted(PASSWORD)),
        format!("postgresql://{user}:{password}@{path}:{port}/{user}"),
        format!("postgresql://{user}:{password}@{NAME}:{port}/{user}?hostaddr=127.0.0.1&sslmode=require"),
        format!("postgres:///?host={path}&port={port}&user={user}&dbname={user}&password={password}"),
        format!("host={NAME} hostaddr=127.0.0.1 port={port} user={0} dbname={0}", quoted(ODD)),
        "service=odd".to_owned(),
        "postgres:///?service=odd".to_owned(),
    ];
    for text in texts {
        let dsn = Dsn::parse_with(&text, &around).unwrap();
        assert_eq!(values(&dsn, WHO), Ok(vec![ODD.to_owned(), ODD.to_owned()]), "{text}");
    }
}

/// Each refusal, by its kind, and without the password anywhere.
#[test]
fn refusals_are_told_apart() {
    let server = Secure::server();
    let port = server.cluster.port();
    let text = |more: &str| format!("host=127.0.0.1 port={port} sslmode=disable {more}");
    let table = [
        ("user=scram_user dbname=postgres password=canary", ConnectFailure::Authentication { code: "28P01".into() }),
        ("user=nobody dbname=postgres password=canary", ConnectFailure::Authentication { code: "28P01".into() }),
        ("user=tls_only dbname=postgres password=canary", ConnectFailure::Authentication { code: "28000".into() }),
        ("user=scram_user dbname=postgres", ConnectFailure::NoPassword),
    ];
    for (more, want) in table {
        let error = run(async { connect(&dsn(&text(more)), "writer", TIMEOUT).await.map(|_| ()) }).unwrap_err();
        assert_eq!(error.attempts.last().unwrap().failure, want, "{more}");
        assert!(!format!("{error} {error:?} {:?} {:?}", error.detail(), error.hint()).contains("canary"), "{more}");
    }
    let none = server.by_name(NAME, "scram_user", "sslmode=disable dbname=none");
    assert_eq!(values(&dsn(&none), WHO), Err(ConnectFailure::NoDatabase));

    let cluster = Cluster::shared();
    let database = cluster.database();
    let name = database.name();
    cluster.execute(&format!("ALTER ROLE {name} CONNECTION LIMIT 0"));
    assert_eq!(values(&dsn(&database.dsn()), WHO), Err(ConnectFailure::TooManyConnections));
    cluster.execute(&format!("ALTER ROLE {name} CONNECTION LIMIT -1"));
    cluster.execute(&format!("REVOKE CONNECT ON DATABASE {name} FROM PUBLIC, {name}"));
    assert_eq!(values(&dsn(&database.dsn()), WHO), Err(ConnectFailure::NotAllowed));
}

/// Whatever the role's defaults are, the session is ours.
#[test]
fn sessions_are_set_up() {
    let cluster = Cluster::shared();
    let database = cluster.database();
    let name = database.name();
    for default in [
        "search_path = trap, pg_catalog",
        "synchronous_commit = off",
        "statement_timeout = 0",
        "client_min_messages = error",
        "default_transaction_isolation = serializable",
        "bytea_output = escape",
    ] {
        cluster.execute(&format!("ALTER ROLE {name} SET {default}"));
    }
    // What it would be led to, if the search path were followed before it is fixed.
    database.execute(
        "CREATE SCHEMA trap; GRANT USAGE ON SCHEMA trap TO PUBLIC; \
         CREATE FUNCTION trap.pg_is_in_recovery() RETURNS boolean LANGUAGE sql AS 'SELECT true'; \
         CREATE FUNCTION trap.current_setting(text) RETURNS text LANGUAGE sql AS $$SELECT 'trapped'$$; \
         CREATE FUNCTION trap.set_config(text, text, boolean) RETURNS text LANGUAGE sql AS $$SELECT 'trapped'$$;",
    );
    let setting = |purpose: &'static str, dsn: &Dsn, name: &str| {
        run(async {
            let mut link = connect(dsn, purpose, TIMEOUT).await.unwrap();
            ask(&mut link, &format!("SELECT pg_catalog.current_setting('{name}')")).await.concat()
        })
    };
    let plain = dsn(&database.dsn());
    for (name, want) in [
        ("search_path", "dataglot, pg_temp"),
        ("synchronous_commit", "on"),
        ("statement_timeout", "7s"),
        ("lock_timeout", "5s"),
        ("client_min_messages", "warning"),
        ("idle_in_transaction_session_timeout", "10s"),
        ("default_transaction_isolation", "read committed"),
        ("bytea_output", "hex"),
        ("client_encoding", "UTF8"),
        ("TimeZone", "UTC"),
        ("application_name", "dataglot"),
    ] {
        assert_eq!(setting("writer", &plain, name), want, "{name}");
    }
    assert_eq!(setting("migrate", &plain, "idle_in_transaction_session_timeout"), "1min");
    assert_eq!(setting("reader", &plain.clone().for_node("n1"), "application_name"), "dataglot n1");
    let named = dsn(&format!("{} application_name='my app' options='-c work_mem=7MB'", database.dsn()));
    assert_eq!(setting("writer", &named.clone().for_node("n1"), "application_name"), "my app");
    assert_eq!(setting("writer", &named, "work_mem"), "7MB");
    // What promises more than "on" stays.
    cluster.execute(&format!("ALTER ROLE {name} SET synchronous_commit = remote_apply"));
    assert_eq!(setting("writer", &plain, "synchronous_commit"), "remote_apply");
}
