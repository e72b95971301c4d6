//! What the text of each setting may be.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use dataglot_model::{Name, Sensitive};
use dataglot_store::{Dsn, DsnError};

use super::error::ConfigError;
use super::setting::Setting;
use super::source::{Origin, Raw};
use crate::auth::{Hba, Method};
use crate::keycommand::KeyCommand;

pub(super) const LISTEN_DEFAULT: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 7432);
pub(super) const SHUTDOWN_DEFAULT: Duration = Duration::from_secs(10);
pub(super) const RESERVED_DEFAULT: u32 = 3;
pub(super) const ADMIN_DEFAULT: &str = "admin";
pub(super) const TLS_POLL_DEFAULT: Duration = Duration::from_secs(10);
pub(super) const POLL_DEFAULT: Duration = Duration::from_secs(1);
/// Longest name of a node, in bytes. PostgreSQL cuts an application_name at 63, and it is a part of one.
const NODE_BYTES_MAX: usize = 48;
/// A day: longer time-outs are slips.
const DURATION_MAX_MS: u64 = 24 * 60 * 60 * 1000;

/// Why a text is refused: what is wanted in its place. Never what was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    /// A description of what the setting takes.
    Form(String),
    /// It is understood, and not there yet.
    Later(&'static str),
    /// A connection string that works. The error shows no value.
    Connection(Box<DsnError>),
}

impl From<&str> for Wanted {
    fn from(form: &str) -> Self {
        Wanted::Form(form.to_owned())
    }
}

/// Where the state is kept.
#[derive(Clone, Debug)]
pub enum StoreLocation {
    /// A file of the embedded store.
    Path(PathBuf),
    /// A PostgreSQL database, shared with other coordinators.
    Dsn(Box<Dsn>),
}

impl StoreLocation {
    /// The store that the flag `flag` of a command names.
    ///
    /// # Errors
    /// [`ConfigError`] says what is wrong with it. It shows no value.
    pub fn of_flag(flag: &str, text: &str) -> Result<Self, ConfigError> {
        let origin = Origin::Flag(flag.to_owned());
        let raw = Raw { text: Sensitive::new(text.to_owned()), origin, at: None };
        store(raw.text.open()).map_err(|wanted| raw.refuse(Setting::Store, wanted))
    }

    /// Whether the text that names a store holds a password itself, rather than to say where one is. It errs
    /// towards yes.
    pub fn holds_password(text: &str) -> bool {
        let Some(connection) = text.strip_prefix("dsn=") else { return false };
        let named = connection
            .match_indices("password")
            .any(|(at, word)| connection.get(at + word.len()..).is_some_and(|rest| rest.trim_start().starts_with('=')));
        let in_uri = connection.split_once("://").is_some_and(|(_, rest)| {
            let authority = rest.split(['/', '?']).next().unwrap_or_default();
            authority.rsplit_once('@').is_some_and(|(user, _)| user.contains(':'))
        });
        named || in_uri
    }
}

/// Without any credential.
impl fmt::Display for StoreLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StoreLocation::Path(path) => write!(f, "path={}", path.display()),
            StoreLocation::Dsn(dsn) => write!(f, "dsn={}", dsn.location()),
        }
    }
}

/// Whether connections are encrypted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tls {
    /// They can't be.
    Off,
    /// If the client asks.
    Allow,
    /// Always.
    Require,
}

impl Tls {
    /// As in the file.
    pub const fn as_str(self) -> &'static str {
        match self {
            Tls::Off => "off",
            Tls::Allow => "allow",
            Tls::Require => "require",
        }
    }
}

/// The form of log lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

impl LogFormat {
    /// As in the file.
    pub const fn as_str(self) -> &'static str {
        match self {
            LogFormat::Text => "text",
            LogFormat::Json => "json",
        }
    }
}

