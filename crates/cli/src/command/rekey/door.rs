//! How SQL gets to the orgs: through a server that runs, or in this process on the store.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::sync::{Arc, Mutex, PoisonError};

use dataglot_model::{OrgName, Severity};
use dataglot_server::{read_password, tls_client_config};
use dataglot_session::{Engine, Login, OsEntropy, Response, Session, SystemClock};
use rustls::ClientConfig;
use tokio::runtime::Runtime;
use tokio_postgres::{AsyncMessage, SimpleQueryMessage};
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::arguments::RekeyArguments;
use crate::failure::{Exit, Failure};
use crate::key;
use crate::store::{self, Opening};

/// Under which name the sessions are listed, and what they did is recorded.
const NODE: &str = "rekey";
/// The database whose superusers may list the others.
pub(super) const DEFAULT: &str = "default";

/// What was answered to a statement.
#[derive(Default)]
pub(super) struct Answer {
    /// NULL is empty: there is none in what is asked here.
    pub(super) rows: Vec<Vec<String>>,
    pub(super) said: Vec<Said>,
}

/// A notice.
pub(super) struct Said {
    pub(super) is_warning: bool,
    message: String,
    detail: Option<String>,
}

impl Said {
    /// For people.
    pub(super) fn text(&self) -> String {
        let warning = if self.is_warning { "warning: " } else { "" };
        match &self.detail {
            Some(detail) => format!("{warning}{}. {}", self.message, detail.replace('\n', "; ")),
            None => format!("{warning}{}", self.message),
        }
    }
}

/// Why there is no answer.
pub(super) enum Trouble {
    /// The server or the session has refused it.
    Sql { org: String, code: String, message: String, hint: Option<String> },
    /// There is no session.
    Closed(Failure),
}

impl From<Trouble> for Failure {
    fn from(trouble: Trouble) -> Self {
        match trouble {
            Trouble::Sql { org, code: _, message, hint } => {
                Failure::new(Exit::RekeyServer, format!("database {org}: {message}"), hint)
            }
            Trouble::Closed(failure) => failure,
        }
    }
}

/// A way to all orgs. Sessions are kept.
pub(super) struct Door {
    runtime: Runtime,
    way: Way,
}

enum Way {
    Server { config: Box<tokio_postgres::Config>, tls: MakeRustlsConnect, sessions: BTreeMap<String, Remote> },
    Store { engine: Arc<Engine>, sessions: BTreeMap<String, Session> },
}

struct Remote {
    client: tokio_postgres::Client,
    notices: Arc<Mutex<Vec<Said>>>,
}

impl Drop for Door {
    fn drop(&mut self) {
        if let Way::Store { engine, sessions } = &mut self.way {
            sessions.clear();
            // What is queued is written.
            engine.shutdown();
        }
    }
}

impl Door {
    pub(super) fn open(place: &RekeyArguments) -> Result<Self, Failure> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .build()
            .map_err(|e| Failure::io(Exit::Internal, "threads cannot be started", &e))?;
        let way = match &place.server {
            Some(server) => Way::to_server(server, place)?,
            None => Way::to_store(place)?,
        };
        Ok(Door { runtime, way })
    }

    /// The orgs that are meant, by name.
    pub(super) fn orgs(&mut self, place: &RekeyArguments) -> Result<Vec<String>, Failure> {
        if let Some(org) = &place.org {
            return Ok(vec![org.clone()]);
        }
        let mut orgs: Vec<String> = match &self.way {
            Way::Store { engine, .. } => {
                engine.store().heads()?.into_iter().map(|(org, _)| org.as_str().to_owned()).collect()
            }
            Way::Server { .. } => {
                let rows = self.run(DEFAULT, "SHOW ORGS")?.rows;
                rows.into_iter().filter_map(|row| row.into_iter().next()).collect()
            }
        };
        orgs.sort();
        Ok(orgs)
    }

    /// Runs a statement in an org.
    pub(super) fn run(&mut self, org: &str, sql: &str) -> Result<Answer, Trouble> {
        let Door { runtime, way } = self;
        runtime.block_on(async {
            match way {
                Way::Server { config, tls, sessions } => {
                    let remote = match sessions.remove(org) {
                        Some(remote) => remote,
                        None => Remote::connect(config, tls, org).await?,
                    };
                    let answer = remote.run(org, sql).await;
                    if !remote.client.is_closed() {
                        sessions.insert(org.to_owned(), remote);
                    }
                    answer
                }
                Way::Store { engine, sessions } => {
                    let mut session = match sessions.remove(org) {
                        Some(session) => session,
                        None => local(engine, org).await?,
                    };
                    let answer = run_here(&mut session, org, sql).await;
                    sessions.insert(org.to_owned(), session);
                    answer
                }
            }
        })
    }
}

impl Way {
    fn to_server(server: &str, place: &RekeyArguments) -> Result<Way, Failure> {
        // The driver's error may quote the text.
        let mut config: tokio_postgres::Config = server.parse().map_err(|_| {
            let help = "As in host=127.0.0.1 port=7432 user=admin sslmode=require, or a URI.".to_owned();
            Failure::new(Exit::Usage, "--server is not a connection string", Some(help))
        })?;
        if config.get_password().is_some() {
            tracing::warn!(
                "the password on the command line can be read by every user of this machine: use --password-file"
            );
        }
        if let Some(file) = &place.password_file {
            let password = read_password(file).map_err(|why| {
                Failure::new(Exit::Usage, format!("password file \"{}\": {why}", file.display()), None)
            })?;
            config.password(password.open());
        }
        config.application_name(format!("dataglot {NODE}"));
        let tls = tls_client_config(place.ca.as_deref()).map_err(|why| Failure::new(Exit::Usage, why, None))?;
        let tls = MakeRustlsConnect::new(ClientConfig::clone(&tls));
        Ok(Way::Server { config: Box::new(config), tls, sessions: BTreeMap::new() })
    }

