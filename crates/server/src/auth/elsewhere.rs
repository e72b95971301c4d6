//! Login by somebody else's word: a token, or a directory that takes the password. Either comes as it is where a
//! password is asked for: in TLS or on this machine only.

use std::net::IpAddr;

use super::jwt::TOKEN_BYTES_MAX;
use super::ldap::LdapUser;
use super::password::{PASSWORD_BYTES_MAX, read};
use super::{admit, denied, org_of};
use crate::door::Turned;
use crate::link::Link;
use crate::refusal::Refusal;
use crate::server::Shared;
use crate::startup::Startup;

/// Asks for a token and checks it. Out: the roles to which the session is limited; empty: it is not.
pub(super) async fn token(
    link: &mut Link,
    startup: &Startup,
    peer: IpAddr,
    shared: &Shared,
) -> Result<Vec<String>, Turned> {
    let attempt = admit(link, startup, peer, shared).await?;
    let Some(token) = read(link, TOKEN_BYTES_MAX + 1).await? else { return Err(denied(startup).into()) };
    let issuers = &shared.issuers;
    // An issuer is for orgs by their own names, whatever other name the client has for one.
    let database = match issuers.names_databases() {
        true => org_of(startup, shared).await?.ok_or_else(|| denied(startup))?,
        false => startup.database.clone(),
    };
    match issuers.verify(&token, &startup.user, &database).await {
        Ok(user) => {
            attempt.does_not_count();
            Ok(user.role_names)
        }
        Err(why) => {
            tracing::info!(reason = why.reason, "login by token failed");
            Err(denied(startup).into())
        }
    }
}

/// Asks for a password and has the directory check it. Out: as of [`token`].
pub(super) async fn password(
    link: &mut Link,
    startup: &Startup,
    peer: IpAddr,
    shared: &Shared,
) -> Result<Vec<String>, Turned> {
    let attempt = admit(link, startup, peer, shared).await?;
    let Some(password) = read(link, PASSWORD_BYTES_MAX).await? else { return Err(denied(startup).into()) };
    // The configuration has one where a rule needs it.
    let Some(directory) = &shared.directory else { return Err(Refusal::Unavailable.into()) };
    match directory.bind(&startup.user, &password).await {
        Ok(LdapUser { groups }) => {
            attempt.does_not_count();
            Ok(groups)
        }
        Err(why) => {
            tracing::info!(reason = why.reason, "login by the directory failed");
            Err(denied(startup).into())
        }
    }
}