pub(super) fn store(text: &str) -> Result<StoreLocation, Wanted> {
    match text.split_once('=') {
        Some(("path", path)) if !path.is_empty() => Ok(StoreLocation::Path(PathBuf::from(path))),
        Some(("dsn", text)) => match Dsn::parse(text) {
            Ok(dsn) => Ok(StoreLocation::Dsn(Box::new(dsn))),
            Err(error) => Err(Wanted::Connection(Box::new(error))),
        },
        Some(("root", _)) => Err(Wanted::Later("a store of encrypted shards (root=…)")),
        Some(_) | None => Err("path=FILE or dsn=CONNINFO".into()),
    }
}

pub(super) fn listen(text: &str) -> Result<SocketAddr, Wanted> {
    let numeric = match text.strip_prefix("localhost:") {
        Some(port) => format!("127.0.0.1:{port}"),
        None => text.to_owned(),
    };
    numeric.parse().map_err(|_| "an address and a port, as in 127.0.0.1:7432 or [::1]:7432".into())
}

/// `off`: nowhere.
pub(super) fn http(text: &str) -> Result<Option<SocketAddr>, Wanted> {
    if text == "off" {
        return Ok(None);
    }
    match listen(text) {
        Ok(address) => Ok(Some(address)),
        Err(_) => Err("off, or an address and a port, as in 127.0.0.1:9432 or [::1]:9432".into()),
    }
}

/// One method for everybody.
pub(super) fn auth(text: &str) -> Result<Hba, Wanted> {
    Method::named(text).map(Hba::one).ok_or_else(|| Wanted::Form(methods()))
}

/// What a method may be.
pub(super) fn methods() -> String {
    Method::ALL.map(Method::as_str).join(", ")
}

pub(super) fn tls(text: &str) -> Result<Tls, Wanted> {
    match text {
        "off" => Ok(Tls::Off),
        "allow" => Ok(Tls::Allow),
        "require" => Ok(Tls::Require),
        _ => Err("off, allow or require".into()),
    }
}

pub(super) fn boolean(text: &str) -> Result<bool, Wanted> {
    match text {
        "true" | "on" | "yes" | "1" => Ok(true),
        "false" | "off" | "no" | "0" => Ok(false),
        _ => Err("true or false".into()),
    }
}

pub(super) fn boolean_text(value: bool) -> String {
    value.to_string()
}

pub(super) fn name(text: &str) -> Result<Name, Wanted> {
    Name::new(text).map_err(|_| "the name of a role: at most 63 bytes, in Unicode NFC, no control characters".into())
}

/// The name of a coordinator among others. It is shown in logs, metrics and PostgreSQL's views.
pub(super) fn node(text: &str) -> Result<String, Wanted> {
    let fits = (1..=NODE_BYTES_MAX).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_graphic());
    fits.then(|| text.to_owned())
        .ok_or_else(|| Wanted::Form(format!("1 to {NODE_BYTES_MAX} printable ASCII characters without blanks")))
}

/// The host's name, as far as it can be a node's.
pub(super) fn node_default() -> String {
    let host = rustix::system::uname();
    let host = host.nodename().to_string_lossy();
    let host: String = host.chars().filter(char::is_ascii_graphic).take(NODE_BYTES_MAX).collect();
    if host.is_empty() { "node".to_owned() } else { host }
}

pub(super) fn path(text: &str) -> Result<PathBuf, Wanted> {
    if text.is_empty() { Err("a path".into()) } else { Ok(PathBuf::from(text)) }
}

/// A program and its arguments, as a list in JSON: what the file has as a list of its own.
pub(super) fn command(text: &str) -> Result<KeyCommand, Wanted> {
    serde_json::from_str(text)
        .ok()
        .and_then(KeyCommand::new)
        .ok_or_else(|| "a list of a program and its arguments, as in [\"pass\", \"show\", \"dataglot\"]".into())
}

pub(super) fn text(text: &str) -> Result<String, Wanted> {
    Ok(text.to_owned())
}

