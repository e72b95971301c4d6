//! The command line.

use clap::{Args, Parser, Subcommand};
use dataglot_server::config::{Flags, Setting};

/// What `--help` says of exit codes; `docs/cli.md` says more.
const EXIT_CODES: &str = "Exit codes:
  0  done, or stopped by SIGTERM or SIGINT
  1  internal error, or a server that failed while running
  2  command line or configuration
  3  the store cannot be opened: in use, damaged, of a newer version, missing
  4  the secret key: missing, unusable, or not the one of the store
  5  cannot listen on the address
  6  the schema of the store: migrations are pending, or it differs from what they make
  7  nothing was copied: the target is as it was, or empty
  8  the copy failed, and what was written to the target is still there
  9  the store is new, and its first superuser has no password, or none that can be used
  10 some secrets could not be resolved
  11 rekey: something does not open, or a key is still needed
  12 rekey: the server cannot be reached, or has refused";

/// The SQL control plane of a federated query engine.
#[derive(Debug, Parser)]
#[command(name = "dataglot", version, propagate_version = true, after_help = EXIT_CODES)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Start a server for trying things out: its own store, no passwords, this machine only
    #[command(after_help = EXIT_CODES)]
    Dev(DevArguments),
    /// Start a server
    ///
    /// Each setting is a flag, else a variable `DATAGLOT_<SETTING>`, else a line of the configuration file,
    /// else its default. The secret key itself is read from DATAGLOT_SECRET_KEY, a file or a program, never from a flag.
    #[command(after_help = EXIT_CODES)]
    Serve(Box<SettingArguments>),
    /// Print the settings in force and where each comes from
    #[command(after_help = EXIT_CODES)]
    Config(Box<SettingArguments>),
    /// Copy one committed state of a store to a file, and check the copy
    #[command(after_help = EXIT_CODES)]
    Backup(BackupArguments),
    /// Bring the schema of a store in PostgreSQL up to date, or look at it
    #[command(subcommand, after_help = EXIT_CODES)]
    Migrate(Migrate),
    /// Copy a whole store, history and identities included, into an empty one, and compare the two
    #[command(after_help = EXIT_CODES)]
    Copy(CopyArguments),
    /// Go on with a database whose history was replaced by a shorter or another one
    ///
    /// After a failover to a replica that was behind, or a restored backup, no coordinator writes to it until
    /// somebody has decided that the history that is there now holds.
    #[command(after_help = EXIT_CODES)]
    AcceptHistory(AcceptHistoryArguments),
    /// Print the catalogs of a database as executors are given them: credentials are references
    ///
    /// With --resolve the values are put in their place, into a file of mode 0600.
    #[command(after_help = EXIT_CODES)]
    ResolveCatalogs(ResolveCatalogsArguments),
    /// Make a store usable again whose secret key is gone for good: what no key opens is marked as lost
    ///
    /// Says what is lost first. Secrets keep their names and all that refers to them, and get new values by ALTER
    /// SECRET; users whose password was sealed have none. The first key given takes over.
    #[command(after_help = EXIT_CODES)]
    ResetSecrets(ResetSecretsArguments),
    /// Change the secret key: see what needs which, wrap anew, verify, take the old one away
    ///
    /// With --server by SQL through a server that runs, as a superuser of every database; else on the store itself,
    /// with the secret key of the configuration.
    #[command(subcommand, after_help = EXIT_CODES)]
    Rekey(Rekey),
    /// Print the version
    Version,
}

