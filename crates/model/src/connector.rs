//! The connectors of the engine, and which options each takes.
//!
//! A schema is data: key, type, whether it is required, whether its value is a credential. A
//! credential is never a literal in a catalog; it is `SECRET name` or `ENV 'NAME'`.

use std::fmt;

/// What kind of source a catalog connects to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs, reason = "named as in SQL")]
pub enum Connector {
    Postgres,
    Mysql,
    Oracle,
    Snowflake,
    Warehouse,
    ObjectStorage,
    Odata,
    SapS4hana,
    Rest,
    Adbc,
    /// Needs no network: for tests and examples.
    Mock,
}

/// The type of an option's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OptionType {
    /// Any text.
    Text,
    /// A connection string: text that must not hold a password.
    Dsn,
    /// A whole number within the bounds, both included.
    Integer(i64, i64),
    /// A decimal number.
    Decimal,
    /// `true` or `false`.
    Boolean,
    /// JSON; a text that starts with `[` or `{` is read as JSON.
    Json,
    /// One of these words.
    OneOf(&'static [&'static str]),
    /// Text that is a credential: a reference only.
    Credential,
}

/// One option of a connector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OptionSpec {
    /// Its key, lower case.
    pub key: &'static str,
    /// Its type.
    pub kind: OptionType,
    /// A catalog without it is refused, unless one of the keys in `or` is there.
    pub required: bool,
    /// What can stand in for it.
    pub or: &'static [&'static str],
}

const fn opt(key: &'static str, kind: OptionType) -> OptionSpec {
    OptionSpec { key, kind, required: false, or: &[] }
}

