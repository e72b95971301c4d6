//! Frames of the wire, and the messages inside them.
//!
//! In: bytes of a client that has logged in. Out: one [`Message`] at a time, borrowed from its own
//! frame. A frame's type and length are judged by [`header`] before a byte of its body is waited for;
//! a body is read from its own slice alone, and must be used up to the last byte. Nothing is
//! allocated by a count or a length that the frame itself does not cover.
//!
//! pgwire's decoders are not used here on purpose: they read past a truncated body by panicking and
//! turn broken UTF-8 into U+FFFD. What a check has to walk to make them safe is the whole message.

use dataglot_model::{Problem, SqlState};

/// Bytes of a frame's type and length.
pub(crate) const HEADER_BYTES: usize = 5;
/// The longest frame of a type that carries a name at most.
const SHORT_BYTES_MAX: usize = 10_000;

/// The types of message that a client may send after login.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the protocol's own words")]
pub(crate) enum Kind {
    Query,
    Parse,
    Bind,
    Describe,
    Execute,
    Close,
    Flush,
    Sync,
    Terminate,
}

/// Type and length of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    /// What it is.
    pub(crate) kind: Kind,
    /// Bytes of the whole frame, type and length among them.
    pub(crate) frame_bytes: usize,
}

/// What is wrong with a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Fault {
    /// No message has this type, or none that a client sends now.
    #[error("invalid frontend message type {0}")]
    UnknownType(u8),
    /// `FunctionCall`.
    #[error("function call messages are not supported")]
    FunctionCall,
    /// Shorter than its own length field.
    #[error("invalid message length")]
    Length,
    /// Longer than allowed.
    #[error("message is longer than the limit of {limit} bytes")]
    TooLong {
        /// Bytes allowed for this type.
        limit: usize,
    },
    /// The body has too little, too much, or something that cannot be.
    #[error("invalid message format")]
    Format,
    /// A text is not UTF-8, or holds a NUL.
    #[error("invalid byte sequence for encoding \"UTF8\"")]
    NotText,
}

impl Fault {
    /// Whether the connection ends. A text that is not UTF-8 is a client's slip, not a broken client.
    pub(crate) const fn is_fatal(self) -> bool {
        match self {
            Fault::UnknownType(_) | Fault::FunctionCall | Fault::Length | Fault::TooLong { .. } | Fault::Format => true,
            Fault::NotText => false,
        }
    }
}

impl Problem for Fault {
    fn sqlstate(&self) -> SqlState {
        match self {
            Fault::UnknownType(_) | Fault::Length | Fault::TooLong { .. } | Fault::Format => {
                SqlState::ProtocolViolation
            }
            Fault::FunctionCall => SqlState::FeatureNotSupported,
            Fault::NotText => SqlState::CharacterNotInRepertoire,
        }
    }
}

/// Type and length of the frame at the start of `input`; `None` while they are not all there.
///
/// # Errors
/// The type is judged as soon as it is there, the length as soon as that is: neither waits for a body.
pub(crate) fn header(input: &[u8], frame_bytes_max: usize) -> Result<Option<Header>, Fault> {
    let Some((&first, rest)) = input.split_first() else { return Ok(None) };
    let (kind, limit) = match first {
        b'Q' => (Kind::Query, frame_bytes_max),
        b'P' => (Kind::Parse, frame_bytes_max),
        b'B' => (Kind::Bind, frame_bytes_max),
        b'D' => (Kind::Describe, SHORT_BYTES_MAX),
        b'E' => (Kind::Execute, SHORT_BYTES_MAX),
        b'C' => (Kind::Close, SHORT_BYTES_MAX),
        b'H' => (Kind::Flush, SHORT_BYTES_MAX),
        b'S' => (Kind::Sync, SHORT_BYTES_MAX),
        b'X' => (Kind::Terminate, SHORT_BYTES_MAX),
        b'F' => return Err(Fault::FunctionCall),
        other => return Err(Fault::UnknownType(other)),
    };
    let Some(length) = rest.first_chunk::<4>() else { return Ok(None) };
    let length = usize::try_from(i32::from_be_bytes(*length)).map_err(|_| Fault::Length)?;
    if length < 4 {
        return Err(Fault::Length);
    }
    if length > limit {
        return Err(Fault::TooLong { limit });
    }
    Ok(Some(Header { kind, frame_bytes: length + 1 }))
}

