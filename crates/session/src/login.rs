//! What a client says of itself before its session starts, and which org that means.
//!
//! A login is decided on what a shared store has now. While that cannot be reached it is decided on the image
//! at hand, for as long as the lease allows.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use dataglot_model::OrgName;
use dataglot_store::Freshness;
use tokio::time::Instant;

use crate::access;
use crate::compiler::OrgState;
use crate::credentials::Proof;
use crate::engine::Engine;
use crate::error::SessionError;
use crate::fresh::is_out_of_reach;

/// The databases that mean the org `default` where no org has the name.
const DEFAULT_DATABASES: [&str; 2] = ["dataglot", "postgres"];
/// How many orgs are remembered not to be there.
const ABSENT_MAX: usize = 1_000;

/// A client that the front door has let in.
#[derive(Clone, Debug, Default)]
pub struct Login {
    /// The user's name, authenticated.
    pub user: String,
    /// The database that it asked for: the org.
    pub database: Option<String>,
    /// The other startup parameters, `application_name` and `options` among them.
    pub parameters: Vec<(String, String)>,
    /// The client's address, for people who read the log.
    pub client: String,
    /// The number that the session goes by.
    pub pid: i32,
    /// What it has proved, if it was by a password.
    pub proof: Option<Proof>,
    /// The roles that it may become, by SET ROLE, of those that the user may become; empty: all. The user has to be a
    /// member of one of them at least, for as long as the session goes on.
    pub roles: Vec<String>,
}

/// Orgs that a shared store did not have, and when: a database of that name means the org `default`, and it
/// goes on to do so for the time of a lease in which the store cannot be asked.
#[derive(Default)]
pub(crate) struct Absent(Mutex<BTreeMap<OrgName, Instant>>);

impl Absent {
    fn note(&self, org: &OrgName) {
        let mut absent = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if absent.len() >= ABSENT_MAX {
            absent.clear();
        }
        absent.insert(org.clone(), Instant::now());
    }

    fn knows(&self, org: &OrgName, lease: Duration) -> bool {
        let absent = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        absent.get(org).is_some_and(|at| at.elapsed() < lease)
    }
}

/// The org that a database means.
///
/// # Errors
/// 57P03: the lease is over, or there is no image and the store cannot be reached.
pub(crate) async fn find_org(
    engine: &Engine,
    database: Option<&str>,
    user: &str,
) -> Result<Option<(OrgName, Arc<OrgState>)>, SessionError> {
    let database = database.filter(|d| !d.is_empty()).unwrap_or(user);
    if let Ok(org) = OrgName::new(database)
        && let Some(state) = image(engine, &org).await?
    {
        return Ok(Some((org, state)));
    }
    if DEFAULT_DATABASES.contains(&database) || database == user {
        let org = OrgName::default_org();
        let state = image(engine, &org).await?;
        return Ok(state.map(|state| (org, state)));
    }
    Ok(None)
}

/// The image of an org on which a login is decided.
async fn image(engine: &Engine, org: &OrgName) -> Result<Option<Arc<OrgState>>, SessionError> {
    let hub = engine.hub();
    match hub.freshness_of(org) {
        Freshness::Expired { age } => return Err(access::closed(age)),
        Freshness::Stale { .. } => {}
        Freshness::Current => match hub.refresh(org).await {
            Err(error) if !is_out_of_reach(&error) => return Err(SessionError::of(&error)),
            Ok(()) | Err(_) => {}
        },
    }
    match hub.load(org).await {
        Ok(Some(state)) => Ok(Some(state)),
        Ok(None) => {
            if engine.is_shared() {
                engine.absent().note(org);
            }
            Ok(None)
        }
        Err(error) if is_out_of_reach(&error) && engine.absent().knows(org, engine.config().hub.lease) => Ok(None),
        Err(error) => Err(SessionError::of(&error)),
    }
}
