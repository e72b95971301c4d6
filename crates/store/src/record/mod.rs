//! Stored forms: how a row becomes a table, a key and a value, and back.
//!
//! A value is a frame (`frame`) around JSON, or around the ciphertext for a secret. Stored forms are
//! types of their own, apart from the model's: they only grow, and tests pin old bytes. Fields that a
//! later version wrote are kept; the common case, in which there are none, does not pay for it.

mod catalog;
mod change;
mod frame;
mod grant;
mod header;
pub(crate) mod key;
mod load;
mod option;
mod policy;
mod render;
mod role;
mod secret;
mod view;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use dataglot_model::def::Extra;
use dataglot_model::{Row, RowKey};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::{StoreError, Table};

pub(crate) use change::{ChangeAssembler, ChangeWriter, read_changes};
pub use change::{ChangeEntry, transaction_id};
pub(crate) use frame::{FRAME_BYTES, begin, finish, open};
pub(crate) use load::load_state;
pub use load::{Loaded, decode_image_row};
pub use render::{Rendered, render, render_json};
pub use role::VERIFIER_PLACEHOLDER;

/// What is wrong with a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bad {
    /// It is shorter than its frame.
    Short,
    /// Its format is none that we know.
    Format,
    /// Its bytes are not those that were written.
    Checksum,
    /// Its key is not one.
    Key,
    /// Its content does not decode.
    Value,
}

impl fmt::Display for Bad {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Bad::Short => "is cut short",
            Bad::Format => "has an unknown format",
            Bad::Checksum => "has a wrong checksum",
            Bad::Key => "has a key that makes no sense",
            Bad::Value => "does not decode",
        })
    }
}

/// A record that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// Where.
    pub table: Table,
    /// Its key within the org.
    pub key: Vec<u8>,
    /// What is wrong with it.
    pub why: Bad,
}

impl fmt::Display for Damage {
    /// `record "view" "c" "s" "v" in objects has a wrong checksum`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("record")?;
        if self.table == Table::Changes
            && let Ok((seq, step)) = key::read_change(&self.key)
        {
            write!(f, " {seq}/{step}")?;
        } else {
            for segment in self.key.split(|b| *b == key::SEPARATOR) {
                write!(f, " {:?}", String::from_utf8_lossy(segment))?;
            }
        }
        write!(f, " in {} {}", self.table, self.why)
    }
}

/// A stored form as JSON.
trait Record: Serialize + DeserializeOwned {
    /// The names of its fields: what else is found is kept in `extra`.
    const FIELDS: &'static [&'static str];
}

/// Appends the JSON of `record` with the fields of `extra`.
fn write<R: Record>(record: &R, extra: &Extra, out: &mut Vec<u8>) -> Result<(), Bad> {
    let Some(extra) = extra else {
        return serde_json::to_writer(out, record).map_err(|_| Bad::Value);
    };
    let serde_json::Value::Object(mut fields) = serde_json::to_value(record).map_err(|_| Bad::Value)? else {
        return Err(Bad::Value);
    };
    fields.extend(extra.iter().map(|(key, value)| (key.clone(), value.clone())));
    serde_json::to_writer(out, &fields).map_err(|_| Bad::Value)
}

/// Reads a record. The first try refuses unknown fields, which is as fast as not to look for them;
/// only a record that has some is read again to set them apart.
fn read<R: Record>(json: &[u8]) -> Result<(R, Extra), Bad> {
    if let Ok(record) = serde_json::from_slice(json) {
        return Ok((record, None));
    }
    let fields: BTreeMap<String, serde_json::Value> = serde_json::from_slice(json).map_err(|_| Bad::Value)?;
    let (known, extra): (BTreeMap<_, _>, BTreeMap<_, _>) =
        fields.into_iter().partition(|(key, _)| R::FIELDS.contains(&key.as_str()));
    let known = serde_json::Value::Object(known.into_iter().collect());
    let record = serde_json::from_value(known).map_err(|_| Bad::Value)?;
    Ok((record, if extra.is_empty() { None } else { Some(Box::new(extra)) }))
}

/// Encodes a row: its key and value go to the two buffers, which are cleared first.
///
/// # Errors
/// [`StoreError::Internal`]: it has no stored form, which no row should be able to do.
pub fn encode_row(row: &Row, key: &mut Vec<u8>, value: &mut Vec<u8>) -> Result<Table, StoreError> {
    let table = key::of_row(row, key);
    begin(value);
    let encoded = match row {
        Row::Header(_, header) => header::encode(header, value),
        Row::Catalog(_, def) => catalog::encode(def, value),
        Row::Secret(_, envelope, hash) | Row::PreviousSecret(_, envelope, hash) => {
            secret::encode(envelope, *hash, value);
            Ok(())
        }
        Row::Role(_, def) => role::encode(def, value),
        Row::Membership(_, record) => grant::encode_membership(record, value),
        Row::Policy(_, def) => policy::encode(def, value),
        Row::Grant(_, record) => grant::encode(record, value),
        Row::View(_, def) => view::encode(def, value),
        Row::DataKey(_, wrapped, hash) => {
            secret::encode(wrapped, *hash, value);
            Ok(())
        }
    };
    if encoded.is_err() {
        tracing::error!(%table, "a row has no stored form");
        return Err(StoreError::Internal);
    }
    finish(table, key, value);
    Ok(table)
}

/// Encodes the address of a row; the buffer is cleared first.
pub fn encode_key(row_key: &RowKey, key: &mut Vec<u8>) -> Table {
    key::of_row_key(row_key, key)
}

/// Decodes a row of an image.
///
/// # Errors
/// [`Bad`] says what is wrong with it.
pub fn decode_row(table: Table, key: &[u8], value: &[u8]) -> Result<Row, Bad> {
    let body = open(table, key, value)?;
    body_to_row(key::read(table, key)?, body)
}

/// Decodes the body of a frame.
fn body_to_row(row_key: RowKey, body: &[u8]) -> Result<Row, Bad> {
    Ok(match row_key {
        RowKey::Header(object) => Row::Header(object, Arc::new(header::decode(body)?)),
        RowKey::Catalog(name) => Row::Catalog(name, Arc::new(catalog::decode(body)?)),
        RowKey::Secret(name) => {
            let (envelope, hash) = secret::decode(body)?;
            Row::Secret(name, envelope, hash)
        }
        RowKey::Role { name, login } => Row::Role(name, Arc::new(role::decode(body, login)?)),
        RowKey::Membership(membership) => Row::Membership(membership, Arc::new(grant::decode_membership(body)?)),
        RowKey::Policy(name) => Row::Policy(name, Arc::new(policy::decode(body)?)),
        RowKey::Grant(grant) => Row::Grant(grant, Arc::new(grant::decode(body)?)),
        RowKey::View(name) => Row::View(name, Arc::new(view::decode(body)?)),
        RowKey::PreviousSecret(name) => {
            let (envelope, hash) = secret::decode(body)?;
            Row::PreviousSecret(name, envelope, hash)
        }
        RowKey::DataKey(no) => {
            let (wrapped, hash) = secret::decode(body)?;
            Row::DataKey(no, wrapped, hash)
        }
    })
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
const fn is_false(on: &bool) -> bool {
    !*on
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
const fn is_true(on: &bool) -> bool {
    *on
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
const fn is_zero(number: &i32) -> bool {
    *number == 0
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
const fn no_limit(limit: &i32) -> bool {
    *limit == -1
}

const fn yes() -> bool {
    true
}

const fn unlimited() -> i32 {
    -1
}
