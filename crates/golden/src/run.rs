//! Runs a golden file: a server in this process, its store in a backend of choice, clients over
//! loopback.

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU8, Ordering};

use dataglot_grammar::{Limits, Parameters, ParseCx};
use dataglot_model::{HeadRecord, Mutation, Name, OrgName, SchemaRef, Seq, Timestamp};
use dataglot_server::{Server, ServerConfig};
use dataglot_session::{Clock, Engine, EngineConfig};
use dataglot_store::{ChangeEntry, ImageSink, MetaStore, RedbOptions, Table, open_memory, open_redb, record};
use dataglot_vault::{Entropy, EntropyError, KeyRing};

use crate::case::{Block, Case, Verb};
use crate::transcript;
use crate::wire::{self, Client, Fields};

/// The key of every test server, in hexadecimal. It protects nothing.
const TEST_KEY: &str = "c5ee6f8eec6e9d738c3eb41760b0aa48b41de11cccd0e5f6033c55482f5d9647";
/// 2031-02-03 04:05:06 UTC, in microseconds.
const TEST_TIME: i64 = 1_927_857_906_000_000;

/// What every credential in a golden file starts with, in whatever case. It must come out nowhere.
const CANARY: &str = "canary-";

/// Where a case's state is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "named as the backends are")]
pub enum Backend {
    Memory,
    Redb,
}

impl Backend {
    /// Every backend: each gives the same bytes.
    pub const ALL: [Backend; 2] = [Backend::Memory, Backend::Redb];
}

impl fmt::Display for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Backend::Memory => "memory",
            Backend::Redb => "redb",
        })
    }
}

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

/// A server over one store. Restarting it opens the store again.
pub struct Rig {
    backend: Backend,
    directory: tempfile::TempDir,
    memory: Option<Arc<dyn MetaStore>>,
    clock: Arc<TestClock>,
    running: Option<Running>,
}

struct Running {
    runtime: tokio::runtime::Runtime,
    store: Arc<dyn MetaStore>,
    engine: Arc<Engine>,
    address: SocketAddr,
    stop: tokio::sync::oneshot::Sender<()>,
    served: tokio::task::JoinHandle<()>,
}

impl Rig {
    /// A running server over a new store: org `default`, superuser `admin`.
    ///
    /// # Errors
    /// Whatever keeps it from starting.
    pub fn start(backend: Backend) -> RunResult<Rig> {
        let mut rig = Rig {
            backend,
            directory: tempfile::tempdir()?,
            memory: None,
            clock: Arc::new(TestClock(AtomicI64::new(0))),
            running: None,
        };
        rig.open()?;
        Ok(rig)
    }

    fn open(&mut self) -> RunResult<()> {
        let store = match (self.backend, &self.memory) {
            (Backend::Redb, _) => open_redb(&self.directory.path().join("meta.redb"), RedbOptions::default())?,
            (Backend::Memory, Some(store)) => Arc::clone(store),
            (Backend::Memory, None) => {
                let store = open_memory()?;
                self.memory = Some(Arc::clone(&store));
                store
            }
        };
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
        let engine = Engine::open(
            Arc::clone(&store),
            KeyRing::parse(TEST_KEY)?,
            EngineConfig::default(),
            Arc::clone(&self.clock) as Arc<dyn Clock>,
            Arc::new(TestEntropy(AtomicU8::new(0))),
        )?;
        if engine.is_new()? {
            runtime.block_on(engine.bootstrap(Name::new("admin")?, None)).map_err(|report| report.to_string())?;
        }
        let config = ServerConfig { listen: SocketAddr::from(([127, 0, 0, 1], 0)), ..ServerConfig::default() };
        let server = Server::bind(config)?;
        let address = server.local_addr();
        let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
        let serving = Arc::clone(&engine);
        let served = runtime.spawn(async move {
            let _ = server.run(serving, async move { drop(stopped.await) }).await;
        });
        self.running = Some(Running { runtime, store, engine, address, stop, served });
        Ok(())
    }

    /// Stops the server and lets go of the store.
    pub fn stop(&mut self) {
        let Some(Running { runtime, store, engine, stop, served, .. }) = self.running.take() else { return };
        let _ = stop.send(());
        let _ = runtime.block_on(served);
        engine.shutdown();
        drop((engine, store));
        drop(runtime);
    }

