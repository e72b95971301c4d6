//! C025 to C033, S-01: a thousand credentials go through every statement that can carry one, in every way that a
//! client has, right and wrong. Then everything that comes out of a server is searched for each of them, in every
//! form that it may have taken: what it says on the wire, its log at trace, its metrics, its store.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::wildcard_enum_match_arm,
    reason = "a test fails by panicking"
)]

#[path = "../common/mod.rs"]
#[allow(dead_code, reason = "other tests use the rest")]
mod common;
mod forms;
mod reads;
mod search;
mod tap;
mod ways;

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, OnceLock};

use common::ok;
use dataglot_golden::backend::Backend;
use dataglot_golden::rig::Rig;
use dataglot_golden::wire::{Client, error_of};
use dataglot_grammar::{Limits, Parameters, ParseCx, parse};
use dataglot_model::{SchemaRef, Sensitive, Statement};
use dataglot_server::{Authentication, Hba, HttpConfig, Method, Server, ServerConfig};

use forms::Form;
use search::{Canary, Search};
use tap::{Heard, tap};
use ways::Way;

/// What is to be found everywhere, so that it is known that everywhere was looked at.
const CONTROL: &str = "control0control0control";

/// The log of this process at trace, from now on.
fn log() -> &'static Heard {
    static LOG: OnceLock<Heard> = OnceLock::new();
    LOG.get_or_init(|| {
        let heard = Heard::default();
        let writer = heard.clone();
        tracing_subscriber::fmt().with_env_filter("trace").with_ansi(false).with_writer(move || writer.clone()).init();
        tracing::trace!("{CONTROL}");
        heard
    })
}

fn parsed(sql: &str) -> Statement<Sensitive> {
    let (search_path, limits) = (SchemaRef::default_schema(), Limits::default());
    let cx = ParseCx { search_path: &search_path, parameters: Parameters::None, limits: &limits };
    parse(sql, 0..sql.len(), &cx).unwrap_or_else(|error| panic!("{sql}: {error}")).statement
}

/// C027: a production that takes a credential has its cases. The walk in `forms` does not compile if there is one
/// that it does not know.
#[test]
fn c027_the_grammar_has_no_credential_without_a_canary() {
    for form in Form::ALL {
        assert!(!form.templates().is_empty());
        for template in form.templates() {
            for explain in ["", "EXPLAIN "] {
                if form == Form::CreateOrg && !explain.is_empty() {
                    continue;
                }
                let sql = format!("{explain}{}", ways::filled(template, 1, "'hunter2'", "hunter2"));
                let statement = parsed(&sql);
                let found = forms::credentials(&statement);
                assert_eq!(found, [(form, &Sensitive::new("hunter2".to_owned()))], "{sql}");
            }
        }
    }
    let none = parsed("ALTER USER u PASSWORD NULL");
    assert_eq!(forms::credentials(&none), []);
}

/// One more server of the rig's engine, which asks for passwords, and answers HTTP.
struct Asking {
    runtime: tokio::runtime::Runtime,
    wire: SocketAddr,
    http: SocketAddr,
    stop: tokio::sync::oneshot::Sender<()>,
    served: tokio::task::JoinHandle<()>,
}

impl Asking {
    fn start(rig: &Rig, method: Method) -> Asking {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let config = ServerConfig {
            listen: any,
            http: Some(HttpConfig { listen: any, token_file: None }),
            authentication: Authentication { hba: Hba::one(method), trust_remote: false },
            ..ServerConfig::default()
        };
        let _guard = runtime.enter();
        let server = Server::bind(config).unwrap();
        let (wire, http) = (server.local_addr(), server.http_addr().unwrap());
        let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
        let engine = Arc::clone(rig.engine(0).unwrap());
        let served = runtime.spawn(async move {
            server.run(engine, async move { drop(stopped.await) }).await.unwrap();
        });
        Asking { runtime, wire, http, stop, served }
    }

    fn get(&self, path: &str) -> Vec<u8> {
        let mut stream = TcpStream::connect(self.http).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        answer
    }

    /// Logs in, or not.
    fn login(&self, through: SocketAddr, user: &str, password: &str) -> bool {
        let mut config = tokio_postgres::Config::new();
        config.host("127.0.0.1").port(through.port()).dbname("default").user(user).password(password);
        self.runtime.block_on(async {
            match config.connect(tokio_postgres::NoTls).await {
                Ok((client, connection)) => {
                    let connection = tokio::spawn(connection);
                    drop(client);
                    let _ = connection.await;
                    true
                }
                Err(_) => false,
            }
        })
    }

