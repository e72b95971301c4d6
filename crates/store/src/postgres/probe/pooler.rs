//! Is there a proxy in between that gives each transaction whatever session is free?
//!
//! A session is marked with a setting, a process id and a lock. While other connections hold transactions
//! open, the mark has to stay with the connection that made it and be seen by no other. At last, a
//! notification has to arrive: that alone needs a session of one's own.

use std::fmt::Write as _;
use std::future::poll_fn;
use std::task::Poll;
use std::time::Duration;

use tokio_postgres::AsyncMessage;

use super::ask;
use crate::PostgresError;
use crate::postgres::connect::{ConnectFailure, Link, connect_bare};
use crate::postgres::dsn::Dsn;

/// Transactions that are held open at once, each of which takes a session from a pool.
const HELD: usize = 3;
/// How often they are.
const ROUNDS: usize = 2;
/// How long a notification may take.
const NOTIFICATION: Duration = Duration::from_secs(3);
/// How many are sent, one after the other, before it is said that none arrives.
const NOTIFICATIONS: usize = 2;

const SHARED: &str = "A second connection was given the session of the first.";
const CHANGED: &str = "A connection was given another session for its second transaction.";
const DEAF: &str = "A notification did not arrive within 3 seconds.";

/// What marks a session.
struct Mark {
    token: String,
    lock: i64,
}

/// How a pooling proxy shows, if one does. `first` is a fresh session, `dsn` leads to its server.
pub(super) async fn sign(dsn: &Dsn, first: &mut Link) -> Result<Option<&'static str>, PostgresError> {
    let mark = Mark::random();
    let pid = mark.put(first).await?;
    let mut others = Vec::new();
    for _ in 0..ROUNDS {
        for slot in 0..HELD {
            if others.len() <= slot {
                match connect_bare(dsn).await {
                    Ok(link) => others.push(link),
                    // One is enough to notify; more only make it surer.
                    Err(error)
                        if slot > 0
                            && error.attempts.iter().all(|a| a.failure == ConnectFailure::TooManyConnections) =>
                    {
                        break;
                    }
                    Err(error) => return Err(error.into()),
                }
            }
            let Some(other) = others.get_mut(slot) else { break };
            if mark.is_seen(other, &pid).await? {
                mark.remove(other).await?;
                return Ok(Some(SHARED));
            }
            if !mark.is_kept(first, &pid).await? {
                return Ok(Some(CHANGED));
            }
        }
        for other in &mut others {
            ask(other, "COMMIT").await?;
        }
    }
    mark.remove(first).await?;
    let heard = match others.first_mut() {
        Some(other) => hears(first, other, &mark).await?,
        None => true,
    };
    Ok((!heard).then_some(DEAF))
}

impl Mark {
    /// One that nobody else uses. Without randomness a fixed one does, but for two probes at once.
    fn random() -> Mark {
        let token = (0..4).fold(String::new(), |mut text, _| {
            let _ = write!(text, "{:08x}", getrandom::u32().unwrap_or_default());
            text
        });
        Mark { token, lock: getrandom::u64().unwrap_or_default().cast_signed() }
    }

    /// Marks the session, and tells the process that serves it.
    async fn put(&self, link: &mut Link) -> Result<Option<String>, PostgresError> {
        let Mark { token, lock } = self;
        let row = ask(
            link,
            &format!(
                "SELECT pg_catalog.pg_backend_pid(), pg_catalog.set_config('dataglot.probe', '{token}', false), \
                 pg_catalog.pg_try_advisory_lock({lock})"
            ),
        )
        .await?;
        Ok(row.into_iter().next().flatten())
    }

    /// Whether another connection, in a transaction that stays open, meets the marked session.
    async fn is_seen(&self, other: &mut Link, pid: &Option<String>) -> Result<bool, PostgresError> {
        let row =
            ask(other, "BEGIN; SELECT pg_catalog.pg_backend_pid(), pg_catalog.current_setting('dataglot.probe', true)")
                .await?;
        let token = row.get(1).and_then(Option::as_deref);
        Ok(row.first() == Some(pid) || token == Some(self.token.as_str()))
    }

    /// Whether the connection still has the session that it marked, with all of the mark.
    async fn is_kept(&self, first: &mut Link, pid: &Option<String>) -> Result<bool, PostgresError> {
        let (high, low) = (self.lock.cast_unsigned() >> 32, self.lock.cast_unsigned() & 0xffff_ffff);
        let row = ask(
            first,
            &format!(
                "SELECT pg_catalog.pg_backend_pid(), pg_catalog.current_setting('dataglot.probe', true), \
                 (SELECT pg_catalog.count(*) FROM pg_catalog.pg_locks \
                  WHERE locktype OPERATOR(pg_catalog.=) 'advisory' AND objsubid OPERATOR(pg_catalog.=) 1 \
                  AND classid::pg_catalog.int8 OPERATOR(pg_catalog.=) {high} \
                  AND objid::pg_catalog.int8 OPERATOR(pg_catalog.=) {low} \
                  AND pid OPERATOR(pg_catalog.=) pg_catalog.pg_backend_pid())"
            ),
        )
        .await?;
        Ok(row == [pid.clone(), Some(self.token.clone()), Some("1".to_owned())])
    }

    /// Takes the mark off the session that the connection has just now, and ends its transaction.
    async fn remove(&self, link: &mut Link) -> Result<(), PostgresError> {
        let lock = self.lock;
        let sql = format!(
            "SELECT pg_catalog.set_config('dataglot.probe', '', false), pg_catalog.pg_advisory_unlock({lock}); COMMIT"
        );
        ask(link, &sql).await.map(|_| ())
    }
}

/// Whether a notification that `other` sends reaches `first`.
async fn hears(first: &mut Link, other: &mut Link, mark: &Mark) -> Result<bool, PostgresError> {
    let channel = format!("dataglot_probe_{}", mark.token);
    ask(first, &format!("LISTEN {channel}")).await?;
    let mut heard = false;
    for _ in 0..NOTIFICATIONS {
        ask(other, &format!("SELECT pg_catalog.pg_notify('{channel}', '')")).await?;
        let arrival = poll_fn(|cx| {
            loop {
                match first.messages.as_mut().poll_next(cx) {
                    Poll::Ready(Some(Ok(AsyncMessage::Notification(n)))) if n.channel() == channel => {
                        return Poll::Ready(true);
                    }
                    Poll::Ready(Some(Ok(_))) => {}
                    Poll::Ready(Some(Err(_)) | None) => return Poll::Ready(false),
                    Poll::Pending => return Poll::Pending,
                }
            }
        });
        heard = tokio::time::timeout(NOTIFICATION, arrival).await.unwrap_or(false);
        if heard {
            break;
        }
    }
    ask(first, &format!("UNLISTEN {channel}")).await?;
    Ok(heard)
}
