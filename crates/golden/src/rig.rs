//! Servers in this process over one store, and clients' way to them.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU8, Ordering};
use std::time::{Duration, Instant};

use dataglot_model::{HeadRecord, Mutation, Name, OrgName, Seq, Timestamp};
use dataglot_pgtest::Database;
use dataglot_server::{Server, ServerConfig};
use dataglot_session::{Clock, Engine, EngineConfig, OsEntropy};
use dataglot_store::fault::SharedStore;
use dataglot_store::{ChangeEntry, ImageSink, MetaStore, Table, record};
use dataglot_vault::{Entropy, EntropyError, KeyRing};

use crate::backend::{Backend, Place};

/// The key of every test server, in hexadecimal. It protects nothing.
const TEST_KEY: &str = "c5ee6f8eec6e9d738c3eb41760b0aa48b41de11cccd0e5f6033c55482f5d9647";
/// 2031-02-03 04:05:06 UTC, in microseconds.
const TEST_TIME: i64 = 1_927_857_906_000_000;
/// How often a server in this process is told what others have written to a store that is not told by
/// itself.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// Any failure of the runner itself, in a sentence.
pub type RunResult<T> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// A clock that starts on 2031-02-03 and goes on by a millisecond a reading.
struct TestClock(AtomicI64);

impl Clock for TestClock {
    fn now(&self) -> Timestamp {
        Timestamp(TEST_TIME + self.0.fetch_add(1000, Ordering::Relaxed))
    }
}

/// Randomness that is none: every byte is the next number.
struct TestEntropy(AtomicU8);

impl Entropy for TestEntropy {
    fn fill(&self, bytes: &mut [u8]) -> Result<(), EntropyError> {
        bytes.iter_mut().for_each(|b| *b = self.0.fetch_add(1, Ordering::Relaxed));
        Ok(())
    }
}

/// Servers over one store: one, or several coordinators. Restarting one opens the store again.
pub struct Rig {
    place: Place,
    /// How several coordinators share a store that is made for one.
    shared: Option<Arc<SharedStore>>,
    /// Whether there may be more than one.
    several: bool,
    clock: Arc<TestClock>,
    nodes: Vec<Option<Node>>,
}

/// One server.
struct Node {
    runtime: tokio::runtime::Runtime,
    store: Arc<dyn MetaStore>,
    engine: Arc<Engine>,
    address: SocketAddr,
    stop: tokio::sync::oneshot::Sender<()>,
    served: tokio::task::JoinHandle<()>,
    feed: Option<Feed>,
}

impl Rig {
    /// A running server over a new store: org `default`, superuser `admin`.
    ///
    /// # Errors
    /// Whatever keeps it from starting.
    pub fn start(backend: Backend) -> RunResult<Rig> {
        let mut rig = Rig::over(Place::new(backend)?);
        rig.nodes.push(Some(rig.open(0)?));
        Ok(rig)
    }

    /// So many coordinators over one new store, all started at the same time. A store that only one process can open is shared inside
    /// this one, so that each coordinator believes the others to be elsewhere.
    ///
    /// # Errors
    /// Whatever keeps one from starting.
    pub fn start_nodes(backend: Backend, count: usize) -> RunResult<Rig> {
        let mut rig = Rig::over(Place::new(backend)?);
        rig.several = true;
        rig.shared = match rig.place {
            Place::Memory(_) | Place::Redb(_) => Some(SharedStore::new(rig.place.open("")?)),
            Place::Postgres(_) => None,
        };
        let opened: Vec<RunResult<Node>> = std::thread::scope(|scope| {
            let openers: Vec<_> = (0..count)
                .map(|number| {
                    let rig = &rig;
                    scope.spawn(move || rig.open(number))
                })
                .collect();
            let lost = |_| Err("a coordinator's start panicked".into());
            openers.into_iter().map(|opener| opener.join().unwrap_or_else(lost)).collect()
        });
        for node in opened {
            rig.nodes.push(Some(node?));
        }
        Ok(rig)
    }

    fn over(place: Place) -> Rig {
        let clock = Arc::new(TestClock(AtomicI64::new(0)));
        Rig { place, shared: None, several: false, clock, nodes: Vec::new() }
    }

