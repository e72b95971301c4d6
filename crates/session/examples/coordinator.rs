//! A coordinator in a process of its own: follows the changes of an org, and keeps what it needs to connect.
//!
//!     cargo run -p dataglot-session --example coordinator
//!
//! It embeds the store and the key. Catalogs come with references; a value is opened where it is used, by an
//! explicit call, and a rotation with GRACE leaves time to those who were given the value before.

#![allow(clippy::print_stdout, reason = "it shows what it does")]

use std::collections::BTreeMap;
use std::error::Error;
use std::sync::Arc;

use dataglot_model::{Name, OrgName, Seq};
use dataglot_session::resolve::{ResolveError, ResolvedCatalog, Resolver, SecretRef};
use dataglot_session::{Engine, EngineConfig, Login, OsEntropy, Response, Session, SystemClock};
use dataglot_store::open_memory;
use dataglot_vault::{KeyRing, generate_key_text};

/// How many transactions are read at once.
const CHANGES_PER_READ: usize = 100;

fn main() -> Result<(), Box<dyn Error>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    // A server has the same two: the store that its setting names, the key of its key file.
    let ring = KeyRing::parse(generate_key_text(&OsEntropy)?.open())?;
    let store = open_memory()?;
    let config = EngineConfig::default();
    let engine = Engine::open(Arc::clone(&store), ring.clone(), config, Arc::new(SystemClock), Arc::new(OsEntropy))?;
    runtime.block_on(engine.bootstrap(Name::new("admin")?, None)).map_err(|report| report.message)?;

    let org = OrgName::default_org();
    let resolver = Resolver::new(store.as_ref(), ring);
    let mut known = Known { seq: Seq(0), catalogs: BTreeMap::new() };
    for script in [
        "CREATE SECRET pw AS 'first'; CREATE CATALOG pg USING postgres WITH (host = 'db', password = SECRET pw)",
        "CREATE ROLE somebody",
        "ALTER SECRET pw AS 'second' GRACE '1 hour'",
        "ALTER SECRET pw AS 'third'",
    ] {
        runtime.block_on(execute(&engine, script))?;
        // A coordinator is told by the feed, or by LISTEN dataglot_changes; here it looks when it knows.
        let seen = runtime.block_on(follow(&engine, &org, known.seq))?;
        let Some(seen) = seen else { continue };
        known.take(seen, &resolver, &org)?;
    }
    engine.shutdown();
    Ok(())
}

/// What a coordinator knows of an org.
struct Known {
    seq: Seq,
    catalogs: BTreeMap<Name, ResolvedCatalog>,
}

impl Known {
    /// Takes the state after the transactions up to `seen`.
    fn take(&mut self, seen: Seq, resolver: &Resolver<'_>, org: &OrgName) -> Result<(), ResolveError> {
        let (seq, catalogs) = resolver.catalogs_at(org)?;
        println!("transaction {seen} was announced, {seq} is the state");
        for catalog in catalogs {
            let before = self.catalogs.get(&catalog.name);
            for secret in catalog.secrets() {
                connect(resolver, secret)?;
                let old = before.and_then(|b| b.secrets().find(|s| s.name == secret.name));
                if let Some(old) = old.filter(|old| old.version != secret.version) {
                    match resolver.resolve_version(secret, old.version) {
                        Ok(_) => println!("  version {} still resolves, for those who have it", old.version),
                        // One secret that cannot be had takes nothing else along.
                        Err(error) => println!("  {error}"),
                    }
                }
            }
            self.catalogs.insert(catalog.name.clone(), catalog);
        }
        self.seq = seq;
        Ok(())
    }
}

/// Where a value is used: it lives as long as this call, is never printed, and is overwritten at the end.
fn connect(resolver: &Resolver<'_>, secret: &SecretRef) -> Result<(), ResolveError> {
    let value = resolver.resolve(secret)?;
    println!("  secret {} version {}: {value:?}", secret.name, secret.version);
    Ok(())
}

/// The last transaction after `after` that touches what a coordinator connects with.
async fn follow(engine: &Engine, org: &OrgName, mut after: Seq) -> Result<Option<Seq>, Box<dyn Error>> {
    let mut last = None;
    loop {
        let entries = engine.changes(org, after, CHANGES_PER_READ).await?;
        let Some(end) = entries.last().map(|entry| entry.seq()) else { return Ok(last) };
        for entry in entries {
            // What cannot be read may have been about them.
            let matters = match &entry {
                dataglot_store::ChangeEntry::Intact(change) => change
                    .statements
                    .iter()
                    .any(|s| ["SECRET", "CATALOG"].iter().any(|kind| s.sql.split(' ').any(|word| word == *kind))),
                dataglot_store::ChangeEntry::Damaged { .. } => true,
            };
            if matters {
                last = Some(entry.seq());
            }
        }
        after = end;
    }
}

async fn execute(engine: &Arc<Engine>, script: &str) -> Result<(), Box<dyn Error>> {
    let (user, client) = ("admin".to_owned(), "example".to_owned());
    let login = Login { user, client, database: None, parameters: vec![], pid: 1, proof: None, roles: vec![] };
    let mut session = Session::start(Arc::clone(engine), login).await.map_err(|report| report.message)?;
    let mut answers: Vec<Response> = Vec::new();
    session.simple(script, &mut answers).await;
    for answer in answers {
        if let Response::Error { report, .. } = answer {
            return Err(report.message.into());
        }
    }
    Ok(())
}
