//! Login by an md5 hash, for users who were brought along with one. Everybody else is asked by SCRAM, as PostgreSQL
//! does: that tells which users have yet to be given a better password, and is why this method is for a migration.

use std::net::IpAddr;

use dataglot_session::{OsEntropy, PasswordVerifier, Proof};
use dataglot_vault::Entropy as _;
use pgwire::messages::startup::Authentication as Answer;

use super::{begin, denied, scram};
use crate::door::Turned;
use crate::link::Link;
use crate::refusal::Refusal;
use crate::server::Shared;
use crate::startup::Startup;

/// `md5`, 32 digits, NUL.
const ANSWER_BYTES: usize = 36;

/// Asks for the hash and checks it.
pub(super) async fn ask(
    link: &mut Link,
    startup: &Startup,
    peer: IpAddr,
    shared: &Shared,
) -> Result<Option<Proof>, Turned> {
    let (credentials, attempt) = begin(link, startup, peer, shared).await?;
    let PasswordVerifier::Md5(verifier) = &credentials.verifier else {
        let proof = scram::exchange(link, startup, credentials).await?;
        attempt.does_not_count();
        return Ok(proof);
    };
    let mut salt = [0; 4];
    OsEntropy.fill(&mut salt).map_err(|error| {
        tracing::error!(%error, "no random numbers");
        Refusal::Unavailable
    })?;
    link.out.put(&Answer::MD5Password(salt.to_vec()));
    link.flush().await?;
    let said = link.read_credential(ANSWER_BYTES).await?;
    let Some((0, answer)) = said.bytes().split_last() else { return Err(Refusal::CredentialLength.into()) };
    if !(dataglot_vault::md5::matches(verifier, salt, answer) & credentials.may_log_in) {
        return Err(denied(startup).into());
    }
    attempt.does_not_count();
    Ok(credentials.into_proof())
}
