//! A server's life: store, key, listener, first superuser, signals, end.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use dataglot_server::config::Config;
use dataglot_server::{Server, ServerConfig};
use dataglot_session::{Engine, OsEntropy, SystemClock, install_panic_hook};
use dataglot_store::{RedbOptions, open_redb};
use dataglot_vault::KeyRing;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::failure::{Exit, Failure};

/// What there is to say once a server listens.
pub(crate) struct Started {
    /// Where.
    pub(crate) address: SocketAddr,
    /// Whether the store was made, or had nothing in it.
    pub(crate) new: bool,
}

/// Runs a server on the store `path` until a signal ends it. `started` is called when it listens.
///
/// The order is: store, key, address, first superuser. So a process that is refused by one of them has
/// changed nothing that a later one would have to undo.
pub(crate) fn run(config: &Config, path: &Path, ring: KeyRing, started: impl FnOnce(&Started)) -> Result<(), Failure> {
    install_panic_hook();
    let key = ring.primary_id();
    let store = open_redb(path, RedbOptions::default())?;
    let engine = Engine::open(store, ring, config.engine(), Arc::new(SystemClock), Arc::new(OsEntropy))?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|e| Failure::io(Exit::Internal, "threads cannot be started", &e))?;
    let served = runtime.block_on(async {
        let signals = Signals::watch()?;
        let server = Server::bind(ServerConfig::from(config))?;
        let new = engine.is_new()?;
        if new {
            engine.bootstrap(config.admin.clone(), None).await?;
        }
        let address = server.local_addr();
        tracing::info!(
            version = env!("CARGO_PKG_VERSION"),
            %address,
            store = %path.display(),
            new,
            auth = config.auth.as_str(),
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
