//! Connections: each server in turn, the protection that `sslmode` asks for, and a session that is set up
//! before anybody uses it.
//!
//! Every address has `connect_timeout` for all of it: the socket, TLS, the login and the set-up.

mod failure;
mod session;
#[cfg(test)]
pub(crate) mod tests;

use std::future::{Future, poll_fn};
use std::net::IpAddr;
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::Duration;

use futures_util::Stream;
use tokio_postgres::error::SqlState as Code;
use tokio_postgres::tls::MakeTlsConnect;
use tokio_postgres::{AsyncMessage, Client, Config, Error, NoTls, Socket, config};

pub use failure::{Attempt, ConnectError, ConnectFailure};
pub(crate) use session::Role;

use super::dsn::{ChannelBinding, Dsn, Place, SslMode, Target, TargetSession};
use super::tls;

/// What a connection's server sends unasked. It has to be polled for the connection to go on, and ends
/// with it: what is still waiting for an answer fails then.
pub(crate) type MessageStream = Pin<Box<dyn Stream<Item = Result<AsyncMessage, Error>> + Send>>;

/// A connection that was made.
pub(crate) struct Link {
    /// What sends statements.
    pub(crate) client: Client,
    /// What carries them.
    pub(crate) messages: MessageStream,
    /// The server that it reached: `host "x" port 5432`.
    pub(crate) location: String,
    /// The same, with the address under which it was reached.
    pub(crate) target: Target,
    /// What it said about itself.
    pub(crate) role: Role,
}

impl Link {
    /// Waits for an answer while the connection goes on. Notices and notifications are passed over.
    pub(crate) async fn drive<T>(
        messages: &mut MessageStream,
        work: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        let mut work = pin!(work);
        let mut broken = None;
        poll_fn(|cx| {
            let over = loop {
                match messages.as_mut().poll_next(cx) {
                    Poll::Ready(Some(Ok(_))) => {}
                    Poll::Ready(Some(Err(error))) => broken = Some(error),
                    Poll::Ready(None) => break true,
                    Poll::Pending => break false,
                }
            };
            match (work.as_mut().poll(cx), broken.take()) {
                (Poll::Ready(Ok(done)), _) => Poll::Ready(Ok(done)),
                // Why the connection broke tells more than that it did.
                (_, Some(error)) => Poll::Ready(Err(error)),
                (Poll::Ready(Err(error)), None) => Poll::Ready(Err(error)),
                (Poll::Pending, None) if over => {
                    cx.waker().wake_by_ref();
                    Poll::Pending
                }
                (Poll::Pending, None) => Poll::Pending,
            }
        })
        .await
    }
}

/// What is done with a session as soon as it is there.
#[derive(Clone, Copy)]
enum SetUp<'a> {
    /// It is set up for this purpose, with a bound of what a statement takes.
    For(&'a str, Duration),
    /// Nothing: what was set might stay behind in a pool.
    Nothing,
}

/// Connects to the first server that does, and sets the session up. `purpose` is `writer`, `reader`,
/// `listener` or `migrate`; it decides how long a statement may wait. `statement`: the longest that one may take.
pub(crate) async fn connect(dsn: &Dsn, purpose: &str, statement: Duration) -> Result<Link, ConnectError> {
    connect_in_turn(dsn, SetUp::For(purpose, statement)).await
}

/// Connects and leaves the session as it is.
pub(crate) async fn connect_bare(dsn: &Dsn) -> Result<Link, ConnectError> {
    connect_in_turn(dsn, SetUp::Nothing).await
}

async fn connect_in_turn(dsn: &Dsn, set_up: SetUp<'_>) -> Result<Link, ConnectError> {
    let rounds: &[TargetSession] = match dsn.target_session {
        TargetSession::PreferStandby => &[TargetSession::Standby, TargetSession::Any],
        TargetSession::Any => &[TargetSession::Any],
        TargetSession::ReadWrite => &[TargetSession::ReadWrite],
        TargetSession::ReadOnly => &[TargetSession::ReadOnly],
        TargetSession::Primary => &[TargetSession::Primary],
        TargetSession::Standby => &[TargetSession::Standby],
    };
    let mut targets: Vec<&Target> = dsn.targets.iter().collect();
    if dsn.shuffle_hosts {
        shuffle(&mut targets);
    }
    let mut attempts = Vec::new();
    for wanted in rounds {
        for target in &targets {
            match connect_target(dsn, target, *wanted, set_up).await {
                Ok(link) => return Ok(link),
                Err(failure) => {
                    let next = failure.is_of_this_server();
                    attempts.push(Attempt { server: target.to_string(), failure });
                    if !next {
                        return Err(ConnectError { attempts });
                    }
                }
            }
        }
    }
    Err(ConnectError { attempts })
}

