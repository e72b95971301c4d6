//! SCRAM-SHA-256 verifiers (RFC 5802, RFC 7677), in the text form that PostgreSQL stores:
//! `SCRAM-SHA-256$iterations:salt$StoredKey:ServerKey`, all but the first in base64.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use dataglot_model::Sensitive;
use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;
use zeroize::Zeroizing;

use crate::{Entropy, VaultError};

mod exchange;

pub use exchange::{ChannelBinding, Exchange, MECHANISM, MECHANISM_PLUS, ScramError, Subject, mock_verifier};

/// Iterations when nothing else is configured (the rule of thumb of RFC 7677).
pub const ITERATIONS_DEFAULT: u32 = 15_000;
/// Least iterations of a new verifier and of one that is handed in.
pub const ITERATIONS_MIN: u32 = 4_096;
/// Most iterations of a new verifier.
pub const ITERATIONS_MAX: u32 = 600_000;
/// Most iterations of a verifier that is handed in ready-made.
const STORED_ITERATIONS_MAX: u32 = 1_000_000;

const PREFIX: &str = "SCRAM-SHA-256$";
const SALT_BYTES: usize = 16;
const SALT_BYTES_MAX: usize = 1024;
const KEY_BYTES: usize = 32;

/// A verifier taken apart.
#[derive(Clone, PartialEq, Eq)]
pub struct Verifier {
    /// Iterations of PBKDF2.
    pub iterations: u32,
    /// The salt, 16 bytes or more.
    pub salt: Vec<u8>,
    /// What a client's proof is checked against.
    pub stored_key: [u8; KEY_BYTES],
    /// What the server proves itself with.
    pub server_key: [u8; KEY_BYTES],
}

impl std::fmt::Debug for Verifier {
    /// The iterations only: the rest is worth guessing at.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Verifier").field("iterations", &self.iterations).finish_non_exhaustive()
    }
}

impl Verifier {
    /// Reads the text form, strictly: iterations in plain decimal within 4,096 to 1,000,000, canonical
    /// base64, a salt of 16 bytes or more, keys of 32 bytes. `None` for anything else.
    pub fn parse(text: &str) -> Option<Self> {
        let (cost, keys) = text.strip_prefix(PREFIX)?.split_once('$')?;
        let (iterations, salt) = cost.split_once(':')?;
        let (stored, server) = keys.split_once(':')?;
        let decimal = iterations.len() <= 7 && iterations.bytes().all(|b| b.is_ascii_digit());
        if !decimal || iterations.starts_with('0') {
            return None;
        }
        let iterations = iterations.parse().ok()?;
        if !(ITERATIONS_MIN..=STORED_ITERATIONS_MAX).contains(&iterations) {
            return None;
        }
        let salt = STANDARD.decode(salt).ok()?;
        if !(SALT_BYTES..=SALT_BYTES_MAX).contains(&salt.len()) {
            return None;
        }
        let key = |text| STANDARD.decode(text).ok()?.try_into().ok();
        Some(Verifier { iterations, salt, stored_key: key(stored)?, server_key: key(server)? })
    }

    /// Whether it was made from `password`. Takes as long as making one; the comparison takes the same time
    /// whatever differs.
    pub fn is_of(&self, password: &Sensitive) -> bool {
        let found = Verifier::derive(password, &self.salt, self.iterations);
        bool::from(found.stored_key.ct_eq(&self.stored_key) & found.server_key.ct_eq(&self.server_key))
    }

    fn derive(password: &Sensitive, salt: &[u8], iterations: u32) -> Self {
        let prepared = prepare(password);
        let mut salted = Zeroizing::new([0u8; KEY_BYTES]);
        pbkdf2::pbkdf2_hmac::<Sha256>(prepared.as_bytes(), salt, iterations, salted.as_mut_slice());
        let client_key = Zeroizing::new(mac(salted.as_slice(), b"Client Key"));
        Verifier {
            iterations,
            salt: salt.to_vec(),
            stored_key: Sha256::digest(client_key.as_slice()).into(),
            server_key: mac(salted.as_slice(), b"Server Key"),
        }
    }

    fn print(&self) -> String {
        let Verifier { iterations, salt, stored_key, server_key } = self;
        format!(
            "{PREFIX}{iterations}:{}${}:{}",
            STANDARD.encode(salt),
            STANDARD.encode(stored_key),
            STANDARD.encode(server_key)
        )
    }
}

