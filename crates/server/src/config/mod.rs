//! The configuration of a server: every setting by flag, else by variable, else by file, else by default.
//!
//! In: [`Flags`] from the command line, the [`Environment`], and a TOML file if one is named. Out: a
//! [`Config`] of typed values, each with its [`Origin`]. A value that is not understood, and a key that is
//! not known, is an error; nothing is repaired or ignored. No error holds a value: what was pasted into
//! the wrong place may be a credential.
//!
//! Deliberately absent: settings of a session (`SET`), and any change at run time.

mod error;
mod fields;
mod file;
mod hba;
mod jwt;
mod ldap;
mod setting;
mod shown;
mod source;
mod value;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use dataglot_model::{Name, Sensitive};
use dataglot_session::EngineConfig;

pub use error::ConfigError;
pub use setting::Setting;
pub use source::{Environment, Flags, Origin};
pub use value::{LogFormat, StoreLocation, Tls};

use crate::auth::{DirectoryConfig, Hba, IssuerConfig, Method};
use crate::keycommand::KeyCommand;
use crate::private_file;
use crate::tls::{Mode as TlsMode, TlsConfig};
use file::{File, Read};
use source::Raw;

/// The typed settings of a server. Made by [`Config::load`] only.
#[derive(Clone, Debug)]
pub struct Config {
    /// Where the state is kept. There is no default: a store is never made where nobody asked for one.
    pub store: Option<StoreLocation>,
    /// How often a shared store is asked for news of other coordinators, whatever it announces by itself.
    pub store_poll_interval: Duration,
    /// How long a shared store may be out of reach until nothing is decided on what was last seen of it.
    pub store_lease: Duration,
    /// The name of this coordinator among others.
    pub node: String,
    /// Where to listen.
    pub listen: SocketAddr,
    /// Where to answer to health checks and scrapes of metrics; `None`: nowhere.
    pub http: Option<SocketAddr>,
    /// The file with the token that those who ask there have to bring.
    pub http_token_file: Option<PathBuf>,
    /// Whether connections are encrypted.
    pub tls: Tls,
    /// The file with our certificate and those between it and a CA.
    pub tls_cert: Option<PathBuf>,
    /// The file with its key.
    pub tls_key: Option<PathBuf>,
    /// The file with the CAs of clients' certificates.
    pub tls_client_ca: Option<PathBuf>,
    /// How clients prove who they are.
    pub auth: Hba,
    /// Whose tokens let clients in.
    pub issuers: Vec<IssuerConfig>,
    /// The directory that takes passwords.
    pub directory: Option<DirectoryConfig>,
    /// Whether `trust` may listen beyond loopback.
    pub allow_remote_trust: bool,
    /// The superuser that is made in a new store.
    pub admin: Name,
    /// Where that superuser's password comes from.
    pub admin_password: AdminPassword,
    /// Where the secret key comes from.
    pub secret_key: KeySource,
    /// The form of log lines.
    pub log_format: LogFormat,
    /// Which log lines, as directives of `tracing`'s filter.
    pub log_filter: String,
    /// Most connections at once.
    pub max_connections: u32,
    /// Most connections at once from one address.
    pub max_connections_per_address: u32,
    /// How many connections are for superusers.
    pub superuser_reserved_connections: u32,
    /// `statement_timeout` of a session that sets none; `None`: off.
    pub statement_timeout: Option<Duration>,
    /// `idle_in_transaction_session_timeout` of a session that sets none; `None`: off.
    pub idle_in_transaction_timeout: Option<Duration>,
    /// How long statements in flight may take to finish once the server is told to stop.
    pub shutdown_timeout: Duration,
    /// Iterations of a new password's verifier.
    pub scram_iterations: u32,
    /// Longest statement, in bytes.
    pub statement_bytes_max: usize,
    /// Most tokens of a statement.
    pub tokens_max: usize,
    /// Longest chain of operators of a statement.
    pub chain_max: usize,
    /// Deepest nesting of a statement.
    pub depth_max: usize,
    /// Longest query string, in bytes.
    pub script_bytes_max: usize,
    origins: BTreeMap<Setting, Origin>,
    unknown_variables: Vec<String>,
    shows_password: bool,
}

/// Where the password of the first superuser comes from.
#[derive(Clone, Debug)]
pub enum AdminPassword {
    /// Nowhere: it has none.
    None,
    /// The text of the variable.
    Text(Sensitive),
    /// A file.
    File(PathBuf),
}

