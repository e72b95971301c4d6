//! `dataglot backup`: a checked copy of a store that no server has open.

use dataglot_server::config::{Config, Environment, Flags, Setting};
use dataglot_store::{RedbOptions, open_redb};

use crate::arguments::BackupArguments;
use crate::failure::{Exit, Failure};
use crate::output;

pub(crate) fn run(arguments: &BackupArguments) -> Result<(), Failure> {
    let flags = Flags::new().with(Setting::Store, Some(arguments.store.clone()));
    let config = Config::load(&flags, &Environment::default())?;
    let path = config.store_path()?;
    let store = open_redb(path, RedbOptions { create: false, ..RedbOptions::default() })?;
    store.backup(&arguments.to)?;
    let size = std::fs::metadata(&arguments.to)
        .map_err(|e| Failure::io(Exit::Store, format_args!("\"{}\" cannot be read", arguments.to.display()), &e))?
        .len();
    output::line(&format!("copied {} to {} ({size} bytes), checked", path.display(), arguments.to.display()));
    Ok(())
}
