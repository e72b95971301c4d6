//! `dataglot rekey`: what needs which secret key, and how everything comes to need the primary one only.
//!
//! Every step is SQL: sent to a server that runs, or run here on a store that nothing else has open, or that others
//! share. So each can be cut off anywhere and run again.

mod door;
mod report;

use dataglot_vault::KeyId;
use serde_json::json;

use self::door::{Door, Trouble};
use self::report::{KeyRow, Org};
use crate::arguments::{Rekey, RekeyArguments, RemoveArguments};
use crate::failure::{Exit, Failure};
use crate::{logging, output};

/// How often a statement is run that others were faster than.
const TRIES_MAX: usize = 10;

pub(crate) fn run(what: &Rekey) -> Result<(), Failure> {
    logging::start_warnings()?;
    match what {
        Rekey::Status(place) => status(place),
        Rekey::Rewrap(place) => rewrap(place),
        Rekey::Verify(place) => verify(place),
        Rekey::Remove(arguments) => remove(arguments),
    }
}

fn status(place: &RekeyArguments) -> Result<(), Failure> {
    let mut door = Door::open(place)?;
    let orgs = keys_of_all(&mut door, place)?;
    if place.json {
        output::json(&json!({"databases": orgs.iter().map(Org::to_json).collect::<Vec<_>>()}))?;
    } else {
        report::table(&orgs);
    }
    Ok(())
}

fn rewrap(place: &RekeyArguments) -> Result<(), Failure> {
    let mut door = Door::open(place)?;
    let mut names = door.orgs(place)?;
    // There the mark of the store follows, once nothing in the others needs the former key.
    names.sort_by_key(|org| org == door::DEFAULT);
    let (mut done, mut is_whole) = (Vec::new(), true);
    for org in &names {
        let said = rewrap_org(&mut door, org)?;
        if !place.json {
            said.iter().for_each(|notice| output::line(&format!("{org}: {}", notice.text())));
        }
        is_whole &= !said.iter().any(|notice| notice.is_warning);
        let notices: Vec<String> = said.iter().map(door::Said::text).collect();
        done.push(json!({"database": org, "notices": notices}));
    }
    let orgs = keys_of_all(&mut door, place)?;
    let left = others_needed(&orgs);
    if place.json {
        output::json(&json!({"databases": done, "still_needed": left}))?;
    }
    if !is_whole {
        return Err(Failure::new(Exit::Rekey, "some of what is sealed could not be opened, and stays as it is", None));
    }
    if !left.is_empty() {
        let help = "Run the command again; dataglot rekey status lists what needs them.".to_owned();
        return Err(Failure::new(Exit::Rekey, format!("still needed: {}", keys_text(&left)), Some(help)));
    }
    if !place.json {
        output::line(&match &place.org {
            Some(org) => format!("database {org} needs the primary key only"),
            None => "all databases need the primary key only".to_owned(),
        });
    }
    Ok(())
}

/// Runs the statement until it has come to its end.
fn rewrap_org(door: &mut Door, org: &str) -> Result<Vec<door::Said>, Failure> {
    let mut tries = 0;
    loop {
        match door.run(org, "REWRAP SECRETS") {
            Ok(answer) => return Ok(answer.said),
            // Each try goes on from where the one before was.
            Err(Trouble::Sql { code, .. }) if code == "40001" && tries < TRIES_MAX => tries += 1,
            Err(trouble) => return Err(trouble.into()),
        }
    }
}

fn verify(place: &RekeyArguments) -> Result<(), Failure> {
    let mut door = Door::open(place)?;
    let mut orgs = keys_of_all(&mut door, place)?;
    for org in &mut orgs {
        let rows = door.run(&org.name, "SHOW SECRET PROBLEMS")?.rows;
        org.problems = rows.into_iter().filter_map(|row| <[String; 2]>::try_from(row).ok()).collect();
        for key in org.keys.iter().filter(|key| !key.loaded && key.is_needed()) {
            org.problems.push([format!("key {}", key.fingerprint), "it is needed, and not loaded".to_owned()]);
        }
    }
    let count: usize = orgs.iter().map(|org| org.problems.len()).sum();
    if place.json {
        let databases: Vec<_> = orgs.iter().map(Org::to_json).collect();
        output::json(&json!({"databases": databases, "ok": count == 0}))?;
    } else {
        for org in &orgs {
            for [object, problem] in &org.problems {
                output::line(&format!("{}: {object}: {problem}", org.name));
            }
        }
        report::table(&orgs);
    }
    match count {
        0 => {
            if !place.json {
                output::line("everything opens, and is what history recorded last");
            }
            Ok(())
        }
        1 => Err(Failure::new(Exit::Rekey, "1 problem was found", None)),
        _ => Err(Failure::new(Exit::Rekey, format!("{count} problems were found"), None)),
    }
}

