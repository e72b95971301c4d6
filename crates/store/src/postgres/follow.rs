//! Follows what other writers do: listens, reads all heads, waits, reads them again.
//!
//! A notification is only a hint, and may be lost with its connection: every round reads the heads, after
//! LISTEN, and the poll interval alone is enough. The session never has a transaction open.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

use dataglot_model::{OrgName, Seq};
use serde::Deserialize;
use tokio::sync::watch;
use tokio::time::sleep_until;
use tokio_postgres::Notification;

use super::commit::CHANNEL;
use super::connection::{Driver, Failure, Session, open_session, runtime};
use super::reach::Reach;
use super::read::read_heads_of;
use crate::{StoreError, Watcher};

/// The first wait after a failure; each one is about twice as long as the one before.
const WAIT_MIN: Duration = Duration::from_millis(20);
/// The longest wait.
const WAIT_MAX: Duration = Duration::from_secs(1);
/// How long to wait for an answer at least.
const PATIENCE_MIN: Duration = Duration::from_secs(2);

/// The thread that follows. It ends soon after this is dropped.
pub(super) struct Follower {
    _running: watch::Sender<()>,
}

impl Follower {
    /// Starts it.
    pub(super) fn start(reach: Arc<Reach>, watcher: Arc<dyn Watcher>) -> Result<Self, StoreError> {
        let (running, mut stopped) = watch::channel(());
        let runtime = runtime()?;
        let follow = move || {
            runtime.block_on(async {
                let mut follow = pin!(follow(&reach, watcher.as_ref()));
                let mut stopped = pin!(stopped.changed());
                poll_fn(|cx| {
                    if stopped.as_mut().poll(cx).is_ready() {
                        return Poll::Ready(());
                    }
                    follow.as_mut().poll(cx)
                })
                .await;
            });
            reach.set_followed(false);
            runtime.shutdown_background();
        };
        let thread = std::thread::Builder::new().name("store-follower".to_owned()).spawn(follow);
        thread.map_err(|e| StoreError::io("start a thread for", &e))?;
        Ok(Follower { _running: running })
    }
}

async fn follow(reach: &Reach, watcher: &dyn Watcher) {
    let mut wait = WAIT_MIN;
    reach.set_followed(true);
    loop {
        let Err(failure) = listen(reach, watcher, &mut wait).await;
        watcher.lost(&failure.into_unavailable("follow"));
        tokio::time::sleep(jittered(wait)).await;
        wait = (wait * 2).min(WAIT_MAX);
    }
}

/// Between half of `wait` and all of it: coordinators that lost the same server come back one by one.
fn jittered(wait: Duration) -> Duration {
    let mut byte = [0];
    // Without a random number it is the longest.
    if getrandom::fill(&mut byte).is_err() {
        return wait;
    }
    let [byte] = byte;
    wait / 2 + wait / 2 * u32::from(byte) / 255
}

/// Listens until the connection is lost.
async fn listen(
    reach: &Reach,
    watcher: &dyn Watcher,
    wait: &mut Duration,
) -> Result<std::convert::Infallible, Failure> {
    // A server that does not answer this is as good as none.
    let patience = reach.poll_interval * 3 + PATIENCE_MIN;
    let opened = open_session(&reach.settings, "listener", patience).await;
    let (session, mut driver) = reach.note(opened).map_err(Failure::Store)?;
    driver.drive(&session, async { reach.check(&session).await }).await?;
    driver.drive(&session, async { Ok(session.client.batch_execute(&format!("LISTEN {CHANNEL}")).await?) }).await?;
    loop {
        let at = Instant::now();
        look(&session, &mut driver, watcher, at).await?;
        reach.is_up();
        *wait = WAIT_MIN;
        while hear(&mut driver, at + reach.poll_interval).await? {
            coalesce(&mut driver.notifications).into_iter().for_each(|(org, seq)| watcher.hint(org, seq));
        }
    }
}

/// Reads the heads.
async fn look(session: &Session, driver: &mut Driver, watcher: &dyn Watcher, at: Instant) -> Result<(), Failure> {
    let orgs = watcher.orgs();
    let heads = driver.drive(session, read_heads_of(session, orgs)).await?;
    watcher.seen(at, heads);
    Ok(())
}

/// Waits for notifications. False: it is time to look.
async fn hear(driver: &mut Driver, until: Instant) -> Result<bool, Failure> {
    let mut alarm = pin!(sleep_until(until.into()));
    if Instant::now() >= until {
        // However much there is to hear.
        return Ok(false);
    }
    poll_fn(|cx| {
        driver.poll(cx);
        if !driver.notifications.is_empty() {
            return Poll::Ready(Ok(true));
        }
        if driver.is_over() {
            return Poll::Ready(Err(Failure::Lost("the server closed the connection".into())));
        }
        alarm.as_mut().poll(cx).map(|()| Ok(false))
    })
    .await
}

/// What the notifications come to. Those that are none of ours are passed over.
fn coalesce(notifications: &mut Vec<Notification>) -> BTreeMap<OrgName, Seq> {
    let mut newest = BTreeMap::new();
    for notification in notifications.drain(..).filter(|n| n.channel() == CHANNEL) {
        if let Some((org, seq)) = read_payload(notification.payload()) {
            let known = newest.entry(org).or_default();
            *known = seq.max(*known);
        }
    }
    newest
}

fn read_payload(payload: &str) -> Option<(OrgName, Seq)> {
    #[derive(Deserialize)]
    struct Payload<'a> {
        org: &'a str,
        seq: u64,
    }
    let Payload { org, seq } = serde_json::from_str(payload).ok()?;
    Some((OrgName::new(org).ok()?, Seq(seq)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_payload_that_is_not_ours_is_passed_over() {
        let org = OrgName::new("acme").unwrap();
        assert_eq!(read_payload(r#"{"org":"acme","seq":7}"#), Some((org.clone(), Seq(7))));
        assert_eq!(read_payload(r#"{"org":"acme","seq":7,"later":[1]}"#), Some((org, Seq(7))));
        for other in ["", "acme", "{}", r#"{"org":"Not An Org","seq":7}"#, r#"{"org":"acme","seq":-1}"#, "[1]", "\u{1}"]
        {
            assert_eq!(read_payload(other), None, "{other}");
        }
    }

    #[test]
    fn a_wait_is_never_longer_than_asked_for() {
        for _ in 0..100 {
            let wait = jittered(WAIT_MAX);
            assert!(wait >= WAIT_MAX / 2 && wait <= WAIT_MAX, "{wait:?}");
        }
    }
}
