//! Master keys: their text forms, their fingerprints, and what is derived from them.
//!
//! A master key encrypts nothing itself. HKDF-SHA-256 with a label of its own gives one key per org for
//! secrets, one for the canary, and the fingerprint.

use std::fmt;
use std::sync::Arc;

use base64::Engine as _;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use dataglot_model::Sensitive;
use hkdf::Hkdf;
use sha2::{Digest, Sha256};
use zeroize::{Zeroize, Zeroizing};

use crate::{Entropy, VaultError};

/// Length of a master key, in bytes.
pub const KEY_BYTES: usize = 32;
/// Most keys in one ring.
const KEYS_MAX: usize = 16;
/// Marks the text form with a checksum.
const CHECKED_PREFIX: &str = "dgk1:";
const CHECKSUM_BYTES: usize = 4;
const HEX_DIGITS: usize = KEY_BYTES * 2;

const LENIENT: GeneralPurposeConfig =
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent);
const STANDARD: GeneralPurpose = GeneralPurpose::new(&alphabet::STANDARD, LENIENT);
const URL_SAFE: GeneralPurpose = GeneralPurpose::new(&alphabet::URL_SAFE, LENIENT);

/// The fingerprint of a master key: 8 bytes that say which key, and nothing about it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyId(pub [u8; 8]);

impl KeyId {
    /// Of the text that it prints as.
    pub fn parse(text: &str) -> Option<KeyId> {
        let digits = text.as_bytes();
        let is_one = digits.len() == 16 && digits.iter().all(|d| matches!(d, b'0'..=b'9' | b'a'..=b'f'));
        is_one.then(|| {
            let mut id = [0; 8];
            for (slot, pair) in id.iter_mut().zip(digits.chunks_exact(2)) {
                *slot = pair.iter().fold(0, |n, digit| n << 4 | hex_value(*digit));
            }
            KeyId(id)
        })
    }
}

impl fmt::Display for KeyId {
    /// 16 hexadecimal digits.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|b| write!(f, "{b:02x}"))
    }
}

impl fmt::Debug for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// What a derived key is for. The label keeps the uses apart.
#[derive(Clone, Copy)]
pub(crate) enum Purpose<'a> {
    /// Values of one org.
    Org(&'a str),
    /// The canary of a store.
    Canary,
    /// The data keys of one org.
    Wrap(&'a str),
}

impl Purpose<'_> {
    const fn label(self) -> &'static [u8] {
        match self {
            Purpose::Org(_) => b"dataglot-org-v1",
            Purpose::Canary => b"dataglot-canary-v1",
            Purpose::Wrap(_) => b"dataglot-wrap-v1",
        }
    }

    const fn subject(&self) -> &str {
        match self {
            Purpose::Org(org) | Purpose::Wrap(org) => org,
            Purpose::Canary => "",
        }
    }
}

/// A key in memory: wiped when dropped, never printed.
pub(crate) struct Key(Zeroizing<Vec<u8>>);

impl Key {
    pub(crate) fn new(bytes: Zeroizing<Vec<u8>>) -> Self {
        Key(bytes)
    }

    /// A fingerprint, which says which key and nothing about it.
    pub(crate) fn id(&self) -> Result<KeyId, VaultError> {
        let mut id = [0u8; 8];
        self.derive(&[b"key-id"], &mut id)?;
        Ok(KeyId(id))
    }

    fn zeroed() -> Self {
        Key(Zeroizing::new(vec![0; KEY_BYTES]))
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// HKDF-SHA-256 of this key; `info` is the label and what else tells this use from others.
    pub(crate) fn derive(&self, info: &[&[u8]], out: &mut [u8]) -> Result<(), VaultError> {
        Hkdf::<Sha256>::new(None, &self.0)
            .expand_multi_info(info, out)
            .map_err(|_| VaultError::KeyForm { reason: "it cannot be derived from" })
    }
}

pub(crate) struct MasterKey {
    id: KeyId,
    key: Key,
}

impl MasterKey {
    fn new(key: Key) -> Result<Self, VaultError> {
        Ok(MasterKey { id: key.id()?, key })
    }

    pub(crate) const fn id(&self) -> KeyId {
        self.id
    }

    pub(crate) fn for_purpose(&self, purpose: Purpose<'_>) -> Result<Key, VaultError> {
        let mut derived = Key::zeroed();
        self.key.derive(&[purpose.label(), b"\0", purpose.subject().as_bytes()], &mut derived.0)?;
        Ok(derived)
    }
}

/// The master keys that are loaded. The first seals; all of them open. Cheap to clone.
#[derive(Clone)]
pub struct KeyRing {
    keys: Arc<[MasterKey]>,
}

impl fmt::Debug for KeyRing {
    /// Fingerprints only.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.ids()).finish()
    }
}

impl KeyRing {
    /// A ring without keys: nothing can be sealed or opened.
    pub fn none() -> Self {
        KeyRing { keys: Arc::new([]) }
    }

