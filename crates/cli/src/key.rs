//! The secret keys that the configuration names.

use dataglot_server::config::{Config, KeySource, Setting};
use dataglot_server::keyfile;
use dataglot_vault::KeyRing;

use crate::failure::Failure;

/// Reads them. Empty: none is configured.
pub(crate) fn ring(config: &Config) -> Result<KeyRing, Failure> {
    match &config.secret_key {
        KeySource::None => Ok(KeyRing::none()),
        KeySource::Text(text) => {
            KeyRing::parse(text.open()).map_err(|error| Failure::of_variable(&Setting::SecretKey.variable(), &error))
        }
        KeySource::File(file) => Ok(keyfile::read(file)?),
        KeySource::Command(command) => Ok(command.read()?),
    }
}
