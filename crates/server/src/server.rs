//! The server: a listening socket, a task for each connection, and their end.
//!
//! Shutdown has two steps. First nobody new is let in, idle sessions are told 57P01, and statements
//! that run may finish. When their time is over they are cancelled, and at last told to end.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use dataglot_session::Engine;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::admission::Admission;
use crate::auth::{
    Authentication, Directory, DirectoryConfig, DirectoryError, Gate, Hba, IssuerConfig, IssuerError, Issuers, Method,
    network,
};
use crate::cancel::{Limiter, Registry};
use crate::config::Config;
use crate::connection;
use crate::descriptors;
use crate::http::{Http, HttpConfig, HttpError};
use crate::lobby::Lobby;
use crate::metrics::Metrics;
use crate::tls::{self, Tls, TlsConfig, TlsError};

/// What a frame may have besides the longest query string: names, types, lengths.
const FRAME_SLACK_BYTES: usize = 64 << 10;
/// How long each of the last steps of a shutdown may take.
const LAST_STEP: Duration = Duration::from_secs(1);
/// How long the server waits when it can't accept: for file descriptors, most likely.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// How long a connection that has to go may take to close its socket.
const CLOSE_PAUSE: Duration = Duration::from_millis(1);
/// How many connections may wait to be accepted, if the system allows as many.
const BACKLOG: i32 = 4096;

/// How a server serves.
#[derive(Clone, Debug)]
pub struct ServerConfig {
    /// Where it listens. Port 0: any that is free.
    pub listen: SocketAddr,
    /// Where health checks and metrics are answered; `None`: nowhere.
    pub http: Option<HttpConfig>,
    /// TLS; `None`: there is none.
    pub tls: Option<TlsConfig>,
    /// How users are let in.
    pub authentication: Authentication,
    /// Whose tokens let users in.
    pub issuers: Vec<IssuerConfig>,
    /// The directory that takes passwords.
    pub directory: Option<DirectoryConfig>,
    /// Most connections at once.
    pub connections_max: usize,
    /// Most connections from one address.
    pub connections_per_address_max: usize,
    /// How many of them are for superusers.
    pub connections_reserved: usize,
    /// Most connections at once that have not logged in, besides; fewer where there are not as many file descriptors.
    pub connections_waiting_max: usize,
    /// Most memory of theirs, in bytes.
    pub connections_waiting_bytes_max: usize,
    /// Most CancelRequests a second from one address.
    pub cancels_per_second_max: u32,
    /// How long a client has from its first byte to the end of its login.
    pub login_timeout: Duration,
    /// How long a client may idle outside of a block; `None`: for ever.
    pub idle_timeout: Option<Duration>,
    /// How long a client may not read what is sent to it.
    pub write_timeout: Duration,
    /// How long statements that run may take to finish when the server ends.
    pub shutdown_timeout: Duration,
    /// Longest message of a client that has logged in, in bytes.
    pub frame_bytes_max: usize,
    /// How much of one answer may wait to be sent, in bytes.
    pub response_bytes_max: usize,
}

impl Default for ServerConfig {
    fn default() -> Self {
        ServerConfig {
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            http: None,
            tls: None,
            authentication: Authentication { hba: Hba::one(Method::Trust), trust_remote: false },
            issuers: Vec::new(),
            directory: None,
            connections_max: 500,
            connections_per_address_max: 500,
            connections_reserved: 3,
            connections_waiting_max: 8192,
            connections_waiting_bytes_max: 40 << 20,
            cancels_per_second_max: 10,
            login_timeout: Duration::from_secs(10),
            idle_timeout: None,
            write_timeout: Duration::from_secs(30),
            shutdown_timeout: Duration::from_secs(30),
            frame_bytes_max: (64 << 20) + FRAME_SLACK_BYTES,
            response_bytes_max: 256 << 20,
        }
    }
}

