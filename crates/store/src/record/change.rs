//! `changes`: committed transactions.
//!
//! A transaction is one row, or several where it is large: each holds some statements, and a statement
//! with many mutations goes on in the next row. So no value is much longer than [`ROW_BYTES_MAX`] plus
//! one mutation. Of a secret's value and of a data key the hash is kept, of a password that there was one.

use std::borrow::Cow;
use std::io::Write as _;
use std::sync::Arc;

use dataglot_model::{
    Change, ChangedStatement, Mutation, Name, OrgName, Row, RowKey, SecretHash, Seq, Timestamp, TransactionId,
};
use serde::Deserialize;

use super::{Bad, Damage, begin, body_to_row, encode_key, encode_row, finish, key, open, role};
use crate::group::Transaction;
use crate::record::frame::FRAME_BYTES;
use crate::{MetaStore, RowSink, StoreError, Table};

/// About how long a row gets before the next one is begun.
const ROW_BYTES_MAX: usize = 16 << 10;
/// About how many bytes of changes are read at once.
const READ_BYTES_MAX: usize = 16 << 20;
/// What the first row of a transaction starts with; its id follows.
const ID_FIELD: &[u8] = b"{\"id\":\"";

/// A transaction as it was found in history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChangeEntry {
    /// It is as it was written. A verifier is [`super::VERIFIER_PLACEHOLDER`], a ciphertext is empty.
    Intact(Change),
    /// It cannot be read.
    Damaged {
        /// Its number.
        seq: Seq,
        /// What is wrong.
        damage: Damage,
    },
}

impl ChangeEntry {
    /// Its number.
    pub fn seq(&self) -> Seq {
        match self {
            ChangeEntry::Intact(change) => change.seq,
            ChangeEntry::Damaged { seq, .. } => *seq,
        }
    }
}

/// Encodes transactions: each mutation becomes a row of its table and a line of history. Keeps its
/// buffers.
#[derive(Default)]
pub(crate) struct ChangeWriter {
    key: Vec<u8>,
    value: Vec<u8>,
    history: Vec<u8>,
    other: Vec<u8>,
}

impl ChangeWriter {
    /// Hands every row of the transaction to `sink`.
    pub(crate) fn transaction(&mut self, transaction: &Transaction, sink: &mut RowSink<'_>) -> Result<(), StoreError> {
        let Transaction { id, seq, at, actor, session, statements } = transaction;
        let mut step = 0;
        begin(&mut self.history);
        self.history.extend_from_slice(ID_FIELD);
        // Writing to a buffer cannot fail, here and below.
        let _ = write!(self.history, "{id}\",\"at\":{},\"by\":", at.0);
        json_string(actor.as_str(), &mut self.history);
        self.history.extend_from_slice(b",\"session\":");
        json_string(session, &mut self.history);
        self.history.extend_from_slice(b",\"statements\":[");
        let mut first = true;
        for statement in statements {
            if self.history.len() > ROW_BYTES_MAX {
                self.next_row(*seq, &mut step, sink)?;
                first = true;
            }
            separate(&mut first, &mut self.history);
            self.history.extend_from_slice(b"{\"sql\":");
            json_string(&statement.sql, &mut self.history);
            self.history.extend_from_slice(b",\"mutations\":[");
            let mut first_mutation = true;
            for mutation in &statement.mutations {
                if self.history.len() > ROW_BYTES_MAX {
                    self.history.extend_from_slice(b"]}");
                    self.next_row(*seq, &mut step, sink)?;
                    self.history.extend_from_slice(b"{\"mutations\":[");
                    first_mutation = true;
                }
                separate(&mut first_mutation, &mut self.history);
                self.mutation(mutation, sink)?;
            }
            self.history.extend_from_slice(b"]}");
        }
        self.history.extend_from_slice(b"]}");
        self.flush(*seq, step, sink)
    }

    fn next_row(&mut self, seq: Seq, step: &mut u32, sink: &mut RowSink<'_>) -> Result<(), StoreError> {
        self.history.extend_from_slice(b"],\"more\":true}");
        self.flush(seq, *step, sink)?;
        *step += 1;
        begin(&mut self.history);
        self.history.extend_from_slice(b"{\"statements\":[");
        Ok(())
    }

    fn flush(&mut self, seq: Seq, step: u32, sink: &mut RowSink<'_>) -> Result<(), StoreError> {
        let key = key::of_change(seq, step);
        finish(Table::Changes, &key, &mut self.history);
        sink(Table::Changes, &key, Some(&self.history))
    }

