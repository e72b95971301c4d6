//! The settings of a session: what SET sets, RESET resets and SHOW shows.
//!
//! Values are kept in canonical text. Two layers lie over the defaults: what the session has set, and
//! what SET LOCAL has set to the end of the transaction. A fork is an `Arc`, so that a transaction and
//! a savepoint can keep what they return to.

mod options;
mod search_path;
mod table;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use dataglot_model::{SchemaRef, SetScope, Severity, SqlState};

use crate::error::SessionError;

pub(crate) use options::parse_options;
pub(crate) use table::{
    Definition, ISOLATION_DEFAULT, VERSION_TOKEN, all, find, isolation_named, parse_bool, version_text,
};

/// How many settings of an extension's (`a.b`) a session may make.
const CUSTOM_SETTINGS_MAX: usize = 100;
/// How long the value of a setting may be, in bytes.
const VALUE_BYTES_MAX: usize = 64 << 10;

/// The settings of a session.
#[derive(Clone, Debug, Default)]
pub(crate) struct Settings {
    layers: Arc<Layers>,
}

#[derive(Clone, Debug, Default)]
struct Layers {
    /// What RESET returns to, where that is not the default: startup parameters and ALTER ROLE SET.
    initial: BTreeMap<String, String>,
    session: BTreeMap<String, String>,
    local: BTreeMap<String, String>,
    /// What `search_path` says, once somebody has asked.
    schema: OnceLock<SchemaRef>,
}

/// The name and value of a setting, checked and in canonical form.
pub(crate) fn check(name: &str, value: &str) -> Result<(String, String), SessionError> {
    if value.len() > VALUE_BYTES_MAX {
        return Err(SessionError::new(
            SqlState::ProgramLimitExceeded,
            format!("value of parameter \"{name}\" is too long"),
        )
        .with_detail(format!("It may be at most {VALUE_BYTES_MAX} bytes.")));
    }
    match find(name) {
        Some(definition) => Ok((key_of(definition), definition.check(value)?)),
        None if is_custom(name) => Ok((name.to_ascii_lowercase(), value.to_owned())),
        None => Err(unrecognized(name)),
    }
}

/// Whether there may be a setting of that name.
///
/// # Errors
/// 42704: there is none.
pub(crate) fn check_name(name: &str) -> Result<(), SessionError> {
    if find(name).is_some() || is_custom(name) { Ok(()) } else { Err(unrecognized(name)) }
}

/// There is no setting of that name.
pub(crate) fn unrecognized(name: &str) -> SessionError {
    SessionError::new(SqlState::UndefinedParameter, format!("unrecognized configuration parameter \"{name}\""))
}

/// The same where the name is a text, which may be anything: it is not repeated.
pub(crate) fn unrecognized_text() -> SessionError {
    SessionError::new(SqlState::UndefinedParameter, "unrecognized configuration parameter")
}

/// `a.b`: a setting of an extension's that anybody may make up. Not under our own prefix: a slip of the pen
/// there would pass for a setting.
fn is_custom(name: &str) -> bool {
    if table::own_part(name).is_some() {
        return false;
    }
    let mut parts = name.split('.');
    let is_part = |p: &str| {
        !p.starts_with(|c: char| c.is_ascii_digit())
            && !p.is_empty()
            && p.len() <= 63
            && p.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    };
    name.contains('.') && parts.clone().count() <= 4 && parts.all(is_part)
}

fn key_of(definition: &Definition) -> String {
    definition.name.to_ascii_lowercase()
}

impl Settings {
    /// The layers, to be changed: nothing that was made of them holds any more.
    fn layers_mut(&mut self) -> &mut Layers {
        let layers = Arc::make_mut(&mut self.layers);
        layers.schema = OnceLock::new();
        layers
    }

    /// Sets what holds at the start of the session, and what RESET returns to.
    pub(crate) fn set_initial(&mut self, name: &str, value: &str) -> Result<(), SessionError> {
        let (key, value) = check(name, value)?;
        self.bound(&key)?;
        self.layers_mut().initial.insert(key, value);
        Ok(())
    }

