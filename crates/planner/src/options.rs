//! Options of a catalog against the schema of its connector.
//!
//! A value is coerced where its text says the wanted type and refused otherwise; an error names the option
//! and what it takes, never the value.

use std::collections::BTreeMap;

use dataglot_model::command::OptionEntry;
use dataglot_model::connector::{Connector, OptionSpec, OptionType, holds_password};
use dataglot_model::def::{OptionKey, OptionValue};
use dataglot_model::{At, ObjectRef, Span, SqlState};

use crate::{Image, PlanError, platform};

/// The schema's entry for a key.
///
/// # Errors
/// 42704 with the nearest key, or with all of them.
pub(crate) fn spec_of(connector: Connector, key: &str, at: Span) -> Result<&'static OptionSpec, PlanError> {
    connector.option(key).ok_or_else(|| {
        let hint = match connector.nearest_option(key) {
            Some(near) => format!("Perhaps you meant the option \"{near}\"."),
            None => {
                let keys = connector.options().iter().map(|o| o.key).collect::<Vec<_>>();
                format!("Options of connector \"{connector}\" are: {}.", keys.join(", "))
            }
        };
        let message = format!("option \"{key}\" of connector \"{connector}\" does not exist");
        PlanError::rule(SqlState::UndefinedObject, message).with_hint(hint).at(at)
    })
}

/// Checks an entry and gives it in the form in which it is stored.
///
/// # Errors
/// 42704 for an unknown key or secret, 22023 for a value of the wrong type or out of range, 42501 for a
/// credential, and for a variable in an org that may name none.
pub(crate) fn check(
    image: &Image,
    connector: Connector,
    entry: &OptionEntry,
) -> Result<(OptionKey, OptionValue), PlanError> {
    let spec = spec_of(connector, &entry.key.value, entry.key.span)?;
    if let OptionValue::Secret { name, .. } = &entry.value.value
        && image.secret(name).is_none()
    {
        return Err(PlanError::undefined(ObjectRef::Secret(name.clone()), entry.value.span));
    }
    if let OptionValue::Env(_) = &entry.value.value {
        platform::may_name_origins(image)?;
    }
    if would_hold_credential(spec, &entry.value.value) {
        return Err(credential(spec.key, entry.value.span));
    }
    match coerce(spec.kind, &entry.value.value) {
        Some(value) => Ok((spec.key.to_owned(), value)),
        None => {
            let message = format!("option \"{}\" of connector \"{connector}\" takes {}", spec.key, wanted(spec.kind));
            Err(PlanError::rule(SqlState::InvalidParameterValue, message).at(entry.value.span))
        }
    }
}

/// Checks all entries and collects them.
///
/// # Errors
/// As [`check`]; 42710 for a key that is there twice.
pub(crate) fn check_all(
    image: &Image,
    connector: Connector,
    entries: &[OptionEntry],
) -> Result<BTreeMap<OptionKey, OptionValue>, PlanError> {
    let mut options = BTreeMap::new();
    for entry in entries {
        let (key, value) = check(image, connector, entry)?;
        if options.contains_key(&key) {
            return Err(twice(&key, &entry.key));
        }
        options.insert(key, value);
    }
    Ok(options)
}

/// An option that is given twice.
pub(crate) fn twice(key: &str, at: &At<String>) -> PlanError {
    let message = format!("option \"{key}\" provided more than once");
    PlanError::rule(SqlState::DuplicateObject, message).at(at.span)
}

/// A literal that is a credential, or may be one.
pub(crate) fn credential(key: &str, at: Span) -> PlanError {
    PlanError::rule(SqlState::InsufficientPrivilege, format!("option \"{key}\" would hold a credential"))
        .with_hint(format!("Write CREATE SECRET name AS '...' first, then {key} = SECRET name."))
        .at(at)
}

/// The first option that the connector requires and that is missing, with what can stand in for it.
pub(crate) fn missing(
    connector: Connector,
    options: &BTreeMap<OptionKey, OptionValue>,
) -> impl Iterator<Item = &'static OptionSpec> + use<'_> {
    connector.options().iter().filter(move |spec| {
        spec.required && !options.contains_key(spec.key) && !spec.or.iter().any(|other| options.contains_key(*other))
    })
}

/// The error of an option that is missing.
pub(crate) fn required(connector: Connector, spec: &OptionSpec, at: Span) -> PlanError {
    let message = format!("connector \"{connector}\" requires the option \"{}\"", spec.key);
    let error = PlanError::rule(SqlState::InvalidParameterValue, message).at(at);
    match spec.or {
        [] => error,
        others => error.with_hint(format!("Or give {} instead.", others.join(" or "))),
    }
}

/// A value as the schema would store it; as it is where the schema has nothing to say.
pub(crate) fn as_stored(connector: Connector, key: &str, value: &OptionValue) -> (OptionKey, OptionValue) {
    match connector.option(key) {
        Some(spec) => (spec.key.to_owned(), coerce(spec.kind, value).unwrap_or_else(|| value.clone())),
        None => (key.to_owned(), value.clone()),
    }
}

