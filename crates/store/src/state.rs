//! What the committer has to know of images and of planning: as little as possible.

use std::sync::Arc;

use dataglot_model::{ChangedStatement, HeadRecord, Mutation, Name, OrgName, Seq, Timestamp, TransactionId};

/// An org's image. A clone costs next to nothing.
pub trait State: Clone + Send + Sync + 'static {
    /// An empty one.
    fn new(org: OrgName, head: HeadRecord) -> Self;
    /// Its head.
    fn head(&self) -> HeadRecord;
    /// Applies a change. Never fails. Rows are loaded with it too, as `Put` in any order.
    fn apply(&mut self, mutation: &Mutation);
    /// A transaction was committed.
    fn advance(&mut self, seq: Seq, at: Timestamp);
    /// Other writers' transactions were committed, and what they have made of the rows was applied.
    fn set_head(&mut self, head: HeadRecord);
    /// The secret's ciphertext was found damaged.
    fn mark_unreadable(&mut self, secret: &Name);
}

/// Authorizes and plans requests. Pure: called again with the same image, it answers the same.
pub trait Compiler: Send + Sync + 'static {
    /// The image.
    type State: State;
    /// One transaction as it was submitted. It may keep in it what makes a second call cheaper.
    type Request: Send + 'static;
    /// What the submitter gets for a transaction that was committed.
    type Answer: Send + 'static;
    /// Why a transaction was refused.
    type Refusal: Send + 'static;

    /// Plans `request` on `state`. `target` gives the image of another org, `None` if there is none.
    ///
    /// # Errors
    /// Refused: nothing is written for it.
    fn compile(
        &self,
        state: &Self::State,
        target: &dyn Fn(&OrgName) -> Option<Self::State>,
        request: &mut Self::Request,
    ) -> Result<Compiled<Self::State, Self::Answer>, Self::Refusal>;

    /// The refusal of a request whose compilation panicked (and was logged by the panic hook).
    fn panicked(&self) -> Self::Refusal;

    /// About how many bytes `request` keeps in memory, for the bounds of the queue and of a group.
    fn weight(&self, _request: &Self::Request) -> usize {
        1024
    }
}

/// What a request comes to.
pub struct Compiled<S, A> {
    /// The statements that change something, in order. None: nothing is written for it.
    pub statements: Vec<ChangedStatement>,
    /// The image after all of them, head not advanced.
    pub state: S,
    /// What the submitter gets when it is durable.
    pub answer: A,
    /// The org that it makes or drops besides.
    pub org: Option<OrgWrite>,
}

/// An org that is made or dropped in the same commit.
pub enum OrgWrite {
    /// It is made.
    Create {
        /// Its name.
        name: OrgName,
        /// Its identity.
        org_id: u64,
        /// What its first transaction does.
        statement: ChangedStatement,
    },
    /// It is dropped, with everything in it.
    Drop {
        /// Its name.
        name: OrgName,
    },
}

/// A transaction on its way to the committer.
pub struct Submission<R> {
    /// In which org.
    pub org: OrgName,
    /// Its identity, by which its outcome can be asked.
    pub id: TransactionId,
    /// When it started.
    pub at: Timestamp,
    /// Who does it.
    pub actor: Name,
    /// As what session, for people.
    pub session: Arc<str>,
    /// What it does.
    pub request: R,
}