impl AdminPassword {
    /// The password; `None`: none is configured.
    ///
    /// # Errors
    /// [`ConfigError::AdminPassword`]: it is empty, or its file is not one that only its owner can use.
    pub fn read(&self) -> Result<Option<Sensitive>, ConfigError> {
        let wrong = |from: String, why: String| ConfigError::AdminPassword { from, why };
        let (from, text) = match self {
            AdminPassword::None => return Ok(None),
            AdminPassword::Text(text) => (format!("variable {}", Setting::AdminPassword.variable()), text.clone()),
            AdminPassword::File(path) => {
                let from = format!("file \"{}\"", path.display());
                match private_file::read_line(path, PASSWORD_KILOBYTES_MAX) {
                    Ok(password) => (from, password),
                    Err(unread) => return Err(wrong(from, unread.to_string())),
                }
            }
        };
        if text.open().is_empty() {
            return Err(wrong(from, "the password is empty, and the empty password never logs in".to_owned()));
        }
        Ok(Some(text))
    }
}

/// Longest file with a password.
const PASSWORD_KILOBYTES_MAX: u64 = 1;

/// Where the secret key comes from.
#[derive(Clone, Debug)]
pub enum KeySource {
    /// Nowhere: what needs a key is refused.
    None,
    /// The text of the variable.
    Text(Sensitive),
    /// A file.
    File(PathBuf),
    /// What a program prints.
    Command(KeyCommand),
}

impl KeySource {
    /// The one that is given.
    fn only(
        text: Option<Sensitive>,
        file: Option<PathBuf>,
        command: Option<KeyCommand>,
    ) -> Result<KeySource, ConfigError> {
        let given = [
            (Setting::SecretKey, text.map(KeySource::Text)),
            (Setting::SecretKeyFile, file.map(KeySource::File)),
            (Setting::SecretKeyCommand, command.map(KeySource::Command)),
        ];
        let mut given = given.into_iter().filter_map(|(setting, source)| Some((setting, source?)));
        match (given.next(), given.next()) {
            (None, _) => Ok(KeySource::None),
            (Some((_, source)), None) => Ok(source),
            (Some((one, _)), Some((two, _))) => Err(ConfigError::TwoKeys { one: one.name(), two: two.name() }),
        }
    }
}

/// One setting as it is in force, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Effective {
    /// Which.
    pub setting: Setting,
    /// Its value as text; of a secret only whether it is set.
    pub value: String,
    /// Where the value comes from.
    pub origin: Origin,
}

/// The text of each setting, from the strongest source that has one.
struct Layers {
    raw: BTreeMap<Setting, Raw>,
    origins: BTreeMap<Setting, Origin>,
}

impl Layers {
    /// The value of `setting`; `None` where no source has one.
    fn get<T>(&mut self, setting: Setting, parse: impl Fn(&str) -> Result<T, value::Wanted>) -> Parsed<T> {
        let Some(raw) = self.raw.remove(&setting) else {
            return Ok(None);
        };
        let parsed = parse(raw.text.open()).map_err(|wanted| raw.refuse(setting, wanted))?;
        self.origins.insert(setting, raw.origin);
        Ok(Some(parsed))
    }

    /// The value of `setting`; that of `default`, read like any other, where no source has one.
    fn get_or<T>(
        &mut self,
        setting: Setting,
        default: &str,
        parse: impl Fn(&str) -> Result<T, value::Wanted>,
    ) -> Result<T, ConfigError> {
        match self.get(setting, &parse)? {
            Some(value) => Ok(value),
            None => parse(default).map_err(|wanted| Raw::of_default(default).refuse(setting, wanted)),
        }
    }
}

type Parsed<T> = Result<Option<T>, ConfigError>;

