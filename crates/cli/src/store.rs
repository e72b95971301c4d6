//! Opens the store that a setting names: a file, or a database that coordinators share.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use dataglot_server::config::{Config, Environment, Flags, Setting, StoreLocation};
use dataglot_store::{Dsn, MetaStore, PostgresOptions, RedbOptions, StoreError, open_postgres, open_redb};

use crate::arguments::{SealedStore, SharedStore};
use crate::command::migrate;
use crate::failure::{Exit, Failure};

/// What is wrong with a password in a flag.
pub(crate) const SHOWS_PASSWORD: &str = "the password on the command line can be read by every user of this machine: \
     use a password file (passfile=FILE), a service file (service=NAME) or the variable DATAGLOT_STORE";

/// The longest that a server may take for a statement of a command that reads or writes a whole store.
const WHOLE_STORE_TIMEOUT: Duration = Duration::from_secs(600);

/// How a store is opened.
pub(crate) struct Opening<'a> {
    /// Make a file if there is none. (The tables in a database are made in any case.)
    create: bool,
    /// The identity of a store that is made as a copy.
    store_id: Option<[u8; 16]>,
    /// The name under which PostgreSQL lists the sessions.
    node: &'a str,
    /// How often to look for what others wrote; `None`: nobody looks.
    poll_interval: Option<Duration>,
}

impl<'a> Opening<'a> {
    /// For a server.
    pub(crate) fn serve(config: &'a Config) -> Self {
        Opening { create: true, store_id: None, node: &config.node, poll_interval: Some(config.store_poll_interval) }
    }

    /// For a command that reads what is there.
    pub(crate) const fn read(command: &'a str) -> Self {
        Opening { create: false, store_id: None, node: command, poll_interval: None }
    }

    /// For a command that makes a copy of the store `store_id`.
    pub(crate) const fn copy(command: &'a str, store_id: [u8; 16]) -> Self {
        Opening { create: true, store_id: Some(store_id), node: command, poll_interval: None }
    }
}

/// Opens the store at `location`.
pub(crate) fn open(location: &StoreLocation, opening: &Opening<'_>) -> Result<Arc<dyn MetaStore>, StoreError> {
    let Opening { create, store_id, node, poll_interval } = *opening;
    match location {
        StoreLocation::Path(path) => open_redb(path, RedbOptions { create, store_id, ..RedbOptions::default() }),
        StoreLocation::Dsn(dsn) => {
            let mut options = PostgresOptions::new(Dsn::clone(dsn));
            node.clone_into(&mut options.node);
            options.store_id = store_id;
            match poll_interval {
                Some(interval) => options.poll_interval = interval,
                None => options.statement_timeout = WHOLE_STORE_TIMEOUT,
            }
            open_postgres(options)
        }
    }
}

/// Refuses a database whose schema is not the one of this version, for a command that only reads: opening it would
/// bring it up to date, under servers that may not know the new one.
pub(crate) fn refuse_pending(location: &StoreLocation) -> Result<(), Failure> {
    match location {
        StoreLocation::Path(_) => Ok(()),
        StoreLocation::Dsn(dsn) => migrate::refuse_pending(dsn),
    }
}

/// Where it is, for people: the file, or the database without any credential.
pub(crate) fn place(location: &StoreLocation) -> String {
    match location {
        StoreLocation::Path(path) => path.display().to_string(),
        StoreLocation::Dsn(dsn) => dsn.location(),
    }
}

/// The configuration that `sealed` names, for a command on a store and its keys.
pub(crate) fn config_of(sealed: &SealedStore) -> Result<Config, Failure> {
    let SealedStore { store, config, secret_key_file } = sealed;
    let flags = Flags::new()
        .with_file(config.clone())
        .with(Setting::Store, store.clone())
        .with(Setting::SecretKeyFile, secret_key_file.clone());
    load(&flags)
}

fn load(flags: &Flags) -> Result<Config, Failure> {
    let config = Config::load(flags, &Environment::read())?;
    if config.shows_password() {
        tracing::warn!("{SHOWS_PASSWORD}");
    }
    Ok(config)
}

/// The database that `shared` names, for what is done to a store in PostgreSQL only.
pub(crate) fn dsn_of(shared: &SharedStore) -> Result<Dsn, Failure> {
    let flags = Flags::new().with_file(shared.config.clone()).with(Setting::Store, shared.store.clone());
    match load(&flags)?.store()? {
        StoreLocation::Dsn(dsn) => Ok(Dsn::clone(dsn)),
        StoreLocation::Path(path) => Err(not_shared(path)),
    }
}

fn not_shared(path: &Path) -> Failure {
    let help = "A file is looked after by the server that has it open. Name a database by dsn=CONNINFO.".to_owned();
    Failure::new(Exit::Usage, format!("store \"{}\" is a file, not a database", path.display()), Some(help))
}
