//! Cancels and timeouts: a statement that waits is withdrawn, one that is being committed is not torn.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "a test")]

mod common;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::ThreadId;

use common::{Counter, Rig, render};
use dataglot_session::{Engine, EngineConfig, Login, Response, Session};
use dataglot_vault::{Entropy, EntropyError, KeyRing};

/// C091: a cancel stops what runs, and nothing that runs later.
#[tokio::test]
async fn a_cancel_stops_a_script() {
    let rig = Rig::new().await;
    let mut admin = rig.admin().await;
    let cancel = admin.session.cancel_handle();
    cancel.cancel();
    admin.ok("CREATE ROLE still_works").await;
    let script = "CREATE ROLE IF NOT EXISTS r;".repeat(5_000);
    let task = tokio::spawn(async move {
        let mut out: Vec<Response> = Vec::new();
        admin.session.simple(&script, &mut out).await;
        (render(&out), admin)
    });
    tokio::task::yield_now().await;
    cancel.cancel();
    let (got, mut admin) = task.await.unwrap();
    assert!(got.ends_with("ERROR 57014: canceling statement due to user request\n"), "{}", &got[got.len() - 200..]);
    assert!(admin.rows("SHOW ROLES LIKE 'r'").await.is_empty());
}

/// Hashing takes a hundred times as long as the statement may.
#[tokio::test]
async fn a_timeout_stops_hashing() {
    let rig = Rig::with(dataglot_vault::KeyRing::none(), |config| config.scram_iterations = 600_000).await;
    let mut admin = rig.admin().await;
    admin.ok("SET statement_timeout = 1").await;
    admin.check("CREATE USER u PASSWORD 'x'", "ERROR 57014: canceling statement due to statement timeout\nZ I").await;
    admin.ok("SET statement_timeout = 0").await;
    assert!(admin.rows("SHOW USERS LIKE 'u'").await.is_empty());
}

/// Numbers that hashing gets when the gate is opened, and not before.
struct Gate {
    test: ThreadId,
    asked: AtomicUsize,
    is_open: Mutex<bool>,
    opened: Condvar,
    numbers: Counter,
}

impl Entropy for Gate {
    fn fill(&self, bytes: &mut [u8]) -> Result<(), EntropyError> {
        if std::thread::current().id() != self.test {
            self.asked.fetch_add(1, Ordering::SeqCst);
            let is_open = self.is_open.lock().unwrap_or_else(PoisonError::into_inner);
            drop(self.opened.wait_while(is_open, |is_open| !*is_open));
        }
        self.numbers.fill(bytes)
    }
}

/// A statement that is given up does not stop its hash: it counts until it has ended.
#[tokio::test]
async fn a_hash_that_nobody_waits_for_still_counts() {
    let rig = Rig::new().await;
    let numbers = Counter::default();
    let test = std::thread::current().id();
    let (is_open, opened) = (Mutex::new(false), Condvar::new());
    let gate = Arc::new(Gate { test, asked: AtomicUsize::new(0), is_open, opened, numbers });
    let config = EngineConfig { scram_iterations: 4096, hashing_max: 1, ..EngineConfig::default() };
    let entropy = Arc::clone(&gate) as Arc<dyn Entropy>;
    let clock = Arc::clone(&rig.clock) as Arc<dyn dataglot_session::Clock>;
    let engine = Engine::open(Arc::clone(&rig.store), KeyRing::parse(common::KEY).unwrap(), config, clock, entropy);
    let login = Login { user: "admin".to_owned(), ..Login::default() };
    let mut admin = common::Client { session: Session::start(engine.unwrap(), login).await.unwrap() };
    admin.ok("SET statement_timeout = 1").await;
    for user in 0..8 {
        let sql = format!("CREATE USER u{user} PASSWORD 'x'");
        admin.check(&sql, "ERROR 57014: canceling statement due to statement timeout\nZ I").await;
    }
    *gate.is_open.lock().unwrap() = true;
    gate.opened.notify_all();
    admin.ok("SET statement_timeout = 0\nCREATE USER u PASSWORD 'x'").await;
    assert_eq!(gate.asked.load(Ordering::SeqCst), 2, "the first, and the one that was waited for");
}
