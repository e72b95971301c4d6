//! Login by the password itself, which the server is told: in TLS or on this machine only.

use std::net::IpAddr;
use std::sync::Arc;

use dataglot_model::Sensitive;
use dataglot_session::Proof;
use pgwire::messages::startup::Authentication as Answer;

use super::{begin, denied};
use crate::door::Turned;
use crate::link::Link;
use crate::refusal::Refusal;
use crate::server::Shared;
use crate::startup::Startup;

/// Longest password (W-02), with the NUL that ends it.
pub(super) const PASSWORD_BYTES_MAX: usize = (1 << 10) + 1;

/// Asks for the password and checks it.
pub(super) async fn ask(
    link: &mut Link,
    startup: &Startup,
    peer: IpAddr,
    shared: &Shared,
) -> Result<Option<Proof>, Turned> {
    let (credentials, attempt) = begin(link, startup, peer, shared).await?;
    let password = read(link, PASSWORD_BYTES_MAX).await?;
    // The empty one is nobody's, which is no news to whoever sends it.
    let Some(password) = password.filter(|password| !password.open().is_empty()) else {
        return Err(denied(startup).into());
    };
    let permit = Arc::clone(&shared.gate.hashing).acquire_owned().await.map_err(|_| Refusal::Unavailable)?;
    let checked = tokio::task::spawn_blocking(move || {
        let _permit = permit;
        let is_right = credentials.is_password(&password);
        (is_right, credentials)
    });
    let (is_right, credentials) = checked.await.map_err(|_| Refusal::Unavailable)?;
    if !is_right {
        return Err(denied(startup).into());
    }
    attempt.does_not_count();
    Ok(credentials.into_proof())
}

/// Asks for a text of at most `bytes_max`, and reads it. `None`: it is not UTF-8.
///
/// # Errors
/// The message does not hold one text and its end.
pub(super) async fn read(link: &mut Link, bytes_max: usize) -> Result<Option<Sensitive>, Turned> {
    link.out.put(&Answer::CleartextPassword);
    link.flush().await?;
    let said = link.read_credential(bytes_max).await?;
    let Some((0, text)) = said.bytes().split_last() else { return Err(Refusal::CredentialLength.into()) };
    if text.contains(&0) {
        return Err(Refusal::CredentialLength.into());
    }
    Ok(std::str::from_utf8(text).ok().map(|text| Sensitive::new(text.to_owned())))
}
