//! Cancels and timeouts: a statement that waits is withdrawn, one that is being committed is not torn.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "a test")]

mod common;

use common::{Rig, render};
use dataglot_session::Response;

/// C091: a cancel stops what runs, and nothing that runs later.
#[tokio::test]
async fn a_cancel_stops_a_script() {
    let rig = Rig::new().await;
    let mut admin = rig.admin().await;
    let cancel = admin.session.cancel_handle();
    cancel.cancel();
    admin.ok("CREATE ROLE still_works").await;
    let script = "CREATE ROLE IF NOT EXISTS r;".repeat(5_000);
    let task = tokio::spawn(async move {
        let mut out: Vec<Response> = Vec::new();
        admin.session.simple(&script, &mut out).await;
        (render(&out), admin)
    });
    tokio::task::yield_now().await;
    cancel.cancel();
    let (got, mut admin) = task.await.unwrap();
    assert!(got.ends_with("ERROR 57014: canceling statement due to user request\n"), "{}", &got[got.len() - 200..]);
    assert!(admin.rows("SHOW ROLES LIKE 'r'").await.is_empty());
}

/// Hashing takes a hundred times as long as the statement may.
#[tokio::test]
async fn a_timeout_stops_hashing() {
    let rig = Rig::with(dataglot_vault::KeyRing::none(), |config| config.scram_iterations = 600_000).await;
    let mut admin = rig.admin().await;
    admin.ok("SET statement_timeout = 1").await;
    admin.check("CREATE USER u PASSWORD 'x'", "ERROR 57014: canceling statement due to statement timeout\nZ I").await;
    admin.ok("SET statement_timeout = 0").await;
    assert!(admin.rows("SHOW USERS LIKE 'u'").await.is_empty());
}
