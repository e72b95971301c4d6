//! Which master key is needed for what, and what is to be wrapped or sealed anew so that the primary one is enough.
//! Looks at headers only: nothing is opened to tell.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use dataglot_model::def::SecretOrigin;
use dataglot_model::{Name, SecretHash};
use dataglot_planner::{Image, RewrapBatch, Rewrapped, Secret};
use dataglot_vault::{self as vault, KeyId, KeyRing, SealedWith, VaultError};

use super::keys::{self, Sealer, ciphertext};
use super::secret;
use crate::engine::Engine;

/// What of one org cannot be opened without a master key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Need {
    /// Data keys that are wrapped under it.
    pub(crate) data_keys: u64,
    /// Values of secrets, by themselves or through a data key.
    pub(crate) values: u64,
    /// Verifiers of passwords.
    pub(crate) verifiers: u64,
}

/// What the org needs of each master key. What is too damaged to tell is left out: no key opens it.
pub(crate) fn needs(image: &Image) -> BTreeMap<KeyId, Need> {
    let mut needs: BTreeMap<KeyId, Need> = BTreeMap::new();
    let mut wrapped_with = BTreeMap::new();
    for (no, wrapped, _) in image.data_keys() {
        if let Ok(id) = vault::wrapped_with(wrapped) {
            wrapped_with.insert(no, id);
            needs.entry(id).or_default().data_keys += 1;
        }
    }
    let master = |envelope: &[u8]| match vault::sealed_with(envelope) {
        Ok(SealedWith::Master(id)) => Some(id),
        Ok(SealedWith::DataKey(no)) => wrapped_with.get(&no).copied(),
        Err(_) => None,
    };
    for (_, secret) in image.secrets() {
        for id in [secret.envelope, secret.previous].into_iter().flatten().filter_map(|bytes| master(bytes)) {
            needs.entry(id).or_default().values += 1;
        }
    }
    for (_, role) in image.roles() {
        let envelope = role.def.verifier.as_deref().and_then(ciphertext);
        if let Some(id) = envelope.and_then(|bytes| master(&bytes)) {
            needs.entry(id).or_default().verifiers += 1;
        }
    }
    needs
}

/// Whether the keys are there that an envelope needs. One that is too damaged to tell needs none that could be.
pub(crate) fn has_key(ring: &KeyRing, image: &Image, envelope: &[u8]) -> bool {
    let master = match vault::sealed_with(envelope) {
        Ok(SealedWith::Master(id)) => Some(id),
        Ok(SealedWith::DataKey(no)) => image.data_key(no).and_then(|(wrapped, _)| vault::wrapped_with(wrapped).ok()),
        Err(_) => None,
    };
    master.is_some_and(|id| ring.ids().any(|loaded| loaded == id))
}

/// One thing that is to be wrapped or sealed anew.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Left {
    DataKey(u32),
    Secret { name: Name, is_previous: bool },
    Verifier(Name),
}

impl std::fmt::Display for Left {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Left::DataKey(no) => write!(f, "data key {no}"),
            Left::Secret { name, is_previous: false } => write!(f, "the value of secret \"{}\"", name.as_str()),
            Left::Secret { name, is_previous: true } => write!(f, "the former value of secret \"{}\"", name.as_str()),
            Left::Verifier(name) => write!(f, "the password of role \"{}\"", name.as_str()),
        }
    }
}

/// What is left to do, data keys first. Values are sealed again where no data key seals them yet.
fn left(image: &Image, primary: KeyId) -> impl Iterator<Item = Left> {
    let data_keys = image.data_keys().filter(move |(_, wrapped, _)| vault::wrapped_with(wrapped) != Ok(primary));
    let secrets = image.secrets().flat_map(|(name, secret)| {
        let both = [(secret.envelope, false), (secret.previous, true)];
        both.into_iter()
            .filter(|(bytes, _)| bytes.is_some_and(|bytes| has_no_data_key(bytes)))
            .map(|(_, is_previous)| Left::Secret { name: name.clone(), is_previous })
    });
    let verifiers = image.roles().filter(|(_, role)| {
        let stored = role.def.verifier.as_deref();
        stored.is_some_and(|stored| ciphertext(stored).is_none_or(|bytes| has_no_data_key(&bytes)))
    });
    data_keys
        .map(|(no, ..)| Left::DataKey(no))
        .chain(secrets)
        .chain(verifiers.map(|(name, _)| Left::Verifier(name.clone())))
}

