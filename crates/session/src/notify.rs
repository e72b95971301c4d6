//! LISTEN, and what a listener is told: that its org has a new transaction, never what is in it.
//!
//! A client that lags is told the newest number: with it, SHOW CHANGES SINCE gives it all the rest.

use dataglot_model::{OrgName, Report, Seq};
use dataglot_store::{Event, State};
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::{RecvError, TryRecvError};

use crate::session::{Session, TransactionStatus};

/// The channel on which changes are announced. Any other can be listened on, and stays silent.
pub(crate) const CHANNEL: &str = "dataglot_changes";

/// Something that a listener is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notification {
    /// The channel.
    pub channel: String,
    /// `{"org":"…","seq":n}`
    pub payload: String,
    /// The process id that it is sent with: 0, since a transaction's session may be gone.
    pub pid: i32,
}

/// Whether a session listens, and what it was told.
#[derive(Default)]
pub(crate) struct Listener {
    feed: Option<Receiver<Event>>,
    /// What has come off the feed and was not told yet.
    heard: Option<Heard>,
    /// The last transaction that it was told of, or that was there when it began to listen.
    told: Seq,
}

/// What a feed says of the session's org.
#[derive(Clone, Copy)]
enum Heard {
    /// That transaction.
    One(Seq),
    /// Some were left out.
    Lagged,
}

fn notification(org: &OrgName, seq: Seq) -> Notification {
    // An org's name is of [a-z0-9_-]: nothing in it has to be escaped.
    Notification {
        channel: CHANNEL.to_owned(),
        payload: format!("{{\"org\":\"{}\",\"seq\":{seq}}}", org.as_str()),
        pid: 0,
    }
}

impl Session {
    /// The next notification. Pends for ever in a session that does not listen, and in a block.
    /// Cancel-safe: what was not returned is returned by a later call.
    ///
    /// # Errors
    /// The session is over, for [`Session::terminate_reason`]: whoever may not log in any more is told nothing.
    pub async fn next_notification(&mut self) -> Result<Notification, Report> {
        if self.status() == TransactionStatus::Idle {
            while let Some(feed) = &mut self.listener.feed {
                if self.listener.heard.is_none() {
                    self.listener.heard = match feed.recv().await {
                        Ok(event) if event.org == self.org => Some(Heard::One(event.seq)),
                        Ok(_) => None,
                        Err(RecvError::Lagged(_)) => Some(Heard::Lagged),
                        Err(RecvError::Closed) => break,
                    };
                }
                if let Some(notification) = self.tell().await? {
                    return Ok(notification);
                }
            }
        }
        std::future::pending().await
    }

    /// The notifications that are there now, for a client that is about to be told that it may go on.
    ///
    /// # Errors
    /// As for [`Session::next_notification`].
    pub async fn take_notifications(&mut self) -> Result<Vec<Notification>, Report> {
        let mut notifications = Vec::new();
        if self.status() != TransactionStatus::Idle {
            return Ok(notifications);
        }
        while let Some(feed) = &mut self.listener.feed {
            if self.listener.heard.is_none() {
                self.listener.heard = match feed.try_recv() {
                    Ok(event) if event.org == self.org => Some(Heard::One(event.seq)),
                    Ok(_) => None,
                    Err(TryRecvError::Lagged(_)) => Some(Heard::Lagged),
                    Err(TryRecvError::Empty | TryRecvError::Closed) => break,
                };
            }
            notifications.extend(self.tell().await?);
        }
        Ok(notifications)
    }

    /// What was heard, unless the client knows it.
    async fn tell(&mut self) -> Result<Option<Notification>, Report> {
        let Some(heard) = self.listener.heard else { return Ok(None) };
        let newest = self.newest().await;
        self.listener.heard = None;
        let newest = match (newest, self.terminate_reason()) {
            (Ok(newest), _) => newest,
            (Err(_), Some(report)) => return Err(report.clone()),
            // The state is not known now. The next one is told.
            (Err(_), None) => return Ok(None),
        };
        let seq = match heard {
            Heard::One(seq) => seq,
            Heard::Lagged => newest.head().seq,
        };
        let is_news = seq > self.listener.told;
        self.listener.told = self.listener.told.max(seq);
        Ok(is_news.then(|| notification(&self.org, seq)))
    }

    async fn newest_seq(&self) -> Option<Seq> {
        self.engine.image(&self.org).await.ok().flatten().map(|s| s.head().seq)
    }

    /// A LISTEN or UNLISTEN takes effect.
    pub(crate) async fn listen(&mut self, on: bool) {
        if !on {
            self.listener = Listener::default();
        } else if self.listener.feed.is_none() {
            // First the feed, then the number: nothing can fall between the two.
            self.listener.feed = Some(self.engine.hub().subscribe());
            self.listener.told = self.newest_seq().await.unwrap_or_default();
        }
    }

    pub(crate) fn is_listening(&self) -> bool {
        self.listener.feed.is_some()
    }
}
