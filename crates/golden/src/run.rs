//! Runs a golden file: a server in this process, its store in a backend of choice, clients over
//! loopback.

use std::collections::BTreeMap;
use std::path::Path;

use dataglot_grammar::{Limits, Parameters, ParseCx};
use dataglot_model::{OrgName, SchemaRef, Seq};

use crate::backend::Backend;
use crate::case::{Block, Case, Verb};
use crate::rig::{Rig, RunResult};
use crate::transcript;
use crate::wire::{self, Client, Fields};

/// What every credential in a golden file starts with, in whatever case. It must come out nowhere.
const CANARY: &str = "canary-";

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
    let mut stored = rig.stored_bytes()?;
    stored.make_ascii_lowercase();
    if stored.windows(CANARY.len()).any(|window| window == CANARY.as_bytes()) {
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