impl From<&Config> for ServerConfig {
    fn from(config: &Config) -> Self {
        let connections_max = usize::try_from(config.max_connections).unwrap_or(usize::MAX);
        ServerConfig {
            listen: config.listen,
            http: config.http.map(|listen| HttpConfig { listen, token_file: config.http_token_file.clone() }),
            tls: config.tls(),
            authentication: Authentication { hba: config.auth.clone(), trust_remote: config.allow_remote_trust },
            issuers: config.issuers.clone(),
            directory: config.directory.clone(),
            connections_max,
            connections_per_address_max: usize::try_from(config.max_connections_per_address).unwrap_or(usize::MAX),
            connections_reserved: usize::try_from(config.superuser_reserved_connections).unwrap_or(usize::MAX),
            shutdown_timeout: config.shutdown_timeout,
            frame_bytes_max: config.script_bytes_max.saturating_add(FRAME_SLACK_BYTES),
            ..ServerConfig::default()
        }
    }
}

/// Why a server does not serve.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The address can't be had.
    #[error("cannot listen on {listen}: {error}")]
    Listen {
        /// The address.
        listen: SocketAddr,
        /// Why not.
        error: io::Error,
    },
    /// Health checks and metrics can't be answered.
    #[error(transparent)]
    Http(#[from] HttpError),
    /// TLS can't be had: its certificate or key.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// An issuer's keys can't be had: the file of them, or the CAs of the server that has them.
    #[error(transparent)]
    Issuer(#[from] IssuerError),
    /// The directory can't be used: its CAs, or the file with our password.
    #[error(transparent)]
    Directory(#[from] DirectoryError),
}

/// How far the server is on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Phase {
    /// It serves.
    Serving,
    /// What runs may finish. Nothing new begins.
    Draining,
    /// Nothing goes on.
    Ending,
}

/// What all connections share.
pub(crate) struct Shared {
    pub(crate) engine: Arc<Engine>,
    pub(crate) config: ServerConfig,
    pub(crate) registry: Arc<Registry>,
    pub(crate) limiter: Limiter,
    pub(crate) admission: Arc<Admission>,
    pub(crate) lobby: Arc<Lobby>,
    pub(crate) gate: Gate,
    pub(crate) issuers: Issuers,
    pub(crate) directory: Option<Directory>,
    pub(crate) metrics: Metrics,
    pub(crate) tls: Option<Arc<Tls>>,
}

/// A server that has its address and does not serve yet.
#[derive(Debug)]
pub struct Server {
    config: ServerConfig,
    listener: std::net::TcpListener,
    address: SocketAddr,
    http: Option<Http>,
    tls: Option<Arc<Tls>>,
    issuers: Issuers,
    directory: Option<Directory>,
}

/// Takes an address, and says which: a port may have been 0.
pub(crate) fn listen_on(address: SocketAddr) -> io::Result<(std::net::TcpListener, SocketAddr)> {
    let listener = std::net::TcpListener::bind(address)?;
    listener.set_nonblocking(true)?;
    rustix::net::listen(&listener, BACKLOG)?;
    let address = listener.local_addr()?;
    Ok((listener, address))
}

impl Server {
    /// Takes the addresses. Clients that connect from now on wait until [`Server::run`].
    ///
    /// # Errors
    /// * [`ServeError::Listen`]: it is taken, or not ours.
    /// * [`ServeError::Http`]: the same of the one for HTTP, or there is no token where one has to be.
    /// * [`ServeError::Tls`]: certificate or key can't be used.
    /// * [`ServeError::Issuer`], [`ServeError::Directory`]: a file that logins need can't be used.
    pub fn bind(config: ServerConfig) -> Result<Server, ServeError> {
        let tls = config.tls.clone().map(Tls::load).transpose()?.map(Arc::new);
        let issuers = Issuers::load(config.issuers.clone())?;
        let directory = config.directory.clone().map(Directory::load).transpose()?;
        let listen = config.listen;
        let (listener, address) = listen_on(listen).map_err(|error| ServeError::Listen { listen, error })?;
        let http = config.http.as_ref().map(Http::bind).transpose()?;
        Ok(Server { config, listener, address, http, tls, issuers, directory })
    }

    /// Where it listens.
    pub fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// Where health checks and metrics are answered, if they are.
    pub fn http_addr(&self) -> Option<SocketAddr> {
        self.http.as_ref().map(Http::local_addr)
    }

    /// Serves until `shutdown` resolves, then ends as the module says. The engine is left running.
    ///
    /// # Errors
    /// [`ServeError::Listen`]: the socket can't be used by the runtime.
    pub async fn run(self, engine: Arc<Engine>, shutdown: impl Future<Output = ()>) -> Result<(), ServeError> {
        let Server { config, listener, address, http, tls, issuers, directory } = self;
        let listener =
            TcpListener::from_std(listener).map_err(|error| ServeError::Listen { listen: address, error })?;
        let admission =
            Admission::new(config.connections_max, config.connections_per_address_max, config.connections_reserved);
        let sockets = descriptors::allow(config.connections_max.saturating_add(config.connections_waiting_max));
        if sockets < config.connections_max {
            tracing::warn!(sockets, "the limit on open files allows fewer connections than max_connections");
        }
        let waiting_max = config.connections_waiting_max.min(sockets.saturating_sub(config.connections_max));
        let limiter = Limiter::new(config.cancels_per_second_max);
        let shutdown_timeout = config.shutdown_timeout;
        let metrics = Metrics::default();
        let lobby = Lobby::new(waiting_max, config.connections_waiting_bytes_max, metrics.evicted());
        let registry = Arc::default();
        let gate = Gate::default();
        let shared = Arc::new(Shared {
            engine,
            config,
            registry,
            limiter,
            admission,
            lobby: Arc::clone(&lobby),
            gate,
            issuers,
            directory,
            metrics,
            tls,
        });
        let (phase, watched) = watch::channel(Phase::Serving);
        let http = http.map(|http| tokio::spawn(http.run(Arc::clone(&shared), watched.clone())));
        // Aborted when it is dropped.
        let mut renewal = JoinSet::new();
        renewal.spawn(tls::renew(Arc::clone(&shared)));
        let mut connections = JoinSet::new();
        let mut shutdown = std::pin::pin!(shutdown);
        loop {
            tokio::select! {
                biased;
                () = &mut shutdown => break,
                Some(_) = connections.join_next() => {}
                accepted = listener.accept() => match accepted {
                    Ok((stream, peer)) => {
                        let ticket = lobby.enter(network(peer.ip()));
                        let meter = ticket.meter();
                        let connection = connection::run(stream, peer, ticket, Arc::clone(&shared), watched.clone());
                        meter.is_served_by(connections.spawn(connection));
                    }
                    // It went away by itself.
                    Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
                    // A socket is had from somebody who does not log in.
                    Err(error) if descriptors::are_all_taken(&error) && lobby.evict_one() => sleep(CLOSE_PAUSE).await,
                    Err(error) => {
                        tracing::warn!(%error, "connection not accepted");
                        sleep(ACCEPT_PAUSE).await;
                    }
                },
            }
        }
        drop(listener);
        phase.send_replace(Phase::Draining);
        if !drained(&mut connections, shutdown_timeout).await {
            tracing::warn!(connections = connections.len(), "statements still run: cancelling them");
            shared.registry.cancel_all();
            drained(&mut connections, LAST_STEP).await;
        }
        // Until here health checks are told that the server is going.
        phase.send_replace(Phase::Ending);
        drained(&mut connections, LAST_STEP).await;
        connections.shutdown().await;
        if let Some(mut http) = http
            && timeout(LAST_STEP, &mut http).await.is_err()
        {
            http.abort();
        }
        Ok(())
    }
}

/// Waits for all connections to end; `false`: some have not within the time.
async fn drained(connections: &mut JoinSet<()>, within: Duration) -> bool {
    let all = async { while connections.join_next().await.is_some() {} };
    timeout(within, all).await.is_ok()
}
