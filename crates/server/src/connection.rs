//! One connection, from its first byte to its last.
//!
//! A connection is one task. It takes one message after the other, hands each to its session, and
//! sends what the session says. While nothing is to be done it also listens for notifications, for
//! the end of the server and for its own idle timeout. A panic ends the connection and nothing else.

use std::future::Future;
use std::net::SocketAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use dataglot_model::{Problem, Report, Severity, SqlState};
use dataglot_session::{Session, TransactionStatus};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until, timeout};
use tracing::Instrument;

use crate::admission::Place;
use crate::door::{self, Guest, Turned};
use crate::link::{Gone, Link};
use crate::lobby::Ticket;
use crate::message::{self, Bind, Fault, HEADER_BYTES, Header, Kind, Message, Target};
use crate::metrics::Metrics;
use crate::outbox::Outbox;
use crate::refusal::Refusal;
use crate::server::{Phase, Shared};

/// Answers of the extended protocol are held back up to so many bytes, unless the client asks.
const HELD_BYTES_MAX: usize = 64 << 10;

/// What a session is given in place of a text that is not one. No statement holds a NUL: the session
/// answers 22021, and its transaction fails as with every other error.
const NOT_A_TEXT: &str = "\0";

/// Why a conversation ended.
enum Ended {
    /// The client said so, or is gone: nobody is there to be told anything.
    Quietly,
    /// The client is to be told this, and nothing after it.
    Telling(Box<Report>),
    /// The client has been told: its outbox ends with a FATAL.
    Told,
}

impl From<Gone> for Ended {
    fn from(gone: Gone) -> Self {
        match gone {
            Gone::Closed => tracing::debug!("connection closed by peer"),
            Gone::NotReading | Gone::Socket(_) => tracing::info!(%gone, "connection lost"),
        }
        Ended::Quietly
    }
}

impl Ended {
    fn telling(report: Report) -> Self {
        Ended::Telling(Box::new(report.fatal()))
    }

    /// The server ends.
    fn shutdown() -> Self {
        Self::telling(Report::error(SqlState::AdminShutdown, "terminating connection due to administrator command"))
    }
}

/// Serves one socket to its end.
///
/// The future is small, and so is what it holds until the peer has said something: thousands may wait like that.
pub(crate) fn run(
    stream: TcpStream,
    peer: SocketAddr,
    ticket: Ticket,
    shared: Arc<Shared>,
    phase: watch::Receiver<Phase>,
) -> impl Future<Output = ()> {
    let empty = tracing::field::Empty;
    let span = tracing::info_span!("connection", addr = %peer, pid = empty, user = empty, org = empty);
    serve(stream, peer, ticket, shared, phase).instrument(span)
}

async fn serve(
    stream: TcpStream,
    peer: SocketAddr,
    ticket: Ticket,
    shared: Arc<Shared>,
    phase: watch::Receiver<Phase>,
) {
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "TCP_NODELAY not set");
    }
    let config = &shared.config;
    let mut link = Link::new(stream, config.write_timeout, config.response_bytes_max, Some(ticket.meter()));
    // Until its last words are said, a connection keeps its place.
    let mut place = Place::Lobby(ticket);
    let ended = caught(talk(&mut link, peer, &mut place, &shared, phase)).await;
    Box::pin(last_words(link, ended)).await;
}

async fn last_words(mut link: Link, ended: Result<Ended, Report>) {
    let ended = ended.unwrap_or_else(|report| {
        link.out.discard();
        Ended::telling(report)
    });
    match ended {
        Ended::Quietly => {}
        Ended::Told => link.close().await,
        Ended::Telling(report) => {
            // A message cut short by its size or its time makes way for the last words.
            if link.out.take_state().overflowed {
                link.out.discard();
            }
            link.out.error(*report, None);
            link.close().await;
        }
    }
}

/// Login, then the conversation. The future of the login is gone when the conversation begins.
async fn talk(
    link: &mut Link,
    peer: SocketAddr,
    place: &mut Place,
    shared: &Shared,
    mut phase: watch::Receiver<Phase>,
) -> Ended {
    let entered = {
        let login = Box::pin(timeout(shared.config.login_timeout, door::enter(link, peer, place, shared)));
        tokio::select! {
            biased;
            entered = login => entered.unwrap_or(Err(Turned::Refused(Refusal::TimedOut))),
            () = reached(&mut phase, Phase::Draining) => Err(Turned::Refused(Refusal::ShuttingDown)),
        }
    };
    let guest = match entered {
        Ok(guest) => guest,
        Err(turned) => {
            shared.metrics.turned(&turned);
            return turned_away(link, turned);
        }
    };
    shared.metrics.let_in();
    tracing::debug!("session started");
    Box::pin(converse(link, guest, shared, phase)).await
}