    fn stop(self) {
        let _ = self.stop.send(());
        self.runtime.block_on(self.served).unwrap();
    }
}

/// Numbers canaries, and keeps them.
#[derive(Default)]
struct Canaries {
    first: usize,
    all: Vec<Canary>,
}

impl Canaries {
    fn next(&mut self) -> (usize, Canary) {
        let number = self.first + self.all.len();
        let canary = Canary::new(number);
        self.all.push(canary.clone());
        (number, canary)
    }
}

#[test]
fn s_01_no_credential_comes_out_redb() {
    no_credential_comes_out(Backend::Redb, 0);
}

#[test]
fn s_01_no_credential_comes_out_postgres() {
    no_credential_comes_out(Backend::Postgres, 1_000_000);
}

fn no_credential_comes_out(backend: Backend, first: usize) {
    let log = log();
    let mut rig = Rig::start(backend).unwrap();
    let wire = Heard::default();
    let mut canaries = Canaries { first, all: Vec::new() };
    let address = tap(rig.address().unwrap(), &wire);
    let mut admin = common::admin(address);
    let mut listener = common::admin(address);
    ok(&mut listener, "LISTEN dataglot_changes");
    ok(&mut admin, "CREATE SECRET kept AS 'x'; CREATE USER kept PASSWORD 'x'; CREATE USER nobody;");
    ok(&mut admin, "CREATE CATALOG kept USING mock WITH (password = SECRET kept)");
    ok(&mut admin, &format!("COMMENT ON SECRET kept IS '{CONTROL}'"));

    // C025, C027: every form, in every way.
    for form in Form::ALL {
        for template in form.templates() {
            for way in Way::ALL {
                for spelling in way.spellings() {
                    let (number, canary) = canaries.next();
                    way.go(&mut admin, address, form, template, *spelling, number, &canary);
                }
            }
        }
    }
    // C029, C031, C033: where none may stand.
    for template in forms::refused() {
        for spelling in ways::SPELLINGS {
            let (number, canary) = canaries.next();
            let sql = ways::filled(&template, number, &spelling(&canary.text), canary.word());
            let messages = admin.query(&sql).unwrap();
            assert!(error_of(&messages).is_some(), "accepted: {template}");
        }
    }
    // In the place of a user's password, and of a setting of his client's.
    for method in [Method::Password, Method::ScramSha256] {
        let asking = Asking::start(&rig, method);
        let through = tap(asking.wire, &wire);
        for n in 0..4 {
            let (number, canary) = canaries.next();
            let user = format!("login{number}");
            ok(&mut admin, &format!("CREATE USER {user} PASSWORD {}", ways::plain(&canary.text)));
            assert!(asking.login(through, &user, &canary.text), "{method:?}");
            for user in [user.as_str(), "kept", "nobody", "none"] {
                let (_, wrong) = canaries.next();
                if n == 0 || user.starts_with("login") {
                    assert!(!asking.login(through, user, &wrong.text), "{method:?}");
                }
            }
        }
        for path in ["/metrics", "/livez", "/readyz", "/healthz", "/nothing"] {
            let _ = wire.clone().write(&asking.get(path));
        }
        asking.stop();
    }
    for key in ["options", "statement_timeout", "no_such_setting"] {
        let (_, canary) = canaries.next();
        let value = if key == "options" { format!("-c statement_timeout={}", canary.word()) } else { canary.text };
        let client = Client::connect_with(address, &[("user", "admin"), ("database", "default"), (key, &value)]);
        assert!(client.is_ok());
    }

    // All that can be asked for.
    reads::everything(&mut admin);
    ok(&mut listener, "SELECT 1");
    drop((admin, listener));
    let stored = rig.stored_bytes().unwrap();

    assert!(canaries.all.len() >= 1_000, "{} canaries", canaries.all.len());
    let search = Search::new(&canaries.all);
    let (wire, log) = (wire.bytes(), log.bytes());
    let holds = |bytes: &[u8], word: &str| bytes.windows(word.len()).any(|w| w == word.as_bytes());
    assert!(holds(&wire, CONTROL) && holds(&stored, CONTROL));
    assert!(holds(&wire, "dataglot_changes") && holds(&wire, "\ndataglot_logins_total"));
    assert!(holds(&log, "CREATE SECRET") && holds(&log, CONTROL));
    for (place, bytes) in [("the wire", &wire), ("the log", &log), ("the store", &stored)] {
        let hits = search.hits(bytes);
        assert!(hits.is_empty(), "{backend}: {} canaries, {place} has {hits:#?}", canaries.all.len());
    }
}
