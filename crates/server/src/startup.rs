//! The first packets of a connection: those without a type byte.
//!
//! Pure: bytes in, [`Packet`] out. Every fault is a [`Refusal`], whose texts are a fixed list: a peer
//! that has not logged in learns nothing that it did not say itself.

use crate::refusal::Refusal;

/// The shortest packet: a length and a code.
pub(crate) const PACKET_BYTES_MIN: usize = 8;
/// The longest packet before login.
pub(crate) const PACKET_BYTES_MAX: usize = 10_000;
/// Most parameters. Drivers send a dozen.
const PARAMETERS_MAX: usize = 100;
/// The newest protocol that we speak, as a `(major, minor)`.
const NEWEST_MINOR: u16 = 2;

const CANCEL_CODE: u32 = 80_877_102;
const SSL_CODE: u32 = 80_877_103;
const GSS_CODE: u32 = 80_877_104;

/// The head of a packet: what it is, and how much is to come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Head {
    /// SSLRequest. Nothing follows.
    Ssl,
    /// GSSENCRequest. Nothing follows.
    Gss,
    /// CancelRequest, and the bytes of its body: process and key.
    Cancel(usize),
    /// StartupMessage of protocol 3, and the bytes of its body: the parameters.
    Startup {
        /// The minor version that the client asks for.
        minor: u16,
        /// Bytes to come.
        body_bytes: usize,
    },
}

/// What the first eight bytes say.
///
/// # Errors
/// The length is out of bounds, or there is no such request or protocol.
pub(crate) fn head(bytes: [u8; PACKET_BYTES_MIN]) -> Result<Head, Refusal> {
    let [a, b, c, d, e, f, g, h] = bytes;
    let length = usize::try_from(u32::from_be_bytes([a, b, c, d])).map_err(|_| Refusal::PacketLength)?;
    let code = u32::from_be_bytes([e, f, g, h]);
    if !(PACKET_BYTES_MIN..=PACKET_BYTES_MAX).contains(&length) {
        return Err(Refusal::PacketLength);
    }
    let body_bytes = length - PACKET_BYTES_MIN;
    match code {
        SSL_CODE if body_bytes == 0 => Ok(Head::Ssl),
        GSS_CODE if body_bytes == 0 => Ok(Head::Gss),
        // A process number, and a key of 4 to 256 bytes.
        CANCEL_CODE if (8..=260).contains(&body_bytes) => Ok(Head::Cancel(body_bytes)),
        SSL_CODE | GSS_CODE | CANCEL_CODE => Err(Refusal::PacketLength),
        _ if u16::from_be_bytes([e, f]) == 3 => Ok(Head::Startup { minor: u16::from_be_bytes([g, h]), body_bytes }),
        _ => Err(Refusal::Protocol),
    }
}

/// Process number and key of a CancelRequest's body.
pub(crate) fn cancel(body: &[u8]) -> Option<(i32, &[u8])> {
    let (process, key) = body.split_first_chunk::<4>()?;
    Some((i32::from_be_bytes(*process), key))
}

/// A StartupMessage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Startup {
    /// The protocol's minor version that both sides know.
    pub(crate) minor: u16,
    /// What NegotiateProtocolVersion has to say: protocol options that we don't know. `None`: nothing.
    pub(crate) negotiate: Option<Vec<String>>,
    /// `user`, never empty.
    pub(crate) user: String,
    /// `database`, or the user's name.
    pub(crate) database: String,
    /// The other parameters, in order.
    pub(crate) parameters: Vec<(String, String)>,
}