    /// Stops the server and looks for a canary in the bytes that it left behind.
    ///
    /// # Errors
    /// The file system's.
    pub fn holds_canary(&mut self) -> RunResult<bool> {
        self.stop();
        for entry in std::fs::read_dir(self.directory.path())? {
            let mut bytes = std::fs::read(entry?.path())?;
            bytes.make_ascii_lowercase();
            if bytes.windows(CANARY.len()).any(|window| window == CANARY.as_bytes()) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Stops the server and starts another over the same store.
    ///
    /// # Errors
    /// Whatever keeps it from starting.
    pub fn restart(&mut self) -> RunResult<()> {
        self.stop();
        self.open()
    }

    fn running(&self) -> RunResult<&Running> {
        self.running.as_ref().ok_or_else(|| "the server is not running".into())
    }

    /// Where it listens.
    ///
    /// # Errors
    /// It is not running.
    pub fn address(&self) -> RunResult<SocketAddr> {
        Ok(self.running()?.address)
    }

    /// The rows of an org, one a line, in the order of the tables and their keys.
    ///
    /// # Errors
    /// The store's.
    pub fn state(&self, org: &OrgName) -> RunResult<String> {
        let mut dump = Dump::default();
        self.running()?.store.load(org, &mut dump)?;
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
        let running = self.running()?;
        let changes = running.runtime.block_on(running.engine.changes(org, after, usize::MAX))?;
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

/// Runs `case` on a fresh server and gives it back with the outputs that really came.
///
/// # Errors
/// What has nothing to do with an expected output: no connection, no store, a malformed argument.
pub fn run(case: &Case, backend: Backend) -> RunResult<Case> {
    let mut rig = Rig::start(backend)?;
    let mut clients: BTreeMap<(String, String, String), Result<Client, Fields>> = BTreeMap::new();
    // The superuser's own first transaction is in every store.
    let mut seen: BTreeMap<String, Seq> = BTreeMap::from([("default".to_owned(), Seq(1))]);
    let mut blocks = Vec::with_capacity(case.blocks.len());
    for block in &case.blocks {
        let org = block.argument("org", "default").to_owned();
        let expected = match block.verb {
            Verb::Restart => {
                clients.clear();
                rig.restart()?;
                String::new()
            }
            Verb::State => rig.state(&OrgName::new(&org)?)?,
            Verb::Mutations => {
                let after = seen.get(&org).copied().unwrap_or(Seq(0));
                let (text, last) = rig.mutations(&OrgName::new(&org)?, after)?;
                seen.insert(org, last);
                text
            }
            Verb::Lower => lowered(&block.input),
            Verb::Run | Verb::Script | Verb::Extended => {
                let user = block.argument("as", "admin").to_owned();
                let session = block.argument("session", "").to_owned();
                let address = rig.address()?;
                let key = (user.clone(), org.clone(), session);
                if !clients.contains_key(&key) {
                    clients.insert(key.clone(), Client::connect(address, &user, &org)?);
                }
                match clients.get_mut(&key) {
                    Some(Ok(client)) => {
                        let text = talk(client, block)?;
                        if text.contains("FATAL ") {
                            clients.remove(&key);
                        }
                        text
                    }
                    Some(Err(refused)) => {
                        let text = format!("{} {}: {}\n", refused.severity, refused.sqlstate, refused.message);
                        clients.remove(&key);
                        text
                    }
                    None => String::new(),
                }
            }
        };
        if expected.to_lowercase().contains(CANARY) {
            return Err(format!("a canary got out:\n{expected}").into());
        }
        blocks.push(Block { expected: transcript::steady(&expected), ..block.clone() });
    }
    // The server says goodbye to whoever is connected, and waits for it to be heard.
    drop(clients);
    if rig.holds_canary()? {
        return Err("a canary is in the bytes of the store".into());
    }
    Ok(Case { preamble: case.preamble.clone(), blocks })
}

fn talk(client: &mut Client, block: &Block) -> RunResult<String> {
    if block.verb == Verb::Script {
        let messages = client.query(&block.input)?;
        return Ok(transcript::render(&messages, &block.input));
    }
    let mut out = String::new();
    for sql in statements(&block.input) {
        let messages = match block.verb {
            Verb::Extended => client.extended(sql, &[])?,
            Verb::Run | Verb::Script | Verb::Lower | Verb::Mutations | Verb::State | Verb::Restart => {
                client.query(sql)?
            }
        };
        out.push_str(&transcript::render(&messages, sql));
        if wire::error_of(&messages).is_some_and(|e| e.severity == "FATAL") {
            break;
        }
    }
    Ok(out)
}

/// The statements as psql would send them. A text that has no statements by our own lexer goes as it is,
/// so that the server can say what is wrong with it.
fn statements(text: &str) -> Vec<&str> {
    match dataglot_grammar::split(text, &Limits::default()) {
        Ok(ranges) => ranges.into_iter().filter_map(|range| text.get(range)).collect(),
        Err(_) => vec![text.trim_end()],
    }
}

fn lowered(text: &str) -> String {
    let limits = Limits::default();
    let search_path = SchemaRef::default_schema();
    let cx = ParseCx { search_path: &search_path, parameters: Parameters::None, limits: &limits };
    let mut out = String::new();
    for sql in statements(text) {
        match dataglot_grammar::parse(sql, 0..sql.len(), &cx) {
            Ok(parsed) => out.push_str(&format!("{}\n", dataglot_grammar::print_statement(&parsed.statement))),
            Err(error) => {
                let report = dataglot_model::Report::from(&error);
                out.push_str(&format!("{report}\n"));
            }
        }
    }
    out
}

/// The cases below `root`, by their path without the ending, in the order of the paths.
///
/// # Errors
/// The file system's.
pub fn find_cases(root: &Path) -> std::io::Result<Vec<(String, std::path::PathBuf)>> {
    let mut found = Vec::new();
    let mut open = vec![root.to_owned()];
    while let Some(directory) = open.pop() {
        for entry in std::fs::read_dir(&directory)? {
            let path = entry?.path();
            if path.is_dir() {
                open.push(path);
            } else if path.extension().is_some_and(|e| e == "test") {
                let name = path.strip_prefix(root).unwrap_or(&path).with_extension("");
                found.push((name.display().to_string(), path));
            }
        }
    }
    found.sort();
    Ok(found)
}
