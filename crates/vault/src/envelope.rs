//! The sealed form of a value.
//!
//! Envelope, version 1: `version(1) suite(1) key id(8) data-key number(4, big endian) nonce(24)
//! commitment(32) ciphertext(64·n) tag(16)`. The plaintext is `length(4, big endian) value zeros`, padded
//! to 64 bytes. The associated data is a list of length-prefixed parts: the place, then the header bytes.
//!
//! * Data-key number 0 means the key derived from the master key for the org, and the key id is the master
//!   key's. Other numbers are those of the org's random data keys ([`DataKeys`]), and the key id is the data
//!   key's own: who rotates the master key wraps the data keys anew, and leaves the values alone.
//! * XChaCha20-Poly1305 does not commit to its key, and several keys may be loaded: the key is chosen by
//!   its id, and the commitment (HKDF of the key over the nonce) is compared before anything is decrypted.

use std::sync::Arc;

use chacha20poly1305::aead::inout::InOutBuf;
use chacha20poly1305::{AeadInOut, KeyInit, XChaCha20Poly1305, XNonce};
use dataglot_model::{OrgName, SecretHash, Sensitive};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;
use zeroize::Zeroizing;

use crate::data_key::DataKeys;
use crate::key::{Key, KeyId, MasterKey, Purpose};
use crate::{Entropy, KeyRing, VaultError};

/// Longest value that can be sealed, in bytes.
pub const VALUE_BYTES_MAX: usize = 64 * 1024;

const VERSION: u8 = 1;
const SUITE_XCHACHA20_POLY1305: u8 = 1;
const DATA_KEY_DERIVED: u32 = 0;
const NONCE_BYTES: usize = 24;
const COMMITMENT_BYTES: usize = 32;
const TAG_BYTES: usize = 16;
const LENGTH_BYTES: usize = 4;
const PADDING: usize = 64;
/// Version, suite, key id, data-key number, nonce.
const HEADER_BYTES: usize = 1 + 1 + 8 + 4 + NONCE_BYTES;

/// Where a sealed value lives. It opens nowhere else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place<'a> {
    /// The store.
    pub store_id: [u8; 16],
    /// The org.
    pub org: &'a OrgName,
    /// What sort of value it is: `secret`.
    pub kind: &'static str,
    /// The object's name.
    pub name: &'a str,
    /// The number of the value, 1 for the first.
    pub value_version: u64,
}

/// A sealed value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Envelope {
    /// Header and ciphertext, as they are stored.
    pub bytes: Arc<[u8]>,
    /// SHA-256 of `bytes`.
    pub hash: SecretHash,
}

/// SHA-256 of a sealed value.
pub fn hash(bytes: &[u8]) -> SecretHash {
    SecretHash(Sha256::digest(bytes).into())
}

/// Seals `value` for `place` with the org's newest data key; with a key derived from the primary master
/// key where it has none.
///
/// # Errors
/// * [`VaultError::NoKey`]
/// * [`VaultError::ValueTooLong`]: over [`VALUE_BYTES_MAX`].
/// * [`VaultError::Entropy`]: no nonce, so nothing is sealed.
pub fn seal(
    ring: &KeyRing,
    data_keys: &DataKeys,
    place: &Place<'_>,
    value: &Sensitive,
    entropy: &dyn Entropy,
) -> Result<Envelope, VaultError> {
    let scope = Scope::place(place);
    let value = value.open().as_bytes();
    let bytes = match data_keys.newest() {
        Some((no, id, key)) => seal_with(key, id, no, &scope, value, entropy)?,
        None => seal_bytes(ring.primary()?, &scope, value, entropy)?,
    };
    let hash = hash(&bytes);
    Ok(Envelope { bytes: bytes.into(), hash })
}

/// Opens what [`seal`] made for the same place.
///
/// # Errors
/// * [`VaultError::WrongKey`]: the key that it names is not loaded.
/// * [`VaultError::Damaged`]: the key is loaded, and these are not the bytes that were sealed for `place`.
/// * [`VaultError::UnknownForm`]: made by a newer version.
pub fn open(ring: &KeyRing, data_keys: &DataKeys, place: &Place<'_>, bytes: &[u8]) -> Result<Sensitive, VaultError> {
    let parts = Parts::read(bytes)?;
    let scope = Scope::place(place);
    let plain = match parts.data_key {
        DATA_KEY_DERIVED => open_bytes(ring, &scope, bytes)?,
        no => open_parts(data_keys.find(no, parts.key_id)?, &scope, &parts)?,
    };
    let text = std::str::from_utf8(&plain).map_err(|_| VaultError::Damaged)?;
    Ok(Sensitive::new(text.to_owned()))
}