fn would_hold_credential(spec: &OptionSpec, value: &OptionValue) -> bool {
    match value {
        OptionValue::Secret { .. } | OptionValue::Env(_) => false,
        OptionValue::Text(text) => match spec.kind {
            OptionType::Credential => true,
            OptionType::Dsn => holds_password(text),
            OptionType::Text
            | OptionType::Integer(..)
            | OptionType::Decimal
            | OptionType::Boolean
            | OptionType::Json
            | OptionType::OneOf(_) => false,
        },
        OptionValue::Integer(_) | OptionValue::Decimal(_) | OptionValue::Boolean(_) | OptionValue::Json(_) => {
            spec.kind == OptionType::Credential
        }
    }
}

fn coerce(kind: OptionType, value: &OptionValue) -> Option<OptionValue> {
    if let OptionValue::Secret { .. } | OptionValue::Env(_) = value {
        // Whoever resolves it finds out whether it fits.
        return Some(value.clone());
    }
    match kind {
        OptionType::Text | OptionType::Dsn | OptionType::Credential => match value {
            OptionValue::Text(_) => Some(value.clone()),
            OptionValue::Integer(_)
            | OptionValue::Decimal(_)
            | OptionValue::Boolean(_)
            | OptionValue::Json(_)
            | OptionValue::Secret { .. }
            | OptionValue::Env(_) => None,
        },
        OptionType::Integer(low, high) => {
            let number = match value {
                OptionValue::Integer(number) => Some(*number),
                OptionValue::Text(text) => text.trim().parse().ok(),
                OptionValue::Decimal(_)
                | OptionValue::Boolean(_)
                | OptionValue::Json(_)
                | OptionValue::Secret { .. }
                | OptionValue::Env(_) => None,
            };
            number.filter(|n| (low..=high).contains(n)).map(OptionValue::Integer)
        }
        OptionType::Decimal => match value {
            OptionValue::Decimal(_) => Some(value.clone()),
            OptionValue::Integer(number) => Some(OptionValue::Decimal(number.to_string())),
            OptionValue::Text(text) => {
                let text = text.trim();
                is_decimal(text).then(|| OptionValue::Decimal(text.to_owned()))
            }
            OptionValue::Boolean(_) | OptionValue::Json(_) | OptionValue::Secret { .. } | OptionValue::Env(_) => None,
        },
        OptionType::Boolean => match value {
            OptionValue::Boolean(_) => Some(value.clone()),
            OptionValue::Text(text) => match text.trim().to_ascii_lowercase().as_str() {
                "true" | "on" | "yes" | "1" => Some(OptionValue::Boolean(true)),
                "false" | "off" | "no" | "0" => Some(OptionValue::Boolean(false)),
                _ => None,
            },
            OptionValue::Integer(_)
            | OptionValue::Decimal(_)
            | OptionValue::Json(_)
            | OptionValue::Secret { .. }
            | OptionValue::Env(_) => None,
        },
        OptionType::Json => match value {
            OptionValue::Json(_) => Some(value.clone()),
            OptionValue::Text(text) if text.trim_start().starts_with(['[', '{']) => {
                serde_json::from_str(text).ok().map(OptionValue::Json)
            }
            OptionValue::Text(_)
            | OptionValue::Integer(_)
            | OptionValue::Decimal(_)
            | OptionValue::Boolean(_)
            | OptionValue::Secret { .. }
            | OptionValue::Env(_) => None,
        },
        OptionType::OneOf(words) => {
            let text = match value {
                OptionValue::Text(text) => text.trim().to_ascii_lowercase(),
                OptionValue::Integer(number) => number.to_string(),
                OptionValue::Decimal(_)
                | OptionValue::Boolean(_)
                | OptionValue::Json(_)
                | OptionValue::Secret { .. }
                | OptionValue::Env(_) => return None,
            };
            words.iter().find(|word| **word == text).map(|word| OptionValue::Text((*word).to_owned()))
        }
    }
}

/// Digits, perhaps a sign, a point and an exponent.
fn is_decimal(text: &str) -> bool {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    digits.starts_with(|c: char| c.is_ascii_digit() || c == '.')
        && digits.bytes().all(|b| b.is_ascii_digit() || matches!(b, b'.' | b'e' | b'E' | b'+' | b'-'))
        && text.parse::<f64>().is_ok_and(f64::is_finite)
}

fn wanted(kind: OptionType) -> String {
    match kind {
        OptionType::Text => "text".to_owned(),
        OptionType::Dsn => "a connection string".to_owned(),
        OptionType::Integer(low, high) => format!("an integer from {low} to {high}"),
        OptionType::Decimal => "a decimal number".to_owned(),
        OptionType::Boolean => "true or false".to_owned(),
        OptionType::Json => "JSON".to_owned(),
        OptionType::OneOf(words) => format!("one of {}", words.join(", ")),
        OptionType::Credential => "SECRET name or ENV 'NAME'".to_owned(),
    }
}
