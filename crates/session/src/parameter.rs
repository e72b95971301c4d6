//! Parameters of Bind, in text and in binary, as the text that the grammar takes.

use dataglot_model::{Sensitive, SqlState};

use crate::error::SessionError;
use crate::value::{Type, Value, time_of};

/// OIDs of parameters that are read as text, besides `text` itself.
const TEXT_OIDS: [u32; 6] = [25, 1043, 1042, 19, 705, 114];

/// A parameter as text. No message holds any of it.
pub(crate) fn decode(bytes: Vec<u8>, of: u32, format: i16, number: usize) -> Result<Sensitive, SessionError> {
    let bad = || {
        SessionError::new(
            SqlState::InvalidBinaryRepresentation,
            format!("incorrect binary data format in bind parameter {number}"),
        )
    };
    let utf8 = |bytes: Vec<u8>| {
        let text = String::from_utf8(bytes).ok().filter(|t| !t.contains('\0')).ok_or_else(|| {
            SessionError::new(
                SqlState::CharacterNotInRepertoire,
                format!("invalid byte sequence for encoding \"UTF8\" in bind parameter {number}"),
            )
        })?;
        Ok(Sensitive::new(text))
    };
    if format == 0 || TEXT_OIDS.contains(&of) {
        return utf8(bytes);
    }
    let integer = |n: i64| Ok(Sensitive::new(n.to_string()));
    match (of, bytes.as_slice()) {
        (16, [truth @ (0 | 1)]) => Ok(Sensitive::new((*truth == 1).to_string())),
        (21, &[a, b]) => integer(i16::from_be_bytes([a, b]).into()),
        (23, &[a, b, c, d]) => integer(i32::from_be_bytes([a, b, c, d]).into()),
        (26, &[a, b, c, d]) => integer(u32::from_be_bytes([a, b, c, d]).into()),
        (20, bytes) => integer(i64::from_be_bytes(bytes.try_into().map_err(|_| bad())?)),
        (1184, bytes) => {
            let at = Value::Time(time_of(i64::from_be_bytes(bytes.try_into().map_err(|_| bad())?)));
            Ok(Sensitive::new(at.to_text().unwrap_or_default()))
        }
        (3802, [1, json @ ..]) => utf8(json.to_vec()),
        (16 | 21 | 23 | 26 | 3802, _) => Err(bad()),
        (other, _) => {
            let name = Type::of_oid(other).map_or_else(|| other.to_string(), |t| format!("{t:?}").to_lowercase());
            Err(SessionError::unsupported(format_args!("the binary format of parameter type {name}")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(bytes: &[u8], of: u32, format: i16, want: Result<&str, &str>) {
        let got = decode(bytes.to_vec(), of, format, 1);
        match want {
            Ok(text) => assert_eq!(got.unwrap().open(), text),
            Err(code) => assert_eq!(got.unwrap_err().code().code(), code),
        }
    }

    #[test]
    fn parameters() {
        check(b"x", 25, 0, Ok("x"));
        check(b"x", 25, 1, Ok("x"));
        check(b"7", 23, 0, Ok("7"));
        check(&7i32.to_be_bytes(), 23, 1, Ok("7"));
        check(&(-7i64).to_be_bytes(), 20, 1, Ok("-7"));
        check(&[1], 16, 1, Ok("true"));
        check(&0i64.to_be_bytes(), 1184, 1, Ok("2000-01-01 00:00:00+00"));
        check(&[1, b'{', b'}'], 3802, 1, Ok("{}"));
        check(&[0xff], 25, 0, Err("22021"));
        check(b"a\0b", 25, 0, Err("22021"));
        check(b"abc", 23, 1, Err("22P03"));
        check(b"abc", 600, 1, Err("0A000"));
    }
}
