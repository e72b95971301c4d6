//! Files with a secret in them: read if nobody but their owner can read or change them.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use dataglot_model::Sensitive;
use zeroize::Zeroizing;

/// Why a file is not read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unread {
    /// It cannot be.
    #[error("it cannot be read: {0}")]
    Io(#[from] io::Error),
    /// Others could have read or changed it, or it is no file.
    #[error("{0}")]
    Refused(String),
}

/// Longest file with a password.
const PASSWORD_KILOBYTES_MAX: u64 = 1;

/// The password in the file at `path`, without the line end that an editor puts after it.
///
/// # Errors
/// Why it is not read, without any part of it.
pub fn password(path: &Path) -> Result<Sensitive, String> {
    read_line(path, PASSWORD_KILOBYTES_MAX).map_err(|unread| unread.to_string())
}

/// Reads the file at `path`, of at most `kilobytes_max`.
///
/// # Errors
/// [`Unread`]: also if it is a symbolic link, no regular file, another user's, or readable or writable by
/// others than its owner.
pub(crate) fn read(path: &Path, kilobytes_max: u64) -> Result<Zeroizing<String>, Unread> {
    let refused = |why: &str| Err(Unread::Refused(why.to_owned()));
    let named = fs::symlink_metadata(path)?;
    if named.is_symlink() {
        return refused("it is a symbolic link");
    }
    if !named.is_file() {
        return refused("it is not a regular file");
    }
    let file = File::open(path)?;
    // What is open counts, not what had the name a moment ago.
    let open = file.metadata()?;
    if (open.dev(), open.ino()) != (named.dev(), named.ino()) {
        return refused("it was replaced while it was opened");
    }
    if open.uid() != rustix::process::geteuid().as_raw() {
        return refused("it belongs to another user");
    }
    let mode = open.mode() & 0o7777;
    if mode & 0o177 != 0 {
        return refused(&format!("its mode is {mode:04o}, which lets others than its owner use it"));
    }
    if open.len() > kilobytes_max << 10 {
        return refused(&format!("it is longer than {kilobytes_max} kB"));
    }
    Ok(read_text(file, kilobytes_max << 10)?)
}

/// Reads the file at `path`, which is one secret: what it holds but for a line end, which is an editor's.
///
/// # Errors
/// As of [`read`].
pub(crate) fn read_line(path: &Path, kilobytes_max: u64) -> Result<Sensitive, Unread> {
    let text = read(path, kilobytes_max)?;
    let line = text.strip_suffix('\n').unwrap_or(&text);
    Ok(Sensitive::new(line.strip_suffix('\r').unwrap_or(line).to_owned()))
}

/// Reads to the end, or `bytes_max`. A text that grew would leave copies of itself behind: this one is as large from
/// the start as it can get, and one larger, so that the end is not looked for in memory beyond it.
fn read_text(file: impl io::Read, bytes_max: u64) -> io::Result<Zeroizing<String>> {
    let room = usize::try_from(bytes_max).unwrap_or(usize::MAX).saturating_add(1);
    let mut text = Zeroizing::new(String::with_capacity(room));
    file.take(bytes_max).read_to_string(&mut text)?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s_09_a_secret_stays_where_it_was_read_to() {
        for bytes in [0, 1, 31, 1023, 1024] {
            let text = read_text(&vec![b'x'; bytes][..], 1 << 10).unwrap();
            assert_eq!((text.len(), text.capacity()), (bytes, (1 << 10) + 1));
        }
    }
}
