//! argon2id verifiers (RFC 9106), as PHC strings: `$argon2id$v=19$m=19456,t=2,p=1$salt$hash`.
//!
//! For logins at which the server is told the password. Each takes tens of milliseconds and 19 MiB, so whoever
//! calls [`matches()`] bounds how many run at once.

use std::sync::{Mutex, PoisonError};

use ::argon2::{Algorithm, Argon2, Block, Params, Version};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use dataglot_model::Sensitive;
use subtle::ConstantTimeEq;
use zeroize::{Zeroize, Zeroizing};

use crate::{Entropy, VaultError, scram};

/// Memory of a new verifier, in KiB: the least that OWASP recommends.
const MEMORY_KIB: u32 = 19_456;
/// Passes of a new verifier.
const PASSES: u32 = 2;
/// Lanes of a new verifier.
const LANES: u32 = 1;
/// What a verifier that is handed in may cost at most: memory in KiB, passes, lanes.
const COST_MAX: (u32, u32, u32) = (65_536, 8, 4);
/// What it has to cost at least.
const COST_MIN: (u32, u32, u32) = (7_168, 1, 1);

const PREFIX: &str = "$argon2id$";
const SALT_BYTES: usize = 16;
const SALT_BYTES_MAX: usize = 64;
const HASH_BYTES: usize = 32;

/// A verifier taken apart.
struct Parsed {
    memory_kib: u32,
    passes: u32,
    lanes: u32,
    salt: Vec<u8>,
    hash: [u8; HASH_BYTES],
}

impl Parsed {
    /// Strictly: version 19, the parameters in this order and in plain decimal, within the bounds above; a salt of
    /// 16 bytes or more and a hash of 32, in base64 without padding.
    fn read(text: &str) -> Option<Parsed> {
        let mut parts = text.strip_prefix(PREFIX)?.split('$');
        let (version, cost, salt, hash) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
        if version != "v=19" || parts.next().is_some() {
            return None;
        }
        let mut cost = cost.split(',');
        let mut number = |name: &str| {
            let digits = cost.next()?.strip_prefix(name)?;
            let plain = digits.bytes().all(|b| b.is_ascii_digit()) && !digits.starts_with('0') && digits.len() <= 6;
            digits.parse::<u32>().ok().filter(|_| plain)
        };
        let (memory_kib, passes, lanes) = (number("m=")?, number("t=")?, number("p=")?);
        if cost.next().is_some() {
            return None;
        }
        let within = |value, least, most| (least..=most).contains(&value);
        let fits = within(memory_kib, COST_MIN.0, COST_MAX.0)
            && within(passes, COST_MIN.1, COST_MAX.1)
            && within(lanes, COST_MIN.2, COST_MAX.2);
        let salt = STANDARD_NO_PAD.decode(salt).ok()?;
        if !fits || !(SALT_BYTES..=SALT_BYTES_MAX).contains(&salt.len()) {
            return None;
        }
        let hash = STANDARD_NO_PAD.decode(hash).ok()?.try_into().ok()?;
        Some(Parsed { memory_kib, passes, lanes, salt, hash })
    }

    /// The hash of `password`, by these parameters. `None`: they are none.
    fn hash_of(&self, password: &Sensitive) -> Option<Zeroizing<[u8; HASH_BYTES]>> {
        let params = Params::new(self.memory_kib, self.passes, self.lanes, Some(HASH_BYTES)).ok()?;
        let prepared = scram::prepare(password);
        let mut hash = Zeroizing::new([0; HASH_BYTES]);
        let mut memory = Memory::of(params.block_count());
        let argon2 = Argon2::new(Algorithm::Argon2id, Version::V0x13, params);
        argon2
            .hash_password_into_with_memory(prepared.as_bytes(), &self.salt, hash.as_mut_slice(), &mut memory.0)
            .ok()?;
        Some(hash)
    }

    fn print(&self) -> String {
        let Parsed { memory_kib, passes, lanes, salt, hash } = self;
        let (salt, hash) = (STANDARD_NO_PAD.encode(salt), STANDARD_NO_PAD.encode(hash));
        format!("{PREFIX}v=19$m={memory_kib},t={passes},p={lanes}${salt}${hash}")
    }
}

/// Memory of verifiers that are not worked on. An allocator that keeps what each thread has used would keep it once
/// for each thread that ever hashed a password.
static SPARE: Mutex<Vec<Vec<Block>>> = Mutex::new(Vec::new());
/// How many are kept.
const SPARE_MAX: usize = 2;
/// The longest that is kept, in blocks of 1 KiB.
const SPARE_BLOCKS_MAX: usize = MEMORY_KIB as usize;

/// What a verifier is worked on in. Wiped and put away when it is dropped.
struct Memory(Vec<Block>);

impl Memory {
    fn of(blocks: usize) -> Self {
        let spare = SPARE.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let mut memory = spare.unwrap_or_default();
        memory.resize(blocks, Block::default());
        Memory(memory)
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        self.0.iter_mut().for_each(Zeroize::zeroize);
        if self.0.len() > SPARE_BLOCKS_MAX {
            return;
        }
        let mut spare = SPARE.lock().unwrap_or_else(PoisonError::into_inner);
        if spare.len() < SPARE_MAX {
            spare.push(std::mem::take(&mut self.0));
        }
    }
}

