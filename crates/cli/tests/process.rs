//! The real binary as a process: what it makes, what it refuses and with which exit code, how it ends.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "a test")]

mod support;

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;
use std::thread;

use dataglot_golden::wire::{Client, Message, error_of, rows_of};
use rustix::process::Signal;
use support::{
    KEY, OTHER_KEY, Server, WAIT_MAX, contents, dataglot, error_line, fingerprints, mode, refused, run, serve, tempdir,
};

/// C103: what was made is there after a kill, without a store having been named.
#[test]
fn c103_dev_makes_a_store_for_its_owner_alone_and_keeps_it() {
    let directory = tempdir();
    let server = Server::dev(directory.path());
    let made = directory.path().join(".dataglot");
    assert_eq!(mode(made.clone()), 0o700);
    assert_eq!(mode(made.join("meta.redb")), 0o600);
    assert_eq!(mode(made.join("secret.key")), 0o600);
    let key = fs::read(made.join("secret.key")).unwrap();

    server.query("CREATE ROLE kept");
    server.query("CREATE SECRET s AS 'CANARY-7Q'");
    server.query("CREATE CATALOG c1 USING mock");
    server.kill();

    let server = Server::dev(directory.path());
    assert!(server.roles().contains(&"kept".to_owned()));
    assert_eq!(rows_of(&server.query("SHOW CATALOGS LIKE 'c1'")).len(), 1);
    assert_eq!(rows_of(&server.query("SHOW SECRETS LIKE 's'")).len(), 1);
    assert_eq!(fs::read(made.join("secret.key")).unwrap(), key);
    server.stop();

    let bytes: Vec<u8> = contents(&made).into_values().flatten().collect();
    assert!(!bytes.windows(9).any(|w| w == b"CANARY-7Q"));
}

#[test]
fn dev_says_how_to_connect_and_what_is_unsafe() {
    let directory = tempdir();
    let mut server = Server::dev(directory.path());
    while !server.lines.iter().any(|l| l.contains("beside the store")) {
        server.lines.push(server.rest.recv_timeout(WAIT_MAX).expect("it goes on printing"));
    }
    let said = server.lines.join("\n");
    let port = server.address.port();
    assert!(said.contains(&format!("psql 'host=127.0.0.1 port={port} user=admin dbname=default'")), "{said}");
    assert!(said.contains("Not for production:") && said.contains("no password is asked for"), "{said}");
    server.stop();
}

/// The umask of whoever starts it makes nothing wider.
#[test]
fn dev_puts_everything_where_it_is_told() {
    let directory = tempdir();
    let server = Server::start(dataglot(directory.path(), &["dev", "--dir", "a/b", "--listen", "127.0.0.1:0"]));
    assert_eq!(mode(directory.path().join("a/b")), 0o700);
    assert!(directory.path().join("a/b/meta.redb").is_file() && !directory.path().join(".dataglot").exists());
    server.stop();
}

#[test]
fn dev_listens_on_this_machine_only() {
    let directory = tempdir();
    let mut dev = dataglot(directory.path(), &["dev", "--listen", "0.0.0.0:0"]);
    let said = refused(dev.env("DATAGLOT_ALLOW_REMOTE_TRUST", "true"), 2);
    assert!(error_line(&said).contains("trust"), "{said}");
    assert!(!directory.path().join(".dataglot").exists());
}

#[test]
fn trust_beyond_loopback_is_refused_unless_a_flag_says_so() {
    let directory = tempdir();
    let arguments = ["serve", "--store", "path=meta.redb", "--listen", "0.0.0.0:0", "--auth", "trust"];
    let said = refused(&mut dataglot(directory.path(), &arguments), 2);
    assert!(error_line(&said).contains("auth \"trust\" on 0.0.0.0:0"), "{said}");
    assert!(contents(directory.path()).is_empty());

    let mut allowed = dataglot(directory.path(), &arguments);
    allowed.arg("--allow-remote-trust");
    Server::start(allowed).stop();
}

#[test]
fn c111_a_second_process_is_refused_in_one_line() {
    let directory = tempdir();
    let first = Server::serve(directory.path(), Some(KEY));
    first.query("CREATE ROLE before");
    let before = contents(directory.path());
    let holder = format!("in use by process {}", first.child.id());

    let said = refused(&mut serve(directory.path(), Some(KEY)), 3);
    assert!(error_line(&said).contains(&holder), "{said}");
    assert!(error_line(&said).contains("meta.redb"), "{said}");
    let said = refused(&mut dataglot(directory.path(), &["backup", "--store", "path=meta.redb", "--to", "copy"]), 3);
    assert!(error_line(&said).contains(&holder), "{said}");
    assert_eq!(contents(directory.path()), before);

    first.query("CREATE ROLE after");
    first.kill();
    let second = Server::serve(directory.path(), Some(KEY));
    assert!(["before", "after"].iter().all(|r| second.roles().contains(&(*r).to_owned())));
    second.stop();
}

