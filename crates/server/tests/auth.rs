//! Who gets in, and who does not: raw bytes for each method. The ids are those of the threat list.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod support;

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use dataglot_server::{Authentication, Hba, Method, Names, Rule, ServerConfig, TlsConfig, TlsMode};
use dataglot_store::open_memory;
use support::client::{bind, execute, message, parse, startup, sync};
use support::login::{BARE, Outcome, client_final, connect_from, denied, initial, log_in, login, login_on};
use support::pki::Pki;
use support::{Client, Served, encrypted};

/// `admin` is trusted, everybody else has to prove it by `method`.
fn config(method: Method) -> ServerConfig {
    let admin = Rule { users: Names::Of(vec!["admin".to_owned()]), ..Rule::for_all(Method::Trust) };
    let hba = Hba::new(vec![admin, Rule::for_all(method)]);
    ServerConfig { authentication: Authentication { hba, trust_remote: false }, ..ServerConfig::default() }
}

/// A server on which the superuser has said this.
fn served(method: Method, sql: &str) -> Served {
    let served = Served::with(config(method));
    run(served.address, sql);
    served
}

#[track_caller]
fn run(address: SocketAddr, sql: &str) {
    let said = Client::login(address, "admin").query(sql);
    assert!(!said.contains("E:"), "{said}");
}

const NO: &str = "28P01 password authentication failed for user";

/// Users of whom none can log in by `wrong`, each in another way. Their names are equally long.
const NOBODY: [(&str, &str); 5] = [
    ("u-right", "CREATE USER \"u-right\" PASSWORD 'right'"),
    ("u-nopwd", "CREATE USER \"u-nopwd\""),
    ("u-nolog", "CREATE ROLE \"u-nolog\" NOLOGIN PASSWORD 'wrong'"),
    ("u-until", "CREATE USER \"u-until\" PASSWORD 'wrong' VALID UNTIL '2001-01-01'"),
    ("u-empty", "CREATE USER \"u-empty\" PASSWORD ''"),
];

/// What was said, without what is random and without the user's name.
fn shape(outcome: &Outcome, user: &str) -> Vec<String> {
    let masked = |text: String| text.replace(user, "USER");
    outcome
        .said
        .iter()
        .map(|said| match (said.kind, said.body.get(3)) {
            (b'R', Some(11)) => {
                let text = String::from_utf8(said.body[4..].to_vec()).unwrap();
                let parts: Vec<&str> = text.split(',').collect();
                format!("R11 {} {} {}", parts[0].len(), parts[1].len(), parts[2])
            }
            (kind, _) => masked(format!("{} {}", kind as char, String::from_utf8_lossy(&said.body))),
        })
        .collect()
}

#[test]
fn a_01_who_cannot_log_in_looks_the_same() {
    for (method, encryption) in [
        (Method::ScramSha256, "scram-sha-256"),
        (Method::Password, "scram-sha-256"),
        (Method::Password, "argon2id"),
        (Method::Md5, "scram-sha-256"),
    ] {
        let users: Vec<&str> = NOBODY.iter().map(|(_, sql)| *sql).collect();
        let served = served(method, &format!("SET password_encryption = '{encryption}'; {}", users.join("; ")));
        let (_, unknown) = login(served.address, "u-gone!", "wrong");
        let expected = shape(&unknown, "u-gone!");
        assert!(unknown.error().starts_with(NO), "{}", unknown.error());
        for (user, _) in NOBODY {
            let (_, outcome) = login(served.address, user, "wrong");
            assert_eq!(shape(&outcome, user), expected, "{method:?} {user}");
        }
        let mut client = Client::connect(served.address);
        let no_database = login_on(&mut client, "u-gone!", "no such db", "wrong");
        assert_eq!(shape(&no_database, "u-gone!"), expected, "{method:?}");
        drop(log_in(served.address, "u-right", "right"));
    }
}

