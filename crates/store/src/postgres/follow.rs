//! Follows what other writers do: listens, reads all heads, waits, reads them again.
//!
//! A notification is only a hint, and may be lost with its connection: every round reads the heads, after
//! LISTEN, and the poll interval alone is enough. The session never has a transaction open.
//!
//! It also tells others what was committed here, soon afterwards and not for each commit: what came
//! meanwhile goes along. Nobody is told of an org that nobody else follows.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

use dataglot_model::{HeadRecord, OrgName, Seq};
use serde::Deserialize;
use tokio::sync::watch;
use tokio::time::sleep_until;
use tokio_postgres::Notification;

use super::connection::{Driver, Failure, Prepared, Session, open_session, runtime};
use super::interest::{self, Interest};
use super::reach::Reach;
use super::read::read_heads_of;
use super::told::{Silences, Told};
use crate::{StoreError, Watcher};

/// Where the news of a commit goes.
const CHANNEL: &str = "dataglot_changes";
/// The least time between two messages to the others: each wakes all of them.
const TELL_EVERY: Duration = Duration::from_millis(2);
/// For so long nobody is asked again whether he follows an org that nobody else follows. Whoever begins to reads its
/// head first, and hears of what comes after that by so much later once.
const SILENCE: Duration = Duration::from_millis(20);
/// The least time between two looks, however many images are loaded.
const LOOK_EVERY: Duration = Duration::from_millis(10);
/// The least time between two questions to the server's statistics: its sessions report about once a second.
const MOVED_EVERY: Duration = Duration::from_millis(900);
/// So many groups of others between two such questions are worth to be reckoned with.
const OTHERS_MIN: i64 = 20;
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
    let mut silences = Silences::new();
    let mut interest = Interest::default();
    let mut moved = Moved::default();
    loop {
        let at = Instant::now();
        told.looks();
        let heads = look(&session, &mut driver, &mut interest, watcher.orgs()).await?;
        reach.is_up();
        *wait = WAIT_MIN;
        watcher.seen(at, heads);
        if driver.drive(&session, moved.by_others(&session, told, at)).await? >= OTHERS_MIN {
            watcher.others_write(at + reach.poll_interval.max(MOVED_EVERY) * 2);
        }
        loop {
            let until = Until { look: at + reach.poll_interval, look_for_more: at + LOOK_EVERY, tell_from };
            match wait_for(&mut driver, told, &silences, until).await? {
                Next::Hear => {
                    coalesce(&mut driver.notifications, own).into_iter().for_each(|(org, seq)| watcher.hint(org, seq));
                }
                Next::Tell => {
                    let news = told.take(&silences);
                    let nobody_s = driver.drive(&session, interest::tell(&session, CHANNEL, news)).await?;
                    let now = Instant::now();
                    tell_from = now + TELL_EVERY;
                    silences.retain(|_, until| *until > now);
                    silences.extend(nobody_s.into_iter().map(|org| (org, now + SILENCE)));
                }
                Next::Look => break,
            }
        }
    }
}

/// Reads the heads.
async fn look(
    session: &Session,
    driver: &mut Driver,
    interest: &mut Interest,
    orgs: Vec<OrgName>,
) -> Result<Vec<(OrgName, Option<HeadRecord>)>, Failure> {
    // Whoever commits from here on tells us.
    driver.drive(session, interest.take(session, &orgs)).await?;
    // What was told before is in the heads.
    driver.notifications.clear();
    driver.drive(session, read_heads_of(session, orgs)).await
}

/// How often the server has moved a head, as it counts for its statistics.
#[derive(Default)]
struct Moved {
    /// When it was asked last, and what it said.
    before: Option<(Instant, i64)>,
    /// By this coordinator, until then.
    own: u64,
    /// What the server has still to report of our own, as a negative number.
    balance: i64,
}

impl Moved {
    /// About how often others have done so since this was asked last; 0 if that was just now.
    async fn by_others(&mut self, session: &Session, told: &Told, at: Instant) -> Result<i64, Failure> {
        if self.before.is_some_and(|(before, _)| at.duration_since(before) < MOVED_EVERY) {
            return Ok(0);
        }
        let own = told.moved();
        let sql = || "SELECT pg_stat_get_tuples_updated('heads'::regclass)".to_owned();
        let statement = session.prepare(Prepared::Moved, &[], sql).await?;
        let all: i64 = session.client.query_one(&statement, &[]).await?.try_get(0)?;
        let own_since = own.saturating_sub(std::mem::replace(&mut self.own, own));
        let Some((_, before)) = self.before.replace((at, all)) else { return Ok(0) };
        self.balance = self.balance.saturating_add(all - before).saturating_sub_unsigned(own_since);
        let others = self.balance.max(0);
        self.balance = self.balance.min(0);
        Ok(others)
    }
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

/// When what comes next may come.
struct Until {
    /// At the latest.
    look: Instant,
    /// At the earliest, where there are more images to look for.
    look_for_more: Instant,
    tell_from: Instant,
}

/// Waits for what comes next.
async fn wait_for(driver: &mut Driver, told: &Told, silences: &Silences, until: Until) -> Result<Next, Failure> {
    if Instant::now() >= until.look {
        // However much there is to hear and to tell.
        return Ok(Next::Look);
    }
    let mut alarm = pin!(sleep_until(until.look.into()));
    let mut more = pin!(async {
        told.more().await;
        sleep_until(until.look_for_more.into()).await;
    });
    let mut to_tell = pin!(told.due(until.tell_from, silences));
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
        if more.as_mut().poll(cx).is_ready() {
            return Poll::Ready(Ok(Next::Look));
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
