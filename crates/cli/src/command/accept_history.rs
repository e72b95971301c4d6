//! `dataglot accept-history`: the decision that a history which replaced another one holds.

use dataglot_model::OrgName;
use dataglot_store::history::{self, Halted};
use serde_json::json;

use crate::arguments::AcceptHistoryArguments;
use crate::confirm::confirmed;
use crate::failure::{Exit, Failure};
use crate::{logging, output, store};

pub(crate) fn run(arguments: &AcceptHistoryArguments) -> Result<(), Failure> {
    let AcceptHistoryArguments { store: shared, org, yes } = arguments;
    logging::start_warnings()?;
    let dsn = store::dsn_of(shared)?;
    let org = OrgName::new(org).map_err(|_| Failure::new(Exit::Usage, "--org is not the name of a database", None))?;
    let Some(halted) = history::halted(&dsn)?.into_iter().find(|h| h.org == org) else {
        if shared.json {
            return output::json(&json!({"database": org.as_str(), "accepted": false}));
        }
        output::line(&format!("database {} has its history: nothing is to be accepted", org.as_str()));
        return Ok(());
    };
    let Halted { org: _, seen, found, at } = halted;
    let open = history::coordinators(&dsn)?;
    if !shared.json {
        output::line(&format!("database {}", org.as_str()));
        output::line(&format!("  seen    transaction {seen}, which is gone, or is another one now"));
        output::line(&format!("  found   transaction {found}, of {at}, is the last one"));
        output::line("What was acknowledged and is not in this history has to be made again.");
        if !open.is_empty() {
            let names = open.join(", ");
            output::line(&format!(
                "These coordinators have the store open: {names}. Stop them first: they may mark it again."
            ));
        }
    }
    let asked = || confirmed("Type the name of the database to go on with it", org.as_str());
    if !yes && (shared.json || !asked()?) {
        return Err(Failure::new(Exit::Usage, "nothing was changed", Some("Say --yes to go on with it.".to_owned())));
    }
    history::accept(&dsn, &halted)?;
    if shared.json {
        let (seen, found) = (seen.0, found.0);
        let text = json!({"database": org.as_str(), "accepted": true, "seen": seen, "found": found, "found_at": at.to_string()});
        return output::json(&text);
    }
    output::line("accepted: coordinators that are started now go on from it");
    Ok(())
}
