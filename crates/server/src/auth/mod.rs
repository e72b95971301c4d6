//! Who a client is: from what it claims to a [`Principal`].
//!
//! A principal is a proof. Only [`authenticate`] makes one, and a session is started from nothing else, so no error
//! of any layer can leave a connection usable that was not let in. What a client is asked for is decided by the
//! rules of [`hba`]; users who are not there, may not log in or have no password are asked the same, answered the
//! same, and kept waiting as long as users who gave a wrong one.

mod cert;
mod denied;
mod elsewhere;
mod groups;
mod hba;
mod jwt;
mod ldap;
mod md5;
mod password;
mod roots;
mod scram;
mod throttle;

use std::net::IpAddr;
use std::sync::Arc;

use dataglot_session::{Credentials, Login, Proof};
use tokio::sync::Semaphore;
use tokio::time::sleep_until;

use hba::Origin;
pub use hba::{Address, Hba, Kind, Method, Names, Network, Rule};
pub(crate) use jwt::Issuers;
pub use jwt::{Algorithm, IssuerConfig, IssuerError, KeyPlace};
pub(crate) use ldap::{Directory, is_filter};
pub use ldap::{DirectoryConfig, DirectoryError};
pub use roots::client_config;
pub(crate) use throttle::network;
use throttle::{Attempt, Throttle};

use crate::door::Turned;
use crate::link::Link;
use crate::refusal::Refusal;
use crate::server::Shared;
use crate::startup::Startup;

/// How many passwords are hashed at once for logins: each may take 64 MiB.
const HASHING_MAX: usize = 2;

/// What is held of a user while a proof is waited for.
const CREDENTIALS_BYTES: usize = 2 << 10;

/// How users are let in.
#[derive(Clone, Debug)]
pub struct Authentication {
    /// By what proof, and from where.
    pub hba: Hba,
    /// Whether peers off loopback are trusted, too, where the method is trust. Unsafe.
    pub trust_remote: bool,
}

/// What the logins of a process share.
pub(crate) struct Gate {
    throttle: Throttle,
    /// Held by whoever hashes, to the end of that: also when the connection is over before.
    hashing: Arc<Semaphore>,
}

impl Default for Gate {
    fn default() -> Self {
        Gate { throttle: Throttle::default(), hashing: Arc::new(Semaphore::new(HASHING_MAX)) }
    }
}

/// A user that has been let in.
#[derive(Debug)]
pub(crate) struct Principal {
    user: String,
    database: String,
    proof: Option<Proof>,
    /// The roles to which the session is limited; empty: it is not.
    roles: Vec<String>,
}

impl Principal {
    fn of(startup: &Startup, proof: Option<Proof>, roles: Vec<String>) -> Self {
        Principal { user: startup.user.clone(), database: startup.database.clone(), proof, roles }
    }

    /// What its session starts from.
    pub(crate) fn login(self, parameters: Vec<(String, String)>, client: String, pid: i32) -> Login {
        let Principal { user, database, proof, roles } = self;
        Login { user, database: Some(database), parameters, client, pid, proof, roles }
    }
}

/// Lets the user of `startup` in, or not. Of the startup parameters only `user` and `database` are
/// looked at: no other one can change the outcome.
///
/// # Errors
/// No rule fits, the proof is none, or the peer is gone.
pub(crate) async fn authenticate(
    link: &mut Link,
    startup: &Startup,
    peer: IpAddr,
    shared: &Shared,
) -> Result<Principal, Turned> {
    let with = &shared.config.authentication;
    let origin = Origin { peer, local: link.local_address(), tls: link.security().tls };
    // A rule names an org by its own name, whatever other name the client has for it.
    let database = match with.hba.names_databases() {
        true => org_of(startup, shared).await?.unwrap_or_else(|| startup.database.clone()),
        false => startup.database.clone(),
    };
    let rule = with.hba.find(&origin, &database, &startup.user).ok_or(Refusal::NoRule)?;
    let mut roles = Vec::new();
    let proof = match rule.method {
        Method::Trust if peer.to_canonical().is_loopback() || with.trust_remote => None,
        Method::Trust => return Err(Refusal::NotLocal.into()),
        Method::Reject => return Err(Refusal::NoRule.into()),
        Method::Cert => {
            cert::check(link.security(), rule, &startup.user)?;
            None
        }
        Method::ScramSha256 => scram::ask(link, startup, peer, shared).await?,
        Method::Password => password::ask(link, startup, peer, shared).await?,
        Method::Md5 => md5::ask(link, startup, peer, shared).await?,
        Method::Jwt => {
            roles = elsewhere::token(link, startup, peer, shared).await?;
            None
        }
        Method::Ldap => {
            roles = elsewhere::password(link, startup, peer, shared).await?;
            None
        }
    };
    Ok(Principal::of(startup, proof, roles))
}

/// The name of the org that the client's database means.
async fn org_of(startup: &Startup, shared: &Shared) -> Result<Option<String>, Refusal> {
    let org =
        shared.engine.org_of(&startup.user, &startup.database).await.map_err(|report| Refusal::of_store(&report))?;
    Ok(org.map(|org| org.as_str().to_owned()))
}

/// What the user has to prove, to us.
///
/// # Errors
/// As of [`admit`]; the store cannot be asked.
async fn begin<'a>(
    link: &Link,
    startup: &Startup,
    peer: IpAddr,
    shared: &'a Shared,
) -> Result<(Credentials, Attempt<'a>), Turned> {
    link.charge(CREDENTIALS_BYTES)?;
    let attempt = admit(link, startup, peer, shared).await?;
    match shared.engine.credentials(&startup.user, Some(&startup.database)).await {
        Ok(credentials) => Ok((credentials, attempt)),
        Err(report) => {
            attempt.does_not_count();
            Err(Refusal::of_store(&report).into())
        }
    }
}

/// Lets the user try. Waits, if it or somebody else at that address has been wrong too often, or many try there at
/// once as that user; nothing has been asked of the store or the client until then.
///
/// # Errors
/// Nothing is asked of a client that would send it in clear; too many wrong proofs.
async fn admit<'a>(link: &Link, startup: &Startup, peer: IpAddr, shared: &'a Shared) -> Result<Attempt<'a>, Turned> {
    if !link.is_private() {
        return Err(Refusal::Unencrypted.into());
    }
    let Some(attempt) = shared.gate.throttle.enter(&startup.user, peer).await else {
        tracing::warn!("too many failed logins of this user from this address: refused without a look");
        return Err(denied(startup).into());
    };
    sleep_until(attempt.not_before()).await;
    Ok(attempt)
}

/// What everybody is told whose proof is none, for whatever reason.
fn denied(startup: &Startup) -> Refusal {
    Refusal::Denied { user: startup.user.clone() }
}