/// A message, borrowed from its frame.
#[derive(Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the protocol's own words")]
pub(crate) enum Message<'a> {
    Query(&'a str),
    Parse { name: &'a str, query: &'a str, types: Vec<u32> },
    Bind(Bind<'a>),
    Describe(Target<'a>),
    Execute { portal: &'a str, rows_max: i32 },
    Close(Target<'a>),
    Flush,
    Sync,
    Terminate,
}

/// `Bind`. No `Debug` of its values: they are the user's.
#[derive(PartialEq, Eq)]
#[allow(missing_docs, reason = "the protocol's own words")]
pub(crate) struct Bind<'a> {
    pub(crate) portal: &'a str,
    pub(crate) statement: &'a str,
    pub(crate) formats: Vec<i16>,
    pub(crate) values: Vec<Option<Vec<u8>>>,
    pub(crate) result_formats: Vec<i16>,
}

impl std::fmt::Debug for Bind<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Bind").field("portal", &self.portal).field("values", &self.values.len()).finish_non_exhaustive()
    }
}

/// What `Describe` and `Close` speak of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the protocol's own words")]
pub(crate) enum Target<'a> {
    Statement(&'a str),
    Portal(&'a str),
}

/// Reads the body of a frame of that kind. `body` is all of it, and nothing else.
///
/// # Errors
/// [`Fault::Format`] or [`Fault::NotText`].
pub(crate) fn decode(kind: Kind, body: &[u8]) -> Result<Message<'_>, Fault> {
    let mut body = Body(body);
    let message = match kind {
        Kind::Query => {
            // A NUL inside is named for what it is; elsewhere it can't be told from the end of a text.
            let (&last, text) = body.0.split_last().ok_or(Fault::Format)?;
            if last != 0 {
                return Err(Fault::Format);
            }
            if text.contains(&0) {
                return Err(Fault::NotText);
            }
            return Ok(Message::Query(std::str::from_utf8(text).map_err(|_| Fault::NotText)?));
        }
        Kind::Parse => {
            let (name, query) = (body.text()?, body.text()?);
            let types = body.list(|chunk| u32::from_be_bytes(*chunk))?;
            Message::Parse { name: name.check()?, query: query.check()?, types }
        }
        Kind::Bind => {
            let (portal, statement) = (body.text()?, body.text()?);
            let formats = body.list(|chunk| i16::from_be_bytes(*chunk))?;
            let values = body.values()?;
            let result_formats = body.list(|chunk| i16::from_be_bytes(*chunk))?;
            body.end()?;
            Message::Bind(Bind {
                portal: portal.check()?,
                statement: statement.check()?,
                formats,
                values,
                result_formats,
            })
        }
        Kind::Describe => Message::Describe(body.target()?),
        Kind::Close => Message::Close(body.target()?),
        Kind::Execute => {
            let portal = body.text()?;
            let rows_max = i32::from_be_bytes(*body.chunk()?);
            body.end()?;
            Message::Execute { portal: portal.check()?, rows_max }
        }
        Kind::Flush => Message::Flush,
        Kind::Sync => Message::Sync,
        Kind::Terminate => Message::Terminate,
    };
    body.end()?;
    Ok(message)
}

/// The rest of a body.
struct Body<'a>(&'a [u8]);

/// A text that is not known to be UTF-8 yet: the form of the whole body is judged first.
struct Text<'a>(&'a [u8]);

impl<'a> Text<'a> {
    fn check(self) -> Result<&'a str, Fault> {
        std::str::from_utf8(self.0).map_err(|_| Fault::NotText)
    }
}

impl<'a> Body<'a> {
    fn chunk<const N: usize>(&mut self) -> Result<&'a [u8; N], Fault> {
        let (chunk, rest) = self.0.split_first_chunk::<N>().ok_or(Fault::Format)?;
        self.0 = rest;
        Ok(chunk)
    }

    fn take(&mut self, bytes: usize) -> Result<&'a [u8], Fault> {
        let (taken, rest) = self.0.split_at_checked(bytes).ok_or(Fault::Format)?;
        self.0 = rest;
        Ok(taken)
    }

    fn text(&mut self) -> Result<Text<'a>, Fault> {
        let end = self.0.iter().position(|&b| b == 0).ok_or(Fault::Format)?;
        let text = self.take(end)?;
        self.take(1)?;
        Ok(Text(text))
    }

    fn count(&mut self) -> Result<usize, Fault> {
        Ok(usize::from(u16::from_be_bytes(*self.chunk()?)))
    }

    /// A count and as many integers.
    fn list<const N: usize, T>(&mut self, read: impl Fn(&[u8; N]) -> T) -> Result<Vec<T>, Fault> {
        let count = self.count()?;
        let bytes = self.take(count * N)?;
        Ok(bytes.as_chunks::<N>().0.iter().map(read).collect())
    }

    /// A count and as many values, each a length (-1: NULL) and its bytes.
    fn values(&mut self) -> Result<Vec<Option<Vec<u8>>>, Fault> {
        let count = self.count()?;
        if count * 4 > self.0.len() {
            return Err(Fault::Format);
        }
        let mut values = Vec::with_capacity(count);
        for _ in 0..count {
            values.push(match i32::from_be_bytes(*self.chunk()?) {
                -1 => None,
                bytes => Some(self.take(usize::try_from(bytes).map_err(|_| Fault::Format)?)?.to_vec()),
            });
        }
        Ok(values)
    }

    fn target(&mut self) -> Result<Target<'a>, Fault> {
        let [of] = *self.chunk::<1>()?;
        let name = self.text()?;
        self.end()?;
        match of {
            b'S' => Ok(Target::Statement(name.check()?)),
            b'P' => Ok(Target::Portal(name.check()?)),
            _ => Err(Fault::Format),
        }
    }

    fn end(&self) -> Result<(), Fault> {
        if self.0.is_empty() { Ok(()) } else { Err(Fault::Format) }
    }
}

#[cfg(test)]
mod tests;