    /// Reads keys from `text`: each the base64 or the 64 hexadecimal digits of 32 bytes, or `dgk1:` with
    /// a checksum; several are separated by commas or line ends, the first is primary. Empty lines and
    /// lines that start with `#` are skipped.
    ///
    /// # Errors
    /// [`VaultError::KeyForm`]: no key, too many, one twice, or one of another form.
    pub fn parse(text: &str) -> Result<Self, VaultError> {
        let mut keys: Vec<MasterKey> = Vec::new();
        let lines = text.lines().filter(|l| !l.trim_start().starts_with('#'));
        for part in lines.flat_map(|l| l.split(',')).map(str::trim).filter(|p| !p.is_empty()) {
            let key = MasterKey::new(parse_one(part)?)?;
            if keys.iter().any(|k| k.id == key.id) {
                return Err(VaultError::KeyForm { reason: "the same key is given twice" });
            }
            keys.push(key);
        }
        match keys.len() {
            0 => Err(VaultError::KeyForm { reason: "it is empty" }),
            n if n > KEYS_MAX => Err(VaultError::KeyForm { reason: "there are more than 16 of them" }),
            _ => Ok(KeyRing { keys: keys.into() }),
        }
    }

    /// Whether no key is loaded.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// The fingerprint of the key that seals.
    pub fn primary_id(&self) -> Option<KeyId> {
        self.keys.first().map(|k| k.id)
    }

    /// The fingerprints of all keys, primary first.
    pub fn ids(&self) -> impl Iterator<Item = KeyId> {
        self.keys.iter().map(MasterKey::id)
    }

    pub(crate) fn primary(&self) -> Result<&MasterKey, VaultError> {
        self.keys.first().ok_or(VaultError::NoKey)
    }

    /// The key of that fingerprint. Keys are chosen by it alone, never by trying them.
    pub(crate) fn find(&self, wanted: KeyId) -> Result<&MasterKey, VaultError> {
        self.keys
            .iter()
            .find(|k| k.id == wanted)
            .ok_or_else(|| VaultError::WrongKey { wanted, have: self.ids().collect() })
    }
}

/// A new key in the form `dgk1:…`, for a new key file.
///
/// # Errors
/// [`VaultError::Entropy`].
pub fn generate_key_text(entropy: &dyn Entropy) -> Result<Sensitive, VaultError> {
    let mut bytes = Zeroizing::new([0u8; KEY_BYTES + CHECKSUM_BYTES]);
    let (key, sum) = bytes.split_at_mut(KEY_BYTES);
    entropy.fill(key)?;
    check_bytes(key)?;
    sum.copy_from_slice(&checksum(key));
    let mut text = String::with_capacity(64);
    text.push_str(CHECKED_PREFIX);
    STANDARD.encode_string(bytes.as_slice(), &mut text);
    Ok(Sensitive::new(text))
}

fn checksum(key: &[u8]) -> [u8; CHECKSUM_BYTES] {
    let mut digest: [u8; 32] = Sha256::new().chain_update(b"dgk1").chain_update(key).finalize().into();
    let mut sum = [0; CHECKSUM_BYTES];
    for (slot, byte) in sum.iter_mut().zip(digest) {
        *slot = byte;
    }
    digest.zeroize();
    sum
}

fn parse_one(text: &str) -> Result<Key, VaultError> {
    // Room for the longest legal form and some more, so that over-long ones are seen as such.
    let mut buffer = Zeroizing::new([0u8; 64]);
    let mut key = Key::zeroed();
    if let Some(coded) = text.strip_prefix(CHECKED_PREFIX) {
        let found = decode(coded, &mut buffer)?;
        let Some((bytes, sum)) = found.split_at_checked(KEY_BYTES).filter(|(_, s)| s.len() == CHECKSUM_BYTES) else {
            return Err(VaultError::KeyForm { reason: "it is cut, or longer than it should be" });
        };
        if checksum(bytes) != sum {
            return Err(VaultError::KeyForm { reason: "its checksum does not match: it is cut or mistyped" });
        }
        key.0.copy_from_slice(bytes);
    } else if text.len() == HEX_DIGITS && text.bytes().all(|b| b.is_ascii_hexdigit()) {
        for (slot, pair) in key.0.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
            *slot = pair.iter().fold(0, |n, digit| n << 4 | hex_value(*digit));
        }
    } else {
        let found = decode(text, &mut buffer)?;
        if found.len() != KEY_BYTES {
            return Err(VaultError::KeyForm { reason: "it is not 32 bytes long" });
        }
        key.0.copy_from_slice(found);
    }
    check_bytes(&key.0)?;
    Ok(key)
}

const fn hex_value(digit: u8) -> u8 {
    match digit {
        b'0'..=b'9' => digit - b'0',
        b'a'..=b'f' => digit - b'a' + 10,
        b'A'..=b'F' => digit - b'A' + 10,
        _ => 0,
    }
}