fn remove(arguments: &RemoveArguments) -> Result<(), Failure> {
    let RemoveArguments { place, key } = arguments;
    if KeyId::parse(key).is_none() {
        let help = "It is the 16 hexadecimal digits that dataglot rekey status shows, and never the key itself.";
        return Err(Failure::new(Exit::Usage, "that is not the fingerprint of a key", Some(help.to_owned())));
    }
    if place.org.is_some() {
        let help = "Leave --org out.".to_owned();
        return Err(Failure::new(Exit::Usage, "a key is removed when no database needs it", Some(help)));
    }
    let mut door = Door::open(place)?;
    let orgs = keys_of_all(&mut door, place)?;
    let reasons = reasons_to_keep(&orgs, key);
    if place.json {
        output::json(&json!({"key": key, "removable": reasons.is_empty(), "reasons": reasons}))?;
    }
    if !reasons.is_empty() {
        let help = "Put another key in front on every coordinator, then run dataglot rekey rewrap.".to_owned();
        return Err(Failure::new(Exit::Rekey, format!("key {key} has to stay: {}", reasons.join("; ")), Some(help)));
    }
    if !place.json {
        let is_known = orgs.iter().any(|org| org.keys.iter().any(|row| row.fingerprint == *key));
        output::line(&if is_known {
            format!("key {key} may be taken out of the configuration of every coordinator")
        } else {
            format!("key {key} is not loaded here, and nothing needs it")
        });
        output::line("Backups made until it was replaced still need it: keep it as long as you keep them.");
    }
    Ok(())
}

/// Why a key cannot go.
fn reasons_to_keep(orgs: &[Org], key: &str) -> Vec<String> {
    let mut reasons = Vec::new();
    let rows =
        || orgs.iter().flat_map(|org| org.keys.iter().map(move |row| (org, row))).filter(|(_, r)| r.fingerprint == key);
    if rows().any(|(_, row)| row.primary) {
        reasons.push("it is the one that seals".to_owned());
    }
    for (org, row) in rows().filter(|(_, row)| row.is_needed()) {
        let KeyRow { data_keys, values, verifiers, .. } = row;
        reasons.push(format!(
            "database {} needs it for {data_keys} data keys, {values} values and {verifiers} passwords",
            org.name
        ));
    }
    if rows().any(|(_, row)| row.canary) {
        reasons.push("the store's mark is of it".to_owned());
    }
    if reasons.is_empty() && rows().any(|(_, row)| !row.retired) {
        // A coordinator that has it in front may begin to seal with it at any time.
        reasons.push("no other key has taken its place, so another coordinator may have it in front".to_owned());
    }
    reasons
}

/// The keys that something in these orgs needs and that are not the primary one. The mark of the store is the matter of
/// `default`: it follows when nothing is left anywhere, so elsewhere nobody can do anything about it.
fn others_needed(orgs: &[Org]) -> Vec<String> {
    let needed = |org: &Org, row: &KeyRow| row.is_needed() || (row.canary && org.name == door::DEFAULT);
    let rows = orgs.iter().flat_map(|org| org.keys.iter().filter(move |row| !row.primary && needed(org, row)));
    let mut keys: Vec<String> = rows.map(|row| row.fingerprint.clone()).collect();
    keys.sort();
    keys.dedup();
    keys
}

fn keys_text(keys: &[String]) -> String {
    let word = if keys.len() == 1 { "key" } else { "keys" };
    format!("{word} {}", keys.join(", "))
}

/// What each org needs of each key.
fn keys_of_all(door: &mut Door, place: &RekeyArguments) -> Result<Vec<Org>, Failure> {
    let names = door.orgs(place)?;
    let read = |name: String| {
        let rows = door.run(&name, "SHOW SECRET KEYS")?.rows;
        let keys = rows.into_iter().map(KeyRow::read).collect::<Option<Vec<_>>>();
        let keys = keys.ok_or_else(|| Failure::new(Exit::Internal, "the server lists keys in another form", None))?;
        Ok(Org { name, keys, problems: Vec::new() })
    };
    names.into_iter().map(read).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn org(name: &str, rows: &[[&str; 8]]) -> Org {
        let read = |row: &[&str; 8]| KeyRow::read(row.iter().map(|cell| (*cell).to_owned()).collect()).unwrap();
        Org { name: name.to_owned(), keys: rows.iter().map(read).collect(), problems: Vec::new() }
    }

    #[test]
    fn a_key_stays_while_anything_needs_it_or_could() {
        let (old, new) = ("0000000000000001", "0000000000000002");
        let primary = [new, "t", "t", "1", "1", "0", "t", "f"];
        let with = |row: [&str; 8]| vec![org("a", &[primary]), org("b", &[primary, row])];
        let of = |row: [&str; 8]| reasons_to_keep(&with(row), old).join("; ");
        assert_eq!(of([old, "f", "t", "0", "0", "0", "f", "t"]), "");
        assert_eq!(reasons_to_keep(&with([old, "f", "t", "0", "0", "0", "f", "t"]), new).len(), 4);
        assert!(of([old, "f", "t", "0", "0", "0", "f", "f"]).starts_with("no other key has taken its place"));
        assert!(of([old, "f", "t", "0", "0", "0", "t", "t"]).starts_with("the store's mark"));
        assert_eq!(
            of([old, "f", "f", "1", "2", "3", "f", "t"]),
            "database b needs it for 1 data keys, 2 values and 3 passwords"
        );
        assert_eq!(others_needed(&with([old, "f", "t", "0", "1", "0", "f", "f"])), [old]);
        assert!(others_needed(&with([old, "f", "t", "0", "0", "0", "f", "f"])).is_empty());
        let marked = [old, "f", "t", "0", "0", "0", "t", "f"];
        assert_eq!(others_needed(&[org("default", &[primary, marked])]), [old]);
        assert!(others_needed(&[org("b", &[primary, marked])]).is_empty());
    }
}
