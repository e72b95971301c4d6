//! How a record lies in PostgreSQL's tables: keys and frames as columns, and back, byte for byte.
//!
//! The segments of a key are text, so that a person can query them, and the content of a record is
//! JSON in a column of its own. What no coordinator would write, but a damaged store may hold, is
//! kept too: a key that is no text goes into its first column in hexadecimal digits, a record that is
//! no frame around a JSON object into `raw`.

#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use dataglot_model::Seq;
use serde::de::{IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

use crate::record::{FRAME_BYTES, key, transaction_id};
use crate::{StoreError, Table};

/// Between the segments of a key that travels as one text. No name holds it.
pub(super) const SEGMENT_END: char = '\u{1}';
/// What a key that is no text starts with. No name holds it.
const UNREADABLE_KEY: char = '\u{2}';
/// More columns than any table has for a key.
pub(super) const KEY_COLUMNS_MAX: usize = 3;

/// The columns that hold a key within an org.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KeyColumns {
    /// `key text[]`: all segments, as many as there are.
    List,
    /// One column a segment.
    Each(&'static [&'static str]),
}

/// The columns of the key of `table`. `changes` and `meta` are not read and written this way.
pub(super) const fn key_columns(table: Table) -> KeyColumns {
    match table {
        Table::Objects | Table::Grants => KeyColumns::List,
        Table::Entries | Table::Secrets | Table::PreviousSecrets | Table::Users | Table::Roles | Table::Policies => {
            KeyColumns::Each(&["name"])
        }
        Table::RoleMembers => KeyColumns::Each(&["role", "member"]),
        Table::DerivedProducts => KeyColumns::Each(&["catalog", "schema", "name"]),
        Table::DataKeys => KeyColumns::Each(&["no"]),
        Table::Changes => KeyColumns::Each(&["seq", "step"]),
        Table::Meta => KeyColumns::Each(&["key"]),
    }
}

impl KeyColumns {
    /// How many parameters a key takes: a list travels as one text.
    pub(super) const fn parameters(self) -> usize {
        match self {
            KeyColumns::List => 1,
            KeyColumns::Each(columns) => columns.len(),
        }
    }

    /// Their names.
    pub(super) const fn names(self) -> &'static [&'static str] {
        match self {
            KeyColumns::List => &["key"],
            KeyColumns::Each(columns) => columns,
        }
    }
}

/// A key as the texts of its parameters.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct KeyTexts<'a>(pub(super) [Cow<'a, str>; KEY_COLUMNS_MAX]);

/// The parameters for `key`.
pub(super) fn key_texts(columns: KeyColumns, key: &[u8]) -> KeyTexts<'_> {
    let mut texts = [const { Cow::Borrowed("") }; KEY_COLUMNS_MAX];
    match (readable(columns, key), columns) {
        (None, _) => {
            if let Some(first) = texts.first_mut() {
                *first = Cow::Owned(in_digits(key));
            }
        }
        (Some(text), KeyColumns::List) => {
            if let Some(first) = texts.first_mut() {
                *first =
                    if text.contains('\0') { Cow::Owned(text.replace('\0', "\u{1}")) } else { Cow::Borrowed(text) };
            }
        }
        (Some(text), KeyColumns::Each(_)) => {
            texts.iter_mut().zip(text.split('\0')).for_each(|(slot, segment)| *slot = Cow::Borrowed(segment));
        }
    }
    KeyTexts(texts)
}

/// `key` as text, if it can be kept as one.
fn readable(columns: KeyColumns, key: &[u8]) -> Option<&str> {
    let text = std::str::from_utf8(key).ok()?;
    if text.contains([SEGMENT_END, UNREADABLE_KEY]) {
        return None;
    }
    let fits = match columns {
        // The empty text is an empty list on the way in.
        KeyColumns::List => !text.is_empty(),
        KeyColumns::Each(columns) => text.split('\0').count() == columns.len(),
    };
    fits.then_some(text)
}

fn in_digits(key: &[u8]) -> String {
    let digits = key.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    let digits = digits.filter_map(|digit| char::from_digit(u32::from(digit), 16));
    std::iter::once(UNREADABLE_KEY).chain(digits).collect()
}

fn from_digits(text: &[u8]) -> Option<Vec<u8>> {
    let digits = text.strip_prefix(&[0x02])?;
    let digit = |byte: &u8| char::from(*byte).to_digit(16).and_then(|d| u8::try_from(d).ok());
    let pairs = digits.chunks(2).map(|pair| match pair {
        [high, low] => Some(digit(high)? << 4 | digit(low)?),
        _ => None,
    });
    pairs.collect()
}