/// A store with three secrets, sealed with [`KEY`], that no server has open.
fn store_with_secrets(directory: &Path) {
    let server = Server::serve(directory, Some(KEY));
    for n in 1..=3 {
        server.query(&format!("CREATE SECRET s{n} AS 'CANARY-7Q'"));
    }
    server.stop();
}

#[test]
fn c037_another_key_or_none_is_refused_with_both_fingerprints() {
    let directory = tempdir();
    store_with_secrets(directory.path());

    let said = refused(&mut serve(directory.path(), Some(OTHER_KEY)), 4);
    let fingerprints = fingerprints(error_line(&said));
    assert_eq!(fingerprints.len(), 2, "{said}");
    let said = refused(&mut serve(directory.path(), None), 4);
    assert!(error_line(&said).contains(&fingerprints[0]) && said.contains("no secret key is configured"), "{said}");

    let server = Server::serve(directory.path(), Some(KEY));
    assert_eq!(rows_of(&server.query("SHOW SECRETS")).len(), 3);
    server.query("ALTER SECRET s1 RENAME TO s4");
    server.stop();
}

#[test]
fn c037_a_refused_key_leaves_every_byte_as_it_was() {
    let directory = tempdir();
    store_with_secrets(directory.path());
    let before = contents(directory.path());
    for key in [Some(OTHER_KEY), None] {
        refused(&mut serve(directory.path(), key), 4);
        assert!(contents(directory.path()) == before, "something was written");
    }
}

#[test]
fn c037_dev_makes_no_key_over_a_store() {
    let directory = tempdir();
    Server::dev(directory.path()).stop();
    let key = directory.path().join(".dataglot/secret.key");
    fs::remove_file(&key).unwrap();
    let said = refused(&mut dataglot(directory.path(), &["dev", "--listen", "127.0.0.1:0"]), 4);
    assert_eq!(fingerprints(error_line(&said)).len(), 1, "{said}");
    assert!(!key.exists());
}

#[test]
fn unusable_keys_are_refused_before_a_store_is_made() {
    let directory = tempdir();
    for key in ["", "CANARY-7Q", "correct horse battery staple 123", &"00".repeat(32)] {
        let said = refused(&mut serve(directory.path(), Some(key)), 4);
        assert!(error_line(&said).contains("secret key is not usable") && !said.contains("CANARY-7Q"), "{said}");
    }
    let file = directory.path().join("key");
    let mut with_file = serve(directory.path(), None);
    with_file.args(["--secret-key-file", "key"]);
    refused(&mut with_file, 4);
    fs::write(&file, KEY).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
    let said = refused(&mut with_file, 4);
    assert!(error_line(&said).contains("0644"), "{said}");
    let said = refused(with_file.env("DATAGLOT_SECRET_KEY", KEY), 2);
    assert!(error_line(&said).contains("secret_key and secret_key_file"), "{said}");
    assert!(!directory.path().join("meta.redb").exists());
}

#[test]
fn signals_end_it_with_code_0_and_tell_idle_clients() {
    for signal in [Signal::TERM, Signal::INT] {
        let directory = tempdir();
        let server = Server::serve(directory.path(), Some(KEY));
        let address = server.address;
        let mut idle = server.client();
        server.query("CREATE ROLE kept");
        server.signal(signal);
        let told = loop {
            match idle.read() {
                Ok(Message::ErrorResponse(fields)) => break fields.sqlstate,
                Ok(_) => {}
                Err(error) => panic!("closed without a word: {error}"),
            }
        };
        assert_eq!(told, "57P01");
        assert_eq!(server.wait().code(), Some(0));
        assert!(Client::connect(address, "admin", "default").is_err());
        let again = Server::serve(directory.path(), Some(KEY));
        assert!(again.roles().contains(&"kept".to_owned()));
        again.stop();
    }
}

/// Whoever rotates logs sends it to every server there is.
#[test]
fn a_hangup_ends_no_server_without_tls() {
    let directory = tempdir();
    let server = Server::serve(directory.path(), Some(KEY));
    server.query("CREATE ROLE before");
    server.signal(Signal::HUP);
    assert!(server.roles().contains(&"before".to_owned()));
    server.stop();
}

