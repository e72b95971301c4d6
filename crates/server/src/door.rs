//! From a new socket to a session: what happens before AuthenticationOk.
//!
//! Packets are read to their last byte and not one further, so nothing that came early is ever read
//! later as something else. Only requests for encryption, a CancelRequest and a StartupMessage pass,
//! each with a small cap, and whatever goes wrong here, in any layer, ends the connection.

use std::net::SocketAddr;
use std::time::Instant;

use bytes::Bytes;
use dataglot_session::{Session, TransactionStatus};
use pgwire::messages::startup::{Authentication as Answer, BackendKeyData, NegotiateProtocolVersion, SecretKey};

use crate::admission::Place;
use crate::auth::authenticate;
use crate::cancel::{Key, Registration};
use crate::link::{Gone, Link};
use crate::lobby::Evicted;
use crate::refusal::Refusal;
use crate::server::Shared;
use crate::startup::{self, Head, PACKET_BYTES_MIN, Startup};
use crate::tls::{Begun, Failed, Mode, Tls};

/// Why there is no session.
#[derive(Debug)]
pub(crate) enum Turned {
    /// The peer wanted none: it brought a CancelRequest.
    Away,
    /// It had to go for another one. Nothing is said: nothing may be waited for.
    Evicted,
    /// It sent bytes before it had our answer: an attacker between it and us may have. Nothing is said.
    Stuffed,
    /// There is no TLS with it. What there is to say about that, TLS has said.
    Handshake(Failed),
    /// It is told why.
    Refused(Refusal),
    /// It is gone.
    Gone(Gone),
}

impl From<Refusal> for Turned {
    fn from(refusal: Refusal) -> Self {
        Turned::Refused(refusal)
    }
}

impl From<Evicted> for Turned {
    fn from(Evicted: Evicted) -> Self {
        Turned::Evicted
    }
}

impl From<Failed> for Turned {
    fn from(failed: Failed) -> Self {
        Turned::Handshake(failed)
    }
}

impl From<Gone> for Turned {
    fn from(gone: Gone) -> Self {
        Turned::Gone(gone)
    }
}

/// A client that has been let in. Its greeting is in the outbox, not sent yet.
pub(crate) struct Guest {
    pub(crate) session: Session,
    /// While it lives, the session can be cancelled.
    pub(crate) registration: Registration,
}

/// A first packet that is no request for encryption.
enum Packet {
    Startup(Startup),
    Cancel(Vec<u8>),
}

/// Hears what the peer wants, and starts a session for it if it may have one. Futures are boxed step by step: a peer
/// that says nothing has none but the first.
///
/// # Errors
/// [`Turned`] says why not. The connection is to be closed.
pub(crate) async fn enter(
    link: &mut Link,
    peer: SocketAddr,
    place: &mut Place,
    shared: &Shared,
) -> Result<Box<Guest>, Turned> {
    let address = peer.ip().to_canonical();
    let startup = match first_packet(link, shared.tls.as_deref()).await? {
        Packet::Startup(startup) => startup,
        Packet::Cancel(body) => {
            // Right or wrong, too many or not: the peer sees its socket closed, and no more.
            if let Some((process, key)) = startup::cancel(&body) {
                let allowed = shared.limiter.allows(address, Instant::now());
                shared.metrics.cancel_request(!allowed);
                if allowed {
                    shared.registry.cancel(process, key);
                }
            }
            return Err(Turned::Away);
        }
    };
    // Before anything is asked, of the peer or the store.
    shared.admission.check(address)?;
    let mode = shared.tls.as_ref().map(|tls| tls.mode());
    if !link.security().tls && !may_be_clear(mode, link.is_private(), shared.config.authentication.trust_remote) {
        return Err(Refusal::Unencrypted.into());
    }
    let principal = Box::pin(authenticate(link, &startup, address, shared)).await?;
    let Startup { minor, negotiate, parameters, user, database: _ } = startup;
    let registration = shared.registry.reserve();
    let span = tracing::Span::current();
    span.record("pid", registration.process());
    span.record("user", tracing::field::debug(&user));
    let login = principal.login(parameters, peer.to_string(), registration.process());
    let started = Box::pin(Session::start(std::sync::Arc::clone(&shared.engine), login)).await;
    let session = started.map_err(Refusal::of_session)?;
    span.record("org", session.org().as_str());
    // Only now: before its proof nobody learns who is a superuser.
    place.take_seat(&shared.admission, address, is_superuser(&session))?;
    link.is_admitted();
    let key = Key::random(minor).map_err(|error| {
        tracing::error!(%error, "no random numbers");
        Refusal::Unavailable
    })?;
    if let Some(unknown) = negotiate {
        link.out.put(&NegotiateProtocolVersion::new((3 << 16) | i32::from(minor), unknown));
    }
    link.out.put(&Answer::Ok);
    for (name, value) in session.parameters() {
        link.out.parameter(name, value);
    }
    let secret = SecretKey::Bytes(Bytes::copy_from_slice(key.bytes()));
    link.out.put(&BackendKeyData::new(registration.process(), secret));
    registration.publish(key, session.cancel_handle());
    for notice in session.welcome() {
        link.out.notice(notice.clone());
    }
    link.out.ready(TransactionStatus::Idle);
    Ok(Box::new(Guest { session, registration }))
}

