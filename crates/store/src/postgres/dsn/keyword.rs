//! The keywords of connection strings: libpq's list, and what becomes of each here.

use std::collections::BTreeMap;

use dataglot_model::Sensitive;
use dataglot_model::connector::nearest;

use super::error::{DsnError, Origin};

/// What becomes of a keyword.
#[derive(Clone, Copy)]
enum Use {
    /// It does what libpq's documentation says.
    Honoured,
    /// It is accepted with these values, which ask for what is done anyway.
    Only(&'static [&'static str], &'static str),
    /// It is refused, with what to do instead.
    Refused(&'static str),
}

/// One of libpq's keywords.
pub(super) struct Keyword {
    pub(super) name: &'static str,
    /// The environment variable that stands in for it.
    variable: Option<&'static str>,
    usage: Use,
}

const fn honoured(name: &'static str, variable: Option<&'static str>) -> Keyword {
    Keyword { name, variable, usage: Use::Honoured }
}

const fn only(
    name: &'static str,
    variable: Option<&'static str>,
    values: &'static [&'static str],
    hint: &'static str,
) -> Keyword {
    Keyword { name, variable, usage: Use::Only(values, hint) }
}

const fn refused(name: &'static str, variable: Option<&'static str>, hint: &'static str) -> Keyword {
    Keyword { name, variable, usage: Use::Refused(hint) }
}

const NO_GSS: &str = "This client has no GSSAPI; use a password or a client certificate.";
const NO_OAUTH: &str = "This client has no OAuth; use a password or a client certificate.";
const UNENCRYPTED_KEY: &str = "Use a key file without a passphrase that only its owner can read.";

/// All of them. Variables that only choose among ways to log in that we do not have are not read.
pub(super) const KEYWORDS: &[Keyword] = &[
    honoured("application_name", Some("PGAPPNAME")),
    honoured("channel_binding", Some("PGCHANNELBINDING")),
    only("client_encoding", None, &["UTF8", "UTF-8", "utf8", "utf-8", "auto"], "Texts are always UTF8."),
    honoured("connect_timeout", Some("PGCONNECT_TIMEOUT")),
    honoured("dbname", Some("PGDATABASE")),
    honoured("fallback_application_name", None),
    refused("gssdelegation", None, NO_GSS),
    only("gssencmode", Some("PGGSSENCMODE"), &["disable", "prefer"], NO_GSS),
    refused("gsslib", None, NO_GSS),
    honoured("host", Some("PGHOST")),
    honoured("hostaddr", Some("PGHOSTADDR")),
    honoured("keepalives", None),
    honoured("keepalives_count", None),
    honoured("keepalives_idle", None),
    honoured("keepalives_interval", None),
    refused("krbsrvname", None, NO_GSS),
    honoured("load_balance_hosts", Some("PGLOADBALANCEHOSTS")),
    only("max_protocol_version", Some("PGMAXPROTOCOLVERSION"), &["3.0", "latest"], "The protocol is version 3.0."),
    only("min_protocol_version", Some("PGMINPROTOCOLVERSION"), &["3.0"], "The protocol is version 3.0."),
    refused("oauth_client_id", None, NO_OAUTH),
    refused("oauth_client_secret", None, NO_OAUTH),
    refused("oauth_issuer", None, NO_OAUTH),
    refused("oauth_scope", None, NO_OAUTH),
    honoured("options", Some("PGOPTIONS")),
    honoured("passfile", Some("PGPASSFILE")),
    honoured("password", Some("PGPASSWORD")),
    honoured("port", Some("PGPORT")),
    only("replication", None, &["false", "off", "no", "0"], "A store needs an ordinary session."),
    refused("require_auth", Some("PGREQUIREAUTH"), "channel_binding=require admits SCRAM with channel binding only."),
    refused("requirepeer", Some("PGREQUIREPEER"), "Put the socket into a directory that only the server can write."),
    refused("scram_client_key", None, "Use a password."),
    refused("scram_server_key", None, "Use a password."),
    honoured("service", Some("PGSERVICE")),
    honoured("servicefile", Some("PGSERVICEFILE")),
    honoured("sslcert", Some("PGSSLCERT")),
    only(
        "sslcertmode",
        Some("PGSSLCERTMODE"),
        &["allow", "disable"],
        "Require the certificate in the server's pg_hba.conf.",
    ),
    only("sslcompression", Some("PGSSLCOMPRESSION"), &["0"], "TLS compression is unsafe and gone from TLS 1.3."),
    honoured("sslcrl", Some("PGSSLCRL")),
    refused("sslcrldir", Some("PGSSLCRLDIR"), "Use sslcrl with one file."),
    honoured("sslkey", Some("PGSSLKEY")),
    refused("sslkeylogfile", None, "Session keys are never written out."),
    only(
        "ssl_max_protocol_version",
        Some("PGSSLMAXPROTOCOLVERSION"),
        &["TLSv1.3"],
        "The server chooses TLS 1.3 or 1.2.",
    ),
    only(
        "ssl_min_protocol_version",
        Some("PGSSLMINPROTOCOLVERSION"),
        &["TLSv1", "TLSv1.1", "TLSv1.2"],
        "TLS 1.2 and 1.3 are spoken.",
    ),
    honoured("sslmode", Some("PGSSLMODE")),
    only(
        "sslnegotiation",
        Some("PGSSLNEGOTIATION"),
        &["postgres"],
        "TLS is asked for first, as all servers understand.",
    ),
    refused("sslpassword", None, UNENCRYPTED_KEY),
    honoured("sslrootcert", Some("PGSSLROOTCERT")),
    honoured("sslsni", Some("PGSSLSNI")),
    honoured("target_session_attrs", Some("PGTARGETSESSIONATTRS")),
    honoured("tcp_user_timeout", None),
    honoured("user", Some("PGUSER")),
];

