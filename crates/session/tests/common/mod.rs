//! A server without sockets for tests: an engine on a store in memory, sessions on it, and what they
//! say, printed as psql would, a line a message.

#![allow(dead_code, reason = "every test file uses a part of it")]

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use dataglot_model::{Name, Report, Sensitive, Timestamp};
use dataglot_session::{Clock, Engine, EngineConfig, Login, Response, Session, TransactionStatus};
use dataglot_store::MetaStore;
use dataglot_vault::{Entropy, EntropyError, KeyRing};

/// 2031-02-03 04:05:06, in microseconds.
pub const NOW: i64 = 1_927_857_906_000_000;
pub const KEY: &str = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";

/// A clock that stands still until it is set.
pub struct TestClock(pub AtomicI64);

impl Clock for TestClock {
    fn now(&self) -> Timestamp {
        Timestamp(self.0.load(Ordering::Relaxed))
    }
}

/// Numbers that differ, and nothing more.
#[derive(Default)]
pub struct Counter(AtomicU64);

impl Entropy for Counter {
    fn fill(&self, bytes: &mut [u8]) -> Result<(), EntropyError> {
        for chunk in bytes.chunks_mut(8) {
            let n = self.0.fetch_add(1, Ordering::Relaxed).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x5bf0_3635;
            chunk.copy_from_slice(&n.to_le_bytes()[..chunk.len()]);
        }
        Ok(())
    }
}

pub struct Rig {
    pub engine: Arc<Engine>,
    pub store: Arc<dyn MetaStore>,
    pub clock: Arc<TestClock>,
}

impl Rig {
    /// A new store with the superuser `admin`, and a key.
    pub async fn new() -> Rig {
        Rig::with(KeyRing::parse(KEY).unwrap(), |_| {}).await
    }

    pub async fn with(ring: KeyRing, configure: impl FnOnce(&mut EngineConfig)) -> Rig {
        let store: Arc<dyn MetaStore> = dataglot_store::open_memory().unwrap();
        let rig = Rig::on(store, ring, configure);
        rig.engine.bootstrap(Name::new("admin").unwrap(), None).await.unwrap();
        rig
    }

    pub fn on(store: Arc<dyn MetaStore>, ring: KeyRing, configure: impl FnOnce(&mut EngineConfig)) -> Rig {
        let mut config = EngineConfig { scram_iterations: 4096, ..EngineConfig::default() };
        configure(&mut config);
        let clock = Arc::new(TestClock(AtomicI64::new(NOW)));
        let engine = Engine::open(
            Arc::clone(&store),
            ring,
            config,
            Arc::clone(&clock) as Arc<dyn Clock>,
            Arc::new(Counter::default()),
        )
        .unwrap();
        Rig { engine, store, clock }
    }

    pub async fn admin(&self) -> Client {
        self.login("admin").await
    }

    pub async fn login(&self, user: &str) -> Client {
        self.try_login(user, None, &[]).await.unwrap()
    }

    /// As somebody who has proved the password that the user has now.
    pub async fn login_by_password(&self, user: &str) -> Client {
        let proof = self.engine.credentials(user, None).await.unwrap().into_proof();
        assert!(proof.is_some(), "{user} has no password");
        let login = Login {
            user: user.to_owned(),
            database: None,
            parameters: Vec::new(),
            client: String::new(),
            pid: 7,
            proof,
            roles: Vec::new(),
        };
        Client { session: Session::start(Arc::clone(&self.engine), login).await.unwrap() }
    }

    pub async fn try_login(
        &self,
        user: &str,
        database: Option<&str>,
        parameters: &[(&str, &str)],
    ) -> Result<Client, Report> {
        login_with(&self.engine, user, database, parameters).await
    }
}

/// A session on an engine that is no rig's.
pub async fn login(engine: &Arc<Engine>, user: &str, database: Option<&str>) -> Result<Client, Report> {
    login_with(engine, user, database, &[]).await
}

async fn login_with(
    engine: &Arc<Engine>,
    user: &str,
    database: Option<&str>,
    parameters: &[(&str, &str)],
) -> Result<Client, Report> {
    let login = Login {
        user: user.to_owned(),
        database: database.map(str::to_owned),
        parameters: parameters.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect(),
        client: String::new(),
        pid: 7,
        proof: None,
        roles: Vec::new(),
    };
    Session::start(Arc::clone(engine), login).await.map(|session| Client { session })
}

pub struct Client {
    pub session: Session,
}

