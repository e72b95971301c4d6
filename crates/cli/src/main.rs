//! The `dataglot` binary: starts a server, shows its configuration, copies a store.

mod arguments;
mod command;
mod failure;
mod logging;
mod output;
mod serving;

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
