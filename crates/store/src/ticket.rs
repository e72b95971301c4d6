//! What a submitter holds while its transaction is on the way.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use dataglot_model::{Seq, TransactionId};
use tokio::sync::oneshot;

use crate::{Compiler, StoreError};

/// A transaction that is durable.
pub struct Done<C: Compiler> {
    /// Its id: the one that it was submitted with, unless that was declared as not committed meanwhile.
    pub id: TransactionId,
    /// Its number; `None`: nothing changed, and nothing was written.
    pub seq: Option<Seq>,
    /// What it answers.
    pub answer: C::Answer,
    /// An image of its org in which it is, perhaps with later ones.
    pub state: Arc<C::State>,
}

/// Why a transaction was not committed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SubmitError<R> {
    /// The compiler refused it.
    Refused(R),
    /// Too many are waiting.
    Full,
    /// The hub takes no more.
    Stopped,
    /// It was cancelled in time.
    Withdrawn,
    /// Nothing was written.
    Failed(StoreError),
    /// It may be there or not (08007): ask for it by its id later.
    Unknown(TransactionId),
}

/// How a transaction ended.
pub(crate) type Outcome<C> = Result<Done<C>, SubmitError<<C as Compiler>::Refusal>>;

const QUEUED: u8 = 0;
const TAKEN: u8 = 1;
const WITHDRAWN: u8 = 2;

/// Who was first: the committer that takes a transaction, or the submitter that withdraws it. And what the
/// transaction is called by now.
pub(crate) struct Claim {
    state: AtomicU8,
    id: Mutex<TransactionId>,
}

impl Claim {
    /// The committer takes it, unless it was withdrawn.
    pub(crate) fn take(&self) -> bool {
        self.state.compare_exchange(QUEUED, TAKEN, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    fn withdraw(&self) -> bool {
        self.state.compare_exchange(QUEUED, WITHDRAWN, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// The transaction gets another id.
    pub(crate) fn rename(&self, id: TransactionId) {
        *self.id.lock().unwrap_or_else(PoisonError::into_inner) = id;
    }

    fn id(&self) -> TransactionId {
        *self.id.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn state(&self) -> u8 {
        self.state.load(Ordering::Acquire)
    }
}

/// A transaction on its way. Resolves when it is durable or will never be. Dropping it changes
/// nothing: the transaction goes on.
#[must_use = "the outcome is known only to its ticket"]
pub struct Ticket<C: Compiler> {
    claim: Arc<Claim>,
    reply: oneshot::Receiver<Outcome<C>>,
}

impl<C: Compiler> Ticket<C> {
    pub(crate) fn new(id: TransactionId) -> (Self, Arc<Claim>, oneshot::Sender<Outcome<C>>) {
        let (sender, reply) = oneshot::channel();
        let claim = Arc::new(Claim { state: AtomicU8::new(QUEUED), id: Mutex::new(id) });
        (Ticket { claim: Arc::clone(&claim), reply }, claim, sender)
    }

    /// The identity of the transaction. It may get another one.
    pub fn id(&self) -> TransactionId {
        self.claim.id()
    }

    /// Takes it back. True: in time, nothing will be written, and the ticket resolves to
    /// [`SubmitError::Withdrawn`]. False: the committer has it; the ticket resolves to its outcome.
    pub fn cancel(&self) -> bool {
        self.claim.withdraw()
    }

    /// Blocks until it resolves. Not for threads of an async runtime.
    ///
    /// # Errors
    /// [`SubmitError`] says why it was not committed.
    pub fn wait(self) -> Outcome<C> {
        if self.claim.state() == WITHDRAWN {
            return Err(SubmitError::Withdrawn);
        }
        let claim = self.claim;
        self.reply.blocking_recv().unwrap_or_else(|_| Err(lost(&claim)))
    }
}

/// What became of a transaction whose committer is gone.
fn lost<R>(claim: &Claim) -> SubmitError<R> {
    match claim.state() {
        WITHDRAWN => SubmitError::Withdrawn,
        QUEUED => SubmitError::Stopped,
        _ => SubmitError::Unknown(claim.id()),
    }
}

impl<C: Compiler> Future for Ticket<C> {
    type Output = Outcome<C>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        if self.claim.state() == WITHDRAWN {
            return Poll::Ready(Err(SubmitError::Withdrawn));
        }
        let claim = Arc::clone(&self.claim);
        Pin::new(&mut self.reply).poll(cx).map(|reply| reply.unwrap_or_else(|_| Err(lost(&claim))))
    }
}