impl Config {
    /// Reads the file, if one is named, and decides every setting.
    ///
    /// # Errors
    /// [`ConfigError`] of the first setting that is not understood. Values are judged one by one; what only
    /// their combination shows is found by [`Config::check`].
    pub fn load(flags: &Flags, environment: &Environment) -> Result<Config, ConfigError> {
        let Read { settings: mut raw, hba, issuers, directory } = match flags.file().or_else(|| environment.file()) {
            Some(path) => File::read(Path::new(path))?,
            None => Read::default(),
        };
        raw.extend(environment.raw()?);
        raw.extend(flags.raw());
        if let (Some((_, place)), Some(auth)) = (&hba, raw.get(&Setting::Auth)) {
            return Err(ConfigError::two_auths(auth, place));
        }

        let mut layers = Layers { raw, origins: BTreeMap::new() };
        let l = &mut layers;
        let statement_timeout = l.get(Setting::StatementTimeout, value::duration)?;
        let idle_in_transaction = l.get(Setting::IdleInTransactionSessionTimeout, value::duration)?;
        let shutdown_timeout = l.get(Setting::ShutdownTimeout, value::duration)?;
        let secret_key = l.get(Setting::SecretKey, |text| Ok(Sensitive::new(text.to_owned())))?;
        let secret_key_file = l.get(Setting::SecretKeyFile, value::path)?;
        let secret_key_command = l.get(Setting::SecretKeyCommand, value::command)?;
        let admin_password = l.get(Setting::AdminPassword, |text| Ok(Sensitive::new(text.to_owned())))?;
        let admin_password_file = l.get(Setting::AdminPasswordFile, value::path)?;
        let max_connections = l.get(Setting::MaxConnections, |t| value::number(t, 1, 100_000))?.unwrap_or(500);
        let per_address = l.get(Setting::MaxConnectionsPerAddress, |t| value::number(t, 1, 100_000))?;
        let reserved = l.get(Setting::SuperuserReservedConnections, |t| value::number(t, 0, 100_000))?;
        let auth = l.get(Setting::Auth, value::auth)?;
        if let Some((_, place)) = &hba {
            l.origins.insert(Setting::Auth, place.origin.clone());
        }
        let tls = l.get(Setting::Tls, value::tls)?;
        let tls_cert = l.get(Setting::TlsCert, value::path)?;
        let store = l.raw.get(&Setting::Store);
        let shows_password =
            store.is_some_and(|s| matches!(s.origin, Origin::Flag(_)) && StoreLocation::holds_password(s.text.open()));
        let defaults = EngineConfig::default();
        let bytes = |text: &str| value::bytes(text, 1 << 10, 1 << 30);
        let poll = |text: &str| value::interval(text, Duration::from_millis(10));
        let lease = |text: &str| value::interval(text, Duration::from_millis(100));
        let count = |text: &str| value::number(text, 1, 10_000_000);
        let config = Config {
            store: l.get(Setting::Store, value::store)?,
            store_poll_interval: l.get(Setting::StorePollInterval, poll)?.unwrap_or(value::POLL_DEFAULT),
            store_lease: l.get(Setting::StoreLease, lease)?.unwrap_or(defaults.hub.lease),
            node: l.get(Setting::Node, value::node)?.unwrap_or_else(value::node_default),
            listen: l.get(Setting::Listen, value::listen)?.unwrap_or(value::LISTEN_DEFAULT),
            http: l.get(Setting::Http, value::http)?.flatten(),
            http_token_file: l.get(Setting::HttpTokenFile, value::path)?,
            tls: tls.unwrap_or(if tls_cert.is_some() { Tls::Allow } else { Tls::Off }),
            tls_cert,
            tls_key: l.get(Setting::TlsKey, value::path)?,
            tls_client_ca: l.get(Setting::TlsClientCa, value::path)?,
            auth: hba.map(|(hba, _)| hba).or(auth).unwrap_or_else(|| Hba::one(Method::ScramSha256)),
            issuers,
            directory,
            allow_remote_trust: l.get(Setting::AllowRemoteTrust, value::boolean)?.unwrap_or(false),
            admin: l.get_or(Setting::Admin, value::ADMIN_DEFAULT, value::name)?,
            admin_password: match (admin_password, admin_password_file) {
                (Some(_), Some(_)) => return Err(ConfigError::TwoAdminPasswords),
                (Some(text), None) => AdminPassword::Text(text),
                (None, Some(path)) => AdminPassword::File(path),
                (None, None) => AdminPassword::None,
            },
            secret_key: KeySource::only(secret_key, secret_key_file, secret_key_command)?,
            log_format: l.get(Setting::LogFormat, value::log_format)?.unwrap_or(LogFormat::Text),
            log_filter: l.get(Setting::LogFilter, value::text)?.unwrap_or_else(|| "info".to_owned()),
            max_connections,
            max_connections_per_address: per_address.unwrap_or(max_connections),
            superuser_reserved_connections: reserved.unwrap_or(value::RESERVED_DEFAULT.min(max_connections - 1)),
            statement_timeout: statement_timeout.unwrap_or(defaults.statement_timeout),
            idle_in_transaction_timeout: idle_in_transaction.unwrap_or(defaults.idle_in_transaction_timeout),
            shutdown_timeout: shutdown_timeout.map_or(value::SHUTDOWN_DEFAULT, Option::unwrap_or_default),
            scram_iterations: l
                .get(Setting::ScramIterations, |t| value::number(t, 4_096, 600_000))?
                .unwrap_or(defaults.scram_iterations),
            statement_bytes_max: l
                .get(Setting::StatementBytesMax, bytes)?
                .unwrap_or(defaults.limits.statement_bytes_max),
            tokens_max: l.get(Setting::TokensMax, count)?.unwrap_or(defaults.limits.tokens_max),
            chain_max: l.get(Setting::ChainMax, |t| value::number(t, 1, 2_000))?.unwrap_or(defaults.limits.chain_max),
            depth_max: l.get(Setting::DepthMax, |t| value::number(t, 1, 200))?.unwrap_or(defaults.limits.depth_max),
            script_bytes_max: l.get(Setting::ScriptBytesMax, bytes)?.unwrap_or(defaults.limits.script_bytes_max),
            origins: BTreeMap::new(),
            unknown_variables: environment.unknown(),
            shows_password,
        };
        Ok(Config { origins: layers.origins, ..config })
    }

