//! The data keys of an org: which one seals, and which one opens what.
//!
//! The first value that is sealed in an org makes its data key; the two are committed together or not at all.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use dataglot_model::def::SEALED_VERIFIER;
use dataglot_model::{Name, OrgName, SealedBy, SecretHash, Sensitive};
use dataglot_planner::Image;
use dataglot_vault::{self as vault, DataKeys, Envelope, Place, SealedWith, VaultError};
use zeroize::Zeroizing;

use crate::engine::Engine;

/// The kind of a verifier in its ciphertext's associated data.
const VERIFIER: &str = "verifier";
/// The version of a verifier in it: passwords are not numbered.
const VERIFIER_VERSION: u64 = 0;
/// How many unwrapped data keys are kept.
const CACHED_MAX: usize = 256;

/// Unwrapped data keys, so that a login need not unwrap one. Each is kept under the hash of its wrapped form.
#[derive(Default)]
pub(crate) struct KeyCache {
    keys: Mutex<BTreeMap<(OrgName, u32), Unwrapped>>,
}

/// The hash of the wrapped form, and the key.
type Unwrapped = (SecretHash, Arc<DataKeys>);

impl KeyCache {
    /// The keys of an org that is gone, or whose keys are not to be kept any longer.
    pub(crate) fn forget(&self, org: &OrgName) {
        self.keys.lock().unwrap_or_else(PoisonError::into_inner).retain(|(of, _), _| of != org);
    }

    fn get(&self, at: &(OrgName, u32), hash: SecretHash) -> Option<Arc<DataKeys>> {
        let keys = self.keys.lock().unwrap_or_else(PoisonError::into_inner);
        keys.get(at).filter(|(of, _)| *of == hash).map(|(_, keys)| Arc::clone(keys))
    }

    fn put(&self, at: (OrgName, u32), hash: SecretHash, opened: &Arc<DataKeys>) {
        let mut keys = self.keys.lock().unwrap_or_else(PoisonError::into_inner);
        if keys.len() >= CACHED_MAX {
            keys.clear();
        }
        keys.insert(at, (hash, Arc::clone(opened)));
    }
}

/// What seals values of one org.
pub(crate) struct Sealer<'a> {
    engine: &'a Engine,
    keys: Arc<DataKeys>,
    by: SealedBy,
}

impl<'a> Sealer<'a> {
    /// Of an org as it is: with its newest data key, or one that is made for it.
    ///
    /// # Errors
    /// There is no key, or not the one that the data key is wrapped under; the data key is damaged.
    pub(crate) fn of(engine: &'a Engine, image: &Image) -> Result<Self, VaultError> {
        match image.data_keys().last() {
            Some((no, wrapped, hash)) => {
                let keys = unwrapped(engine, image.org(), no, wrapped, hash)?;
                Ok(Sealer { engine, keys, by: SealedBy { no, hash, made: None } })
            }
            None => Sealer::made(engine, image.org(), unused_number(image)),
        }
    }

    /// Of an org that is being made.
    ///
    /// # Errors
    /// There is no key.
    pub(crate) fn of_new_org(engine: &'a Engine, org: &OrgName) -> Result<Self, VaultError> {
        Sealer::made(engine, org, 1)
    }

    fn made(engine: &'a Engine, org: &OrgName, no: u32) -> Result<Self, VaultError> {
        let (ring, store_id) = (engine.ring(), engine.store_id());
        let wrapped = vault::new_data_key(ring, store_id, org, no, engine.entropy())?;
        let keys = Arc::new(DataKeys::open(ring, store_id, org, [(no, wrapped.as_ref())])?);
        let by = SealedBy { no, hash: vault::hash(&wrapped), made: Some(wrapped) };
        Ok(Sealer { engine, keys, by })
    }

    /// The data key that seals.
    pub(crate) fn by(&self) -> &SealedBy {
        &self.by
    }

    /// Seals a value.
    ///
    /// # Errors
    /// It is too long; there is no randomness.
    pub(crate) fn seal(&self, at: &Place<'_>, value: &Sensitive) -> Result<(Envelope, SealedBy), VaultError> {
        let envelope = vault::seal(self.engine.ring(), &self.keys, at, value, self.engine.entropy())?;
        Ok((envelope, self.by.clone()))
    }