/// HMAC-SHA-256. A key of any length is legal, so the other arm is never taken; it gives a value that
/// matches nothing.
fn mac(key: &[u8], message: &[u8]) -> [u8; KEY_BYTES] {
    match Hmac::<Sha256>::new_from_slice(key) {
        Ok(mac) => mac.chain_update(message).finalize().into_bytes().into(),
        Err(_) => [0; KEY_BYTES],
    }
}

/// SASLprep (RFC 4013); what it prohibits, and what it leaves nothing of, is used as it stands, as
/// PostgreSQL does.
pub(crate) fn prepare(password: &Sensitive) -> Zeroizing<String> {
    let raw = password.open();
    Zeroizing::new(match stringprep::saslprep(raw) {
        Ok(prepared) if !prepared.is_empty() => prepared.into_owned(),
        Ok(_) | Err(_) => raw.to_owned(),
    })
}

/// A verifier of `password` with a fresh salt of 16 bytes. Takes milliseconds to seconds, by `iterations`.
///
/// # Errors
/// * [`VaultError::EmptyPassword`]
/// * [`VaultError::Iterations`]: outside of [`ITERATIONS_MIN`] to [`ITERATIONS_MAX`].
/// * [`VaultError::Entropy`]
pub fn verifier(password: &Sensitive, iterations: u32, entropy: &dyn Entropy) -> Result<String, VaultError> {
    if password.open().is_empty() {
        return Err(VaultError::EmptyPassword);
    }
    if !(ITERATIONS_MIN..=ITERATIONS_MAX).contains(&iterations) {
        return Err(VaultError::Iterations { iterations, least: ITERATIONS_MIN, most: ITERATIONS_MAX });
    }
    let mut salt = [0u8; SALT_BYTES];
    entropy.fill(&mut salt)?;
    Ok(Verifier::derive(password, &salt, iterations).print())
}

/// Whether `text` is a verifier that may be stored as it stands.
pub fn is_verifier(text: &str) -> bool {
    Verifier::parse(text).is_some()
}

/// Whether `text` starts as a verifier does. One that does and is none is to be refused, not taken for a
/// password.
pub fn looks_like_verifier(text: &str) -> bool {
    text.starts_with(PREFIX)
}

