//! The token that a request has to bring.

use std::fmt;
use std::path::Path;

use subtle::ConstantTimeEq as _;
use zeroize::Zeroizing;

use super::HttpError;
use crate::private_file::{self, Unread};

/// Shorter ones can be guessed.
const BYTES_MIN: usize = 16;
/// Longest file.
const FILE_KILOBYTES_MAX: u64 = 1;

/// A token.
pub(super) struct Token(Zeroizing<String>);

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[redacted]")
    }
}

impl Token {
    /// Reads the file at `path`: the token and nothing else, but for white space around it.
    ///
    /// # Errors
    /// [`HttpError::Token`] says what is wrong with the file.
    pub(super) fn read(path: &Path) -> Result<Self, HttpError> {
        let wrong = |why: String| HttpError::Token { path: path.to_owned(), why };
        let text = private_file::read(path, FILE_KILOBYTES_MAX).map_err(|unread| match unread {
            Unread::Io(error) => wrong(format!("cannot be read: {error}")),
            Unread::Refused(why) => wrong(format!("is refused: {why}")),
        })?;
        let token = text.trim_ascii();
        if token.len() < BYTES_MIN {
            return Err(wrong(format!("holds no token of {BYTES_MIN} characters or more")));
        }
        if !token.bytes().all(|b| b.is_ascii_graphic()) {
            return Err(wrong("holds more than a token: it has to be one word of ASCII characters".to_owned()));
        }
        Ok(Token(Zeroizing::new(token.to_owned())))
    }

    /// Whether an `Authorization` field of this value brings it. The time that takes tells nothing but the
    /// token's length.
    pub(super) fn is_in(&self, authorization: &[u8]) -> bool {
        let Some((scheme, brought)) = authorization.split_at_checked("Bearer ".len()) else { return false };
        scheme.eq_ignore_ascii_case(b"Bearer ") && bool::from(brought.ct_eq(self.0.as_bytes()))
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn read(text: &str, mode: u32) -> Result<Token, HttpError> {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("token");
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        Token::read(&path)
    }

    #[test]
    fn only_the_whole_token_will_do() {
        let token = read(" CANARY-7Q-0123456789\n", 0o600).unwrap();
        for right in ["Bearer CANARY-7Q-0123456789", "bearer CANARY-7Q-0123456789"] {
            assert!(token.is_in(right.as_bytes()), "{right}");
        }
        for wrong in [
            "",
            "Bearer",
            "Bearer ",
            "CANARY-7Q-0123456789",
            "Basic CANARY-7Q-0123456789",
            "Bearer CANARY-7Q-012345678",
            "Bearer CANARY-7Q-01234567890",
            "Bearer canary-7q-0123456789",
            "Bearer  CANARY-7Q-0123456789",
        ] {
            assert!(!token.is_in(wrong.as_bytes()), "{wrong}");
        }
        assert!(!format!("{token:?}").contains("CANARY-7Q"));
    }

    #[test]
    fn a_bad_token_file_is_refused_without_its_content() {
        let long = "CANARY-7Q".repeat(200);
        for (text, mode, expected) in [
            ("CANARY-7Q-0123456789", 0o644, "mode is 0644"),
            ("CANARY-7Q", 0o600, "no token of 16 characters"),
            ("", 0o600, "no token of 16 characters"),
            ("CANARY-7Q CANARY-7Q", 0o600, "one word"),
            ("CANARY-7Q-0123456789\u{e9}", 0o600, "one word"),
            (&long, 0o600, "longer than 1 kB"),
        ] {
            let error = read(text, mode).unwrap_err();
            assert!(error.to_string().contains(expected), "{error}");
            assert!(!format!("{error} {error:?}").contains("CANARY-7Q"), "{error}");
        }
    }
}
