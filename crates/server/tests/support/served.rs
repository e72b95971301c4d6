//! A server in this process: an engine on a store in memory, and a runtime of its own.

use std::net::SocketAddr;
use std::sync::{Arc, LazyLock};
use std::thread::JoinHandle;

use dataglot_model::{Name, Sensitive};
use dataglot_server::{Method, Server, ServerConfig};
use dataglot_session::{Engine, EngineConfig, OsEntropy, SystemClock};
use dataglot_store::{MetaStore, open_memory};
use dataglot_vault::{KeyRing, generate_key_text};
use tokio::sync::oneshot;

/// One key for all, so that several servers can have one store.
static KEY: LazyLock<Sensitive> = LazyLock::new(|| generate_key_text(&OsEntropy).unwrap());

/// A server that ends with the test. Its superuser is `admin`.
pub struct Served {
    /// Where it listens.
    pub address: SocketAddr,
    /// Where it answers over HTTP, if it does.
    pub http: Option<SocketAddr>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Served {
    pub fn start() -> Served {
        Served::with(ServerConfig::default())
    }

    pub fn with(config: ServerConfig) -> Served {
        Served::on(open_memory().unwrap(), config)
    }

    pub fn on(store: Arc<dyn MetaStore>, config: ServerConfig) -> Served {
        let accept_md5 = config.authentication.hba.uses(Method::Md5);
        let server = Server::bind(config).unwrap();
        let (address, http) = (server.local_addr(), server.http_addr());
        let (stop, stopped) = oneshot::channel::<()>();
        let (tell, told) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            let ring = KeyRing::parse(KEY.open()).unwrap();
            let config = EngineConfig { scram_iterations: 4096, accept_md5, ..EngineConfig::default() };
            let engine = Engine::open(store, ring, config, Arc::new(SystemClock), Arc::new(OsEntropy)).unwrap();
            let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
            let is_new = engine.is_new().unwrap();
            runtime.block_on(async {
                if is_new {
                    engine.bootstrap(Name::new("admin").unwrap(), None).await.unwrap();
                }
                tell.send(()).unwrap();
                let stopped = async { drop(stopped.await) };
                server.run(Arc::clone(&engine), stopped).await.unwrap();
            });
            engine.shutdown();
        });
        told.recv().unwrap();
        Served { address, http, stop: Some(stop), thread: Some(thread) }
    }

    /// Tells it to end, without waiting.
    pub fn stop(&mut self) {
        drop(self.stop.take());
    }

    /// Waits until it has ended.
    pub fn wait(&mut self) {
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.stop();
        if !std::thread::panicking() {
            self.wait();
        }
    }
}