/// The salt that a user is told.
fn salt(address: SocketAddr, user: &str) -> String {
    let (_, outcome) = login(address, user, "x");
    let first = outcome.said.iter().find(|said| said.body.get(3) == Some(&11)).unwrap();
    String::from_utf8(first.body[4..].to_vec()).unwrap().split(',').nth(1).unwrap().to_owned()
}

#[test]
fn a_01_a_made_up_salt_stays() {
    let store = open_memory().unwrap();
    let first = Served::on(std::sync::Arc::clone(&store), config(Method::ScramSha256));
    let found = salt(first.address, "nobody");
    assert_eq!(salt(first.address, "nobody"), found);
    assert_ne!(salt(first.address, "somebody"), found);
    drop(first);
    let again = Served::on(store, config(Method::ScramSha256));
    assert_eq!(salt(again.address, "nobody"), found);
}

#[test]
fn a_01_made_up_iterations_are_the_commonest() {
    let verifier = |n: u32| {
        format!(
            "SCRAM-SHA-256${n}:{}$K1EvSbIxq4bQWDQr6zr5BkrHPPXQAWiZR4tv2Z3mjCI=:K1EvSbIxq4bQWDQr6zr5BkrHPPXQAWiZR4tv2Z3mjCI=",
            "W22ZaJ0SNY7soEsUEjb6gQ=="
        )
    };
    let users: Vec<String> = [7000, 7000, 5000]
        .into_iter()
        .enumerate()
        .map(|(n, i)| format!("CREATE USER u{n} PASSWORD '{}'", verifier(i)))
        .collect();
    let served = served(Method::ScramSha256, &users.join("; "));
    let (_, outcome) = login(served.address, "nobody", "x");
    assert!(shape(&outcome, "nobody")[1].ends_with("i=7000"), "{:?}", shape(&outcome, "nobody"));
}

#[test]
fn a_02_malformed_exchanges_end_the_connection() {
    let served = served(Method::ScramSha256, "CREATE USER ann PASSWORD 'right'");
    let first = format!("n,,{BARE}");
    let malformed = "08P01 malformed SASL exchange";
    let check = |what: &str, answers: &dyn Fn(&str) -> Vec<Vec<u8>>, expected: &str| {
        let mut client = Client::connect(served.address);
        client.send(&startup(&[("user", "ann"), ("database", "default")]));
        let mut server_first = String::new();
        assert_eq!(client.next().unwrap().kind, b'R');
        let count = answers("r=x,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096").len();
        for n in 0..count {
            client.send(
                &answers(if server_first.is_empty() { "r=x,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096" } else { &server_first })
                    [n],
            );
            let said = client.next().unwrap();
            if said.kind == b'E' {
                assert_eq!(n + 1, count, "{what}");
                assert_eq!(format!("{} {}", said.field(b'C').unwrap(), said.field(b'M').unwrap()), expected, "{what}");
                assert_eq!(said.field(b'S').as_deref(), Some("FATAL"));
                assert_eq!(client.last(&support::client::query("SELECT 1")), "", "{what}");
                return;
            }
            server_first = String::from_utf8(said.body[4..].to_vec()).unwrap();
        }
        panic!("{what}: let in");
    };
    let p = |body: &[u8]| message(b'p', body);
    check("no mechanism", &|_| vec![p(b"")], malformed);
    check("no length", &|_| vec![p(b"SCRAM-SHA-256\0")], malformed);
    check("a wrong length", &|_| vec![p(b"SCRAM-SHA-256\0\0\0\0\x09n,,n=,r=")], malformed);
    check("another mechanism", &|_| vec![initial("SCRAM-SHA-1", first.as_bytes())], malformed);
    check("a mechanism not offered", &|_| vec![initial("SCRAM-SHA-256-PLUS", first.as_bytes())], malformed);
    for bad in [
        "",
        "n,,",
        "n,a=admin,n=,r=x",
        "p=tls-unique,,n=,r=x",
        "x,,n=,r=x",
        "n,,r=x",
        "n,,n=,r=",
        "n,,m=x,n=,r=x",
        "n,,n=,r=x,e=y",
        "n,,n=,r=\u{e4}",
    ] {
        check(bad, &|_| vec![initial("SCRAM-SHA-256", bad.as_bytes())], malformed);
    }
    let changed = |what: &str, edit: &dyn Fn(String) -> String, expected: &str| {
        let answers = |server: &str| {
            let last = edit(client_final("right", "n,,", b"", BARE, server));
            vec![initial("SCRAM-SHA-256", first.as_bytes()), p(last.as_bytes())]
        };
        check(what, &answers, expected);
    };
    changed("no proof", &|last| last.split(",p=").next().unwrap().to_owned(), malformed);
    changed("a short proof", &|last| format!("{},p=AAAA", last.split(",p=").next().unwrap()), malformed);
    changed("another nonce", &|last| last.replace(",r=", ",r=x"), malformed);
    changed("our nonce alone", &|last| last.replace("a-nonce-of-the-client", ""), malformed);
    changed("another binding", &|last| last.replace("c=biws", "c=eSws"), malformed);
    changed("a NUL", &|last| format!("{last}\0"), malformed);
    changed(
        "a wrong proof",
        &|last| {
            let (head, _) = last.split_once(",p=").unwrap();
            format!("{head},p={}", "A".repeat(43) + "=")
        },
        "28P01 password authentication failed for user \"ann\"",
    );
    check("a query", &|_| vec![support::client::query("SELECT 1")], "08P01 expected password response");
    check("too long", &|_| vec![[&b"p"[..], &20_000u32.to_be_bytes()].concat()], "08P01 invalid password packet size");
    assert!(login(served.address, "ann", "right").1.is_in());
}

