//! Where PostgreSQL's programs are, and as whom they run.

use std::ffi::OsStr;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

const HOW_TO_GET_IT: &str = "The tests start real PostgreSQL servers. Install one (Debian: apt-get install postgresql; \
     Fedora: dnf install postgresql-server; macOS: brew install postgresql), or set DATAGLOT_PG_BIN to the directory \
     that holds initdb and postgres.";

/// The path of one of PostgreSQL's programs, such as `postgres` or `pg_dump`.
///
/// Looked for in `DATAGLOT_PG_BIN`, else in the newest version under /usr/lib/postgresql, else in
/// `PATH`.
///
/// # Panics
/// It is not there.
#[must_use]
pub fn binary(name: &str) -> PathBuf {
    let path = directory().join(name);
    assert!(path.is_file(), "{name} is not in {}. {HOW_TO_GET_IT}", directory().display());
    path
}

/// What the server says of itself, such as `postgres (PostgreSQL) 15.13`.
#[must_use]
pub fn version() -> String {
    let out = Command::new(binary("postgres")).arg("--version").output().expect("postgres runs");
    String::from_utf8_lossy(&out.stdout).trim().to_owned()
}

fn directory() -> &'static Path {
    static FOUND: OnceLock<PathBuf> = OnceLock::new();
    FOUND.get_or_init(|| {
        if let Some(named) = std::env::var_os("DATAGLOT_PG_BIN") {
            return PathBuf::from(named);
        }
        newest_packaged().or_else(on_path).unwrap_or_else(|| panic!("PostgreSQL is not here. {HOW_TO_GET_IT}"))
    })
}

fn has_server(directory: &Path) -> bool {
    directory.join("initdb").is_file() && directory.join("postgres").is_file()
}

/// Debian keeps each major version in a directory of its own and none of them in `PATH`.
fn newest_packaged() -> Option<PathBuf> {
    let versions = std::fs::read_dir("/usr/lib/postgresql").ok()?;
    versions
        .filter_map(|entry| {
            let entry = entry.ok()?;
            let version: u32 = entry.file_name().to_str()?.parse().ok()?;
            let directory = entry.path().join("bin");
            has_server(&directory).then_some((version, directory))
        })
        .max()
        .map(|(_, directory)| directory)
}

fn on_path() -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).find(|directory| has_server(directory)).or_else(|| {
        // `pg_config` is in PATH where the other programs often are not.
        let out = Command::new("pg_config").arg("--bindir").output().ok()?;
        let directory = PathBuf::from(String::from_utf8(out.stdout).ok()?.trim());
        has_server(&directory).then_some(directory)
    })
}

/// Whom a server runs as: PostgreSQL refuses root, so root becomes the user `postgres`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Owner {
    pub uid: u32,
    pub gid: u32,
}

impl Owner {
    /// `None`: as this process itself.
    pub(crate) fn other() -> Option<Owner> {
        static FOUND: OnceLock<Option<Owner>> = OnceLock::new();
        *FOUND.get_or_init(|| {
            rustix::process::geteuid().is_root().then(|| {
                let id = |what: &str| -> u32 {
                    let out = Command::new("id").args([what, "postgres"]).output().expect("id runs");
                    String::from_utf8_lossy(&out.stdout).trim().parse().unwrap_or_else(|_| {
                        panic!(
                            "PostgreSQL refuses to run as root and there is no user postgres to run it as. \
                             Run the tests as another user, or: useradd --system postgres"
                        )
                    })
                };
                Owner { uid: id("-u"), gid: id("-g") }
            })
        })
    }

    /// Gives `path` to the user that the server runs as.
    pub(crate) fn own(path: &Path) {
        if let Some(owner) = Self::other() {
            std::os::unix::fs::chown(path, Some(owner.uid), Some(owner.gid)).expect("root may give files away");
        }
    }
}

/// One of PostgreSQL's programs, to be run as the server's user, with nothing of the caller's libpq
/// settings.
pub(crate) fn command(name: &str) -> Command {
    let mut command = Command::new(binary(name));
    for (key, _) in std::env::vars_os() {
        if OsStr::to_str(&key).is_some_and(|key| key.starts_with("PG")) {
            command.env_remove(key);
        }
    }
    // Messages are compared by tests and read by this crate.
    command.env("LC_ALL", "C").env("TZ", "UTC");
    if let Some(owner) = Owner::other() {
        command.uid(owner.uid).gid(owner.gid);
    }
    command
}
