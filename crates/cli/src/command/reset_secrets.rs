//! `dataglot reset-secrets`: a store whose master key is gone for good, made usable again. What no key opens is marked
//! as lost; nobody does it by accident: the store's identity has to be given, and the decision.

use std::sync::Arc;

use dataglot_model::{Name, OrgName};
use dataglot_server::config::StoreLocation;
use dataglot_session::{Lost, OsEntropy, Reset, SystemClock};
use dataglot_store::history;

use super::migrate::hex;
use crate::arguments::ResetSecretsArguments;
use crate::confirm::confirmed;
use crate::failure::{Exit, Failure};
use crate::store::{self, Opening};
use crate::{key, logging, output};

/// As what PostgreSQL lists the sessions.
const NODE: &str = "reset-secrets";
/// What is typed at a terminal in the place of --yes.
const DECISION: &str = "reset secrets";

pub(crate) fn run(arguments: &ResetSecretsArguments) -> Result<(), Failure> {
    let ResetSecretsArguments { store: sealed, confirm, yes } = arguments;
    logging::start_warnings()?;
    let config = store::config_of(sealed)?;
    let location = config.store()?;
    let ring = key::ring(&config)?;
    nobody_else(location)?;
    let store = store::open(location, &Opening::read(NODE))?;
    let id = hex(&store.facts().store_id);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|e| Failure::io(Exit::Internal, "threads cannot be started", &e))?;
    let reset = Reset::open(store, ring, Arc::new(SystemClock), Arc::new(OsEntropy))
        .map_err(|report| Failure::new(Exit::Key, report.message, report.hint))?;
    let done = runtime.block_on(decide(&reset, &id, confirm.as_deref(), *yes));
    // Also after a failure: what is queued is written.
    reset.close();
    done
}

async fn decide(reset: &Reset, id: &str, confirm: Option<&str>, yes: bool) -> Result<(), Failure> {
    let (losses, missing) = (reset.losses().await?, reset.missing_key().await?);
    output::line(&format!("store id {id}"));
    if losses.is_empty() && missing.is_none() {
        output::line("every value opens with the keys that are given: nothing is lost");
        return Ok(());
    }
    if let Some(missing) = missing {
        output::line(&format!("The store wants key {missing}, which is not among those given."));
    }
    losses.iter().for_each(|(org, lost)| tell(org, lost));
    let refused = |help: &str| Err(Failure::new(Exit::Usage, "nothing was changed", Some(help.to_owned())));
    match confirm {
        None => {
            return refused(
                "Only if that key is gone for good: make a backup of the store, then say --confirm with the store id \
                 above, and --yes.",
            );
        }
        Some(said) if said != id => return refused("--confirm is not the id of this store."),
        Some(_) => {}
    }
    let question = format!("They come back from a backup only, and with their key. Type \"{DECISION}\" to go on");
    if !yes && !confirmed(&question, DECISION)? {
        return refused("Say --yes to go on with it.");
    }
    reset.run().await?;
    output::line(
        "done: these secrets are lost, and these users have no password; servers start with the first key given",
    );
    Ok(())
}

/// Another coordinator may have the key that is missed, and would go on sealing with it.
fn nobody_else(location: &StoreLocation) -> Result<(), Failure> {
    match location {
        // A file is locked by whoever has it open.
        StoreLocation::Path(_) => Ok(()),
        StoreLocation::Dsn(dsn) => {
            let open = history::coordinators(dsn)?;
            if open.is_empty() {
                return Ok(());
            }
            let message = format!("coordinators have the store open: {}", open.join(", "));
            let help = "Each of them has a key that opens its secrets: look there first. Else stop them.".to_owned();
            Err(Failure::new(Exit::Store, message, Some(help)))
        }
    }
}

fn tell(org: &OrgName, lost: &Lost) {
    let Lost { data_keys, secrets, former, passwords } = lost;
    let names = |what: &str, names: &[Name]| {
        if !names.is_empty() {
            let list: Vec<&str> = names.iter().map(Name::as_str).collect();
            output::line(&format!("  {what} ({}): {}", list.len(), list.join(", ")));
        }
    };
    output::line(&format!("In database {} no key that is given opens", org.as_str()));
    names("secrets", secrets);
    names("former values of secrets", former);
    names("passwords of users", passwords);
    if !data_keys.is_empty() {
        output::line(&format!("  data keys ({})", data_keys.len()));
    }
}
