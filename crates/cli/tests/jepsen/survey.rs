//! What the store says of itself once everything is whole again.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

use dataglot_golden::wire::{Client, error_of, rows_of};

use crate::history::{Final, Op, Outcome, Record, Status};
use crate::session::{Send, Session};
use crate::statement::Show;

/// How often what is waited for is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// Transactions that are read at once.
const PAGE: u64 = 5_000;

/// Waits until `look` finds something.
pub fn wait_for<T>(what: &str, until: Instant, mut look: impl FnMut() -> Result<T, String>) -> T {
    loop {
        match look() {
            Ok(found) => return found,
            Err(last) => assert!(Instant::now() < until, "waited in vain for {what}: {last}"),
        }
        thread::sleep(LOOK_EVERY);
    }
}

/// The state that a coordinator shows, read strictly.
pub fn state_of(who: &str, address: SocketAddr) -> Result<Final, String> {
    let login = Session::open(address, 0, 0).map_err(|error| format!("{who}: {error}"))?;
    let mut session = login.map_err(|fields| format!("{who}: {fields:?}"))?;
    session.set("read_freshness", "strict");
    let shows: Vec<Show> = Show::STATE.into_iter().chain([Show::Version]).collect();
    let sql: Vec<String> = shows.iter().map(ToString::to_string).collect();
    let reply = session.ask(Send::Simple(sql.join("; ")), &shows).map_err(|error| format!("{who}: {error}"))?;
    if let Some(error) = reply.error {
        return Err(format!("{who}: {error:?}"));
    }
    let mut rows: BTreeMap<Show, String> =
        shows.into_iter().zip(reply.answers.into_iter().map(|answer| answer.rows.unwrap_or_default())).collect();
    let version = rows.remove(&Show::Version).unwrap_or_default();
    let version = version.trim().parse().map_err(|_| format!("{who}: version {version:?}"))?;
    Ok(Final { who: who.to_owned(), version, shows: rows })
}

/// The whole history, as a coordinator shows it.
pub fn history_of(address: SocketAddr) -> Vec<Record> {
    let mut client = Client::connect(address, "admin", "default").unwrap().expect("admin is let in");
    let mut records: Vec<Record> = Vec::new();
    loop {
        let since = records.last().map_or(0, |record| record.version);
        let messages = client.query(&format!("SHOW CHANGES SINCE {since} LIMIT {PAGE}")).unwrap();
        assert_eq!(error_of(&messages), None);
        let rows = rows_of(&messages);
        if rows.is_empty() {
            return records;
        }
        for row in rows {
            let column = |n: usize| row[n].clone().unwrap_or_default();
            let version = column(0).parse().expect("seq is a number");
            if records.last().is_none_or(|last| last.version != version) {
                let (session, transaction) = (column(3), column(4));
                let id = session.rsplit_once(", apply ").map(|(_, id)| id.to_owned());
                records.push(Record { version, id, transaction, statements: Vec::new() });
            }
            records.last_mut().unwrap().statements.push(column(5));
        }
    }
}

/// What became of each operation of unknown outcome that has an id.
pub fn statuses(ops: &[Op], addresses: &[SocketAddr]) -> BTreeMap<String, Status> {
    let mut clients: Vec<Client> = addresses
        .iter()
        .map(|address| Client::connect(*address, "admin", "default").unwrap().expect("admin is let in"))
        .collect();
    let ids = ops.iter().filter_map(|op| match &op.outcome {
        Outcome::Unknown { transaction } => transaction.clone(),
        Outcome::Done { .. } | Outcome::Refused { .. } | Outcome::Abandoned => None,
    });
    let mut statuses = BTreeMap::new();
    for (n, id) in ids.enumerate() {
        let node = n % clients.len();
        let messages = clients[node].query(&format!("SHOW TRANSACTION STATUS '{id}'")).unwrap();
        assert_eq!(error_of(&messages), None);
        let row = rows_of(&messages).remove(0);
        let status = match (row[1].as_deref(), row[2].as_deref()) {
            (Some("committed"), Some(seq)) => Status::Committed(seq.parse().unwrap()),
            (Some("not committed"), None) => Status::NotCommitted,
            other => panic!("no status: {other:?}"),
        };
        statuses.insert(id, status);
    }
    statuses
}
