//! Login by SCRAM-SHA-256, with channel binding where the connection has something to bind to.

use std::net::IpAddr;

use bytes::Bytes;
use dataglot_session::{Credentials, OsEntropy, Proof};
use dataglot_vault::scram::{ChannelBinding, Exchange, ScramError};
use pgwire::messages::startup::Authentication as Answer;

use super::{begin, denied};
use crate::door::Turned;
use crate::link::Link;
use crate::refusal::Refusal;
use crate::server::Shared;
use crate::startup::Startup;

/// Longest message of an exchange (W-02).
const MESSAGE_BYTES_MAX: usize = 16 << 10;

/// Asks for the proof. What the server proves in turn is in the outbox at the end.
pub(super) async fn ask(
    link: &mut Link,
    startup: &Startup,
    peer: IpAddr,
    shared: &Shared,
) -> Result<Option<Proof>, Turned> {
    let (credentials, attempt) = begin(link, startup, peer, shared).await?;
    let proof = exchange(link, startup, credentials).await?;
    attempt.does_not_count();
    Ok(proof)
}

/// The exchange alone.
pub(super) async fn exchange(
    link: &mut Link,
    startup: &Startup,
    credentials: Credentials,
) -> Result<Option<Proof>, Turned> {
    let hash = link.security().end_point_hash.clone();
    let binding = hash.as_deref().map_or(ChannelBinding::None, ChannelBinding::ServerEndPoint);
    let offered = binding.mechanisms().iter().map(|name| (*name).to_owned()).collect();
    link.out.put(&Answer::SASL(offered));
    link.flush().await?;
    let first = link.read_credential(MESSAGE_BYTES_MAX).await?;
    let (mechanism, message) = initial_response(first.bytes()).ok_or(Refusal::Sasl)?;
    let wrong = |error: ScramError| match error {
        ScramError::Denied => denied(startup),
        ScramError::Malformed(reason) => {
            tracing::info!(reason, "malformed SASL exchange");
            Refusal::Sasl
        }
        ScramError::Vault(error) => {
            tracing::error!(%error, "no random numbers");
            Refusal::Unavailable
        }
    };
    let (exchange, server_first) =
        Exchange::start(mechanism, message, credentials.scram(), binding, &OsEntropy).map_err(wrong)?;
    link.out.put(&Answer::SASLContinue(Bytes::from(server_first)));
    link.flush().await?;
    let last = link.read_credential(MESSAGE_BYTES_MAX).await?;
    let server_final = exchange.finish(last.bytes()).map_err(wrong)?;
    link.out.put(&Answer::SASLFinal(Bytes::from(server_final)));
    Ok(credentials.into_proof())
}

/// Mechanism and message of a SASLInitialResponse: a text, and a length with as many bytes. `None`: it is none.
fn initial_response(body: &[u8]) -> Option<(&str, &[u8])> {
    let end = body.iter().position(|b| *b == 0)?;
    let mechanism = std::str::from_utf8(body.get(..end)?).ok()?;
    let (length, message) = body.get(end + 1..)?.split_first_chunk::<4>()?;
    let length = usize::try_from(i32::from_be_bytes(*length)).ok()?;
    (message.len() == length).then_some((mechanism, message))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_02_initial_responses() {
        assert_eq!(initial_response(b"M\0\0\0\0\x01x"), Some(("M", &b"x"[..])));
        assert_eq!(initial_response(b"\0\0\0\0\0"), Some(("", &b""[..])));
        // A length of -1 is "no message": SCRAM has none without.
        for bad in [
            &b""[..],
            b"M",
            b"M\0",
            b"M\0\0\0\0",
            b"M\0\0\0\0\x02x",
            b"M\0\0\0\0\0x",
            b"M\0\xff\xff\xff\xff",
            b"\xff\0\0\0\0\0",
        ] {
            assert_eq!(initial_response(bad), None, "{bad:?}");
        }
    }
}