const fn req(key: &'static str, kind: OptionType, or: &'static [&'static str]) -> OptionSpec {
    OptionSpec { key, kind, required: true, or }
}

const PORT: OptionType = OptionType::Integer(1, 65_535);
const POOL: OptionType = OptionType::Integer(1, 10_000);
const MILLIS: OptionType = OptionType::Integer(0, 86_400_000);
const SSLMODE: OptionType = OptionType::OneOf(&["disable", "allow", "prefer", "require", "verify-ca", "verify-full"]);

impl Connector {
    /// Every connector, in the order of their names.
    pub const ALL: [Connector; 11] = [
        Connector::Adbc,
        Connector::Mock,
        Connector::Mysql,
        Connector::ObjectStorage,
        Connector::Odata,
        Connector::Oracle,
        Connector::Postgres,
        Connector::Rest,
        Connector::SapS4hana,
        Connector::Snowflake,
        Connector::Warehouse,
    ];

    /// As SQL names it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Connector::Postgres => "postgres",
            Connector::Mysql => "mysql",
            Connector::Oracle => "oracle",
            Connector::Snowflake => "snowflake",
            Connector::Warehouse => "warehouse",
            Connector::ObjectStorage => "object_storage",
            Connector::Odata => "odata",
            Connector::SapS4hana => "sap_s4hana",
            Connector::Rest => "rest",
            Connector::Adbc => "adbc",
            Connector::Mock => "mock",
        }
    }

    /// The connector of that name; names compare without regard to case.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|c| c.as_str().eq_ignore_ascii_case(name))
    }

    /// The options it takes, in the order of their keys.
    pub const fn options(self) -> &'static [OptionSpec] {
        use OptionType::{Boolean, Credential, Decimal, Dsn, Integer, Json, OneOf, Text};
        match self {
            Connector::Postgres | Connector::Mysql => {
                const {
                    &[
                        opt("connect_timeout_ms", MILLIS),
                        opt("database", Text),
                        req("dsn", Dsn, &["host"]),
                        opt("host", Text),
                        opt("password", Credential),
                        opt("pool", POOL),
                        opt("port", PORT),
                        opt("schemas", Json),
                        opt("sslmode", SSLMODE),
                        opt("sslrootcert", Text),
                        opt("statement_timeout_ms", MILLIS),
                        opt("user", Text),
                    ]
                }
            }
            Connector::Oracle => {
                const {
                    &[
                        opt("connect_timeout_ms", MILLIS),
                        req("dsn", Dsn, &["host"]),
                        opt("host", Text),
                        opt("password", Credential),
                        opt("pool", POOL),
                        opt("port", PORT),
                        opt("schemas", Json),
                        opt("service_name", Text),
                        opt("sid", Text),
                        opt("user", Text),
                        opt("wallet", Credential),
                    ]
                }
            }
            Connector::Snowflake => {
                const {
                    &[
                        req("account", Text, &["dsn"]),
                        opt("database", Text),
                        opt("dsn", Dsn),
                        opt("password", Credential),
                        opt("private_key", Credential),
                        opt("private_key_passphrase", Credential),
                        opt("role", Text),
                        opt("schema", Text),
                        opt("token", Credential),
                        opt("user", Text),
                        opt("warehouse", Text),
                    ]
                }
            }
            Connector::Warehouse => {
                const {
                    &[
                        opt("access_key_id", Credential),
                        opt("catalog_type", OneOf(&["rest", "glue", "hive", "jdbc"])),
                        opt("credential", Credential),
                        opt("endpoint", Text),
                        opt("region", Text),
                        opt("secret_access_key", Credential),
                        opt("token", Credential),
                        req("uri", Dsn, &[]),
                        opt("warehouse", Text),
                    ]
                }
            }
            Connector::ObjectStorage => {
                const {
                    &[
                        opt("access_key_id", Credential),
                        opt("allow_http", Boolean),
                        opt("bucket", Text),
                        opt("endpoint", Text),
                        opt("format", OneOf(&["parquet", "csv", "json", "avro", "delta", "iceberg"])),
                        opt("provider", OneOf(&["s3", "gcs", "azure", "file"])),
                        opt("region", Text),
                        opt("secret_access_key", Credential),
                        opt("service_account", Credential),
                        opt("session_token", Credential),
                        opt("tables", Json),
                        req("url", Dsn, &["bucket", "tables"]),
                    ]
                }
            }
            Connector::Odata => {
                const {
                    &[
                        opt("entities", Json),
                        opt("headers", Json),
                        opt("page_size", Integer(1, 1_000_000)),
                        opt("password", Credential),
                        opt("timeout_ms", MILLIS),
                        opt("token", Credential),
                        req("url", Dsn, &[]),
                        opt("user", Text),
                        opt("version", OneOf(&["2", "4"])),
                    ]
                }
            }
            Connector::SapS4hana => {
                const {
                    &[
                        opt("client", Integer(0, 999)),
                        opt("client_id", Text),
                        opt("client_secret", Credential),
                        opt("entities", Json),
                        opt("language", Text),
                        opt("password", Credential),
                        opt("timeout_ms", MILLIS),
                        opt("token_url", Dsn),
                        req("url", Dsn, &[]),
                        opt("user", Text),
                    ]
                }
            }
            Connector::Rest => {
                const {
                    &[
                        opt("api_key", Credential),
                        opt("api_key_header", Text),
                        opt("endpoints", Json),
                        opt("headers", Json),
                        opt("password", Credential),
                        opt("retries", Integer(0, 100)),
                        opt("timeout_ms", MILLIS),
                        opt("token", Credential),
                        req("url", Dsn, &[]),
                        opt("user", Text),
                    ]
                }
            }
            Connector::Adbc => {
                const {
                    &[
                        opt("database", Text),
                        req("driver", Text, &[]),
                        opt("dsn", Dsn),
                        opt("entrypoint", Text),
                        opt("options", Json),
                        opt("password", Credential),
                        opt("token", Credential),
                        opt("uri", Dsn),
                        opt("user", Text),
                    ]
                }
            }
            Connector::Mock => {
                const {
                    &[
                        opt("a", Text),
                        opt("b", Text),
                        opt("c", Text),
                        opt("dsn", Dsn),
                        opt("host", Text),
                        opt("mode", OneOf(&["fast", "slow"])),
                        opt("note", Text),
                        opt("password", Credential),
                        opt("pool", POOL),
                        opt("port", PORT),
                        opt("ratio", Decimal),
                        opt("tables", Json),
                        opt("token", Credential),
                        opt("user", Text),
                        opt("verify", Boolean),
                    ]
                }
            }
        }
    }

    /// The option of that key; keys compare without regard to case.
    pub fn option(self, key: &str) -> Option<&'static OptionSpec> {
        self.options().iter().find(|o| o.key.eq_ignore_ascii_case(key))
    }

    /// The key that was probably meant, if one is close.
    pub fn nearest_option(self, key: &str) -> Option<&'static str> {
        nearest(key, self.options().iter().map(|o| o.key))
    }

    /// Whether some connector takes a credential under that key: where the connector is not known
    /// yet, a literal there is refused as one.
    pub fn any_takes_credential(key: &str) -> bool {
        Self::ALL.iter().any(|c| c.option(key).is_some_and(|o| o.kind == OptionType::Credential))
    }
}

