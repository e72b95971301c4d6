//! What was acknowledged is on the standby that a commit has to reach.

use std::time::Duration;

use dataglot_model::{Seq, TransactionId};
use dataglot_pgtest::{Cluster, ClusterOptions};
use dataglot_store::{PostgresOptions, SubmitError, open_postgres};

use crate::backend::{create, default, has, hub, until};
use crate::rig::options;

/// M4: the session that waits for a standby is ended, which makes its transaction visible; that alone is
/// no reason to say that it is durable.
#[test]
fn m4_a_commit_that_no_standby_has_is_not_acknowledged() {
    let cluster = Cluster::start(ClusterOptions::default());
    let database = cluster.database();
    let patience = Duration::from_secs(1);
    let store = open_postgres(PostgresOptions { statement_timeout: patience, ..options(&database) }).unwrap();
    let hub = hub(store);
    create(&hub, 1, "before").unwrap();

    let wanted = Wanted(&cluster);
    wanted.set("nobody");
    // The server takes the setting over in its own time.
    let (id, seq) = (2..10_000)
        .find_map(|id| match create(&hub, id, &format!("r{id}")) {
            Ok(_) => None,
            Err(SubmitError::Unknown(_)) => Some((id, Seq(u64::try_from(id).unwrap() + 1))),
            Err(error) => panic!("{error:?}"),
        })
        .unwrap();
    let lost = format!("r{id}");
    let on_server = format!("SELECT count(*) FROM dataglot.changes WHERE seq = {seq}");
    assert_eq!(database.query_one(&on_server), "1", "the server has it, and cannot take it back");
    // Nor is anything else done before it is known.
    assert!(matches!(create(&hub, 20_000, "next"), Err(SubmitError::Failed(_))));

    drop(wanted);
    let settled = || hub.store().find_transaction(&default(), TransactionId(id)) == Ok(Some(seq));
    until("it is settled", settled);
    assert_eq!(create(&hub, 30_000, "next"), Ok(seq.next()));
    assert!(has(&hub, &lost));
}

/// The standby that commits have to reach. When it is dropped, none: nothing could be tidied up otherwise.
struct Wanted<'a>(&'a Cluster);

impl Wanted<'_> {
    fn set(&self, names: &str) {
        self.0.execute(&format!("ALTER SYSTEM SET synchronous_standby_names = '{names}'"));
        self.0.execute("SELECT pg_reload_conf()");
    }
}

impl Drop for Wanted<'_> {
    fn drop(&mut self) {
        self.set("");
    }
}