/// Reads the parameters of a StartupMessage.
///
/// # Errors
/// Every way in which they can be malformed, and what we don't serve.
pub(crate) fn startup(minor: u16, body: &[u8]) -> Result<Startup, Refusal> {
    let mut parameters: Vec<(String, String)> = Vec::new();
    let mut unknown = Vec::new();
    let (mut user, mut database) = (None, None);
    for pair in pairs(body)? {
        let (key, value) = pair;
        let seen = |(k, _): &(String, String)| k.as_str() == key;
        match key {
            "user" if user.is_none() => user = Some(value.to_owned()),
            "database" if database.is_none() => database = Some(value.to_owned()),
            "user" | "database" => return Err(Refusal::DuplicateParameter),
            "replication" => replication(value)?,
            _ if key.starts_with("_pq_.") => unknown.push(key.to_owned()),
            _ if parameters.iter().any(seen) => return Err(Refusal::DuplicateParameter),
            _ => parameters.push((key.to_owned(), value.to_owned())),
        }
    }
    let user = user.filter(|user| !user.is_empty()).ok_or(Refusal::NoUser)?;
    let database = database.filter(|database| !database.is_empty()).unwrap_or_else(|| user.clone());
    let negotiate = (minor > NEWEST_MINOR || !unknown.is_empty()).then_some(unknown);
    Ok(Startup { minor: minor.min(NEWEST_MINOR), negotiate, user, database, parameters })
}

/// Streaming replication is not served, in whatever words it is asked for.
fn replication(value: &str) -> Result<(), Refusal> {
    let asked = !["false", "off", "no", "0"].iter().any(|word| value.eq_ignore_ascii_case(word));
    if asked { Err(Refusal::Replication) } else { Ok(()) }
}

