//! The images of all orgs, and the way in for transactions.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use dataglot_model::{ChangedStatement, Name, OrgName, Seq, Timestamp, TransactionId};
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{broadcast, oneshot};
use tokio::time::{Instant, timeout, timeout_at};

use crate::catch_up::DeltaLimits;
use crate::committer::Committer;
use crate::follower::{Follower, Watch};
use crate::freshness::Contact;
use crate::group::{Transaction, commit_first, empty_head};
use crate::images::Images;
use crate::queue::{Job, PushError, Queue};
use crate::reader::Readers;
use crate::record::{ChangeEntry, Damage, read_changes};
use crate::turns::Turns;
use crate::{Compiler, Freshness, MetaStore, Metrics, State, StoreError, Submission, SubmitError, Ticket};

/// How long a store may take to say how new it is.
const REFRESH_MAX: Duration = Duration::from_secs(5);

/// A transaction is durable. Sent after it is, in order, without a gap as long as the receiver keeps
/// up; one that lags reads [`Hub::changes`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// In which org.
    pub org: OrgName,
    /// Its number.
    pub seq: Seq,
}

/// Bounds of a hub.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HubLimits {
    /// Transactions that may wait.
    pub queue_requests_max: usize,
    /// Bytes that they may take.
    pub queue_bytes_max: usize,
    /// Transactions of one commit.
    pub group_requests_max: usize,
    /// Bytes that the requests of one commit take; a single larger one is a group of its own.
    pub group_bytes_max: usize,
    /// While so many or more are committed, the next group is planned.
    pub ahead_from: usize,
    /// Events that a receiver may lag behind.
    pub feed_events_max: usize,
    /// Transactions of other writers that an image is brought forward by; after more it is loaded anew.
    pub delta_transactions_max: u64,
    /// Bytes of history that it is brought forward by.
    pub delta_bytes_max: usize,
    /// How long images count that could not be compared with a shared store.
    pub lease: Duration,
}

impl Default for HubLimits {
    fn default() -> Self {
        HubLimits {
            queue_requests_max: 4096,
            queue_bytes_max: 256 << 20,
            group_requests_max: 256,
            group_bytes_max: 8 << 20,
            ahead_from: 4,
            feed_events_max: 4096,
            delta_transactions_max: 4096,
            delta_bytes_max: 64 << 20,
            lease: Duration::from_secs(30),
        }
    }
}

/// The first transaction of a new store: it makes the first org.
pub struct FirstOrg {
    /// The org.
    pub name: OrgName,
    /// Its identity.
    pub org_id: u64,
    /// The transaction's identity.
    pub id: TransactionId,
    /// When it started.
    pub at: Timestamp,
    /// Who does it.
    pub actor: Name,
    /// As what session, for people.
    pub session: Arc<str>,
    /// What it does.
    pub statement: ChangedStatement,
}

/// A store with its committer and its images. Clones are handles on the same one; when the last is
/// dropped, the queue is finished and the committer ends.
pub struct Hub<C: Compiler> {
    shared: Arc<Shared<C>>,
    running: Arc<Running<C>>,
}

impl<C: Compiler> Clone for Hub<C> {
    fn clone(&self) -> Self {
        Hub { shared: Arc::clone(&self.shared), running: Arc::clone(&self.running) }
    }
}

struct Shared<C: Compiler> {
    store: Arc<dyn MetaStore>,
    store_id: [u8; 16],
    images: Arc<Images<C::State>>,
    queue: Arc<Queue<C>>,
    compiler: Arc<C>,
    events: broadcast::Sender<Event>,
    readers: Readers,
    /// What waits for who commits must not hold up what only reads.
    settlers: Readers,
    settling: Turns,
    contact: Arc<Contact>,
    metrics: Arc<Metrics>,
}

