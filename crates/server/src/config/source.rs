//! Flags and variables: the sources of settings that are not the file.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use dataglot_model::connector::nearest;
use dataglot_model::{Problem as _, Sensitive};

use super::error::{ConfigError, FileText};
use super::setting::Setting;
use super::value::Wanted;

/// What all our variables start with.
const VARIABLE_PREFIX: &str = "DATAGLOT_";
/// Names the file.
const FILE_VARIABLE: &str = "DATAGLOT_CONFIG";

/// Where a value comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// A flag of the command line.
    Flag(String),
    /// A variable of the environment.
    Variable(String),
    /// A line of the file.
    File {
        /// The file.
        path: PathBuf,
        /// From 1.
        line: usize,
    },
    /// Nowhere: it is the default.
    Default,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::Flag(flag) => write!(f, "flag --{flag}"),
            Origin::Variable(name) => write!(f, "variable {name}"),
            Origin::File { path, line } => write!(f, "file {}:{line}", path.display()),
            Origin::Default => f.write_str("default"),
        }
    }
}

/// A value as a source gives it. Held as a secret whatever it is: it is not known yet what was pasted here.
#[derive(Clone, Debug)]
pub(super) struct Raw {
    pub(super) text: Sensitive,
    pub(super) origin: Origin,
    pub(super) at: Option<FileText>,
}

impl Raw {
    pub(super) fn of_default(text: &str) -> Self {
        Raw { text: Sensitive::new(text.to_owned()), origin: Origin::Default, at: None }
    }

    /// The error that says what this setting takes.
    pub(super) fn refuse(&self, setting: Setting, wanted: Wanted) -> ConfigError {
        let (at, text) = match &self.at {
            Some(place) => (Some(place.span), Some(place.text.clone())),
            None => (None, None),
        };
        match wanted {
            Wanted::Later(what) => ConfigError::Later { what, origin: self.origin.clone(), at, text },
            Wanted::Connection(error) => {
                let help = [error.detail(), error.hint()].into_iter().flatten().collect::<Vec<_>>().join(" ");
                let help = Some(help).filter(|h| !h.is_empty());
                ConfigError::Connection { error, help, origin: self.origin.clone(), at, text }
            }
            Wanted::Form(wanted) => {
                ConfigError::Value { setting: setting.name(), wanted, origin: self.origin.clone(), at, text }
            }
        }
    }
}

/// Settings that the command line gives.
#[derive(Clone, Debug, Default)]
pub struct Flags {
    file: Option<String>,
    values: BTreeMap<Setting, String>,
}

impl Flags {
    /// No flags.
    pub fn new() -> Self {
        Self::default()
    }

    /// The same flags with the configuration file `path`, if there is one.
    #[must_use]
    pub fn with_file(mut self, path: Option<String>) -> Self {
        self.file = path;
        self
    }

    /// The same flags with `setting`, if it is given.
    #[must_use]
    pub fn with(mut self, setting: Setting, value: Option<String>) -> Self {
        if let Some(value) = value {
            self.values.insert(setting, value);
        }
        self
    }

    pub(super) fn file(&self) -> Option<&str> {
        self.file.as_deref()
    }

    pub(super) fn raw(&self) -> impl Iterator<Item = (Setting, Raw)> {
        self.values.iter().map(|(setting, value)| {
            let text = Sensitive::new(value.clone());
            (*setting, Raw { text, origin: Origin::Flag(setting.flag()), at: None })
        })
    }
}

/// The variables of the process that start with `DATAGLOT_`.
#[derive(Clone, Debug, Default)]
pub struct Environment {
    /// `None`: not in Unicode.
    values: BTreeMap<String, Option<Sensitive>>,
}

impl Environment {
    /// The process's own: the one place where the environment is read. The variables stay where they are
    /// (removing one is unsafe while threads run), so a key file is to be preferred over
    /// `DATAGLOT_SECRET_KEY`.
    #[allow(clippy::disallowed_methods, reason = "this is the one place where the environment is read")]
    pub fn read() -> Self {
        let values = std::env::vars_os().filter_map(|(name, value)| {
            let name = name.into_string().ok()?;
            name.starts_with(VARIABLE_PREFIX).then(|| (name, value.into_string().ok().map(Sensitive::new)))
        });
        Environment { values: values.collect() }
    }

    /// An environment of these variables.
    pub fn of<'a>(variables: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let values = variables.into_iter().map(|(k, v)| (k.to_owned(), Some(Sensitive::new(v.to_owned()))));
        Environment { values: values.collect() }
    }

    /// The same environment without the variables of these settings, and without the file's.
    #[must_use]
    pub fn without(mut self, settings: &[Setting]) -> Self {
        self.values.remove(FILE_VARIABLE);
        for setting in settings {
            self.values.remove(&setting.variable());
        }
        self
    }

    pub(super) fn file(&self) -> Option<&str> {
        self.values.get(FILE_VARIABLE)?.as_ref().map(Sensitive::open)
    }

    pub(super) fn raw(&self) -> Result<Vec<(Setting, Raw)>, ConfigError> {
        let mut found = Vec::new();
        for setting in Setting::ALL {
            let variable = setting.variable();
            match self.values.get(&variable) {
                None => {}
                Some(None) => return Err(ConfigError::NotUnicode { variable }),
                Some(Some(text)) => {
                    let origin = Origin::Variable(variable);
                    found.push((setting, Raw { text: text.clone(), origin, at: None }));
                }
            }
        }
        Ok(found)
    }

    /// Names that are close to one of ours, and none of them.
    pub(super) fn unknown(&self) -> Vec<String> {
        let known = || Setting::ALL.iter().map(|s| s.name()).chain(["config"]);
        let stray = |name: &&String| {
            let bare = name.trim_start_matches(VARIABLE_PREFIX).to_ascii_lowercase();
            !known().any(|k| k == bare) && nearest(&bare, known()).is_some()
        };
        self.values.keys().filter(stray).cloned().collect()
    }
}