fn decode<'b>(text: &str, buffer: &'b mut [u8; 64]) -> Result<&'b [u8], VaultError> {
    let codec = if text.contains(['-', '_']) { &URL_SAFE } else { &STANDARD };
    let reason = "it is neither base64 nor 64 hexadecimal digits; a passphrase is not a key";
    let length = codec.decode_slice(text, buffer).map_err(|_| VaultError::KeyForm { reason })?;
    buffer.get(..length).ok_or(VaultError::KeyForm { reason })
}

/// Refuses what was never random: one byte over and over, and text.
fn check_bytes(key: &[u8]) -> Result<(), VaultError> {
    let first = key.first().copied().unwrap_or_default();
    if key.iter().all(|b| *b == first) {
        return Err(VaultError::KeyForm { reason: "all of its bytes are equal" });
    }
    if key.iter().all(|b| b.is_ascii_graphic() || b.is_ascii_whitespace()) {
        return Err(VaultError::KeyForm { reason: "it is a readable text; a passphrase is not a key" });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Broken, Seeded};

    fn reason(text: &str) -> &'static str {
        match KeyRing::parse(text) {
            Err(VaultError::KeyForm { reason }) => reason,
            other => panic!("expected a refusal, got {other:?}"),
        }
    }

    const HEX: &str = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";

    #[test]
    fn one_key_has_one_fingerprint_in_all_forms() {
        let bytes: Vec<u8> = (0..32).collect();
        let id = KeyRing::parse(HEX).unwrap().primary_id().unwrap();
        let base64 = STANDARD.encode(&bytes);
        let checked = [bytes.as_slice(), &checksum(&bytes)].concat();
        for text in [
            HEX.to_uppercase(),
            base64.clone(),
            base64.trim_end_matches('=').to_owned(),
            URL_SAFE.encode(&bytes),
            format!("  {base64}\r\n"),
            format!("# the key of the test\n{base64}\n"),
            format!("dgk1:{}", STANDARD.encode(&checked)),
        ] {
            assert_eq!(KeyRing::parse(&text).unwrap().primary_id().unwrap(), id, "{text}");
        }
        assert_eq!(id.to_string().len(), 16);
        assert_eq!(KeyId::parse(&id.to_string()), Some(id));
        for other in ["", "0", "zz02030405060708", "0A02030405060708", "010203040506070809"] {
            assert_eq!(KeyId::parse(other), None, "{other}");
        }
    }

    #[test]
    fn what_is_no_key_is_refused() {
        let text32 = "correct horse battery staple 123";
        assert_eq!(text32.len(), 32);
        assert_eq!(reason(""), "it is empty");
        assert_eq!(reason(" \n# only a comment\n"), "it is empty");
        assert!(reason(text32).contains("passphrase"));
        assert!(reason(&STANDARD.encode(text32)).contains("passphrase"));
        assert!(reason("hunter2!").contains("passphrase"));
        assert_eq!(reason(&"00".repeat(32)), "all of its bytes are equal");
        assert_eq!(reason(&STANDARD.encode([7u8; 32])), "all of its bytes are equal");
        for length in [0, 1, 16, 31, 33, 48] {
            let bytes: Vec<u8> = (0..length).collect();
            assert!(KeyRing::parse(&STANDARD.encode(&bytes)).is_err(), "{length}");
        }
        assert!(KeyRing::parse(&HEX[..62]).is_err());
        assert_eq!(reason(&format!("{HEX},{HEX}")), "the same key is given twice");
        assert!(KeyRing::parse(&"A".repeat(100_000)).is_err());
    }

    #[test]
    fn a_cut_or_mistyped_key_fails_its_checksum() {
        let text = generate_key_text(&Seeded::new(1)).unwrap();
        let text = text.open();
        assert!(text.starts_with("dgk1:") && text.len() == 53);
        assert!(KeyRing::parse(text).is_ok());
        for end in 5..text.len() {
            assert!(KeyRing::parse(&text[..end]).is_err(), "{end}");
        }
        for at in 5..text.len() {
            let mut typo = text.as_bytes().to_vec();
            typo[at] = if typo[at] == b'A' { b'B' } else { b'A' };
            assert!(KeyRing::parse(std::str::from_utf8(&typo).unwrap()).is_err(), "{at}");
        }
    }

    #[test]
    fn the_first_of_several_is_primary() {
        let (a, b) = (HEX, HEX.replace("1f", "20"));
        let ring = KeyRing::parse(&format!("{a}\n{b}")).unwrap();
        assert_eq!(ring.ids().count(), 2);
        assert_eq!(ring.primary_id(), KeyRing::parse(a).unwrap().primary_id());
        assert!(!ring.is_empty() && KeyRing::none().is_empty());
    }

    #[test]
    fn debug_prints_fingerprints_only() {
        let ring = KeyRing::parse(HEX).unwrap();
        assert_eq!(format!("{ring:?}"), format!("[{}]", ring.primary_id().unwrap()));
    }

    #[test]
    fn no_key_is_made_of_failed_randomness() {
        assert!(matches!(generate_key_text(&Broken), Err(VaultError::Entropy(_))));
    }
}
