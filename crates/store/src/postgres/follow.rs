//! Follows what other writers do: listens, reads all heads, waits, reads them again.
//!
//! A notification is only a hint, and may be lost with its connection: every round reads the heads, after
//! LISTEN, and the poll interval alone is enough. The session never has a transaction open.
//!
//! It also tells others what was committed here, soon afterwards and not for each commit: what came
//! meanwhile goes along.

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
use tokio_postgres::types::{ToSql, Type};

use super::connection::{Driver, Failure, Prepared, Session, open_session, runtime};
use super::reach::Reach;
use super::read::read_heads_of;
use super::told::Told;
use crate::{StoreError, Watcher};

/// Where the news of a commit goes.
const CHANNEL: &str = "dataglot_changes";
/// The least time between two messages to the others: each wakes all of them.
const TELL_EVERY: Duration = Duration::from_millis(2);
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
    pub(super) fn start(reach: Arc<Reach>, told: Arc<Told>, watcher: Arc<dyn Watcher>) -> Result<Self, StoreError> {
        let (running, mut stopped) = watch::channel(());
        let runtime = runtime()?;
        let follow = move || {
            runtime.block_on(async {
                let mut follow = pin!(follow(&reach, &told, watcher.as_ref()));
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

async fn follow(reach: &Reach, told: &Told, watcher: &dyn Watcher) {
    let mut wait = WAIT_MIN;
    reach.set_followed(true);
    loop {
        let Err(failure) = listen(reach, told, watcher, &mut wait).await;
        if matches!(failure, Failure::Silent) {
            reach.fell_silent();
        }
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
    told: &Told,
    watcher: &dyn Watcher,
    wait: &mut Duration,
) -> Result<std::convert::Infallible, Failure> {
    // A server that does not answer this is as good as none.
    let patience = reach.poll_interval * 3 + PATIENCE_MIN;
    let opened = open_session(&reach.settings, "listener", patience).await;
    let (session, mut driver) = reach.note(opened).map_err(Failure::Store)?;
    driver.drive(&session, async { reach.check(&session).await }).await?;
    // What it says may be lost: nothing has to wait for the disk.
    let set_up = format!("SET synchronous_commit = off; LISTEN {CHANNEL}");
    driver.drive(&session, async { Ok(session.client.batch_execute(&set_up).await?) }).await?;
    let own = driver.drive(&session, async { own_pid(&session).await }).await?;
    let mut tell_from = Instant::now();
    loop {
        let at = Instant::now();
        look(&session, &mut driver, watcher, at).await?;
        reach.is_up();
        *wait = WAIT_MIN;
        loop {
            match wait_for(&mut driver, at + reach.poll_interval, told, tell_from).await? {
                Next::Hear => {
                    coalesce(&mut driver.notifications, own).into_iter().for_each(|(org, seq)| watcher.hint(org, seq));
                }
                Next::Tell => {
                    tell(&session, &mut driver, told.take()).await?;
                    tell_from = Instant::now() + TELL_EVERY;
                }
                Next::Look => break,
            }
        }
    }
}

/// Reads the heads.
async fn look(session: &Session, driver: &mut Driver, watcher: &dyn Watcher, at: Instant) -> Result<(), Failure> {
    let orgs = watcher.orgs();
    // What was told before is in the heads.
    driver.notifications.clear();
    let heads = driver.drive(session, read_heads_of(session, orgs)).await?;
    watcher.seen(at, heads);
    Ok(())
}

/// Tells the others.
async fn tell(session: &Session, driver: &mut Driver, payloads: Vec<String>) -> Result<(), Failure> {
    let notify = async {
        let sql = || format!("SELECT pg_notify('{CHANNEL}', p) FROM unnest($1) AS u (p)");
        let statement = session.prepare(Prepared::Tell, &[Type::TEXT_ARRAY], sql).await?;
        let parameters: [&(dyn ToSql + Sync); 1] = [&payloads];
        session.client.execute(&statement, &parameters).await?;
        Ok(())
    };
    driver.drive(session, notify).await
}

/// What comes next.
enum Next {
    /// There are notifications.
    Hear,
    /// There is something to tell.
    Tell,
    /// It is time to look.
    Look,
}

/// Waits for what comes next. Nothing is told before `tell_from`.
async fn wait_for(driver: &mut Driver, until: Instant, told: &Told, tell_from: Instant) -> Result<Next, Failure> {
    if Instant::now() >= until {
        // However much there is to hear and to tell.
        return Ok(Next::Look);
    }
    let mut alarm = pin!(sleep_until(until.into()));
    let mut to_tell = pin!(async {
        told.some().await;
        sleep_until(tell_from.into()).await;
    });
    poll_fn(|cx| {
        driver.poll(cx);
        if !driver.notifications.is_empty() {
            return Poll::Ready(Ok(Next::Hear));
        }
        if driver.is_over() {
            return Poll::Ready(Err(Failure::Lost("the server closed the connection".into())));
        }
        if to_tell.as_mut().poll(cx).is_ready() {
            return Poll::Ready(Ok(Next::Tell));
        }
        alarm.as_mut().poll(cx).map(|()| Ok(Next::Look))
    })
    .await
}

/// The session, as notifications name who sent them.
async fn own_pid(session: &Session) -> Result<i32, Failure> {
    Ok(session.client.query_typed_one("SELECT pg_backend_pid()", &[]).await?.try_get(0)?)
}

/// What the notifications come to. Those of other programs and our own are passed over.
fn coalesce(notifications: &mut Vec<Notification>, own: i32) -> BTreeMap<OrgName, Seq> {
    let mut newest = BTreeMap::new();
    for notification in notifications.drain(..).filter(|n| n.channel() == CHANNEL && n.process_id() != own) {
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
