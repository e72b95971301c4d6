//! Why somebody else's word did not let a user in.

/// The proof is none. The reason goes to the log only; whoever sent it is told that it was wrong, and no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Denied {
    /// What is wrong with it. No part of it.
    pub(crate) reason: &'static str,
}

/// That the proof is none.
pub(crate) fn deny<T>(reason: &'static str) -> Result<T, Denied> {
    Err(Denied { reason })
}
