//! The password file: `host:port:database:user:password` a line.
//!
//! A field `*` matches anything; `\:` and `\\` stand for the characters themselves. The first line that
//! matches gives the password.

use std::path::Path;

use dataglot_model::Sensitive;

use super::targets::{Place, Target};

/// The password for that server, if the file is there, is safe, and has a line for it.
pub(super) fn look_up(file: &Path, target: &Target, dbname: &str, user: &str) -> Option<Sensitive> {
    let metadata = std::fs::metadata(file).ok()?;
    if !metadata.is_file() {
        tracing::warn!(file = %file.display(), "password file is not a plain file: it is not used");
        return None;
    }
    if others_may_read(&metadata) {
        tracing::warn!(
            file = %file.display(),
            "password file has group or world access: it is not used; permissions should be u=rw (0600) or less"
        );
        return None;
    }
    let text = match std::fs::read_to_string(file) {
        Ok(text) => Sensitive::new(text),
        Err(error) => {
            tracing::warn!(file = %file.display(), reason = %error.kind(), "could not read the password file");
            return None;
        }
    };
    let host = match &target.place {
        Place::Tcp { name: Some(name), .. } => name.clone(),
        Place::Tcp { name: None, address } => address.map(|a| a.to_string()).unwrap_or_default(),
        // Only the default directory goes by that name, as in libpq.
        Place::Unix(directory) if super::targets::is_default_directory(directory) => "localhost".to_owned(),
        Place::Unix(directory) => directory.display().to_string(),
    };
    find(text.open(), &[&host, &target.port.to_string(), dbname, user])
}

/// Whether the mode admits others than the owner.
pub(crate) fn others_may_read(metadata: &std::fs::Metadata) -> bool {
    use std::os::unix::fs::MetadataExt;
    metadata.mode() & 0o077 != 0
}

/// The password of the first line whose fields match.
pub(super) fn find(text: &str, wanted: &[&str; 4]) -> Option<Sensitive> {
    let first = text.lines().filter(|line| !line.starts_with('#')).find_map(|line| {
        let mut rest = line;
        for want in wanted {
            let (field, tail) = field(rest)?;
            if field.open() != "*" && unescape(field.open()).open() != *want {
                return None;
            }
            rest = tail;
        }
        let password = field_end(rest).map_or(rest, |(password, _)| password);
        Some(unescape(password.trim_end_matches('\r')))
    });
    first.filter(|password| !password.open().is_empty())
}

/// A field with its escapes, and what follows its colon.
fn field(text: &str) -> Option<(Sensitive, &str)> {
    let (field, rest) = field_end(text)?;
    Some((Sensitive::new(field.to_owned()), rest))
}

fn field_end(text: &str) -> Option<(&str, &str)> {
    let mut escaped = false;
    let end = text.find(|c| {
        let ends = c == ':' && !escaped;
        escaped = c == '\\' && !escaped;
        ends
    })?;
    Some((text.get(..end)?, text.get(end + 1..)?))
}

fn unescape(text: &str) -> Sensitive {
    let mut plain = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => plain.extend(chars.next()),
            other => plain.push(other),
        }
    }
    Sensitive::new(plain)
}