/// Ends the committer when the last handle goes.
struct Running<C: Compiler> {
    queue: Arc<Queue<C>>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl<C: Compiler> Running<C> {
    fn stop(&self) {
        self.queue.stop();
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if thread.is_some_and(|t| t.join().is_err()) {
            tracing::error!("the committer panicked");
        }
    }
}

impl<C: Compiler> Drop for Running<C> {
    fn drop(&mut self) {
        self.stop();
    }
}

impl<C: Compiler> Hub<C> {
    /// Starts the committer. Loads nothing yet but what the store says of itself.
    ///
    /// # Errors
    /// The store cannot be read, or no thread can be started.
    pub fn open(store: Arc<dyn MetaStore>, compiler: C, limits: HubLimits) -> Result<Self, StoreError> {
        store.health()?;
        let facts = store.facts();
        let contact = Arc::new(Contact::new(facts.shared, limits.lease));
        let metrics = Arc::new(Metrics::default());
        let compiler = Arc::new(compiler);
        let queue = Arc::new(Queue::new(limits.queue_requests_max, limits.queue_bytes_max));
        let images = Arc::new(Images::new(Arc::clone(&store), Arc::clone(&metrics)));
        let (events, _) = broadcast::channel(limits.feed_events_max.max(1));
        let follower = Follower {
            store: Arc::clone(&store),
            images: Arc::clone(&images),
            contact: Arc::clone(&contact),
            events: events.clone(),
            metrics: Arc::clone(&metrics),
            limits: DeltaLimits { transactions_max: limits.delta_transactions_max, bytes_max: limits.delta_bytes_max },
            marked: BTreeSet::new(),
        };
        let committer = Committer::new(Arc::clone(&compiler), Arc::clone(&queue), follower, &limits)?;
        let thread = std::thread::Builder::new()
            .name("committer".to_owned())
            .spawn(move || committer.run())
            .map_err(|e| StoreError::io("start a thread for", &e))?;
        let running = Arc::new(Running { queue: Arc::clone(&queue), thread: Mutex::new(Some(thread)) });
        store.watch(Arc::new(Watch::new(&queue, &images, Arc::clone(&contact), Arc::clone(&metrics))))?;
        let (readers, settlers) = (Readers::start()?, Readers::start()?);
        let settling = Turns::default();
        let store_id = facts.store_id;
        let shared =
            Shared { store, store_id, images, queue, compiler, events, readers, settlers, settling, contact, metrics };
        Ok(Hub { shared: Arc::new(shared), running })
    }

    /// The org's image. Cheap, but for the first time: then it is loaded, which blocks.
    ///
    /// # Errors
    /// It cannot be loaded.
    pub fn state(&self, org: &OrgName) -> Result<Option<Arc<C::State>>, StoreError> {
        self.shared.images.get_or_load(org)
    }

    /// The org's image, loaded on another thread if it has to be.
    ///
    /// # Errors
    /// It cannot be loaded.
    pub async fn load(&self, org: &OrgName) -> Result<Option<Arc<C::State>>, StoreError> {
        if let Some(state) = self.shared.images.get(org) {
            return Ok(Some(state));
        }
        let images = Arc::clone(&self.shared.images);
        let name = org.clone();
        let state = self.shared.readers.run(move || images.get_or_load(&name)).await?;
        if self.shared.contact.is_shared() {
            // What was committed while it was loaded may have been announced to nobody.
            self.shared.queue.tell(|news| {
                news.hints.insert(org.clone(), Seq(u64::MAX));
            });
        }
        Ok(state)
    }