/// Which key a value is sealed with: the master key itself (by what is derived from it), or a data key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SealedWith {
    /// A key derived from the master key of that fingerprint.
    Master(KeyId),
    /// The org's data key of that number.
    DataKey(u32),
}

/// Which key the envelope names. Nothing is opened.
///
/// # Errors
/// [`VaultError::Damaged`], [`VaultError::UnknownForm`].
pub fn sealed_with(bytes: &[u8]) -> Result<SealedWith, VaultError> {
    let parts = Parts::read(bytes)?;
    Ok(match parts.data_key {
        DATA_KEY_DERIVED => SealedWith::Master(parts.key_id),
        no => SealedWith::DataKey(no),
    })
}

/// Which derived key a value is sealed with, and what is bound into it.
pub(crate) struct Scope<'a> {
    purpose: Purpose<'a>,
    bound: [Vec<u8>; 6],
}

impl<'a> Scope<'a> {
    fn place(place: &Place<'a>) -> Self {
        let Place { store_id, org, kind, name, value_version } = *place;
        Scope {
            purpose: Purpose::Org(org.as_str()),
            bound: [
                b"dg-secret-v1".to_vec(),
                store_id.to_vec(),
                org.as_str().into(),
                kind.into(),
                name.into(),
                value_version.to_be_bytes().to_vec(),
            ],
        }
    }

    pub(crate) fn canary(store_id: [u8; 16]) -> Self {
        Scope {
            purpose: Purpose::Canary,
            bound: [b"dg-canary-v1".to_vec(), store_id.to_vec(), Vec::new(), Vec::new(), Vec::new(), Vec::new()],
        }
    }

    pub(crate) fn data_key(store_id: [u8; 16], org: &'a OrgName, no: u32) -> Self {
        Scope {
            purpose: Purpose::Wrap(org.as_str()),
            bound: [
                b"dg-data-key-v1".to_vec(),
                store_id.to_vec(),
                org.as_str().into(),
                no.to_be_bytes().to_vec(),
                Vec::new(),
                Vec::new(),
            ],
        }
    }

    /// The parts and the header, each with its length in front, so that no two lists give the same bytes.
    fn associated_data(&self, header: &[u8]) -> Vec<u8> {
        let mut data = Vec::with_capacity(256);
        for part in self.bound.iter().map(Vec::as_slice).chain([header]) {
            data.extend_from_slice(&(part.len() as u64).to_be_bytes());
            data.extend_from_slice(part);
        }
        data
    }
}

fn commitment(key: &Key, nonce: &[u8]) -> Result<[u8; COMMITMENT_BYTES], VaultError> {
    let mut commitment = [0; COMMITMENT_BYTES];
    key.derive(&[b"commit", nonce], &mut commitment)?;
    Ok(commitment)
}

fn cipher(key: &Key) -> Result<XChaCha20Poly1305, VaultError> {
    XChaCha20Poly1305::new_from_slice(key.bytes())
        .map_err(|_| VaultError::KeyForm { reason: "it is not 32 bytes long" })
}

/// Seals with the key that is derived from `master` for the scope.
pub(crate) fn seal_bytes(
    master: &MasterKey,
    scope: &Scope<'_>,
    value: &[u8],
    entropy: &dyn Entropy,
) -> Result<Vec<u8>, VaultError> {
    seal_with(&master.for_purpose(scope.purpose)?, master.id(), DATA_KEY_DERIVED, scope, value, entropy)
}

fn seal_with(
    key: &Key,
    key_id: KeyId,
    data_key: u32,
    scope: &Scope<'_>,
    value: &[u8],
    entropy: &dyn Entropy,
) -> Result<Vec<u8>, VaultError> {
    if value.len() > VALUE_BYTES_MAX {
        return Err(VaultError::ValueTooLong { bytes: value.len() });
    }
    let length = u32::try_from(value.len()).map_err(|_| VaultError::ValueTooLong { bytes: value.len() })?;
    let mut nonce = [0u8; NONCE_BYTES];
    entropy.fill(&mut nonce)?;

    let mut out = Vec::with_capacity(HEADER_BYTES + COMMITMENT_BYTES + VALUE_BYTES_MAX.min(value.len() + PADDING * 2));
    out.extend_from_slice(&[VERSION, SUITE_XCHACHA20_POLY1305]);
    out.extend_from_slice(&key_id.0);
    out.extend_from_slice(&data_key.to_be_bytes());
    out.extend_from_slice(&nonce);
    let data = scope.associated_data(&out);

    let padded = (LENGTH_BYTES + value.len()).next_multiple_of(PADDING);
    let mut plain = Zeroizing::new(Vec::with_capacity(padded));
    plain.extend_from_slice(&length.to_be_bytes());
    plain.extend_from_slice(value);
    plain.resize(padded, 0);

    out.extend_from_slice(&commitment(key, &nonce)?);
    let tag = cipher(key)?
        .encrypt_inout_detached(&XNonce::from(nonce), &data, InOutBuf::from(plain.as_mut_slice()))
        .map_err(|_| VaultError::ValueTooLong { bytes: value.len() })?;
    out.extend_from_slice(&plain);
    out.extend_from_slice(&tag);
    Ok(out)
}

