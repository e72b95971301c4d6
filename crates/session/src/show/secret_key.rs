//! `SHOW SECRET KEYS`: the master keys that are loaded or needed, by fingerprint. Counts are of the one org; the
//! canary is the store's.

use std::collections::BTreeSet;

use dataglot_planner::Image;
use dataglot_vault::{KeyId, canary_key};

use super::{ReadCx, int};
use crate::engine::Engine;
use crate::error::SessionError;
use crate::seal::{Need, needs};
use crate::value::{Rows, Type, Value};

pub(super) const COLUMNS: &[(&str, Type)] = &[
    ("fingerprint", Type::Text),
    ("primary", Type::Bool),
    ("loaded", Type::Bool),
    ("data_keys", Type::Int8),
    ("values", Type::Int8),
    ("verifiers", Type::Int8),
    ("canary", Type::Bool),
    ("retired", Type::Bool),
];

/// Keys are for superusers.
pub(crate) fn may_read(cx: ReadCx<'_>) -> Result<(), SessionError> {
    cx.require_superuser("secret keys")
}

/// One row a key: the loaded ones in their order, then those that are needed and not there.
pub(crate) fn rows(engine: &Engine, image: &Image, canary: Option<&[u8]>, retired: &[KeyId]) -> Rows {
    let needs = needs(image);
    let canary = canary.and_then(|bytes| canary_key(bytes).ok());
    let loaded: Vec<KeyId> = engine.ring().ids().collect();
    let needed: BTreeSet<KeyId> = needs.keys().copied().chain(canary).collect();
    let missing = needed.into_iter().filter(|id| !loaded.contains(id));
    let mut rows = Rows::new(COLUMNS);
    for id in loaded.iter().copied().chain(missing) {
        let Need { data_keys, values, verifiers } = needs.get(&id).copied().unwrap_or_default();
        rows.push(vec![
            Value::from(id.to_string().as_str()),
            Value::Bool(engine.ring().primary_id() == Some(id)),
            Value::Bool(loaded.contains(&id)),
            int(data_keys),
            int(values),
            int(verifiers),
            Value::Bool(canary == Some(id)),
            Value::Bool(retired.contains(&id)),
        ]);
    }
    rows
}
