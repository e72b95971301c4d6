//! Data keys: random keys of one org, which seal its values, and are stored wrapped under a key that is
//! derived from a master key for that org.
//!
//! Who rotates a master key wraps a few data keys anew instead of sealing every value again; who drops
//! an org's data keys has made its values unreadable for good, wherever copies of them are.
//!
//! Wrapped, version 1: an envelope (`envelope`) of the 32 bytes, bound to store, org and number.

use std::collections::BTreeMap;
use std::sync::Arc;

use dataglot_model::OrgName;
use zeroize::Zeroizing;

use crate::envelope::{Scope, SealedWith, open_bytes, seal_bytes, sealed_with};
use crate::key::{KEY_BYTES, Key, KeyId};
use crate::{Entropy, KeyRing, VaultError};

/// A new data key of the org, wrapped under the primary master key. `no` is its number, from 1.
///
/// # Errors
/// [`VaultError::NoKey`], [`VaultError::Entropy`]; [`VaultError::UnknownForm`] for number 0, which stands
/// for no data key.
pub fn new_data_key(
    ring: &KeyRing,
    store_id: [u8; 16],
    org: &OrgName,
    no: u32,
    entropy: &dyn Entropy,
) -> Result<Arc<[u8]>, VaultError> {
    let mut key = Zeroizing::new(vec![0u8; KEY_BYTES]);
    entropy.fill(&mut key)?;
    wrap(ring, store_id, org, no, &key, entropy)
}

/// The same data key, wrapped under the primary master key.
///
/// # Errors
/// Those of [`DataKeys::open`] and [`new_data_key`].
pub fn rewrap_data_key(
    ring: &KeyRing,
    store_id: [u8; 16],
    org: &OrgName,
    no: u32,
    wrapped: &[u8],
    entropy: &dyn Entropy,
) -> Result<Arc<[u8]>, VaultError> {
    let key = open_bytes(ring, &Scope::data_key(store_id, org, no), wrapped)?;
    wrap(ring, store_id, org, no, &key, entropy)
}

/// The fingerprint of the master key that a data key is wrapped under. Nothing is opened.
///
/// # Errors
/// [`VaultError::Damaged`], [`VaultError::UnknownForm`].
pub fn wrapped_with(wrapped: &[u8]) -> Result<KeyId, VaultError> {
    match sealed_with(wrapped)? {
        SealedWith::Master(id) => Ok(id),
        SealedWith::DataKey(_) => Err(VaultError::UnknownForm),
    }
}

fn wrap(
    ring: &KeyRing,
    store_id: [u8; 16],
    org: &OrgName,
    no: u32,
    key: &[u8],
    entropy: &dyn Entropy,
) -> Result<Arc<[u8]>, VaultError> {
    if no == 0 {
        return Err(VaultError::UnknownForm);
    }
    Ok(seal_bytes(ring.primary()?, &Scope::data_key(store_id, org, no), key, entropy)?.into())
}

/// The data keys of one org, unwrapped. Wiped when dropped.
#[derive(Default)]
pub struct DataKeys {
    keys: BTreeMap<u32, (KeyId, Key)>,
}

impl std::fmt::Debug for DataKeys {
    /// Their numbers.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.keys.keys()).finish()
    }
}

impl DataKeys {
    /// No data key: values are sealed with a key that is derived from the master key.
    pub fn none() -> Self {
        DataKeys::default()
    }

    /// Unwraps data keys, each given with its number.
    ///
    /// # Errors
    /// * [`VaultError::WrongKey`]: the master key that one is wrapped under is not loaded.
    /// * [`VaultError::Damaged`]: it is loaded, and these are not the bytes that were wrapped for this store,
    ///   org and number.
    /// * [`VaultError::UnknownForm`]: made by a newer version.
    pub fn open<'a>(
        ring: &KeyRing,
        store_id: [u8; 16],
        org: &OrgName,
        wrapped: impl IntoIterator<Item = (u32, &'a [u8])>,
    ) -> Result<Self, VaultError> {
        let mut keys = BTreeMap::new();
        for (no, bytes) in wrapped {
            let key = open_bytes(ring, &Scope::data_key(store_id, org, no), bytes)?;
            if no == 0 || key.len() != KEY_BYTES {
                return Err(VaultError::Damaged);
            }
            let key = Key::new(key);
            keys.insert(no, (key.id()?, key));
        }
        Ok(DataKeys { keys })
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// The one that seals.
    pub(crate) fn newest(&self) -> Option<(u32, KeyId, &Key)> {
        self.keys.last_key_value().map(|(no, (id, key))| (*no, *id, key))
    }

    /// The one of that number, if it is the one that is meant.
    pub(crate) fn find(&self, no: u32, wanted: KeyId) -> Result<&Key, VaultError> {
        match self.keys.get(&no) {
            None => Err(VaultError::NoDataKey { no }),
            Some((id, _)) if *id != wanted => Err(VaultError::Damaged),
            Some((_, key)) => Ok(key),
        }
    }
}

#[cfg(test)]
mod tests {
    use dataglot_model::Sensitive;

    use super::*;
    use crate::testing::{Broken, Seeded, ring};
    use crate::{Place, hash, open, seal};

    const STORE: [u8; 16] = [3; 16];

    fn acme() -> OrgName {
        OrgName::new("acme").unwrap()
    }

