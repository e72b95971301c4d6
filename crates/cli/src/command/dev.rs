//! `dataglot dev`: a server to try things out with, and what is unsafe about it.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;

use dataglot_server::Method;
use dataglot_server::config::{Config, Environment, Flags, Origin, Setting, StoreLocation};
use dataglot_server::keyfile;
use dataglot_session::OsEntropy;
use dataglot_vault::KeyRing;

use crate::arguments::DevArguments;
use crate::failure::{Exit, Failure};
use crate::{logging, output, serving};

const STORE_FILE: &str = "meta.redb";
const KEY_FILE: &str = "secret.key";
/// What this mode decides by itself, whatever the environment says.
const FIXED: [Setting; 14] = [
    Setting::Store,
    Setting::Listen,
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
];

pub(crate) fn run(arguments: &DevArguments) -> Result<(), Failure> {
    let (store, key) = (arguments.dir.join(STORE_FILE), arguments.dir.join(KEY_FILE));
    let flags = Flags::new()
        .with(Setting::Listen, Some(arguments.listen.clone()))
        .with(Setting::Auth, Some(Method::Trust.as_str().to_owned()))
        .with(Setting::LogFormat, arguments.log_format.clone())
        .with(Setting::LogFilter, arguments.log_filter.clone());
    let mut config = Config::load(&flags, &Environment::read().without(&FIXED))?;
    if config.origin(Setting::LogFilter) == Origin::Default {
        config.log_filter = "warn".to_owned();
    }
    config.check()?;
    logging::start(&config)?;
    make_directory(&arguments.dir)?;
    let (ring, made) = key_ring(&store, &key)?;
    let fingerprint = ring.primary_id().map_or_else(|| "none".to_owned(), |id| id.to_string());
    serving::run(&config, &StoreLocation::Path(store.clone()), ring, |started| {
        let (host, port) = (started.address.ip(), started.address.port());
        output::line(&format!("dataglot {}, development mode", env!("CARGO_PKG_VERSION")));
        output::line(&format!("listening on {}", started.address));
        output::line(&format!("store {}{}", store.display(), if started.new { " (new)" } else { "" }));
        output::line(&format!("secret key {} ({fingerprint}{})", key.display(), if made { ", new" } else { "" }));
        output::line("");
        output::line("Connect with:");
        output::line(&format!("    psql 'host={host} port={port} user={} dbname=default'", config.admin));
        output::line("");
        output::line("Not for production:");
        output::line("  - no password is asked for: every user and every program on this machine is a superuser here");
        output::line("  - connections are not encrypted");
        output::line("  - the secret key lies beside the store that it protects");
    })
}

/// The directory of store and key, for its owner only if it has to be made.
fn make_directory(path: &Path) -> Result<(), Failure> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
        .map_err(|e| Failure::io(Exit::Store, format_args!("directory \"{}\" cannot be made", path.display()), &e))
}

/// The key of the key file. One is made only where there is no store yet: a new key over an old store would
/// be the wrong one. A store without its key file is tried without a key, and the refusal says which key
/// it wants.
fn key_ring(store: &Path, key: &Path) -> Result<(KeyRing, bool), Failure> {
    let is_there = |path: &Path| match fs::symlink_metadata(path) {
        Ok(_) => Ok(true),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(e) => Err(Failure::io(Exit::Store, format_args!("\"{}\" cannot be read", path.display()), &e)),
    };
    match (is_there(store)?, is_there(key)?) {
        (_, true) => Ok((keyfile::read(key)?, false)),
        (false, false) => Ok((keyfile::create(key, &OsEntropy)?, true)),
        (true, false) => Ok((KeyRing::none(), false)),
    }
}