fn fresh(salt: &[u8]) -> Parsed {
    Parsed { memory_kib: MEMORY_KIB, passes: PASSES, lanes: LANES, salt: salt.to_vec(), hash: [0; HASH_BYTES] }
}

/// A verifier of `password` with a fresh salt. Takes tens of milliseconds and 19 MiB.
///
/// # Errors
/// * [`VaultError::EmptyPassword`]
/// * [`VaultError::Entropy`]
/// * [`VaultError::PasswordTooLong`]: it has 4 GiB or more.
pub fn verifier(password: &Sensitive, entropy: &dyn Entropy) -> Result<String, VaultError> {
    if password.open().is_empty() {
        return Err(VaultError::EmptyPassword);
    }
    let mut salt = [0u8; SALT_BYTES];
    entropy.fill(&mut salt)?;
    let mut made = fresh(&salt);
    made.hash = *made.hash_of(password).ok_or(VaultError::PasswordTooLong)?;
    Ok(made.print())
}

/// A verifier for a name that has none, at the cost of a new one: nothing matches it.
pub fn mock_verifier(secret: &[u8], name: &str) -> String {
    let scram::Verifier { salt, stored_key, .. } = scram::mock_verifier(secret, name, scram::ITERATIONS_MIN);
    let mut made = fresh(&salt);
    made.hash = stored_key;
    made.print()
}

/// Whether `text` is a verifier that may be stored as it stands.
pub fn is_verifier(text: &str) -> bool {
    Parsed::read(text).is_some()
}

/// Whether `text` starts as a verifier does.
pub fn looks_like_verifier(text: &str) -> bool {
    text.starts_with("$argon2")
}

/// Whether `verifier` was made from `password`. Takes as long as making one. `false` for what is no verifier.
pub fn matches(password: &Sensitive, verifier: &str) -> bool {
    let Some(wanted) = Parsed::read(verifier) else { return false };
    wanted.hash_of(password).is_some_and(|found| bool::from(found.ct_eq(&wanted.hash)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Broken, Seeded};

    fn sensitive(text: &str) -> Sensitive {
        Sensitive::new(text.to_owned())
    }

    #[test]
    fn only_the_password_matches() {
        let made = verifier(&sensitive("secret"), &Seeded::new(1)).unwrap();
        assert!(made.starts_with("$argon2id$v=19$m=19456,t=2,p=1$"), "{made}");
        assert!(is_verifier(&made) && looks_like_verifier(&made));
        assert!(matches(&sensitive("secret"), &made));
        assert!(!matches(&sensitive("Secret"), &made) && !matches(&sensitive(""), &made));
        assert!(!matches(&sensitive("secret"), &mock_verifier(b"s", "a")));
    }

    #[test]
    fn passwords_are_prepared() {
        let made = verifier(&sensitive("a\u{ad}b\u{a0}c\u{ff21}\u{2460}"), &Seeded::new(1)).unwrap();
        assert!(matches(&sensitive("ab cA1"), &made));
    }

    ///
    #[test]
    fn only_a_strict_verifier_is_one() {
        let salt = STANDARD_NO_PAD.encode([1; 16]);
        let hash = STANDARD_NO_PAD.encode([2; 32]);
        let with =
            |head: &str, cost: &str, salt: &str, hash: &str| is_verifier(&format!("${head}${cost}${salt}${hash}"));
        assert!(with("argon2id$v=19", "m=19456,t=2,p=1", &salt, &hash));
        for head in ["argon2i$v=19", "argon2d$v=19", "argon2id$v=16", "argon2id", "argon2id$v=19$x"] {
            assert!(!with(head, "m=19456,t=2,p=1", &salt, &hash), "{head}");
        }
        for cost in [
            "m=19456,t=2",
            "t=2,m=19456,p=1",
            "m=19456,t=2,p=1,x=1",
            "m=019456,t=2,p=1",
            "m=65537,t=2,p=1",
            "m=8,t=2,p=1",
            "m=19456,t=9,p=1",
            "m=19456,t=0,p=1",
            "m=19456,t=2,p=5",
            "m=+19456,t=2,p=1",
        ] {
            assert!(!with("argon2id$v=19", cost, &salt, &hash), "{cost}");
        }
        assert!(!with("argon2id$v=19", "m=19456,t=2,p=1", "AAAA", &hash));
        assert!(!with("argon2id$v=19", "m=19456,t=2,p=1", &salt, "AAAA"));
        assert!(is_verifier(&mock_verifier(b"secret", "somebody")));
    }

    #[test]
    fn what_no_verifier_is_made_of() {
        assert_eq!(verifier(&sensitive(""), &Seeded::new(1)), Err(VaultError::EmptyPassword));
        assert!(matches!(verifier(&sensitive("x"), &Broken), Err(VaultError::Entropy(_))));
    }
}
