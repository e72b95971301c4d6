//! Sources of randomness for tests.

use std::sync::Mutex;

use sha2::{Digest, Sha256};

use crate::{Entropy, EntropyError, KeyRing};

/// Repeatable bytes: SHA-256 over the seed and a counter.
pub(crate) struct Seeded(u64, Mutex<u64>);

impl Seeded {
    pub(crate) fn new(seed: u64) -> Self {
        Seeded(seed, Mutex::new(0))
    }
}

impl Entropy for Seeded {
    fn fill(&self, buffer: &mut [u8]) -> Result<(), EntropyError> {
        let mut count = self.1.lock().unwrap();
        for chunk in buffer.chunks_mut(32) {
            *count += 1;
            let block = Sha256::new().chain_update(self.0.to_le_bytes()).chain_update(count.to_le_bytes()).finalize();
            chunk.copy_from_slice(&block[..chunk.len()]);
        }
        Ok(())
    }
}

/// Always fails.
pub(crate) struct Broken;

impl Entropy for Broken {
    fn fill(&self, _: &mut [u8]) -> Result<(), EntropyError> {
        Err(EntropyError)
    }
}

/// A ring with the keys of these seeds.
pub(crate) fn ring(seeds: &[u64]) -> KeyRing {
    let texts: Vec<String> =
        seeds.iter().map(|s| crate::generate_key_text(&Seeded::new(*s)).unwrap().open().to_owned()).collect();
    KeyRing::parse(&texts.join(",")).unwrap()
}
