//! Whole tables as streams of rows: `COPY` in binary form, taken apart where it lies.
//!
//! This is the cheapest form that PostgreSQL has for many rows, on its side and on ours, and the server
//! is only ever a buffer ahead of whoever takes them.

use std::pin::pin;

use dataglot_model::OrgName;
use futures_util::StreamExt as _;
use futures_util::future::try_join_all;
use tokio_postgres::Statement;

use super::connection::{Failure, Session};
use super::layout::{
    Columns, KeyColumns, finish_key, from_columns, garbled, key_columns, push_list, push_segment, take_field,
    take_number,
};
use super::wire::read_change_key;
use crate::record::key;
use crate::{StoreError, Table};

/// Begins a snapshot in which tables are read from end to end, for as long as that takes.
pub(super) const BEGIN_SCANS: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; \
     SET LOCAL statement_timeout = 0; SET LOCAL enable_seqscan = on; SET LOCAL enable_bitmapscan = on";

/// What every such stream starts with.
const SIGNATURE: &[u8] = b"PGCOPY\n\xff\r\n\0";

/// Statements that read the tables one after the other, prepared in one round trip. `org`: of that one
/// only; `None`: of all, with its name in front of each key.
pub(super) async fn prepare_scans(
    session: &Session,
    tables: &[Table],
    org: Option<&OrgName>,
) -> Result<Vec<Statement>, Failure> {
    let texts: Vec<_> = tables.iter().map(|table| scan_sql(*table, org)).collect();
    Ok(try_join_all(texts.iter().map(|text| session.client.prepare(text))).await?)
}

fn scan_sql(table: Table, org: Option<&OrgName>) -> String {
    let keys = key_columns(table).names().join(", ");
    let (first, filter) = match org {
        // COPY takes no parameters. The name of an org is made of a-z, 0-9, - and _.
        Some(org) => ("", format!(" WHERE org = '{}'", org.as_str().replace('\'', "''"))),
        None => ("org, ", String::new()),
    };
    format!("COPY (SELECT {first}{keys}, format, checksum, body, raw FROM {table}{filter}) TO STDOUT (FORMAT binary)")
}

/// Takes a row: its key, its value.
type RowSink<'a> = dyn FnMut(&[u8], &[u8]) -> Result<(), StoreError> + 'a;

/// Hands each row to `sink`. The statement is one of [`prepare_scans`] for `table`.
pub(super) async fn scan(
    session: &Session,
    statement: &Statement,
    table: Table,
    with_org: bool,
    sink: &mut RowSink<'_>,
) -> Result<(), Failure> {
    let mut stream = pin!(session.client.copy_out(statement).await?);
    let columns = key_columns(table);
    let (mut tuples, mut key, mut value) = (Tuples::default(), Vec::new(), Vec::new());
    while let Some(chunk) = stream.next().await {
        tuples.take(&chunk?, &mut |fields| {
            key.clear();
            value.clear();
            read_row(fields, table, columns, with_org, &mut key, &mut value)?;
            sink(&key, &value)
        })?;
        // However long the sink took for it.
        session.heard();
    }
    if tuples.is_complete() { Ok(()) } else { Err(Failure::Store(garbled())) }
}

/// Reads one row: the org, if it is there, the key, the frame.
fn read_row(
    mut fields: &[u8],
    table: Table,
    columns: KeyColumns,
    with_org: bool,
    key: &mut Vec<u8>,
    value: &mut Vec<u8>,
) -> Result<(), StoreError> {
    let fields = &mut fields;
    if with_org {
        key.extend_from_slice(take_field(fields)?.unwrap_or_default());
        key.push(key::SEPARATOR);
    }
    let start = key.len();
    match (table, columns) {
        (Table::Changes, _) => {
            let (seq, step) = (i64::from_be_bytes(take_number(fields)?), i32::from_be_bytes(take_number(fields)?));
            let (seq, step) = read_change_key(seq, step)?;
            key.extend_from_slice(&key::of_change(seq, step));
        }
        (_, KeyColumns::List) => push_list(take_field(fields)?.unwrap_or_default(), key)?,
        (_, KeyColumns::Each(names)) => {
            for position in 0..names.len() {
                push_segment(position, take_field(fields)?.unwrap_or_default(), key);
            }
        }
    }
    if table != Table::Changes {
        finish_key(key, start);
    }
    let format = i16::from_be_bytes(take_number(fields)?);
    let checksum = i64::from_be_bytes(take_number(fields)?);
    let (body, raw) = (take_field(fields)?, take_field(fields)?);
    from_columns(&Columns { format, checksum, body, raw }, value);
    Ok(())
}