    /// One more coordinator; its number.
    ///
    /// # Errors
    /// Whatever keeps it from starting.
    pub fn add_node(&mut self) -> RunResult<usize> {
        let number = self.nodes.len();
        let node = self.open(number)?;
        self.nodes.push(Some(node));
        Ok(number)
    }

    fn open(&self, number: usize) -> RunResult<Node> {
        let (store, feed): (Arc<dyn MetaStore>, _) = match &self.shared {
            None => (self.place.open(&node_name(number))?, None),
            Some(shared) => {
                let handle = shared.handle();
                (Arc::clone(&handle) as _, Some(Feed::start(handle)))
            }
        };
        // With several coordinators each needs other random numbers than the next.
        let entropy: Arc<dyn Entropy> =
            if self.several { Arc::new(OsEntropy) } else { Arc::new(TestEntropy(AtomicU8::new(0))) };
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
        let config = EngineConfig::default();
        let clock = Arc::clone(&self.clock) as Arc<dyn Clock>;
        let engine = Engine::open(Arc::clone(&store), KeyRing::parse(TEST_KEY)?, config, clock, entropy)?;
        if engine.is_new()? {
            let made = runtime.block_on(engine.bootstrap(Name::new("admin")?, None));
            // Another coordinator may have been faster.
            if let Err(report) = made
                && engine.is_new()?
            {
                return Err(report.to_string().into());
            }
        }
        let config = ServerConfig { listen: SocketAddr::from(([127, 0, 0, 1], 0)), ..ServerConfig::default() };
        let server = Server::bind(config)?;
        let address = server.local_addr();
        let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
        let serving = Arc::clone(&engine);
        let served = runtime.spawn(async move {
            let _ = server.run(serving, async move { drop(stopped.await) }).await;
        });
        Ok(Node { runtime, store, engine, address, stop, served, feed })
    }

    /// Stops every server and lets go of the store.
    pub fn stop(&mut self) {
        self.nodes.iter_mut().filter_map(Option::take).for_each(Node::stop);
    }

    /// Stops one coordinator.
    pub fn stop_node(&mut self, number: usize) {
        if let Some(node) = self.nodes.get_mut(number).and_then(Option::take) {
            node.stop();
        }
    }

    /// Stops the servers and starts them again over the same store.
    ///
    /// # Errors
    /// Whatever keeps one from starting.
    pub fn restart(&mut self) -> RunResult<()> {
        self.stop();
        for number in 0..self.nodes.len() {
            let node = self.open(number)?;
            if let Some(place) = self.nodes.get_mut(number) {
                *place = Some(node);
            }
        }
        Ok(())
    }

    /// Stops the servers; all that is in the store then, as bytes.
    ///
    /// # Errors
    /// The file system's.
    pub fn stored_bytes(&mut self) -> RunResult<Vec<u8>> {
        self.stop();
        Ok(self.place.bytes()?)
    }

    fn node(&self, number: usize) -> RunResult<&Node> {
        self.nodes.get(number).and_then(Option::as_ref).ok_or_else(|| "the server is not running".into())
    }

    /// Where the server listens, the first one if there are several.
    ///
    /// # Errors
    /// It is not running.
    pub fn address(&self) -> RunResult<SocketAddr> {
        self.address_of(0)
    }

    /// Where a coordinator listens.
    ///
    /// # Errors
    /// It is not running.
    pub fn address_of(&self, number: usize) -> RunResult<SocketAddr> {
        Ok(self.node(number)?.address)
    }

    /// The engine of a coordinator.
    ///
    /// # Errors
    /// It is not running.
    pub fn engine(&self, number: usize) -> RunResult<&Arc<Engine>> {
        Ok(&self.node(number)?.engine)
    }

    /// The database that holds the store, where it is in PostgreSQL.
    #[must_use]
    pub fn database(&self) -> Option<&Database> {
        self.place.database()
    }

    /// Cuts what a coordinator hears of the others, and in PostgreSQL every connection that it has. It
    /// stays so until [`Rig::join_feed`]; coordinators that are connected stay so meanwhile.
    ///
    /// # Errors
    /// It is not running.
    pub fn cut_feed(&self, number: usize) -> RunResult<()> {
        if let Some(feed) = &self.node(number)?.feed {
            feed.paused.store(true, Ordering::SeqCst);
        }
        if let Some(database) = self.database() {
            database.execute(&format!("ALTER ROLE {} NOLOGIN", database.name()));
            database.execute(&format!(
                "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity \
                 WHERE datname = current_database() AND application_name = 'dataglot {}'",
                node_name(number)
            ));
        }
        Ok(())
    }

