//! `dataglot config`: the settings in force, and where each comes from.

use dataglot_server::config::{Config, Effective, Environment};

use crate::arguments::SettingArguments;
use crate::failure::Failure;
use crate::output;
use crate::store::SHOWS_PASSWORD;

pub(crate) fn run(settings: &SettingArguments) -> Result<(), Failure> {
    let config = Config::load(&settings.flags(), &Environment::read())?;
    let rows = config.effective();
    let cells = |row: &Effective| vec![row.setting.name().to_owned(), row.value.clone(), row.origin.to_string()];
    let table = |name: &str, text: String| vec![name.to_owned(), text, "file".to_owned()];
    let issuers = config.issuers.iter().map(|issuer| table("[[jwt]]", issuer.to_string()));
    let directory = config.directory.iter().map(|directory| table("[ldap]", directory.to_string()));
    output::table(&rows.iter().map(cells).chain(issuers).chain(directory).collect::<Vec<_>>());
    for variable in config.unknown_variables() {
        output::line(&format!("# {variable} is set, and is no variable of dataglot's"));
    }
    if config.shows_password() {
        output::line(&format!("# {SHOWS_PASSWORD}"));
    }
    // What `serve` would refuse is said here too.
    Ok(config.check()?)
}
