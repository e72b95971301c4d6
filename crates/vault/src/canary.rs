//! The canary: a record in the store by which a wrong key is noticed at start, before anything is served.
//!
//! Canary, version 1: `version(1) store id(16) SHA-256 of 32 random bytes(32) envelope of these bytes`.

use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;
use zeroize::Zeroizing;

use crate::envelope::{Scope, SealedWith, open_bytes, seal_bytes, sealed_with};
use crate::{Entropy, KeyId, KeyRing, VaultError};

const VERSION: u8 = 1;
const STORE_ID_BYTES: usize = 16;
const PROBE_BYTES: usize = 32;

/// A canary for the store, made with the primary key. To be written in the transaction that seals the
/// store's first value; never over an existing one.
///
/// # Errors
/// [`VaultError::NoKey`], [`VaultError::Entropy`].
pub fn make_canary(ring: &KeyRing, store_id: [u8; 16], entropy: &dyn Entropy) -> Result<Vec<u8>, VaultError> {
    let mut probe = Zeroizing::new([0u8; PROBE_BYTES]);
    entropy.fill(probe.as_mut_slice())?;
    let envelope = seal_bytes(ring.primary()?, &Scope::canary(store_id), probe.as_slice(), entropy)?;
    let mut bytes = vec![VERSION];
    bytes.extend_from_slice(&store_id);
    bytes.extend_from_slice(&Sha256::digest(probe.as_slice()));
    bytes.extend_from_slice(&envelope);
    Ok(bytes)
}

/// Checks that the ring holds the key that the store's canary was made with.
///
/// # Errors
/// * [`VaultError::WrongKey`]: it does not; both fingerprints are in the message.
/// * [`VaultError::Damaged`]: it does, and the record is not what was written.
/// * [`VaultError::OtherStore`]: the record was made for another store.
/// * [`VaultError::UnknownForm`]: made by a newer version.
pub fn check_canary(ring: &KeyRing, store_id: [u8; 16], bytes: &[u8]) -> Result<(), VaultError> {
    let (version, rest) = bytes.split_first_chunk::<1>().ok_or(VaultError::Damaged)?;
    if *version != [VERSION] {
        return Err(VaultError::UnknownForm);
    }
    let (made_for, rest) = rest.split_first_chunk::<STORE_ID_BYTES>().ok_or(VaultError::Damaged)?;
    let (wanted, envelope) = rest.split_first_chunk::<PROBE_BYTES>().ok_or(VaultError::Damaged)?;
    if *made_for != store_id {
        return Err(VaultError::OtherStore);
    }
    let probe = open_bytes(ring, &Scope::canary(store_id), envelope)?;
    let found: [u8; PROBE_BYTES] = Sha256::digest(&probe).into();
    if bool::from(found.ct_eq(wanted)) { Ok(()) } else { Err(VaultError::Damaged) }
}

/// The fingerprint of the key that the canary was made with. Nothing is opened.
///
/// # Errors
/// [`VaultError::Damaged`], [`VaultError::UnknownForm`].
pub fn canary_key(bytes: &[u8]) -> Result<KeyId, VaultError> {
    match sealed_with(bytes.get(1 + STORE_ID_BYTES + PROBE_BYTES..).ok_or(VaultError::Damaged)?)? {
        SealedWith::Master(id) => Ok(id),
        SealedWith::DataKey(_) => Err(VaultError::UnknownForm),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Broken, Seeded, ring};

    const STORE: [u8; 16] = [3; 16];

    #[test]
    fn the_key_that_made_it_passes() {
        let canary = make_canary(&ring(&[1]), STORE, &Seeded::new(9)).unwrap();
        assert_eq!(canary_key(&canary).ok(), ring(&[1]).primary_id());
        assert_eq!(check_canary(&ring(&[1]), STORE, &canary), Ok(()));
        assert_eq!(check_canary(&ring(&[2, 1]), STORE, &canary), Ok(()));
    }

    #[test]
    fn another_key_is_named_beside_the_right_one() {
        let canary = make_canary(&ring(&[1]), STORE, &Seeded::new(9)).unwrap();
        let wanted = ring(&[1]).primary_id().unwrap();
        for have in [ring(&[2]), ring(&[2, 3]), KeyRing::none()] {
            let error = check_canary(&have, STORE, &canary).unwrap_err();
            assert_eq!(error, VaultError::WrongKey { wanted, have: have.ids().collect() });
            let text = error.to_string();
            assert!(have.ids().chain([wanted]).all(|id| text.contains(&id.to_string())), "{text}");
        }
    }

    #[test]
    fn damage_is_not_taken_for_a_wrong_key() {
        let canary = make_canary(&ring(&[1]), STORE, &Seeded::new(9)).unwrap();
        for at in 0..canary.len() {
            let mut bytes = canary.clone();
            bytes[at] ^= 1;
            let error = check_canary(&ring(&[1]), STORE, &bytes).unwrap_err();
            match at {
                1..17 => assert_eq!(error, VaultError::OtherStore, "{at}"),
                51..59 => assert!(matches!(error, VaultError::WrongKey { .. }), "{at}"),
                0 | 49 | 50 | 59..63 => assert_eq!(error, VaultError::UnknownForm, "{at}"),
                _ => assert_eq!(error, VaultError::Damaged, "{at}"),
            }
            assert!(check_canary(&ring(&[1]), STORE, &canary[..at]).is_err(), "{at}");
        }
    }

    #[test]
    fn none_is_made_without_key_or_randomness() {
        assert_eq!(make_canary(&KeyRing::none(), STORE, &Seeded::new(9)), Err(VaultError::NoKey));
        assert!(matches!(make_canary(&ring(&[1]), STORE, &Broken), Err(VaultError::Entropy(_))));
    }
}
