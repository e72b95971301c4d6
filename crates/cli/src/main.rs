//! The `dataglot` binary: starts a server, shows its configuration, looks after stores.

mod arguments;
mod command;
mod confirm;
mod failure;
mod key;
mod logging;
mod output;
mod serving;
mod store;

use std::process::ExitCode;

use clap::Parser as _;

use crate::arguments::{Arguments, Command};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let done = match Arguments::parse().command {
        Command::Dev(dev) => command::dev::run(&dev),
        Command::Serve(settings) => command::serve::run(&settings),
        Command::Config(settings) => command::config::run(&settings),
        Command::Backup(backup) => command::backup::run(&backup),
        Command::Migrate(migrate) => command::migrate::run(&migrate),
        Command::Copy(copy) => command::copy::run(&copy),
        Command::AcceptHistory(accept) => command::accept_history::run(&accept),
        Command::ResolveCatalogs(resolve) => command::resolve_catalogs::run(&resolve),
        Command::ResetSecrets(reset) => command::reset_secrets::run(&reset),
        Command::Rekey(what) => command::rekey::run(&what),
        Command::Version => command::version::run(),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            failure.print();
            failure.exit().into()
        }
    }
}