    fn opened(ring: &KeyRing, wrapped: &[(u32, Arc<[u8]>)]) -> Result<DataKeys, VaultError> {
        DataKeys::open(ring, STORE, &acme(), wrapped.iter().map(|(no, bytes)| (*no, bytes.as_ref())))
    }

    fn made(no: u32) -> (u32, Arc<[u8]>) {
        (no, new_data_key(&ring(&[1]), STORE, &acme(), no, &Seeded::new(no.into())).unwrap())
    }

    #[test]
    fn a_value_needs_the_data_key_that_sealed_it_and_no_other() {
        let org = acme();
        let at = Place { store_id: STORE, org: &org, kind: "secret", name: "s", value_version: 1 };
        let value = Sensitive::new("x".to_owned());
        let (one, two) = (made(1), made(2));
        let ring = ring(&[1]);
        let before = opened(&ring, std::slice::from_ref(&one)).unwrap();
        let envelope = seal(&ring, &before, &at, &value, &Seeded::new(9)).unwrap();
        assert_eq!(sealed_with(&envelope.bytes), Ok(SealedWith::DataKey(1)));

        let both = opened(&ring, &[one, two.clone()]).unwrap();
        assert_eq!(open(&ring, &both, &at, &envelope.bytes).unwrap(), value);
        let newer = seal(&ring, &both, &at, &value, &Seeded::new(10)).unwrap();
        assert_eq!(sealed_with(&newer.bytes), Ok(SealedWith::DataKey(2)));

        // The org's keys are gone: so is the value.
        let error = open(&ring, &DataKeys::none(), &at, &envelope.bytes).unwrap_err();
        assert_eq!(error, VaultError::NoDataKey { no: 1 });
        // Another key under the same number.
        let other = (1, new_data_key(&ring, STORE, &org, 1, &Seeded::new(77)).unwrap());
        let other = opened(&ring, &[other]).unwrap();
        assert_eq!(open(&ring, &other, &at, &envelope.bytes), Err(VaultError::Damaged));
    }

    #[test]
    fn values_from_before_the_first_data_key_still_open() {
        let org = acme();
        let at = Place { store_id: STORE, org: &org, kind: "secret", name: "s", value_version: 1 };
        let value = Sensitive::new("x".to_owned());
        let ring = ring(&[1]);
        let derived = seal(&ring, &DataKeys::none(), &at, &value, &Seeded::new(9)).unwrap();
        assert_eq!(sealed_with(&derived.bytes), Ok(SealedWith::Master(ring.primary_id().unwrap())));
        let keys = opened(&ring, &[made(1)]).unwrap();
        assert_eq!(open(&ring, &keys, &at, &derived.bytes).unwrap(), value);
    }

    #[test]
    fn rewrapping_changes_the_wrapping_and_not_the_key() {
        let (old, both) = (ring(&[1]), ring(&[2, 1]));
        let (no, wrapped) = made(1);
        let anew = rewrap_data_key(&both, STORE, &acme(), no, &wrapped, &Seeded::new(50)).unwrap();
        assert_eq!(wrapped_with(&wrapped), Ok(old.primary_id().unwrap()));
        assert_eq!(wrapped_with(&anew), Ok(both.primary_id().unwrap()));
        let id = |ring: &KeyRing, bytes: &Arc<[u8]>| {
            opened(ring, &[(no, Arc::clone(bytes))]).unwrap().newest().map(|(no, id, _)| (no, id))
        };
        assert_eq!(id(&old, &wrapped), id(&ring(&[2]), &anew));
        assert!(matches!(opened(&old, &[(no, anew)]), Err(VaultError::WrongKey { .. })));
    }

    #[test]
    fn s02_a_data_key_opens_where_it_was_wrapped_for() {
        let (no, wrapped) = made(1);
        let ring = ring(&[1]);
        let attempt = |store, org: &str, no| {
            let org = OrgName::new(org).unwrap();
            DataKeys::open(&ring, store, &org, [(no, wrapped.as_ref())]).err()
        };
        assert_eq!(attempt(STORE, "acme", no), None);
        for (store, org, no) in [([4; 16], "acme", 1), (STORE, "acmf", 1), (STORE, "acme", 2), (STORE, "acme", 0)] {
            assert_eq!(attempt(store, org, no), Some(VaultError::Damaged), "{org} {no}");
        }
        for at in 0..wrapped.len() * 8 {
            let mut flipped = wrapped.to_vec();
            flipped[at / 8] ^= 1 << (at % 8);
            assert!(DataKeys::open(&ring, STORE, &acme(), [(1, flipped.as_slice())]).is_err(), "S-04: bit {at}");
        }
        assert_ne!(hash(&wrapped), hash(&made(2).1));
    }

    #[test]
    fn none_is_made_without_key_or_randomness() {
        let make = |ring: &KeyRing, no, entropy: &dyn Entropy| new_data_key(ring, STORE, &acme(), no, entropy);
        assert_eq!(make(&KeyRing::none(), 1, &Seeded::new(1)), Err(VaultError::NoKey));
        assert!(matches!(make(&ring(&[1]), 1, &Broken), Err(VaultError::Entropy(_))));
        assert_eq!(make(&ring(&[1]), 0, &Seeded::new(1)), Err(VaultError::UnknownForm));
        assert_eq!(format!("{:?}", opened(&ring(&[1]), &[made(1), made(2)]).unwrap()), "{1, 2}");
    }
}