    /// Seals the verifier of the role `name`, as its text is stored.
    ///
    /// # Errors
    /// As for [`Sealer::seal`].
    pub(crate) fn verifier(&self, org: &OrgName, name: &Name, text: &str) -> Result<(Arc<str>, SealedBy), VaultError> {
        let at = verifier_place(self.engine, org, name);
        let (envelope, by) = self.seal(&at, &Sensitive::new(text.to_owned()))?;
        Ok((format!("{SEALED_VERIFIER}{}", STANDARD_NO_PAD.encode(&envelope.bytes)).into(), by))
    }
}

/// A number that no data key has, nor had: also where the record of one is lost, whose number what it sealed
/// still names.
fn unused_number(image: &Image) -> u32 {
    let sealed = image.secrets().flat_map(|(_, secret)| secret.envelope.into_iter().chain(secret.previous));
    let secrets = sealed.filter_map(|envelope| data_key_of(envelope));
    let verifiers = image.roles().filter_map(|(_, role)| data_key_of(&ciphertext(role.def.verifier.as_deref()?)?));
    secrets.chain(verifiers).max().unwrap_or(0).saturating_add(1)
}

fn data_key_of(envelope: &[u8]) -> Option<u32> {
    match vault::sealed_with(envelope) {
        Ok(SealedWith::DataKey(no)) => Some(no),
        Ok(SealedWith::Master(_)) | Err(_) => None,
    }
}

fn unwrapped(
    engine: &Engine,
    org: &OrgName,
    no: u32,
    wrapped: &[u8],
    hash: SecretHash,
) -> Result<Arc<DataKeys>, VaultError> {
    let at = (org.clone(), no);
    if let Some(keys) = engine.data_keys().get(&at, hash) {
        return Ok(keys);
    }
    let keys = Arc::new(DataKeys::open(engine.ring(), engine.store_id(), org, [(no, wrapped)])?);
    engine.data_keys().put(at, hash, &keys);
    Ok(keys)
}

/// Opens a value.
///
/// # Errors
/// Its key is not there, or these are not the bytes that were sealed for the place.
pub(crate) fn open(engine: &Engine, image: &Image, at: &Place<'_>, envelope: &[u8]) -> Result<Sensitive, VaultError> {
    match vault::sealed_with(envelope)? {
        SealedWith::Master(_) => vault::open(engine.ring(), &DataKeys::none(), at, envelope),
        SealedWith::DataKey(no) => {
            let (wrapped, hash) = image.data_key(no).ok_or(VaultError::NoDataKey { no })?;
            let keys = unwrapped(engine, image.org(), no, wrapped, hash)?;
            vault::open(engine.ring(), &keys, at, envelope)
        }
    }
}

fn verifier_place<'a>(engine: &Engine, org: &'a OrgName, name: &'a Name) -> Place<'a> {
    let (kind, value_version) = (VERIFIER, VERIFIER_VERSION);
    Place { store_id: engine.store_id(), org, kind, name: name.as_str(), value_version }
}

/// The ciphertext of a verifier, if it is sealed. An empty one where it cannot be read.
pub(crate) fn ciphertext(stored: &str) -> Option<Vec<u8>> {
    stored.strip_prefix(SEALED_VERIFIER).map(|text| STANDARD_NO_PAD.decode(text).unwrap_or_default())
}

/// The verifier of a role, opened where it is sealed. `None`: there is no such role, or it has no password.
///
/// # Errors
/// It does not open.
pub(crate) fn open_verifier(
    engine: &Engine,
    image: &Image,
    role: &Name,
) -> Result<Option<Zeroizing<String>>, VaultError> {
    match image.role(role).and_then(|role| role.def.verifier.as_deref()) {
        Some(stored) => open_stored(engine, image, role, stored).map(Some),
        None => Ok(None),
    }
}

/// The verifier that is stored as `stored` for a role.
///
/// # Errors
/// It does not open.
pub(crate) fn open_stored(
    engine: &Engine,
    image: &Image,
    role: &Name,
    stored: &str,
) -> Result<Zeroizing<String>, VaultError> {
    Ok(Zeroizing::new(match ciphertext(stored) {
        Some(envelope) => {
            let at = verifier_place(engine, image.org(), role);
            open(engine, image, &at, &envelope)?.open().to_owned()
        }
        None => stored.to_owned(),
    }))
}
