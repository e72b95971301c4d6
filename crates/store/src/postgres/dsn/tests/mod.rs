//! Connection strings: what is read from where, and that no password is ever shown.

mod files;

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
