//! `derived_products`: views.

use std::sync::Arc;

use dataglot_model::def::{ReferenceRole, SecurityMode, ViewDef, ViewReference};
use dataglot_model::{RemoteName, TableRef};
use serde::{Deserialize, Serialize};

use super::option::{self, OptionsRecord};
use super::{Bad, Record, read, write};

/// Stored form of [`ViewDef`].
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ViewRecord {
    sql: Arc<str>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    references: Vec<ReferenceRecord>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    columns: Option<Vec<RemoteName>>,
    #[serde(default, skip_serializing_if = "is_invoker")]
    security: SecurityRecord,
    #[serde(default, skip_serializing_if = "OptionsRecord::is_empty")]
    options: OptionsRecord,
}

impl Record for ViewRecord {
    const FIELDS: &'static [&'static str] = &["sql", "references", "columns", "security", "options"];
}

#[derive(Serialize, Deserialize)]
struct ReferenceRecord {
    table: TableRef,
    start: u32,
    end: u32,
    role: RoleRecord,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum RoleRecord {
    Aliased,
    Bare,
    Qualifier,
}

#[derive(Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum SecurityRecord {
    #[default]
    Invoker,
    Definer,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
fn is_invoker(security: &SecurityRecord) -> bool {
    *security == SecurityRecord::Invoker
}

impl From<&ViewReference> for ReferenceRecord {
    fn from(reference: &ViewReference) -> Self {
        let ViewReference { table, start, end, role } = reference;
        let role = match role {
            ReferenceRole::Aliased => RoleRecord::Aliased,
            ReferenceRole::Bare => RoleRecord::Bare,
            ReferenceRole::Qualifier => RoleRecord::Qualifier,
        };
        ReferenceRecord { table: table.clone(), start: *start, end: *end, role }
    }
}

impl From<ReferenceRecord> for ViewReference {
    fn from(record: ReferenceRecord) -> Self {
        let ReferenceRecord { table, start, end, role } = record;
        let role = match role {
            RoleRecord::Aliased => ReferenceRole::Aliased,
            RoleRecord::Bare => ReferenceRole::Bare,
            RoleRecord::Qualifier => ReferenceRole::Qualifier,
        };
        ViewReference { table, start, end, role }
    }
}

impl From<&ViewDef> for ViewRecord {
    fn from(def: &ViewDef) -> Self {
        let ViewDef { query, references, columns, security, options, extra: _ } = def;
        ViewRecord {
            sql: Arc::clone(query),
            references: references.iter().map(ReferenceRecord::from).collect(),
            columns: columns.clone(),
            security: match security {
                SecurityMode::Invoker => SecurityRecord::Invoker,
                SecurityMode::Definer => SecurityRecord::Definer,
            },
            options: option::to_record(options),
        }
    }
}

pub(super) fn encode(def: &ViewDef, out: &mut Vec<u8>) -> Result<(), Bad> {
    write(&ViewRecord::from(def), &def.extra, out)
}

pub(super) fn decode(json: &[u8]) -> Result<ViewDef, Bad> {
    let (record, extra) = read::<ViewRecord>(json)?;
    let ViewRecord { sql, references, columns, security, options } = record;
    Ok(ViewDef {
        query: sql,
        references: references.into_iter().map(ViewReference::from).collect(),
        columns,
        security: match security {
            SecurityRecord::Invoker => SecurityMode::Invoker,
            SecurityRecord::Definer => SecurityMode::Definer,
        },
        options: option::from_record(options),
        extra,
    })
}
