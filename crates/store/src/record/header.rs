//! `objects`: the header that every kind of object has.

use std::sync::Arc;

use dataglot_model::def::{Header, ObjectId, PreviousSecret, SecretMeta, SecretOrigin, Stamp};
use dataglot_model::{Name, SecretHash, Seq, Timestamp};
use serde::{Deserialize, Serialize};

use super::{Bad, Record, read, write};

/// Stored form of [`Header`].
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct HeaderRecord {
    id: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    owner: Option<Name>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    comment: Option<Arc<str>>,
    version: u64,
    created: StampRecord,
    /// Left out where it is `created`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    changed: Option<StampRecord>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    secret: Option<SecretMetaRecord>,
}

#[derive(Serialize, Deserialize)]
struct StampRecord {
    seq: u64,
    at: i64,
    by: Name,
}

#[derive(Serialize, Deserialize)]
struct SecretMetaRecord {
    value_version: u64,
    origin: SecretOriginRecord,
    /// Left out where the object was changed last then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    set_at: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    previous: Option<PreviousSecretRecord>,
}

#[derive(Serialize, Deserialize)]
struct PreviousSecretRecord {
    value_version: u64,
    origin: SecretOriginRecord,
    until: i64,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum SecretOriginRecord {
    Sealed(SecretHash),
    Env(String),
    File(String),
}

impl Record for HeaderRecord {
    const FIELDS: &'static [&'static str] = &["id", "owner", "comment", "version", "created", "changed", "secret"];
}

impl From<&Stamp> for StampRecord {
    fn from(stamp: &Stamp) -> Self {
        let Stamp { seq, at, by } = stamp;
        StampRecord { seq: seq.0, at: at.0, by: by.clone() }
    }
}

impl From<StampRecord> for Stamp {
    fn from(record: StampRecord) -> Self {
        let StampRecord { seq, at, by } = record;
        Stamp { seq: Seq(seq), at: Timestamp(at), by }
    }
}

impl From<&SecretOrigin> for SecretOriginRecord {
    fn from(origin: &SecretOrigin) -> Self {
        match origin {
            SecretOrigin::Sealed(hash) => SecretOriginRecord::Sealed(*hash),
            SecretOrigin::Env(name) => SecretOriginRecord::Env(name.clone()),
            SecretOrigin::File(path) => SecretOriginRecord::File(path.clone()),
        }
    }
}

impl From<SecretOriginRecord> for SecretOrigin {
    fn from(record: SecretOriginRecord) -> Self {
        match record {
            SecretOriginRecord::Sealed(hash) => SecretOrigin::Sealed(hash),
            SecretOriginRecord::Env(name) => SecretOrigin::Env(name),
            SecretOriginRecord::File(path) => SecretOrigin::File(path),
        }
    }
}

impl SecretMetaRecord {
    fn of(meta: &SecretMeta, changed: &Stamp) -> Self {
        let SecretMeta { value_version, origin, set_at, previous } = meta;
        SecretMetaRecord {
            value_version: *value_version,
            origin: origin.into(),
            set_at: (*set_at != changed.at).then_some(set_at.0),
            previous: previous.as_deref().map(|previous| {
                let PreviousSecret { value_version, origin, until } = previous;
                PreviousSecretRecord { value_version: *value_version, origin: origin.into(), until: until.0 }
            }),
        }
    }

    fn into_meta(self, changed: &Stamp) -> SecretMeta {
        let SecretMetaRecord { value_version, origin, set_at, previous } = self;
        SecretMeta {
            value_version,
            origin: origin.into(),
            set_at: set_at.map_or(changed.at, Timestamp),
            previous: previous.map(|previous| {
                let PreviousSecretRecord { value_version, origin, until } = previous;
                Box::new(PreviousSecret { value_version, origin: origin.into(), until: Timestamp(until) })
            }),
        }
    }
}

impl From<&Header> for HeaderRecord {
    fn from(header: &Header) -> Self {
        let Header { id, owner, comment, version, created, changed, secret, extra: _ } = header;
        HeaderRecord {
            id: id.0,
            owner: owner.clone(),
            comment: comment.clone(),
            version: *version,
            created: created.into(),
            changed: (changed != created).then(|| changed.into()),
            secret: secret.as_deref().map(|meta| SecretMetaRecord::of(meta, changed)),
        }
    }
}

pub(super) fn encode(header: &Header, out: &mut Vec<u8>) -> Result<(), Bad> {
    write(&HeaderRecord::from(header), &header.extra, out)
}

pub(super) fn decode(json: &[u8]) -> Result<Header, Bad> {
    let (record, extra) = read::<HeaderRecord>(json)?;
    let HeaderRecord { id, owner, comment, version, created, changed, secret } = record;
    let created = Stamp::from(created);
    let changed = changed.map_or_else(|| created.clone(), Stamp::from);
    let secret = secret.map(|s| Box::new(s.into_meta(&changed)));
    Ok(Header { id: ObjectId(id), owner, comment, version, created, changed, secret, extra })
}
