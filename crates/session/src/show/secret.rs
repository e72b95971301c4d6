//! `SHOW SECRETS`. A value is never among what it shows.

use std::collections::BTreeMap;

use dataglot_model::def::{SecretMeta, SecretOrigin};
use dataglot_model::{Kind, Name, ObjectRef, Timestamp};

use super::{Filter, ReadCx, catalog, common, int, with_common};
use crate::error::SessionError;
use crate::value::{Type, Value};

pub(super) const COLUMNS: &[(&str, Type)] = with_common!(
    "name": Text,
    "source": Text,
    "status": Text,
    "value_version": Int8,
    "age": Text,
    "last_rotation": Time,
    "previous_until": Time,
    "fingerprint": Text,
    "used_by": Int8,
);

/// How many digits of the ciphertext's hash are shown.
const FINGERPRINT_DIGITS: usize = 16;

pub(super) fn rows(cx: ReadCx<'_>, filter: Filter<'_>) -> Result<Vec<Vec<Value>>, SessionError> {
    filter.no_place(Kind::Secret)?;
    let mut users: BTreeMap<&Name, u64> = BTreeMap::new();
    for (name, catalog) in cx.image.catalogs() {
        if cx.may_see(&ObjectRef::Catalog(name.clone())) {
            let mut named: Vec<&Name> = catalog::secrets(catalog.def).collect();
            named.sort();
            named.dedup();
            named.into_iter().for_each(|secret| *users.entry(secret).or_default() += 1);
        }
    }
    let mut rows = Vec::new();
    for (name, secret) in cx.image.secrets() {
        if !filter.likes(name.as_str())? || !cx.may_see(&ObjectRef::Secret(name.clone())) {
            continue;
        }
        let mut row = vec![
            Value::from(name.as_str()),
            Value::from(source(&secret.meta.origin)),
            Value::from(cx.secret_status(name)),
            int(secret.meta.value_version),
            Value::Text(age(secret.meta.set_at, cx.now)),
            last_rotation(secret.meta).map_or(Value::Null, Value::Time),
            secret.meta.previous_at(cx.now).map_or(Value::Null, |previous| Value::Time(previous.until)),
            Value::text_or_null(fingerprint(secret.meta)),
            int(users.get(name).copied().unwrap_or(0)),
        ];
        row.extend(common(secret.header));
        rows.push(row);
    }
    Ok(rows)
}

pub(super) const fn source(origin: &SecretOrigin) -> &'static str {
    match origin {
        SecretOrigin::Sealed(_) => "store",
        SecretOrigin::Env(_) => "env",
        SecretOrigin::File(_) => "file",
    }
}

/// For how long the value has been the one that it is, in days and hours: `3 days 4 hours`.
pub(super) fn age(set_at: Timestamp, now: Timestamp) -> String {
    const HOUR_MICROS: i64 = 60 * 60 * 1_000_000;
    let hours = now.0.saturating_sub(set_at.0).max(0) / HOUR_MICROS;
    let part = |count: i64, unit: &str| format!("{count} {unit}{}", if count == 1 { "" } else { "s" });
    match (hours / 24, hours % 24) {
        (0, hours) => part(hours, "hour"),
        (days, 0) => part(days, "day"),
        (days, hours) => format!("{} {}", part(days, "day"), part(hours, "hour")),
    }
}

/// When the value was changed last; `None`: it is the first one.
pub(super) fn last_rotation(meta: &SecretMeta) -> Option<Timestamp> {
    (meta.value_version > 1).then_some(meta.set_at)
}

/// The beginning of the ciphertext's hash: tells two values apart and gives away neither.
pub(super) fn fingerprint(meta: &SecretMeta) -> Option<String> {
    match &meta.origin {
        SecretOrigin::Sealed(hash) => Some(hash.to_string().chars().take(FINGERPRINT_DIGITS).collect()),
        SecretOrigin::Env(_) | SecretOrigin::File(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_age_is_in_days_and_hours() {
        for (seconds, expected) in [
            (-5, "0 hours"),
            (3_599, "0 hours"),
            (3_600, "1 hour"),
            (86_399, "23 hours"),
            (86_400, "1 day"),
            (90_000, "1 day 1 hour"),
            (3 * 86_400 + 4 * 3_600 + 59, "3 days 4 hours"),
        ] {
            assert_eq!(age(Timestamp(7), Timestamp(7 + seconds * 1_000_000)), expected);
        }
    }
}
