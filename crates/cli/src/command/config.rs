//! `dataglot config`: the settings in force, and where each comes from.

use dataglot_server::config::{Config, Environment};

use crate::arguments::SettingArguments;
use crate::failure::Failure;
use crate::output;

pub(crate) fn run(settings: &SettingArguments) -> Result<(), Failure> {
    let config = Config::load(&settings.flags(), &Environment::read())?;
    let rows = config.effective();
    let width = |of: fn(&dataglot_server::config::Effective) -> usize| rows.iter().map(of).max().unwrap_or_default();
    let (name, value) = (width(|r| r.setting.name().len()), width(|r| r.value.chars().count()));
    for row in &rows {
        output::line(&format!("{:name$}  {:value$}  {}", row.setting.name(), row.value, row.origin));
    }
    for variable in config.unknown_variables() {
        output::line(&format!("# {variable} is set, and is no variable of dataglot's"));
    }
    // What `serve` would refuse is said here too.
    Ok(config.check()?)
}
