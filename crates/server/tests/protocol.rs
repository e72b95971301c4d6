//! Messages after login: the simple and the extended protocol, and what breaks them.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "a test fails by panicking")]

mod support;

use std::fmt::Write as _;

use support::client::{
    bind, bind_as, close_statement, describe_portal, describe_statement, execute, flush, lines, message, parse, query,
    startup, sync,
};
use support::{Client, Served};

/// What the server says to `bytes`, up to ReadyForQuery.
#[track_caller]
fn check(client: &mut Client, bytes: &[&[u8]], expected: &str) {
    assert_eq!(client.ask(&bytes.concat()), expected);
}

#[test]
fn c077_an_error_in_the_middle_of_a_query_string() {
    let served = Served::start();
    let mut client = Client::login(served.address, "admin");
    assert_eq!(client.query("CREATE ROLE a; CREATE ROLE a; CREATE ROLE b;"), "C:CREATE ROLE E:42710 Z:I");
    for name in ["a", "b"] {
        assert_eq!(client.query(&format!("DROP ROLE {name}")), "E:42704 Z:I");
    }
}

#[test]
fn c079_ddl_by_the_extended_protocol() {
    let served = Served::start();
    let mut client = Client::login(served.address, "admin");
    let messages = [
        parse("", "CREATE ROLE a"),
        describe_statement(""),
        bind("", "", &[]),
        describe_portal(""),
        execute("", 0),
        sync(),
    ];
    check(&mut client, &messages.each_ref().map(Vec::as_slice), "1 t: n 2 n C:CREATE ROLE Z:I");
}

#[test]
fn c081_bound_parameters_in_ddl() {
    let served = Served::start();
    let mut client = Client::login(served.address, "admin");
    let sql = "CREATE USER u1 PASSWORD $1 VALID UNTIL $2";
    check(&mut client, &[&parse("", sql), &describe_statement(""), &sync()], "1 t:25,25 n Z:I");
    let bound = bind("", "", &["p$1;--", "2031-01-01"]);
    check(&mut client, &[&bound, &execute("", 0), &sync()], "2 C:CREATE ROLE Z:I");
    check(&mut client, &[&parse("", "CREATE ROLE $1"), &sync()], "E:42601 Z:I");
}

#[test]
fn c085_parameters_are_announced() {
    let served = Served::start();
    let mut client = Client::connect(served.address);
    client.send(&startup(&[("user", "admin"), ("application_name", "app")]));
    let said = client.until_ready();
    assert_eq!(said[0].kind, b'R');
    let value = |name: &str| said.iter().find(|s| s.kind == b'S' && s.texts()[0] == name).map(|s| s.texts()[1].clone());
    for name in [
        "server_version",
        "server_encoding",
        "client_encoding",
        "standard_conforming_strings",
        "DateStyle",
        "IntervalStyle",
        "TimeZone",
        "integer_datetimes",
        "is_superuser",
        "session_authorization",
        "application_name",
    ] {
        assert!(value(name).is_some(), "{name}");
        let shown = client.query(&format!("SHOW {name}"));
        assert!(shown.contains(&format!("D:{} ", value(name).unwrap())), "{name}: {shown}");
    }
    assert_eq!(value("is_superuser").as_deref(), Some("on"));
    assert_eq!(value("session_authorization").as_deref(), Some("admin"));
    assert_eq!(value("application_name").as_deref(), Some("app"));
    assert_eq!(client.query("SET application_name = 'x'"), "C:SET S:application_name=x Z:I");
    assert_eq!(client.query("SET application_name = 'x'"), "C:SET Z:I");
}

#[test]
fn w_19_server_parameters_tell_the_truth() {
    let served = Served::start();
    let mut client = Client::login(served.address, "admin");
    assert_eq!(client.query("CREATE USER plain"), "C:CREATE ROLE Z:I");
    let mut plain = Client::connect(served.address);
    plain.send(&startup(&[("user", "plain"), ("database", "default")]));
    let said = lines(&plain.until_ready());
    assert!(said.contains("S:is_superuser=off"), "{said}");
}