#[test]
fn a_02_channel_binding_is_offered_and_checked() {
    let pki = Pki::new();
    let served = Served::with(ServerConfig { tls: Some(pki.config(TlsMode::Allow)), ..config(Method::ScramSha256) });
    run(served.address, "CREATE USER ann PASSWORD 'right'");
    let certificate = std::fs::read(pki.path("server.crt")).unwrap();
    let der =
        <rustls::pki_types::CertificateDer<'_> as rustls::pki_types::pem::PemObject>::from_pem_slice(&certificate)
            .unwrap();
    let hash = <sha2::Sha256 as sha2::Digest>::digest(&der).to_vec();
    let header = "p=tls-server-end-point,,";
    for (header, mechanism, bound, expected) in [
        (header, "SCRAM-SHA-256-PLUS", hash.clone(), None),
        (header, "SCRAM-SHA-256-PLUS", vec![0; 32], Some("08P01")),
        ("n,,", "SCRAM-SHA-256", Vec::new(), None),
        // The client could bind, and was told that the server can't: somebody is between.
        ("y,,", "SCRAM-SHA-256", Vec::new(), Some("08P01")),
        ("n,,", "SCRAM-SHA-256-PLUS", Vec::new(), Some("08P01")),
        (header, "SCRAM-SHA-256", hash, Some("08P01")),
    ] {
        let mut client = encrypted::on_request(served.address, encrypted::config(&pki, None, &[])).unwrap();
        client.send(&startup(&[("user", "ann"), ("database", "default")]));
        let offered = client.next().unwrap();
        assert_eq!(&offered.body[4..], b"SCRAM-SHA-256-PLUS\0SCRAM-SHA-256\0\0");
        client.send(&initial(mechanism, format!("{header}{BARE}").as_bytes()));
        let mut said = client.next().unwrap();
        if said.kind == b'R' {
            let server_first = String::from_utf8(said.body[4..].to_vec()).unwrap();
            client.send(&message(b'p', client_final("right", header, &bound, BARE, &server_first).as_bytes()));
            said = client.next().unwrap();
        }
        assert_eq!(said.field(b'C').filter(|_| said.kind == b'E').as_deref(), expected, "{header} {mechanism}");
    }
    // In clear there is nothing to bind to.
    let (_, outcome) = login(served.address, "ann", "right");
    assert_eq!(&outcome.said[0].body[4..], b"SCRAM-SHA-256\0\0");
}