#[test]
fn c115_killed_during_shutdown_it_is_whole_and_so_is_its_backup() {
    let directory = tempdir();
    for round in 0..5u64 {
        let server = Server::serve(directory.path(), Some(KEY));
        let mut client = server.client();
        let writer = thread::spawn(move || {
            let mut done = Vec::new();
            for n in 0.. {
                let role = format!("r{round}_{n}");
                match client.query(&format!("CREATE ROLE {role}")) {
                    Ok(messages) if error_of(&messages).is_none() => done.push(role),
                    Ok(_) | Err(_) => return done,
                }
            }
            done
        });
        for _ in 0..=round {
            server.query("SHOW ROLES");
        }
        server.signal(Signal::TERM);
        server.kill();
        let acknowledged = writer.join().unwrap();

        let backup = ["backup", "--store", "path=meta.redb", "--to", "copy.redb"];
        let output = run(&mut dataglot(directory.path(), &backup));
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
        assert_eq!(mode(directory.path().join("copy.redb")), 0o600);
        let arguments = ["serve", "--store", "path=copy.redb", "--listen", "127.0.0.1:0", "--auth", "trust"];
        let mut from_copy = dataglot(directory.path(), &arguments);
        let copy = Server::start({
            from_copy.env("DATAGLOT_SECRET_KEY", KEY);
            from_copy
        });
        let roles = copy.roles();
        assert!(acknowledged.iter().all(|r| roles.contains(r)), "round {round}");
        copy.stop();
    }
}

#[test]
fn what_is_no_store_is_refused_and_left_as_it_is() {
    let directory = tempdir();
    let path = directory.path().join("meta.redb");
    for bytes in [&b""[..], b"garbage", &[0; 100_000]] {
        fs::write(&path, bytes).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        let said = refused(&mut serve(directory.path(), Some(KEY)), 3);
        assert!(said.contains("is not a meta store"), "{said}");
        assert_eq!(fs::read(&path).unwrap(), bytes);
    }
    let said = refused(&mut dataglot(directory.path(), &["backup", "--store", "path=none.redb", "--to", "copy"]), 3);
    assert!(error_line(&said).contains("does not exist"), "{said}");
    assert!(!directory.path().join("none.redb").exists());
}

/// What psql says as `admin`: its name, or the error.
fn log_in(server: &Server, password: &str) -> String {
    let conninfo = format!("host=127.0.0.1 port={} user=admin dbname=default", server.address.port());
    let output = Command::new("psql")
        .args(["-X", "-At", "-w", "-c", "SELECT current_user", &conninfo])
        .env("PGPASSWORD", password)
        .env("HOME", "/nonexistent")
        .output()
        .expect("psql is needed by this test; ./test installs it, or says how to get it");
    String::from_utf8([output.stdout, output.stderr].concat()).unwrap().trim().to_owned()
}

#[test]
fn a_13_the_first_password_is_taken_once() {
    let directory = tempdir();
    let serve = |variables: &[(&str, &str)], arguments: &[&str]| {
        let mut command =
            dataglot(directory.path(), &["serve", "--listen", "127.0.0.1:0", "--store", "path=meta.redb"]);
        command.args(arguments).args(["--log-filter", "trace"]).envs(variables.iter().copied());
        command
    };
    // With a key: the store is not bound to it by that, as the server without one shows below.
    let said = refused(&mut serve(&[("DATAGLOT_SECRET_KEY", KEY)], &[]), 9);
    assert!(error_line(&said).contains("would have no password to log in with"), "{said}");
    assert!(said.contains("help: Give one by DATAGLOT_ADMIN_PASSWORD"), "{said}");
    // C095: an empty one is none.
    let said = refused(&mut serve(&[("DATAGLOT_ADMIN_PASSWORD", "")], &[]), 9);
    assert!(error_line(&said).contains("the password is empty"), "{said}");
    fs::write(directory.path().join("p"), "CANARY-7Q\n").unwrap();
    fs::set_permissions(directory.path().join("p"), fs::Permissions::from_mode(0o644)).unwrap();
    let said = refused(&mut serve(&[], &["--admin-password-file", "p"]), 9);
    assert!(said.contains("its mode is 0644") && !said.contains("CANARY-7Q"), "{said}");

    let mut first = serve(&[("DATAGLOT_ADMIN_PASSWORD", "CANARY-7Q")], &[]);
    let logged = fs::File::create(directory.path().join("log")).unwrap();
    first.stderr(logged);
    let server = Server::start(first);
    assert_eq!(log_in(&server, "CANARY-7Q"), "admin");
    assert!(log_in(&server, "other").contains("password authentication failed for user \"admin\""));
    assert!(log_in(&server, "").contains("no password supplied"));
    server.stop();
    // Later it changes nothing, whatever it is.
    let server = Server::start(serve(&[("DATAGLOT_ADMIN_PASSWORD", "other")], &[]));
    assert_eq!(log_in(&server, "CANARY-7Q"), "admin");
    assert!(log_in(&server, "other").contains("password authentication failed"));
    server.stop();
    Server::start(serve(&[], &[])).stop();
    fs::remove_file(directory.path().join("p")).unwrap();
    let found: Vec<u8> = contents(directory.path()).into_values().flatten().collect();
    assert!(!found.windows(9).any(|w| w == b"CANARY-7Q"), "in the store or the log");
}

