//! A catalog as a coordinator needs it, and as JSON for executors.

use std::collections::BTreeMap;

use dataglot_model::Name;
use dataglot_model::def::{CatalogDef, OptionKey, OptionValue};
use dataglot_planner::{Image, Object};
use serde_json::{Value, json};

use super::SecretRef;

/// A catalog of an org.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResolvedCatalog {
    /// Its name.
    pub name: Name,
    /// The connector, as SQL names it.
    pub connector: &'static str,
    /// Whether it is to be used: `ENABLE`, `DISABLE`.
    pub enabled: bool,
    /// The number of its definition: +1 with each change.
    pub version: u64,
    /// Its options by key.
    pub options: BTreeMap<OptionKey, CatalogOption>,
    /// Those of its secrets whose stored value is damaged or lost, in order.
    pub unreadable: Vec<Name>,
}

/// The value of an option. None of them is a credential.
#[derive(Clone, PartialEq, Eq)]
pub enum CatalogOption {
    /// A text.
    Text(String),
    /// A whole number.
    Integer(i64),
    /// A decimal number, in digits.
    Decimal(String),
    /// A truth.
    Boolean(bool),
    /// JSON.
    Json(Value),
    /// The value of an environment variable of whoever uses the catalog.
    Env(String),
    /// The value of a secret: see [`super::Resolver::resolve`].
    Secret(SecretRef),
}

impl std::fmt::Debug for CatalogOption {
    /// The kind only, and a secret's name: what somebody wrote into a text is nobody's business.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            CatalogOption::Text(_) => f.write_str("text"),
            CatalogOption::Integer(_) => f.write_str("integer"),
            CatalogOption::Decimal(_) => f.write_str("decimal"),
            CatalogOption::Boolean(_) => f.write_str("boolean"),
            CatalogOption::Json(_) => f.write_str("json"),
            CatalogOption::Env(_) => f.write_str("env"),
            CatalogOption::Secret(secret) => write!(f, "secret {}", secret.name),
        }
    }
}

impl ResolvedCatalog {
    pub(super) fn of(image: &Image, name: &Name, catalog: &Object<'_, CatalogDef>) -> Self {
        let CatalogDef { connector, options, enabled, extra: _ } = catalog.def.as_ref();
        let options: BTreeMap<_, _> =
            options.iter().map(|(key, value)| (key.clone(), CatalogOption::of(image, value))).collect();
        let mut unreadable: Vec<Name> =
            secrets(&options).map(|s| s.name.clone()).filter(|s| image.is_unreadable(s)).collect();
        unreadable.sort();
        unreadable.dedup();
        ResolvedCatalog {
            name: name.clone(),
            connector: connector.as_str(),
            enabled: *enabled,
            version: catalog.header.version,
            options,
            unreadable,
        }
    }

    /// The secrets that its options refer to, in the order of their keys.
    pub fn secrets(&self) -> impl Iterator<Item = &SecretRef> {
        secrets(&self.options)
    }

    /// As JSON with sorted keys (`docs/resolve.md` has its form): credentials are references.
    pub fn to_json(&self) -> Value {
        let ResolvedCatalog { name, connector, enabled, version, options, unreadable } = self;
        let mut json = json!({
            "connector": connector,
            "enabled": enabled,
            "name": name.as_str(),
            "options": options.iter().map(|(key, value)| (key.clone(), value.to_json())).collect::<BTreeMap<_, _>>(),
            "version": version,
        });
        if let (false, Some(fields)) = (unreadable.is_empty(), json.as_object_mut()) {
            let names: Vec<&str> = unreadable.iter().map(Name::as_str).collect();
            fields.insert("unreadable".to_owned(), json!(names));
        }
        json
    }
}

fn secrets(options: &BTreeMap<OptionKey, CatalogOption>) -> impl Iterator<Item = &SecretRef> {
    options.values().filter_map(|option| match option {
        CatalogOption::Secret(secret) => Some(secret),
        CatalogOption::Text(_)
        | CatalogOption::Integer(_)
        | CatalogOption::Decimal(_)
        | CatalogOption::Boolean(_)
        | CatalogOption::Json(_)
        | CatalogOption::Env(_) => None,
    })
}

impl CatalogOption {
    fn of(image: &Image, value: &OptionValue) -> Self {
        match value {
            OptionValue::Text(text) => CatalogOption::Text(text.clone()),
            OptionValue::Integer(number) => CatalogOption::Integer(*number),
            OptionValue::Decimal(digits) => CatalogOption::Decimal(digits.clone()),
            OptionValue::Boolean(truth) => CatalogOption::Boolean(*truth),
            OptionValue::Json(json) => CatalogOption::Json(json.clone()),
            OptionValue::Env(variable) => CatalogOption::Env(variable.clone()),
            OptionValue::Secret { name, as_file } => CatalogOption::Secret(SecretRef {
                org: image.org().clone(),
                name: name.clone(),
                version: image.secret(name).map_or(0, |secret| secret.meta.value_version),
                as_file: *as_file,
            }),
        }
    }

    /// As JSON: an object of one field that says what it is, but for a secret, which has its number beside its
    /// name.
    pub fn to_json(&self) -> Value {
        match self {
            CatalogOption::Text(text) => json!({"text": text}),
            CatalogOption::Integer(number) => json!({"integer": number}),
            CatalogOption::Decimal(digits) => json!({"decimal": digits}),
            CatalogOption::Boolean(truth) => json!({"boolean": truth}),
            CatalogOption::Json(value) => json!({"json": value}),
            CatalogOption::Env(variable) => json!({"env": variable}),
            CatalogOption::Secret(SecretRef { org: _, name, version, as_file }) => {
                json!({"secret": {"as_file": as_file, "name": name.as_str(), "version": version}})
            }
        }
    }
}