    fn to_store(place: &RekeyArguments) -> Result<Way, Failure> {
        let config = store::config_of(&place.store)?;
        let location = config.store()?;
        let ring = key::ring(&config)?;
        store::refuse_pending(location)?;
        let store = store::open(location, &Opening::read(NODE))?;
        let engine = Engine::open(store, ring, config.engine(), Arc::new(SystemClock), Arc::new(OsEntropy))?;
        Ok(Way::Store { engine, sessions: BTreeMap::new() })
    }
}

impl Remote {
    async fn connect(config: &tokio_postgres::Config, tls: &MakeRustlsConnect, org: &str) -> Result<Remote, Trouble> {
        let mut config = config.clone();
        config.dbname(org);
        let (client, mut connection) = config.connect(tls.clone()).await.map_err(|e| refused(org, &e))?;
        let notices: Arc<Mutex<Vec<Said>>> = Arc::default();
        let heard = Arc::clone(&notices);
        tokio::spawn(async move {
            // Ends with the connection; whoever waits for an answer learns of it there.
            while let Some(Ok(message)) = poll_fn(|cx| connection.poll_message(cx)).await {
                if let AsyncMessage::Notice(notice) = message {
                    let said = Said {
                        is_warning: notice.severity() == "WARNING",
                        message: notice.message().to_owned(),
                        detail: notice.detail().map(str::to_owned),
                    };
                    heard.lock().unwrap_or_else(PoisonError::into_inner).push(said);
                }
            }
        });
        let remote = Remote { client, notices };
        // It takes as long as it takes.
        remote.run(org, "SET statement_timeout = 0").await?;
        Ok(remote)
    }

    async fn run(&self, org: &str, sql: &str) -> Result<Answer, Trouble> {
        let messages = self.client.simple_query(sql).await.map_err(|e| refused(org, &e))?;
        let mut answer = Answer::default();
        for message in messages {
            if let SimpleQueryMessage::Row(row) = message {
                answer.rows.push((0..row.len()).map(|at| row.get(at).unwrap_or_default().to_owned()).collect());
            }
        }
        answer.said = std::mem::take(&mut *self.notices.lock().unwrap_or_else(PoisonError::into_inner));
        Ok(answer)
    }
}

fn refused(org: &str, error: &tokio_postgres::Error) -> Trouble {
    match error.as_db_error() {
        Some(refusal) => Trouble::Sql {
            org: org.to_owned(),
            code: refusal.code().code().to_owned(),
            message: refusal.message().to_owned(),
            hint: refusal.hint().map(str::to_owned),
        },
        None => {
            let mut why = error.to_string();
            let mut source = std::error::Error::source(error);
            while let Some(inner) = source {
                why.push_str(&format!(": {inner}"));
                source = inner.source();
            }
            let help = "Run the command again: what is done stays done.".to_owned();
            Trouble::Closed(Failure::new(Exit::RekeyServer, format!("database {org}: {why}"), Some(help)))
        }
    }
}

/// A session in this process, of the org's first superuser who may log in: who has store and key needs no password.
async fn local(engine: &Arc<Engine>, org: &str) -> Result<Session, Trouble> {
    let closed = |message: String, help: Option<&str>| {
        Trouble::Closed(Failure::new(Exit::Rekey, message, help.map(str::to_owned)))
    };
    let name = OrgName::new(org).map_err(|_| closed(format!("\"{org}\" is not the name of a database"), None))?;
    let user = engine.superuser(&name).await.map_err(|report| Trouble::Closed(report.into()))?;
    let Some(user) = user else {
        return Err(closed(format!("database {org} has no superuser who may log in"), None));
    };
    let (user, database) = (user.as_str().to_owned(), Some(org.to_owned()));
    let login = Login { user, database, client: NODE.to_owned(), ..Login::default() };
    let mut session = match Session::start(Arc::clone(engine), login).await {
        Ok(session) => session,
        Err(report) => return Err(Trouble::Closed(report.into())),
    };
    run_here(&mut session, org, "SET statement_timeout = 0").await?;
    Ok(session)
}

async fn run_here(session: &mut Session, org: &str, sql: &str) -> Result<Answer, Trouble> {
    let mut said: Vec<Response> = Vec::new();
    session.simple(sql, &mut said).await;
    let mut answer = Answer::default();
    for response in said {
        match response {
            Response::Row(cells) => {
                let text = |cell: Option<Vec<u8>>| String::from_utf8_lossy(&cell.unwrap_or_default()).into_owned();
                answer.rows.push(cells.into_iter().map(text).collect());
            }
            Response::Notice(notice) => answer.said.push(Said {
                is_warning: notice.severity == Severity::Warning,
                message: notice.message,
                detail: notice.detail,
            }),
            Response::Error { report, .. } => {
                let code = report.sqlstate.code().to_owned();
                return Err(Trouble::Sql { org: org.to_owned(), code, message: report.message, hint: report.hint });
            }
            Response::ParameterDescription(_)
            | Response::RowDescription(..)
            | Response::NoData
            | Response::Complete(_)
            | Response::EmptyQuery
            | Response::ParseComplete
            | Response::BindComplete
            | Response::CloseComplete
            | Response::PortalSuspended
            | Response::ParameterStatus(..) => {}
        }
    }
    Ok(answer)
}
