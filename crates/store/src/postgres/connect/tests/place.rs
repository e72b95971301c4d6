//! Several servers: which one is taken, and what is said of those that were not.

use std::io::{Read, Write};
use std::net::TcpListener;

use dataglot_model::Problem;
use dataglot_pgtest::{Cluster, ClusterOptions};

use super::{TIMEOUT, ask, dsn, run};
use crate::postgres::connect::{ConnectError, ConnectFailure, connect};

fn failures(error: &ConnectError) -> Vec<ConnectFailure> {
    error.attempts.iter().map(|a| a.failure.clone()).collect()
}

fn refused(text: &str) -> ConnectError {
    run(async { connect(&dsn(text), "writer", TIMEOUT).await.map(|_| ()) }).unwrap_err()
}

/// A port on which nobody listens.
fn dead_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

#[test]
fn the_next_server_is_tried() {
    let database = Cluster::shared().database();
    let (dead, live) = (dead_port(), Cluster::shared().port());
    let rest = format!("user={0} dbname={0}", database.name());
    let text = format!("host=127.0.0.1,/nowhere,127.0.0.1 port={dead},1,{live} {rest}");
    let location = run(async { connect(&dsn(&text), "writer", TIMEOUT).await.unwrap().location });
    assert_eq!(location, format!("host \"127.0.0.1\" port {live}"));

    let error = refused(&format!("host=127.0.0.1,/nowhere,none.invalid port={dead},1,1 {rest} sslmode=disable"));
    assert_eq!(failures(&error), [ConnectFailure::Refused, ConnectFailure::NoSocket, ConnectFailure::Resolve]);
    assert_eq!(
        error.to_string(),
        "could not connect to any of 3 PostgreSQL servers, at last at host \"none.invalid\" port 1: \
         the host name could not be resolved"
    );
    let detail = format!(
        "host \"127.0.0.1\" port {dead}: connection refused\n\
         host \"/nowhere\" port 1: there is no socket of a server there\n\
         host \"none.invalid\" port 1: the host name could not be resolved"
    );
    assert_eq!(error.detail(), Some(detail));

    // A login that was refused counts for all servers.
    let error = refused(&format!("host=127.0.0.1,127.0.0.1 port={live} user={} dbname=none", database.name()));
    assert_eq!(failures(&error), [ConnectFailure::NoDatabase]);
}

/// A server that takes the connection and says nothing, and one that says something else.
#[test]
fn those_that_are_no_servers() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = silent.local_addr().unwrap().port();
    for mode in ["disable", "require"] {
        let error = refused(&format!("host=127.0.0.1 port={port} connect_timeout=1 sslmode={mode}"));
        assert_eq!(failures(&error), [ConnectFailure::Timeout], "{mode}");
    }
    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = other.local_addr().unwrap().port();
    let answering = std::thread::spawn(move || {
        // A message whose length cannot be, one that belongs elsewhere, another protocol, and nothing.
        for answer in ["R\0\0\0\0", "Z\0\0\0\u{5}I", "HTTP/1.1 400 Bad Request\r\n\r\n", ""] {
            let (mut stream, _) = other.accept().unwrap();
            let _ = stream.read(&mut [0; 64]);
            let _ = stream.write_all(answer.as_bytes());
        }
    });
    let text = format!("host=127.0.0.1 port={port} sslmode=disable");
    for want in
        [ConnectFailure::NotPostgres, ConnectFailure::NotPostgres, ConnectFailure::Closed, ConnectFailure::Closed]
    {
        assert_eq!(failures(&refused(&text)), [want]);
    }
    answering.join().unwrap();
}

/// Each kind of session that can be asked for, with the standby first and last.
#[test]
fn target_session_attrs() {
    let primary = Cluster::start(ClusterOptions::default());
    let standby = Cluster::standby_of(&primary, ClusterOptions::default());
    let (first, second) = (standby.port(), primary.port());
    let reached = |attrs: &str, ports: &[u16]| {
        let hosts = vec!["127.0.0.1"; ports.len()].join(",");
        let ports: Vec<_> = ports.iter().map(ToString::to_string).collect();
        let attrs = if attrs.is_empty() { String::new() } else { format!("target_session_attrs={attrs}") };
        let text = format!("host={hosts} port={} user=postgres dbname=postgres {attrs}", ports.join(","));
        run(async {
            let mut link = connect(&dsn(&text), "reader", TIMEOUT).await.map_err(|e| failures(&e))?;
            Ok(ask(&mut link, "SHOW port").await.concat().parse::<u16>().unwrap())
        })
    };
    let (standby_only, primary_only) = ([first], [second]);
    let both = [[first, second], [second, first]];
    for ports in both {
        for (attrs, want) in [
            ("", second),
            ("read-write", second),
            ("primary", second),
            ("any", ports[0]),
            ("read-only", first),
            ("standby", first),
            ("prefer-standby", first),
        ] {
            assert_eq!(reached(attrs, &ports), Ok(want), "{attrs} {ports:?}");
        }
    }
    assert_eq!(reached("", &standby_only), Err(vec![ConnectFailure::Standby]));
    assert_eq!(reached("primary", &standby_only), Err(vec![ConnectFailure::Standby]));
    assert_eq!(reached("standby", &primary_only), Err(vec![ConnectFailure::Primary]));
    assert_eq!(reached("read-only", &primary_only), Err(vec![ConnectFailure::Primary]));
    assert_eq!(reached("prefer-standby", &primary_only), Ok(second));
    primary.execute("ALTER ROLE postgres SET default_transaction_read_only = on");
    assert_eq!(reached("", &primary_only), Err(vec![ConnectFailure::ReadOnly]));
    assert_eq!(reached("primary", &primary_only), Ok(second));
    assert_eq!(reached("read-only", &primary_only), Ok(second));
}
