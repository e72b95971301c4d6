//! The migrations that this version has.

use sha2::{Digest as _, Sha256};

/// One file of `migrations/`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Migration {
    /// Counted from 1 without a gap.
    pub number: i32,
    /// The rest of the file's name.
    pub name: &'static str,
    /// Its text.
    pub sql: &'static str,
}

impl Migration {
    /// The SHA-256 of its text, in hexadecimal.
    pub(super) fn checksum(&self) -> String {
        Sha256::digest(self.sql.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

/// In the order in which they are applied. A released one is never edited: its checksum is in stores.
pub(super) const MIGRATIONS: &[Migration] = &[
    Migration {
        number: 1,
        name: "control_plane",
        sql: include_str!("../../../../../migrations/0001_control_plane.sql"),
    },
    Migration { number: 2, name: "indexes", sql: include_str!("../../../../../migrations/0002_indexes.sql") },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_is_embedded_under_its_number_and_name() {
        let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/../../migrations");
        let mut files: Vec<_> =
            std::fs::read_dir(directory).unwrap().map(|f| f.unwrap().file_name().into_string().unwrap()).collect();
        files.sort();
        let embedded: Vec<_> = MIGRATIONS.iter().map(|m| format!("{:04}_{}.sql", m.number, m.name)).collect();
        assert_eq!(embedded, files);
        let numbers: Vec<_> = MIGRATIONS.iter().map(|m| m.number).collect();
        assert_eq!(numbers, (1..).take(MIGRATIONS.len()).collect::<Vec<_>>());
    }

    #[test]
    fn a_checksum_is_64_hexadecimal_digits() {
        let empty = Migration { number: 1, name: "", sql: "" };
        assert_eq!(empty.checksum(), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    }
}