impl Client {
    /// Runs one query string; what came back, a line a message, and how the session stands.
    pub async fn run(&mut self, sql: &str) -> String {
        let mut out: Vec<Response> = Vec::new();
        self.session.simple(sql, &mut out).await;
        let mut text = render(&out);
        text.push_str(match self.session.status() {
            TransactionStatus::Idle => "Z I\n",
            TransactionStatus::InBlock => "Z T\n",
            TransactionStatus::Failed => "Z E\n",
        });
        text
    }

    /// Runs each of the lines as a query string of its own.
    #[track_caller]
    pub fn check<'a>(&'a mut self, sql: &'a str, want: &'a str) -> impl Future<Output = ()> + 'a {
        let at = std::panic::Location::caller();
        async move {
            let mut got = String::new();
            for line in sql.lines().map(str::trim).filter(|l| !l.is_empty()) {
                got.push_str(&self.run(line).await);
            }
            let want: String =
                want.lines().map(str::trim).filter(|l| !l.is_empty()).map(|l| format!("{l}\n")).collect();
            assert!(got == want, "at {at}\n--- got\n{got}--- want\n{want}");
        }
    }

    /// Runs statements that must succeed.
    #[track_caller]
    pub fn ok<'a>(&'a mut self, sql: &'a str) -> impl Future<Output = ()> + 'a {
        let at = std::panic::Location::caller();
        async move {
            for line in sql.lines().map(str::trim).filter(|l| !l.is_empty()) {
                let got = self.run(line).await;
                assert!(!got.contains("ERROR") && !got.contains("FATAL"), "at {at}\n{line}\n{got}");
            }
        }
    }

    /// The rows of a query, each joined by `|`.
    pub async fn rows(&mut self, sql: &str) -> Vec<String> {
        let mut out: Vec<Response> = Vec::new();
        self.session.simple(sql, &mut out).await;
        assert!(!out.iter().any(|r| matches!(r, Response::Error { .. })), "{sql}\n{}", render(&out));
        out.iter().filter_map(|r| if let Response::Row(values) = r { Some(row(values)) } else { None }).collect()
    }

    /// Parse, Bind, Describe, Execute, Sync of one statement with text parameters.
    pub async fn extended(&mut self, sql: &str, values: &[Option<&str>]) -> String {
        let mut out: Vec<Response> = Vec::new();
        let values: Vec<_> = values.iter().map(|v| v.map(|t| t.as_bytes().to_vec())).collect();
        let failed = |out: &[Response]| out.iter().any(|r| matches!(r, Response::Error { .. }));
        self.session.parse("", sql, &[], &mut out).await;
        if !failed(&out) {
            self.session.bind("", "", &[], values, &[], &mut out).await;
        }
        if !failed(&out) {
            self.session.describe_portal("", &mut out).await;
        }
        if !failed(&out) {
            self.session.execute("", 0, &mut out).await;
        }
        self.session.sync(&mut out).await;
        render(&out)
    }
}

fn row(values: &[Option<Vec<u8>>]) -> String {
    let cells: Vec<String> = values
        .iter()
        .map(|v| v.as_ref().map_or_else(|| "∅".to_owned(), |b| String::from_utf8_lossy(b).into_owned()))
        .collect();
    cells.join("|")
}

/// A line a message.
pub fn render(responses: &[Response]) -> String {
    let mut text = String::new();
    for response in responses {
        let line = match response {
            Response::ParameterDescription(types) => format!("t {types:?}"),
            Response::RowDescription(columns, _) => {
                format!("T {}", columns.iter().map(|c| c.name.as_str()).collect::<Vec<_>>().join("|"))
            }
            Response::NoData => "n".to_owned(),
            Response::Row(values) => format!("D {}", row(values)),
            Response::Complete(tag) => format!("C {tag}"),
            Response::EmptyQuery => "I".to_owned(),
            Response::ParseComplete => "1".to_owned(),
            Response::BindComplete => "2".to_owned(),
            Response::CloseComplete => "3".to_owned(),
            Response::PortalSuspended => "s".to_owned(),
            Response::Notice(notice) => {
                format!("{} {}: {}", notice.severity.as_str(), notice.sqlstate.code(), notice.message)
            }
            Response::Error { report, position } => {
                let at = position.map(|p| format!(" @{p}")).unwrap_or_default();
                format!("{} {}: {}{at}", report.severity.as_str(), report.sqlstate.code(), report.message)
            }
            // It goes with every change: those ask for it that are about it.
            Response::ParameterStatus(name, _) if name == "dataglot.version" => continue,
            Response::ParameterStatus(name, value) => format!("S {name}={value}"),
        };
        text.push_str(&line);
        text.push('\n');
    }
    text
}

pub fn sensitive(text: &str) -> Sensitive {
    Sensitive::new(text.to_owned())
}