    fn mutation(&mut self, mutation: &Mutation, sink: &mut RowSink<'_>) -> Result<(), StoreError> {
        match mutation {
            Mutation::Delete(row_key) => {
                let table = encode_key(row_key, &mut self.key);
                sink(table, &self.key, None)?;
                self.address("delete", table);
            }
            Mutation::Put(row) => {
                let table = encode_row(row, &mut self.key, &mut self.value)?;
                sink(table, &self.key, Some(&self.value))?;
                self.address("put", table);
                match row {
                    Row::Secret(_, _, hash) | Row::PreviousSecret(_, _, hash) | Row::DataKey(_, _, hash) => {
                        let _ = write!(self.history, ",\"hash\":\"{hash}\"");
                    }
                    Row::Role(_, def) if def.verifier.is_some() => {
                        self.other.clear();
                        role::encode_without_verifier(def, &mut self.other).map_err(|_| StoreError::Internal)?;
                        self.history.extend_from_slice(b",\"value\":");
                        self.history.extend_from_slice(&self.other);
                    }
                    Row::Header(..)
                    | Row::Catalog(..)
                    | Row::Role(..)
                    | Row::Membership(..)
                    | Row::Policy(..)
                    | Row::Grant(..)
                    | Row::View(..) => {
                        self.history.extend_from_slice(b",\"value\":");
                        self.history.extend_from_slice(self.value.get(FRAME_BYTES..).unwrap_or_default());
                    }
                }
            }
        }
        self.history.push(b'}');
        Ok(())
    }

    fn address(&mut self, verb: &str, table: Table) {
        let _ = write!(self.history, "{{\"{verb}\":\"{table}\",\"key\":[");
        let mut first = true;
        for segment in self.key.split(|b| *b == key::SEPARATOR) {
            separate(&mut first, &mut self.history);
            // A key is made of names: it is UTF-8.
            json_string(std::str::from_utf8(segment).unwrap_or_default(), &mut self.history);
        }
        self.history.push(b']');
    }
}

fn separate(first: &mut bool, out: &mut Vec<u8>) {
    if !std::mem::replace(first, false) {
        out.push(b',');
    }
}

fn json_string(text: &str, out: &mut Vec<u8>) {
    // A text always has a JSON form, and a buffer takes it.
    let _ = serde_json::to_writer(out, text);
}

/// Stored form of a row of `changes`. The first row of a transaction has all of it, the others have
/// statements only.
#[derive(Deserialize)]
struct ChangeRecord<'a> {
    #[serde(default, borrow)]
    id: Option<Cow<'a, str>>,
    #[serde(default)]
    at: i64,
    #[serde(default)]
    by: Option<Name>,
    #[serde(default)]
    session: Option<Arc<str>>,
    #[serde(borrow)]
    statements: Vec<StatementRecord<'a>>,
    #[serde(default)]
    more: bool,
}

#[derive(Deserialize)]
struct StatementRecord<'a> {
    /// Left out where the statement is the last one of the row before.
    #[serde(default)]
    sql: Option<Arc<str>>,
    #[serde(borrow)]
    mutations: Vec<MutationRecord<'a>>,
}

#[derive(Deserialize)]
struct MutationRecord<'a> {
    #[serde(default, borrow)]
    put: Option<Cow<'a, str>>,
    #[serde(default, borrow)]
    delete: Option<Cow<'a, str>>,
    key: Vec<String>,
    #[serde(default)]
    value: Option<serde_json::Value>,
    #[serde(default)]
    hash: Option<SecretHash>,
}

impl MutationRecord<'_> {
    fn decode(self) -> Result<Mutation, Bad> {
        let MutationRecord { put, delete, key: segments, value, hash } = self;
        let read = |table: &str| {
            let table = Table::from_name(table).ok_or(Bad::Value)?;
            key::read(table, segments.join("\0").as_bytes())
        };
        match (put, delete) {
            (None, Some(table)) => Ok(Mutation::Delete(read(&table)?)),
            (Some(table), None) => match (read(&table)?, hash, value) {
                (RowKey::Secret(name), Some(hash), None) => {
                    Ok(Mutation::Put(Row::Secret(name, Arc::from([].as_slice()), hash)))
                }
                (RowKey::PreviousSecret(name), Some(hash), None) => {
                    Ok(Mutation::Put(Row::PreviousSecret(name, Arc::from([].as_slice()), hash)))
                }
                (RowKey::DataKey(no), Some(hash), None) => {
                    Ok(Mutation::Put(Row::DataKey(no, Arc::from([].as_slice()), hash)))
                }
                (row_key, None, Some(value)) => {
                    let body = serde_json::to_vec(&value).map_err(|_| Bad::Value)?;
                    Ok(Mutation::Put(body_to_row(row_key, &body)?))
                }
                _ => Err(Bad::Value),
            },
            (None, None) | (Some(_), Some(_)) => Err(Bad::Value),
        }
    }
}

