//! Logins by a directory, a real slapd on loopback, and all that must not be one.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "a test fails by panicking")]

mod support;

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use dataglot_server::{Authentication, DirectoryConfig, Hba, Method, Names, Rule, ServeError, Server, ServerConfig};
use support::login::{denied, log_in};
use support::pki::{Pki, write};
use support::slapd::{Slapd, person, unit};
use support::{Client, Served};

const PEOPLE: &str = "ou=people,dc=example,dc=test";

fn no(user: &str) -> String {
    format!("28P01 password authentication failed for user \"{user}\"")
}

/// People, of whom some are there twice, and a part of the tree that is on another server.
fn entries() -> String {
    let referral = "dn: ou=elsewhere,ou=people,dc=example,dc=test\nobjectClass: referral\n\
                    objectClass: extensibleObject\nou: elsewhere\n\
                    ref: ldap://127.0.0.1:1/ou=people,dc=example,dc=test\n\n";
    [
        unit("people"),
        unit("a,ou=people"),
        person("people", "ann", "ann-pw", "employeeType: g-analysts\nemployeeType: etl\n"),
        person("people", "bob", "bob-pw", "employeeType: g-strangers\n"),
        person("people", "twin", "twin-pw", ""),
        person("a,ou=people", "twin", "twin-pw", ""),
        person("people", "admin", "", "").replace("userPassword: \n", ""),
        referral.to_owned(),
    ]
    .concat()
    .replace("ou: a,ou=people\n", "ou: a\n")
}

fn config(pki: &Pki, url: String) -> DirectoryConfig {
    write(&pki.path("service.pw"), "service-pw\n");
    DirectoryConfig {
        url,
        ca_file: Some(pki.path("ca.crt")),
        service: Some(("cn=service,dc=example,dc=test".to_owned(), pki.path("service.pw"))),
        base: PEOPLE.to_owned(),
        filter: "(uid={user})".to_owned(),
        user_attribute: "uid".to_owned(),
        groups_attribute: None,
        roles: BTreeMap::new(),
    }
}

/// A server on which `root` is trusted and has said this; the others need what the directory says.
fn served(directory: DirectoryConfig, sql: &str) -> Served {
    let root = Rule { users: Names::Of(vec!["admin".to_owned()]), ..Rule::for_all(Method::Trust) };
    let hba = Hba::new(vec![root, Rule::for_all(Method::Ldap)]);
    let served = Served::with(ServerConfig {
        authentication: Authentication { hba, trust_remote: false },
        directory: Some(directory),
        ..ServerConfig::default()
    });
    let said = Client::login(served.address, "admin").query(sql);
    assert!(!said.contains("E:"), "{said}");
    served
}

const USERS: &str = "CREATE USER ann; CREATE USER \"Ann\"; CREATE USER bob; CREATE USER twin; CREATE USER nobody; \
                     CREATE USER \"*\"; CREATE USER \"*)(uid=*\"; CREATE USER \"ann)(|(uid=*\"; CREATE USER \"an*\"";

#[test]
fn the_password_is_the_directorys() {
    let pki = Pki::new();
    let slapd = Slapd::start(&pki, &entries());
    for (url, what) in [
        (format!("ldaps://127.0.0.1:{}", slapd.tls_port), "TLS from the start"),
        (format!("ldaps://localhost:{}", slapd.tls_port), "by name"),
        (format!("ldap://127.0.0.1:{}", slapd.port), "StartTLS"),
    ] {
        let served = served(config(&pki, url), USERS);
        let mut ann = log_in(served.address, "ann", "ann-pw");
        assert!(ann.query("SELECT current_user").contains("D:"), "{what}");
        assert_eq!(denied(served.address, "ann", "bob-pw"), no("ann"), "{what}");
        assert_eq!(denied(served.address, "ann", "ann-pw "), no("ann"), "{what}");
        assert_eq!(denied(served.address, "nobody", "ann-pw"), no("nobody"), "{what}");
    }
    assert!(!slapd.log().contains("ann-pw"));
    assert!(slapd.log().contains("STARTTLS"), "{}", slapd.log());
}