async fn converse(link: &mut Link, guest: Box<Guest>, shared: &Shared, phase: watch::Receiver<Phase>) -> Ended {
    let Guest { session, registration } = *guest;
    let idle_timeout = shared.config.idle_timeout;
    let frame_bytes_max = shared.config.frame_bytes_max;
    let mut talk = Conversation {
        session,
        metrics: &shared.metrics,
        phase,
        frame_bytes_max,
        idle_timeout,
        ready_since: Some(Instant::now()),
        skipping: false,
    };
    let ended = talk.run(link).await;
    drop(registration);
    ended
}

fn turned_away(link: &mut Link, turned: Turned) -> Ended {
    match turned {
        Turned::Away | Turned::Evicted => Ended::Quietly,
        Turned::Gone(gone) => gone.into(),
        Turned::Stuffed => {
            let code = SqlState::ProtocolViolation.code();
            tracing::warn!(code, "unencrypted data came before the answer to a request for encryption");
            Ended::Quietly
        }
        Turned::Handshake(failed) => {
            tracing::info!(reason = failed.reason(), %failed, "TLS handshake failed");
            Ended::Quietly
        }
        Turned::Refused(refusal) => {
            tracing::info!(code = refusal.sqlstate().code(), refusal = ?refusal.to_string(), "refused");
            // Half a greeting is none.
            link.out.discard();
            Ended::telling(refusal.report())
        }
    }
}

/// Resolves when the server has reached `phase`.
async fn reached(now: &mut watch::Receiver<Phase>, phase: Phase) {
    // The sender lives as long as the server runs; without it there is no server any more.
    let _ = now.wait_for(|now| *now >= phase).await;
}

/// Runs `work`. A panic in it becomes what the client is told; the log has it under the same number.
fn caught<T>(work: impl Future<Output = T>) -> impl Future<Output = Result<T, Report>> {
    static COUNT: AtomicU64 = AtomicU64::new(1);
    let mut work = Box::pin(work);
    std::future::poll_fn(move |cx| match catch_unwind(AssertUnwindSafe(|| work.as_mut().poll(cx))) {
        Ok(poll) => poll.map(Ok),
        Err(_) => {
            let id = format!("{:x}-c{:x}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
            tracing::error!(id, "connection ended by a panic");
            let hint = "This is a fault of dataglot's. The server's log says more under this number.";
            let report = Report::error(SqlState::InternalError, format!("internal error {id}")).with_hint(hint);
            std::task::Poll::Ready(Err(report))
        }
    })
}

/// A session and where it stands in the protocol.
struct Conversation<'a> {
    session: Session,
    metrics: &'a Metrics,
    phase: watch::Receiver<Phase>,
    frame_bytes_max: usize,
    /// How long a session may idle outside of a block.
    idle_timeout: Option<Duration>,
    /// When the client was last told that it may go on; `None`: it is in the middle of something.
    ready_since: Option<Instant>,
    /// An extended message has failed: nothing counts up to Sync.
    skipping: bool,
}

