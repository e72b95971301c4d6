//! Every setting that there is: its name as it is shown, its default, and what values it takes.

use dataglot_model::SqlState;

use super::search_path;
use crate::error::SessionError;

/// The PostgreSQL release whose manners we have, and our own: drivers read the first part.
const VERSION: &str = concat!("16.4 (dataglot ", env!("CARGO_PKG_VERSION"), ")");
/// The same as a number.
const VERSION_NUM: &str = "160004";
/// The setting that tells which version of its org a session has seen.
pub(crate) const VERSION_TOKEN: &str = "dataglot.version";
/// Prefix of our own settings' names. Nobody makes up another one under it.
const OWN_PREFIX: &str = "dataglot.";
/// Our own settings that can be named with the prefix or without.
const OWN: [&str; 5] = ["apply_id", "dry_run", "min_version", "read_freshness", "verbose_noop"];
/// Every transaction is serializable.
pub(crate) const ISOLATION_DEFAULT: &str = "serializable";

/// What `version()` answers.
pub(crate) fn version_text() -> String {
    format!("PostgreSQL {VERSION}")
}

/// One setting.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Definition {
    /// As it is shown.
    pub(crate) name: &'static str,
    /// What holds if nobody sets it.
    pub(crate) default: &'static str,
    /// Whether the client is told of changes.
    pub(crate) reported: bool,
    /// One line about it.
    pub(crate) about: &'static str,
    takes: Takes,
}

/// What values a setting takes.
#[derive(Clone, Copy, Debug)]
enum Takes {
    /// It says how things are; nothing sets it.
    Fixed,
    /// Any text without control characters.
    Text,
    Bool,
    /// A time in milliseconds, or with a unit.
    Milliseconds,
    /// A whole number in a range.
    Integer(i64, i64),
    /// One of these.
    OneOf(&'static [&'static str]),
    /// UTF-8, however it is spelled.
    Utf8,
    DateStyle,
    TimeZone,
    SearchPath,
}

const fn setting(
    name: &'static str,
    default: &'static str,
    takes: Takes,
    reported: bool,
    about: &'static str,
) -> Definition {
    Definition { name, default, reported, about, takes }
}

const LEVELS: &[&str] =
    &["debug5", "debug4", "debug3", "debug2", "debug1", "debug", "log", "notice", "warning", "error"];
const ISOLATIONS: &[&str] = &["serializable", "repeatable read", "read committed", "read uncommitted"];