#[test]
fn md5_warns_at_every_start() {
    let directory = tempdir();
    for _ in 0..2 {
        let mut command = dataglot(
            directory.path(),
            &["serve", "--listen", "127.0.0.1:0", "--store", "path=meta.redb", "--auth", "md5"],
        );
        command.env("DATAGLOT_ADMIN_PASSWORD", "right");
        let log = directory.path().join("log");
        command.stderr(fs::File::create(&log).unwrap());
        Server::start(command).stop();
        let said = fs::read_to_string(&log).unwrap();
        assert!(said.contains("auth \"md5\" is for a migration"), "{said}");
    }
}

#[test]
fn an_address_in_use_has_its_own_exit_code() {
    let directory = tempdir();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let mut serve = dataglot(directory.path(), &["serve", "--store", "path=meta.redb", "--listen", &address]);
    let said = refused(serve.env("DATAGLOT_ADMIN_PASSWORD", "first"), 5);
    assert!(said.lines().any(|l| l.starts_with("error: ") && l.contains(&address)), "{said}");
}

#[test]
fn config_tells_values_and_origins_and_no_secret() {
    let directory = tempdir();
    fs::write(directory.path().join("c.toml"), "log_format = \"json\"\n\n[catalog_service]\npath = \"x.redb\"\n")
        .unwrap();
    let mut command = dataglot(directory.path(), &["config", "--config", "c.toml", "--listen", "127.0.0.1:99"]);
    command.env("DATAGLOT_SECRET_KEY", "CANARY-7Q").env("DATAGLOT_MAX_CONNECTIONS", "5").env("DATAGLOT_LISTN", "x");
    let output = run(&mut command);
    assert_eq!(output.status.code(), Some(0));
    let text = String::from_utf8(output.stdout).unwrap();
    let row = |name: &str| {
        let line = text.lines().find(|l| l.split_whitespace().next() == Some(name)).unwrap_or_default();
        line.split_whitespace().skip(1).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(row("listen"), "127.0.0.1:99 flag --listen");
    assert_eq!(row("max_connections"), "5 variable DATAGLOT_MAX_CONNECTIONS");
    assert_eq!(row("log_format"), "json file c.toml:1");
    assert_eq!(row("store"), "path=x.redb file c.toml:4");
    assert_eq!(row("secret_key"), "set variable DATAGLOT_SECRET_KEY");
    assert_eq!(row("auth"), "scram-sha-256 default");
    assert!(text.contains("DATAGLOT_LISTN is set") && !text.contains("CANARY-7Q"), "{text}");
}

#[test]
fn wrong_configuration_is_refused_with_its_place() {
    let directory = tempdir();
    let text = "[catalog_service]\ndsn = \"postgres://u:CANARY-7Q@h/d?sslmod=x\"\n";
    fs::write(directory.path().join("c.toml"), text).unwrap();
    let said = refused(&mut dataglot(directory.path(), &["serve", "--config", "c.toml"]), 2);
    assert!(said.contains("invalid connection option \"sslmod\"") && said.contains("c.toml:2"), "{said}");
    assert!(!said.contains("CANARY-7Q"), "{said}");
    let said = refused(&mut dataglot(directory.path(), &["serve", "--store", "dsn=host=h pasword=CANARY-7Q"]), 2);
    assert!(error_line(&said).contains("invalid connection option") && !said.contains("CANARY-7Q"), "{said}");
    assert!(said.contains("help: Did you mean \"password\"?"), "{said}");
    let said = refused(&mut dataglot(directory.path(), &["serve"]), 2);
    assert_eq!(error_line(&said), "error: no store is named");
    refused(&mut dataglot(directory.path(), &["serve", "--no-such-flag"]), 2);
    refused(&mut dataglot(directory.path(), &["serve", "--store", "path=m", "--log-filter", "=="]), 2);
    refused(&mut dataglot(directory.path(), &[]), 2);
}

#[test]
fn version_is_told_both_ways() {
    let directory = tempdir();
    for arguments in [["version"], ["--version"]] {
        let output = run(&mut dataglot(directory.path(), &arguments));
        let text = String::from_utf8(output.stdout).unwrap();
        assert_eq!((output.status.code(), text.trim()), (Some(0), concat!("dataglot ", env!("CARGO_PKG_VERSION"))));
    }
}

/// S-01 in small: at the finest level of the log there is no literal of a statement, in either format.
#[test]
fn c025_no_literal_is_logged_at_any_level() {
    for format in ["text", "json"] {
        let directory = tempdir();
        let mut command = serve(directory.path(), Some(KEY));
        let log = fs::File::create(directory.path().join("log")).unwrap();
        command.args(["--log-format", format, "--log-filter", "trace"]).stderr(log);
        let server = Server::start(command);
        let mut client = server.client();
        for sql in [
            "BEGIN; GRANT no_such TO nobody; CREATE SECRET s1 AS 'CANARY-7Q'",
            "ROLLBACK",
            "CREATE SECRET s1 AS 'CANARY-7Q'",
            "CREATE USER u1 PASSWORD 'CANARY-7Q'",
            "CREATE USER u2 PASSWORD 'CANARY-7Q",
            "CREATE CATALOG c1 USING mock WITH (port = 'CANARY-7Q')",
            "CREATE CATALOG c1 USING mock WITH (pasword = 'CANARY-7Q')",
        ] {
            let answer = client.query(sql).unwrap();
            assert!(!format!("{answer:?}").contains("CANARY-7Q"), "{sql}");
        }
        server.stop();
        let log = fs::read_to_string(directory.path().join("log")).unwrap();
        assert!(log.contains("listening") && !log.contains("CANARY-7Q"), "{log}");
    }
}

/// S-12: the key from a program, and what is said if it does not give one. S-10: it inherits none of our variables.
#[test]
fn s_10_s_12_the_key_comes_from_a_program() {
    let directory = tempdir();
    let path = directory.path();
    let script =
        format!("#!/bin/sh\necho CANARY-7Q >&2\n/usr/bin/env > seen\n[ \"$1\" = give ] || exit 9\necho {KEY}\n");
    fs::write(path.join("give-key"), script).unwrap();
    fs::set_permissions(path.join("give-key"), fs::Permissions::from_mode(0o700)).unwrap();
    let with = |list: &str| {
        fs::write(path.join("c.toml"), format!("secret_key_command = {list}\n")).unwrap();
        let mut command = serve(path, None);
        command.env("DATAGLOT_CONFIG", "c.toml").env("DATAGLOT_LOG_FILTER", "trace").env("KEPT", "kept");
        command.env("DATAGLOT_ADMIN_PASSWORD", "CANARY-7Q").stderr(fs::File::create(path.join("log")).unwrap());
        command
    };
    let server = Server::start(with("[\"./give-key\", \"give\"]"));
    server.query("CREATE SECRET s AS 'x'");
    server.stop();
    let log = fs::read_to_string(path.join("log")).unwrap();
    assert!(!log.contains("CANARY-7Q") && !log.contains(KEY), "{log}");
    let seen = fs::read_to_string(path.join("seen")).unwrap();
    assert!(seen.contains("KEPT=kept"), "{seen}");
    for variable in ["DATAGLOT_ADMIN_PASSWORD", "DATAGLOT_SECRET_KEY", "DATAGLOT_STORE", "CANARY-7Q"] {
        assert!(!seen.contains(variable), "{seen}");
    }
    // It is the key of a file with the same text.
    Server::serve(path, Some(KEY)).stop();

    let status = with("[\"./give-key\", \"CANARY-7Q\"]").status().unwrap();
    let said = fs::read_to_string(path.join("log")).unwrap();
    assert_eq!(status.code(), Some(4), "{said}");
    assert_eq!(error_line(&said), "error: secret key command \"./give-key\" ended with exit code 9");
    let said = refused(serve(path, Some(KEY)).env("DATAGLOT_CONFIG", "c.toml"), 2);
    assert_eq!(
        error_line(&said),
        "error: two sources of secret keys are configured: secret_key and secret_key_command"
    );
}
