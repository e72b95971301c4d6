//! Standard output: lines, tables, documents.

use std::io::Write as _;

use crate::failure::{Exit, Failure};

/// Prints a line for a person, and at once: a script may be waiting for it. Whether anybody reads it is not our
/// concern.
pub(crate) fn line(text: &str) {
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{text}").and_then(|()| out.flush());
}

/// Prints rows with their columns below each other, the first row being the head.
pub(crate) fn table(rows: &[Vec<String>]) {
    let columns = rows.iter().map(Vec::len).max().unwrap_or_default();
    let width = |at: usize| rows.iter().filter_map(|r| r.get(at)).map(|c| c.chars().count()).max().unwrap_or_default();
    let widths: Vec<usize> = (0..columns).map(width).collect();
    for row in rows {
        let mut text = String::new();
        for (cell, width) in row.iter().zip(&widths) {
            text.push_str(&format!("{cell:width$}  "));
        }
        line(text.trim_end());
    }
}

/// Prints what a program is to read: half of it is none.
///
/// # Errors
/// Standard output cannot be written to.
pub(crate) fn document(text: &str) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    let written = writeln!(out, "{text}").and_then(|()| out.flush());
    written.map_err(|e| Failure::io(Exit::Internal, "standard output cannot be written", &e))
}

/// Prints a value as one line of JSON.
///
/// # Errors
/// As for [`document`].
pub(crate) fn json(value: &serde_json::Value) -> Result<(), Failure> {
    document(&value.to_string())
}