/// In the order of their names, without regard to case.
static SETTINGS: &[Definition] = &[
    setting("application_name", "", Takes::Text, true, "Name of the application, for logs and history."),
    setting("apply_id", "", Takes::Text, false, "Mark that history keeps with each change."),
    setting("bytea_output", "hex", Takes::OneOf(&["hex", "escape"]), false, "Accepted, without effect."),
    setting("check_function_bodies", "on", Takes::Bool, false, "Accepted, without effect."),
    setting("client_encoding", "UTF8", Takes::Utf8, true, "Encoding of the client: UTF-8 only."),
    setting("client_min_messages", "notice", Takes::OneOf(LEVELS), false, "Least severity of messages that are sent."),
    setting(VERSION_TOKEN, "0", Takes::Fixed, false, "Version of the org that the session has seen."),
    setting("DateStyle", "ISO, MDY", Takes::DateStyle, true, "Accepted; times are printed in ISO form."),
    setting("default_transaction_deferrable", "off", Takes::Bool, false, "Accepted, without effect."),
    setting(
        "default_transaction_isolation",
        ISOLATION_DEFAULT,
        Takes::OneOf(ISOLATIONS),
        false,
        "Isolation of new transactions; every one is serializable.",
    ),
    setting("default_transaction_read_only", "off", Takes::Bool, true, "Whether new transactions are read-only."),
    setting("dry_run", "off", Takes::Bool, false, "Whether every COMMIT becomes ROLLBACK."),
    setting("extra_float_digits", "1", Takes::Integer(-15, 3), false, "Accepted, without effect."),
    setting(
        "idle_in_transaction_session_timeout",
        "0",
        Takes::Milliseconds,
        false,
        "How long a session may idle in a transaction.",
    ),
    setting(
        "idle_session_timeout",
        "0",
        Takes::Milliseconds,
        false,
        "How long a session may idle outside of a transaction.",
    ),
    setting("in_hot_standby", "off", Takes::Fixed, true, "Whether the server is a read-only replica."),
    setting("integer_datetimes", "on", Takes::Fixed, true, "Times are integers in binary form."),
    setting(
        "IntervalStyle",
        "postgres",
        Takes::OneOf(&["postgres", "postgres_verbose", "sql_standard", "iso_8601"]),
        true,
        "Accepted, without effect.",
    ),
    setting("is_superuser", "off", Takes::Fixed, true, "Whether the current user is a superuser."),
    setting("lc_collate", "C", Takes::Fixed, false, "Order of texts: by bytes."),
    setting("lc_ctype", "C", Takes::Fixed, false, "Classes of characters: ASCII."),
    setting("lock_timeout", "0", Takes::Milliseconds, false, "Accepted; nothing here waits for a lock."),
    setting("max_identifier_length", "63", Takes::Fixed, false, "Longest name, in bytes."),
    setting(
        "min_version",
        "0",
        Takes::Integer(0, i64::MAX),
        false,
        "Version of the org that statements wait for, if it is not here yet.",
    ),
    setting("org", "", Takes::Fixed, false, "The org of the session."),
    setting(
        "password_encryption",
        "scram-sha-256",
        Takes::OneOf(&["scram-sha-256", "argon2id"]),
        false,
        "Kind of a new password's verifier; argon2id is for logins by method password only.",
    ),
    setting(
        "read_freshness",
        "session",
        Takes::OneOf(&["strict", "session", "local"]),
        false,
        "How new what a statement reads has to be.",
    ),
    setting("role", "none", Takes::Fixed, false, "The role set by SET ROLE."),
    setting("row_security", "on", Takes::Bool, false, "Accepted, without effect."),
    setting("search_path", "public", Takes::SearchPath, true, "Where names without a schema live."),
    setting("server_encoding", "UTF8", Takes::Fixed, true, "Encoding of the store."),
    setting("server_version", VERSION, Takes::Fixed, true, "Version of the server."),
    setting("server_version_num", VERSION_NUM, Takes::Fixed, false, "Version of the server, as a number."),
    setting("session_authorization", "", Takes::Fixed, true, "The session user."),
    setting(
        "standard_conforming_strings",
        "on",
        Takes::OneOf(&["on"]),
        true,
        "Backslashes in plain strings are literal, always.",
    ),
    setting("statement_timeout", "0", Takes::Milliseconds, false, "How long a statement may take."),
    setting("synchronous_commit", "on", Takes::OneOf(&["on"]), false, "What is acknowledged is durable, always."),
    setting("TimeZone", "UTC", Takes::TimeZone, true, "Accepted; times are printed in UTC."),
    setting("transaction_deferrable", "off", Takes::Fixed, false, "Whether the transaction is deferrable."),
    setting("transaction_isolation", ISOLATION_DEFAULT, Takes::Fixed, false, "Isolation of the transaction."),
    setting("transaction_read_only", "off", Takes::Fixed, false, "Whether the transaction is read-only."),
    setting("verbose_noop", "off", Takes::Bool, false, "Whether a statement that changes nothing says so."),
    setting("xmloption", "content", Takes::OneOf(&["content", "document"]), false, "Accepted, without effect."),
];

/// The isolation level of that name.
pub(crate) fn isolation_named(name: &str) -> Option<&'static str> {
    ISOLATIONS.iter().copied().find(|i| *i == name)
}