#[test]
fn a_10_an_empty_password_is_not_even_sent() {
    let pki = Pki::new();
    let slapd = Slapd::start(&pki, &entries());
    let served = served(config(&pki, format!("ldaps://127.0.0.1:{}", slapd.tls_port)), USERS);
    assert_eq!(denied(served.address, "ann", ""), no("ann"));
    assert_eq!(slapd.binds("cn=service,dc=example,dc=test"), 0, "{}", slapd.log());
    log_in(served.address, "ann", "ann-pw");
    assert_eq!(slapd.binds("cn=service,dc=example,dc=test"), 1);
}

#[test]
fn a_10_a_name_is_no_filter_and_one_entry_is_one() {
    let pki = Pki::new();
    let slapd = Slapd::start(&pki, &entries());
    let served = served(config(&pki, format!("ldaps://127.0.0.1:{}", slapd.tls_port)), USERS);
    for name in ["*", "*)(uid=*", "ann)(|(uid=*", "an*"] {
        assert_eq!(denied(served.address, name, "ann-pw"), no(name));
    }
    assert!(slapd.log().contains("filter=\"(uid=\\2A\\29\\28uid=\\2A)\""), "{}", slapd.log());
    // The directory takes it for ann; here it is another user.
    assert_eq!(denied(served.address, "Ann", "ann-pw"), no("Ann"));
    assert_eq!(denied(served.address, "twin", "twin-pw"), no("twin"));
    assert_eq!(slapd.binds("uid=twin,ou=people,dc=example,dc=test"), 0);
    // A filter that finds many does not help anybody who is not ann.
    let mut all = config(&pki, format!("ldaps://127.0.0.1:{}", slapd.tls_port));
    all.filter = "(|(uid={user})(uid=ann))".to_owned();
    let served = self::served(all, USERS);
    log_in(served.address, "ann", "ann-pw");
    for name in ["nobody", "bob"] {
        assert_eq!(denied(served.address, name, "ann-pw"), no(name));
    }
}

#[test]
fn a_10_referrals_are_not_followed() {
    let pki = Pki::new();
    let slapd = Slapd::start(&pki, &entries());
    let mut elsewhere = config(&pki, format!("ldaps://127.0.0.1:{}", slapd.tls_port));
    elsewhere.base = format!("ou=elsewhere,{PEOPLE}");
    let served = served(elsewhere, USERS);
    assert_eq!(denied(served.address, "ann", "ann-pw"), no("ann"));
    assert!(slapd.log().contains("err=10"), "{}", slapd.log());
    let mut absent = config(&pki, format!("ldaps://127.0.0.1:{}", slapd.tls_port));
    absent.base = "ou=absent,dc=example,dc=test".to_owned();
    assert_eq!(denied(self::served(absent, USERS).address, "ann", "ann-pw"), no("ann"));
}

#[test]
fn a_10_a_directory_that_is_down_or_not_itself_lets_nobody_in() {
    let (pki, other) = (Pki::new(), Pki::new());
    let mut slapd = Slapd::start(&pki, &entries());
    let url = format!("ldaps://127.0.0.1:{}", slapd.tls_port);
    // Another authority's certificate; a name that is not in it.
    let mut strange = config(&pki, url.clone());
    strange.ca_file = Some(other.path("ca.crt"));
    for directory in [strange, config(&pki, format!("ldaps://127.0.0.2:{}", slapd.tls_port))] {
        assert_eq!(denied(served(directory, USERS).address, "ann", "ann-pw"), no("ann"));
    }
    // Our own password is wrong.
    let wrong = config(&pki, url.clone());
    write(&pki.path("service.pw"), "wrong");
    assert_eq!(denied(served(wrong, USERS).address, "ann", "ann-pw"), no("ann"));
    let served = served(config(&pki, url), USERS);
    log_in(served.address, "ann", "ann-pw");
    slapd.stop();
    assert_eq!(denied(served.address, "ann", "ann-pw"), no("ann"));
    // Something that takes connections and says nothing.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let served = self::served(config(&pki, format!("ldaps://{}", silent.local_addr().unwrap())), USERS);
    let begin = Instant::now();
    assert_eq!(denied(served.address, "ann", "ann-pw"), no("ann"));
    assert!(begin.elapsed() < Duration::from_secs(9), "in time for the client to be told");
}

