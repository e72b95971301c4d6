//! What a plan changes: rows of the store, and nothing else.
//!
//! A [`Mutation`] is `Put` or `Delete` of one row. Rows keep their types here; `store` alone knows how
//! one becomes a table, a key and bytes, so a backend needs no rule of the language.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::def::{
    CatalogDef, GrantKey, GrantRecord, Header, MembershipKey, MembershipRecord, ObjectId, PolicyDef, RoleDef, ViewDef,
};
use crate::{Name, ObjectRef, OrgName, SecretHash, TableRef, Timestamp};

/// The number of a transaction within its org: +1 with each that changed something.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Seq(pub u64);

impl Seq {
    /// The one after it.
    #[must_use]
    pub const fn next(self) -> Seq {
        Seq(self.0 + 1)
    }
}

impl fmt::Display for Seq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// The identity of a transaction, made by whoever sends it, by which its outcome can be asked later.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TransactionId(pub u128);

impl fmt::Display for TransactionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Debug for TransactionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl TransactionId {
    /// A new one: the time in milliseconds, then random bits. Ids that are made one after the other lie side by
    /// side where they are looked up, which spares a store with many transactions most of its work for that.
    pub fn new(at: Timestamp, random: [u8; 16]) -> Self {
        let millis = u128::from(at.0.max(0).unsigned_abs() / 1000);
        TransactionId(millis << 80 | u128::from_be_bytes(random) >> 48)
    }

    /// The id that `text`, 32 hexadecimal digits, stands for.
    pub fn parse(text: &str) -> Option<Self> {
        if text.len() != 32 {
            return None;
        }
        u128::from_str_radix(text, 16).ok().map(TransactionId)
    }
}

/// A row of the store.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "one variant a table; see DESIGN's table of tables in ARCHITECTURE.md")]
pub enum Row {
    /// `objects`
    Header(ObjectRef, Arc<Header>),
    /// `entries`
    Catalog(Name, Arc<CatalogDef>),
    /// `secrets`: the raw envelope.
    Secret(Name, Arc<[u8]>, SecretHash),
    /// `users` where the role may log in, else `roles`.
    Role(Name, Arc<RoleDef>),
    /// `role_members`
    Membership(MembershipKey, Arc<MembershipRecord>),
    /// `policies`
    Policy(Name, Arc<PolicyDef>),
    /// `grants`
    Grant(GrantKey, Arc<GrantRecord>),
    /// `derived_products`
    View(TableRef, Arc<ViewDef>),
    /// `previous_secrets`: the raw envelope of the value before the present one.
    PreviousSecret(Name, Arc<[u8]>, SecretHash),
    /// `data_keys`: a data key of the org, wrapped, by its number from 1.
    DataKey(u32, Arc<[u8]>, SecretHash),
}

/// The address of a row.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs, reason = "as in `Row`")]
pub enum RowKey {
    Header(ObjectRef),
    Catalog(Name),
    Secret(Name),
    /// `login`: in which of the two tables.
    Role {
        name: Name,
        login: bool,
    },
    Membership(MembershipKey),
    Policy(Name),
    Grant(GrantKey),
    View(TableRef),
    PreviousSecret(Name),
    DataKey(u32),
}

impl Row {
    /// Its address.
    pub fn key(&self) -> RowKey {
        match self {
            Row::Header(object, _) => RowKey::Header(object.clone()),
            Row::Catalog(name, _) => RowKey::Catalog(name.clone()),
            Row::Secret(name, ..) => RowKey::Secret(name.clone()),
            Row::Role(name, def) => RowKey::Role { name: name.clone(), login: def.login },
            Row::Membership(key, _) => RowKey::Membership(key.clone()),
            Row::Policy(name, _) => RowKey::Policy(name.clone()),
            Row::Grant(key, _) => RowKey::Grant(key.clone()),
            Row::View(name, _) => RowKey::View(name.clone()),
            Row::PreviousSecret(name, ..) => RowKey::PreviousSecret(name.clone()),
            Row::DataKey(no, ..) => RowKey::DataKey(*no),
        }
    }
}

/// A change of one row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mutation {
    /// Insert or overwrite.
    Put(Row),
    /// Remove; the row is there.
    Delete(RowKey),
}

impl Mutation {
    /// The address of the row that it changes.
    pub fn key(&self) -> RowKey {
        match self {
            Mutation::Put(row) => row.key(),
            Mutation::Delete(key) => key.clone(),
        }
    }
}

/// Who does something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Actor {
    /// `SESSION_USER`: who logged in (or took over by SET SESSION AUTHORIZATION).
    pub session_user: Name,
    /// The identity of the role that logged in: a role of the same name made later is another one.
    pub session_user_id: ObjectId,
    /// `CURRENT_USER`: after SET ROLE.
    pub current_user: Name,
    /// The identity of `current_user`.
    pub current_user_id: ObjectId,
}

/// What is kept of an org besides its rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeadRecord {
    /// The org's own identity: an org of the same name made later is another one.
    pub org_id: u64,
    /// The last transaction.
    pub seq: Seq,
    /// The next [`ObjectId`].
    pub next_id: ObjectId,
    /// When the last transaction started.
    pub at: Timestamp,
}

/// One statement of a committed transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangedStatement {
    /// Canonical SQL without any credential.
    pub sql: Arc<str>,
    /// What it changed, in order.
    pub mutations: Vec<Mutation>,
}

/// A committed transaction, as history keeps it and the feed hands it on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// In which org.
    pub org: OrgName,
    /// Its number there.
    pub seq: Seq,
    /// Its identity.
    pub id: TransactionId,
    /// When it started.
    pub at: Timestamp,
    /// Who did it.
    pub actor: Name,
    /// As what session (a process id), from which application; for people to find it in the log.
    pub session: Arc<str>,
    /// What it did. Statements that changed nothing are not among them.
    pub statements: Vec<ChangedStatement>,
}