#[test]
fn c089_what_other_drivers_send() {
    let served = Served::start();
    let mut client = Client::login(served.address, "admin");
    let by_extended = |sql: &str| [parse("", sql), bind("", "", &[]), execute("", 0), sync()].concat();
    assert_eq!(client.ask(&by_extended("BEGIN")), "1 2 C:BEGIN Z:T");
    assert_eq!(client.ask(&by_extended("CREATE ROLE r")), "1 2 C:CREATE ROLE Z:T");
    assert_eq!(client.ask(&by_extended("COMMIT")), "1 2 C:COMMIT Z:I");
    assert_eq!(client.query("DEALLOCATE ALL"), "C:DEALLOCATE ALL Z:I");
    assert_eq!(client.query("DEALLOCATE nothing"), "E:26000 Z:I");
    check(&mut client, &[&close_statement("nothing"), &sync()], "3 Z:I");
    client.send(&[parse("s", "SHOW ROLES"), describe_statement("s"), sync()].concat());
    let known = [16, 19, 20, 23, 25, 26, 114, 1009, 1184];
    let said = client.until_ready();
    let columns = said.iter().find(|s| s.kind == b'T').unwrap().columns();
    assert!(columns.iter().all(|(_, oid)| known.contains(oid)), "{columns:?}");
}

#[test]
fn c109_a_payload_is_a_number() {
    let served = Served::start();
    let mut listener = Client::login(served.address, "admin");
    assert_eq!(listener.query("LISTEN dataglot_changes"), "C:LISTEN Z:I");
    let mut client = Client::login(served.address, "admin");
    let mut sql = format!("CREATE VIEW big AS SELECT '{}' AS a;", "x".repeat(60_000));
    for n in 0..200 {
        let _ = write!(sql, "CREATE ROLE \"r{n}\";");
    }
    assert!(client.query(&sql).ends_with("C:CREATE ROLE Z:I"));
    let said = listener.next().unwrap();
    assert_eq!(said.kind, b'A');
    assert!(said.body.len() < 100, "{}", said.body.escape_ascii());
    assert_eq!(said.texts()[3], "");
    // One for the transaction, and no second one.
    assert_eq!(listener.query("UNLISTEN *"), "C:UNLISTEN Z:I");
}

#[test]
fn notifications_wait_for_the_end_of_the_block() {
    let served = Served::start();
    let mut listener = Client::login(served.address, "admin");
    listener.query("LISTEN dataglot_changes");
    listener.query("BEGIN");
    let mut client = Client::login(served.address, "admin");
    assert_eq!(client.query("CREATE ROLE r"), "C:CREATE ROLE Z:I");
    assert_eq!(listener.query("SHOW server_encoding"), "T:server_encoding D:UTF8 C:SHOW Z:T");
    listener.send(&query("COMMIT"));
    let said = [listener.until_ready(), vec![]].concat();
    let told = lines(&said);
    if told == "C:COMMIT Z:I" {
        assert_eq!(listener.next().unwrap().line(), "A");
    } else {
        assert_eq!(told, "C:COMMIT A Z:I");
    }
}

#[test]
fn w_18_after_an_error_everything_up_to_sync_is_discarded() {
    let served = Served::start();
    let mut client = Client::login(served.address, "admin");
    let messages = [
        parse("", "SELEKT"),
        parse("", "CREATE ROLE a"),
        bind("", "", &[]),
        execute("", 0),
        query("CREATE ROLE b"),
        message(b'B', b"broken"),
        flush(),
        sync(),
    ];
    assert_eq!(client.ask(&messages.concat()), "E:42601 Z:I");
    for name in ["a", "b"] {
        assert_eq!(client.query(&format!("DROP ROLE {name}")), "E:42704 Z:I");
    }
    // What came before the error in the same round is taken back.
    let messages = [
        parse("", "CREATE ROLE a"),
        bind("", "", &[]),
        execute("", 0),
        parse("", "DROP ROLE nobody"),
        bind("", "", &[]),
        execute("", 0),
        sync(),
    ];
    assert_eq!(client.ask(&messages.concat()), "1 2 C:CREATE ROLE 1 2 E:42704 Z:I");
    assert_eq!(client.query("DROP ROLE a"), "E:42704 Z:I");
}

