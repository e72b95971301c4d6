//! Turns what a client wrote into what may be stored: secrets into envelopes, passwords into verifiers.
//! No plaintext of a credential outlives this step.
//!
//! A credential is judged only when the statement would use it: one that the caller may not run, or
//! that finds the object there already, neither opens, compares nor hashes anything.

mod detach;
pub(crate) mod keys;
mod need;
mod password;
pub(crate) mod retired;
mod secret;
mod verify;

pub(crate) use detach::{attach, attach_renamed, detach, detach_org};
pub(crate) use keys::{KeyCache, ciphertext, open_verifier};
pub(crate) use need::{Left, Need, has_key, needs, next_batch};
pub(crate) use password::PasswordKind;
pub(crate) use secret::SECRET_KIND;
pub(crate) use verify::{Problem, Recorded, problems};

use std::sync::Arc;

use dataglot_model::command::{Credential, PasswordChange, RoleSelector};
use dataglot_model::{Actor, Command, Name, OrgCommand, OrgName, Row, Sealed, Sensitive};
use dataglot_planner::{FIRST_SUPERUSER, Image, authorize, authorize_org};

use crate::compiler::SeenPassword;
use crate::credentials::{NewPassword, password_of};
use crate::engine::Engine;
use crate::error::SessionError;
use crate::seal::keys::Sealer;

/// A command without plaintext, and what its password was compared with.
pub(crate) struct SealedCommand {
    pub(crate) command: Command<Sealed>,
    /// The command carried a credential, so its text is not all of it.
    pub(crate) has_credential: bool,
    pub(crate) password: Option<SeenPassword>,
    /// The role that it gives another password, and that.
    pub(crate) sets: Option<(Name, NewPassword)>,
}

/// A command with something to seal, taken apart.
pub(crate) struct Loose {
    command: Command<Sealed>,
    credential: Option<Credential<Sensitive>>,
    /// Whose password the credential is.
    of: Option<Name>,
    /// Whose password goes.
    sets: Option<(Name, NewPassword)>,
    renamed: Option<secret::Rename>,
    renamed_role: Option<password::Rename>,
}

/// Takes out what has to be sealed, against `image`. With nothing of that in it the command is as good as sealed.
pub(crate) fn loosen(image: &Image, actor: &Actor, command: Command<Sensitive>) -> Result<SealedCommand, Box<Loose>> {
    let (command, credential) = detach(command);
    let (of, sets) = match password_of(&command, actor) {
        Some((name, PasswordChange::Set(_))) => (Some(name), None),
        Some((name, PasswordChange::Remove)) => (None, Some((name, NewPassword::None))),
        None => (None, None),
    };
    let renamed = secret::renamed(&command, image);
    let renamed_role = password::renamed(&command, image, actor);
    if credential.is_none() && renamed.is_none() && renamed_role.is_none() {
        return Ok(SealedCommand { command, has_credential: false, password: None, sets });
    }
    Err(Box::new(Loose { command, credential, of, sets, renamed, renamed_role }))
}

/// Seals what a command carries, against the `image` that it was loosened against.
///
/// # Errors
/// What [`authorize`] says; 22023 for a password that is none; 58000 without a key; XX001 for a
/// ciphertext that does not open.
pub(crate) async fn seal(
    engine: &Arc<Engine>,
    image: &Image,
    actor: &Actor,
    kind: PasswordKind,
    loose: Box<Loose>,
) -> Result<SealedCommand, SessionError> {
    let Loose { mut command, credential, of, mut sets, renamed, renamed_role } = *loose;
    // Nobody makes the server hash or decrypt who may not run the statement.
    authorize(image, actor, &command).map(drop).map_err(|e| SessionError::of(&e))?;
    let mut password = None;
    match (credential, renamed, renamed_role) {
        (Some(Credential::Secret(value)), _, _) => {
            let sealed = secret::seal_value(engine, image, &command, &value)?;
            command = attach(command, &sealed);
        }
        (Some(Credential::Password(text)), _, _) => {
            let present = password::present(engine, image, actor, &command);
            let (sealed, seen) = password::verifier(engine, text, of.as_ref(), kind, present).await?;
            password = seen;
            sets = of.clone().zip(password::new_password(&sealed));
            let sealed = password::seal(engine, sealed, of.as_ref(), image.org(), || Sealer::of(engine, image))?;
            command = attach(command, &sealed);
        }
        (None, Some(rename), _) => {
            let secret::Resealed { value, former } = secret::reseal(engine, image, &rename)?;
            attach_renamed(&mut command, value, former);
        }
        (None, None, Some(rename)) => {
            let sealed = password::reseal(engine, image, &rename)?;
            password = Some(rename.seen);
            attach_renamed(&mut command, Some(sealed), None);
        }
        (None, None, None) => {}
    }
    Ok(SealedCommand { command, has_credential: true, password, sets })
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
    let (command, credential) = detach_org(command);
    if let Some(text) = credential {
        authorize_org(image, actor, &command).map(drop).map_err(|e| SessionError::of(&e))?;
        let exists = match &command {
            OrgCommand::Create { name, .. } | OrgCommand::Drop { name, .. } => image.org_exists(name),
        };
        let present = if exists { password::Present::Unused } else { password::Present::None };
        let (org, admin) = match &command {
            OrgCommand::Create { name, admin, .. } => {
                (name, admin.as_ref().map(|admin| admin.value.clone()).or_else(|| Name::new(FIRST_SUPERUSER).ok()))
            }
            OrgCommand::Drop { name, .. } => (name, None),
        };
        let (sealed, _) = password::verifier(engine, text, admin.as_ref(), kind, present).await?;
        let sealed = password::seal(engine, sealed, admin.as_ref(), org, || Sealer::of_new_org(engine, org))?;
        return Ok(detach::attach_org(command, &sealed));
    }
    Ok(command)
}

/// The role that `ALTER ROLE` means.
pub(crate) fn selected(role: &RoleSelector, actor: &Actor) -> Option<Name> {
    match role {
        RoleSelector::One(spec) => Some(spec.value.resolve(actor).clone()),
        RoleSelector::All => None,
    }
}

/// A verifier for the superuser of a new store, and the data key that it brings along. `None`: the password is
/// empty.
pub(crate) async fn verifier(
    engine: &Arc<Engine>,
    admin: &Name,
    text: Sensitive,
) -> Result<Option<(Arc<str>, Option<Row>)>, SessionError> {
    let (sealed, _) =
        password::verifier(engine, text, Some(admin), PasswordKind::Scram, password::Present::None).await?;
    let org = OrgName::default_org();
    Ok(match password::seal(engine, sealed, Some(admin), &org, || Sealer::of_new_org(engine, &org))? {
        Sealed::Verifier { text, by } => Some((text, by.and_then(|by| Some(Row::DataKey(by.no, by.made?, by.hash))))),
        Sealed::EmptyPassword | Sealed::Unchanged { .. } | Sealed::Envelope { .. } => None,
    })
}
