//! Randomness, handed in: the process gives the operating system's, tests give a seeded one.

/// A source of random bytes fit for keys and nonces.
pub trait Entropy: Send + Sync {
    /// Fills all of `buffer`.
    ///
    /// # Errors
    /// [`EntropyError`]: nothing that was written to `buffer` may be used.
    fn fill(&self, buffer: &mut [u8]) -> Result<(), EntropyError>;
}

/// The source gave no random bytes. The statement that needed them fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no random bytes could be obtained from the operating system")]
pub struct EntropyError;