/// Whether a StartupMessage may come in clear: from this machine, or where it was decided that everybody is
/// believed and nothing is asked; and nowhere where TLS is required.
fn may_be_clear(tls: Option<Mode>, is_private: bool, trust_remote: bool) -> bool {
    match tls {
        Some(Mode::Require) => false,
        Some(Mode::Allow) | None => is_private || trust_remote,
    }
}

fn is_superuser(session: &Session) -> bool {
    session.parameters().iter().any(|(name, value)| *name == "is_superuser" && value == "on")
}

/// Answers requests for encryption, each kind once, and reads the packet that follows them.
///
/// TLS begins after a request for it, or with the very first byte. What comes after it is encrypted, and asks
/// for no more encryption.
async fn first_packet(link: &mut Link, tls: Option<&Tls>) -> Result<Packet, Turned> {
    if let Some(tls) = tls
        && link.starts_with_tls().await?
    {
        Box::pin(link.encrypt(tls, Begun::Directly)).await?;
    }
    let (mut ssl_asked, mut gss_asked) = (false, false);
    loop {
        let mut first = [0; PACKET_BYTES_MIN];
        link.read_exact(&mut first).await?;
        let (asked, offered) = match startup::head(first)? {
            Head::Startup { minor, body_bytes } => {
                link.charge(body_bytes)?;
                let mut body = vec![0; body_bytes];
                link.read_exact(&mut body).await?;
                let startup = startup::startup(minor, &body)?;
                // A name that is there twice, as the user's and the database's.
                link.charge(startup.user.len())?;
                return Ok(Packet::Startup(startup));
            }
            Head::Cancel(body_bytes) => {
                let mut body = vec![0; body_bytes];
                link.read_exact(&mut body).await?;
                return Ok(Packet::Cancel(body));
            }
            Head::Ssl => (&mut ssl_asked, tls),
            Head::Gss => (&mut gss_asked, None),
        };
        if std::mem::replace(asked, true) || link.security().tls {
            return Err(Refusal::RequestedTwice.into());
        }
        if link.has_more() {
            return Err(Turned::Stuffed);
        }
        // After N, the client decides whether it goes on in clear.
        link.out.put_raw(if offered.is_some() { b"S" } else { b"N" });
        link.flush().await?;
        if let Some(tls) = offered {
            if !link.starts_with_tls().await? {
                return Err(Turned::Stuffed);
            }
            Box::pin(link.encrypt(tls, Begun::OnRequest)).await?;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn w_07_in_clear_only_from_this_machine() {
        for (tls, is_private, trust_remote, expected) in [
            (None, true, false, true),
            (None, false, false, false),
            (None, false, true, true),
            (Some(Mode::Allow), true, false, true),
            (Some(Mode::Allow), false, false, false),
            (Some(Mode::Allow), false, true, true),
            (Some(Mode::Require), true, false, false),
            (Some(Mode::Require), false, true, false),
        ] {
            assert_eq!(may_be_clear(tls, is_private, trust_remote), expected, "{tls:?} {is_private} {trust_remote}");
        }
    }
}
