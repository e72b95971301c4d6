//! A table of the file whose entries are no settings of their own, read entry by entry.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use dataglot_model::connector::nearest;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::error::ConfigError;
use super::file::File;
use super::source::Raw;
use super::value;

/// Most entries of a list or a map.
const ENTRIES_MAX: usize = 10_000;

/// A value and its place.
pub(super) type Value<'a> = Spanned<DeValue<'a>>;

/// The entries of one table, each asked for once.
pub(super) struct Fields<'f, 't> {
    file: &'f File<'f>,
    /// The table's place, for errors that are about all of it.
    whole: &'t Value<'t>,
    table: &'t DeTable<'t>,
    name: &'static str,
    asked: RefCell<Vec<&'static str>>,
}

impl<'f, 't> Fields<'f, 't> {
    /// The entries of `whole`, which is the table `name`.
    ///
    /// # Errors
    /// It is no table.
    pub(super) fn of(file: &'f File<'f>, whole: &'t Value<'t>, name: &'static str) -> Result<Self, ConfigError> {
        let asked = RefCell::default();
        match whole.get_ref().as_table() {
            Some(table) => Ok(Fields { file, whole, table, name, asked }),
            None => Err(wrong(file, whole, name, "a table".to_owned())),
        }
    }

    /// The error that says what `key` takes.
    pub(super) fn wrong(&self, key: &'static str, wanted: impl Into<String>) -> ConfigError {
        wrong(self.file, self.value(key).unwrap_or(self.whole), key, wanted.into())
    }

    /// The error that says what the table needs.
    pub(super) fn lacking(&self, wanted: impl Into<String>) -> ConfigError {
        wrong(self.file, self.whole, self.name, wanted.into())
    }

    fn value(&self, key: &'static str) -> Option<&'t Value<'t>> {
        self.asked.borrow_mut().push(key);
        self.table.iter().find(|(name, _)| name.get_ref().as_ref() == key).map(|(_, value)| value)
    }

    /// What `read` makes of the value of `key`, which takes what is `wanted`.
    pub(super) fn get<T>(
        &self,
        key: &'static str,
        wanted: &str,
        read: impl Fn(&Value<'_>) -> Option<T>,
    ) -> Result<Option<T>, ConfigError> {
        self.value(key)
            .map(|value| read(value).ok_or_else(|| wrong(self.file, value, key, wanted.to_owned())))
            .transpose()
    }

    /// A text that is not empty.
    pub(super) fn text(&self, key: &'static str, wanted: &str) -> Result<Option<String>, ConfigError> {
        self.get(key, wanted, |value| text(value).filter(|text| !text.is_empty()))
    }

    /// A path.
    pub(super) fn path(&self, key: &'static str) -> Result<Option<PathBuf>, ConfigError> {
        Ok(self.text(key, "a path")?.map(PathBuf::from))
    }

    /// A text or a list of texts, each of which `read` takes; at least one.
    pub(super) fn list<T>(
        &self,
        key: &'static str,
        wanted: &str,
        read: impl Fn(&str) -> Option<T>,
    ) -> Result<Option<Vec<T>>, ConfigError> {
        self.get(key, wanted, |value| texts(value)?.iter().map(|text| read(text)).collect())
    }

    /// A table of texts, each with a text or a list of texts.
    pub(super) fn map(&self, key: &'static str, wanted: &str) -> Result<BTreeMap<String, Vec<String>>, ConfigError> {
        let map = self.get(key, wanted, |value| {
            let table = value.get_ref().as_table().filter(|table| (1..=ENTRIES_MAX).contains(&table.len()))?;
            let entries = table.iter().map(|(name, value)| Some((name.get_ref().to_string(), texts(value)?)));
            let map: BTreeMap<_, _> = entries.collect::<Option<_>>()?;
            map.iter().all(|(name, to)| !name.is_empty() && to.iter().all(|t| !t.is_empty())).then_some(map)
        })?;
        Ok(map.unwrap_or_default())
    }

    /// `true` or `false`.
    pub(super) fn boolean(&self, key: &'static str) -> Result<Option<bool>, ConfigError> {
        self.get(key, "true or false", |value| value.get_ref().as_bool())
    }

    /// A length of time up to `most`.
    pub(super) fn duration(&self, key: &'static str, most: Duration) -> Result<Option<Duration>, ConfigError> {
        let wanted = format!("a length of time up to {}", value::duration_text(Some(most)));
        self.get(key, &wanted, |found| {
            let read = value::duration(&text(found)?).ok()?.unwrap_or_default();
            (read <= most).then_some(read)
        })
    }

    /// Nothing else is there.
    ///
    /// # Errors
    /// An entry has not been asked for.
    pub(super) fn end(&self) -> Result<(), ConfigError> {
        let asked = self.asked.borrow();
        match self.table.iter().find(|(name, _)| !asked.contains(&name.get_ref().as_ref())) {
            None => Ok(()),
            Some((key, _)) => {
                let name = key.get_ref().as_ref();
                Err(ConfigError::UnknownKey {
                    key: format!("{}.{name}", self.name),
                    help: nearest(name, asked.iter().copied()).map(|known| format!("Did you mean \"{known}\"?")),
                    at: key.span().into(),
                    text: self.file.shown(),
                })
            }
        }
    }
}

/// A text.
pub(super) fn text(value: &Value<'_>) -> Option<String> {
    value.get_ref().as_str().map(str::to_owned)
}

/// A text, or several.
pub(super) fn texts(value: &Value<'_>) -> Option<Vec<String>> {
    let texts = match value.get_ref().as_array() {
        Some(values) => values.iter().map(text).collect::<Option<Vec<_>>>()?,
        None => vec![text(value)?],
    };
    (1..=ENTRIES_MAX).contains(&texts.len()).then_some(texts)
}

/// The error that says what `setting` takes, at the place of `value`.
pub(super) fn wrong(file: &File<'_>, value: &Value<'_>, setting: &'static str, wanted: String) -> ConfigError {
    let Raw { origin, at, .. } = file.raw(String::new(), value.span());
    let (at, text) = at.map(|place| (place.span, place.text)).unzip();
    ConfigError::Value { setting, wanted, origin, at, text }
}
