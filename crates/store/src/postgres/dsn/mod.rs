//! Where the database is and how to get in: libpq's connection strings.
//!
//! In: a text of keywords and values or a `postgresql://` URI, the `PG*` environment variables, the
//! service file and the password file, with libpq's precedence: the text, then the service, then the
//! environment, then defaults. Out: a [`Dsn`], checked as a whole.
//!
//! What libpq would do and this client cannot is refused by the keyword's name, never passed over: a
//! `requirepeer` or `sslcrldir` that is ignored is a promise broken. Errors name keywords and files. They
//! show no value, since the value of one keyword may be a piece of a password that was not quoted.

mod environment;
mod error;
mod keyvalue;
mod keyword;
mod passfile;
mod service;
mod settings;
mod targets;
#[cfg(test)]
pub(crate) mod tests;
mod uri;

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use dataglot_model::Sensitive;

pub(crate) use environment::Environment;
use environment::Process;
pub use error::{DsnError, Origin};
pub(crate) use settings::{ChannelBinding, ClientCertificate, Keepalives, Roots, SslMode, TargetSession, Tls};
pub(crate) use targets::{Place, Target};

/// How to reach a PostgreSQL database, read from a connection string and its surroundings.
///
/// Where `sslmode` is not given, it is `verify-full`; `prefer` for a server on a loopback address. A Unix
/// socket never uses TLS. The password is hidden in every printed form.
///
/// ```
/// let dsn = dataglot_store::Dsn::parse("host=db.example,db2.example dbname=meta user=dataglot password=x")?;
/// assert_eq!(dsn.location(), "host=db.example,db2.example port=5432 dbname=meta user=dataglot");
/// # Ok::<(), dataglot_store::DsnError>(())
/// ```
#[derive(Clone)]
pub struct Dsn {
    /// The servers, in the order in which they were named.
    pub(crate) targets: Vec<Target>,
    pub(crate) dbname: String,
    pub(crate) user: String,
    password: Option<Sensitive>,
    /// Read again at each connection: a password that was changed there is taken up.
    passfile: Option<PathBuf>,
    pub(crate) application_name: Option<String>,
    /// Whose name is used where the text and the environment give none.
    pub(crate) node: Option<String>,
    pub(crate) options: Option<String>,
    pub(crate) tls: Tls,
    pub(crate) channel_binding: ChannelBinding,
    /// For each address that is tried; `None`: wait as long as the operating system does.
    pub(crate) connect_timeout: Option<Duration>,
    pub(crate) keepalives: Keepalives,
    pub(crate) target_session: TargetSession,
    pub(crate) shuffle_hosts: bool,
}

impl Dsn {
    /// Reads a connection string, and the environment, service file and password file that it refers to.
    pub fn parse(text: &str) -> Result<Dsn, DsnError> {
        Dsn::parse_with(text, &Process)
    }

    /// Reads it in other surroundings than those of this process.
    pub(crate) fn parse_with(text: &str, environment: &dyn Environment) -> Result<Dsn, DsnError> {
        let text = text.trim_ascii();
        let given = match uri::without_scheme(text) {
            Some(rest) => uri::parse(rest)?,
            None => keyvalue::parse(text)?,
        };
        let all = service::complete(given, environment)?;
        settings::build(&all, environment)
    }

    /// The same, with the name under which its sessions appear in `pg_stat_activity`, unless the connection
    /// string gives one.
    pub(crate) fn for_node(mut self, node: &str) -> Dsn {
        self.node = Some(node.to_owned());
        self
    }

    /// Where it leads, without any credential.
    pub fn location(&self) -> String {
        let hosts: Vec<_> = self.targets.iter().map(|t| t.place.to_string()).collect();
        let mut ports: Vec<_> = self.targets.iter().map(|t| t.port.to_string()).collect();
        ports.dedup();
        let quote = keyvalue::quote;
        format!(
            "host={} port={} dbname={} user={}",
            quote(&hosts.join(",")),
            if ports.len() == 1 { ports.concat() } else { targets::ports(&self.targets) },
            quote(&self.dbname),
            quote(&self.user)
        )
    }

    /// The password for that server: the one that was given, or the password file's.
    pub(crate) fn password_for(&self, target: &Target) -> Option<Sensitive> {
        self.password.clone().or_else(|| passfile::look_up(self.passfile.as_deref()?, target, &self.dbname, &self.user))
    }

    /// The mode in which that server is reached.
    pub(crate) fn mode_for(&self, target: &Target) -> SslMode {
        match (&target.place, self.tls.mode) {
            (Place::Unix(_), _) => SslMode::Disable,
            (Place::Tcp { .. }, Some(mode)) => mode,
            (Place::Tcp { .. }, None) if target.is_loopback() => SslMode::Prefer,
            (Place::Tcp { .. }, None) => SslMode::VerifyFull,
        }
    }

    /// The name of its sessions in `pg_stat_activity`.
    pub(crate) fn application(&self) -> String {
        match (&self.application_name, &self.node) {
            (Some(name), _) => name.clone(),
            (None, Some(node)) => format!("dataglot {node}"),
            (None, None) => "dataglot".to_owned(),
        }
    }

    /// Only that server, at the address where it was reached.
    pub(crate) fn only(&self, target: Target) -> Dsn {
        Dsn { targets: vec![target], ..self.clone() }
    }
}

impl fmt::Debug for Dsn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Dsn({})", self.location())
    }
}
