//! LISTEN, and what a listener is told: that its org has a new transaction, never what is in it.
//!
//! A client that lags is told the newest number: with it, SHOW CHANGES SINCE gives it all the rest.

use dataglot_model::{OrgName, Seq};
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
    /// The last transaction that it was told of, or that was there when it began to listen.
    told: Seq,
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
    pub async fn next_notification(&mut self) -> Notification {
        if self.status() == TransactionStatus::Idle {
            while let Some(feed) = &mut self.listener.feed {
                let event = feed.recv().await;
                let seq = match event {
                    Ok(event) if event.org == self.org => Some(event.seq),
                    Ok(_) => None,
                    Err(RecvError::Lagged(_)) => self.newest_seq().await,
                    Err(RecvError::Closed) => break,
                };
                if let Some(seq) = seq.filter(|seq| *seq > self.listener.told) {
                    self.listener.told = seq;
                    return notification(&self.org, seq);
                }
            }
        }
        std::future::pending().await
    }

    /// The notifications that are there now, for a client that is about to be told that it may go on.
    pub async fn take_notifications(&mut self) -> Vec<Notification> {
        if self.status() != TransactionStatus::Idle {
            return Vec::new();
        }
        let mut seqs: Vec<Seq> = Vec::new();
        while let Some(feed) = &mut self.listener.feed {
            let seq = match feed.try_recv() {
                Ok(event) if event.org == self.org => Some(event.seq),
                Ok(_) => None,
                Err(TryRecvError::Lagged(_)) => self.newest_seq().await,
                Err(TryRecvError::Empty | TryRecvError::Closed) => break,
            };
            if let Some(seq) = seq.filter(|seq| *seq > self.listener.told) {
                self.listener.told = seq;
                seqs.push(seq);
            }
        }
        seqs.into_iter().map(|seq| notification(&self.org, seq)).collect()
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
