//! Option values, as catalogs and views have them.

use std::collections::BTreeMap;

use dataglot_model::Name;
use dataglot_model::def::OptionValue;
use serde::{Deserialize, Serialize};

/// Stored form of [`OptionValue`].
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum OptionValueRecord {
    Text(String),
    Integer(i64),
    Decimal(String),
    Boolean(bool),
    Json(serde_json::Value),
    Secret {
        name: Name,
        #[serde(default, skip_serializing_if = "super::is_false")]
        as_file: bool,
    },
    Env(String),
}

/// Stored form of a list of options.
pub(super) type OptionsRecord = BTreeMap<String, OptionValueRecord>;

pub(super) fn to_record(options: &BTreeMap<String, OptionValue>) -> OptionsRecord {
    let record = |value: &OptionValue| match value {
        OptionValue::Text(text) => OptionValueRecord::Text(text.clone()),
        OptionValue::Integer(number) => OptionValueRecord::Integer(*number),
        OptionValue::Decimal(digits) => OptionValueRecord::Decimal(digits.clone()),
        OptionValue::Boolean(on) => OptionValueRecord::Boolean(*on),
        OptionValue::Json(json) => OptionValueRecord::Json(json.clone()),
        OptionValue::Secret { name, as_file } => OptionValueRecord::Secret { name: name.clone(), as_file: *as_file },
        OptionValue::Env(name) => OptionValueRecord::Env(name.clone()),
    };
    options.iter().map(|(key, value)| (key.clone(), record(value))).collect()
}

pub(super) fn from_record(options: OptionsRecord) -> BTreeMap<String, OptionValue> {
    let value = |record| match record {
        OptionValueRecord::Text(text) => OptionValue::Text(text),
        OptionValueRecord::Integer(number) => OptionValue::Integer(number),
        OptionValueRecord::Decimal(digits) => OptionValue::Decimal(digits),
        OptionValueRecord::Boolean(on) => OptionValue::Boolean(on),
        OptionValueRecord::Json(json) => OptionValue::Json(json),
        OptionValueRecord::Secret { name, as_file } => OptionValue::Secret { name, as_file },
        OptionValueRecord::Env(name) => OptionValue::Env(name),
    };
    options.into_iter().map(|(key, record)| (key, value(record))).collect()
}