#[test]
fn many_messages_in_one_write() {
    let served = Served::start();
    let mut client = Client::login(served.address, "admin");
    let names = ["a", "b", "c"];
    client.send(&names.map(|n| query(&format!("CREATE ROLE {n}"))).concat());
    for _ in names {
        assert_eq!(lines(&client.until_ready()), "C:CREATE ROLE Z:I");
    }
    let rounds =
        names.map(|n| [parse("", &format!("DROP ROLE {n}")), bind("", "", &[]), execute("", 0), sync()].concat());
    client.send(&rounds.concat());
    for _ in names {
        assert_eq!(lines(&client.until_ready()), "1 2 C:DROP ROLE Z:I");
    }
}

#[test]
fn flush_sends_without_ready() {
    let served = Served::start();
    let mut client = Client::login(served.address, "admin");
    client.send(&[parse("", "SHOW server_encoding"), flush()].concat());
    assert_eq!(client.next().unwrap().line(), "1");
    assert_eq!(client.ask(&[bind("", "", &[]), execute("", 0), sync()].concat()), "2 D:UTF8 C:SHOW Z:I");
}

#[test]
fn a_portal_stops_at_its_row_limit() {
    let served = Served::start();
    let mut client = Client::login(served.address, "admin");
    client.query("CREATE ROLE a; CREATE ROLE b; CREATE ROLE c");
    let messages = [parse("", "SHOW ROLES"), bind("p", "", &[]), execute("p", 3), execute("p", 3), sync()];
    client.send(&messages.concat());
    let kinds: String = client.until_ready().iter().map(|s| s.kind as char).collect();
    assert_eq!(kinds, "12DDDsDCZ");
}

#[test]
fn binary_results() {
    let served = Served::start();
    let mut client = Client::login(served.address, "admin");
    let messages = [parse("", "SELECT 1"), bind_as("", "", &[], 1), execute("", 0), sync()];
    client.send(&messages.concat());
    let said = client.until_ready();
    assert_eq!(said[2].values(), [Some(vec![0, 0, 0, 1])]);
}

#[test]
fn w_10_w_11_w_17_broken_messages_end_the_connection_and_nothing_else() {
    let served = Served::start();
    let mut witness = Client::login(served.address, "admin");
    let giant = |kind: u8, length: u32| [&[kind][..], &length.to_be_bytes()].concat();
    let cases: &[(&str, Vec<u8>)] = &[
        ("unknown type", message(b'y', b"")),
        ("password", message(b'p', b"x\0")),
        ("P3: password of length 3", giant(b'p', 3)),
        ("P3: Bind of one byte", message(b'B', b"\0")),
        ("P4: 300 MiB", giant(b'Q', 300 << 20)),
        ("negative length", giant(b'Q', u32::MAX)),
        ("length 3", giant(b'S', 3)),
        ("length 0", giant(b'P', 0)),
        ("surplus in Sync", message(b'S', b"x")),
        ("surplus in Parse", message(b'P', b"\0SELECT 1\0\0\0x")),
        ("counts that lie", message(b'P', b"\0SELECT 1\0\xff\xff")),
        ("no terminator", message(b'Q', b"SELECT 1")),
        ("no body", message(b'Q', b"")),
        ("neither statement nor portal", message(b'D', b"X\0")),
        ("CopyData", message(b'd', b"x")),
        ("CopyDone", message(b'c', b"")),
        ("CopyFail", message(b'f', b"x\0")),
    ];
    for (what, bytes) in cases {
        let mut client = Client::login(served.address, "admin");
        assert_eq!(client.last(&[&bytes[..], &query("CREATE ROLE never")].concat()), "E:FATAL 08P01", "{what}");
    }
    let mut client = Client::login(served.address, "admin");
    assert_eq!(client.last(&message(b'F', &[0; 10])), "E:FATAL 0A000");
    assert_eq!(witness.query("DROP ROLE never"), "E:42704 Z:I");
}