#[derive(Debug, Args)]
pub(crate) struct DevArguments {
    /// Where to listen; port 0 takes a free one
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:7432")]
    pub(crate) listen: String,
    /// The directory of the store and the key file
    #[arg(long, value_name = "DIR", default_value = "./.dataglot")]
    pub(crate) dir: std::path::PathBuf,
    /// text or json
    #[arg(long, value_name = "FORMAT")]
    pub(crate) log_format: Option<String>,
    /// Which log lines: error, warn, info, debug, trace, or directives such as dataglot_store=debug
    #[arg(long, value_name = "FILTER")]
    pub(crate) log_filter: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct BackupArguments {
    /// The store: path=FILE that no server has open, or dsn=CONNINFO
    #[arg(long, value_name = "STORE")]
    pub(crate) store: String,
    /// The copy; what is there is replaced once the copy has been checked
    #[arg(long, value_name = "FILE")]
    pub(crate) to: std::path::PathBuf,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Migrate {
    /// Apply the migrations that are pending
    #[command(after_help = EXIT_CODES)]
    Up(UpArguments),
    /// List the migrations, and what was applied by whom and when
    #[command(after_help = EXIT_CODES)]
    Status(SharedStore),
    /// Compare the schema with the one that the migrations make, and print each difference
    #[command(after_help = EXIT_CODES)]
    Check(SharedStore),
}

#[derive(Debug, Args)]
pub(crate) struct UpArguments {
    #[command(flatten)]
    pub(crate) store: SharedStore,
    /// The role that the coordinators log in as, if it is another one: it is granted what it needs
    #[arg(long, value_name = "NAME")]
    pub(crate) role: Option<String>,
}

/// Where a store in PostgreSQL is, and how to print what is found.
#[derive(Debug, Args)]
pub(crate) struct SharedStore {
    /// The store; else DATAGLOT_STORE, else the configuration file
    #[arg(long, value_name = "dsn=CONNINFO")]
    pub(crate) store: Option<String>,
    /// Configuration file (TOML); also DATAGLOT_CONFIG
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<String>,
    /// For scripts: one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct CopyArguments {
    /// The source: path=FILE that no server has open, or dsn=CONNINFO. It is not written to
    #[arg(long, value_name = "STORE")]
    pub(crate) from: String,
    /// The target: path=FILE that does not exist, or dsn=CONNINFO of a database without a store in use
    #[arg(long, value_name = "STORE")]
    pub(crate) to: String,
    /// Copy nothing: only read both and compare
    #[arg(long)]
    pub(crate) check_only: bool,
}

#[derive(Debug, Args)]
pub(crate) struct AcceptHistoryArguments {
    #[command(flatten)]
    pub(crate) store: SharedStore,
    /// The database (org)
    #[arg(long, value_name = "NAME")]
    pub(crate) org: String,
    /// Do it without asking
    #[arg(long)]
    pub(crate) yes: bool,
}

/// Where a store is, and the keys that open what is sealed in it.
#[derive(Debug, Args)]
pub(crate) struct SealedStore {
    /// The store: path=FILE that no server has open, or dsn=CONNINFO; else DATAGLOT_STORE, else the configuration
    /// file
    #[arg(long, value_name = "STORE")]
    pub(crate) store: Option<String>,
    /// Configuration file (TOML); also DATAGLOT_CONFIG
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<String>,
    /// The file with the secret keys, mode 0600 or 0400, the primary one first; else as the configuration says
    #[arg(long, value_name = "FILE")]
    pub(crate) secret_key_file: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct ResolveCatalogsArguments {
    #[command(flatten)]
    pub(crate) store: SealedStore,
    /// The database (org)
    #[arg(long, value_name = "NAME", default_value = "default")]
    pub(crate) org: String,
    /// Put the values of secrets in the place of references; needs --out
    #[arg(long)]
    pub(crate) resolve: bool,
    /// Where the document goes, mode 0600; `-` is standard output
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<String>,
    /// Print values to standard output, as --resolve --out - asks
    #[arg(long)]
    pub(crate) yes_print_secrets: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ResetSecretsArguments {
    #[command(flatten)]
    pub(crate) store: SealedStore,
    /// The id of the store, as the command prints it without this
    #[arg(long, value_name = "STORE-ID")]
    pub(crate) confirm: Option<String>,
    /// Do it without asking
    #[arg(long, requires = "confirm")]
    pub(crate) yes: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Rekey {
    /// List what each database needs of each key
    #[command(after_help = EXIT_CODES)]
    Status(RekeyArguments),
    /// Make the primary key enough. Whoever is interrupted runs it again
    #[command(after_help = EXIT_CODES)]
    Rewrap(RekeyArguments),
    /// Open everything that is sealed, and compare it with what history recorded
    #[command(after_help = EXIT_CODES)]
    Verify(RekeyArguments),
    /// Say whether a key may be taken out of the configuration
    #[command(after_help = EXIT_CODES)]
    Remove(RemoveArguments),
}

/// Where the orgs are, and how to print what is found.
#[derive(Debug, Args)]
pub(crate) struct RekeyArguments {
    /// A server that runs: a connection string, as in 'host=127.0.0.1 port=7432 user=admin'; its database is left out
    #[arg(long, value_name = "CONNINFO", conflicts_with_all = ["store", "config", "secret_key_file"])]
    pub(crate) server: Option<String>,
    /// A file with the user's password, mode 0600 or 0400
    #[arg(long, value_name = "FILE", requires = "server")]
    pub(crate) password_file: Option<std::path::PathBuf>,
    /// The CAs of the server's certificate, in PEM; else those of the operating system
    #[arg(long, value_name = "FILE", requires = "server")]
    pub(crate) ca: Option<std::path::PathBuf>,
    #[command(flatten)]
    pub(crate) store: SealedStore,
    /// One database (org) only; without it, all of them
    #[arg(long, value_name = "NAME")]
    pub(crate) org: Option<String>,
    /// For scripts: one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct RemoveArguments {
    #[command(flatten)]
    pub(crate) place: RekeyArguments,
    /// The fingerprint of the key, as `rekey status` shows it
    #[arg(value_name = "FINGERPRINT")]
    pub(crate) key: String,
}

/// A flag for every setting that may have one. Values are read by `server::config`, all in one way.
#[derive(Debug, Args)]
pub(crate) struct SettingArguments {
    /// Configuration file (TOML); also DATAGLOT_CONFIG
    #[arg(long, value_name = "FILE")]
    config: Option<String>,
    /// Where the state is kept: path=FILE, or dsn=CONNINFO for PostgreSQL
    #[arg(long, value_name = "STORE")]
    store: Option<String>,
    /// How often to look for what other coordinators wrote to a shared store [default: 1s]
    #[arg(long, value_name = "TIME")]
    store_poll_interval: Option<String>,
    /// How long a shared store may be out of reach before access is refused [default: 30s]
    #[arg(long, value_name = "TIME")]
    store_lease: Option<String>,
    /// The name of this coordinator among others; without it the host's
    #[arg(long, value_name = "NAME")]
    node: Option<String>,
    /// Where to listen; port 0 takes a free one [default: 127.0.0.1:7432]
    #[arg(long, value_name = "ADDR:PORT")]
    listen: Option<String>,
    /// Where to answer /healthz, /readyz and /metrics over HTTP; without it nowhere
    #[arg(long, value_name = "ADDR:PORT")]
    http: Option<String>,
    /// A file with the token that those requests have to bring, mode 0600; required off loopback
    #[arg(long, value_name = "FILE")]
    http_token_file: Option<String>,
    /// Encrypted connections: off, allow or require; with a certificate, allow [default: off]
    #[arg(long, value_name = "MODE")]
    tls: Option<String>,
    /// The server's certificate and those between it and a CA, in PEM
    #[arg(long, value_name = "FILE")]
    tls_cert: Option<String>,
    /// The key of the certificate, in PEM, mode 0600
    #[arg(long, value_name = "FILE")]
    tls_key: Option<String>,
    /// The CAs of clients' certificates, in PEM; with it, clients are asked for one
    #[arg(long, value_name = "FILE")]
    tls_client_ca: Option<String>,
    /// How clients prove who they are: scram-sha-256, password, cert, md5, trust; or a list of hba rules in the
    /// configuration file [default: scram-sha-256]
    #[arg(long, value_name = "METHOD")]
    auth: Option<String>,
    /// Let trust listen beyond loopback: anyone who reaches the address is let in as anyone
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    allow_remote_trust: Option<String>,
    /// The superuser that is made in a new store [default: admin]
    #[arg(long, value_name = "NAME")]
    admin: Option<String>,
    /// A file with that superuser's password, mode 0600; also DATAGLOT_ADMIN_PASSWORD
    #[arg(long, value_name = "FILE")]
    admin_password_file: Option<String>,
    /// A file with the secret key, mode 0600
    #[arg(long, value_name = "FILE")]
    secret_key_file: Option<String>,
    /// A program that prints the secret key: a list in JSON, as in '["pass", "show", "dataglot"]'. No shell
    #[arg(long, value_name = "LIST")]
    secret_key_command: Option<String>,
    /// text or json [default: text]
    #[arg(long, value_name = "FORMAT")]
    log_format: Option<String>,
    /// Which log lines: error, warn, info, debug, trace, or directives [default: info]
    #[arg(long, value_name = "FILTER")]
    log_filter: Option<String>,
    /// Most connections at once [default: 500]
    #[arg(long, value_name = "N")]
    max_connections: Option<String>,
    /// Most connections at once from one address; without it, max-connections [default: 500]
    #[arg(long, value_name = "N")]
    max_connections_per_address: Option<String>,
    /// How many connections are for superusers [default: 3]
    #[arg(long, value_name = "N")]
    superuser_reserved_connections: Option<String>,
    /// Longest run of a statement in sessions that set none; 0 is off [default: 0]
    #[arg(long, value_name = "TIME")]
    statement_timeout: Option<String>,
    /// Longest idle transaction in sessions that set none; 0 is off [default: 0]
    #[arg(long, value_name = "TIME")]
    idle_in_transaction_session_timeout: Option<String>,
    /// How long statements in flight may take to finish at shutdown [default: 10s]
    #[arg(long, value_name = "TIME")]
    shutdown_timeout: Option<String>,
    /// Iterations of a new password's verifier [default: 15000]
    #[arg(long, value_name = "N")]
    scram_iterations: Option<String>,
    /// Longest statement [default: 1MB]
    #[arg(long, value_name = "BYTES", help_heading = "Limits")]
    statement_bytes_max: Option<String>,
    /// Most tokens of a statement [default: 20000]
    #[arg(long, value_name = "N", help_heading = "Limits")]
    tokens_max: Option<String>,
    /// Longest chain of operators of a statement [default: 500]
    #[arg(long, value_name = "N", help_heading = "Limits")]
    chain_max: Option<String>,
    /// Deepest nesting of a statement [default: 40]
    #[arg(long, value_name = "N", help_heading = "Limits")]
    depth_max: Option<String>,
    /// Longest query string [default: 64MB]
    #[arg(long, value_name = "BYTES", help_heading = "Limits")]
    script_bytes_max: Option<String>,
}

impl SettingArguments {
    /// The flags that are given.
    pub(crate) fn flags(&self) -> Flags {
        let SettingArguments {
            config,
            store,
            store_poll_interval,
            store_lease,
            node,
            listen,
            http,
            http_token_file,
            tls,
            tls_cert,
            tls_key,
            tls_client_ca,
            auth,
            allow_remote_trust,
            admin,
            admin_password_file,
            secret_key_file,
            secret_key_command,
            log_format,
            log_filter,
            max_connections,
            max_connections_per_address,
            superuser_reserved_connections,
            statement_timeout,
            idle_in_transaction_session_timeout,
            shutdown_timeout,
            scram_iterations,
            statement_bytes_max,
            tokens_max,
            chain_max,
            depth_max,
            script_bytes_max,
        } = self;
        Flags::new()
            .with_file(config.clone())
            .with(Setting::Store, store.clone())
            .with(Setting::StorePollInterval, store_poll_interval.clone())
            .with(Setting::StoreLease, store_lease.clone())
            .with(Setting::Node, node.clone())
            .with(Setting::Listen, listen.clone())
            .with(Setting::Http, http.clone())
            .with(Setting::HttpTokenFile, http_token_file.clone())
            .with(Setting::Tls, tls.clone())
            .with(Setting::TlsCert, tls_cert.clone())
            .with(Setting::TlsKey, tls_key.clone())
            .with(Setting::TlsClientCa, tls_client_ca.clone())
            .with(Setting::Auth, auth.clone())
            .with(Setting::AllowRemoteTrust, allow_remote_trust.clone())
            .with(Setting::Admin, admin.clone())
            .with(Setting::AdminPasswordFile, admin_password_file.clone())
            .with(Setting::SecretKeyFile, secret_key_file.clone())
            .with(Setting::SecretKeyCommand, secret_key_command.clone())
            .with(Setting::LogFormat, log_format.clone())
            .with(Setting::LogFilter, log_filter.clone())
            .with(Setting::MaxConnections, max_connections.clone())
            .with(Setting::MaxConnectionsPerAddress, max_connections_per_address.clone())
            .with(Setting::SuperuserReservedConnections, superuser_reserved_connections.clone())
            .with(Setting::StatementTimeout, statement_timeout.clone())
            .with(Setting::IdleInTransactionSessionTimeout, idle_in_transaction_session_timeout.clone())
            .with(Setting::ShutdownTimeout, shutdown_timeout.clone())
            .with(Setting::ScramIterations, scram_iterations.clone())
            .with(Setting::StatementBytesMax, statement_bytes_max.clone())
            .with(Setting::TokensMax, tokens_max.clone())
            .with(Setting::ChainMax, chain_max.clone())
            .with(Setting::DepthMax, depth_max.clone())
            .with(Setting::ScriptBytesMax, script_bytes_max.clone())
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;
    use dataglot_server::config::{Config, Environment, Origin};

    use super::*;

    #[test]
    fn the_command_line_is_well_formed() {
        Arguments::command().debug_assert();
    }

    /// Every setting with a flag has it, and no other flag is there.
    #[test]
    fn every_setting_has_its_flag() {
        let command = Arguments::command();
        let serve = command.find_subcommand("serve").unwrap();
        let mut flags: Vec<String> =
            serve.get_arguments().filter_map(|a| a.get_long()).map(str::to_owned).filter(|f| f != "help").collect();
        let mut wanted: Vec<String> =
            Setting::ALL.iter().filter(|s| s.has_flag()).map(|s| s.flag()).chain(["config".to_owned()]).collect();
        flags.sort();
        wanted.sort();
        assert_eq!(flags, wanted);
    }

    /// The defaults that the help names are the ones in force.
    #[test]
    fn the_help_tells_the_defaults() {
        let command = Arguments::command();
        let serve = command.find_subcommand("serve").unwrap();
        let config = Config::load(&Flags::new(), &Environment::default()).unwrap();
        for found in config.effective().into_iter().filter(|e| e.setting.has_flag() && e.value != "not set") {
            let flag = found.setting.flag();
            let argument = serve.get_arguments().find(|a| a.get_long() == Some(flag.as_str())).unwrap();
            let help = argument.get_help().map(ToString::to_string).unwrap_or_default();
            if found.setting == Setting::Node {
                assert_eq!(help, "The name of this coordinator among others; without it the host's");
                continue;
            }
            let said = help.split_once("[default: ").and_then(|(_, rest)| rest.split_once(']')).map(|(d, _)| d);
            let value = if found.value == "false" { None } else { Some(found.value.as_str()) };
            assert_eq!(said, value, "--{flag}");
        }
    }

    #[test]
    fn a_flag_without_a_value_is_true() {
        for (given, expected) in [(vec![], false), (vec!["--allow-remote-trust"], true)] {
            let arguments = Arguments::parse_from(["dataglot", "serve"].into_iter().chain(given));
            let Command::Serve(settings) = arguments.command else { panic!("it is serve") };
            let config = Config::load(&settings.flags(), &Environment::default()).unwrap();
            assert_eq!(config.allow_remote_trust, expected);
            assert_eq!(config.origin(Setting::AllowRemoteTrust) != Origin::Default, expected);
        }
    }
}
