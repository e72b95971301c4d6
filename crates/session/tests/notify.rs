//! LISTEN dataglot_changes: a hint for each transaction of the own org.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "a test")]

mod common;

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use common::{Client, Rig};

async fn payloads(client: &mut Client) -> Vec<String> {
    client.session.take_notifications().await.unwrap().into_iter().map(|n| n.payload).collect()
}

/// What the future gives without waiting.
fn now<T>(future: impl Future<Output = T>) -> Option<T> {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => Some(value),
        Poll::Pending => None,
    }
}

#[tokio::test]
async fn changes_are_announced() {
    let rig = Rig::new().await;
    let mut listener = rig.admin().await;
    let mut admin = rig.admin().await;
    admin.ok("CREATE ROLE before").await;
    listener.ok("LISTEN dataglot_changes\nLISTEN other").await;
    assert!(payloads(&mut listener).await.is_empty());
    admin.ok("CREATE ROLE a\nCREATE ROLE IF NOT EXISTS a\nCREATE ORG o").await;
    // The feed fans out after the answer: wait for it.
    let first = listener.session.next_notification().await.unwrap();
    assert_eq!(
        (first.channel.as_str(), first.payload.as_str()),
        ("dataglot_changes", "{\"org\":\"default\",\"seq\":3}")
    );
    let second = listener.session.next_notification().await.unwrap();
    assert_eq!(second.payload, "{\"org\":\"default\",\"seq\":4}");
    assert!(now(listener.session.next_notification()).is_none());
    // Held back in a block.
    listener.ok("BEGIN").await;
    admin.ok("CREATE ROLE b").await;
    assert!(now(listener.session.next_notification()).is_none());
    assert!(payloads(&mut listener).await.is_empty());
    listener.ok("COMMIT").await;
    assert_eq!(listener.session.next_notification().await.unwrap().payload, "{\"org\":\"default\",\"seq\":5}");
    // Another org's changes are none of ours.
    let mut other = rig.try_login("admin", Some("o"), &[]).await.unwrap();
    other.ok("CREATE ROLE x").await;
    admin.ok("CREATE ROLE c").await;
    assert_eq!(listener.session.next_notification().await.unwrap().payload, "{\"org\":\"default\",\"seq\":6}");
    listener.ok("UNLISTEN *").await;
    admin.ok("CREATE ROLE d").await;
    assert!(payloads(&mut listener).await.is_empty());
}

#[tokio::test]
async fn listen_takes_effect_at_commit() {
    let rig = Rig::new().await;
    let mut listener = rig.admin().await;
    let mut admin = rig.admin().await;
    listener.ok("BEGIN\nLISTEN dataglot_changes\nROLLBACK").await;
    admin.ok("CREATE ROLE a").await;
    assert!(now(listener.session.next_notification()).is_none());
    listener.ok("BEGIN\nLISTEN dataglot_changes").await;
    admin.ok("CREATE ROLE b").await;
    listener.ok("COMMIT").await;
    admin.ok("CREATE ROLE c").await;
    assert_eq!(listener.session.next_notification().await.unwrap().payload, "{\"org\":\"default\",\"seq\":4}");
}

#[tokio::test]
async fn a_11_who_may_not_log_in_any_more_is_told_nothing() {
    let rig = Rig::new().await;
    let mut admin = rig.admin().await;
    for (ends, why) in [("ALTER USER u NOLOGIN", "is no longer permitted to log in"), ("DROP USER u", "was dropped")] {
        admin.ok("DROP USER IF EXISTS u\nCREATE USER u").await;
        let mut waits = rig.login("u").await;
        let mut asks = rig.login("u").await;
        waits.ok("LISTEN dataglot_changes").await;
        asks.ok("LISTEN dataglot_changes\nBEGIN").await;
        admin.ok(ends).await;
        let told = waits.session.next_notification().await.unwrap_err();
        assert_eq!(told.message, format!("terminating connection because its role {why}"));
        assert_eq!(waits.session.terminate_reason(), Some(&told));
        asks.ok("ROLLBACK").await;
        let told = asks.session.next_notification().await.unwrap_err();
        assert_eq!(told.message, format!("terminating connection because its role {why}"));
    }
}
