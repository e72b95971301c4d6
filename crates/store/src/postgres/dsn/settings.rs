//! From texts to settings: what each value means, and which do not go together.

use std::path::PathBuf;
use std::time::Duration;

use dataglot_model::Sensitive;

use super::environment::Environment;
use super::error::DsnError;
use super::keyword::Given;
use super::{Dsn, targets};

/// How long one address may take to answer where `connect_timeout` is not given.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// How far a connection is protected. libpq's words and meanings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum SslMode {
    /// No TLS.
    Disable,
    /// TLS only if the server demands it.
    Allow,
    /// TLS if the server has it.
    Prefer,
    /// TLS; the certificate is checked if there is a file of root certificates.
    Require,
    /// TLS, with a certificate that a trusted authority has issued.
    VerifyCa,
    /// TLS, with such a certificate for the name of the host.
    VerifyFull,
}

/// Which authorities are trusted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Roots {
    /// Those of the operating system (`sslrootcert=system`).
    System,
    /// Those in a file that was named.
    File(PathBuf),
    /// Those in `~/.postgresql/root.crt`. Where it is missing, those of the operating system if the mode
    /// demands a check.
    Home(Option<PathBuf>),
}

/// The certificate that the client shows, and its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ClientCertificate {
    pub(crate) certificate: PathBuf,
    pub(crate) key: PathBuf,
    /// Whether it was named; a missing file is an error then.
    pub(crate) named: bool,
}

/// All about TLS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Tls {
    /// As given; `None`: what suits the host.
    pub(crate) mode: Option<SslMode>,
    pub(crate) roots: Roots,
    pub(crate) revoked: Option<PathBuf>,
    pub(crate) client: Option<ClientCertificate>,
    pub(crate) server_name: bool,
}

/// Whether the login is bound to the TLS channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ChannelBinding {
    Disable,
    Prefer,
    Require,
}

/// When a dead peer is noticed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Keepalives {
    pub(crate) on: bool,
    pub(crate) idle: Duration,
    pub(crate) interval: Duration,
    pub(crate) count: u32,
    pub(crate) user_timeout: Duration,
}

/// What kind of session a server has to give.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TargetSession {
    Any,
    ReadWrite,
    ReadOnly,
    Primary,
    Standby,
    PreferStandby,
}

/// Reads all values.
pub(super) fn build(given: &Given, environment: &dyn Environment) -> Result<Dsn, DsnError> {
    let owned = |name| given.get(name).map(str::to_owned);
    let home = environment.home();
    let user = owned("user").or_else(|| environment.user()).ok_or(DsnError::NoUser)?;
    Ok(Dsn {
        targets: targets::read(given)?,
        dbname: owned("dbname").unwrap_or_else(|| user.clone()),
        user,
        password: given.get("password").map(|p| Sensitive::new(p.to_owned())),
        passfile: given.get("passfile").map(PathBuf::from).or(home.as_ref().map(|home| home.join(".pgpass"))),
        application_name: owned("application_name").or_else(|| owned("fallback_application_name")),
        node: None,
        options: owned("options"),
        tls: tls(given, home)?,
        channel_binding: word(
            given,
            "channel_binding",
            "disable, prefer or require",
            &[
                ("disable", ChannelBinding::Disable),
                ("prefer", ChannelBinding::Prefer),
                ("require", ChannelBinding::Require),
            ],
        )?
        .unwrap_or(ChannelBinding::Prefer),
        connect_timeout: match number::<i32>(given, "connect_timeout")? {
            None => Some(CONNECT_TIMEOUT),
            Some(seconds) => u64::try_from(seconds).ok().filter(|s| *s > 0).map(Duration::from_secs),
        },
        keepalives: keepalives(given)?,
        target_session: word(
            given,
            "target_session_attrs",
            "any, read-write, read-only, primary, standby or prefer-standby",
            &[
                ("any", TargetSession::Any),
                ("read-write", TargetSession::ReadWrite),
                ("read-only", TargetSession::ReadOnly),
                ("primary", TargetSession::Primary),
                ("standby", TargetSession::Standby),
                ("prefer-standby", TargetSession::PreferStandby),
            ],
        )?
        // A store is written: libpq's "any" would take whichever server answers first.
        .unwrap_or(TargetSession::ReadWrite),
        shuffle_hosts: word(given, "load_balance_hosts", "disable or random", &[("disable", false), ("random", true)])?
            .unwrap_or(false),
    })
}

