//! Values as the driver sends and gets them.

use std::error::Error;

use bytes::BytesMut;
use dataglot_model::def::ObjectId;
use dataglot_model::{HeadRecord, OrgName, Seq, Timestamp};
use tokio_postgres::Row;
use tokio_postgres::types::{FromSql, IsNull, ToSql, Type, to_sql_checked};

use super::connection::Failure;
use super::layout::{Columns, garbled};
use crate::record::{Bad, Damage};
use crate::{StoreError, Table};

/// The columns of a head.
pub(super) const HEAD: &str = "org, org_id, seq, next_id, at";

/// The bytes of a `json`, `bytea` or `text`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Content<'a>(pub(super) &'a [u8]);

impl<'a> FromSql<'a> for Content<'a> {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Self, Box<dyn Error + Sync + Send>> {
        Ok(Content(raw))
    }

    fn accepts(ty: &Type) -> bool {
        [Type::JSON, Type::BYTEA, Type::TEXT].contains(ty)
    }
}

impl ToSql for Content<'_> {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        out.extend_from_slice(self.0);
        Ok(IsNull::No)
    }

    fn accepts(ty: &Type) -> bool {
        [Type::JSON, Type::BYTEA, Type::TEXT].contains(ty)
    }

    to_sql_checked!();
}

/// A number of a transaction as PostgreSQL takes it. No org ever has as many.
pub(super) fn seq_to_sql(seq: Seq) -> i64 {
    i64::try_from(seq.0).unwrap_or(i64::MAX)
}

/// The head in the columns of [`HEAD`].
pub(super) fn read_head(row: &Row) -> Result<(OrgName, HeadRecord), Failure> {
    let org: &str = row.try_get(0)?;
    let (org_id, seq, next_id, at): (i64, i64, i64, i64) =
        (row.try_get(1)?, row.try_get(2)?, row.try_get(3)?, row.try_get(4)?);
    let damaged = |why| {
        let damage = Damage { table: Table::Meta, key: org.as_bytes().to_vec(), why };
        tracing::error!("damaged: {damage}");
        Failure::Store(StoreError::Damaged { damage: vec![damage] })
    };
    let name = OrgName::new(org).map_err(|_| damaged(Bad::Key))?;
    let seq = Seq(u64::try_from(seq).map_err(|_| damaged(Bad::Value))?);
    let next_id = ObjectId(next_id.cast_unsigned());
    Ok((name, HeadRecord { org_id: org_id.cast_unsigned(), seq, next_id, at: Timestamp(at) }))
}

/// A record in four columns from `first` on: format, checksum, body, raw. `None`: there is no such row.
pub(super) fn read_columns(row: &Row, first: usize) -> Result<Option<Columns<'_>>, Failure> {
    let (format, checksum): (Option<i16>, Option<i64>) = (row.try_get(first)?, row.try_get(first + 1)?);
    let (body, raw): (Option<Content<'_>>, Option<Content<'_>>) = (row.try_get(first + 2)?, row.try_get(first + 3)?);
    Ok(format.zip(checksum).map(|(format, checksum)| Columns {
        format,
        checksum,
        body: body.map(|b| b.0),
        raw: raw.map(|r| r.0),
    }))
}

/// The seq and step of a row of `changes`.
pub(super) fn read_change_key(seq: i64, step: i32) -> Result<(Seq, u32), StoreError> {
    match (u64::try_from(seq), u32::try_from(step)) {
        (Ok(seq), Ok(step)) => Ok((Seq(seq), step)),
        _ => Err(garbled()),
    }
}
