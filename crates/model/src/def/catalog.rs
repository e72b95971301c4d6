//! A catalog: a connector and its options.

use std::collections::BTreeMap;
use std::fmt;

use crate::Name;
use crate::connector::Connector;
use crate::def::Extra;

/// The key of an option, as the connector's schema spells it.
pub type OptionKey = String;

/// A connection to a source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CatalogDef {
    /// What kind of source. Never changes.
    pub connector: Connector,
    /// Options by key, checked against the connector's schema.
    pub options: BTreeMap<OptionKey, OptionValue>,
    /// `ENABLE` / `DISABLE`.
    pub enabled: bool,
    /// Unknown fields.
    pub extra: Extra,
}

/// The value of an option, with its type. None of them is a credential: those are references.
#[derive(Clone, PartialEq, Eq)]
pub enum OptionValue {
    /// `'text'`
    Text(String),
    /// `8`
    Integer(i64),
    /// `1.5`, kept as written (canonical digits).
    Decimal(String),
    /// `true`
    Boolean(bool),
    /// `JSON '…'`, `[…]`, `{…}`
    Json(serde_json::Value),
    /// `SECRET name`
    Secret {
        /// The secret.
        name: Name,
        /// `AS FILE`: the executor gets a file that holds the value.
        as_file: bool,
    },
    /// `ENV 'NAME'`: read by the executor from its environment.
    Env(String),
}

impl fmt::Debug for OptionValue {
    /// The type only: a literal of the user's is nobody's business, however harmless it looks.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OptionValue::Text(_) => f.write_str("text"),
            OptionValue::Integer(_) => f.write_str("integer"),
            OptionValue::Decimal(_) => f.write_str("decimal"),
            OptionValue::Boolean(_) => f.write_str("boolean"),
            OptionValue::Json(_) => f.write_str("json"),
            OptionValue::Secret { name, .. } => write!(f, "secret {name}"),
            OptionValue::Env(_) => f.write_str("env"),
        }
    }
}