pub(super) fn log_format(text: &str) -> Result<LogFormat, Wanted> {
    match text {
        "text" => Ok(LogFormat::Text),
        "json" => Ok(LogFormat::Json),
        _ => Err("text or json".into()),
    }
}

/// A whole number within bounds.
pub(super) fn number<T>(text: &str, least: u64, most: u64) -> Result<T, Wanted>
where
    T: TryFrom<u64>,
{
    let wanted = || Wanted::Form(format!("a whole number from {least} to {most}"));
    let value = whole(text).filter(|n| (least..=most).contains(n)).ok_or_else(wanted)?;
    T::try_from(value).map_err(|_| wanted())
}

/// Digits and nothing else: no sign, no blanks.
fn whole(text: &str) -> Option<u64> {
    if text.bytes().all(|b| b.is_ascii_digit()) { text.parse().ok() } else { None }
}

/// Splits `10s` into 10 and `s`.
fn with_unit(text: &str) -> Option<(u64, &str)> {
    let text = text.trim();
    let end = text.bytes().take_while(u8::is_ascii_digit).count();
    let (digits, unit) = text.split_at_checked(end)?;
    Some((whole(digits).filter(|_| !digits.is_empty())?, unit.trim()))
}

/// A length of time as PostgreSQL writes it: `0` is off, a bare number is milliseconds.
pub(super) fn duration(text: &str) -> Result<Option<Duration>, Wanted> {
    let parse = || {
        let (count, unit) = with_unit(text)?;
        let factor = match unit {
            "" | "ms" => 1,
            "s" => 1000,
            "min" => 60 * 1000,
            "h" => 60 * 60 * 1000,
            _ => return None,
        };
        count.checked_mul(factor).filter(|ms| *ms <= DURATION_MAX_MS)
    };
    let ms = parse().ok_or("a length of time up to a day: milliseconds, or a number with ms, s, min or h; 0 is off")?;
    Ok((ms > 0).then(|| Duration::from_millis(ms)))
}

/// A length of time that cannot be off.
pub(super) fn interval(text: &str, least: Duration) -> Result<Duration, Wanted> {
    let wanted = || {
        let least = duration_text(Some(least));
        Wanted::Form(format!("a length of time from {least} to a day: milliseconds, or a number with ms, s, min or h"))
    };
    duration(text).ok().flatten().filter(|found| *found >= least).ok_or_else(wanted)
}

pub(super) fn duration_text(value: Option<Duration>) -> String {
    match value.map(|d| d.as_millis()) {
        None | Some(0) => "0".to_owned(),
        Some(ms) if ms % 60_000 == 0 => format!("{}min", ms / 60_000),
        Some(ms) if ms % 1000 == 0 => format!("{}s", ms / 1000),
        Some(ms) => format!("{ms}ms"),
    }
}

/// A number of bytes as PostgreSQL writes it: units are powers of 1024.
pub(super) fn bytes(text: &str, least: usize, most: usize) -> Result<usize, Wanted> {
    let parse = || {
        let (count, unit) = with_unit(text)?;
        let factor = match unit {
            "" | "B" => 1,
            "kB" => 1 << 10,
            "MB" => 1 << 20,
            "GB" => 1 << 30,
            _ => return None,
        };
        usize::try_from(count.checked_mul(factor)?).ok().filter(|n| (least..=most).contains(n))
    };
    let wanted = || {
        let (least, most) = (bytes_text(least), bytes_text(most));
        Wanted::Form(format!("a number of bytes from {least} to {most}, or a number with kB, MB or GB"))
    };
    parse().ok_or_else(wanted)
}

pub(super) fn bytes_text(value: usize) -> String {
    let units = [(1 << 30, "GB"), (1 << 20, "MB"), (1 << 10, "kB")];
    match units.into_iter().find(|(factor, _)| value >= *factor && value.is_multiple_of(*factor)) {
        Some((factor, unit)) => format!("{}{unit}", value / factor),
        None => value.to_string(),
    }
}