/// Between us and the directory, somebody answers for it that there is no TLS, and passes on the rest.
fn stripper(target: u16, passed_on: Arc<AtomicUsize>) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (mut client, passed_on) = (stream.unwrap(), Arc::clone(&passed_on));
            std::thread::spawn(move || {
                let mut request = [0; 4096];
                let bytes = client.read(&mut request).unwrap_or(0);
                if !request[..bytes].windows(22).any(|w| w == b"1.3.6.1.4.1.1466.20037") {
                    passed_on.fetch_add(1, Ordering::SeqCst);
                }
                // ExtendedResponse of message 1: protocolError.
                let refused = [0x30, 0x0c, 0x02, 0x01, 0x01, 0x78, 0x07, 0x0a, 0x01, 0x02, 0x04, 0x00, 0x04, 0x00];
                client.write_all(&refused).unwrap();
                let mut server = TcpStream::connect(("127.0.0.1", target)).unwrap();
                let bytes = client.read(&mut request).unwrap_or(0);
                if request[..bytes].windows(2).any(|w| w == b"pw") {
                    passed_on.fetch_add(1, Ordering::SeqCst);
                }
                drop(server.write_all(&request[..bytes]));
                drop(server.shutdown(Shutdown::Both));
            });
        }
    });
    port
}

#[test]
fn a_10_without_tls_nothing_is_said() {
    let pki = Pki::new();
    let slapd = Slapd::start(&pki, &entries());
    let leaked = Arc::new(AtomicUsize::new(0));
    let port = stripper(slapd.port, Arc::clone(&leaked));
    let served = served(config(&pki, format!("ldap://127.0.0.1:{port}")), USERS);
    assert_eq!(denied(served.address, "ann", "ann-pw"), no("ann"));
    // TLS where there is none.
    let plain = self::served(config(&pki, format!("ldaps://127.0.0.1:{}", slapd.port)), USERS);
    assert_eq!(denied(plain.address, "ann", "ann-pw"), no("ann"));
    assert_eq!(leaked.load(Ordering::SeqCst), 0);
    assert!(!slapd.log().contains("BIND"), "{}", slapd.log());
}

/// Elements within elements, as many as the library that reads them has no stack for: it would end the process.
#[test]
fn a_10_an_answer_in_clear_ends_no_process() {
    let pki = Pki::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let (sent, asked) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let mut client = listener.accept().unwrap().0;
        let mut request = [0; 31];
        client.read_exact(&mut request).unwrap();
        let lengths = (0..20_000u32).rev().map(|level| (level * 5).to_be_bytes());
        let answer: Vec<u8> = lengths.flat_map(|length| [0x30, 0x83, length[1], length[2], length[3]]).collect();
        drop(client.write_all(&answer));
        drop(client.read_to_end(&mut Vec::new()));
        sent.send(request).unwrap();
    });
    let served = served(config(&pki, format!("ldap://127.0.0.1:{port}")), USERS);
    assert_eq!(denied(served.address, "ann", "ann-pw"), no("ann"));
    assert!(asked.recv().unwrap().ends_with(b"1.3.6.1.4.1.1466.20037"));
    assert!(Client::login(served.address, "admin").query("SELECT 1").contains("D:1"));
}

