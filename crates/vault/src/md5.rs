//! md5 verifiers of PostgreSQL's: `md5` and the hash of password and name. They are worth as much as the password
//! itself, so none is ever made here; those that were brought along can be logged in with.

use md5::{Digest, Md5};
use subtle::ConstantTimeEq;
use zeroize::Zeroizing;

/// Whether `text` has the form of a verifier.
pub fn is_verifier(text: &str) -> bool {
    text.strip_prefix("md5")
        .is_some_and(|rest| rest.len() == 32 && rest.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b)))
}

/// Whether `verifier` is the one of the empty password of the role `name`.
pub fn is_of_nothing(verifier: &str, name: &str) -> bool {
    verifier.strip_prefix("md5").is_some_and(|digits| digits == hex(name.as_bytes()))
}

/// Whether `answer` is what a client says that has the password: `md5` and the hash of the verifier's digits and
/// `salt`.
pub fn matches(verifier: &str, salt: [u8; 4], answer: &[u8]) -> bool {
    let Some(digits) = verifier.strip_prefix("md5").filter(|_| is_verifier(verifier)) else { return false };
    let wanted = Zeroizing::new(format!("md5{}", hex(&[digits.as_bytes(), &salt].concat())));
    bool::from(wanted.as_bytes().ct_eq(answer))
}

/// The hash of `bytes`, in hexadecimal digits.
fn hex(bytes: &[u8]) -> String {
    Md5::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c095_the_empty_password_is_known() {
        let verifier = format!("md5{}", hex(b"u"));
        assert!(is_of_nothing(&verifier, "u") && !is_of_nothing(&verifier, "v"));
    }

    #[test]
    fn only_the_answer_to_the_salt_matches() {
        // What PostgreSQL stores for the user `u` and the password `pencil`.
        let verifier = format!("md5{}", hex(b"pencilu"));
        let answer = format!("md5{}", hex(&[&verifier.as_bytes()[3..], &[1, 2, 3, 4]].concat()));
        assert!(matches(&verifier, [1, 2, 3, 4], answer.as_bytes()));
        assert!(!matches(&verifier, [1, 2, 3, 5], answer.as_bytes()));
        assert!(!matches(&verifier, [1, 2, 3, 4], b""));
        assert!(!matches(&verifier, [1, 2, 3, 4], verifier.as_bytes()));
        assert!(!matches("md5", [1, 2, 3, 4], answer.as_bytes()));
    }

    #[test]
    fn a_verifier_is_known_by_its_form() {
        assert!(is_verifier(&format!("md5{}", "0a".repeat(16))));
        assert!(!is_verifier(&format!("md5{}", "0A".repeat(16))));
        assert!(!is_verifier("md5") && !is_verifier(&"a".repeat(35)));
    }

    #[test]
    fn the_hash_is_md5() {
        assert_eq!(hex(b""), "d41d8cd98f00b204e9800998ecf8427e");
        assert_eq!(hex(b"abc"), "900150983cd24fb0d6963f7d28e17f72");
    }
}