/// Opens what [`seal_bytes`] made.
pub(crate) fn open_bytes(ring: &KeyRing, scope: &Scope<'_>, bytes: &[u8]) -> Result<Zeroizing<Vec<u8>>, VaultError> {
    let parts = Parts::read(bytes)?;
    if parts.data_key != DATA_KEY_DERIVED {
        return Err(VaultError::UnknownForm);
    }
    open_parts(&ring.find(parts.key_id)?.for_purpose(scope.purpose)?, scope, &parts)
}

fn open_parts(key: &Key, scope: &Scope<'_>, parts: &Parts<'_>) -> Result<Zeroizing<Vec<u8>>, VaultError> {
    if !bool::from(commitment(key, &parts.nonce)?.ct_eq(&parts.commitment)) {
        return Err(VaultError::Damaged);
    }
    let mut plain = Zeroizing::new(parts.ciphertext.to_vec());
    cipher(key)?
        .decrypt_inout_detached(
            &XNonce::from(parts.nonce),
            &scope.associated_data(parts.header),
            InOutBuf::from(plain.as_mut_slice()),
            &parts.tag.into(),
        )
        .map_err(|_| VaultError::Damaged)?;
    let (length, rest) = plain.split_first_chunk::<LENGTH_BYTES>().ok_or(VaultError::Damaged)?;
    let length = usize::try_from(u32::from_be_bytes(*length)).map_err(|_| VaultError::Damaged)?;
    let value = rest.get(..length).ok_or(VaultError::Damaged)?;
    Ok(Zeroizing::new(value.to_vec()))
}

/// An envelope taken apart.
struct Parts<'a> {
    header: &'a [u8],
    key_id: KeyId,
    data_key: u32,
    nonce: [u8; NONCE_BYTES],
    commitment: [u8; COMMITMENT_BYTES],
    ciphertext: &'a [u8],
    tag: [u8; TAG_BYTES],
}

impl<'a> Parts<'a> {
    fn read(bytes: &'a [u8]) -> Result<Self, VaultError> {
        let (version, rest) = bytes.split_first_chunk::<1>().ok_or(VaultError::Damaged)?;
        let (suite, rest) = rest.split_first_chunk::<1>().ok_or(VaultError::Damaged)?;
        if *version != [VERSION] || *suite != [SUITE_XCHACHA20_POLY1305] {
            return Err(VaultError::UnknownForm);
        }
        let (key_id, rest) = rest.split_first_chunk::<8>().ok_or(VaultError::Damaged)?;
        let (data_key, rest) = rest.split_first_chunk::<4>().ok_or(VaultError::Damaged)?;
        let data_key = u32::from_be_bytes(*data_key);
        let (nonce, rest) = rest.split_first_chunk::<NONCE_BYTES>().ok_or(VaultError::Damaged)?;
        let (commitment, rest) = rest.split_first_chunk::<COMMITMENT_BYTES>().ok_or(VaultError::Damaged)?;
        let (ciphertext, tag) = rest.split_last_chunk::<TAG_BYTES>().ok_or(VaultError::Damaged)?;
        let whole = !ciphertext.is_empty() && ciphertext.len().is_multiple_of(PADDING);
        if !whole || ciphertext.len() > VALUE_BYTES_MAX + PADDING {
            return Err(VaultError::Damaged);
        }
        let header = bytes.get(..HEADER_BYTES).ok_or(VaultError::Damaged)?;
        let key_id = KeyId(*key_id);
        Ok(Parts { header, key_id, data_key, nonce: *nonce, commitment: *commitment, ciphertext, tag: *tag })
    }
}

#[cfg(test)]
mod tests;