/// The id of the transaction whose first row `value` is. Its checksum is not looked at.
pub fn transaction_id(value: &[u8]) -> Option<TransactionId> {
    let digits = value.get(FRAME_BYTES..)?.strip_prefix(ID_FIELD)?.get(..32)?;
    TransactionId::parse(std::str::from_utf8(digits).ok()?)
}

/// A transaction while its rows come in.
struct Partial {
    seq: Seq,
    steps: u32,
    /// Another row has to follow.
    more: bool,
    head: Option<Head>,
    statements: Vec<ChangedStatement>,
    damage: Option<Damage>,
}

/// What the first row says besides.
struct Head {
    id: TransactionId,
    at: Timestamp,
    actor: Name,
    session: Arc<str>,
}

impl Partial {
    fn new(seq: Seq) -> Self {
        Partial { seq, steps: 0, more: true, head: None, statements: Vec::new(), damage: None }
    }

    fn push(&mut self, step: u32, value: &[u8]) {
        if self.damage.is_none()
            && let Err(why) = self.add_row(step, value)
        {
            self.damage = Some(self.damage_at(step, why));
        }
        self.steps += 1;
    }

    fn add_row(&mut self, step: u32, value: &[u8]) -> Result<(), Bad> {
        let body = open(Table::Changes, &key::of_change(self.seq, step), value)?;
        let ChangeRecord { id, at, by, session, statements, more } =
            serde_json::from_slice(body).map_err(|_| Bad::Value)?;
        if step != self.steps || !self.more {
            return Err(Bad::Value);
        }
        if step == 0 {
            let id = id.and_then(|id| TransactionId::parse(&id)).ok_or(Bad::Value)?;
            let (actor, session) = (by.ok_or(Bad::Value)?, session.ok_or(Bad::Value)?);
            self.head = Some(Head { id, at: Timestamp(at), actor, session });
        }
        for StatementRecord { sql, mutations } in statements {
            let mutations = mutations.into_iter().map(MutationRecord::decode).collect::<Result<Vec<_>, _>>()?;
            match sql {
                Some(sql) => self.statements.push(ChangedStatement { sql, mutations }),
                None => self.statements.last_mut().ok_or(Bad::Value)?.mutations.extend(mutations),
            }
        }
        self.more = more;
        Ok(())
    }

    fn damage_at(&self, step: u32, why: Bad) -> Damage {
        Damage { table: Table::Changes, key: key::of_change(self.seq, step).to_vec(), why }
    }

    fn finish(mut self, org: &OrgName) -> ChangeEntry {
        let cut = self.damage_at(self.steps, Bad::Short);
        match (self.damage.take(), self.head.take(), self.more) {
            (None, Some(Head { id, at, actor, session }), false) => ChangeEntry::Intact(Change {
                org: org.clone(),
                seq: self.seq,
                id,
                at,
                actor,
                session,
                statements: self.statements,
            }),
            (damage, ..) => {
                let damage = damage.unwrap_or(cut);
                tracing::error!(org = org.as_str(), "damaged: {damage}");
                ChangeEntry::Damaged { seq: self.seq, damage }
            }
        }
    }
}

/// Puts transactions together from their rows, which come in order.
pub(crate) struct ChangeAssembler<'a> {
    org: &'a OrgName,
    partial: Option<Partial>,
}

impl<'a> ChangeAssembler<'a> {
    pub(crate) fn new(org: &'a OrgName) -> Self {
        ChangeAssembler { org, partial: None }
    }

    /// Takes a row. Returns the transaction before, where it is the first one of the next.
    pub(crate) fn push(&mut self, seq: Seq, step: u32, value: &[u8]) -> Option<ChangeEntry> {
        let is_next = self.partial.as_ref().is_none_or(|p| p.seq != seq);
        let before = if is_next { self.partial.replace(Partial::new(seq)) } else { None };
        if let Some(partial) = &mut self.partial {
            partial.push(step, value);
        }
        before.map(|p| p.finish(self.org))
    }

    /// The last transaction.
    pub(crate) fn finish(&mut self) -> Option<ChangeEntry> {
        self.partial.take().map(|p| p.finish(self.org))
    }
}

/// Up to `limit` transactions after `after`, in order; fewer where they are large, but one at least if
/// there is one.
pub(crate) fn read_changes(
    store: &dyn MetaStore,
    org: &OrgName,
    after: Seq,
    limit: usize,
) -> Result<Vec<ChangeEntry>, StoreError> {
    let mut entries = Vec::new();
    let mut assembler = ChangeAssembler::new(org);
    let mut bytes = 0usize;
    store.changes(org, after, limit, &mut |seq, step, value| {
        bytes += value.len();
        entries.extend(assembler.push(seq, step, value));
        bytes < READ_BYTES_MAX
    })?;
    entries.extend(assembler.finish());
    Ok(entries)
}