#[test]
fn a_text_that_is_not_utf8_is_an_error_like_others() {
    let served = Served::start();
    let mut client = Client::login(served.address, "admin");
    assert_eq!(client.ask(&message(b'Q', b"SELECT '\xff'\0")), "E:22021 Z:I");
    assert_eq!(client.ask(&message(b'Q', b"SELECT\0 1\0")), "E:22021 Z:I");
    assert_eq!(client.ask(&[message(b'P', b"\0\xfe\0\0\0"), execute("", 0), sync()].concat()), "E:22021 Z:I");
    assert_eq!(client.query("BEGIN"), "C:BEGIN Z:T");
    assert_eq!(client.ask(&message(b'Q', b"\xff\0")), "E:22021 Z:E");
    assert_eq!(client.query("ROLLBACK"), "C:ROLLBACK Z:I");
}

#[test]
fn errors_have_all_their_fields() {
    let served = Served::start();
    let mut client = Client::login(served.address, "admin");
    client.send(&query("/* ä */ SELEKT 1"));
    let said = client.until_ready();
    let field = |code| said[0].field(code);
    assert_eq!(
        (field(b'S'), field(b'V'), field(b'C')),
        (Some("ERROR".into()), Some("ERROR".into()), Some("42601".into()))
    );
    assert_eq!(field(b'P').as_deref(), Some("9"));
    client.send(&query("DROP ROLE IF EXISTS nobody"));
    let said = client.until_ready();
    assert_eq!((said[0].kind, said[0].field(b'V').as_deref()), (b'N', Some("NOTICE")));
}

#[test]
fn an_empty_string_is_answered_as_such() {
    let served = Served::start();
    let mut client = Client::login(served.address, "admin");
    for sql in ["", ";", "-- nothing"] {
        assert_eq!(client.query(sql), "I Z:I");
    }
    check(&mut client, &[&parse("", ""), &bind("", "", &[]), &execute("", 0), &sync()], "1 2 I Z:I");
}

#[test]
fn terminate_ends_without_a_word() {
    let served = Served::start();
    let mut client = Client::login(served.address, "admin");
    assert_eq!(client.last(&message(b'X', b"")), "");
}

/// However the bytes are cut on their way, the answers are the same.
#[test]
fn halves_of_frames_at_every_offset() {
    let served = Served::start();
    let bytes = [
        startup(&[("user", "admin")]),
        query("SHOW server_encoding"),
        parse("", "SHOW server_encoding"),
        bind("", "", &[]),
        execute("", 0),
        sync(),
    ]
    .concat();
    for cut in 0..=bytes.len() {
        let mut client = Client::connect(served.address);
        client.send(&bytes[..cut]);
        std::thread::yield_now();
        client.send(&bytes[cut..]);
        assert_eq!(client.until_ready().last().unwrap().line(), "Z:I");
        assert_eq!(lines(&client.until_ready()), "T:server_encoding D:UTF8 C:SHOW Z:I", "cut at {cut}");
        assert_eq!(lines(&client.until_ready()), "1 2 D:UTF8 C:SHOW Z:I", "cut at {cut}");
    }
}

#[test]
fn a_long_query_string_of_short_statements() {
    let served = Served::start();
    let mut client = Client::login(served.address, "admin");
    let mut sql = String::from("BEGIN;");
    (0..20_000).for_each(|_| sql.push_str("SET a.b = 1;"));
    sql.push_str("ROLLBACK");
    client.send(&query(&sql));
    assert_eq!(client.until_ready().iter().filter(|s| s.kind == b'C').count(), 20_002);
}
