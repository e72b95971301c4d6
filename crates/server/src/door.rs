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
use crate::refusal::Refusal;
use crate::server::Shared;
use crate::startup::{self, Head, PACKET_BYTES_MIN, Startup};

/// Why there is no session.
#[derive(Debug)]
pub(crate) enum Turned {
    /// The peer wanted none: it brought a CancelRequest.
    Away,
    /// It sent bytes before it had our answer: an attacker between it and us may have. Nothing is said.
    Stuffed,
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

/// Hears what the peer wants, and starts a session for it if it may have one.
///
/// # Errors
/// [`Turned`] says why not. The connection is to be closed.
pub(crate) async fn enter(link: &mut Link, peer: SocketAddr, place: &Place, shared: &Shared) -> Result<Guest, Turned> {
    let address = peer.ip().to_canonical();
    let startup = match first_packet(link).await? {
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
    if let Some(refusal) = place.refusal() {
        return Err(refusal.clone().into());
    }
    let principal = authenticate(&shared.config.authentication, &startup, address)?;
    let Startup { minor, negotiate, parameters, user, database: _ } = startup;
    let registration = shared.registry.reserve();
    let span = tracing::Span::current();
    span.record("pid", registration.process());
    span.record("user", tracing::field::debug(&user));
    let login = principal.login(parameters, peer.to_string(), registration.process());
    let started = Session::start(std::sync::Arc::clone(&shared.engine), login).await;
    let session = started.map_err(Refusal::of_session)?;
    span.record("org", session.org().as_str());
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
    Ok(Guest { session, registration })
}

/// Answers requests for encryption, each kind once, and reads the packet that follows them.
async fn first_packet(link: &mut Link) -> Result<Packet, Turned> {
    let (mut ssl_asked, mut gss_asked) = (false, false);
    loop {
        let mut first = [0; PACKET_BYTES_MIN];
        link.read_exact(&mut first).await?;
        let asked = match startup::head(first)? {
            Head::Startup { minor, body_bytes } => {
                let mut body = vec![0; body_bytes];
                link.read_exact(&mut body).await?;
                return Ok(Packet::Startup(startup::startup(minor, &body)?));
            }
            Head::Cancel(body_bytes) => {
                let mut body = vec![0; body_bytes];
                link.read_exact(&mut body).await?;
                return Ok(Packet::Cancel(body));
            }
            Head::Ssl => &mut ssl_asked,
            Head::Gss => &mut gss_asked,
        };
        if std::mem::replace(asked, true) {
            return Err(Refusal::RequestedTwice.into());
        }
        if link.has_more() {
            return Err(Turned::Stuffed);
        }
        // Neither is to be had here. The client decides whether it goes on in clear.
        link.out.put_raw(b"N");
        link.flush().await?;
    }
}