/// Keys and values: texts that end in NUL, and one NUL more at the very end.
fn pairs(body: &[u8]) -> Result<Vec<(&str, &str)>, Refusal> {
    let Some((&0, texts)) = body.split_last() else { return Err(Refusal::PacketLayout) };
    if texts.is_empty() {
        return Ok(Vec::new());
    }
    let Some((&0, texts)) = texts.split_last() else { return Err(Refusal::PacketLayout) };
    let text = |bytes| std::str::from_utf8(bytes).map_err(|_| Refusal::NotUtf8);
    let mut texts = texts.split(|&b| b == 0);
    let mut pairs = Vec::new();
    while let Some(key) = texts.next() {
        let value = texts.next().ok_or(Refusal::PacketLayout)?;
        // An empty key ends the list: here it would hide what follows. A long list takes far more memory than it has
        // bytes.
        if key.is_empty() || pairs.len() == PARAMETERS_MAX {
            return Err(Refusal::PacketLayout);
        }
        pairs.push((text(key)?, text(value)?));
    }
    Ok(pairs)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn eight(length: u32, code: u32) -> [u8; 8] {
        let mut bytes = [0; 8];
        bytes[..4].copy_from_slice(&length.to_be_bytes());
        bytes[4..].copy_from_slice(&code.to_be_bytes());
        bytes
    }

    #[test]
    fn heads() {
        let check = |length, code, expected| assert_eq!(head(eight(length, code)), expected);
        check(8, SSL_CODE, Ok(Head::Ssl));
        check(8, GSS_CODE, Ok(Head::Gss));
        check(9, SSL_CODE, Err(Refusal::PacketLength));
        check(16, CANCEL_CODE, Ok(Head::Cancel(8)));
        check(268, CANCEL_CODE, Ok(Head::Cancel(260)));
        check(15, CANCEL_CODE, Err(Refusal::PacketLength));
        check(269, CANCEL_CODE, Err(Refusal::PacketLength));
        check(8, 3 << 16, Ok(Head::Startup { minor: 0, body_bytes: 0 }));
        check(10_000, 3 << 16 | 2, Ok(Head::Startup { minor: 2, body_bytes: 9_992 }));
        check(10_001, 3 << 16, Err(Refusal::PacketLength));
        check(7, 3 << 16, Err(Refusal::PacketLength));
        check(0, 3 << 16, Err(Refusal::PacketLength));
        check(u32::MAX, 3 << 16, Err(Refusal::PacketLength));
        check(100, 2 << 16, Err(Refusal::Protocol));
        check(100, 4 << 16, Err(Refusal::Protocol));
    }

    #[test]
    fn p4_a_query_is_no_first_packet() {
        assert_eq!(head(*b"Q\x12\xc0\0\0SEL"), Err(Refusal::PacketLength));
        assert_eq!(head(*b"GET / HT"), Err(Refusal::PacketLength));
    }

    /// User, database, and the other parameters.
    type Read<'a> = (&'a str, &'a str, &'a [(&'a str, &'a str)]);

    #[track_caller]
    fn check(minor: u16, body: &[u8], expected: Result<Read<'_>, Refusal>) {
        let found = startup(minor, body);
        let pairs: Vec<_> =
            found.iter().flat_map(|s| s.parameters.iter().map(|(k, v)| (k.as_str(), v.as_str()))).collect();
        let found = found.as_ref().map(|s| (s.user.as_str(), s.database.as_str(), pairs.as_slice()));
        assert_eq!(found, expected.as_ref().map(|e| *e));
    }

    #[test]
    fn w_12_parameters() {
        check(0, b"user\0a\0\0", Ok(("a", "a", &[])));
        check(0, b"user\0a\0database\0b\0x\0\0\0", Ok(("a", "b", &[("x", "")])));
        check(0, b"user\0a\0database\0\0\0", Ok(("a", "a", &[])));
        check(0, b"", Err(Refusal::PacketLayout));
        check(0, b"\0", Err(Refusal::NoUser));
        check(0, b"\0\0", Err(Refusal::PacketLayout));
        check(0, b"user\0\0\0", Err(Refusal::NoUser));
        check(0, b"user\0a\0", Err(Refusal::PacketLayout));
        check(0, b"user\0a", Err(Refusal::PacketLayout));
        check(0, b"user\0\0user\0a\0\0", Err(Refusal::DuplicateParameter));
        check(0, b"user\0a\0user\0b\0\0", Err(Refusal::DuplicateParameter));
        check(0, b"user\0a\0x\0y\0x\0y\0\0", Err(Refusal::DuplicateParameter));
        check(0, b"user\0a\0\0user\0b\0\0", Err(Refusal::PacketLayout));
        check(0, b"user\0a\0\0\0", Err(Refusal::PacketLayout));
        check(0, b"user\0a\0x\0\0", Err(Refusal::PacketLayout));
    }

    #[test]
    fn p5_user_names_must_be_utf8() {
        check(0, b"user\0a\xff\0\0", Err(Refusal::NotUtf8));
        check(0, b"user\0a\xfe\0\0", Err(Refusal::NotUtf8));
        check(0, b"user\0a\0x\xff\0y\0\0", Err(Refusal::NotUtf8));
        check(0, "user\0ä\0\0".as_bytes(), Ok(("ä", "ä", &[])));
    }

    #[test]
    fn w_17_replication_is_refused() {
        for word in ["true", "on", "yes", "1", "database", ""] {
            check(0, format!("user\0a\0replication\0{word}\0\0").as_bytes(), Err(Refusal::Replication));
        }
        check(0, b"user\0a\0replication\0false\0\0", Ok(("a", "a", &[])));
    }

    #[test]
    fn newer_protocols_are_negotiated() {
        let negotiated = |minor, body: &[u8]| startup(minor, body).map(|s| (s.minor, s.negotiate)).unwrap();
        assert_eq!(negotiated(0, b"user\0a\0\0"), (0, None));
        assert_eq!(negotiated(2, b"user\0a\0\0"), (2, None));
        assert_eq!(negotiated(9999, b"user\0a\0\0"), (2, Some(vec![])));
        assert_eq!(negotiated(0, b"user\0a\0_pq_.x\0y\0\0"), (0, Some(vec!["_pq_.x".to_owned()])));
    }

    proptest! {
        #[test]
        fn w_10_no_packet_panics(first in any::<[u8; 8]>(), body in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = head(first);
            let _ = cancel(&body);
            let _ = startup(0, &body);
        }
    }
}