    /// `SET name TO value`; `None`: to its default.
    pub(crate) fn set(&mut self, scope: SetScope, name: &str, value: Option<&str>) -> Result<(), SessionError> {
        let Some(value) = value else {
            let key = self.resettable(name)?;
            let initial = self.initial_of(&key).map(Cow::into_owned);
            let layers = self.layers_mut();
            layers.local.remove(&key);
            match (scope, initial) {
                (SetScope::Local, Some(initial)) => drop(layers.local.insert(key, initial)),
                (SetScope::Local | SetScope::Session, _) => drop(layers.session.remove(&key)),
            }
            return Ok(());
        };
        let (key, value) = check(name, value)?;
        self.bound(&key)?;
        let layers = self.layers_mut();
        match scope {
            SetScope::Local => drop(layers.local.insert(key, value)),
            SetScope::Session => {
                layers.local.remove(&key);
                layers.session.insert(key, value);
            }
        }
        Ok(())
    }

    /// `RESET ALL`
    pub(crate) fn reset_all(&mut self) {
        let layers = self.layers_mut();
        layers.session.clear();
        layers.local.clear();
    }

    /// What SET LOCAL has set ends with the transaction.
    pub(crate) fn end_local(&mut self) {
        if !self.layers.local.is_empty() {
            self.layers_mut().local.clear();
        }
    }

    /// Whether nothing was set between the two. May say no where it was set to the same value.
    pub(crate) fn is_same(&self, other: &Settings) -> bool {
        Arc::ptr_eq(&self.layers, &other.layers)
    }