/// What people write for a keyword out of habit.
const HABITS: &[(&str, &str)] = &[
    ("database", "dbname"),
    ("db", "dbname"),
    ("hostname", "host"),
    ("server", "host"),
    ("username", "user"),
    ("pass", "password"),
    ("passwd", "password"),
    ("pwd", "password"),
    ("ssl", "sslmode"),
    ("timeout", "connect_timeout"),
];

/// The keyword of that name.
pub(super) fn find(name: &str) -> Option<&'static Keyword> {
    KEYWORDS.iter().find(|k| k.name == name)
}

/// What was given: for each keyword its value and where that was read. Every value is treated as a
/// credential.
#[derive(Default)]
pub(super) struct Given(BTreeMap<&'static str, (Sensitive, Origin)>);

impl Given {
    /// Sets a keyword; the last one holds. `after` is the keyword before it in the same text.
    pub(super) fn set(
        &mut self,
        name: &str,
        value: Sensitive,
        origin: Origin,
        after: Option<&'static str>,
    ) -> Result<&'static str, DsnError> {
        let keyword = find(name).ok_or_else(|| unknown(name, after, &origin))?;
        keyword.check(&value, &origin)?;
        self.0.insert(keyword.name, (value, origin));
        Ok(keyword.name)
    }

    /// Takes from `other` what is not set yet.
    pub(super) fn complete(&mut self, other: Given) {
        for (name, value) in other.0 {
            self.0.entry(name).or_insert(value);
        }
    }

    /// Takes from the environment what is not set yet.
    pub(super) fn complete_from(
        &mut self,
        variable: impl Fn(&'static str) -> Result<Option<Sensitive>, DsnError>,
    ) -> Result<(), DsnError> {
        for keyword in KEYWORDS {
            let Some(name) = keyword.variable else { continue };
            if self.0.contains_key(keyword.name) {
                continue;
            }
            if let Some(value) = variable(name)? {
                keyword.check(&value, &Origin::Variable(name))?;
                self.0.insert(keyword.name, (value, Origin::Variable(name)));
            }
        }
        Ok(())
    }

    /// Whether it was given at all, be it as an empty value.
    pub(super) fn has(&self, name: &'static str) -> bool {
        self.0.contains_key(name)
    }

    /// Its value. An empty one stands for the default, as in libpq.
    pub(super) fn get(&self, name: &'static str) -> Option<&str> {
        self.0.get(name).map(|(value, _)| value.open()).filter(|v| !v.is_empty())
    }

    /// That its value is none that the keyword takes.
    pub(super) fn invalid(&self, keyword: &'static str, expected: &'static str) -> DsnError {
        let origin = self.0.get(keyword).map_or(Origin::Text, |(_, origin)| origin.clone());
        DsnError::Invalid { keyword, expected, origin }
    }
}

impl Keyword {
    fn check(&self, value: &Sensitive, origin: &Origin) -> Result<(), DsnError> {
        let refuse =
            |hint, value| Err(DsnError::Unsupported { keyword: self.name, value, hint, origin: origin.clone() });
        let value = value.open();
        match self.usage {
            _ if value.contains('\0') => {
                Err(DsnError::Invalid { keyword: self.name, expected: "no NUL character", origin: origin.clone() })
            }
            Use::Honoured => Ok(()),
            Use::Only(..) | Use::Refused(_) if value.is_empty() => Ok(()),
            Use::Only(values, _) if values.contains(&value) => Ok(()),
            Use::Only(_, hint) => refuse(hint, true),
            Use::Refused(hint) => refuse(hint, false),
        }
    }
}

/// What follows the value of a password without quotes may be the rest of that password.
fn unknown(name: &str, after: Option<&'static str>, origin: &Origin) -> DsnError {
    let plausible = name.len() <= 40 && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    let shown = plausible && !matches!(after, Some("password" | "sslpassword"));
    let habit = HABITS.iter().find(|(h, _)| h.eq_ignore_ascii_case(name)).map(|(_, k)| *k);
    let meant = habit.or_else(|| nearest(name, KEYWORDS.iter().map(|k| k.name)));
    DsnError::UnknownKeyword {
        keyword: shown.then(|| name.to_owned()),
        nearest: meant.filter(|_| shown),
        origin: origin.clone(),
    }
}
