//! What the store says of itself once everything is whole again.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

use dataglot_golden::wire::{Client, error_of, rows_of};

use crate::history::{Final, Op, Outcome, Record, Status};
use crate::session::{ANSWER_MAX, Send, Session};
use crate::statement::Show;

/// How often what is waited for is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// The longest that a coordinator may take to say what became of a transaction.
const STATUS_MAX: Duration = Duration::from_secs(10);
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
    let login = Session::open(address, 0, 0, ANSWER_MAX).map_err(|error| format!("{who}: {error}"))?;
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

/// What a coordinator says became of a transaction.
pub fn status_at(address: SocketAddr, id: &str) -> Result<Status, String> {
    let parameters = [("user", "admin"), ("database", "default")];
    let login = Client::connect_within(address, &parameters, STATUS_MAX).map_err(|error| error.to_string())?;
    let mut client = login.map_err(|fields| format!("{fields:?}"))?;
    let asked = client.query(&format!("SHOW TRANSACTION STATUS '{id}'")).map_err(|error| error.to_string())?;
    if let Some(fields) = error_of(&asked) {
        return Err(format!("{fields:?}"));
    }
    match rows_of(&asked).remove(0).as_slice() {
        [_, Some(status), Some(seq)] if status == "committed" => Ok(Status::Committed(seq.parse().unwrap())),
        [_, Some(status), None] if status == "not committed" => Ok(Status::NotCommitted),
        other => Err(format!("{other:?}")),
    }
}

/// What became of each operation of unknown outcome that has an id.
pub fn statuses(ops: &[Op], addresses: &[SocketAddr]) -> BTreeMap<String, Status> {
    let ids = ops.iter().filter_map(|op| match &op.outcome {
        Outcome::Unknown { transaction, .. } => transaction.clone(),
        Outcome::Done { .. } | Outcome::Refused { .. } | Outcome::Abandoned => None,
    });
    let each = ids.enumerate().map(|(n, id)| {
        let status = status_at(addresses[n % addresses.len()], &id).expect("everything is whole again");
        (id, status)
    });
    each.collect()
}
