//! The log: to standard error, our own targets only.
//!
//! Dependencies are not listened to at any level, since what they log may hold bytes of the wire; our own
//! lines hold kinds, names and numbers, no SQL text.

use std::io::IsTerminal as _;

use dataglot_server::config::{Config, Environment, Flags, LogFormat, Setting};
use tracing_subscriber::filter::{EnvFilter, filter_fn};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{Layer as _, fmt};

use crate::failure::{Exit, Failure};

/// What the targets of our own lines start with.
const TARGET_PREFIX: &str = "dataglot";

/// Starts a log of warnings, for commands that do one thing and end. Once a process.
pub(crate) fn start_warnings() -> Result<(), Failure> {
    let config =
        Config::load(&Flags::new().with(Setting::LogFilter, Some("warn".to_owned())), &Environment::default())?;
    start(&config)
}

/// Starts the log as configured. Once a process.
pub(crate) fn start(config: &Config) -> Result<(), Failure> {
    let filter = EnvFilter::try_new(&config.log_filter).map_err(|_| {
        Failure::new(
            Exit::Usage,
            "\"log_filter\" is not a filter",
            Some("Use error, warn, info, debug or trace, or directives such as info,dataglot_store=debug.".to_owned()),
        )
    })?;
    let base = fmt::layer().with_writer(std::io::stderr).with_ansi(std::io::stderr().is_terminal());
    let lines = match config.log_format {
        LogFormat::Text => base.boxed(),
        LogFormat::Json => base.json().with_ansi(false).boxed(),
    };
    let ours = lines.with_filter(filter_fn(|line| line.target().starts_with(TARGET_PREFIX)));
    tracing_subscriber::registry()
        .with(ours.with_filter(filter))
        .try_init()
        .map_err(|error| Failure::new(Exit::Internal, format!("the log cannot be started: {error}"), None))
}
