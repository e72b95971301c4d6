//! Where an issuer's keys come from, and how old what we have of them may be.
//!
//! Keys are asked for again when they are [`REFRESH_AFTER`] old, and when a token names one that is not among them:
//! at most once a minute, whoever sends what (J6). An issuer that can't be reached is believed for [`STALE_MAX`]
//! after it last was, and then no more (J8).

use std::path::PathBuf;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use tokio::sync::{Mutex, OwnedMutexGuard};
use tokio::time::Instant;

use super::super::denied::{Denied, deny};
use super::fetch::{Address, KEY_SET_BYTES_MAX};
use super::keys::{Key, Keys};

/// How old keys are when they are asked for again.
const REFRESH_AFTER: Duration = Duration::from_secs(15 * 60);
/// How long nothing is asked for after it was.
const PAUSE: Duration = Duration::from_secs(60);
/// How old keys are when they are none any more.
const STALE_MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// Where they are.
pub(super) enum Place {
    /// In a file.
    File(PathBuf),
    /// At an address.
    Url(Address),
}

/// The keys of an issuer.
pub(super) struct Source {
    issuer: String,
    place: Place,
    held: RwLock<Option<Held>>,
    /// When they were last asked for. Who has the lock asks.
    asked: Arc<Mutex<Option<Instant>>>,
}

/// Keys, and when they were the issuer's.
#[derive(Clone)]
struct Held {
    keys: Arc<Keys>,
    at: Instant,
}

impl Held {
    fn age(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.at)
    }
}

impl Source {
    /// The keys of `issuer`. None has been asked for yet.
    pub(super) fn new(issuer: String, place: Place) -> Arc<Source> {
        Arc::new(Source { issuer, place, held: RwLock::default(), asked: Arc::default() })
    }

    /// Reads keys that are in a file, so that it is seen at the start what is wrong with it.
    ///
    /// # Errors
    /// It can't be read, or holds no keys.
    pub(super) fn load(&self) -> Result<(), &'static str> {
        match &self.place {
            Place::File(path) => self.hold(&read_file(path)?, Instant::now()),
            Place::Url(_) => Ok(()),
        }
    }

    /// The key of that name.
    ///
    /// # Errors
    /// The issuer has none, or can't be asked and what we had of it is too old.
    pub(super) async fn key(self: &Arc<Self>, kid: Option<&str>, now: Instant) -> Result<Key, Denied> {
        let held = self.held();
        let known =
            held.as_ref().filter(|held| held.age(now) < STALE_MAX).and_then(|held| held.keys.find(kid).cloned());
        let is_fresh = held.is_some_and(|held| held.age(now) < REFRESH_AFTER);
        if let (Some(key), true) = (&known, is_fresh) {
            return Ok(key.clone());
        }
        match known {
            // One asks, the others take what there is.
            Some(_) => {
                if let Ok(asked) = Arc::clone(&self.asked).try_lock_owned() {
                    self.refresh(asked, now).await;
                }
            }
            None => self.refresh(Arc::clone(&self.asked).lock_owned().await, now).await,
        }
        let Some(held) = self.held().filter(|held| held.age(now) < STALE_MAX) else {
            return deny("the issuer's keys are not known, or were last known too long ago");
        };
        held.keys.find(kid).cloned().ok_or(Denied { reason: "the issuer has no key of the token's \"kid\"" })
    }

    /// Asks, if it may be asked now. The question is nobody's: a login that is over does not take it back, or one
    /// who hangs up in time would have everybody wait for the next one.
    async fn refresh(self: &Arc<Self>, mut asked: OwnedMutexGuard<Option<Instant>>, now: Instant) {
        if asked.is_some_and(|at| now.saturating_duration_since(at) < PAUSE) {
            return;
        }
        *asked = Some(now);
        let source = Arc::clone(self);
        let task = tokio::spawn(async move {
            source.ask(now).await;
            drop(asked);
        });
        if task.await.is_err() {
            tracing::error!(issuer = %self.issuer, "the issuer's keys were not read");
        }
    }

    async fn ask(&self, now: Instant) {
        let outcome = match &self.place {
            Place::File(path) => {
                let path = path.clone();
                let read = tokio::task::spawn_blocking(move || read_file(&path)).await;
                read.unwrap_or(Err("the file can't be read")).and_then(|text| self.hold(&text, now))
            }
            Place::Url(address) => match address.get().await {
                Ok(text) => self.hold(&text, now),
                Err(why) => Err(why),
            },
        };
        match outcome {
            Ok(()) => tracing::debug!(issuer = %self.issuer, "the issuer's keys have been read"),
            Err(why) => tracing::warn!(issuer = %self.issuer, why, "the issuer's keys can't be read"),
        }
    }

    fn hold(&self, text: &[u8], now: Instant) -> Result<(), &'static str> {
        let keys = Arc::new(Keys::read(text)?);
        *self.held.write().unwrap_or_else(PoisonError::into_inner) = Some(Held { keys, at: now });
        Ok(())
    }

    fn held(&self) -> Option<Held> {
        self.held.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

fn read_file(path: &std::path::Path) -> Result<Vec<u8>, &'static str> {
    use std::io::Read as _;
    let mut text = Vec::new();
    let file = std::fs::File::open(path).map_err(|_| "the file can't be read")?;
    file.take(KEY_SET_BYTES_MAX as u64 + 1).read_to_end(&mut text).map_err(|_| "the file can't be read")?;
    if text.len() > KEY_SET_BYTES_MAX { Err("the file is too long") } else { Ok(text) }
}