    /// The value of a setting. `None`: there is no such setting.
    pub(crate) fn get(&self, name: &str) -> Option<Cow<'_, str>> {
        let is_key = !name.bytes().any(|b| b.is_ascii_uppercase() || b == b'.');
        let key = if is_key {
            Cow::Borrowed(name)
        } else {
            Cow::Owned(find(name).map_or_else(|| name.to_ascii_lowercase(), key_of))
        };
        let Layers { session, local, .. } = &*self.layers;
        match local.get(&*key).or_else(|| session.get(&*key)) {
            Some(value) => Some(Cow::Borrowed(value.as_str())),
            None => self.initial_of(&key),
        }
    }

    /// The value of a setting of ours, if it is not the default. Cheap, for what is asked with every statement.
    pub(crate) fn changed(&self, key: &str) -> Option<&str> {
        let Layers { initial, session, local, schema: _ } = &*self.layers;
        [local, session, initial].into_iter().find_map(|layer| layer.get(key)).map(String::as_str)
    }

    /// What RESET returns to.
    fn initial_of(&self, key: &str) -> Option<Cow<'_, str>> {
        let initial = self.layers.initial.get(key).map(|v| Cow::Borrowed(v.as_str()));
        initial.or_else(|| find(key).map(|d| Cow::Borrowed(d.default)))
    }

    fn resettable(&self, name: &str) -> Result<String, SessionError> {
        match find(name) {
            Some(definition) if definition.is_fixed() => Err(definition.cannot_change()),
            Some(definition) => Ok(key_of(definition)),
            None if is_custom(name) => Ok(name.to_ascii_lowercase()),
            None => Err(unrecognized(name)),
        }
    }

    /// A session may make up so many settings and no more.
    fn bound(&self, key: &str) -> Result<(), SessionError> {
        let Layers { initial, session, local, schema: _ } = &*self.layers;
        let custom = |map: &BTreeMap<String, String>| map.keys().filter(|k| is_custom(k)).count();
        if is_custom(key) && custom(initial) + custom(session) + custom(local) >= CUSTOM_SETTINGS_MAX {
            return Err(SessionError::new(SqlState::ConfigurationLimitExceeded, "too many custom parameters")
                .with_detail(format!("A session may have at most {CUSTOM_SETTINGS_MAX}.")));
        }
        Ok(())
    }

    /// Whether a boolean setting is on that is off by default.
    pub(crate) fn is_on(&self, key: &str) -> bool {
        self.changed(key) == Some("on")
    }

    /// The length of a timeout. `None`: it is off, as all are by default.
    pub(crate) fn timeout(&self, key: &str) -> Option<Duration> {
        let ms = table::parse_ms(self.changed(key)?)?;
        (ms > 0).then(|| Duration::from_millis(ms))
    }

    /// The schema in which a name without one lives.
    pub(crate) fn search_path(&self) -> &SchemaRef {
        let named = || self.get("search_path").and_then(|v| search_path::first(&v));
        self.layers.schema.get_or_init(|| named().unwrap_or_else(SchemaRef::default_schema))
    }

    /// Whether the client wants to see a notice of that severity.
    pub(crate) fn shows(&self, severity: Severity) -> bool {
        let least = self.get("client_min_messages");
        let least = match least.as_deref() {
            Some("debug5" | "debug4" | "debug3" | "debug2" | "debug1" | "debug") => Severity::Debug,
            Some("log") => Severity::Log,
            Some("warning") => Severity::Warning,
            Some("error") => Severity::Error,
            Some(_) | None => Severity::Notice,
        };
        severity >= least || severity == Severity::Info
    }

    /// Settings that the session has made up, with their values.
    pub(crate) fn custom(&self) -> Vec<(String, String)> {
        let Layers { initial, session, local, schema: _ } = &*self.layers;
        let mut names: Vec<&String> =
            initial.keys().chain(session.keys()).chain(local.keys()).filter(|k| is_custom(k)).collect();
        names.sort();
        names.dedup();
        names.into_iter().filter_map(|n| Some((n.clone(), self.get(n)?.into_owned()))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layers() {
        let mut settings = Settings::default();
        let get = |s: &Settings| s.get("application_name").unwrap().into_owned();
        assert_eq!(get(&settings), "");
        settings.set_initial("application_name", "start").unwrap();
        settings.set(SetScope::Session, "Application_Name", Some("a")).unwrap();
        assert_eq!(get(&settings), "a");
        let before = settings.clone();
        settings.set(SetScope::Local, "application_name", Some("b")).unwrap();
        assert_eq!(get(&settings), "b");
        settings.end_local();
        assert_eq!(get(&settings), "a");
        settings.set(SetScope::Session, "application_name", None).unwrap();
        assert_eq!(get(&settings), "start");
        assert_eq!(get(&before), "a");
    }

    #[test]
    fn a_schema_is_that_of_the_path_now() {
        let mut settings = Settings::default();
        let path = |s: &Settings| s.search_path().to_string();
        assert_eq!(path(&settings), "dataglot.public");
        settings.set(SetScope::Session, "search_path", Some("pg.sales")).unwrap();
        let before = settings.clone();
        assert_eq!(path(&settings), "pg.sales");
        settings.set(SetScope::Local, "search_path", Some("a")).unwrap();
        assert_eq!(path(&settings), "dataglot.a");
        settings.end_local();
        assert_eq!((path(&settings), path(&before)), ("pg.sales".to_owned(), "pg.sales".to_owned()));
        settings.reset_all();
        assert_eq!(path(&settings), "dataglot.public");
    }

    #[test]
    fn what_is_asked_with_every_statement_is_off_by_default() {
        for key in ["default_transaction_read_only", "dry_run", "verbose_noop"] {
            assert_eq!(find(key).unwrap().default, "off", "{key}");
        }
        for timeout in all().iter().filter(|d| d.name.ends_with("_timeout")) {
            assert_eq!(timeout.default, "0", "{}", timeout.name);
        }
    }

    #[test]
    fn values_never_come_back_in_errors() {
        for (name, code) in [
            ("statement_timeout", "22023"),
            ("dry_run", "22023"),
            ("client_encoding", "22023"),
            ("standard_conforming_strings", "22023"),
            ("server_version", "55P02"),
            ("nope", "42704"),
            ("timezone", "22023"),
            ("search_path", "22023"),
            ("extra_float_digits", "22023"),
        ] {
            let error = check(name, "canary 7Q.a.b.\u{7}").unwrap_err();
            assert_eq!(error.code().code(), code, "{name}");
            assert!(!format!("{:?}", error.into_report()).contains("7Q"), "{name}");
        }
    }

    #[test]
    fn severities() {
        let mut settings = Settings::default();
        assert!(settings.shows(Severity::Notice) && !settings.shows(Severity::Log));
        settings.set(SetScope::Session, "client_min_messages", Some("WARNING")).unwrap();
        assert!(!settings.shows(Severity::Notice) && settings.shows(Severity::Warning));
    }

    #[test]
    fn custom_settings_are_bounded() {
        let mut settings = Settings::default();
        for i in 0..CUSTOM_SETTINGS_MAX {
            settings.set(SetScope::Session, &format!("a.b{i}"), Some("x")).unwrap();
        }
        let error = settings.set(SetScope::Session, "a.more", Some("x")).unwrap_err();
        assert_eq!(error.code(), SqlState::ConfigurationLimitExceeded);
        assert!(check("a..b", "x").is_err());
    }
}
