//! `dataglot serve`

use dataglot_server::config::{Config, Environment, KeySource, Setting};
use dataglot_server::keyfile;
use dataglot_vault::KeyRing;

use crate::arguments::SettingArguments;
use crate::failure::Failure;
use crate::store::{self, SHOWS_PASSWORD};
use crate::{logging, output, serving};

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
    let ring = match &config.secret_key {
        KeySource::None => KeyRing::none(),
        KeySource::Text(text) => {
            KeyRing::parse(text.open()).map_err(|error| Failure::of_variable(&Setting::SecretKey.variable(), &error))?
        }
        KeySource::File(file) => keyfile::read(file)?,
    };
    let keyless = ring.is_empty();
    serving::run(&config, location, ring, |started| {
        if keyless {
            tracing::warn!("no secret key is configured: statements that need one are refused");
        }
        if !started.address.ip().to_canonical().is_loopback() {
            tracing::warn!(address = %started.address, "auth \"trust\" lets anyone who reaches this address in as anyone");
        }
        output::line(&format!("listening on {}", started.address));
        if started.new {
            output::line(&format!("store {} is new: superuser {} made", store::place(location), config.admin));
        }
    })
}
