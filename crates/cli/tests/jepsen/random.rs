//! Random numbers that can be had again from their seed.

/// xorshift64*
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// One of many streams of a run's seed.
    pub fn stream(seed: u64, stream: u64) -> Random {
        // splitmix64: seeds that are next to each other give streams that are not.
        let mut state = seed.wrapping_add(stream.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15));
        state = (state ^ (state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        state = (state ^ (state >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        Random((state ^ (state >> 31)) | 1)
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    /// Below `limit`, which is not 0.
    pub fn below(&mut self, limit: u64) -> u64 {
        (self.next() >> 11) % limit
    }

    /// True in `percent` of 100 cases.
    pub fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// One of them.
    pub fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[usize::try_from(self.below(from.len() as u64)).unwrap()]
    }
}