fn has_no_data_key(envelope: &[u8]) -> bool {
    !matches!(vault::sealed_with(envelope), Ok(SealedWith::DataKey(_)))
}

/// The next of what is left, at most `most`, made anew. What cannot be is put among `failed`, and left out from
/// then on.
pub(crate) fn next_batch(
    engine: &Engine,
    image: &Image,
    primary: KeyId,
    most: usize,
    failed: &mut BTreeMap<Left, VaultError>,
) -> (RewrapBatch, BTreeSet<Left>) {
    let mut batch = RewrapBatch::default();
    let mut done = BTreeSet::new();
    let sealer = Sealer::of(engine, image);
    for item in left(image, primary) {
        if done.len() >= most {
            break;
        }
        if failed.contains_key(&item) {
            continue;
        }
        let anew = match (&item, &sealer) {
            (Left::DataKey(no), _) => rewrapped(engine, image, *no),
            (Left::Secret { .. } | Left::Verifier(_), Err(error)) => Err(error.clone()),
            (Left::Secret { name, is_previous }, Ok(sealer)) => resealed(engine, image, sealer, name, *is_previous),
            (Left::Verifier(role), Ok(sealer)) => verifier(engine, image, sealer, role),
        };
        match anew {
            Ok(row) => {
                if !matches!(item, Left::DataKey(_)) {
                    batch.by = sealer.as_ref().ok().map(|sealer| sealer.by().clone());
                }
                batch.rows.push(row);
                done.insert(item);
            }
            Err(error) => {
                failed.insert(item, error);
            }
        }
    }
    (batch, done)
}

fn rewrapped(engine: &Engine, image: &Image, no: u32) -> Result<Rewrapped, VaultError> {
    let (old, seen) = image.data_key(no).ok_or(VaultError::NoDataKey { no })?;
    let wrapped = vault::rewrap_data_key(engine.ring(), engine.store_id(), image.org(), no, old, engine.entropy())?;
    let hash = vault::hash(&wrapped);
    Ok(Rewrapped::DataKey { no, seen, wrapped, hash })
}

fn resealed(
    engine: &Engine,
    image: &Image,
    sealer: &Sealer<'_>,
    name: &Name,
    is_previous: bool,
) -> Result<Rewrapped, VaultError> {
    let secret = image.secret(name).ok_or(VaultError::Damaged)?;
    let is_broken = if is_previous { image.is_previous_unreadable(name) } else { image.is_unreadable(name) };
    let (value_version, seen, old) = stored(&secret, is_previous).filter(|_| !is_broken).ok_or(VaultError::Damaged)?;
    let at = secret::place(engine, image, name, value_version);
    let value = keys::open(engine, image, &at, old)?;
    let (envelope, _) = sealer.seal(&at, &value)?;
    Ok(Rewrapped::Secret { name: name.clone(), is_previous, seen, envelope: envelope.bytes, hash: envelope.hash })
}

/// Number, hash and ciphertext of a value.
fn stored<'a>(secret: &Secret<'a>, is_previous: bool) -> Option<(u64, SecretHash, &'a Arc<[u8]>)> {
    let (value_version, origin, envelope) = if is_previous {
        let previous = secret.meta.previous.as_ref()?;
        (previous.value_version, &previous.origin, secret.previous?)
    } else {
        (secret.meta.value_version, &secret.meta.origin, secret.envelope?)
    };
    match origin {
        SecretOrigin::Sealed(hash) => Some((value_version, *hash, envelope)),
        SecretOrigin::Env(_) | SecretOrigin::File(_) => None,
    }
}

fn verifier(engine: &Engine, image: &Image, sealer: &Sealer<'_>, role: &Name) -> Result<Rewrapped, VaultError> {
    let seen = image.role(role).and_then(|found| found.def.verifier.clone()).ok_or(VaultError::Damaged)?;
    let opened = keys::open_stored(engine, image, role, &seen)?;
    let (text, _) = sealer.verifier(image.org(), role, &opened)?;
    Ok(Rewrapped::Verifier { role: role.clone(), seen, text })
}