fn tls(given: &Given, home: Option<PathBuf>) -> Result<Tls, DsnError> {
    let own = |file: &str| home.as_ref().map(|home| home.join(".postgresql").join(file));
    let mode = word(
        given,
        "sslmode",
        "disable, allow, prefer, require, verify-ca or verify-full",
        &[
            ("disable", SslMode::Disable),
            ("allow", SslMode::Allow),
            ("prefer", SslMode::Prefer),
            ("require", SslMode::Require),
            ("verify-ca", SslMode::VerifyCa),
            ("verify-full", SslMode::VerifyFull),
        ],
    )?;
    let roots = match given.get("sslrootcert") {
        Some("system") => Roots::System,
        Some(file) => Roots::File(file.into()),
        None => Roots::Home(own("root.crt")),
    };
    // Anyone can have a certificate from one of the system's authorities: only its name tells.
    let mode = match (&roots, mode) {
        (Roots::System, None) => Some(SslMode::VerifyFull),
        (Roots::System, Some(mode)) if mode != SslMode::VerifyFull => {
            return Err(DsnError::Conflict {
                first: "sslmode",
                second: "sslrootcert",
                detail: "A weaker mode than verify-full does not go with sslrootcert=system.",
            });
        }
        (_, mode) => mode,
    };
    let client = match (given.get("sslcert"), given.get("sslkey"), given.get("sslcertmode")) {
        (_, _, Some("disable")) => None,
        (None, None, _) => own("postgresql.crt")
            .zip(own("postgresql.key"))
            .map(|(certificate, key)| ClientCertificate { certificate, key, named: false }),
        (certificate, key, _) => certificate
            .map(PathBuf::from)
            .or_else(|| own("postgresql.crt"))
            .zip(key.map(PathBuf::from).or_else(|| own("postgresql.key")))
            .map(|(certificate, key)| ClientCertificate { certificate, key, named: true }),
    };
    let revoked = given.get("sslcrl").map(PathBuf::from).or_else(|| own("root.crl").filter(|file| file.exists()));
    Ok(Tls { mode, roots, revoked, client, server_name: flag(given, "sslsni")?.unwrap_or(true) })
}

/// A peer that does not answer is noticed within half a minute: the operating system's two hours are no
/// time in which writes may hang.
fn keepalives(given: &Given) -> Result<Keepalives, DsnError> {
    let seconds = |name, default| -> Result<Duration, DsnError> {
        let given = number::<u32>(given, name)?.filter(|n| *n > 0);
        Ok(Duration::from_secs(given.unwrap_or(default).into()))
    };
    Ok(Keepalives {
        on: flag(given, "keepalives")?.unwrap_or(true),
        idle: seconds("keepalives_idle", 10)?,
        interval: seconds("keepalives_interval", 5)?,
        count: number::<u32>(given, "keepalives_count")?.filter(|n| *n > 0).unwrap_or(3),
        user_timeout: number::<u32>(given, "tcp_user_timeout")?
            .filter(|n| *n > 0)
            .map_or(Duration::from_secs(25), |n| Duration::from_millis(n.into())),
    })
}

fn word<T: Copy>(
    given: &Given,
    name: &'static str,
    expected: &'static str,
    words: &[(&str, T)],
) -> Result<Option<T>, DsnError> {
    match given.get(name) {
        None => Ok(None),
        Some(text) => match words.iter().find(|(word, _)| *word == text) {
            Some((_, meaning)) => Ok(Some(*meaning)),
            None => Err(given.invalid(name, expected)),
        },
    }
}

fn number<T: std::str::FromStr>(given: &Given, name: &'static str) -> Result<Option<T>, DsnError> {
    let text = given.get(name).map(str::trim_ascii);
    text.map(|text| text.parse().map_err(|_| given.invalid(name, "a number"))).transpose()
}

fn flag(given: &Given, name: &'static str) -> Result<Option<bool>, DsnError> {
    Ok(number::<i32>(given, name)?.map(|n| n != 0))
}