/// Appends a segment of a key that is being read, the `position`th from 0.
pub(super) fn push_segment(position: usize, segment: &[u8], key: &mut Vec<u8>) {
    if position > 0 {
        key.push(key::SEPARATOR);
    }
    key.extend_from_slice(segment);
}

/// Makes the key that starts at `start` what it was, once it has all its segments.
pub(super) fn finish_key(key: &mut Vec<u8>, start: usize) {
    let segments = key.get(start..).unwrap_or_default();
    if segments.first() == Some(&0x02) {
        // The other columns are empty.
        let digits = segments.split(|byte| *byte == key::SEPARATOR).next().unwrap_or_default();
        if let Some(bytes) = from_digits(digits) {
            key.truncate(start);
            key.extend_from_slice(&bytes);
        }
    }
}

/// Appends the segments of a `text[]` in binary form.
pub(super) fn push_list(mut array: &[u8], key: &mut Vec<u8>) -> Result<(), StoreError> {
    let dimensions = take_i32(&mut array)?;
    let (_nulls, _type) = (take_i32(&mut array)?, take_i32(&mut array)?);
    if dimensions == 0 {
        return Ok(());
    }
    let (count, _from) = (take_i32(&mut array)?, take_i32(&mut array)?);
    for position in 0..usize::try_from(count).unwrap_or(0) {
        push_segment(position, take_field(&mut array)?.unwrap_or_default(), key);
    }
    Ok(())
}

/// Takes a length and as many bytes; a negative one is null.
pub(super) fn take_field<'a>(bytes: &mut &'a [u8]) -> Result<Option<&'a [u8]>, StoreError> {
    let Ok(length) = usize::try_from(take_i32(bytes)?) else { return Ok(None) };
    let (field, rest) = bytes.split_at_checked(length).ok_or_else(garbled)?;
    *bytes = rest;
    Ok(Some(field))
}

/// Takes the bytes of a number whose length goes before it.
pub(super) fn take_number<const N: usize>(bytes: &mut &[u8]) -> Result<[u8; N], StoreError> {
    let field = take_field(bytes)?.unwrap_or_default();
    field.try_into().map_err(|_| garbled())
}

fn take_i32(bytes: &mut &[u8]) -> Result<i32, StoreError> {
    let (number, rest) = bytes.split_first_chunk().ok_or_else(garbled)?;
    *bytes = rest;
    Ok(i32::from_be_bytes(*number))
}

/// What the server sent is not what it says in its manual.
pub(super) fn garbled() -> StoreError {
    tracing::error!("the server of the meta store sent what makes no sense");
    StoreError::Internal
}

/// A record as columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Columns<'a> {
    pub(super) format: i16,
    pub(super) checksum: i64,
    pub(super) body: Option<&'a [u8]>,
    pub(super) raw: Option<&'a [u8]>,
}

/// Whether the content of the table's records is a ciphertext.
pub(super) const fn is_sealed(table: Table) -> bool {
    match table {
        Table::Secrets | Table::PreviousSecrets | Table::DataKeys => true,
        Table::Objects
        | Table::Entries
        | Table::Users
        | Table::Roles
        | Table::RoleMembers
        | Table::Policies
        | Table::Grants
        | Table::DerivedProducts
        | Table::Changes
        | Table::Meta => false,
    }
}

/// What people search for in the content of some tables. It is in columns of its own, which the server
/// could compute from `body`, but that was a quarter of a commit's time.
#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(super) struct Fields {
    /// Of `objects`.
    pub(super) id: Lenient<i64>,
    /// Of `objects`.
    pub(super) owner: Lenient<String>,
    /// Of the first row of a transaction in `changes`.
    pub(super) at: Lenient<i64>,
    /// Of the first row of a transaction in `changes`.
    pub(super) by: Lenient<String>,
}

/// A field that may be anything: its value, if it is of its type.
#[derive(Debug, PartialEq)]
pub(super) struct Lenient<T>(Option<T>);

impl<T> Default for Lenient<T> {
    fn default() -> Self {
        Lenient(None)
    }
}

impl<T> Lenient<T> {
    pub(super) fn get(self) -> Option<T> {
        self.0
    }
}

/// A type of fields.
trait Searched: Sized {
    fn of_integer(_: i64) -> Option<Self> {
        None
    }
    fn of_text(_: &str) -> Option<Self> {
        None
    }
}

impl Searched for i64 {
    fn of_integer(number: i64) -> Option<Self> {
        Some(number)
    }
}

impl Searched for String {
    fn of_text(text: &str) -> Option<Self> {
        Some(text.to_owned())
    }
}

impl<'de, T: Searched> Deserialize<'de> for Lenient<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(LenientVisitor(PhantomData)).map(Lenient)
    }
}

