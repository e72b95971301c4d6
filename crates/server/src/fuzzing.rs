//! What `fuzz/` reaches of this crate: bytes in, and what was read out of them. No part of its interface.

use dataglot_model::Sensitive;

use crate::auth::{IssuerConfig, Issuers};
use crate::message::{self, Kind, Message};
use crate::startup::{self, Head, PACKET_BYTES_MIN};

/// A `Bind`, in all its parts.
#[derive(Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the protocol's own words")]
pub struct Bind<'a> {
    pub portal: &'a str,
    pub statement: &'a str,
    pub formats: Vec<i16>,
    pub values: Vec<Option<Vec<u8>>>,
    pub result_formats: Vec<i16>,
}

/// Reads packets from before login, as the door does. How many bytes they take up to the one that says who
/// comes, or cancels; `None`: they are refused, or not all there.
pub fn first_packets(bytes: &[u8]) -> Option<usize> {
    let mut used = 0;
    loop {
        let rest = bytes.get(used..)?;
        let body_bytes = match startup::head(*rest.first_chunk::<PACKET_BYTES_MIN>()?).ok()? {
            Head::Ssl | Head::Gss => {
                used += PACKET_BYTES_MIN;
                continue;
            }
            Head::Cancel(body_bytes) => {
                let body = rest.get(PACKET_BYTES_MIN..PACKET_BYTES_MIN + body_bytes)?;
                startup::cancel(body)?;
                body_bytes
            }
            Head::Startup { minor, body_bytes } => {
                let body = rest.get(PACKET_BYTES_MIN..PACKET_BYTES_MIN + body_bytes)?;
                startup::startup(minor, body).ok()?;
                body_bytes
            }
        };
        return Some(used + PACKET_BYTES_MIN + body_bytes);
    }
}

/// The bytes of the frame at the start of `input`: `Ok(None)` while that is not known.
///
/// # Errors
/// It is none that a client may send; in words.
pub fn frame(input: &[u8], frame_bytes_max: usize) -> Result<Option<usize>, String> {
    let header = message::header(input, frame_bytes_max).map_err(|fault| fault.to_string())?;
    Ok(header.map(|header| header.frame_bytes))
}

/// Whether the whole frame at the start of `input` holds a message.
pub fn message(input: &[u8], frame_bytes_max: usize) -> bool {
    let Ok(Some(header)) = message::header(input, frame_bytes_max) else { return false };
    let body = input.get(message::HEADER_BYTES..header.frame_bytes);
    body.is_some_and(|body| message::decode(header.kind, body).is_ok())
}

/// The body of a `Bind`; `None`: it is none.
pub fn bind(body: &[u8]) -> Option<Bind<'_>> {
    match message::decode(Kind::Bind, body).ok()? {
        Message::Bind(bind) => {
            let message::Bind { portal, statement, formats, values, result_formats } = bind;
            Some(Bind { portal, statement, formats, values, result_formats })
        }
        Message::Query(_)
        | Message::Parse { .. }
        | Message::Describe(_)
        | Message::Execute { .. }
        | Message::Close(_)
        | Message::Flush
        | Message::Sync
        | Message::Terminate => None,
    }
}

/// Issuers whom we believe.
#[derive(Debug)]
pub struct Tokens {
    issuers: Issuers,
    runtime: tokio::runtime::Runtime,
}

impl Tokens {
    /// Reads their keys; `None`: they can't be read.
    pub fn load(configs: Vec<IssuerConfig>) -> Option<Self> {
        let issuers = Issuers::load(configs).ok()?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().ok()?;
        Some(Tokens { issuers, runtime })
    }

    /// The roles of `user` by its token; `None`: it does not let him in.
    pub fn roles(&self, token: &str, user: &str, database: &str) -> Option<Vec<String>> {
        let token = Sensitive::new(token.to_owned());
        let verified = self.runtime.block_on(self.issuers.verify(&token, user, database));
        verified.ok().map(|user| user.role_names)
    }
}
