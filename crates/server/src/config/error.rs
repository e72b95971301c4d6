//! What can be wrong with a configuration. Names settings, sources and places; never a value.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use dataglot_store::DsnError;
use miette::{Diagnostic, NamedSource, SourceSpan};

use super::source::{Origin, Raw};

/// A place in the file, with the file's text as it may be shown.
#[derive(Clone, Debug)]
pub(super) struct FileText {
    pub(super) span: SourceSpan,
    pub(super) text: Arc<NamedSource<String>>,
}

/// Why there is no configuration.
#[derive(Debug, thiserror::Error, Diagnostic)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("configuration file \"{}\" cannot be read: {reason}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the operating system said.
        reason: String,
    },
    /// The file is not TOML.
    #[error("configuration file is not TOML: {reason}")]
    Syntax {
        /// What the parser said.
        reason: String,
        /// Where.
        #[label("here")]
        at: SourceSpan,
        /// The file, values hidden.
        #[source_code]
        text: Arc<NamedSource<String>>,
    },
    /// The file has a key that is not known.
    #[error("configuration has no setting \"{key}\"")]
    UnknownKey {
        /// The key as written.
        key: String,
        /// What to do about it.
        #[help]
        help: Option<String>,
        /// Where.
        #[label("this key")]
        at: SourceSpan,
        /// The file, values hidden.
        #[source_code]
        text: Arc<NamedSource<String>>,
    },
    /// A value is not of its setting's form.
    #[error("{origin}: \"{setting}\" takes {wanted}")]
    Value {
        /// The setting.
        setting: &'static str,
        /// What it takes.
        wanted: String,
        /// Where the value comes from.
        origin: Origin,
        /// Where in the file.
        #[label("this value")]
        at: Option<SourceSpan>,
        /// The file, values hidden.
        #[source_code]
        text: Option<Arc<NamedSource<String>>>,
    },
    /// A value is understood, and what it asks for is not there yet.
    #[error("{origin}: {what} comes with a later version")]
    Later {
        /// What it asks for.
        what: &'static str,
        /// Where the value comes from.
        origin: Origin,
        /// Where in the file.
        #[label("this value")]
        at: Option<SourceSpan>,
        /// The file, values hidden.
        #[source_code]
        text: Option<Arc<NamedSource<String>>>,
    },
    /// A connection string that cannot be used.
    #[error("{origin}: {error}")]
    Connection {
        /// Why. It shows no value.
        error: Box<DsnError>,
        /// What to do about it.
        #[help]
        help: Option<String>,
        /// Where the value comes from.
        origin: Origin,
        /// Where in the file.
        #[label("this value")]
        at: Option<SourceSpan>,
        /// The file, values hidden.
        #[source_code]
        text: Option<Arc<NamedSource<String>>>,
    },
    /// A variable is not in Unicode.
    #[error("variable {variable} is not in UTF-8")]
    NotUnicode {
        /// Its name.
        variable: String,
    },
    /// Two sources of the secret key.
    #[error("two sources of secret keys are configured: {one} and {two}")]
    #[diagnostic(help("Keep one of them. Several keys stand in one source, the one that seals first."))]
    TwoKeys {
        /// The setting of one.
        one: &'static str,
        /// The setting of another one.
        two: &'static str,
    },
    /// Two ways to say how clients are let in.
    #[error("{origin}: \"auth\" and the list [[hba]] of the configuration file both say how clients are let in")]
    #[diagnostic(help("Keep one of them: auth is one method for everybody, [[hba]] a list of rules."))]
    TwoAuths {
        /// Where `auth` comes from.
        origin: Origin,
        /// Where the list starts.
        #[label("the list")]
        at: Option<SourceSpan>,
        /// The file, values hidden.
        #[source_code]
        text: Option<Arc<NamedSource<String>>>,
    },
    /// Two sources of the first superuser's password.
    #[error("two passwords of the first superuser are configured: admin_password and admin_password_file")]
    #[diagnostic(help("Keep one of them; `dataglot config` shows where each comes from."))]
    TwoAdminPasswords,
    /// The password of the first superuser is none.
    #[error("password of the first superuser, {from}: {why}")]
    AdminPassword {
        /// Its source.
        from: String,
        /// What is wrong with it.
        why: String,
    },
    /// Login by certificate, and no client is asked for one.
    #[error("method \"cert\" needs \"tls_client_ca\"")]
    #[diagnostic(help("Name the CAs of clients' certificates: --tls-client-ca FILE."))]
    CertWithoutCa,
    /// Login by somebody else's word, and nobody's is configured.
    #[error("method \"{method}\" needs {table} in the configuration file")]
    #[diagnostic(help("docs/authentication.md shows what stands there."))]
    MethodWithoutTable {
        /// The method.
        method: &'static str,
        /// What is missing.
        table: &'static str,
    },
    /// Superusers have all connections.
    #[error("superuser_reserved_connections must be less than max_connections")]
    AllReserved,
    /// `trust` beyond loopback.
    #[error("auth \"trust\" on {listen} would let anyone who reaches this address in as anyone")]
    #[diagnostic(help(
        "Listen on a loopback address such as 127.0.0.1:7432, or say --allow-remote-trust if that is what you want."
    ))]
    RemoteTrust {
        /// Where it was to listen.
        listen: SocketAddr,
    },
    /// Metrics beyond loopback for everybody.
    #[error("http on {http} would show this server's metrics to anyone who reaches this address")]
    #[diagnostic(help(
        "Name a file with a token by http_token_file, or listen on a loopback address such as 127.0.0.1:9432."
    ))]
    HttpWithoutToken {
        /// Where it was to listen.
        http: SocketAddr,
    },
    /// A part of TLS is not there.
    #[error("\"{setting}\" needs \"{needs}\"")]
    #[diagnostic(help(
        "TLS takes a certificate and its key: --tls-cert FILE --tls-key FILE; CAs of clients' certificates are optional."
    ))]
    TlsIncomplete {
        /// The setting that is there.
        setting: &'static str,
        /// The one that is not.
        needs: &'static str,
    },
    /// A lease that runs out by itself.
    #[error("store_lease {lease} is less than twice store_poll_interval {poll}: it would run out between two looks")]
    ShortLease {
        /// The lease.
        lease: String,
        /// How often the store is looked at.
        poll: String,
    },
    /// No store is named.
    #[error("no store is named")]
    #[diagnostic(help(
        "Name one: --store path=FILE or --store dsn=CONNINFO, DATAGLOT_STORE, or path or dsn under [catalog_service]."
    ))]
    NoStore,
}

impl ConfigError {
    /// `auth` is given, and so is the list at `list`.
    pub(super) fn two_auths(auth: &Raw, list: &Raw) -> Self {
        let (at, text) = list.at.as_ref().map(|place| (place.span, place.text.clone())).unzip();
        ConfigError::TwoAuths { origin: auth.origin.clone(), at, text }
    }
}
