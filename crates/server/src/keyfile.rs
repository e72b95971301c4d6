//! Key files: read if nobody but their owner can read them, made only where none is.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use dataglot_model::Problem as _;
use dataglot_vault::{Entropy, KeyRing, VaultError, generate_key_text};

use crate::private_file::{self, Unread};

/// Longest key file: room for sixteen keys and comments.
const FILE_KILOBYTES_MAX: u64 = 16;

/// Why there is no key. Holds the path, never a part of the content.
#[derive(Debug, thiserror::Error, miette::Diagnostic)]
pub enum KeyFileError {
    /// It cannot be read or made.
    #[error("secret key file \"{}\" cannot be {doing}: {reason}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// `read` or `created`.
        doing: &'static str,
        /// What the operating system said.
        reason: String,
    },
    /// Others could have read or changed it, or it is no file.
    #[error("secret key file \"{}\" is refused: {why}", path.display())]
    #[diagnostic(help("A key file is a regular file of the user that runs the server, with mode 0600 or 0400."))]
    Refused {
        /// The file.
        path: PathBuf,
        /// Which rule it breaks.
        why: String,
    },
    /// Its content is no key.
    #[error("secret key file \"{}\": {error}", path.display())]
    Content {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        error: VaultError,
        /// What to do about it.
        #[help]
        help: Option<String>,
    },
}

fn content(path: &Path, error: VaultError) -> KeyFileError {
    let help = error.hint();
    KeyFileError::Content { path: path.to_owned(), error, help }
}

/// Reads the keys of the file at `path`.
///
/// # Errors
/// [`KeyFileError`]: it is a symbolic link, no regular file, another user's, or readable or writable by
/// others than its owner; or it holds no key.
pub fn read(path: &Path) -> Result<KeyRing, KeyFileError> {
    let text = private_file::read(path, FILE_KILOBYTES_MAX).map_err(|unread| match unread {
        Unread::Io(error) => KeyFileError::Io { path: path.to_owned(), doing: "read", reason: error.to_string() },
        Unread::Refused(why) => KeyFileError::Refused { path: path.to_owned(), why },
    })?;
    KeyRing::parse(&text).map_err(|error| content(path, error))
}

/// Makes a key file with a new key, mode 0600, and makes it durable before it returns: what is sealed with
/// a key must not outlive it.
///
/// # Errors
/// [`KeyFileError`]; a file that is there already is never touched.
pub fn create(path: &Path, entropy: &dyn Entropy) -> Result<KeyRing, KeyFileError> {
    let failed = |e: io::Error| KeyFileError::Io { path: path.to_owned(), doing: "created", reason: e.to_string() };
    let text = generate_key_text(entropy).map_err(|error| content(path, error))?;
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path).map_err(failed)?;
    let mut write = || {
        file.write_all(text.open().as_bytes())?;
        file.write_all(b"\n")?;
        file.sync_all()?;
        let directory = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
        File::open(directory)?.sync_all()
    };
    write().map_err(|error: io::Error| {
        // A cut key would be refused for ever.
        let _ = fs::remove_file(path);
        failed(error)
    })?;
    KeyRing::parse(text.open()).map_err(|error| content(path, error))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};

    use dataglot_session::OsEntropy;

    use super::*;

    const KEY: &str = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";

    fn write(path: &Path, text: &str, mode: u32) {
        fs::write(path, text).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn a_new_key_file_is_its_owners_alone_and_reads_back() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("secret.key");
        let made = create(&path, &OsEntropy).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o7777, 0o600);
        assert_eq!(read(&path).unwrap().primary_id(), made.primary_id());
        let before = fs::read(&path).unwrap();
        assert!(matches!(create(&path, &OsEntropy), Err(KeyFileError::Io { .. })));
        assert_eq!(fs::read(&path).unwrap(), before);
    }

    #[test]
    fn s_11_a_file_that_others_can_use_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("key");
        for mode in [0o600, 0o400] {
            write(&path, KEY, mode);
            assert!(read(&path).is_ok(), "{mode:o}");
        }
        for mode in [0o640, 0o604, 0o660, 0o602, 0o700, 0o644] {
            write(&path, KEY, mode);
            assert!(matches!(read(&path), Err(KeyFileError::Refused { .. })), "{mode:o}");
        }
        write(&path, KEY, 0o600);
        let link = directory.path().join("link");
        symlink(&path, &link).unwrap();
        assert!(matches!(read(&link), Err(KeyFileError::Refused { .. })));
        assert!(matches!(read(directory.path()), Err(KeyFileError::Refused { .. })));
        assert!(matches!(read(&directory.path().join("none")), Err(KeyFileError::Io { .. })));
    }

    #[test]
    fn no_error_holds_the_content() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("key");
        for text in ["CANARY-7Q", "", "dgk1:CANARY-7Q", &"CANARY-7Q".repeat(5000)] {
            write(&path, text, 0o600);
            let error = read(&path).unwrap_err();
            assert!(!format!("{error} {error:?}").contains("CANARY-7Q"), "{error}");
        }
    }
}
