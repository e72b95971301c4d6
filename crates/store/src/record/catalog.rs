//! `entries`: catalogs.

use dataglot_model::connector::Connector;
use dataglot_model::def::CatalogDef;
use serde::{Deserialize, Serialize};

use super::option::{self, OptionsRecord};
use super::{Bad, Record, is_true, read, write, yes};

/// Stored form of [`CatalogDef`].
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CatalogRecord {
    connector: String,
    #[serde(default, skip_serializing_if = "OptionsRecord::is_empty")]
    options: OptionsRecord,
    #[serde(default = "yes", skip_serializing_if = "is_true")]
    enabled: bool,
}

impl Record for CatalogRecord {
    const FIELDS: &'static [&'static str] = &["connector", "options", "enabled"];
}

impl From<&CatalogDef> for CatalogRecord {
    fn from(def: &CatalogDef) -> Self {
        let CatalogDef { connector, options, enabled, extra: _ } = def;
        let connector = connector.as_str().to_owned();
        CatalogRecord { connector, options: option::to_record(options), enabled: *enabled }
    }
}

pub(super) fn encode(def: &CatalogDef, out: &mut Vec<u8>) -> Result<(), Bad> {
    write(&CatalogRecord::from(def), &def.extra, out)
}

pub(super) fn decode(json: &[u8]) -> Result<CatalogDef, Bad> {
    let (CatalogRecord { connector, options, enabled }, extra) = read(json)?;
    let connector = Connector::from_name(&connector).ok_or(Bad::Value)?;
    Ok(CatalogDef { connector, options: option::from_record(options), enabled, extra })
}