/// C093: a client that does not prepare passwords.
#[test]
fn c093_a_03_passwords_are_prepared_on_the_server_only_once() {
    let raw = "a\u{ad}b\u{a0}c\u{ff21}\u{2460}";
    for method in [Method::ScramSha256, Method::Password] {
        let served = served(method, &format!("CREATE USER u1 PASSWORD '{raw}'"));
        assert!(login(served.address, "u1", "ab cA1").1.is_in());
        if method == Method::Password {
            assert!(login(served.address, "u1", raw).1.is_in());
        } else {
            assert!(denied(served.address, "u1", raw).starts_with(NO));
        }
    }
}

#[test]
fn c095_a_05_the_empty_password_never_logs_in() {
    for method in [Method::ScramSha256, Method::Password, Method::Md5] {
        let served = Served::with(config(method));
        let said = Client::login(served.address, "admin").query("CREATE USER u1 PASSWORD ''");
        assert!(said.contains("N:00000") && said.contains("C:CREATE ROLE"), "{said}");
        run(served.address, "CREATE USER u2 PASSWORD NULL; CREATE USER u3; CREATE USER u4 PASSWORD 'x'");
        let (_, unknown) = login(served.address, "u5", "");
        for user in ["u1", "u2", "u3", "u4"] {
            let (_, outcome) = login(served.address, user, "");
            assert_eq!(shape(&outcome, user), shape(&unknown, "u5"), "{method:?} {user}");
            assert!(outcome.error().starts_with(NO));
        }
    }
}

#[test]
fn a_06_md5_is_for_who_has_been_brought_along() {
    // md5 of `pencil` and `ann`.
    let stored = "md5ae7a1e4fd6a6b7a9bb4bb8f0b2b3b7ad";
    let hash = <md5::Md5 as md5::Digest>::digest(b"pencilann");
    let stored_right = format!("md5{}", hash.iter().map(|b| format!("{b:02x}")).collect::<String>());
    let off = Served::with(config(Method::ScramSha256));
    let said = Client::login(off.address, "admin").query(&format!("CREATE USER ann PASSWORD '{stored}'"));
    assert!(said.contains("E:22023"), "{said}");

    let served =
        served(Method::Md5, &format!("CREATE USER ann PASSWORD '{stored_right}'; CREATE USER bob PASSWORD 'pencil'"));
    let (_, outcome) = login(served.address, "ann", "pencil");
    assert!(outcome.is_in() && outcome.said[0].body[3] == 5, "{}", outcome.line);
    assert!(denied(served.address, "ann", "other").starts_with(NO));
    // Everybody else goes on as ever.
    let (_, outcome) = login(served.address, "bob", "pencil");
    assert!(outcome.is_in() && outcome.said[0].body[3] == 10, "{}", outcome.line);
    // Nothing new becomes md5, and nothing better is replaced by it.
    let said = Client::login(served.address, "admin").query("SET password_encryption = 'md5'");
    assert!(said.contains("E:22023"), "{said}");
    let said = Client::login(served.address, "admin").query(&format!("ALTER USER bob PASSWORD '{stored}'"));
    assert!(said.contains("E:22023"), "{said}");
    run(served.address, "ALTER USER ann PASSWORD 'pencil'");
    let (_, outcome) = login(served.address, "ann", "pencil");
    assert_eq!(outcome.said[0].body[3], 10);
    run(served.address, "ALTER USER ann VALID UNTIL '2001-01-01'");
    assert!(denied(served.address, "ann", "pencil").starts_with(NO));
}

