//! `users` and `roles`: one record, in the table that its LOGIN attribute says.

use std::collections::BTreeMap;
use std::sync::Arc;

use dataglot_model::Timestamp;
use dataglot_model::def::RoleDef;
use serde::{Deserialize, Serialize};

use super::{Bad, Record, is_false, is_true, no_limit, read, unlimited, write, yes};

/// Stands for a password's verifier where the verifier itself must not be.
pub const VERIFIER_PLACEHOLDER: &str = "<verifier>";

/// Stored form of [`RoleDef`]. What is as `CREATE ROLE r` makes it is left out; LOGIN is the table's.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RoleRecord {
    #[serde(default, skip_serializing_if = "is_false")]
    superuser: bool,
    #[serde(default, skip_serializing_if = "is_false")]
    createrole: bool,
    #[serde(default = "yes", skip_serializing_if = "is_true")]
    inherit: bool,
    #[serde(default, skip_serializing_if = "is_false")]
    bypassrls: bool,
    #[serde(default = "unlimited", skip_serializing_if = "no_limit")]
    connection_limit: i32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    valid_until: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    verifier: Option<Arc<str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    settings: Option<BTreeMap<String, String>>,
}

impl Record for RoleRecord {
    const FIELDS: &'static [&'static str] =
        &["superuser", "createrole", "inherit", "bypassrls", "connection_limit", "valid_until", "verifier", "settings"];
}

impl From<&RoleDef> for RoleRecord {
    fn from(def: &RoleDef) -> Self {
        let RoleDef {
            superuser,
            createrole,
            login: _,
            inherit,
            bypassrls,
            connection_limit,
            valid_until,
            verifier,
            settings,
            extra: _,
        } = def;
        RoleRecord {
            superuser: *superuser,
            createrole: *createrole,
            inherit: *inherit,
            bypassrls: *bypassrls,
            connection_limit: *connection_limit,
            valid_until: valid_until.map(|t| t.0),
            verifier: verifier.clone(),
            settings: settings.as_deref().cloned(),
        }
    }
}

pub(super) fn encode(def: &RoleDef, out: &mut Vec<u8>) -> Result<(), Bad> {
    write(&RoleRecord::from(def), &def.extra, out)
}

/// The same with a placeholder for the verifier, for history.
pub(super) fn encode_without_verifier(def: &RoleDef, out: &mut Vec<u8>) -> Result<(), Bad> {
    let mut record = RoleRecord::from(def);
    record.verifier = record.verifier.map(|_| VERIFIER_PLACEHOLDER.into());
    write(&record, &def.extra, out)
}

pub(super) fn decode(json: &[u8], login: bool) -> Result<RoleDef, Bad> {
    let (record, extra) = read::<RoleRecord>(json)?;
    let RoleRecord { superuser, createrole, inherit, bypassrls, connection_limit, valid_until, verifier, settings } =
        record;
    Ok(RoleDef {
        superuser,
        createrole,
        login,
        inherit,
        bypassrls,
        connection_limit,
        valid_until: valid_until.map(Timestamp),
        verifier,
        settings: settings.map(Box::new),
        extra,
    })
}
