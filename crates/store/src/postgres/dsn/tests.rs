//! Connection strings: what is read from where, and that no password is ever shown.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use dataglot_model::Problem;

use super::*;

/// Surroundings that a test makes up.
#[derive(Default)]
pub(crate) struct Surroundings {
    pub(crate) variables: BTreeMap<String, OsString>,
    pub(crate) home: Option<PathBuf>,
}

impl Surroundings {
    pub(crate) fn set(mut self, name: &str, value: impl Into<OsString>) -> Self {
        self.variables.insert(name.to_owned(), value.into());
        self
    }

    pub(crate) fn at_home(mut self, home: &Path) -> Self {
        self.home = Some(home.to_owned());
        self
    }
}

impl Environment for Surroundings {
    fn variable(&self, name: &str) -> Option<OsString> {
        self.variables.get(name).cloned()
    }
    fn home(&self) -> Option<PathBuf> {
        self.home.clone()
    }
    fn user(&self) -> Option<String> {
        Some("account".to_owned())
    }
}

fn parse(text: &str) -> Dsn {
    Dsn::parse_with(text, &Surroundings::default()).unwrap_or_else(|e| panic!("{text}: {e}"))
}

fn refused(text: &str) -> DsnError {
    Dsn::parse_with(text, &Surroundings::default()).expect_err(text)
}

fn password(dsn: &Dsn) -> Option<String> {
    dsn.password_for(&dsn.targets[0]).map(|p| p.open().to_owned())
}

