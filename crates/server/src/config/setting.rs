//! The list of settings, and where each may come from.

/// A setting. Its flag is `--name-with-hyphens`, its variable `DATAGLOT_NAME`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs, reason = "the fields of `Config` say what each is")]
pub enum Setting {
    Store,
    StorePollInterval,
    StoreLease,
    Node,
    Listen,
    Http,
    HttpTokenFile,
    Tls,
    TlsCert,
    TlsKey,
    TlsClientCa,
    Auth,
    AllowRemoteTrust,
    Admin,
    AdminPassword,
    AdminPasswordFile,
    SecretKey,
    SecretKeyFile,
    SecretKeyCommand,
    LogFormat,
    LogFilter,
    MaxConnections,
    MaxConnectionsPerAddress,
    SuperuserReservedConnections,
    StatementTimeout,
    IdleInTransactionSessionTimeout,
    ShutdownTimeout,
    ScramIterations,
    StatementBytesMax,
    TokensMax,
    ChainMax,
    DepthMax,
    ScriptBytesMax,
}

/// Where in the file a setting stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// At the top, under its own name.
    Top,
    /// In `[catalog_service]`, as `path` or `dsn`.
    CatalogService,
    /// In `[limits]`, under its own name.
    Limits,
    /// Not at all: what is secret stays out of files that are copied about.
    Nowhere,
}

impl Setting {
    /// All of them, in the order in which they are shown.
    pub const ALL: [Setting; 33] = [
        Setting::Store,
        Setting::StorePollInterval,
        Setting::StoreLease,
        Setting::Node,
        Setting::Listen,
        Setting::Http,
        Setting::HttpTokenFile,
        Setting::Tls,
        Setting::TlsCert,
        Setting::TlsKey,
        Setting::TlsClientCa,
        Setting::Auth,
        Setting::AllowRemoteTrust,
        Setting::Admin,
        Setting::AdminPassword,
        Setting::AdminPasswordFile,
        Setting::SecretKey,
        Setting::SecretKeyFile,
        Setting::SecretKeyCommand,
        Setting::LogFormat,
        Setting::LogFilter,
        Setting::MaxConnections,
        Setting::MaxConnectionsPerAddress,
        Setting::SuperuserReservedConnections,
        Setting::StatementTimeout,
        Setting::IdleInTransactionSessionTimeout,
        Setting::ShutdownTimeout,
        Setting::ScramIterations,
        Setting::StatementBytesMax,
        Setting::TokensMax,
        Setting::ChainMax,
        Setting::DepthMax,
        Setting::ScriptBytesMax,
    ];

    /// Its name, as in the file.
    pub const fn name(self) -> &'static str {
        match self {
            Setting::Store => "store",
            Setting::StorePollInterval => "store_poll_interval",
            Setting::StoreLease => "store_lease",
            Setting::Node => "node",
            Setting::Listen => "listen",
            Setting::Http => "http",
            Setting::HttpTokenFile => "http_token_file",
            Setting::Tls => "tls",
            Setting::TlsCert => "tls_cert",
            Setting::TlsKey => "tls_key",
            Setting::TlsClientCa => "tls_client_ca",
            Setting::Auth => "auth",
            Setting::AllowRemoteTrust => "allow_remote_trust",
            Setting::Admin => "admin",
            Setting::AdminPassword => "admin_password",
            Setting::AdminPasswordFile => "admin_password_file",
            Setting::SecretKey => "secret_key",
            Setting::SecretKeyFile => "secret_key_file",
            Setting::SecretKeyCommand => "secret_key_command",
            Setting::LogFormat => "log_format",
            Setting::LogFilter => "log_filter",
            Setting::MaxConnections => "max_connections",
            Setting::MaxConnectionsPerAddress => "max_connections_per_address",
            Setting::SuperuserReservedConnections => "superuser_reserved_connections",
            Setting::StatementTimeout => "statement_timeout",
            Setting::IdleInTransactionSessionTimeout => "idle_in_transaction_session_timeout",
            Setting::ShutdownTimeout => "shutdown_timeout",
            Setting::ScramIterations => "scram_iterations",
            Setting::StatementBytesMax => "statement_bytes_max",
            Setting::TokensMax => "tokens_max",
            Setting::ChainMax => "chain_max",
            Setting::DepthMax => "depth_max",
            Setting::ScriptBytesMax => "script_bytes_max",
        }
    }

    /// Whether it has a flag. A secret has none: every user of the machine can read a command line.
    pub const fn has_flag(self) -> bool {
        !self.is_secret()
    }

    /// Whether its value must not be shown.
    pub const fn is_secret(self) -> bool {
        matches!(self, Setting::SecretKey | Setting::AdminPassword)
    }

    /// Its flag, without the leading hyphens.
    pub fn flag(self) -> String {
        self.name().replace('_', "-")
    }

    /// Its variable.
    pub fn variable(self) -> String {
        format!("DATAGLOT_{}", self.name().to_ascii_uppercase())
    }

    pub(super) const fn place(self) -> Place {
        match self {
            Setting::Store => Place::CatalogService,
            Setting::SecretKey | Setting::AdminPassword => Place::Nowhere,
            Setting::StatementBytesMax
            | Setting::TokensMax
            | Setting::ChainMax
            | Setting::DepthMax
            | Setting::ScriptBytesMax => Place::Limits,
            Setting::StorePollInterval
            | Setting::StoreLease
            | Setting::Node
            | Setting::Listen
            | Setting::Http
            | Setting::HttpTokenFile
            | Setting::Tls
            | Setting::TlsCert
            | Setting::TlsKey
            | Setting::TlsClientCa
            | Setting::Auth
            | Setting::AllowRemoteTrust
            | Setting::Admin
            | Setting::AdminPasswordFile
            | Setting::SecretKeyFile
            | Setting::SecretKeyCommand
            | Setting::LogFormat
            | Setting::LogFilter
            | Setting::MaxConnections
            | Setting::MaxConnectionsPerAddress
            | Setting::SuperuserReservedConnections
            | Setting::StatementTimeout
            | Setting::IdleInTransactionSessionTimeout
            | Setting::ShutdownTimeout
            | Setting::ScramIterations => Place::Top,
        }
    }

    pub(super) fn named(name: &str, place: Place) -> Option<Self> {
        Self::ALL.into_iter().find(|s| s.place() == place && s.name() == name)
    }
}