/// Whether `verifier` was made from `password`. Takes as long as making one; the comparison takes the
/// same time whatever differs. `false` for what is no verifier.
pub fn matches(password: &Sensitive, verifier: &str) -> bool {
    Verifier::parse(verifier).is_some_and(|wanted| wanted.is_of(password))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Broken, Seeded};

    fn sensitive(text: &str) -> Sensitive {
        Sensitive::new(text.to_owned())
    }

    fn made(password: &str) -> String {
        verifier(&sensitive(password), ITERATIONS_MIN, &Seeded::new(1)).unwrap()
    }

    fn xor(a: &[u8], b: &[u8]) -> Vec<u8> {
        a.iter().zip(b).map(|(x, y)| x ^ y).collect()
    }

    /// RFC 7677, section 3: user `user`, password `pencil`.
    #[test]
    fn the_exchange_of_rfc_7677() {
        let salt = STANDARD.decode("W22ZaJ0SNY7soEsUEjb6gQ==").unwrap();
        let found = Verifier::derive(&sensitive("pencil"), &salt, 4096);
        let message = "n=user,r=rOprNGfwEbeRWgbNEkqO,\
            r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096,\
            c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0";
        let proof = STANDARD.decode("dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=").unwrap();
        let client_key = xor(&proof, &mac(&found.stored_key, message.as_bytes()));
        assert_eq!(<[u8; 32]>::from(Sha256::digest(&client_key)), found.stored_key);
        let signature = mac(&found.server_key, message.as_bytes());
        assert_eq!(STANDARD.encode(signature), "6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=");
    }

    /// The text that `ALTER ROLE … PASSWORD 'pencil'` leaves in `pg_authid` for this salt.
    #[test]
    fn the_text_form_is_that_of_postgresql() {
        let salt = STANDARD.decode("W22ZaJ0SNY7soEsUEjb6gQ==").unwrap();
        let text = Verifier::derive(&sensitive("pencil"), &salt, 4096).print();
        assert_eq!(
            text,
            "SCRAM-SHA-256$4096:W22ZaJ0SNY7soEsUEjb6gQ==$WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY=:\
             wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU="
        );
        assert!(matches(&sensitive("pencil"), &text));
    }

    #[test]
    fn only_the_password_matches() {
        let text = made("secret");
        assert!(is_verifier(&text) && looks_like_verifier(&text));
        assert!(matches(&sensitive("secret"), &text));
        for other in ["Secret", "secret ", "", &text] {
            assert!(!matches(&sensitive(other), &text));
        }
        assert!(!matches(&sensitive("secret"), "secret"));
    }

    /// C093 and A-03: mapping, NFKC, and the raw bytes where SASLprep refuses.
    #[test]
    fn passwords_are_prepared_as_postgresql_does() {
        let prepared = |text: &str| prepare(&sensitive(text)).to_string();
        let table = [
            ("a\u{ad}b\u{a0}c\u{ff21}\u{2460}", "ab cA1"),
            ("I\u{ad}X", "IX"),
            ("user", "user"),
            ("USER", "USER"),
            ("\u{aa}", "a"),
            ("\u{2168}", "IX"),
            // Prohibited (a control character), mixed directions, unassigned in Unicode 3.2: as it stands.
            ("x\u{7}\u{ad}", "x\u{7}\u{ad}"),
            ("\u{627}1", "\u{627}1"),
            ("\u{221}\u{ad}", "\u{221}\u{ad}"),
            // Nothing is left of it: as it stands.
            ("\u{ad}", "\u{ad}"),
        ];
        for (input, expected) in table {
            assert_eq!(prepared(input), expected, "{input:?}");
        }
        assert!(matches(&sensitive("ab cA1"), &made("a\u{ad}b\u{a0}c\u{ff21}\u{2460}")));
    }

    ///
    #[test]
    fn only_a_strict_verifier_is_one() {
        let good = made("secret");
        let key = STANDARD.encode([1u8; 32]);
        let salt = STANDARD.encode([2u8; 16]);
        let with = |iterations: &str, salt: &str, stored: &str, server: &str| {
            is_verifier(&format!("SCRAM-SHA-256${iterations}:{salt}${stored}:{server}"))
        };
        assert!(with("4096", &salt, &key, &key));
        assert!(with("1000000", &salt, &key, &key));
        for iterations in ["4095", "1000001", "0", "", "04096", "+4096", "4096 ", "0x1000", "99999999999999999999"] {
            assert!(!with(iterations, &salt, &key, &key), "{iterations}");
        }
        for bad in ["", "AAAA", &STANDARD.encode([2u8; 15]), &STANDARD.encode(vec![2u8; 1025]), "!!!!"] {
            assert!(!with("4096", bad, &key, &key), "{bad}");
        }
        for bad in ["", &STANDARD.encode([1u8; 31]), &STANDARD.encode([1u8; 33]), key.trim_end_matches('=')] {
            assert!(!with("4096", &salt, bad, &key) && !with("4096", &salt, &key, bad), "{bad}");
        }
        for bad in [
            good.to_lowercase(),
            format!("{good} "),
            format!("{good}\n"),
            format!("{good}$"),
            format!("{good}:"),
            good.replace("SHA-256", "SHA-1"),
            good.replace('$', ":"),
            "SCRAM-SHA-256$".to_owned(),
            String::new(),
        ] {
            assert!(!is_verifier(&bad), "{bad:?}");
        }
    }

    #[test]
    fn what_no_verifier_is_made_of() {
        let make = |password, iterations| verifier(&sensitive(password), iterations, &Seeded::new(1));
        assert_eq!(make("", 4096), Err(VaultError::EmptyPassword));
        assert!(matches!(make("x", 4095), Err(VaultError::Iterations { .. })));
        assert!(matches!(make("x", 600_001), Err(VaultError::Iterations { .. })));
        assert!(matches!(verifier(&sensitive("x"), 4096, &Broken), Err(VaultError::Entropy(_))));
    }

    #[test]
    fn debug_hides_all_that_is_worth_guessing_at() {
        let parsed = Verifier::parse(&made("secret")).unwrap();
        assert_eq!(format!("{parsed:?}"), "Verifier { iterations: 4096, .. }");
    }
}