impl Conversation<'_> {
    async fn run(&mut self, link: &mut Link) -> Ended {
        loop {
            if let Err(ended) = self.turn(link).await {
                return ended;
            }
        }
    }

    /// Takes one message, or waits for more of it.
    async fn turn(&mut self, link: &mut Link) -> Result<(), Ended> {
        let header =
            message::header(&link.input, self.frame_bytes_max).map_err(|f| Ended::telling(Report::from(&f)))?;
        let bytes = header.map_or(0, |header| header.frame_bytes);
        match header {
            Some(header) if link.input.len() >= bytes => {
                self.take(link, header).await?;
                link.consume(bytes);
                Ok(())
            }
            Some(_) | None => {
                if !link.out.pending().is_empty() && self.ready_since.is_some() {
                    link.flush().await?;
                }
                let wanted = bytes.saturating_sub(link.input.len());
                self.wait(link, wanted).await
            }
        }
    }

    /// Waits until something happens while nothing is to be done.
    async fn wait(&mut self, link: &mut Link, wanted: usize) -> Result<(), Ended> {
        let limit = self.idle_limit();
        let is_ready = self.ready_since.is_some();
        let idle = async {
            match limit {
                Some((until, _)) => sleep_until(until).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            () = reached(&mut self.phase, Phase::Draining) => return Err(Ended::shutdown()),
            filled = link.fill(wanted) => return Ok(filled?),
            notification = self.session.next_notification(), if is_ready => {
                link.out.notification(notification.map_err(Ended::telling)?);
            }
            () = idle => {
                let report = limit.map(|(_, report)| report);
                return Err(report.map_or(Ended::Quietly, |report| Ended::telling(report())));
            }
        }
        link.flush().await?;
        Ok(())
    }

    /// Until when the session may idle, and what it is told then.
    fn idle_limit(&self) -> Option<(Instant, fn() -> Report)> {
        let since = self.ready_since?;
        match self.session.status() {
            TransactionStatus::Idle => {
                let limits = [self.idle_timeout, self.session.idle_timeout()];
                Some((since + limits.into_iter().flatten().min()?, idle_report))
            }
            TransactionStatus::InBlock | TransactionStatus::Failed => {
                Some((since + self.session.idle_timeout()?, Session::idle_timeout_report))
            }
        }
    }

    /// Does what the frame at the start of the input says.
    async fn take(&mut self, link: &mut Link, header: Header) -> Result<(), Ended> {
        if self.skipping && !matches!(header.kind, Kind::Sync | Kind::Terminate) {
            return Ok(());
        }
        let body = link.input.get(HEADER_BYTES..header.frame_bytes).unwrap_or_default();
        let said = message::decode(header.kind, body);
        let said = match said {
            Ok(Message::Terminate) => return Err(Ended::Quietly),
            Err(fault) if fault.is_fatal() => return Err(Ended::telling(Report::from(&fault))),
            said @ (Ok(_) | Err(_)) => said,
        };
        self.ready_since = None;
        let is_taken = {
            let (session, out) = (&mut self.session, &mut link.out);
            let mut work = Box::pin(dispatch(session, header.kind, said, out));
            tokio::select! {
                biased;
                is_taken = &mut work => is_taken,
                () = reached(&mut self.phase, Phase::Ending) => return Err(Ended::shutdown()),
            }
        };
        let state = link.out.take_state();
        self.metrics.answered(&state);
        if state.overflowed {
            link.out.discard();
            let report = Report::error(SqlState::ProgramLimitExceeded, "the answer is larger than may wait to be sent");
            return Err(Ended::telling(report.with_hint("Ask for less at a time.")));
        }
        if state.fatal {
            return Err(Ended::Told);
        }
        if !is_taken {
            self.skipping = true;
            return Ok(());
        }
        match header.kind {
            Kind::Query | Kind::Sync => {
                self.skipping = false;
                self.ready(link).await
            }
            Kind::Flush => Ok(link.flush().await?),
            Kind::Parse | Kind::Bind | Kind::Describe | Kind::Execute | Kind::Close | Kind::Terminate => {
                self.skipping = state.failed;
                if link.out.pending().len() > HELD_BYTES_MAX {
                    link.flush().await?;
                }
                Ok(())
            }
        }
    }

    /// The client may go on.
    async fn ready(&mut self, link: &mut Link) -> Result<(), Ended> {
        for notification in self.session.take_notifications().await.map_err(Ended::telling)? {
            link.out.notification(notification);
        }
        link.out.ready(self.session.status());
        link.flush().await?;
        self.ready_since = Some(Instant::now());
        Ok(())
    }
}

/// Hands a message to the session. False: an Execute before it has failed, and it was not looked at.
async fn dispatch(session: &mut Session, kind: Kind, said: Result<Message<'_>, Fault>, out: &mut Outbox) -> bool {
    if kind != Kind::Sync && !session.settle(out).await {
        return false;
    }
    match said {
        Ok(Message::Query(sql)) => session.simple(sql, out).await,
        Ok(Message::Parse { name, query, types }) => session.parse(name, query, &types, out).await,
        Ok(Message::Bind(Bind { portal, statement, formats, values, result_formats })) => {
            session.bind(portal, statement, &formats, values, &result_formats, out).await;
        }
        Ok(Message::Describe(Target::Statement(name))) => session.describe_statement(name, out).await,
        Ok(Message::Describe(Target::Portal(name))) => session.describe_portal(name, out).await,
        Ok(Message::Execute { portal, rows_max }) => session.execute(portal, rows_max, out).await,
        Ok(Message::Close(Target::Statement(name))) => session.close_statement(name, out).await,
        Ok(Message::Close(Target::Portal(name))) => session.close_portal(name, out).await,
        Ok(Message::Sync) => session.sync(out).await,
        Ok(Message::Flush | Message::Terminate) => {}
        Err(_) if kind == Kind::Query => session.simple(NOT_A_TEXT, out).await,
        Err(_) => session.parse("", NOT_A_TEXT, &[], out).await,
    }
    true
}

fn idle_report() -> Report {
    Report {
        severity: Severity::Fatal,
        ..Report::error(SqlState::IdleSessionTimeout, "terminating connection due to idle-session timeout")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_panic_ends_in_words() {
        let report = caught::<()>(async {
            tokio::task::yield_now().await;
            panic!("a literal of the user's")
        });
        let report = report.await.unwrap_err();
        assert_eq!(report.sqlstate, SqlState::InternalError);
        assert!(!report.message.contains("literal"));
        assert_eq!(caught(async { 1 }).await.unwrap(), 1);
    }
}
