//! `docs/cli.md` names what there is.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "a test")]

mod support;

use dataglot_server::config::{Config, Environment, Flags, Setting};
use support::{dataglot, done, tempdir};

const TEXT: &str = include_str!("../../../docs/cli.md");

/// The cells of the rows of tables whose first cell is `name`.
fn row(name: &str) -> Option<Vec<String>> {
    let cells = |line: &str| line.split('|').skip(1).map(|c| c.trim().trim_matches('`').to_owned()).collect::<Vec<_>>();
    TEXT.lines().filter(|l| l.starts_with('|')).map(cells).find(|cells| cells.first().is_some_and(|c| c == name))
}

#[test]
fn every_setting_stands_there_with_its_default() {
    let config = Config::load(&Flags::new(), &Environment::default()).unwrap();
    for found in config.effective() {
        let name = found.setting.name();
        let row = row(name).unwrap_or_else(|| panic!("docs/cli.md does not list {name}"));
        let default = row.get(1).unwrap();
        // Some have a default that is not their value's text.
        let in_words =
            [(Setting::Node, "the host's name"), (Setting::Store, "none: must be given"), (Setting::Http, "off")];
        let said = match in_words.iter().find(|(setting, _)| *setting == found.setting) {
            Some((_, words)) => default == words,
            None if found.value == "not set" => default.is_empty(),
            None => default.split(['`', ' ']).next() == Some(found.value.as_str()),
        };
        assert!(said, "docs/cli.md says {default:?} of {name}, which is {:?}", found.value);
    }
}

/// The commands and exit codes that `--help` lists, and no others.
#[test]
fn every_command_and_exit_code_stands_there() {
    let directory = tempdir();
    let help = done(&mut dataglot(directory.path(), &["--help"]));
    let section = |from: &str, to: &str| -> Vec<String> {
        let text = help.split_once(from).unwrap().1;
        let text = text.split_once(to).map_or(text, |(text, _)| text);
        text.lines().filter(|l| l.starts_with("  ") && !l.starts_with("   ")).map(|l| l.trim().to_owned()).collect()
    };
    for line in section("Commands:", "Options:") {
        let command = line.split_whitespace().next().unwrap();
        if command != "help" {
            assert!(TEXT.contains(&format!("    dataglot {command}")), "docs/cli.md does not list {command}");
        }
    }
    let codes = section("Exit codes:", "\0");
    assert_eq!(codes.len(), 13);
    for line in codes {
        let code = line.split_whitespace().next().unwrap();
        assert!(row(code).is_some(), "docs/cli.md does not list the exit code {code}");
    }
}
