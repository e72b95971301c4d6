//! Who has a store open.
//!
//! redb's own lock on the file decides; it goes with the process, however that ends. The file beside
//! the store only says who it is.

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use crate::Holder;

/// Where the holder of the store `path` is noted.
fn note_path(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".lock");
    PathBuf::from(name)
}

/// Notes that we have `path` open. The lock must be ours.
pub(super) fn note(path: &Path) {
    let note = note_path(path);
    let write = || {
        // A new file each time: an old one may belong to somebody else.
        let _ = fs::remove_file(&note);
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&note)?;
        writeln!(file, "{} {}", std::process::id(), host())
    };
    if let Err(error) = write() {
        tracing::warn!(path = %note.display(), %error, "the holder of the store is not noted");
    }
}

/// Takes the note back. The lock must still be ours.
pub(super) fn forget(path: &Path) {
    // If it stays, it names a process that has no lock: nobody asks for it then.
    let _ = fs::remove_file(note_path(path));
}

/// Who has `path` open, as far as it is noted.
pub(super) fn holder(path: &Path) -> Option<Holder> {
    let text = fs::read_to_string(note_path(path)).ok()?;
    let (pid, host) = text.trim_end().split_once(' ')?;
    Some(Holder { pid: pid.parse().ok()?, host: host.chars().filter(|c| !c.is_control()).take(253).collect() })
}

fn host() -> String {
    fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default().trim().to_owned()
}