/// All of them, in order.
pub(crate) fn all() -> &'static [Definition] {
    SETTINGS
}

/// The setting of that name, in any case; our own ones also by `dataglot.name`.
pub(crate) fn find(name: &str) -> Option<&'static Definition> {
    let name = match own_part(name) {
        Some(rest) if OWN.iter().any(|own| own.eq_ignore_ascii_case(rest)) => rest,
        Some(_) | None => name,
    };
    SETTINGS.iter().find(|s| s.name.eq_ignore_ascii_case(name))
}

/// What follows our own prefix, if `name` starts with it.
pub(super) fn own_part(name: &str) -> Option<&str> {
    let (prefix, rest) = name.split_at_checked(OWN_PREFIX.len())?;
    prefix.eq_ignore_ascii_case(OWN_PREFIX).then_some(rest)
}

impl Definition {
    /// Whether SET cannot set it.
    pub(crate) fn is_fixed(&self) -> bool {
        matches!(self.takes, Takes::Fixed)
    }

    /// Nothing sets it.
    pub(crate) fn cannot_change(&self) -> SessionError {
        SessionError::new(SqlState::CantChangeRuntimeParam, format!("parameter \"{}\" cannot be changed", self.name))
    }

    /// `value` in canonical form.
    ///
    /// # Errors
    /// 22023, 55P02. The value is in no text.
    pub(super) fn check(&self, value: &str) -> Result<String, SessionError> {
        let canonical = match self.takes {
            Takes::Fixed => return Err(self.cannot_change()),
            Takes::Text => (!value.contains(char::is_control)).then(|| value.to_owned()),
            Takes::Bool => parse_bool(value).map(|on| if on { "on" } else { "off" }.to_owned()),
            Takes::Milliseconds => parse_ms(value).map(format_ms),
            Takes::Integer(least, most) => {
                value.trim().parse::<i64>().ok().filter(|n| (least..=most).contains(n)).map(|n| n.to_string())
            }
            Takes::OneOf(words) => {
                let on = if words == ["on"] { parse_bool(value).filter(|on| *on).map(|_| "on") } else { None };
                on.or_else(|| words.iter().copied().find(|w| w.eq_ignore_ascii_case(value.trim()))).map(str::to_owned)
            }
            Takes::Utf8 => is_utf8(value).then(|| "UTF8".to_owned()),
            Takes::DateStyle => date_style(value),
            Takes::TimeZone => time_zone(value),
            Takes::SearchPath => search_path::is_valid(value).then(|| value.trim().to_owned()),
        };
        canonical.ok_or_else(|| {
            let error = SessionError::new(
                SqlState::InvalidParameterValue,
                format!("invalid value for parameter \"{}\"", self.name),
            );
            match self.hint() {
                Some(hint) => error.with_hint(hint),
                None => error,
            }
        })
    }

    fn hint(&self) -> Option<String> {
        Some(match self.takes {
            Takes::OneOf(words) => format!("Available values: {}.", words.join(", ")),
            Takes::Bool => "It takes a Boolean value.".to_owned(),
            Takes::Milliseconds => {
                "It takes milliseconds, or a number with a unit: \"ms\", \"s\", \"min\", \"h\" or \"d\".".to_owned()
            }
            Takes::Integer(least, most) => format!("It takes a whole number from {least} to {most}."),
            Takes::Utf8 => "The only encoding is UTF8.".to_owned(),
            Takes::SearchPath => "It takes schemas, each as \"schema\" or \"catalog.schema\".".to_owned(),
            Takes::TimeZone | Takes::DateStyle | Takes::Text | Takes::Fixed => return None,
        })
    }
}

