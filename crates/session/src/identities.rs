//! The random part of transactions' identities, drawn for many at a time: a system call for each would cost more than
//! all else that an identity takes. It is no secret; whatever seals or proves something draws its own.

use std::sync::{Mutex, PoisonError};

use dataglot_vault::{Entropy, EntropyError};

/// How many are drawn at a time.
const DRAWN: usize = 64;

/// What was drawn and not used.
#[derive(Default)]
pub(crate) struct Identities {
    left: Mutex<Vec<[u8; 16]>>,
}

impl Identities {
    /// Random bytes that nobody else gets.
    ///
    /// # Errors
    /// There are none left, and `entropy` gives none.
    pub(crate) fn next(&self, entropy: &dyn Entropy) -> Result<[u8; 16], EntropyError> {
        let mut left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(random) = left.pop() {
            return Ok(random);
        }
        let mut drawn = [[0; 16]; DRAWN];
        entropy.fill(drawn.as_flattened_mut())?;
        let [first, rest @ ..] = drawn;
        left.extend(rest);
        Ok(first)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::atomic::{AtomicU16, Ordering};

    use super::*;

    /// Every two bytes are the next number; none at all after so many.
    struct Numbers {
        next: AtomicU16,
        most: u16,
    }

    impl Entropy for Numbers {
        fn fill(&self, buffer: &mut [u8]) -> Result<(), EntropyError> {
            for pair in buffer.chunks_mut(2) {
                let next = self.next.fetch_add(1, Ordering::Relaxed);
                pair.copy_from_slice(&next.to_be_bytes());
                if next >= self.most {
                    return Err(EntropyError);
                }
            }
            Ok(())
        }
    }

    #[test]
    fn no_byte_is_used_twice() {
        let (identities, numbers) = (Identities::default(), Numbers { next: AtomicU16::new(0), most: u16::MAX });
        let mut seen = BTreeSet::new();
        for _ in 0..3 * DRAWN {
            let random = identities.next(&numbers).unwrap();
            assert!(random.chunks(2).all(|pair| seen.insert(pair.to_vec())));
        }
    }

    #[test]
    fn what_was_drawn_in_part_is_not_used() {
        let (identities, numbers) = (Identities::default(), Numbers { next: AtomicU16::new(0), most: 8 });
        assert_eq!(identities.next(&numbers), Err(EntropyError));
        assert_eq!(identities.next(&numbers), Err(EntropyError));
        let numbers = Numbers { next: AtomicU16::new(1000), most: u16::MAX };
        assert_eq!(identities.next(&numbers).unwrap()[..2], 1000u16.to_be_bytes());
    }
}