async fn connect_target(
    dsn: &Dsn,
    target: &Target,
    wanted: TargetSession,
    set_up: SetUp<'_>,
) -> Result<Link, ConnectFailure> {
    let mut failure = ConnectFailure::Resolve;
    for address in bounded(dsn, addresses(dsn, target)).await? {
        let reached = match &target.place {
            Place::Tcp { name, .. } => Target { place: Place::Tcp { name: name.clone(), address }, port: target.port },
            Place::Unix(_) => target.clone(),
        };
        let tried = bounded(dsn, async {
            let link = log_in(dsn, target, reached, set_up).await?;
            fits(wanted, link.role).map(|()| link)
        });
        match tried.await {
            Ok(link) => return Ok(link),
            Err(other) if !other.is_of_this_server() => return Err(other),
            Err(other) => failure = other,
        }
    }
    Err(failure)
}

async fn bounded<T>(dsn: &Dsn, work: impl Future<Output = Result<T, ConnectFailure>>) -> Result<T, ConnectFailure> {
    match dsn.connect_timeout {
        Some(limit) => tokio::time::timeout(limit, work).await.unwrap_or(Err(ConnectFailure::Timeout)),
        None => work.await,
    }
}

/// Where to knock. A socket directory has no address.
async fn addresses(dsn: &Dsn, target: &Target) -> Result<Vec<Option<IpAddr>>, ConnectFailure> {
    let name = match &target.place {
        Place::Unix(_) => return Ok(vec![None]),
        Place::Tcp { address: Some(address), .. } => return Ok(vec![Some(*address)]),
        Place::Tcp { name, address: None } => name.as_deref().unwrap_or_default(),
    };
    let found = tokio::net::lookup_host((name, target.port)).await.map_err(|_| ConnectFailure::Resolve)?;
    let mut found: Vec<_> = found.map(|a| a.ip()).collect();
    found.dedup();
    if dsn.shuffle_hosts {
        shuffle(&mut found);
    }
    Ok(found.into_iter().map(Some).collect())
}

async fn log_in(dsn: &Dsn, named: &Target, reached: Target, set_up: SetUp<'_>) -> Result<Link, ConnectFailure> {
    let (client, mut messages) = protect(dsn, named, &reached).await?;
    let asked = async {
        match set_up {
            SetUp::For(purpose, statement) => session::set_up(&client, purpose, statement).await,
            SetUp::Nothing => session::look(&client).await,
        }
    };
    let role = Link::drive(&mut messages, asked).await.map_err(|e| ConnectFailure::from_driver(&e))?;
    Ok(Link { client, messages, location: named.to_string(), target: reached, role })
}

/// Logs in with the protection that the mode asks for, and with the other one where it admits both.
async fn protect(dsn: &Dsn, named: &Target, reached: &Target) -> Result<(Client, MessageStream), ConnectFailure> {
    let config = configuration(dsn, reached);
    let mode = dsn.mode_for(named);
    match mode {
        SslMode::Disable => plain(config).await,
        SslMode::Allow => match plain(config.clone()).await {
            Err(failure) if is_by_rule(&failure) => encrypted(dsn, config, mode, config::SslMode::Require).await,
            done => done,
        },
        SslMode::Prefer => match encrypted(dsn, config.clone(), mode, config::SslMode::Prefer).await {
            Err(failure) if is_by_rule(&failure) => plain(config).await,
            // If that fails too, it is the first failure that has to be mended.
            Err(failure @ ConnectFailure::Tls { .. }) => plain(config).await.map_err(|_| failure),
            done => done,
        },
        SslMode::Require | SslMode::VerifyCa | SslMode::VerifyFull => {
            encrypted(dsn, config, mode, config::SslMode::Require).await
        }
    }
}

