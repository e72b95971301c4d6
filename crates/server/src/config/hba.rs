//! The list of rules by which clients are let in: `[[hba]]` tables, in the order in which they stand.

use std::collections::BTreeMap;

use dataglot_model::connector::nearest;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::error::ConfigError;
use super::file::File;
use super::source::Raw;
use super::value;
use crate::auth::{Address, Hba, Kind, Method, Names, Rule};

/// The tables' name.
pub(super) const HBA: &str = "hba";
/// What a table may have.
pub(super) const KEYS: [&str; 6] = ["type", "address", "database", "user", "method", "map"];
/// Most rules.
const RULES_MAX: usize = 1_000;

type Value<'a> = Spanned<DeValue<'a>>;

/// The rules, and where the first one stands.
pub(super) fn read(file: &File<'_>, value: &Value<'_>) -> Result<(Hba, Raw), ConfigError> {
    let form = || format!("1 to {RULES_MAX} tables: [[hba]], once for each rule");
    let tables = value.get_ref().as_array().filter(|tables| (1..=RULES_MAX).contains(&tables.len()));
    let tables = tables.ok_or_else(|| wrong(file, value, HBA, form()))?;
    let rules = tables.iter().map(|table| match table.get_ref().as_table() {
        Some(keys) => rule(file, table, keys),
        None => Err(wrong(file, table, HBA, form())),
    });
    let hba = Hba::new(rules.collect::<Result<_, _>>()?);
    let first = tables.first().map_or(value.span(), Spanned::span);
    Ok((hba, file.raw(String::new(), first)))
}

fn rule(file: &File<'_>, table: &Value<'_>, keys: &DeTable<'_>) -> Result<Rule, ConfigError> {
    let mut rule = Rule::for_all(Method::Reject);
    let (mut has_address, mut has_method) = (false, false);
    for (key, value) in keys {
        let wrong = |key, wanted: &str| wrong(file, value, key, wanted.to_owned());
        match key.get_ref().as_ref() {
            "type" => {
                let kind = text(value).and_then(Kind::named);
                rule.kind = kind.ok_or_else(|| wrong("type", "host, hostssl or hostnossl"))?;
            }
            "address" => {
                let address = text(value).and_then(Address::parse);
                let form = "all, loopback, samehost, or a network such as 10.0.0.0/8 or 2001:db8::/32, all bits after \
                            its length zero";
                rule.address = address.ok_or_else(|| wrong("address", form))?;
                has_address = true;
            }
            "database" => rule.databases = names(value).ok_or_else(|| wrong("database", NAMES))?,
            "user" => rule.users = names(value).ok_or_else(|| wrong("user", NAMES))?,
            "method" => {
                let method = text(value).and_then(Method::named);
                rule.method = method.ok_or_else(|| wrong("method", &value::methods()))?;
                has_method = true;
            }
            "map" => {
                let form = "a table of a certificate's names, each with a user or a list of users";
                rule.map = map(value).ok_or_else(|| wrong("map", form))?;
            }
            other => {
                return Err(ConfigError::UnknownKey {
                    key: other.to_owned(),
                    help: nearest(other, KEYS.into_iter()).map(|known| format!("Did you mean \"{known}\"?")),
                    at: key.span().into(),
                    text: file.shown(),
                });
            }
        }
    }
    if !has_address || !has_method {
        return Err(wrong(file, table, HBA, "at least address = … and method = …".to_owned()));
    }
    if !rule.map.is_empty() && rule.method != Method::Cert {
        return Err(wrong(file, table, "map", "effect with method = \"cert\" only".to_owned()));
    }
    Ok(rule)
}

const NAMES: &str = "\"all\", a name, or a list of names that is not empty";

fn text<'a>(value: &'a Value<'_>) -> Option<&'a str> {
    value.get_ref().as_str()
}

/// A text, or several.
fn texts(value: &Value<'_>) -> Option<Vec<String>> {
    let texts: Vec<String> = match value.get_ref().as_array() {
        Some(values) => values.iter().map(|v| text(v).map(str::to_owned)).collect::<Option<_>>()?,
        None => vec![text(value)?.to_owned()],
    };
    Some(texts).filter(|texts| !texts.is_empty() && texts.iter().all(|text| !text.is_empty()))
}

/// `all` stands alone: in a list it would be a name, and mean less than it seems to.
fn names(value: &Value<'_>) -> Option<Names> {
    match text(value) {
        Some("all") => Some(Names::All),
        Some(_) | None => texts(value).filter(|names| names.iter().all(|name| name != "all")).map(Names::Of),
    }
}

fn map(value: &Value<'_>) -> Option<BTreeMap<String, Vec<String>>> {
    let table = value.get_ref().as_table().filter(|table| !table.is_empty())?;
    table.iter().map(|(name, users)| Some((name.get_ref().to_string(), texts(users)?))).collect()
}

fn wrong(file: &File<'_>, value: &Value<'_>, key: &'static str, wanted: String) -> ConfigError {
    let Raw { origin, at, .. } = file.raw(String::new(), value.span());
    let (at, text) = at.map(|place| (place.span, place.text)).unzip();
    ConfigError::Value { setting: key, wanted, origin, at, text }
}