    /// What only the combination of settings shows, and what a server cannot do without.
    ///
    /// # Errors
    /// * [`ConfigError::RemoteTrust`]: `trust` beyond loopback without the setting that allows it.
    /// * [`ConfigError::HttpWithoutToken`]: metrics beyond loopback for everybody.
    /// * [`ConfigError::CertWithoutCa`]: certificates are to let clients in, and none is asked for.
    /// * [`ConfigError::MethodWithoutTable`]: tokens or a directory are to let clients in, and none is configured.
    /// * [`ConfigError::AllReserved`]: no connection is left for anybody but superusers.
    /// * [`ConfigError::TlsIncomplete`]: TLS without a certificate or its key.
    /// * [`ConfigError::ShortLease`]: it would run out between two looks at the store.
    pub fn check(&self) -> Result<(), ConfigError> {
        if self.auth.trusts_beyond_loopback()
            && !self.listen.ip().to_canonical().is_loopback()
            && !self.allow_remote_trust
        {
            return Err(ConfigError::RemoteTrust { listen: self.listen });
        }
        if let Some(http) = self.http.filter(|http| !http.ip().to_canonical().is_loopback())
            && self.http_token_file.is_none()
        {
            return Err(ConfigError::HttpWithoutToken { http });
        }
        let files = [
            (Setting::TlsCert, &self.tls_cert, Setting::TlsKey, &self.tls_key),
            (Setting::TlsKey, &self.tls_key, Setting::TlsCert, &self.tls_cert),
            (Setting::TlsClientCa, &self.tls_client_ca, Setting::TlsCert, &self.tls_cert),
        ];
        for (setting, file, needs, needed) in files {
            if file.is_some() && needed.is_none() {
                return Err(ConfigError::TlsIncomplete { setting: setting.name(), needs: needs.name() });
            }
        }
        if self.tls != Tls::Off && self.tls_cert.is_none() {
            return Err(ConfigError::TlsIncomplete { setting: Setting::Tls.name(), needs: Setting::TlsCert.name() });
        }
        if self.auth.uses(Method::Cert) && self.tls_client_ca.is_none() {
            return Err(ConfigError::CertWithoutCa);
        }
        for (method, table, is_there) in
            [(Method::Jwt, "[[jwt]]", !self.issuers.is_empty()), (Method::Ldap, "[ldap]", self.directory.is_some())]
        {
            if self.auth.uses(method) && !is_there {
                return Err(ConfigError::MethodWithoutTable { method: method.as_str(), table });
            }
        }
        if self.superuser_reserved_connections >= self.max_connections {
            return Err(ConfigError::AllReserved);
        }
        let (lease, poll) = (self.store_lease, self.store_poll_interval);
        if lease < poll * 2 {
            let text = |length| value::duration_text(Some(length));
            return Err(ConfigError::ShortLease { lease: text(lease), poll: text(poll) });
        }
        Ok(())
    }

    /// Where the state is kept.
    ///
    /// # Errors
    /// [`ConfigError::NoStore`]: no store is named.
    pub fn store(&self) -> Result<&StoreLocation, ConfigError> {
        self.store.as_ref().ok_or(ConfigError::NoStore)
    }

    /// How connections are encrypted; `None`: they are not.
    pub fn tls(&self) -> Option<TlsConfig> {
        let mode = match self.tls {
            Tls::Off => return None,
            Tls::Allow => TlsMode::Allow,
            Tls::Require => TlsMode::Require,
        };
        let (certificate, key) = (self.tls_cert.clone()?, self.tls_key.clone()?);
        let client_ca = self.tls_client_ca.clone();
        Some(TlsConfig { mode, certificate, key, client_ca, poll_interval: value::TLS_POLL_DEFAULT })
    }

