//! `dataglot backup`: a checked copy of one committed state of a store.

use crate::arguments::BackupArguments;
use crate::failure::{Exit, Failure};
use crate::store::{self, Opening};
use crate::{logging, output};
use dataglot_server::config::{Config, Environment, Flags, Setting};

/// As what PostgreSQL lists the sessions.
const NODE: &str = "backup";

pub(crate) fn run(arguments: &BackupArguments) -> Result<(), Failure> {
    logging::start_warnings()?;
    let flags = Flags::new().with(Setting::Store, Some(arguments.store.clone()));
    let config = Config::load(&flags, &Environment::default())?;
    let location = config.store()?;
    store::refuse_pending(location)?;
    let store = store::open(location, &Opening::read(NODE))?;
    store.backup(&arguments.to)?;
    let size = std::fs::metadata(&arguments.to)
        .map_err(|e| Failure::io(Exit::Store, format_args!("\"{}\" cannot be read", arguments.to.display()), &e))?
        .len();
    let (from, to) = (store::place(location), arguments.to.display());
    output::line(&format!("copied {from} to {to} ({size} bytes), checked"));
    Ok(())
}
