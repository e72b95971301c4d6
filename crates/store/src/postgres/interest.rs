//! Who follows which orgs: a notification wakes every coordinator there is, so none is sent that nobody needs.
//!
//! Whoever follows an org holds a shared lock on its place for as long as it listens. Whoever has news of it tries
//! to have that lock alone: if it can, there is nobody to tell. First the lock, then the look at the heads, so
//! nothing falls between the two.

use std::collections::BTreeSet;

use dataglot_model::OrgName;
use tokio_postgres::types::{ToSql, Type};

use super::connection::{Failure, Prepared, Session};

/// The first key of the locks; their second one is a place.
const CLASS: i32 = i32::from_be_bytes(*b"dglt");
/// However many orgs there are, the server has no more locks than these of a coordinator. Orgs that share a place
/// are told of together.
const PLACES: u32 = 64;

/// The places that a session that listens has locked.
#[derive(Default)]
pub(super) struct Interest(BTreeSet<i32>);

impl Interest {
    /// Those of `orgs` too, until the session ends.
    pub(super) async fn take(&mut self, session: &Session, orgs: &[OrgName]) -> Result<(), Failure> {
        let wanted: BTreeSet<_> = orgs.iter().map(place).collect();
        let missing: Vec<_> = wanted.difference(&self.0).copied().collect();
        if missing.is_empty() {
            return Ok(());
        }
        let sql = format!("SELECT pg_advisory_lock_shared({CLASS}, p) FROM unnest($1) AS u (p)");
        session.client.query_typed(&sql, &[(&missing, Type::INT4_ARRAY)]).await?;
        self.0.extend(missing);
        Ok(())
    }
}

/// Sends each payload to `channel`, if somebody else follows its org. Returns the orgs that nobody else follows.
pub(super) async fn tell(
    session: &Session,
    channel: &str,
    news: Vec<(OrgName, String)>,
) -> Result<Vec<OrgName>, Failure> {
    let sql = || {
        format!(
            "SELECT place, pg_notify('{channel}', payload) FROM unnest($1, $2) AS u (place, payload) \
             WHERE NOT pg_try_advisory_xact_lock({CLASS}, place)"
        )
    };
    let statement = session.prepare(Prepared::Tell, &[Type::INT4_ARRAY, Type::TEXT_ARRAY], sql).await?;
    let (orgs, payloads): (Vec<_>, Vec<_>) = news.into_iter().unzip();
    let places: Vec<_> = orgs.iter().map(place).collect();
    let parameters: [&(dyn ToSql + Sync); 2] = [&places, &payloads];
    let mut told = BTreeSet::new();
    for row in session.client.query(&statement, &parameters).await? {
        told.insert(row.try_get::<_, i32>(0)?);
    }
    Ok(orgs.into_iter().filter(|org| !told.contains(&place(org))).collect())
}

/// The same in every coordinator of every version.
fn place(org: &OrgName) -> i32 {
    i32::try_from(crc32fast::hash(org.as_str().as_bytes()) % PLACES).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_do_not_change() {
        let place = |org| place(&OrgName::new(org).unwrap());
        assert_eq!((place("default"), place("acme")), (31, 62));
    }
}