/// Takes whatever comes. (An untagged enum does too, but keeps it first, and makes an error of each form that it is
/// not: that was a tenth of the committer's time.)
struct LenientVisitor<T>(PhantomData<T>);

impl<'de, T: Searched> Visitor<'de> for LenientVisitor<T> {
    type Value = Option<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("anything")
    }

    fn visit_bool<E>(self, _: bool) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_i64<E>(self, number: i64) -> Result<Self::Value, E> {
        Ok(T::of_integer(number))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Self::Value, E> {
        Ok(i64::try_from(number).ok().and_then(T::of_integer))
    }

    fn visit_f64<E>(self, _: f64) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
        Ok(T::of_text(text))
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<Self::Value, A::Error> {
        IgnoredAny.visit_seq(list).map(|_| None)
    }

    fn visit_map<A: MapAccess<'de>>(self, object: A) -> Result<Self::Value, A::Error> {
        IgnoredAny.visit_map(object).map(|_| None)
    }
}

/// The columns for `value`.
pub(super) fn to_columns(table: Table, value: &[u8]) -> (Columns<'_>, Fields) {
    let whole = (Columns { format: 0, checksum: 0, body: None, raw: Some(value) }, Fields::default());
    let Some((&[format, a, b, c, d], body)) = value.split_first_chunk::<FRAME_BYTES>() else { return whole };
    // A ciphertext is in a column of bytes.
    let fields = if is_sealed(table) { Some(Fields::default()) } else { read_object(body) };
    let Some(fields) = fields else { return whole };
    let checksum = i64::from(u32::from_le_bytes([a, b, c, d]));
    (Columns { format: i16::from(format), checksum, body: Some(body), raw: None }, fields)
}

/// Appends the record that the columns hold.
pub(super) fn from_columns(columns: &Columns<'_>, value: &mut Vec<u8>) {
    let Columns { format, checksum, body, raw } = *columns;
    match body {
        Some(body) => {
            // Numbers that do not fit were written by hand: no checksum is right with this one.
            let (format, checksum) = match (u8::try_from(format), u32::try_from(checksum)) {
                (Ok(format), Ok(checksum)) => (format, checksum),
                _ => (0, 0),
            };
            value.push(format);
            value.extend_from_slice(&checksum.to_le_bytes());
            value.extend_from_slice(body);
        }
        None => value.extend_from_slice(raw.unwrap_or_default()),
    }
}

/// The fields of `body`, if PostgreSQL takes it as a JSON object and can read any of its fields as text.
fn read_object(body: &[u8]) -> Option<Fields> {
    let text = std::str::from_utf8(body).ok()?;
    if !text.starts_with('{') || has_strange_escape(body) {
        return None;
    }
    serde_json::from_str(text).ok()
}

/// In which transaction the object was made whose header is `value`. A guess: the checksum is not looked at.
pub(super) fn created_in(value: &[u8]) -> Option<Seq> {
    // In a text, a quotation mark has a backslash before it.
    const CREATED: &[u8] = b"\"created\":{\"seq\":";
    let at = value.windows(CREATED.len()).position(|window| window == CREATED)?;
    let digits = value.get(at + CREATED.len()..)?.split(|byte| !byte.is_ascii_digit()).next()?;
    std::str::from_utf8(digits).ok()?.parse().ok().map(Seq)
}

/// Whether there is an escape `\u` other than that of a control character: our own JSON has no other
/// one, and PostgreSQL does not take all of them as text.
fn has_strange_escape(body: &[u8]) -> bool {
    let mut rest = body;
    while let Some(at) = rest.iter().position(|byte| *byte == b'\\') {
        rest = rest.get(at + 1..).unwrap_or_default();
        match rest {
            [b'u', b'0', b'0', a, b, ..] if (*a, *b) != (b'0', b'0') => {}
            [b'u', ..] => return true,
            _ => {}
        }
        // The character after a backslash never starts an escape of its own.
        rest = rest.get(1..).unwrap_or_default();
    }
    false
}

/// The columns of a row of `changes` besides its record.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ChangeColumns {
    pub(super) seq: i64,
    pub(super) step: i32,
    /// In the first row of a transaction.
    pub(super) transaction_id: Option<String>,
}

/// The columns for a row of `changes`.
pub(super) fn change_columns(key: &[u8], value: &[u8]) -> Result<ChangeColumns, StoreError> {
    let (seq, step) = key::read_change(key).map_err(|_| StoreError::Internal)?;
    let seq = i64::try_from(seq.0).map_err(|_| StoreError::Internal)?;
    let step = i32::try_from(step).map_err(|_| StoreError::Internal)?;
    let transaction_id = if step == 0 { transaction_id(value).map(|id| id.to_string()) } else { None };
    Ok(ChangeColumns { seq, step, transaction_id })
}
