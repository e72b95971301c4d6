//! `grants` and `role_members`.

use std::collections::BTreeMap;

use dataglot_model::def::{GrantRecord, MembershipOptions, MembershipRecord};
use dataglot_model::{Name, PrivilegeSet, RemoteName};
use serde::{Deserialize, Serialize};

use super::{Bad, Record, is_false, read, write};

/// Stored form of [`GrantRecord`].
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct StoredGrantRecord {
    #[serde(default, skip_serializing_if = "no_privilege")]
    privileges: PrivilegeSet,
    #[serde(default, skip_serializing_if = "no_privilege")]
    grantable: PrivilegeSet,
    /// Column to WITH GRANT OPTION.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    columns: BTreeMap<RemoteName, bool>,
    #[serde(default, skip_serializing_if = "is_false")]
    as_all: bool,
}

impl Record for StoredGrantRecord {
    const FIELDS: &'static [&'static str] = &["privileges", "grantable", "columns", "as_all"];
}

impl From<&GrantRecord> for StoredGrantRecord {
    fn from(record: &GrantRecord) -> Self {
        let GrantRecord { privileges, grantable, columns, as_all, extra: _ } = record;
        StoredGrantRecord { privileges: *privileges, grantable: *grantable, columns: columns.clone(), as_all: *as_all }
    }
}

pub(super) fn encode(record: &GrantRecord, out: &mut Vec<u8>) -> Result<(), Bad> {
    write(&StoredGrantRecord::from(record), &record.extra, out)
}

pub(super) fn decode(json: &[u8]) -> Result<GrantRecord, Bad> {
    let (StoredGrantRecord { privileges, grantable, columns, as_all }, extra) = read(json)?;
    Ok(GrantRecord { privileges, grantable, columns, as_all, extra })
}

/// Stored form of [`MembershipRecord`].
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct StoredMembershipRecord {
    by: BTreeMap<Name, MembershipOptionsRecord>,
}

#[derive(Serialize, Deserialize)]
struct MembershipOptionsRecord {
    admin: bool,
    inherit: bool,
    set: bool,
}

impl Record for StoredMembershipRecord {
    const FIELDS: &'static [&'static str] = &["by"];
}

impl From<&MembershipRecord> for StoredMembershipRecord {
    fn from(record: &MembershipRecord) -> Self {
        let MembershipRecord { by, extra: _ } = record;
        let options = |options: &MembershipOptions| {
            let MembershipOptions { admin, inherit, set } = *options;
            MembershipOptionsRecord { admin, inherit, set }
        };
        StoredMembershipRecord { by: by.iter().map(|(grantor, o)| (grantor.clone(), options(o))).collect() }
    }
}

pub(super) fn encode_membership(record: &MembershipRecord, out: &mut Vec<u8>) -> Result<(), Bad> {
    write(&StoredMembershipRecord::from(record), &record.extra, out)
}

pub(super) fn decode_membership(json: &[u8]) -> Result<MembershipRecord, Bad> {
    let (StoredMembershipRecord { by }, extra) = read(json)?;
    let options = |record| {
        let MembershipOptionsRecord { admin, inherit, set } = record;
        MembershipOptions { admin, inherit, set }
    };
    Ok(MembershipRecord { by: by.into_iter().map(|(grantor, o)| (grantor, options(o))).collect(), extra })
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
fn no_privilege(set: &PrivilegeSet) -> bool {
    set.is_empty()
}
