//! The TOML file.
//!
//! The store stands in `[catalog_service]` as `path` or `dsn`, limits in `[limits]`, everything else at the top; who is
//! let in how stands in `[[hba]]` tables. Text that goes into an error has its values hidden, but for those of settings
//! that are known not to be secret.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fs;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use dataglot_model::Sensitive;
use dataglot_model::connector::nearest;
use miette::{NamedSource, SourceSpan};
use toml::Spanned;
use toml::de::{DeTable, DeValue};
use zeroize::Zeroizing;

use super::error::{ConfigError, FileText};
use super::hba::{self, HBA};
use super::jwt::{self, JWT};
use super::ldap::{self, LDAP};
use super::setting::{Place, Setting};
use super::shown::shown;
use super::source::{Origin, Raw};
use crate::auth::{DirectoryConfig, Hba, IssuerConfig};

const CATALOG_SERVICE: &str = "catalog_service";
const LIMITS: &str = "limits";
/// Longest file, in bytes.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// A file being read.
pub(super) struct File<'a> {
    path: &'a Path,
    text: &'a str,
}

type Settings = BTreeMap<Setting, Raw>;

/// What a file gives.
#[derive(Default)]
pub(super) struct Read {
    pub(super) settings: Settings,
    /// The rules by which clients are let in, and where they stand.
    pub(super) hba: Option<(Hba, Raw)>,
    /// Whose tokens let clients in.
    pub(super) issuers: Vec<IssuerConfig>,
    /// The directory that takes passwords.
    pub(super) directory: Option<DirectoryConfig>,
}

type Key<'a> = Spanned<Cow<'a, str>>;
type Value<'a> = Spanned<DeValue<'a>>;

