//! The frame around every stored value: one byte of format, four of checksum, then the body.
//!
//! The checksum covers the table, the key within the org and the body, so a value that was cut,
//! changed, or moved to another key is noticed.

use super::Bad;
use crate::Table;

/// The format of the values that this version writes.
pub(crate) const FORMAT: u8 = 1;
/// Bytes before the body.
pub(crate) const FRAME_BYTES: usize = 5;

/// Makes `value` an empty frame; the body is appended to it.
pub(crate) fn begin(value: &mut Vec<u8>) {
    value.clear();
    value.extend_from_slice(&[FORMAT, 0, 0, 0, 0]);
}

/// Writes the checksum, once the body is complete.
pub(crate) fn finish(table: Table, key: &[u8], value: &mut [u8]) {
    if let Some((head, body)) = value.split_at_mut_checked(FRAME_BYTES) {
        let sum = checksum(table, key, body).to_le_bytes();
        head.iter_mut().skip(1).zip(sum).for_each(|(slot, byte)| *slot = byte);
    }
}

/// The body of `value`, if nothing is wrong with it.
pub(crate) fn open<'a>(table: Table, key: &[u8], value: &'a [u8]) -> Result<&'a [u8], Bad> {
    let [format, a, b, c, d, body @ ..] = value else { return Err(Bad::Short) };
    if *format != FORMAT {
        return Err(Bad::Format);
    }
    if u32::from_le_bytes([*a, *b, *c, *d]) != checksum(table, key, body) {
        return Err(Bad::Checksum);
    }
    Ok(body)
}

fn checksum(table: Table, key: &[u8], body: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    let length = u32::try_from(key.len()).unwrap_or(u32::MAX).to_le_bytes();
    hasher.update(&[table.code()]);
    hasher.update(&length);
    hasher.update(key);
    hasher.update(body);
    hasher.finalize()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_that_was_cut_changed_or_moved_is_noticed() {
        let mut value = Vec::new();
        begin(&mut value);
        value.extend_from_slice(b"{}");
        finish(Table::Roles, b"alice", &mut value);
        assert_eq!(value, [1, 0xeb, 0x7c, 0x04, 0xd1, b'{', b'}'], "old bytes stay readable");
        assert_eq!(open(Table::Roles, b"alice", &value), Ok(&b"{}"[..]));

        assert_eq!(open(Table::Users, b"alice", &value), Err(Bad::Checksum));
        assert_eq!(open(Table::Roles, b"alicf", &value), Err(Bad::Checksum));
        assert_eq!(open(Table::Roles, b"alice", &value[..6]), Err(Bad::Checksum));
        assert_eq!(open(Table::Roles, b"alice", &value[..4]), Err(Bad::Short));
        assert_eq!(open(Table::Roles, b"alice", b""), Err(Bad::Short));
        for at in 0..value.len() * 8 {
            let mut flipped = value.clone();
            flipped[at / 8] ^= 1 << (at % 8);
            assert!(open(Table::Roles, b"alice", &flipped).is_err(), "bit {at}");
        }
    }
}
