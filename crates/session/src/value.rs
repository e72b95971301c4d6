//! Values of results: their types, their columns, and their two encodings.

use std::sync::Arc;

use dataglot_model::{SqlState, Timestamp};

use crate::error::SessionError;
use crate::response::Column;

/// PostgreSQL's epoch, 2000-01-01, in microseconds since 1970.
const EPOCH_US: i64 = 946_684_800_000_000;

/// The types of results. All of them are known to every driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Type {
    /// `bool`
    Bool,
    /// `int4`
    Int4,
    /// `int8`
    Int8,
    /// `text`
    Text,
    /// `name`
    Name,
    /// `oid`
    Oid,
    /// `json`
    Json,
    /// `timestamptz`
    Time,
    /// `text[]`, as PostgreSQL prints one
    TextArray,
    /// `void`, which prints as an empty text
    Void,
}

impl Type {
    /// Its OID.
    pub(crate) const fn oid(self) -> u32 {
        match self {
            Type::Bool => 16,
            Type::Int4 => 23,
            Type::Int8 => 20,
            Type::Text => 25,
            Type::Name => 19,
            Type::Oid => 26,
            Type::Json => 114,
            Type::Time => 1184,
            Type::TextArray => 1009,
            Type::Void => 2278,
        }
    }

    /// Its length in bytes; -1: it varies.
    pub(crate) const fn len(self) -> i16 {
        match self {
            Type::Bool => 1,
            Type::Int4 | Type::Oid | Type::Void => 4,
            Type::Int8 | Type::Time => 8,
            Type::Name => 64,
            Type::Text | Type::Json | Type::TextArray => -1,
        }
    }

    /// The type of that OID, among those that results have.
    pub(crate) fn of_oid(oid: u32) -> Option<Type> {
        [
            Type::Bool,
            Type::Int4,
            Type::Int8,
            Type::Text,
            Type::Name,
            Type::Oid,
            Type::Json,
            Type::Time,
            Type::TextArray,
            Type::Void,
        ]
        .into_iter()
        .find(|t| t.oid() == oid)
    }
}

/// A value of a result.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    /// NULL
    Null,
    /// A truth.
    Bool(bool),
    /// A number of any of the integer types.
    Int(i64),
    /// A text, name or JSON.
    Text(String),
    /// A point in time.
    Time(Timestamp),
    /// A list of texts.
    List(Vec<String>),
}

impl Value {
    /// A text, or NULL.
    pub(crate) fn text_or_null(text: Option<impl Into<String>>) -> Value {
        text.map_or(Value::Null, |t| Value::Text(t.into()))
    }