impl File<'_> {
    /// What the file at `path` gives.
    pub(super) fn read(path: &Path) -> Result<Read, ConfigError> {
        let unreadable = |reason: String| ConfigError::Unreadable { path: path.to_owned(), reason };
        let size = fs::metadata(path).map_err(|e| unreadable(e.to_string()))?.len();
        if size > FILE_BYTES_MAX {
            return Err(unreadable(format!("it is longer than {FILE_BYTES_MAX} bytes")));
        }
        let text = Zeroizing::new(fs::read_to_string(path).map_err(|e| unreadable(e.to_string()))?);
        File { path, text: &text }.settings()
    }

    fn settings(&self) -> Result<Read, ConfigError> {
        let root = DeTable::parse(self.text).map_err(|e| ConfigError::Syntax {
            reason: e.message().lines().next().unwrap_or_default().to_owned(),
            at: e.span().map_or(SourceSpan::from(0), SourceSpan::from),
            text: self.shown(),
        })?;
        let Read { mut settings, mut hba, mut issuers, mut directory } = Read::default();
        for (key, value) in root.get_ref() {
            match (key.get_ref().as_ref(), value.get_ref()) {
                (CATALOG_SERVICE, DeValue::Table(table)) => self.catalog_service(table, &mut settings)?,
                (LIMITS, DeValue::Table(table)) => self.table(table, Place::Limits, &mut settings)?,
                (HBA, _) => hba = Some(hba::read(self, value)?),
                (JWT, _) => issuers = jwt::read(self, value)?,
                (LDAP, _) => directory = Some(ldap::read(self, value)?),
                _ => self.entry(key, value, Place::Top, &mut settings)?,
            }
        }
        Ok(Read { settings, hba, issuers, directory })
    }

    fn table(&self, table: &DeTable<'_>, place: Place, into: &mut Settings) -> Result<(), ConfigError> {
        table.iter().try_for_each(|(key, value)| self.entry(key, value, place, into))
    }

    fn entry(&self, key: &Key<'_>, value: &Value<'_>, place: Place, into: &mut Settings) -> Result<(), ConfigError> {
        let setting = Setting::named(key.get_ref(), place).ok_or_else(|| self.unknown(key, place))?;
        let text = match list(value).filter(|_| setting == Setting::SecretKeyCommand) {
            Some(list) => list,
            None => self.scalar(value).ok_or_else(|| self.not_scalar(setting, value))?,
        };
        into.insert(setting, self.raw(text, value.span()));
        Ok(())
    }

    /// `path = …` or `dsn = …`, which the flag writes as `path=…` and `dsn=…`.
    fn catalog_service(&self, table: &DeTable<'_>, into: &mut Settings) -> Result<(), ConfigError> {
        for (key, value) in table {
            let name = key.get_ref().as_ref();
            if !matches!(name, "path" | "dsn" | "root") {
                return Err(self.unknown(key, Place::CatalogService));
            }
            if into.contains_key(&Setting::Store) {
                return Err(ConfigError::UnknownKey {
                    key: name.to_owned(),
                    help: Some("A store is named once: by path or by dsn.".to_owned()),
                    at: key.span().into(),
                    text: self.shown(),
                });
            }
            let text = self.scalar(value).ok_or_else(|| self.not_scalar(Setting::Store, value))?;
            let text = Zeroizing::new(text);
            into.insert(Setting::Store, self.raw(format!("{name}={}", text.as_str()), value.span()));
        }
        Ok(())
    }

    pub(super) fn raw(&self, text: String, span: Range<usize>) -> Raw {
        let before = self.text.get(..span.start).unwrap_or_default();
        let line = before.bytes().filter(|b| *b == b'\n').count() + 1;
        Raw {
            text: Sensitive::new(text),
            origin: Origin::File { path: self.path.to_owned(), line },
            at: Some(FileText { span: span.into(), text: self.shown() }),
        }
    }

    /// The text of a string, a number or a boolean.
    fn scalar(&self, value: &Value<'_>) -> Option<String> {
        match value.get_ref() {
            DeValue::String(text) => Some(text.clone().into_owned()),
            DeValue::Integer(number) => Some(number.to_string()),
            DeValue::Boolean(value) => Some(value.to_string()),
            DeValue::Float(_) | DeValue::Datetime(_) | DeValue::Array(_) | DeValue::Table(_) => None,
        }
    }

    fn not_scalar(&self, setting: Setting, value: &Value<'_>) -> ConfigError {
        self.raw(String::new(), value.span()).refuse(setting, "a string, a whole number or a boolean".into())
    }

    fn unknown(&self, key: &Key<'_>, place: Place) -> ConfigError {
        let name = key.get_ref().as_ref();
        let elsewhere = Setting::ALL.into_iter().find(|s| s.name() == name).map(|setting| match setting.place() {
            Place::Top => "It stands at the top of the file, before any [table].".to_owned(),
            Place::CatalogService => "The store is named by path = … under [catalog_service].".to_owned(),
            Place::Limits => "It stands under [limits].".to_owned(),
            Place::Nowhere => {
                format!("It is read from the variable {} only; see also {}_file.", setting.variable(), setting.name())
            }
        });
        let known: Vec<&str> = match place {
            Place::CatalogService => vec!["path", "dsn"],
            Place::Top | Place::Limits | Place::Nowhere => {
                let tables = [CATALOG_SERVICE, LIMITS, HBA, JWT, LDAP].into_iter().filter(|_| place == Place::Top);
                Setting::ALL.iter().filter(|s| s.place() == place).map(|s| s.name()).chain(tables).collect()
            }
        };
        let close = || nearest(name, known.iter().copied()).map(|k| format!("Did you mean \"{k}\"?"));
        ConfigError::UnknownKey {
            key: name.to_owned(),
            help: elsewhere.or_else(close),
            at: key.span().into(),
            text: self.shown(),
        }
    }

    /// The file as it may be shown: same lines, same offsets, values hidden.
    pub(super) fn shown(&self) -> Arc<NamedSource<String>> {
        Arc::new(NamedSource::new(self.path.display().to_string(), shown(self.text)))
    }
}

/// A list of strings, as JSON.
fn list(value: &Value<'_>) -> Option<String> {
    let list = value.get_ref().as_array()?;
    let texts: Vec<&str> = list.iter().map(|text| text.get_ref().as_str()).collect::<Option<_>>()?;
    serde_json::to_string(&texts).ok()
}