/// A truth as PostgreSQL reads one: any unambiguous beginning of its words.
pub(crate) fn parse_bool(text: &str) -> Option<bool> {
    let text = text.trim().to_ascii_lowercase();
    let begins = |word: &str, least: usize| text.len() >= least && word.starts_with(text.as_str());
    if text == "1" || begins("true", 1) || begins("yes", 1) || begins("on", 2) {
        Some(true)
    } else if text == "0" || begins("false", 1) || begins("no", 1) || begins("off", 2) {
        Some(false)
    } else {
        None
    }
}

/// A time in milliseconds, at most what PostgreSQL's 32 bits hold.
pub(super) fn parse_ms(text: &str) -> Option<u64> {
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let factor = match unit.trim() {
        "" | "ms" => 1,
        "s" => 1_000,
        "min" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(factor).filter(|ms| *ms <= 2_147_483_647)
}

/// In the largest unit that divides it.
fn format_ms(ms: u64) -> String {
    if ms == 0 {
        return "0".to_owned();
    }
    let units = [(86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1_000, "s"), (1, "ms")];
    units
        .into_iter()
        .find(|(n, _)| ms.is_multiple_of(*n))
        .map_or_else(|| ms.to_string(), |(n, unit)| format!("{}{unit}", ms / n))
}

fn is_utf8(value: &str) -> bool {
    let letters: String = value.chars().filter(char::is_ascii_alphanumeric).collect();
    ["utf8", "unicode"].iter().any(|w| letters.eq_ignore_ascii_case(w))
}

/// `ISO`, an order of fields, or both; printed in full.
fn date_style(value: &str) -> Option<String> {
    let (mut style, mut order) = ("ISO", "MDY");
    for word in value.split(',').map(str::trim) {
        match word.to_ascii_lowercase().as_str() {
            "iso" | "default" => style = "ISO",
            "mdy" | "us" | "noneuro" | "noneuropean" => order = "MDY",
            "dmy" | "euro" | "european" => order = "DMY",
            "ymd" => order = "YMD",
            _ => return None,
        }
    }
    Some(format!("{style}, {order}"))
}

/// Anything that has the form of a zone's name or an offset; times are printed in UTC all the same.
fn time_zone(value: &str) -> Option<String> {
    let value = value.trim();
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '/' | '+' | '-' | ':');
    (!value.is_empty() && value.len() <= 64 && value.chars().all(is_part))
        .then(|| if value.eq_ignore_ascii_case("utc") { "UTC".to_owned() } else { value.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(name: &str, value: &str, want: Option<&str>) {
        assert_eq!(find(name).unwrap().check(value).ok().as_deref(), want);
    }

    #[test]
    fn in_order_of_names() {
        assert!(SETTINGS.is_sorted_by_key(|s| s.name.to_ascii_lowercase()));
    }

    #[test]
    fn defaults_are_canonical() {
        for definition in SETTINGS.iter().filter(|d| !d.is_fixed()) {
            assert_eq!(definition.check(definition.default).unwrap(), definition.default, "{}", definition.name);
        }
    }

    #[test]
    fn values() {
        check("dry_run", "TRUE", Some("on"));
        check("dry_run", "of", Some("off"));
        check("dry_run", "o", None);
        check("statement_timeout", "5000", Some("5s"));
        check("statement_timeout", "1500", Some("1500ms"));
        check("statement_timeout", "2 min", Some("2min"));
        check("statement_timeout", "-1", None);
        check("statement_timeout", "3000000000", None);
        check("client_encoding", "utf-8", Some("UTF8"));
        check("client_encoding", "'unicode'", Some("UTF8"));
        check("client_encoding", "LATIN1", None);
        check("datestyle", "dmy", Some("ISO, DMY"));
        check("datestyle", "German", None);
        check("timezone", "Europe/Berlin", Some("Europe/Berlin"));
        check("timezone", "utc", Some("UTC"));
        check("standard_conforming_strings", "true", Some("on"));
        check("standard_conforming_strings", "off", None);
        check("extra_float_digits", "3", Some("3"));
        check("extra_float_digits", "4", None);
        check("application_name", "a\nb", None);
    }
}