/// Whether a rule in `pg_hba.conf` may have refused it for the protection that it had.
fn is_by_rule(failure: &ConnectFailure) -> bool {
    matches!(failure, ConnectFailure::Authentication { code } if code == Code::INVALID_AUTHORIZATION_SPECIFICATION.code())
}

async fn plain(mut config: Config) -> Result<(Client, MessageStream), ConnectFailure> {
    config.ssl_mode(config::SslMode::Disable);
    open(&config, NoTls).await
}

async fn encrypted(
    dsn: &Dsn,
    mut config: Config,
    mode: SslMode,
    strength: config::SslMode,
) -> Result<(Client, MessageStream), ConnectFailure> {
    let connector = tls::connector(&dsn.tls, mode).map_err(|reason| ConnectFailure::Tls { reason })?;
    config.ssl_mode(strength);
    open(&config, connector).await
}

async fn open<T>(config: &Config, tls: T) -> Result<(Client, MessageStream), ConnectFailure>
where
    T: MakeTlsConnect<Socket>,
    T::Stream: Send + 'static,
{
    let (client, connection) = config.connect(tls).await.map_err(|e| ConnectFailure::from_driver(&e))?;
    let mut connection = Some(connection);
    let messages = futures_util::stream::poll_fn(move |cx| {
        let Some(open) = &mut connection else { return Poll::Ready(None) };
        let message = open.poll_message(cx);
        if matches!(message, Poll::Ready(None | Some(Err(_)))) {
            // Whoever waits for an answer learns by this that none will come.
            connection = None;
        }
        message
    });
    Ok((client, Box::pin(messages)))
}

fn configuration(dsn: &Dsn, reached: &Target) -> Config {
    let mut config = Config::new();
    match &reached.place {
        Place::Unix(directory) => {
            config.host_path(directory);
        }
        Place::Tcp { name, address } => {
            config.host(name.clone().or_else(|| address.map(|a| a.to_string())).unwrap_or_default());
            if let Some(address) = address {
                config.hostaddr(*address);
            }
        }
    }
    config.port(reached.port).user(&dsn.user).dbname(&dsn.dbname).application_name(dsn.application());
    if let Some(options) = &dsn.options {
        config.options(options);
    }
    if let Some(password) = dsn.password_for(reached) {
        config.password(password.open());
    }
    config.channel_binding(match dsn.channel_binding {
        ChannelBinding::Disable => config::ChannelBinding::Disable,
        ChannelBinding::Prefer => config::ChannelBinding::Prefer,
        ChannelBinding::Require => config::ChannelBinding::Require,
    });
    let keepalives = &dsn.keepalives;
    config
        .keepalives(keepalives.on)
        .keepalives_idle(keepalives.idle)
        .keepalives_interval(keepalives.interval)
        .keepalives_retries(keepalives.count)
        .tcp_user_timeout(keepalives.user_timeout);
    config
}

/// Whether the session is of the kind that is wanted.
fn fits(wanted: TargetSession, role: Role) -> Result<(), ConnectFailure> {
    let read_only = role.standby || role.read_only;
    let (fits, otherwise) = match wanted {
        TargetSession::Any | TargetSession::PreferStandby => (true, ConnectFailure::Standby),
        TargetSession::ReadWrite if role.standby => (false, ConnectFailure::Standby),
        TargetSession::ReadWrite => (!read_only, ConnectFailure::ReadOnly),
        TargetSession::Primary => (!role.standby, ConnectFailure::Standby),
        TargetSession::ReadOnly => (read_only, ConnectFailure::Primary),
        TargetSession::Standby => (role.standby, ConnectFailure::Primary),
    };
    if fits { Ok(()) } else { Err(otherwise) }
}

/// Any order, each as likely as the others but for the bias of a remainder. Without randomness the order
/// stays.
fn shuffle<T>(list: &mut [T]) {
    for end in (1..list.len()).rev() {
        if let Ok(random) = getrandom::u32() {
            list.swap(end, random as usize % (end + 1));
        }
    }
}
