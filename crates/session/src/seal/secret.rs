//! Secrets into envelopes.

use std::sync::Arc;

use dataglot_model::command::{AlterSecret, Carrier, CreateSecret, OnExisting, SecretAction};
use dataglot_model::def::SecretOrigin;
use dataglot_model::{Command, Name, Sealed, SecretHash, Sensitive};
use dataglot_planner::Image;
use dataglot_vault::{self as vault, Envelope, Place};

use crate::engine::Engine;
use crate::error::SessionError;
use crate::seal::keys::{self, Sealer};

/// The kind in a ciphertext's associated data.
pub(crate) const SECRET_KIND: &str = "secret";

/// What the image holds of a secret's value.
struct Present {
    value_version: u64,
    /// The ciphertext and its hash, where the value is in the store.
    envelope: Option<(Arc<[u8]>, SecretHash)>,
    hash: Option<SecretHash>,
}

fn present(image: &Image, name: &Name) -> Option<Present> {
    image.secret(name).map(|secret| {
        let hash = match &secret.meta.origin {
            SecretOrigin::Sealed(hash) => Some(*hash),
            SecretOrigin::Env(_) | SecretOrigin::File(_) => None,
        };
        Present { value_version: secret.meta.value_version, envelope: secret.envelope.cloned().zip(hash), hash }
    })
}

pub(super) fn place<'a>(engine: &Engine, image: &'a Image, name: &'a Name, value_version: u64) -> Place<'a> {
    Place { store_id: engine.store_id(), org: image.org(), kind: SECRET_KIND, name: name.as_str(), value_version }
}

/// Seals the value of CREATE SECRET or ALTER SECRET … AS.
pub(super) fn seal_value(
    engine: &Engine,
    image: &Image,
    command: &Command<Sealed>,
    value: &Sensitive,
) -> Result<Sealed, SessionError> {
    let (name, used) = match command.carrier() {
        Some(Carrier::CreateSecret(CreateSecret { name, on_existing, .. })) => {
            let used = match on_existing {
                OnExisting::Error | OnExisting::Skip => false,
                OnExisting::Replace | OnExisting::Alter => true,
            };
            (&name.value, used)
        }
        Some(Carrier::AlterSecret(AlterSecret { name, .. })) => (&name.value, true),
        Some(Carrier::CreateRole(_) | Carrier::AlterRole(_)) | None => {
            return Err(SessionError::bug("a secret's value in another command"));
        }
    };
    let present = present(image, name);
    if let Some(present) = &present {
        if !used || is_same(engine, image, name, present, value) {
            return Ok(Sealed::Unchanged { seen: present.hash });
        }
    } else if matches!(command, Command::AlterSecret(_)) {
        // Nothing to alter: the planner says so, or finds the statement stale.
        return Ok(Sealed::Unchanged { seen: None });
    }
    let value_version = present.as_ref().map_or(1, |p| p.value_version + 1);
    let at = place(engine, image, name, value_version);
    let sealed = Sealer::of(engine, image).and_then(|sealer| sealer.seal(&at, value));
    let (envelope, by) = sealed.map_err(|e| SessionError::of(&e))?;
    let seen = present.and_then(|p| p.hash);
    Ok(Sealed::Envelope { bytes: envelope.bytes, hash: envelope.hash, value_version, seen, by: Some(by) })
}

/// Whether `value` is the one that is there. One that does not open is another one: it is repaired.
fn is_same(engine: &Engine, image: &Image, name: &Name, present: &Present, value: &Sensitive) -> bool {
    let Some((bytes, _)) = &present.envelope else { return false };
    let at = place(engine, image, name, present.value_version);
    keys::open(engine, image, &at, bytes).is_ok_and(|old| old == *value)
}

/// A secret that is renamed, and whose value is in the store.
pub(super) struct Rename {
    from: Name,
    to: Name,
}

/// Whether `command` renames a secret whose value has to be sealed again.
pub(super) fn renamed(command: &Command<Sealed>, image: &Image) -> Option<Rename> {
    let Some(Carrier::AlterSecret(AlterSecret { name, action: SecretAction::Rename { to, .. }, .. })) =
        command.carrier()
    else {
        return None;
    };
    let sealed = present(image, name).is_some_and(|p| p.hash.is_some()) || former(image, name).is_some();
    let free = image.secret(to).is_none();
    (sealed && free).then(|| Rename { from: name.value.clone(), to: to.value.clone() })
}

/// The value before the present one, where it may still be had from the store: its number, ciphertext and hash.
fn former(image: &Image, name: &Name) -> Option<(u64, Arc<[u8]>, SecretHash)> {
    let secret = image.secret(name)?;
    let previous = secret.meta.previous.as_deref()?;
    match &previous.origin {
        SecretOrigin::Sealed(hash) if !image.is_previous_unreadable(name) => {
            Some((previous.value_version, Arc::clone(secret.previous?), *hash))
        }
        SecretOrigin::Sealed(_) | SecretOrigin::Env(_) | SecretOrigin::File(_) => None,
    }
}

/// The values of a secret that is renamed, sealed for the new name under the same numbers. `None`: there is none
/// in the store, or it is damaged.
#[derive(Default)]
pub(super) struct Resealed {
    pub(super) value: Option<Sealed>,
    pub(super) former: Option<Sealed>,
}

/// Seals again what `rename` takes along.
pub(super) fn reseal(engine: &Engine, image: &Image, rename: &Rename) -> Result<Resealed, SessionError> {
    // One for both: where the org has no data key yet, both bring the same one.
    let sealer = Sealer::of(engine, image).map_err(|e| SessionError::of(&e))?;
    let again = |value_version, bytes: &[u8], seen| -> Result<Sealed, vault::VaultError> {
        let value = keys::open(engine, image, &place(engine, image, &rename.from, value_version), bytes)?;
        let at = place(engine, image, &rename.to, value_version);
        let (Envelope { bytes, hash }, by) = sealer.seal(&at, &value)?;
        Ok(Sealed::Envelope { bytes, hash, value_version, seen: Some(seen), by: Some(by) })
    };
    let mut resealed = Resealed::default();
    if let Some(Present { value_version, envelope: Some((bytes, hash)), .. }) = present(image, &rename.from) {
        resealed.value = Some(again(value_version, &bytes, hash).map_err(|e| SessionError::of(&e))?);
    }
    if let Some((value_version, bytes, hash)) = former(image, &rename.from) {
        resealed.former = Some(again(value_version, &bytes, hash).map_err(|e| SessionError::of(&e))?);
    }
    Ok(resealed)
}
