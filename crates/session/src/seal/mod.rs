//! Turns what a client wrote into what may be stored: secrets into envelopes, passwords into verifiers.
//! No plaintext of a credential outlives this step.
//!
//! A credential is judged only when the statement would use it: one that the caller may not run, or
//! that finds the object there already, neither opens, compares nor hashes anything.

mod detach;
mod password;
mod secret;

pub(crate) use detach::{Credential, attach, detach, detach_org};
pub(crate) use password::PasswordKind;

use std::sync::Arc;

use dataglot_model::command::{RoleSelector, RoleSpec};
use dataglot_model::{Actor, Command, Name, OrgCommand, Sealed, Sensitive};
use dataglot_planner::{Image, authorize, authorize_org};

use crate::compiler::SeenPassword;
use crate::engine::Engine;
use crate::error::SessionError;

/// A command without plaintext, and what its password was compared with.
pub(crate) struct SealedCommand {
    pub(crate) command: Command<Sealed>,
    /// The command carried a credential, so its text is not all of it.
    pub(crate) has_credential: bool,
    pub(crate) password: Option<SeenPassword>,
}

/// Seals what `command` carries, against `image`.
///
/// # Errors
/// What [`authorize`] says; 22023 for a password that is none; 58000 without a key; XX001 for a
/// ciphertext that does not open.
pub(crate) async fn seal(
    engine: &Arc<Engine>,
    image: &Image,
    actor: &Actor,
    kind: PasswordKind,
    command: Command<Sensitive>,
) -> Result<SealedCommand, SessionError> {
    let (mut command, credential) = detach(command);
    let renamed = secret::renamed(&command, image);
    if credential.is_none() && renamed.is_none() {
        return Ok(SealedCommand { command, has_credential: false, password: None });
    }
    // Nobody makes the server hash or decrypt who may not run the statement.
    authorize(image, actor, &command).map(drop).map_err(|e| SessionError::of(&e))?;
    let mut password = None;
    let sealed = match (credential, renamed) {
        (Some(Credential::Secret(value)), _) => Some(secret::seal_value(engine, image, &command, &value)?),
        (Some(Credential::Password(text)), _) => {
            let (sealed, seen) = password::seal(engine, text, kind, password::present(image, actor, &command)).await?;
            password = seen;
            Some(sealed)
        }
        (None, Some(rename)) => secret::reseal(engine, image, &rename)?,
        (None, None) => None,
    };
    if let Some(sealed) = sealed {
        attach(&mut command, sealed);
    }
    Ok(SealedCommand { command, has_credential: true, password })
}

/// Seals the password of the org's first user.
///
/// # Errors
/// As for [`seal`].
pub(crate) async fn seal_org(
    engine: &Arc<Engine>,
    image: &Image,
    actor: &Actor,
    kind: PasswordKind,
    command: OrgCommand<Sensitive>,
) -> Result<OrgCommand<Sealed>, SessionError> {
    let (mut command, credential) = detach_org(command);
    if let Some(text) = credential {
        authorize_org(image, actor, &command).map(drop).map_err(|e| SessionError::of(&e))?;
        let exists = match &command {
            OrgCommand::Create { name, .. } | OrgCommand::Drop { name, .. } => image.org_exists(name),
        };
        let present = if exists { password::Present::Unused } else { password::Present::None };
        let (sealed, _) = password::seal(engine, text, kind, present).await?;
        detach::attach_org(&mut command, sealed);
    }
    Ok(command)
}

/// The role that `ALTER ROLE` means.
pub(crate) fn selected(role: &RoleSelector, actor: &Actor) -> Option<Name> {
    match role {
        RoleSelector::One(spec) => Some(match &spec.value {
            RoleSpec::Name(name) => name.clone(),
            RoleSpec::CurrentUser | RoleSpec::CurrentRole => actor.current_user.clone(),
            RoleSpec::SessionUser => actor.session_user.clone(),
        }),
        RoleSelector::All => None,
    }
}

/// A verifier for the superuser of a new store.
pub(crate) async fn verifier(engine: &Arc<Engine>, text: Sensitive) -> Result<Option<Arc<str>>, SessionError> {
    Ok(match password::seal(engine, text, PasswordKind::Scram, password::Present::None).await?.0 {
        Sealed::Verifier(verifier) => Some(verifier),
        Sealed::EmptyPassword | Sealed::Unchanged { .. } | Sealed::Envelope { .. } => None,
    })
}
