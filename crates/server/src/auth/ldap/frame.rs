//! What comes from a directory, judged before the library reads it: that takes messages of any length, and goes as
//! deep into them as they are nested, until there is no stack left, which ends the process.
//!
//! A message is one element of BER. Elements have a tag of one byte and a definite length, as in all of LDAP
//! (RFC 4511, 5.1).

use tokio::io::{AsyncRead, AsyncReadExt as _};

/// Longest message, in bytes.
const MESSAGE_BYTES_MAX: usize = 256 << 10;
/// How deep elements may be within each other. LDAP itself needs seven.
const DEPTH_MAX: usize = 16;
/// Most bytes of all the messages on one connection.
const BYTES_MAX: usize = 1 << 20;
/// Most elements in them. Each takes far more memory once it is read than its two bytes.
const ELEMENTS_MAX: usize = 32 << 10;

/// The start of an element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Header {
    tag: u8,
    /// Tag and length.
    bytes: usize,
    body_bytes: usize,
}

/// Why the start of an element is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NoHeader {
    /// So many bytes of it are needed.
    Incomplete(usize),
    /// None that LDAP has.
    Wrong,
}

impl Header {
    const CONSTRUCTED: u8 = 0x20;

    fn read(bytes: &[u8]) -> Result<Header, NoHeader> {
        let [tag, length, rest @ ..] = bytes else { return Err(NoHeader::Incomplete(2)) };
        if tag & 0x1f == 0x1f {
            return Err(NoHeader::Wrong);
        }
        let longer = match length {
            0..=0x7f => return Ok(Header { tag: *tag, bytes: 2, body_bytes: usize::from(*length) }),
            0x81..=0x84 => usize::from(length - 0x80),
            0x80 | 0x85.. => return Err(NoHeader::Wrong),
        };
        let length = rest.get(..longer).ok_or(NoHeader::Incomplete(2 + longer))?;
        let body_bytes = length.iter().fold(0, |sum, byte| sum << 8 | usize::from(*byte));
        Ok(Header { tag: *tag, bytes: 2 + longer, body_bytes })
    }
}

/// How many elements the message has; `None`: it is not one whole element, or is nested too deep.
fn elements(message: &[u8]) -> Option<usize> {
    let (mut at, mut count) = (0, 0);
    // Where the elements end that the one at `at` is in.
    let mut ends = vec![message.len()];
    while at < message.len() {
        let header = Header::read(message.get(at..)?).ok()?;
        let body = at + header.bytes;
        let end = body.checked_add(header.body_bytes)?;
        // The first one is the message.
        if ends.last().is_none_or(|outer| end > *outer) || (at == 0 && end != message.len()) {
            return None;
        }
        count += 1;
        if header.tag & Header::CONSTRUCTED == 0 {
            at = end;
        } else if ends.len() > DEPTH_MAX {
            return None;
        } else {
            ends.push(end);
            at = body;
        }
        while ends.last() == Some(&at) {
            ends.pop();
        }
    }
    ends.is_empty().then_some(count)
}

/// What may still come on a connection.
#[derive(Debug)]
pub(super) struct Allowance {
    bytes: usize,
    elements: usize,
}

impl Default for Allowance {
    fn default() -> Self {
        Allowance { bytes: BYTES_MAX, elements: ELEMENTS_MAX }
    }
}

impl Allowance {
    /// The next message, and nothing of what follows it. `None`: there is none, or it is not to be read on.
    pub(super) async fn next(&mut self, from: &mut (impl AsyncRead + Unpin)) -> Option<Vec<u8>> {
        let mut message = Vec::new();
        let header = loop {
            match Header::read(&message) {
                Ok(header) => break header,
                Err(NoHeader::Wrong) => return None,
                Err(NoHeader::Incomplete(bytes)) => fill(&mut message, bytes, from).await?,
            }
        };
        let bytes = header.bytes.checked_add(header.body_bytes)?;
        if bytes > MESSAGE_BYTES_MAX {
            return None;
        }
        self.bytes = self.bytes.checked_sub(bytes)?;
        fill(&mut message, bytes, from).await?;
        self.elements = self.elements.checked_sub(elements(&message)?)?;
        Some(message)
    }
}

/// Makes `message` that long.
async fn fill(message: &mut Vec<u8>, bytes: usize, from: &mut (impl AsyncRead + Unpin)) -> Option<()> {
    let start = message.len();
    message.resize(bytes, 0);
    from.read_exact(message.get_mut(start..)?).await.ok().map(drop)
}

/// The body of the element of that tag at the start, and what follows it.
fn element(bytes: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    let header = Header::read(bytes).ok().filter(|header| header.tag == tag)?;
    bytes.get(header.bytes..)?.split_at_checked(header.body_bytes)
}

/// That TLS is wanted: an ExtendedRequest of number 1 (RFC 4511, 4.14.1).
pub(super) const STARTTLS: &[u8] = b"\x30\x1d\x02\x01\x01\x77\x18\x80\x161.3.6.1.4.1.1466.20037";