/// Takes a stream apart. A row is as a rule one piece of it, but that is promised nowhere.
#[derive(Default)]
struct Tuples {
    /// The beginning of a row that has not come in full.
    rest: Vec<u8>,
    begun: bool,
    ended: bool,
}

impl Tuples {
    /// Hands each row that is complete with `chunk` to `sink`, without its number of fields.
    fn take(&mut self, chunk: &[u8], sink: &mut dyn FnMut(&[u8]) -> Result<(), StoreError>) -> Result<(), StoreError> {
        let mut joined = std::mem::take(&mut self.rest);
        let mut bytes = if joined.is_empty() {
            chunk
        } else {
            joined.extend_from_slice(chunk);
            joined.as_slice()
        };
        while !self.ended && !bytes.is_empty() {
            let taken = if self.begun { self.tuple(bytes, sink)? } else { self.header(bytes)? };
            let Some(taken) = taken else { break };
            bytes = bytes.get(taken..).unwrap_or_default();
        }
        if !self.ended {
            self.rest = bytes.to_vec();
        }
        Ok(())
    }

    /// How many bytes the header takes; `None`: it is not all there.
    fn header(&mut self, bytes: &[u8]) -> Result<Option<usize>, StoreError> {
        let fixed = SIGNATURE.len() + 8;
        let Some(extension) = bytes.get(SIGNATURE.len() + 4..).and_then(|b| b.first_chunk()) else { return Ok(None) };
        if !bytes.starts_with(SIGNATURE) {
            return Err(garbled());
        }
        let length = fixed + usize::try_from(i32::from_be_bytes(*extension)).map_err(|_| garbled())?;
        self.begun = bytes.len() >= length;
        Ok(self.begun.then_some(length))
    }

    /// How many bytes the next row takes; `None`: it is not all there.
    fn tuple(
        &mut self,
        bytes: &[u8],
        sink: &mut dyn FnMut(&[u8]) -> Result<(), StoreError>,
    ) -> Result<Option<usize>, StoreError> {
        let Some((count, fields)) = bytes.split_first_chunk() else { return Ok(None) };
        let Ok(count) = usize::try_from(i16::from_be_bytes(*count)) else {
            self.ended = true;
            return Ok(None);
        };
        let mut end = 0;
        for _ in 0..count {
            let Some(length) = fields.get(end..).and_then(|rest| rest.first_chunk()) else { return Ok(None) };
            // A negative length is null.
            end += 4 + usize::try_from(i32::from_be_bytes(*length)).unwrap_or(0);
        }
        let Some(fields) = fields.get(..end) else { return Ok(None) };
        sink(fields)?;
        Ok(Some(2 + end))
    }

    /// Whether the end was there.
    fn is_complete(&self) -> bool {
        self.ended
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// However it is cut, the rows are the same.
    #[test]
    fn a_stream_may_be_cut_anywhere() {
        let mut stream = [SIGNATURE, &[0; 4], &[0, 0, 0, 2, 9, 9]].concat();
        for text in ["", "a", "hello"] {
            stream.extend_from_slice(&[0, 2, 0xff, 0xff, 0xff, 0xff]);
            stream.extend_from_slice(&u32::try_from(text.len()).unwrap().to_be_bytes());
            stream.extend_from_slice(text.as_bytes());
        }
        stream.extend_from_slice(&[0xff, 0xff]);
        for size in 1..=stream.len() {
            let (mut tuples, mut found) = (Tuples::default(), Vec::new());
            for chunk in stream.chunks(size) {
                assert!(!tuples.is_complete());
                tuples
                    .take(chunk, &mut |mut fields| {
                        assert_eq!(take_field(&mut fields).unwrap(), None);
                        found.push(String::from_utf8(take_field(&mut fields).unwrap().unwrap().to_vec()).unwrap());
                        assert!(fields.is_empty());
                        Ok(())
                    })
                    .unwrap();
            }
            assert!(tuples.is_complete());
            assert_eq!(found, ["", "a", "hello"]);
        }
        assert!(Tuples::default().take(b"not a copy of anything", &mut |_| Ok(())).is_err());
    }
}