#[test]
fn a_07_wrong_passwords_slow_down_one_user_from_one_address() {
    let served = served(Method::ScramSha256, "CREATE USER ann PASSWORD 'right'; CREATE USER bob PASSWORD 'right'");
    // Many at once are no way round. Variants of a name are the same name.
    let names = ["ann", "ANN", " ann", "an\u{ad}n", "\u{ff41}nn"];
    let address = served.address;
    let wrong = |n| std::thread::spawn(move || login(address, names[n % names.len()], "wrong").1);
    let wrong: Vec<_> = (0..40).map(wrong).collect::<Vec<_>>().into_iter().map(|login| login.join().unwrap()).collect();
    // Five at a time, and most of them wait 3 s, of the 10 that a login has.
    let looked_at = wrong.iter().filter(|outcome| outcome.said[0].kind == b'R').count();
    assert!((10..=34).contains(&looked_at), "{looked_at}");
    for outcome in &wrong {
        assert!(outcome.error().starts_with(NO) || outcome.error().starts_with("57014"), "{}", outcome.line);
    }
    assert!(login_on(&mut connect_from("127.0.0.2", served.address), "ann", "default", "right").is_in());
    drop(log_in(served.address, "bob", "right"));
    // Whoever knows the password gets in from here, too, when its turn comes.
    let deadline = Instant::now() + Duration::from_secs(60);
    while !login(served.address, "ann", "right").1.is_in() {
        assert!(Instant::now() < deadline);
    }
}

#[test]
fn a_07_many_right_passwords_at_once_are_let_in() {
    let served = served(Method::ScramSha256, "CREATE USER ann PASSWORD 'right'");
    let address = served.address;
    let right = |_| std::thread::spawn(move || log_in(address, "ann", "right"));
    let right: Vec<_> = (0..40).map(right).collect();
    let open: Vec<_> = right.into_iter().map(|login| login.join().unwrap()).collect();
    assert_eq!(open.len(), 40);
}

#[test]
fn argon2id_is_for_the_password_method_only() {
    let store = open_memory().unwrap();
    let by_password = Served::on(std::sync::Arc::clone(&store), config(Method::Password));
    run(
        by_password.address,
        "SET password_encryption = 'argon2id'; CREATE USER ann PASSWORD 'right'; CREATE USER bob PASSWORD 'right'",
    );
    run(by_password.address, "ALTER USER bob PASSWORD 'right'");
    for user in ["ann", "bob"] {
        drop(log_in(by_password.address, user, "right"));
        assert!(denied(by_password.address, user, "wrong").starts_with(NO));
    }
    drop(by_password);
    let by_scram = Served::on(store, config(Method::ScramSha256));
    // Never both kinds: a new password of the other kind takes the place of the old one.
    assert!(denied(by_scram.address, "ann", "right").starts_with(NO));
    drop(log_in(by_scram.address, "bob", "right"));
}

#[test]
fn a_11_what_ends_the_right_to_log_in_ends_sessions() {
    let ends = [
        ("ALTER USER ann NOLOGIN", "is no longer permitted to log in"),
        ("ALTER USER ann VALID UNTIL '2001-01-01'", "has expired"),
        ("ALTER USER ann PASSWORD 'another'", "has another password now"),
        ("ALTER USER ann PASSWORD NULL", "has another password now"),
        ("ALTER USER ann CONNECTION LIMIT 0", "has too many connections"),
        ("DROP USER ann", "was dropped"),
        ("DROP USER ann; CREATE USER ann PASSWORD 'right'", "was dropped"),
    ];
    for (sql, why) in ends {
        let served = served(Method::ScramSha256, "CREATE USER ann PASSWORD 'right'");
        let mut session = log_in(served.address, "ann", "right");
        assert!(session.query("SHOW ROLES").contains("C:SHOW"));
        run(served.address, sql);
        session.send(&support::client::query("SHOW ROLES"));
        let said = session.until_end();
        let last = said.last().unwrap();
        assert_eq!(last.field(b'S').as_deref(), Some("FATAL"), "{sql}");
        assert!(last.field(b'M').unwrap().ends_with(why), "{sql}: {}", last.field(b'M').unwrap());
    }
}