    /// As the text format has it. `None`: NULL.
    pub(crate) fn to_text(&self) -> Option<String> {
        Some(match self {
            Value::Null => return None,
            Value::Bool(true) => "t".to_owned(),
            Value::Bool(false) => "f".to_owned(),
            Value::Int(n) => n.to_string(),
            Value::Text(text) => text.clone(),
            Value::Time(at) => at.to_string(),
            Value::List(items) => array_text(items),
        })
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Value {
        Value::Text(text.to_owned())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Value {
        Value::Text(text)
    }
}

impl From<bool> for Value {
    fn from(truth: bool) -> Value {
        Value::Bool(truth)
    }
}

/// `{a,"b c"}`
fn array_text(items: &[String]) -> String {
    let quoted = |item: &String| {
        let bare = !item.is_empty()
            && !item.eq_ignore_ascii_case("null")
            && !item.contains(|c: char| c.is_whitespace() || matches!(c, '{' | '}' | ',' | '"' | '\\'));
        if bare { item.clone() } else { format!("\"{}\"", item.replace('\\', "\\\\").replace('"', "\\\"")) }
    };
    format!("{{{}}}", items.iter().map(quoted).collect::<Vec<_>>().join(","))
}

/// A result: columns and rows, each row as long as the columns.
#[derive(Clone, Debug)]
pub(crate) struct Rows {
    /// The columns.
    pub(crate) columns: Arc<[Column]>,
    /// The rows, in order.
    pub(crate) rows: Vec<Vec<Value>>,
}

impl Rows {
    /// A result of those columns without rows.
    pub(crate) fn new(columns: &[(&str, Type)]) -> Rows {
        Rows { columns: columns_of(columns), rows: Vec::new() }
    }

    /// One row more.
    pub(crate) fn push(&mut self, row: Vec<Value>) {
        self.rows.push(row);
    }
}

/// Columns of those names and types.
pub(crate) fn columns_of(columns: &[(&str, Type)]) -> Arc<[Column]> {
    columns.iter().map(|(name, of)| column(name, *of)).collect()
}

/// A column.
pub(crate) fn column(name: &str, of: Type) -> Column {
    Column { name: name.to_owned(), oid: of.oid(), type_len: of.len() }
}

/// The format of each of `count` columns, from the codes of a Bind message: none is text for all, one
/// holds for all.
///
/// # Errors
/// 08P01 for another number of codes, 22023 for a code that is neither 0 nor 1.
pub(crate) fn formats(codes: &[i16], count: usize) -> Result<Vec<i16>, SessionError> {
    if let Some(bad) = codes.iter().find(|c| !matches!(c, 0 | 1)) {
        return Err(SessionError::new(SqlState::InvalidParameterValue, format!("unsupported format code: {bad}")));
    }
    match codes {
        [] => Ok(vec![0; count]),
        [one] => Ok(vec![*one; count]),
        many if many.len() == count => Ok(many.to_vec()),
        many => Err(SessionError::new(
            SqlState::ProtocolViolation,
            format!("bind message has {} result formats but query has {count} columns", many.len()),
        )),
    }
}

/// A row in the formats of its columns. A missing format is text.
pub(crate) fn encode(row: &[Value], columns: &[Column], formats: &[i16]) -> Vec<Option<Vec<u8>>> {
    let mut formats = formats.iter().copied();
    row.iter()
        .zip(columns)
        .map(|(value, column)| match formats.next().unwrap_or(0) {
            1 => binary(value, column.oid),
            _ => value.to_text().map(String::into_bytes),
        })
        .collect()
}

/// The point in time that the binary form of a `timestamptz` stands for.
pub(crate) fn time_of(binary: i64) -> Timestamp {
    if binary == i64::MAX { Timestamp::INFINITY } else { Timestamp(binary.saturating_add(EPOCH_US)) }
}

/// The binary form of a value in a column of that type. `None`: NULL.
fn binary(value: &Value, oid: u32) -> Option<Vec<u8>> {
    Some(match value {
        Value::Null => return None,
        Value::Bool(truth) => vec![u8::from(*truth)],
        Value::Int(n) => match Type::of_oid(oid) {
            Some(Type::Int4) => i32::try_from(*n).unwrap_or(i32::MAX).to_be_bytes().to_vec(),
            Some(Type::Oid) => u32::try_from(*n).unwrap_or(u32::MAX).to_be_bytes().to_vec(),
            Some(Type::Text | Type::Name | Type::Json) => n.to_string().into_bytes(),
            Some(Type::Int8 | Type::Bool | Type::Time | Type::TextArray | Type::Void) | None => {
                n.to_be_bytes().to_vec()
            }
        },
        Value::Text(text) => text.clone().into_bytes(),
        Value::Time(at) if *at == Timestamp::INFINITY => i64::MAX.to_be_bytes().to_vec(),
        Value::Time(at) => at.0.saturating_sub(EPOCH_US).to_be_bytes().to_vec(),
        Value::List(items) => binary_array(items),
    })
}

/// The binary form of a `text[]` of one dimension.
fn binary_array(items: &[String]) -> Vec<u8> {
    let mut out = Vec::new();
    let put = |out: &mut Vec<u8>, n: usize| out.extend_from_slice(&i32::try_from(n).unwrap_or(i32::MAX).to_be_bytes());
    put(&mut out, usize::from(!items.is_empty()));
    put(&mut out, 0);
    out.extend_from_slice(&Type::Text.oid().to_be_bytes());
    if !items.is_empty() {
        put(&mut out, items.len());
        put(&mut out, 1);
    }
    for item in items {
        put(&mut out, item.len());
        out.extend_from_slice(item.as_bytes());
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_encodings() {
        let columns = columns_of(&[
            ("b", Type::Bool),
            ("i", Type::Int4),
            ("l", Type::Int8),
            ("t", Type::Time),
            ("x", Type::Text),
            ("n", Type::Text),
        ]);
        let row = vec![
            Value::Bool(true),
            Value::Int(7),
            Value::Int(-1),
            Value::Time(Timestamp(EPOCH_US + 5)),
            Value::from("é"),
            Value::Null,
        ];
        let text: Vec<_> =
            encode(&row, &columns, &[]).into_iter().map(|v| v.map(|b| String::from_utf8(b).unwrap())).collect();
        assert_eq!(text[0].as_deref(), Some("t"));
        assert_eq!(text[3].as_deref(), Some("2000-01-01 00:00:00.000005+00"));
        assert_eq!(text[5], None);
        let bytes = encode(&row, &columns, &formats(&[1], 6).unwrap());
        assert_eq!(bytes[0].as_deref(), Some(&[1u8][..]));
        assert_eq!(bytes[1].as_deref(), Some(&7i32.to_be_bytes()[..]));
        assert_eq!(bytes[2].as_deref(), Some(&(-1i64).to_be_bytes()[..]));
        assert_eq!(bytes[3].as_deref(), Some(&5i64.to_be_bytes()[..]));
        assert_eq!(bytes[4].as_deref(), Some("é".as_bytes()));
        assert_eq!(bytes[5], None);
    }

    #[test]
    fn lists_print_as_arrays() {
        assert_eq!(
            array_text(&["a".to_owned(), "b c".to_owned(), String::new(), "x\"y".to_owned()]),
            r#"{a,"b c","","x\"y"}"#
        );
    }

    #[test]
    fn format_codes() {
        assert_eq!(formats(&[0, 1], 2).unwrap(), [0, 1]);
        assert!(formats(&[0, 1], 3).is_err());
        assert!(formats(&[2], 1).is_err());
    }
}