/// A file with a mode.
fn write(path: &Path, text: &str, mode: u32) {
    fs::write(path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn keywords_are_sorted_and_unique() {
    let names: Vec<_> = keyword::KEYWORDS.iter().map(|k| k.name.replace('_', "")).collect();
    assert!(names.windows(2).all(|w| w[0] < w[1]), "{names:?}");
}

/// Each text, and where it leads.
#[test]
fn locations() {
    let table = [
        ("host=db", "host=db port=5432 dbname=account user=account"),
        ("host = db  port\t=\n 1 dbname =d user= u", "host=db port=1 dbname=d user=u"),
        (r"host=db dbname='my db' user='it\'s'", r"host=db port=5432 dbname='my db' user='it\'s'"),
        (r"host=db dbname=my\ db user=it\'s\\", r"host=db port=5432 dbname='my db' user='it\'s\\'"),
        ("host=db dbname=a'b", r"host=db port=5432 dbname='a\'b' user=account"),
        ("host=db user=\"u\"", "host=db port=5432 dbname=\"u\" user=\"u\""),
        ("host='db'port=7", "host=db port=7 dbname=account user=account"),
        ("host=x host=db", "host=db port=5432 dbname=account user=account"),
        ("host=db dbname=''", "host=db port=5432 dbname=account user=account"),
        ("host=a,b,c port=1,2,3", "host=a,b,c port=1,2,3 dbname=account user=account"),
        ("host=a,b,c port=1,,3", "host=a,b,c port=1,5432,3 dbname=account user=account"),
        ("host=a,b port=7", "host=a,b port=7 dbname=account user=account"),
        ("hostaddr=::1,10.0.0.1", "host=::1,10.0.0.1 port=5432 dbname=account user=account"),
        ("host=db hostaddr=10.0.0.1", "host=db port=5432 dbname=account user=account"),
        ("host='/var/a dir'", "host='/var/a dir' port=5432 dbname=account user=account"),
        ("postgres://db", "host=db port=5432 dbname=account user=account"),
        ("postgresql://db:7/", "host=db port=7 dbname=account user=account"),
        ("postgresql://u@db/d", "host=db port=5432 dbname=d user=u"),
        ("postgresql://u:p@db/d?connect_timeout=3", "host=db port=5432 dbname=d user=u"),
        ("postgresql://u:p:q@db", "host=db port=5432 dbname=u user=u"),
        ("postgresql://a:1,b,c:3/d", "host=a,b,c port=1,5432,3 dbname=d user=account"),
        ("postgresql://[::1]:7,[2001:db8::1]/d", "host=::1,2001:db8::1 port=7,5432 dbname=d user=account"),
        ("postgresql://%2Fvar%2Frun/d", "host=/var/run port=5432 dbname=d user=account"),
        ("postgresql:///d?host=/var/run&port=7", "host=/var/run port=7 dbname=d user=account"),
        ("postgresql://db/d?user=o%27k&dbname=e", r"host=db port=5432 dbname=e user='o\'k'"),
        (
            "postgresql://%C3%BC%40%2F%25%20'%22:p@db/%C3%BC%40%2F%25%20'%22",
            r#"host=db port=5432 dbname='ü@/% \'"' user='ü@/% \'"'"#,
        ),
        (" \n postgresql://db/d \n", "host=db port=5432 dbname=d user=account"),
    ];
    for (text, location) in table {
        assert_eq!(parse(text).location(), location, "{text}");
    }
    assert!(parse("").location().starts_with("host=/"));
    assert!(parse("host=,db").location().starts_with("host=/"));
}

/// Every character, in every part, in both forms.
#[test]
fn any_character_in_any_part() {
    let odd = r#"ü@/%:?#&= '\"[],+;$x"#;
    let quoted = keyvalue::quote(odd);
    let encoded: String = odd.bytes().map(|b| format!("%{b:02X}")).collect();
    let texts = [
        format!("host=db user={quoted} password={quoted} dbname={quoted} application_name={quoted} options={quoted}"),
        format!("postgres://{encoded}:{encoded}@db/{encoded}?application_name={encoded}&options={encoded}"),
        format!(
            "postgres:///?host=db&user={encoded}&password={encoded}&dbname={encoded}&application_name={encoded}&options={encoded}"
        ),
    ];
    for text in texts {
        let dsn = parse(&text);
        assert_eq!(dsn.targets[0].to_string(), "host \"db\" port 5432");
        assert_eq!((dsn.user.as_str(), dsn.dbname.as_str()), (odd, odd), "{text}");
        assert_eq!(password(&dsn).as_deref(), Some(odd), "{text}");
        assert_eq!(dsn.application(), odd);
        assert_eq!(dsn.options.as_deref(), Some(odd));
    }
    let directory = format!("/{}", odd.replace(',', ""));
    let dsn = parse(&format!("host={}", keyvalue::quote(&directory)));
    assert_eq!(dsn.targets[0].place, Place::Unix(directory.into()));
}

/// Each text, the message, and the detail or the hint.
#[test]
fn refusals() {
    let blanks = "Put values with blanks in single quotes, with \\' and \\\\ for quotes and backslashes in them.";
    let encode = "Write special characters in any part as %XX, for example @ as %40 and / as %2F.";
    let table = [
        ("hst=db", "invalid connection option \"hst\"", "Did you mean \"host\"?"),
        ("database=d", "invalid connection option \"database\"", "Did you mean \"dbname\"?"),
        ("ssl_mode=require", "invalid connection option \"ssl_mode\"", "Did you mean \"sslmode\"?"),
        ("postgres://db/d?sslmod=require", "invalid connection option \"sslmod\"", "Did you mean \"sslmode\"?"),
        ("password=a b=c", "invalid connection option", blanks),
        ("postgres://db/d?password=a&b=c", "invalid connection option", blanks),
        ("host=db port", "missing \"=\" in connection string, after \"host\"", blanks),
        ("password=my secret", "missing \"=\" in connection string, after \"password\"", blanks),
        ("host=db =x", "missing keyword before \"=\" in connection string, after \"host\"", blanks),
        ("host=db password='x", "unterminated quoted string in connection string, after \"host\"", blanks),
        ("host=db password='x\\", "unterminated quoted string in connection string, after \"host\"", blanks),
        ("host=db port=http", "invalid value for connection option \"port\"", "It takes numbers from 1 to 65535."),
        ("host=db port=0", "invalid value for connection option \"port\"", "It takes numbers from 1 to 65535."),
        ("host=db port=65536", "invalid value for connection option \"port\"", "It takes numbers from 1 to 65535."),
        (
            "host=a,b port=1,2,3",
            "could not match 3 values of \"port\" to 2 hosts",
            "Give one value for each host, or a single port for all.",
        ),
        (
            "host=a,b hostaddr=::1",
            "could not match 1 values of \"hostaddr\" to 2 hosts",
            "Give one value for each host, or a single port for all.",
        ),
        ("hostaddr=db", "invalid value for connection option \"hostaddr\"", "It takes IPv4 and IPv6 addresses."),
        (
            "host=db sslmode=on",
            "invalid value for connection option \"sslmode\"",
            "It takes disable, allow, prefer, require, verify-ca or verify-full.",
        ),
        (
            "host=db connect_timeout=soon",
            "invalid value for connection option \"connect_timeout\"",
            "It takes a number.",
        ),
        (
            "host=db gssencmode=require",
            "connection option \"gssencmode\" is not supported with this value",
            "This client has no GSSAPI; use a password or a client certificate.",
        ),
        (
            "host=db krbsrvname=x",
            "connection option \"krbsrvname\" is not supported",
            "This client has no GSSAPI; use a password or a client certificate.",
        ),
        (
            "host=db require_auth=none",
            "connection option \"require_auth\" is not supported",
            "channel_binding=require admits SCRAM with channel binding only.",
        ),
        (
            "host=db client_encoding=LATIN1",
            "connection option \"client_encoding\" is not supported with this value",
            "Texts are always UTF8.",
        ),
        (
            "host=db sslrootcert=system sslmode=require",
            "connection options \"sslmode\" and \"sslrootcert\" do not go together",
            "A weaker mode than verify-full does not go with sslrootcert=system.",
        ),
        (
            "postgres://u:pa/ss@db/d",
            "invalid connection URI: \"@\" where it does not end the user and the password",
            encode,
        ),
        (
            "postgres://u:1/ss@db/d",
            "invalid connection URI: \"@\" where it does not end the user and the password",
            encode,
        ),
        (
            "postgres://u:p@ss@db/d",
            "invalid connection URI: \"@\" where it does not end the user and the password",
            encode,
        ),
        (
            "postgres://u:p/w?x=y@db/d",
            "invalid connection URI: \"@\" where it does not end the user and the password",
            encode,
        ),
        ("postgres://[::1/d", "invalid connection URI: an IPv6 address without its closing \"]\"", encode),
        ("postgres://[]/d", "invalid connection URI: an empty IPv6 address", encode),
        ("postgres://[::1]x/d", "invalid connection URI: an unexpected character after an IPv6 address", encode),
        ("postgres://db/d?x", "invalid connection URI: a parameter without \"=\"", encode),
        ("postgres://db/d?host=a=b", "invalid connection URI: a second \"=\" in a parameter", encode),
        ("postgres://u:%zz@db", "invalid connection URI: an invalid percent-encoded character", encode),
        ("postgres://u:%4@db", "invalid connection URI: an invalid percent-encoded character", encode),
        ("postgres://u:%00@db", "invalid connection URI: the forbidden value %00", encode),
        ("postgres://u:%ff@db", "invalid connection URI: percent-encoded characters that are not UTF-8", encode),
        ("service=none", "definition of the service was not found", "There is no service file."),
    ];
    for (text, message, more) in table {
        let error = refused(text);
        assert_eq!(error.to_string(), message, "{text}");
        assert!([error.detail(), error.hint()].into_iter().flatten().any(|m| m == more), "{text}: {error:?}");
    }
}

/// Wherever a password stands, well written or not, no error and no printed form shows a piece of it.
#[test]
fn no_password_is_shown() {
    let canary = "canary";
    let texts = [
        "password=canary",
        "password='canary",
        "password=x canary",
        "password=x canary=y",
        "password=x canary host=y",
        "password 'canary'",
        "passwort=canary",
        "passwd=canary hots=x",
        "sslpassword=canary",
        "host=db oauth_client_secret=canary",
        "host=db password=canary port=canary",
        "host=db sslmode=canary target_session_attrs=x",
        "host=db hostaddr=canary",
        "host=db keepalives=canary",
        "host=db replication=canary",
        "host=db service=canary",
        "postgres://u:canary@db/d",
        "postgres://u:canary@db/d?port=canary",
        "postgres://u:x/canary@db/d",
        "postgres://u:x@canary@db/d",
        "postgres://u:1/canary@db/d",
        "postgres://u:canary/x@db/d",
        "postgres://u:x?canary@db/d",
        "postgres://u:x/?canary@db/d",
        "postgres://u:x/?canary=y@db/d",
        "postgres://u:canary%zz@db/d",
        "postgres://db/d?password=canary&sslmode=x",
        "postgres://db/d?password=x&canary",
        "postgres://db/d?password=x&canary=y",
        "postgres://db/d?password=x=canary",
        "postgres://u:canary#@db/d",
    ];
    for text in texts {
        let shown = match Dsn::parse_with(text, &Surroundings::default().set("PGPASSWORD", canary)) {
            Ok(dsn) => format!("{dsn:?} {}", dsn.location()),
            Err(error) => format!("{error} {error:?} {:?} {:?}", error.detail(), error.hint()),
        };
        assert!(!shown.contains(canary), "{text}: {shown}");
    }
    let home = tempfile::tempdir().unwrap();
    write(&home.path().join(".pg_service.conf"), "[s]\nhost=db\npassword=canary\ncanary\n", 0o600);
    let error = Dsn::parse_with("service=s", &Surroundings::default().at_home(home.path())).unwrap_err();
    assert!(!format!("{error} {error:?}").contains(canary));
    let dsn = Dsn::parse_with("host=db", &Surroundings::default().set("PGPORT", canary)).unwrap_err();
    assert!(!format!("{dsn} {dsn:?}").contains(canary));
}

#[test]
fn tls_mode_follows_the_host_unless_given() {
    let mode = |text: &str| {
        let dsn = parse(text);
        dsn.mode_for(&dsn.targets[0])
    };
    assert_eq!(mode("host=db.example"), SslMode::VerifyFull);
    assert_eq!(mode("host=10.0.0.1"), SslMode::VerifyFull);
    assert_eq!(mode("host=localhost hostaddr=10.0.0.1"), SslMode::VerifyFull);
    assert_eq!(mode("host=localhost"), SslMode::Prefer);
    assert_eq!(mode("host=127.0.0.9"), SslMode::Prefer);
    assert_eq!(mode("host=::1"), SslMode::Prefer);
    assert_eq!(mode("host=db hostaddr=127.0.0.1"), SslMode::Prefer);
    assert_eq!(mode("host=/tmp"), SslMode::Disable);
    assert_eq!(mode("host=/tmp sslmode=verify-full"), SslMode::Disable);
    assert_eq!(mode("host=localhost sslrootcert=system"), SslMode::VerifyFull);
    assert_eq!(mode("host=db sslmode=disable"), SslMode::Disable);
    assert_eq!(mode("postgres://db/d?ssl=true"), SslMode::Require);
}

#[test]
fn numbers_and_words() {
    let dsn = parse(
        "host=a,b keepalives=0 keepalives_idle=3 connect_timeout=2 tcp_user_timeout=1500 load_balance_hosts=random",
    );
    assert!(!dsn.keepalives.on && dsn.shuffle_hosts);
    assert_eq!(dsn.keepalives.idle, Duration::from_secs(3));
    assert_eq!(dsn.keepalives.user_timeout, Duration::from_millis(1500));
    assert_eq!(dsn.connect_timeout, Some(Duration::from_secs(2)));
    assert_eq!(parse("host=a connect_timeout=0").connect_timeout, None);
    assert_eq!(parse("host=a connect_timeout=-1").connect_timeout, None);
    assert_eq!(parse("host=a").connect_timeout, Some(Duration::from_secs(5)));
    assert_eq!(parse("host=a").target_session, TargetSession::ReadWrite);
    assert_eq!(parse("host=a target_session_attrs=prefer-standby").target_session, TargetSession::PreferStandby);
    assert_eq!(parse("host=a channel_binding=require").channel_binding, ChannelBinding::Require);
    assert_eq!(parse("host=a").for_node("n1").application(), "dataglot n1");
    assert_eq!(parse("host=a application_name=x").for_node("n1").application(), "x");
    assert_eq!(parse("host=a fallback_application_name=x").application(), "x");
}

/// The text, then the service, then the environment.
#[test]
fn precedence() {
    let home = tempfile::tempdir().unwrap();
    let service =
        "# comment\n\n[other]\nhost=no\n[mine]\nhost=service\ndbname=service\nport=1\nhost=later\n[mine]\nuser=no\n";
    write(&home.path().join(".pg_service.conf"), service, 0o644);
    let around = Surroundings::default()
        .at_home(home.path())
        .set("PGHOST", "env")
        .set("PGDATABASE", "env")
        .set("PGUSER", "env")
        .set("PGPORT", "2");
    let location = |text: &str, around: &Surroundings| Dsn::parse_with(text, around).unwrap().location();
    assert_eq!(location("", &around), "host=env port=2 dbname=env user=env");
    assert_eq!(location("service=mine dbname=text", &around), "host=service port=1 dbname=text user=env");
    assert_eq!(location("postgres:///?service=mine", &around), "host=service port=1 dbname=service user=env");
    let around = around.set("PGSERVICE", "mine");
    assert_eq!(location("host=text", &around), "host=text port=1 dbname=service user=env");
    // An empty value in the text asks for the default, not for the environment's.
    assert_eq!(location("host=text user='' service=''", &around), "host=text port=2 dbname=env user=account");
}

#[test]
fn service_files() {
    let (home, system) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let named = home.path().join("named");
    write(&named, "[a]\nhost=named\r\npassword= blank \n[b]\nnonsense\n[c]\nhots=x\n[d]\nservice=a\n", 0o600);
    write(&home.path().join(".pg_service.conf"), "[a]\nhost=home\n[h]\nhost=home\n", 0o600);
    write(&system.path().join("pg_service.conf"), "[a]\nhost=system\n[s]\nhost=system\n", 0o600);
    let around = Surroundings::default().at_home(home.path()).set("PGSYSCONFDIR", system.path());
    let host =
        |text: &str, around: &Surroundings| Dsn::parse_with(text, around).map(|d| d.targets[0].place.to_string());
    assert_eq!(host("service=a", &around), Ok("home".into()));
    assert_eq!(host("service=h", &around), Ok("home".into()));
    assert_eq!(host("service=s", &around), Ok("system".into()));
    let text = format!("service=h servicefile={}", named.display());
    assert!(matches!(host(&text, &around), Err(DsnError::NoService { files }) if files.len() == 2));

    let around = around.set("PGSERVICEFILE", &named);
    assert_eq!(host("service=a", &around), Ok("named".into()));
    let dsn = Dsn::parse_with("service=a", &around).unwrap();
    assert_eq!(password(&dsn).as_deref(), Some(" blank"), "the end of a line is trimmed, as in libpq");
    assert_eq!(host("service=b", &around), Err(DsnError::ServiceLine { path: named.clone(), line: 5 }));
    let error = Dsn::parse_with("service=c", &around).unwrap_err();
    assert_eq!(error.to_string(), "invalid connection option \"hots\"");
    assert_eq!(error.detail(), Some(format!("It was read from service file \"{}\", line 7.", named.display())));
    assert!(matches!(host("service=d", &around), Err(DsnError::Unsupported { keyword: "service", .. })));
    let around = around.set("PGSERVICEFILE", "/nowhere");
    assert!(matches!(host("service=a", &around), Err(DsnError::Unreadable { kind: "service file", .. })));
}

#[test]
fn password_file_lines() {
    let text = "# comment:*:*:*:no\nshort\n\
        db:5432:d:u:plain\n\
        db:*:d:colon\\:back\\\\slash:p\\:q\\\\r\n\
        ::1:5432:d:u:never\n\
        \\:\\:1:5432:d:u:six\n\
        *:7:*:*:any: rest\n\
        *:8:*:*:\n\
        *:8:*:*:blank \r\n";
    let find = |host: &str, port: &str, dbname: &str, user: &str| {
        passfile::find(text, &[host, port, dbname, user]).map(|p| p.open().to_owned())
    };
    assert_eq!(find("db", "5432", "d", "u").as_deref(), Some("plain"));
    assert_eq!(find("db", "1", "d", r"colon:back\slash").as_deref(), Some(r"p:q\r"));
    assert_eq!(find("::1", "5432", "d", "u").as_deref(), Some("six"));
    assert_eq!(find("x", "7", "y", "z").as_deref(), Some("any"));
    assert_eq!(find("x", "8", "y", "z"), None, "the first line that matches decides");
    assert_eq!(find("x", "9", "y", "z"), None);
    assert_eq!(find("db", "5432", "d", "other"), None);
}

#[test]
fn password_files() {
    let home = tempfile::tempdir().unwrap();
    let line = "a:5432:d:u:first\nb:5432:d:u:second\n10.0.0.1:5432:d:u:third\nlocalhost:5432:d:u:fourth\n";
    let file = home.path().join(".pgpass");
    write(&file, line, 0o600);
    let around = Surroundings::default().at_home(home.path());
    let dsn = Dsn::parse_with("host=a,b,,/else hostaddr=,,10.0.0.1, dbname=d user=u", &around).unwrap();
    let found: Vec<_> = dsn.targets.iter().map(|t| dsn.password_for(t).map(|p| p.open().to_owned())).collect();
    assert_eq!(found, [Some("first".into()), Some("second".into()), Some("third".into()), None]);
    let dsn = Dsn::parse_with("host=/var/run/postgresql dbname=d user=u", &around).unwrap();
    assert_eq!(password(&dsn).as_deref(), Some("fourth"));

    // A changed file is read again; one that others may read is not used.
    let dsn = Dsn::parse_with("host=a dbname=d user=u", &around).unwrap();
    write(&file, "a:*:*:*:changed\n", 0o600);
    assert_eq!(password(&dsn).as_deref(), Some("changed"));
    for mode in [0o640, 0o604, 0o620] {
        write(&file, "a:*:*:*:open\n", mode);
        assert_eq!(password(&dsn), None, "{mode:o}");
    }

    let named = home.path().join("named");
    write(&named, "a:*:*:*:named\n", 0o600);
    let around = around.set("PGPASSFILE", &named);
    assert_eq!(password(&Dsn::parse_with("host=a", &around).unwrap()).as_deref(), Some("named"));
    let text = format!("host=a passfile={}", file.display());
    assert_eq!(password(&Dsn::parse_with(&text, &around).unwrap()), None, "the named file, which is open to others");
    assert_eq!(password(&Dsn::parse_with("host=a password=given", &around).unwrap()).as_deref(), Some("given"));
    let around = around.set("PGPASSWORD", "env");
    assert_eq!(password(&Dsn::parse_with("host=a", &around).unwrap()).as_deref(), Some("env"));
}