    /// Undoes [`Rig::cut_feed`].
    ///
    /// # Errors
    /// It is not running.
    pub fn join_feed(&self, number: usize) -> RunResult<()> {
        if let Some(feed) = &self.node(number)?.feed {
            feed.paused.store(false, Ordering::SeqCst);
        }
        if let Some(database) = self.database() {
            database.execute(&format!("ALTER ROLE {} LOGIN", database.name()));
        }
        Ok(())
    }

    /// The rows of an org, one a line, in the order of the tables and their keys.
    ///
    /// # Errors
    /// The store's.
    pub fn state(&self, org: &OrgName) -> RunResult<String> {
        let mut dump = Dump::default();
        let first = self.nodes.iter().flatten().next().ok_or("no server is running")?;
        first.store.load(org, &mut dump)?;
        dump.lines.sort();
        if dump.damaged > 0 {
            dump.lines.push(format!("({} damaged)", dump.damaged));
        }
        Ok(dump.lines.iter().map(|l| format!("{l}\n")).collect())
    }

    /// What the transactions after `after` changed, and the last of them.
    ///
    /// # Errors
    /// The store's.
    pub fn mutations(&self, org: &OrgName, after: Seq) -> RunResult<(String, Seq)> {
        let Node { runtime, engine, .. } = self.node(0)?;
        let changes = runtime.block_on(engine.changes(org, after, usize::MAX))?;
        let mut out = String::new();
        let mut last = after;
        for entry in changes {
            last = entry.seq();
            let ChangeEntry::Intact(change) = entry else {
                out.push_str("(damaged)\n");
                continue;
            };
            out.push_str(&format!("{}\n", change.actor));
            for statement in &change.statements {
                out.push_str(&format!("  {}\n", statement.sql));
                for mutation in &statement.mutations {
                    out.push_str(&format!("    {}\n", rendered(mutation, true)));
                }
            }
        }
        Ok((out, last))
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Node {
    fn stop(self) {
        let Node { runtime, store, engine, stop, served, feed, .. } = self;
        let _ = stop.send(());
        let _ = runtime.block_on(served);
        engine.shutdown();
        drop((feed, engine, store));
        drop(runtime);
    }
}

fn node_name(number: usize) -> String {
    format!("node{}", number + 1)
}

/// Tells a coordinator what the others wrote to a store that does not do so by itself.
struct Feed {
    paused: Arc<AtomicBool>,
    ended: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Feed {
    fn start(handle: Arc<SharedStore>) -> Feed {
        let (paused, ended): (Arc<AtomicBool>, Arc<AtomicBool>) = Default::default();
        let (is_paused, has_ended) = (Arc::clone(&paused), Arc::clone(&ended));
        let thread = std::thread::spawn(move || {
            while !has_ended.load(Ordering::SeqCst) {
                if !is_paused.load(Ordering::SeqCst) {
                    handle.look();
                }
                std::thread::sleep(LOOK_EVERY);
            }
        });
        Feed { paused, ended, thread: Some(thread) }
    }
}

impl Drop for Feed {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::SeqCst);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Looks again and again until `done`, at most so long; whether it came to that.
pub fn eventually(within: Duration, mut done: impl FnMut() -> bool) -> bool {
    let begun = Instant::now();
    loop {
        if done() {
            return true;
        }
        if begun.elapsed() > within {
            return false;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Collects the rows of an org as text.
#[derive(Default)]
struct Dump {
    lines: Vec<String>,
    damaged: usize,
}

impl ImageSink for Dump {
    fn begin(&mut self, _head: HeadRecord) {}

    fn row(&mut self, table: Table, key: &[u8], value: &[u8]) {
        match record::decode_row(table, key, value) {
            Ok(row) => self.lines.push(rendered(&Mutation::Put(row), false)),
            Err(_) => self.damaged += 1,
        }
    }
}

fn rendered(mutation: &Mutation, with_action: bool) -> String {
    let row = record::render(mutation);
    let action = if with_action { format!("{} ", row.action) } else { String::new() };
    let value = row.value.map(|v| format!(" {v}")).unwrap_or_default();
    format!("{action}{} {}{value}", row.table, row.key)
}