#[test]
fn a_11_what_does_not_end_it_does_not() {
    let served = served(Method::ScramSha256, "CREATE USER ann PASSWORD 'right'");
    let mut session = log_in(served.address, "ann", "right");
    for sql in [
        "ALTER USER ann PASSWORD 'right'",
        "ALTER USER ann VALID UNTIL '2999-01-01'",
        "ALTER USER ann CONNECTION LIMIT 1",
        "ALTER USER ann RENAME TO anna",
    ] {
        run(served.address, sql);
        assert!(session.query("SHOW ROLES").contains("C:SHOW"), "{sql}");
    }
    // Who changes its own password stays, in a block too; another session of its own does not.
    run(served.address, "ALTER USER anna CONNECTION LIMIT -1");
    let mut other = log_in(served.address, "anna", "right");
    let said = session.query("ALTER USER anna PASSWORD 'new'");
    assert!(said.contains("C:ALTER ROLE"), "{said}");
    assert!(session.query("SHOW ROLES").contains("C:SHOW"));
    assert!(other.last(&support::client::query("SHOW ROLES")).contains("E:FATAL"));
    assert!(session.query("BEGIN; ALTER USER anna PASSWORD 'newer'; COMMIT").contains("C:COMMIT"));
    assert!(session.query("SHOW ROLES").contains("C:SHOW"));
    let mut other = log_in(served.address, "anna", "newer");
    // Without a superuser's rights it may do that, and no more.
    for sql in ["ALTER USER anna PASSWORD 'x' SUPERUSER", "ALTER USER admin PASSWORD 'x'", "CREATE ROLE r"] {
        assert!(session.query(sql).contains("42501"), "{sql}");
    }
    assert!(session.query("ALTER USER CURRENT_USER PASSWORD NULL").contains("C:ALTER ROLE"));
    assert!(session.query("SHOW ROLES").contains("C:SHOW"));
    assert!(other.last(&support::client::query("SHOW ROLES")).contains("E:FATAL"));
    run(served.address, "ALTER USER anna PASSWORD 'by another'");
    assert!(session.last(&support::client::query("SHOW ROLES")).contains("E:FATAL"));
}

#[test]
fn a_12_valid_until_holds_for_every_method() {
    let pki = Pki::new();
    pki.client("ann");
    let until = "CREATE USER ann PASSWORD 'right' VALID UNTIL '2001-01-01'";
    for method in [Method::Trust, Method::ScramSha256, Method::Password, Method::Md5] {
        let served = served(method, until);
        assert!(!login(served.address, "ann", "right").1.is_in(), "{method:?}");
    }
    let tls = TlsConfig { client_ca: Some(pki.path("ca.crt")), ..pki.config(TlsMode::Allow) };
    let served = Served::with(ServerConfig { tls: Some(tls), ..config(Method::Cert) });
    run(served.address, until);
    let enter = || {
        let mut client = encrypted::on_request(served.address, encrypted::config(&pki, Some("ann"), &[])).unwrap();
        login_on(&mut client, "ann", "default", "")
    };
    assert_eq!(enter().error(), "28000 login failed");
    run(served.address, "ALTER USER ann VALID UNTIL 'infinity'");
    assert!(enter().is_in());
    let mut client = encrypted::on_request(served.address, encrypted::config(&pki, Some("ann"), &[])).unwrap();
    let other = login_on(&mut client, "bob", "default", "");
    assert_eq!(other.error(), "28000 certificate authentication failed for user \"bob\"");
    assert_eq!(denied(served.address, "ann", ""), "28000 certificate authentication failed for user \"ann\"");
}

#[test]
fn a_14_a_role_of_the_same_name_is_another_one() {
    let served = served(Method::ScramSha256, "CREATE USER a PASSWORD 'old'");
    let mut old = log_in(served.address, "a", "old");
    run(served.address, "DROP USER a; CREATE USER a PASSWORD 'new' SUPERUSER");
    assert!(old.last(&support::client::query("CREATE ROLE x")).contains("E:FATAL 28000"));
    assert!(denied(served.address, "a", "old").starts_with(NO));
    drop(log_in(served.address, "a", "new"));
}