    /// Brings the org's image, if it is loaded, up to what the store has now. Costs nothing in a store
    /// that is not shared.
    ///
    /// # Errors
    /// The store cannot be asked, or its history is another one.
    pub async fn refresh(&self, org: &OrgName) -> Result<(), StoreError> {
        if !self.shared.contact.is_shared() {
            return Ok(());
        }
        let (sender, answer) = oneshot::channel();
        self.shared.queue.tell(|news| news.asked.entry(org.clone()).or_default().push(sender));
        match timeout(REFRESH_MAX, answer).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(_)) => Err(StoreError::Unavailable { reason: "this server is shutting down".into() }),
            Err(_) => Err(StoreError::Unavailable { reason: "it did not answer in time".into() }),
        }
    }

    /// Waits until the org's image has transaction `seq`. False: it has not, after `within`.
    ///
    /// # Errors
    /// The image cannot be loaded.
    pub async fn wait_for(&self, org: &OrgName, seq: Seq, within: Duration) -> Result<bool, StoreError> {
        let until = Instant::now() + within;
        // First the feed, then the look: nothing can fall between the two.
        let mut events = self.subscribe();
        let mut asked = false;
        loop {
            let state = self.load(org).await?;
            if state.is_some_and(|s| s.head().seq >= seq) {
                return Ok(true);
            }
            if !std::mem::replace(&mut asked, true) {
                // If that fails, the feed may bring it all the same.
                let _ = timeout_at(until, self.refresh(org)).await;
                continue;
            }
            match timeout_at(until, events.recv()).await {
                Ok(Ok(_) | Err(RecvError::Lagged(_))) => {}
                Ok(Err(RecvError::Closed)) | Err(_) => return Ok(false),
            }
        }
    }

    /// How old the images are, but for those that could not be brought up to the store.
    pub fn freshness(&self) -> Freshness {
        self.shared.contact.freshness()
    }

    /// How old the org's image is.
    pub fn freshness_of(&self, org: &OrgName) -> Freshness {
        self.shared.contact.freshness_of(org)
    }

    /// How long ago the images were last known to be as new as the store, but for those that could not be
    /// brought up to it.
    pub fn contact_age(&self) -> Duration {
        self.shared.contact.age()
    }

    /// Why nothing is written to the org any more, if its history in the store is not the one that was seen
    /// before.
    pub fn diverged(&self, org: &OrgName) -> Option<StoreError> {
        self.shared.contact.diverged(org)
    }

    /// The orgs of which that is so.
    pub fn all_diverged(&self) -> Vec<OrgName> {
        self.shared.contact.all_diverged()
    }

    /// What is counted and timed.
    pub fn metrics(&self) -> &Arc<Metrics> {
        &self.shared.metrics
    }

    /// The images that are loaded.
    pub fn images(&self) -> Vec<Arc<C::State>> {
        self.shared.images.loaded().iter().filter_map(|org| self.shared.images.get(org)).collect()
    }

    /// The records of the org that were found damaged when it was loaded.
    pub fn damage(&self, org: &OrgName) -> Arc<[Damage]> {
        self.shared.images.damage(org)
    }

    /// The orgs of the store, in order.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn orgs(&self) -> Result<Vec<OrgName>, StoreError> {
        Ok(self.shared.store.heads()?.into_iter().map(|(org, _)| org).collect())
    }

    /// Makes the first org of an empty store.
    ///
    /// # Errors
    /// There is an org already ([`StoreError::Contended`]), or the store failed.
    pub async fn create_first_org(&self, first: FirstOrg) -> Result<Arc<C::State>, StoreError> {
        let (store, images) = (Arc::clone(&self.shared.store), Arc::clone(&self.shared.images));
        let events = self.shared.events.clone();
        self.shared
            .readers
            .run(move || {
                let FirstOrg { name, org_id, id, at, actor, session, statement } = first;
                let mut state = C::State::new(name.clone(), empty_head(org_id, at));
                statement.mutations.iter().for_each(|m| state.apply(m));
                let seq = Seq(1);
                state.advance(seq, at);
                let transaction = Transaction { id, seq, at, actor, session, statements: vec![statement] };
                commit_first(store.as_ref(), &name, state.head(), transaction)?;
                let state = Arc::new(state);
                images.publish(vec![(name.clone(), Some(Arc::clone(&state)))]);
                // Without a receiver there is nobody to tell.
                let _ = events.send(Event { org: name, seq });
                Ok(state)
            })
            .await
    }

    /// Puts a transaction in the queue.
    pub fn submit(&self, submission: Submission<C::Request>) -> Ticket<C> {
        let (ticket, claim, reply) = Ticket::new(submission.id);
        let weight = self.shared.compiler.weight(&submission.request);
        if let Err((job, why)) = self.shared.queue.push(Job { submission, weight, claim, reply }) {
            let error = match why {
                PushError::Full => SubmitError::Full,
                PushError::Stopped => SubmitError::Stopped,
            };
            // The ticket is in our hand: it cannot be gone.
            let _ = job.reply.send(Err(error));
        }
        ticket
    }

    /// Transactions that become durable from now on, of all orgs.
    pub fn subscribe(&self) -> broadcast::Receiver<Event> {
        self.shared.events.subscribe()
    }

    /// Up to `limit` transactions of the org after `after`, in order; fewer where they are large. None:
    /// there is none after it.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn changes(&self, org: &OrgName, after: Seq, limit: usize) -> Result<Vec<ChangeEntry>, StoreError> {
        let (store, org) = (Arc::clone(&self.shared.store), org.clone());
        self.shared.readers.run(move || read_changes(store.as_ref(), &org, after, limit)).await
    }

    /// The number of the transaction `id` of the org, if it was committed. If not, it never will be. The store is
    /// asked by one after the other: to make it so holds up who commits to the org.
    ///
    /// # Errors
    /// The store cannot say, or cannot make it so.
    pub async fn transaction(&self, org: &OrgName, id: TransactionId) -> Result<Option<Seq>, StoreError> {
        let turn = self.shared.settling.turn(org).await;
        let (store, org) = (Arc::clone(&self.shared.store), org.clone());
        let settle = move || {
            let settled = store.settle_transaction(&org, id);
            // Not before, even if nobody waits for the answer any more.
            drop(turn);
            settled
        };
        self.shared.settlers.run(settle).await
    }

    /// The identity of the store.
    pub fn store_id(&self) -> [u8; 16] {
        self.shared.store_id
    }

    /// The store itself, for what is no transaction: facts, health, backup.
    pub fn store(&self) -> &Arc<dyn MetaStore> {
        &self.shared.store
    }

    /// Takes no more transactions, finishes those in the queue, and ends the committer. Blocks until
    /// then. Images stay readable.
    pub fn shutdown(&self) {
        self.running.stop();
    }
}
