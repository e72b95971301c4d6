//! How a record lies in PostgreSQL's tables: keys and frames as columns, and back, byte for byte.
//!
//! The segments of a key are text, so that a person can query them, and the content of a record is
//! JSON in a column of its own. What no coordinator would write, but a damaged store may hold, is
//! kept too: a key that is no text goes into its first column in hexadecimal digits, a record that is
//! no frame around a JSON object into `raw`.

use std::borrow::Cow;

use serde::Deserialize;
use serde::de::IgnoredAny;

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

/// A field that may be anything.
#[derive(Debug, PartialEq, Deserialize)]
#[serde(untagged)]
pub(super) enum Lenient<T> {
    /// It is of its type.
    Is(T),
    /// It is something else.
    Not(IgnoredAny),
}

impl<T> Default for Lenient<T> {
    fn default() -> Self {
        Lenient::Not(IgnoredAny)
    }
}

impl<T> Lenient<T> {
    pub(super) fn get(self) -> Option<T> {
        match self {
            Lenient::Is(value) => Some(value),
            Lenient::Not(IgnoredAny) => None,
        }
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::conformance::sample::rows;
    use crate::record::{begin, encode_row, finish, open};

    /// What PostgreSQL would give back for the parameters of a key.
    fn key_back(columns: KeyColumns, KeyTexts(texts): &KeyTexts<'_>) -> Vec<u8> {
        let mut key = Vec::new();
        match columns {
            KeyColumns::List => {
                let segments: Vec<_> = match texts[0].as_ref() {
                    "" => Vec::new(),
                    text => text.split(SEGMENT_END).collect(),
                };
                push_list(&array(&segments), &mut key).unwrap();
            }
            KeyColumns::Each(names) => {
                texts.iter().take(names.len()).enumerate().for_each(|(at, t)| push_segment(at, t.as_bytes(), &mut key));
            }
        }
        finish_key(&mut key, 0);
        key
    }

    /// A `text[]` in binary form.
    fn array(segments: &[&str]) -> Vec<u8> {
        let number = |n: usize| i32::try_from(n).unwrap().to_be_bytes();
        let mut bytes = [number(usize::from(!segments.is_empty())), number(0), number(25)].concat();
        if !segments.is_empty() {
            bytes.extend([number(segments.len()), number(1)].concat());
        }
        segments.iter().for_each(|s| bytes.extend([number(s.len()).as_slice(), s.as_bytes()].concat()));
        bytes
    }

    fn value_back(table: Table, value: &[u8]) -> Vec<u8> {
        let (columns, _) = to_columns(table, value);
        assert!(columns.body.is_some() != columns.raw.is_some());
        let mut back = Vec::new();
        from_columns(&columns, &mut back);
        back
    }

    const TABLES: [Table; 11] = Table::IMAGE;

    /// Each real record is in columns that a person can query.
    #[test]
    fn real_records_are_texts_and_json() {
        for row in rows() {
            let (mut key, mut value) = (Vec::new(), Vec::new());
            let table = encode_row(&row, &mut key, &mut value).unwrap();
            let columns = key_columns(table);
            let texts = key_texts(columns, &key);
            assert!(!texts.0[0].starts_with(UNREADABLE_KEY), "{row:?}");
            assert_eq!(key_back(columns, &texts), key);
            assert!(to_columns(table, &value).0.body.is_some(), "{row:?}");
            assert_eq!(value_back(table, &value), value);
        }
    }

    #[test]
    fn what_postgresql_refuses_is_kept_whole() {
        let framed = |body: &[u8]| [&[1, 2, 3, 4, 5], body].concat();
        for body in [
            &br#"{"a":"\u0000"}"#[..],
            br#"{"a":"\\\u0000"}"#,
            br#"{"a":"\ud800"}"#,
            br#"{"a":1"#,
            b"[1]",
            b"",
            b"{\"a\":\"\xff\"}",
            b"{\"a\":\"\x01\"}",
            br#" {"a":1}"#,
            br#"{"a":1}}"#,
        ] {
            let value = framed(body);
            assert_eq!(to_columns(Table::Roles, &value).0.raw, Some(&value[..]), "{}", String::from_utf8_lossy(body));
        }
        for body in [&br#"{"a":"\u0001 \\u0000 \" \\\\"}"#[..], "{\"ä\":[{}]}".as_bytes(), b"{}"] {
            let value = framed(body);
            assert_eq!(to_columns(Table::Roles, &value).0.body, Some(body), "{}", String::from_utf8_lossy(body));
        }
        assert_eq!(to_columns(Table::Secrets, &framed(b"\0")).0.body, Some(&b"\0"[..]));
        assert_eq!(to_columns(Table::DataKeys, &framed(b"\0")).0.body, Some(&b"\0"[..]));
        assert_eq!(to_columns(Table::Secrets, b"abcd").0.raw, Some(&b"abcd"[..]));
    }

    #[test]
    fn what_people_search_for_is_found_where_it_is_of_its_type() {
        let fields = |body: &str| to_columns(Table::Objects, &[&[1, 2, 3, 4, 5], body.as_bytes()].concat()).1;
        let Fields { id, owner, at, by } = fields(r#"{"by":"é\n","owner":"ann","later":[{"id":9}],"id":7,"at":-1}"#);
        assert_eq!(
            (id.get(), owner.get(), at.get(), by.get()),
            (Some(7), Some("ann".into()), Some(-1), Some("é\n".into()))
        );
        for none in ["{}", r#"{"id":"7","owner":7,"at":1.5,"by":null}"#, r#"{"id":18446744073709551615,"owner":{}}"#] {
            assert_eq!(fields(none), Fields::default(), "{none}");
        }
        assert_eq!(fields("damaged"), Fields::default());
    }

    /// What somebody wrote into the columns by hand is no record, and nothing worse.
    #[test]
    fn numbers_that_do_not_fit_are_damage() {
        for (format, checksum) in [(-1, 0), (256, 0), (1, -1), (1, 1 << 32)] {
            let mut value = Vec::new();
            from_columns(&Columns { format, checksum, body: Some(b"{}"), raw: None }, &mut value);
            assert!(open(Table::Roles, b"a", &value).is_err());
        }
        assert!(push_list(&[0, 0], &mut Vec::new()).is_err());
        assert!(push_list(&array(&["abc"])[..24], &mut Vec::new()).is_err());
    }

    #[test]
    fn a_row_of_history_has_its_transaction_in_the_first_one_only() {
        let mut value = Vec::new();
        begin(&mut value);
        value.extend_from_slice(b"{\"id\":\"0000000000000000000000000000002a\",\"at\":1}");
        let key = key::of_change(dataglot_model::Seq(7), 0);
        finish(Table::Changes, &key, &mut value);
        let id = Some("0000000000000000000000000000002a".to_owned());
        assert_eq!(change_columns(&key, &value), Ok(ChangeColumns { seq: 7, step: 0, transaction_id: id }));
        let key = key::of_change(dataglot_model::Seq(7), 1);
        assert_eq!(change_columns(&key, &value), Ok(ChangeColumns { seq: 7, step: 1, transaction_id: None }));
        assert!(change_columns(b"short", &value).is_err());
        assert!(change_columns(&key::of_change(dataglot_model::Seq(u64::MAX), 0), &value).is_err());
    }

    /// Bytes, mostly such as keys are made of.
    fn key_bytes() -> impl Strategy<Value = Vec<u8>> {
        prop_oneof![
            any::<Vec<u8>>(),
            "[a-c\u{0}\u{1}\u{2}ä]{0,8}".prop_map(String::into_bytes),
            proptest::collection::vec("[a-z]{0,3}", 1..6).prop_map(|s| s.join("\0").into_bytes()),
        ]
    }

    proptest! {
        #[test]
        fn any_key_comes_back(table in 0..TABLES.len(), key in key_bytes()) {
            let columns = key_columns(TABLES[table]);
            let texts = key_texts(columns, &key);
            prop_assert!(texts.0.iter().all(|text| !text.contains('\0')));
            prop_assert_eq!(key_back(columns, &texts), key);
        }

        /// No two keys are the same row.
        #[test]
        fn different_keys_stay_different(table in 0..TABLES.len(), a in key_bytes(), b in key_bytes()) {
            let columns = key_columns(TABLES[table]);
            prop_assert_eq!(key_texts(columns, &a) == key_texts(columns, &b), a == b);
        }

        #[test]
        fn any_value_comes_back(table in 0..TABLES.len(), value: Vec<u8>, body in "\\{\"a\":\"[a-z\\\\u0d]{0,9}\"\\}") {
            let table = TABLES[table];
            prop_assert_eq!(value_back(table, &value), value);
            let framed = [&[1, 2, 3, 4, 5], body.as_bytes()].concat();
            prop_assert_eq!(value_back(table, &framed), framed);
        }
    }
}
