//! `SHOW SECRETS`. A value is never among what it shows.

use std::collections::BTreeMap;

use dataglot_model::def::{SecretMeta, SecretOrigin};
use dataglot_model::{Kind, Name, ObjectRef};

use super::{Filter, ReadCx, catalog, common, int, with_common};
use crate::error::SessionError;
use crate::value::{Type, Value};

pub(super) const COLUMNS: &[(&str, Type)] = with_common!(
    "name": Text,
    "source": Text,
    "status": Text,
    "value_version": Int8,
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
            Value::from(source(secret.meta)),
            Value::from(if cx.image.is_unreadable(name) { "unreadable" } else { "ok" }),
            int(secret.meta.value_version),
            Value::text_or_null(fingerprint(secret.meta)),
            int(users.get(name).copied().unwrap_or(0)),
        ];
        row.extend(common(secret.header));
        rows.push(row);
    }
    Ok(rows)
}

pub(super) const fn source(meta: &SecretMeta) -> &'static str {
    match meta.origin {
        SecretOrigin::Sealed(_) => "store",
        SecretOrigin::Env(_) => "env",
        SecretOrigin::File(_) => "file",
    }
}

/// The beginning of the ciphertext's hash: tells two values apart and gives away neither.
pub(super) fn fingerprint(meta: &SecretMeta) -> Option<String> {
    match &meta.origin {
        SecretOrigin::Sealed(hash) => Some(hash.to_string().chars().take(FINGERPRINT_DIGITS).collect()),
        SecretOrigin::Env(_) | SecretOrigin::File(_) => None,
    }
}
