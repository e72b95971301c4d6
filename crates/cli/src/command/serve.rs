//! `dataglot serve`

use dataglot_server::Method;
use dataglot_server::config::{Config, Environment};

use crate::arguments::SettingArguments;
use crate::failure::Failure;
use crate::serving::Started;
use crate::store::{self, SHOWS_PASSWORD};
use crate::{key, logging, output, serving};

pub(crate) fn run(settings: &SettingArguments) -> Result<(), Failure> {
    let config = Config::load(&settings.flags(), &Environment::read())?;
    config.check()?;
    let location = config.store()?;
    logging::start(&config)?;
    for variable in config.unknown_variables() {
        tracing::warn!(variable, "set, and no variable of ours");
    }
    if config.shows_password() {
        tracing::warn!("{SHOWS_PASSWORD}");
    }
    let ring = key::ring(&config)?;
    let keyless = ring.is_empty();
    serving::run(&config, location, ring, |started| {
        if keyless {
            tracing::warn!("no secret key is configured: statements that need one are refused");
        }
        warn(&config, started);
        output::line(&format!("listening on {}", started.address));
        if started.new {
            output::line(&format!("store {} is new: superuser {} made", store::place(location), config.admin));
        }
    })
}

/// What is in force and should not stay so.
fn warn(config: &Config, started: &Started) {
    let is_remote = !started.address.ip().to_canonical().is_loopback();
    if is_remote && config.auth.trusts_beyond_loopback() {
        tracing::warn!(address = %started.address, "auth \"trust\" lets anyone who reaches this address in as anyone");
    }
    if is_remote && config.tls().is_none() {
        tracing::warn!(address = %started.address, "without TLS, nobody but clients on this machine can log in");
    }
    if config.auth.uses(Method::Md5) {
        tracing::warn!(
            "auth \"md5\" is for a migration: what is stored for it is worth as much as the password. Give each user \
             a new password, then use scram-sha-256"
        );
    }
}
