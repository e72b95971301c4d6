//! `dataglot migrate`: the schema of a store in PostgreSQL.

use dataglot_store::Dsn;
use dataglot_store::migrate::{self, Applied, Difference, MigrationState, MigrationStatus, Run, Status, UpOptions};
use serde_json::{Value, json};

use crate::arguments::{Migrate, SharedStore, UpArguments};
use crate::failure::{Exit, Failure};
use crate::{logging, output, store};

pub(crate) fn run(what: &Migrate) -> Result<(), Failure> {
    logging::start_warnings()?;
    match what {
        Migrate::Up(arguments) => up(arguments),
        Migrate::Status(shared) => status(shared),
        Migrate::Check(shared) => check(shared),
    }
}

fn up(arguments: &UpArguments) -> Result<(), Failure> {
    let UpArguments { store: shared, role } = arguments;
    let dsn = store::dsn_of(shared)?;
    let applied = migrate::up(&dsn, UpOptions { grant_to: role.clone(), store_id: None })?;
    if shared.json {
        let list = applied.iter().map(|Applied { number, name }| json!({"number": number, "name": name}));
        return output::json(&json!({"store": dsn.location(), "applied": list.collect::<Vec<_>>()}));
    }
    for Applied { number, name } in &applied {
        output::line(&format!("applied migration {number} ({name})"));
    }
    if applied.is_empty() {
        output::line(&format!("{} is up to date", dsn.location()));
    }
    if let Some(role) = role {
        output::line(&format!("role {role} may serve it"));
    }
    Ok(())
}

fn status(shared: &SharedStore) -> Result<(), Failure> {
    let dsn = store::dsn_of(shared)?;
    let status = migrate::status(&dsn)?;
    if shared.json {
        output::json(&status_json(&status))?;
    } else {
        status_table(&status);
    }
    match status.pending() {
        Ok(pending) if pending.is_empty() => Ok(()),
        Ok(pending) => Err(not_up_to_date(&pending)),
        Err(error) => Err(Failure::problem(Exit::Schema, &error)),
    }
}

/// The failure that says what is to be applied.
fn not_up_to_date(pending: &[Applied]) -> Failure {
    let count = pending.len();
    let message =
        if count == 1 { "1 migration is pending".to_owned() } else { format!("{count} migrations are pending") };
    Failure::new(Exit::Schema, message, Some("Run dataglot migrate up.".to_owned()))
}

/// Refuses a store whose schema is not the one of this version, so that opening it changes nothing.
pub(crate) fn refuse_pending(dsn: &Dsn) -> Result<(), Failure> {
    let pending = migrate::status(dsn)?.pending().map_err(|error| Failure::problem(Exit::Schema, &error))?;
    if pending.is_empty() { Ok(()) } else { Err(not_up_to_date(&pending)) }
}

fn status_json(status: &Status) -> Value {
    let Status { location, store_id, migrations } = status;
    let row = |m: &MigrationStatus| {
        let MigrationStatus { number, name, state, applied } = m;
        let run = applied.as_ref();
        json!({
            "number": number,
            "name": name,
            "state": state.as_str(),
            "applied_at": run.map(|r| r.at.to_string()),
            "applied_by": run.map(|r| r.by.as_str()),
            "version": run.map(|r| r.version.as_str()),
        })
    };
    let pending = migrations.iter().filter(|m| m.state == MigrationState::Pending).count();
    json!({
        "store": location,
        "store_id": store_id.as_ref().map(|id| hex(id)),
        "pending": pending,
        "migrations": migrations.iter().map(row).collect::<Vec<_>>(),
    })
}

fn status_table(status: &Status) {
    let Status { location, store_id, migrations } = status;
    let id = store_id.as_ref().map_or_else(|| "none yet".to_owned(), |id| hex(id));
    output::line(&format!("store {location}, id {id}"));
    let head = ["number", "name", "state", "applied at", "by", "version"].map(str::to_owned).to_vec();
    let row = |m: &MigrationStatus| {
        let MigrationStatus { number, name, state, applied } = m;
        let mut cells = vec![number.to_string(), name.clone(), state.as_str().to_owned()];
        if let Some(Run { at, by, version }) = applied {
            cells.extend([at.to_string(), by.clone(), version.clone()]);
        }
        cells
    };
    output::table(&std::iter::once(head).chain(migrations.iter().map(row)).collect::<Vec<_>>());
}

fn check(shared: &SharedStore) -> Result<(), Failure> {
    let dsn = store::dsn_of(shared)?;
    let differences = migrate::check(&dsn)?;
    if shared.json {
        let list = differences.iter().map(|difference| {
            let Difference { object, kind, expected, found } = difference;
            json!({"object": object, "kind": kind.to_string(), "expected": expected, "found": found})
        });
        output::json(&json!({"store": dsn.location(), "differences": list.collect::<Vec<_>>()}))?;
    } else {
        differences.iter().for_each(|difference| output::line(&difference.to_string()));
    }
    match differences.len() {
        0 => {
            if !shared.json {
                output::line(&format!("{} is as it should be", dsn.location()));
            }
            Ok(())
        }
        1 => Err(Failure::new(Exit::Schema, "the schema has 1 difference", None)),
        count => Err(Failure::new(Exit::Schema, format!("the schema has {count} differences"), None)),
    }
}

/// As hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