#[test]
fn c081_a_bound_password_logs_in() {
    let served = Served::with(config(Method::ScramSha256));
    let mut admin = Client::login(served.address, "admin");
    let said = admin.ask(
        &[
            parse("", "CREATE USER u1 PASSWORD $1 VALID UNTIL $2"),
            bind("", "", &["p$1;--", "2031-01-01"]),
            execute("", 0),
            sync(),
        ]
        .concat(),
    );
    assert!(said.contains("C:CREATE ROLE"), "{said}");
    drop(log_in(served.address, "u1", "p$1;--"));
    assert!(denied(served.address, "u1", "$1").starts_with(NO));
    let said = admin.ask(&[parse("", "CREATE ROLE $1"), sync()].concat());
    assert!(said.contains("E:42601"), "{said}");
}

#[test]
fn w_06_the_last_connections_are_for_superusers() {
    let limits = ServerConfig { connections_max: 3, connections_reserved: 1, ..config(Method::ScramSha256) };
    let served = Served::with(limits);
    run(served.address, "CREATE USER ann PASSWORD 'right'; CREATE ROLE root LOGIN SUPERUSER PASSWORD 'right'");
    let deadline = Instant::now() + Duration::from_secs(20);
    // The connection of before may not be over yet.
    let enter = || loop {
        let (client, outcome) = login(served.address, "ann", "right");
        if outcome.is_in() {
            break client;
        }
        assert!(Instant::now() < deadline, "{}", outcome.line);
    };
    let seats = [enter(), enter()];
    while denied(served.address, "ann", "right") != "53300 remaining connection slots are reserved for superusers" {
        assert!(Instant::now() < deadline);
    }
    // A wrong password tells nothing of who is a superuser.
    for user in ["root", "ann"] {
        while !denied(served.address, user, "wrong").starts_with(NO) {
            assert!(Instant::now() < deadline);
        }
    }
    let root = loop {
        let (client, outcome) = login(served.address, "root", "right");
        if outcome.is_in() {
            break client;
        }
        assert!(Instant::now() < deadline, "{}", outcome.line);
    };
    // Full: said before anything is asked.
    let (_, outcome) = login(served.address, "root", "right");
    assert_eq!((outcome.said.len(), outcome.error().as_str()), (1, "53300 too many connections"));
    drop((root, seats));
}

#[test]
fn rules_are_by_org_whatever_it_is_called() {
    let only = |databases: &[&str], method| Rule {
        databases: Names::Of(databases.iter().map(|d| (*d).to_owned()).collect()),
        ..Rule::for_all(method)
    };
    let hba = Hba::new(vec![only(&["default"], Method::Reject), Rule::for_all(Method::Trust)]);
    let with = ServerConfig { authentication: Authentication { hba, trust_remote: false }, ..ServerConfig::default() };
    let served = Served::with(with);
    for database in ["default", "postgres", "dataglot", "admin"] {
        let mut client = Client::connect(served.address);
        let outcome = login_on(&mut client, "admin", database, "");
        assert_eq!(outcome.error(), "28000 this server has no rule that lets this connection in", "{database}");
    }
}

#[test]
fn a_password_is_one_text() {
    let served = served(Method::Password, "CREATE USER ann PASSWORD 'right'");
    for (body, expected) in [
        (&b"right"[..], "08P01 invalid password packet size"),
        (b"right\0\0", "08P01 invalid password packet size"),
        (b"", "08P01 invalid password packet size"),
        (b"right\0", ""),
        (b"\xff\0", NO),
    ] {
        let mut client = Client::connect(served.address);
        client.send(&startup(&[("user", "ann"), ("database", "default")]));
        assert_eq!(client.next().unwrap().body, [0, 0, 0, 3]);
        client.send(&message(b'p', body));
        let said = client.next().unwrap();
        let error = if said.kind == b'E' {
            format!("{} {}", said.field(b'C').unwrap(), said.field(b'M').unwrap())
        } else {
            String::new()
        };
        assert!(error.starts_with(expected) && error.is_empty() == expected.is_empty(), "{body:?}: {error}");
    }
}
