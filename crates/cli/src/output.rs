//! Standard output.

use std::io::Write as _;

/// Prints a line, and at once: a script may be waiting for it. Whether anybody reads it is not our concern.
pub(crate) fn line(text: &str) {
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{text}").and_then(|()| out.flush());
}