/// A name that is not there costs what a wrong password costs, and so does one that is another user's.
#[test]
fn a_01_the_directory_is_asked_the_same_for_every_name() {
    let pki = Pki::new();
    let slapd = Slapd::start(&pki, &entries());
    let served = served(config(&pki, format!("ldaps://127.0.0.1:{}", slapd.tls_port)), USERS);
    let mut before = slapd.connections();
    for name in ["ann", "nobody", "Ann", "twin", "*"] {
        assert_eq!(denied(served.address, name, "wrong"), no(name));
        let now = slapd.connections();
        assert_eq!(now - before, 2, "{name}: {}", slapd.log());
        before = now;
    }
    assert_eq!(slapd.binds(&format!("uid=nobody.invalid,{PEOPLE}")), 4);
}

/// However many come at once, so many ask the directory, and the others wait.
#[test]
fn a_10_logins_at_once_are_not_as_many_connections() {
    let pki = Pki::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("ldaps://{}", listener.local_addr().unwrap());
    let served = served(config(&pki, url), USERS);
    let address = served.address;
    let log_in =
        |n| std::thread::spawn(move || assert_eq!(denied(address, &format!("u{n}"), "x"), no(&format!("u{n}"))));
    let logins: Vec<_> = (0..24).map(log_in).collect();
    // Nothing is answered, so that each connection is there until its login gives up.
    let mut held: Vec<TcpStream> = (0..16).map(|_| listener.accept().unwrap().0).collect();
    listener.set_nonblocking(true).unwrap();
    let is_open = |mut stream: &TcpStream| {
        stream.set_nonblocking(true).unwrap();
        let mut bytes = [0; 4096];
        loop {
            match stream.read(&mut bytes) {
                Ok(0) => return false,
                Ok(_) => {}
                Err(error) => return error.kind() == std::io::ErrorKind::WouldBlock,
            }
        }
    };
    while !logins.iter().all(std::thread::JoinHandle::is_finished) {
        if let Ok((stream, _)) = listener.accept() {
            held.retain(is_open);
            held.push(stream);
            assert!(held.len() <= 16, "one more than may be");
        }
        std::thread::yield_now();
    }
    logins.into_iter().for_each(|login| login.join().unwrap());
}

#[test]
fn groups_limit_the_session_and_name_no_role() {
    let pki = Pki::new();
    let slapd = Slapd::start(&pki, &entries());
    let mut with_groups = config(&pki, format!("ldaps://127.0.0.1:{}", slapd.tls_port));
    with_groups.groups_attribute = Some("EMPLOYEETYPE".to_owned());
    with_groups.roles = BTreeMap::from([("g-analysts".to_owned(), vec!["analyst".to_owned()])]);
    let sql = format!("{USERS}; CREATE ROLE analyst; CREATE ROLE etl; GRANT analyst TO ann; GRANT etl TO ann");
    let served = served(with_groups, &sql);
    let mut ann = log_in(served.address, "ann", "ann-pw");
    assert!(ann.query("SET ROLE analyst").contains("C:SET"));
    assert!(ann.query("SET ROLE etl").contains("42501"));
    assert_eq!(denied(served.address, "bob", "bob-pw"), no("bob"));
}

#[test]
fn the_file_with_our_password_is_ours_alone() {
    let pki = Pki::new();
    let bind = |directory: DirectoryConfig| {
        Server::bind(ServerConfig { directory: Some(directory), ..ServerConfig::default() }).map(drop)
    };
    let directory = config(&pki, "ldaps://127.0.0.1:1".to_owned());
    assert!(bind(directory.clone()).is_ok());
    for text in ["", "\n", "\0x"] {
        write(&pki.path("service.pw"), text);
        assert!(matches!(bind(directory.clone()), Err(ServeError::Directory(_))), "{text:?}");
    }
    write(&pki.path("service.pw"), "CANARY-7Q");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o644);
    std::fs::set_permissions(pki.path("service.pw"), mode).unwrap();
    let error = bind(directory).unwrap_err().to_string();
    assert!(error.contains("its mode is 0644") && !error.contains("CANARY-7Q"), "{error}");
}
