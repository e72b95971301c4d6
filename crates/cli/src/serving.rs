//! A server's life: store, key, listener, first superuser, signals, end.

use std::net::SocketAddr;
use std::sync::Arc;

use dataglot_model::Sensitive;
use dataglot_server::config::{Config, Setting, StoreLocation};
use dataglot_server::{Server, ServerConfig};
use dataglot_session::{Engine, OsEntropy, SystemClock, install_panic_hook};
use dataglot_vault::KeyRing;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::failure::{Exit, Failure};
use crate::store::{self, Opening};

/// What there is to say once a server listens.
pub(crate) struct Started {
    /// Where.
    pub(crate) address: SocketAddr,
    /// Whether the store was made, or had nothing in it.
    pub(crate) new: bool,
}

/// Runs a server on the store at `location` until a signal ends it. `started` is called when it listens.
///
/// The order is: certificates, store, the password of a new store's superuser, key, address, first superuser. So a process that is refused by one of them has
/// changed nothing that a later one would have to undo.
pub(crate) fn run(
    config: &Config,
    location: &StoreLocation,
    ring: KeyRing,
    started: impl FnOnce(&Started),
) -> Result<(), Failure> {
    install_panic_hook();
    let key = ring.primary_id();
    if let Some(tls) = config.tls() {
        tls.check()?;
    }
    let store = store::open(location, &Opening::serve(config))?;
    let password = if store.heads()?.is_empty() { first_password(config)? } else { None };
    let engine = Engine::open(store, ring, config.engine(), Arc::new(SystemClock), Arc::new(OsEntropy))?;
    let empty = engine.is_new()?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|e| Failure::io(Exit::Internal, "threads cannot be started", &e))?;
    let served = runtime.block_on(async {
        let signals = Signals::watch()?;
        let server = Server::bind(ServerConfig::from(config))?;
        let new = empty && bootstrap(&engine, config, password).await?;
        let address = server.local_addr();
        tracing::info!(
            version = env!("CARGO_PKG_VERSION"),
            %address,
            store = store::place(location),
            node = config.node,
            new,
            auth = %config.auth,
            key = key.map(|k| k.to_string()),
            "listening"
        );
        started(&Started { address, new });
        Ok(server.run(Arc::clone(&engine), signals.first()).await?)
    });
    // Also after a failure: what is queued is written.
    engine.shutdown();
    if served.is_ok() {
        tracing::info!("stopped");
    }
    served
}

/// The password of a new store's superuser; `None`: it may do without one.
///
/// # Errors
/// There is none, and nobody could log in.
fn first_password(config: &Config) -> Result<Option<Sensitive>, Failure> {
    let password = config.admin_password.read()?;
    if password.is_some() || config.auth.may_do_without_password(config.admin.as_str()) {
        return Ok(password);
    }
    let admin = config.admin.as_str();
    Err(Failure::new(
        Exit::NoAdmin,
        format!("the store is new, and superuser \"{admin}\" would have no password to log in with"),
        Some(format!(
            "Give one by {} or --admin-password-file FILE; it is used this once.",
            Setting::AdminPassword.variable()
        )),
    ))
}

/// Makes the first org and its superuser, whose password is used this once. False: another coordinator, started at the
/// same time, has.
async fn bootstrap(engine: &Arc<Engine>, config: &Config, password: Option<Sensitive>) -> Result<bool, Failure> {
    match engine.bootstrap(config.admin.clone(), password).await {
        Ok(()) => Ok(true),
        Err(report) => {
            // A store blocks.
            let engine = Arc::clone(engine);
            let empty = tokio::task::spawn_blocking(move || engine.is_new()).await;
            if matches!(empty, Ok(Ok(false))) { Ok(false) } else { Err(report.into()) }
        }
    }
}

/// The signals that end a server.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    /// Takes the signals over. From here on they no longer end the process by themselves.
    fn watch() -> Result<Self, Failure> {
        let take = |kind| signal(kind).map_err(|e| Failure::io(Exit::Internal, "signals cannot be watched", &e));
        Ok(Signals { terminate: take(SignalKind::terminate())?, interrupt: take(SignalKind::interrupt())? })
    }

    async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
        }
    }

    /// Ends with the first signal. A second one ends the process at once: all that was acknowledged is on
    /// disk, so nothing is lost by it.
    async fn first(mut self) {
        let name = self.next().await;
        tracing::info!(signal = name, "shutting down");
        tokio::spawn(async move {
            let name = self.next().await;
            tracing::warn!(signal = name, "ending at once");
            std::process::exit(Exit::Internal as i32);
        });
    }
}