    /// Where the value of `setting` comes from.
    pub fn origin(&self, setting: Setting) -> Origin {
        self.origins.get(&setting).cloned().unwrap_or(Origin::Default)
    }

    /// Variables that start as ours do and are none: slips, most likely.
    pub fn unknown_variables(&self) -> &[String] {
        &self.unknown_variables
    }

    /// Whether a password stands on the command line, which every user of the machine can read.
    pub fn shows_password(&self) -> bool {
        self.shows_password
    }

    /// What the engine is told.
    pub fn engine(&self) -> EngineConfig {
        let mut engine = EngineConfig {
            scram_iterations: self.scram_iterations,
            statement_timeout: self.statement_timeout,
            idle_in_transaction_timeout: self.idle_in_transaction_timeout,
            accept_md5: self.auth.uses(Method::Md5),
            ..EngineConfig::default()
        };
        engine.hub.lease = self.store_lease;
        engine.limits.statement_bytes_max = self.statement_bytes_max;
        engine.limits.tokens_max = self.tokens_max;
        engine.limits.chain_max = self.chain_max;
        engine.limits.depth_max = self.depth_max;
        engine.limits.script_bytes_max = self.script_bytes_max;
        engine
    }

    /// All settings in force, in the order of [`Setting::ALL`].
    pub fn effective(&self) -> Vec<Effective> {
        Setting::ALL
            .into_iter()
            .map(|setting| Effective { setting, value: self.value_text(setting), origin: self.origin(setting) })
            .collect()
    }

    fn value_text(&self, setting: Setting) -> String {
        let set = |is_set| if is_set { "set" } else { "not set" }.to_owned();
        let file = |path: &Option<PathBuf>| path.as_ref().map_or_else(|| set(false), |path| path.display().to_string());
        match setting {
            Setting::Store => self.store.as_ref().map_or_else(|| set(false), StoreLocation::to_string),
            Setting::StorePollInterval => value::duration_text(Some(self.store_poll_interval)),
            Setting::StoreLease => value::duration_text(Some(self.store_lease)),
            Setting::Node => self.node.clone(),
            Setting::Listen => self.listen.to_string(),
            Setting::Http => self.http.map_or_else(|| set(false), |address| address.to_string()),
            Setting::HttpTokenFile => file(&self.http_token_file),
            Setting::Tls => self.tls.as_str().to_owned(),
            Setting::TlsCert => file(&self.tls_cert),
            Setting::TlsKey => file(&self.tls_key),
            Setting::TlsClientCa => file(&self.tls_client_ca),
            Setting::Auth => self.auth.to_string(),
            Setting::AllowRemoteTrust => value::boolean_text(self.allow_remote_trust),
            Setting::Admin => self.admin.as_str().to_owned(),
            Setting::AdminPassword => set(matches!(self.admin_password, AdminPassword::Text(_))),
            Setting::AdminPasswordFile => match &self.admin_password {
                AdminPassword::File(path) => path.display().to_string(),
                AdminPassword::None | AdminPassword::Text(_) => set(false),
            },
            Setting::SecretKey => set(matches!(self.secret_key, KeySource::Text(_))),
            Setting::SecretKeyFile => match &self.secret_key {
                KeySource::File(path) => path.display().to_string(),
                KeySource::None | KeySource::Text(_) | KeySource::Command(_) => set(false),
            },
            Setting::SecretKeyCommand => match &self.secret_key {
                KeySource::Command(command) => command.to_string(),
                KeySource::None | KeySource::Text(_) | KeySource::File(_) => set(false),
            },
            Setting::LogFormat => self.log_format.as_str().to_owned(),
            Setting::LogFilter => self.log_filter.clone(),
            Setting::MaxConnections => self.max_connections.to_string(),
            Setting::MaxConnectionsPerAddress => self.max_connections_per_address.to_string(),
            Setting::SuperuserReservedConnections => self.superuser_reserved_connections.to_string(),
            Setting::StatementTimeout => value::duration_text(self.statement_timeout),
            Setting::IdleInTransactionSessionTimeout => value::duration_text(self.idle_in_transaction_timeout),
            Setting::ShutdownTimeout => value::duration_text(Some(self.shutdown_timeout)),
            Setting::ScramIterations => self.scram_iterations.to_string(),
            Setting::StatementBytesMax => value::bytes_text(self.statement_bytes_max),
            Setting::TokensMax => self.tokens_max.to_string(),
            Setting::ChainMax => self.chain_max.to_string(),
            Setting::DepthMax => self.depth_max.to_string(),
            Setting::ScriptBytesMax => value::bytes_text(self.script_bytes_max),
        }
    }
}

#[cfg(test)]
mod tests;