/// Whether a message is the ExtendedResponse to that, and says yes.
pub(super) fn begins_tls(message: &[u8]) -> bool {
    let success = || {
        let (message, _) = element(message, 0x30)?;
        let (number, rest) = element(message, 0x02)?;
        let (response, _) = element(rest, 0x78)?;
        let (code, _) = element(response, 0x0a)?;
        Some(number == [1] && code == [0])
    };
    success() == Some(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `levels` elements within each other, each with a length of three bytes.
    fn nested(levels: usize) -> Vec<u8> {
        let mut bytes = Vec::new();
        for level in (0..levels).rev() {
            let length = u32::try_from(level * 5).unwrap().to_be_bytes();
            bytes.extend([0x30, 0x83, length[1], length[2], length[3]]);
        }
        bytes
    }

    async fn read(mut bytes: &[u8]) -> Option<Vec<u8>> {
        Allowance::default().next(&mut bytes).await
    }

    #[tokio::test]
    async fn a_10_an_answer_is_short_and_not_deep() {
        assert_eq!(read(&nested(16)).await, Some(nested(16)));
        assert_eq!(read(&nested(17)).await, None);
        // This is what would have ended the process.
        let deep = nested(20_000);
        assert_eq!(deep.len(), 100_000);
        assert_eq!(read(&deep).await, None);
        let flat = |bytes: usize| {
            let length = u32::try_from(bytes - 6).unwrap().to_be_bytes();
            [&[0x04, 0x84][..], &length, &vec![0; bytes - 6]].concat()
        };
        assert!(read(&flat(MESSAGE_BYTES_MAX)).await.is_some());
        assert_eq!(read(&flat(MESSAGE_BYTES_MAX + 1)).await, None);
        // Nothing is waited for, or given room, that is too long.
        assert_eq!(read(b"\x30\x84\xff\xff\xff\xff").await, None);
    }

    #[tokio::test]
    async fn a_10_all_answers_together_are_short_and_few() {
        let many = |bytes: &[u8]| {
            let body = bytes.repeat((MESSAGE_BYTES_MAX - 6) / bytes.len());
            let length = u32::try_from(body.len()).unwrap().to_be_bytes();
            [&[0x30, 0x84][..], &length, &body].concat()
        };
        assert_eq!(read(&many(b"\x05\x00")).await, None, "too many elements");
        let message = many(&[&b"\x04\x7f"[..], &[0; 127]].concat());
        let all = message.repeat(5);
        let (mut all, mut allowed) = (all.as_slice(), Allowance::default());
        for _ in 0..4 {
            assert_eq!(allowed.next(&mut all).await.as_ref(), Some(&message));
        }
        assert_eq!(allowed.next(&mut all).await, None);
    }

    #[tokio::test]
    async fn a_10_an_answer_is_one_whole_element() {
        for good in [&b"\x30\x00"[..], b"\x05\x00", b"\x30\x04\x30\x00\x30\x00", b"\x30\x03\x04\x01x", b"\x30\x81\x00"]
        {
            assert_eq!(read(good).await.as_deref(), Some(good));
        }
        for bad in [
            &b""[..],
            b"\x30",
            b"\x30\x81",
            b"\x30\x05\x04\x01x",
            b"\x30\x80\x00\x00",
            b"\x30\x85\x00\x00\x00\x00\x00",
            b"\x3f\x20\x00",
            b"\x30\x03\x04\x02x",
            b"\x30\x01\x04",
            b"\x30\x04\x30\x03\x04\x01",
        ] {
            assert_eq!(read(bad).await, None, "{bad:02x?}");
        }
        // What follows is left where it is.
        let mut two = &b"\x30\x00\x16\x03"[..];
        assert_eq!(Allowance::default().next(&mut two).await.as_deref(), Some(&b"\x30\x00"[..]));
        assert_eq!(two, b"\x16\x03");
    }

    #[test]
    fn a_10_only_a_yes_begins_tls() {
        assert_eq!(elements(STARTTLS), Some(4));
        assert!(begins_tls(b"\x30\x0c\x02\x01\x01\x78\x07\x0a\x01\x00\x04\x00\x04\x00"));
        assert!(begins_tls(
            b"\x30\x84\x00\x00\x00\x10\x02\x01\x01\x78\x84\x00\x00\x00\x07\x0a\x01\x00\x04\x00\x04\x00"
        ));
        for no in [
            &b"\x30\x0c\x02\x01\x01\x78\x07\x0a\x01\x02\x04\x00\x04\x00"[..],
            b"\x30\x0c\x02\x01\x02\x78\x07\x0a\x01\x00\x04\x00\x04\x00",
            b"\x30\x0c\x02\x01\x01\x61\x07\x0a\x01\x00\x04\x00\x04\x00",
            b"\x30\x05\x02\x01\x01\x78\x00",
            b"\x30\x00",
            b"",
        ] {
            assert!(!begins_tls(no), "{no:02x?}");
        }
    }
}
