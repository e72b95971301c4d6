//! `dataglot copy`: a whole store into an empty one of either kind.

use std::sync::Arc;

use dataglot_server::config::StoreLocation;
use dataglot_store::copy::{self, Summary};
use dataglot_store::migrate::MigrationError;
use dataglot_store::{MetaStore, PostgresError, StoreError, history};

use super::migrate;
use crate::arguments::CopyArguments;
use crate::failure::{Exit, Failure};
use crate::store::{self, Opening, SHOWS_PASSWORD};
use crate::{logging, output};

/// As what PostgreSQL lists the sessions.
const NODE: &str = "copy";

pub(crate) fn run(arguments: &CopyArguments) -> Result<(), Failure> {
    let CopyArguments { from: from_text, to: to_text, check_only } = arguments;
    logging::start_warnings()?;
    let from = StoreLocation::of_flag("from", from_text)?;
    let to = StoreLocation::of_flag("to", to_text)?;
    if [from_text, to_text].into_iter().any(|text| StoreLocation::holds_password(text)) {
        tracing::warn!("{SHOWS_PASSWORD}");
    }
    let source = open_as_it_is(&from)?;
    if *check_only {
        let (source, target) = (copy::summarize(source.as_ref())?, copy::summarize(open_as_it_is(&to)?.as_ref())?);
        return compare(&from, &source, &to, &target);
    }
    let copied = match &to {
        StoreLocation::Path(path) => copy::copy_to_file(source.as_ref(), path)?,
        StoreLocation::Dsn(_) => {
            let opening = Opening::copy(NODE, source.facts().store_id);
            let target = store::open(&to, &opening).map_err(in_use)?;
            copy::copy(source.as_ref(), target.as_ref())?
        }
    };
    output::line(&format!("copied {from} to {to}, and read back:"));
    print(&copied);
    Ok(())
}

/// Opens a store without changing anything in it.
fn open_as_it_is(location: &StoreLocation) -> Result<Arc<dyn MetaStore>, Failure> {
    store::refuse_pending(location)?;
    if let StoreLocation::Dsn(dsn) = location
        && let Some(halted) = history::halted(dsn)?.first()
    {
        let org = halted.org.as_str();
        let help = format!("Decide first which history holds: dataglot accept-history --org {org}.");
        return Err(Failure::new(
            Exit::NotCopied,
            format!("the history of database \"{org}\" is not the one that was seen before"),
            Some(help),
        ));
    }
    Ok(store::open(location, &Opening::read(NODE))?)
}

/// A database that another store lives in: refused like a target that is not empty.
fn in_use(error: StoreError) -> Failure {
    let other = StoreError::Postgres(Box::new(PostgresError::Migration(MigrationError::OtherStore)));
    if error == other { Failure::problem(Exit::NotCopied, &error) } else { error.into() }
}

fn compare(from: &StoreLocation, source: &Summary, to: &StoreLocation, target: &Summary) -> Result<(), Failure> {
    if source == target {
        output::line(&format!("{from} and {to} hold the same:"));
        print(source);
        return Ok(());
    }
    for (location, summary) in [(from, source), (to, target)] {
        output::line(&format!("{location} holds:"));
        print(summary);
        output::line("");
    }
    Err(Failure::new(Exit::NotCopied, "the two stores differ", None))
}

fn print(summary: &Summary) {
    let Summary { store_id, orgs, tables, damaged, digest } = summary;
    let head = |cells: [&str; 2]| vec![cells.map(str::to_owned).to_vec()];
    let mut rows = head(["database", "version"]);
    rows.extend(orgs.iter().map(|(org, head)| vec![org.as_str().to_owned(), head.seq.to_string()]));
    output::table(&rows);
    let mut rows = head(["table", "rows"]);
    rows.extend(tables.iter().map(|(table, rows)| vec![table.to_string(), rows.to_string()]));
    output::table(&rows);
    output::line(&format!("store id {}", migrate::hex(store_id)));
    output::line(&format!("digest {digest}"));
    if *damaged > 0 {
        output::line(&format!("damaged {damaged}: rows whose checksum is wrong came along as they are"));
    }
}