impl fmt::Display for Connector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The word of `known` that is closest to `word`, if it is at most a third of its length away
/// (edit distance after Levenshtein).
pub fn nearest<'a>(word: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let word: Vec<char> = word.to_lowercase().chars().take(64).collect();
    let bound = (word.len() / 3).max(1);
    known.map(|k| (distance(&word, k), k)).filter(|(d, _)| *d <= bound).min().map(|(_, k)| k)
}

fn distance(a: &[char], b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut diagonal = i;
        let mut left = i + 1;
        if let Some(first) = row.first_mut() {
            *first = left;
        }
        for (cell, y) in row.iter_mut().skip(1).zip(&b) {
            let above = *cell;
            left = (diagonal + usize::from(x != y)).min(above + 1).min(left + 1);
            diagonal = above;
            *cell = left;
        }
    }
    row.last().copied().unwrap_or(a.len())
}

/// Whether a connection string holds a password: `scheme://user:password@host`, or a key word such as
/// `password=`. Errs on the side of yes.
pub fn holds_password(text: &str) -> bool {
    let lower = text.to_ascii_lowercase();
    let in_authority = lower.split("://").skip(1).any(|rest| {
        let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
        authority.rsplit_once('@').is_some_and(|(user, _)| user.split_once(':').is_some_and(|(_, p)| !p.is_empty()))
    });
    in_authority
        || ["password", "passwd", "pwd", "secret", "token", "api_key", "apikey", "access_key", "sig"].iter().any(
            |word| {
                lower.match_indices(word).any(|(at, _)| {
                    let rest = lower.get(at + word.len()..).unwrap_or_default().trim_start();
                    rest.strip_prefix('=').is_some_and(|v| !v.trim_start().is_empty() && !v.starts_with([';', '&']))
                })
            },
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn option_keys_are_sorted_and_unique() {
        for connector in Connector::ALL {
            let keys: Vec<_> = connector.options().iter().map(|o| o.key).collect();
            assert!(keys.windows(2).all(|w| w[0] < w[1]), "{connector}: {keys:?}");
        }
    }

    #[test]
    fn nearest_finds_a_slip_and_not_more() {
        assert_eq!(Connector::Mock.nearest_option("pasword"), Some("password"));
        assert_eq!(Connector::Mock.nearest_option("PORTT"), Some("port"));
        assert_eq!(Connector::Mock.nearest_option("bandwidth"), None);
    }

    #[test]
    fn passwords_in_connection_strings_are_found() {
        for yes in [
            "postgres://u:p@h/db",
            "host=h password=p",
            "host=h PASSWORD = 'p'",
            "Server=h;Pwd=p;",
            "https://h/?sig=abc",
        ] {
            assert!(holds_password(yes), "{yes}");
        }
        for no in ["postgres://u@h/db", "host=h user=u", "https://h:443/path", "host=h password=;"] {
            assert!(!holds_password(no), "{no}");
        }
    }
}
