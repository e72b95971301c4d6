//! Sealed values, wrapped data keys and canaries. Input: a byte that says which, and either bytes to be opened, or
//! (odd) changes to what was sealed: pairs of a place and a mask. Only what was sealed opens.
#![no_main]

use std::sync::{Arc, LazyLock};

use dataglot_model::{OrgName, Sensitive};
use dataglot_vault::{
    DataKeys, Entropy, EntropyError, KeyRing, Place, check_canary, generate_key_text, make_canary, new_data_key, open,
    rewrap_data_key, seal, sealed_with, wrapped_with,
};
use libfuzzer_sys::fuzz_target;

struct Count(u8);

impl Entropy for Count {
    fn fill(&self, bytes: &mut [u8]) -> Result<(), EntropyError> {
        bytes.iter_mut().zip((self.0..=255).cycle()).for_each(|(byte, n)| *byte = n);
        Ok(())
    }
}

const STORE: [u8; 16] = [3; 16];

struct Made {
    org: OrgName,
    ring: KeyRing,
    keys: DataKeys,
    /// Each a sealed thing: by a data key, by the master key, a data key, a canary.
    sealed: [Vec<u8>; 4],
}

impl Made {
    fn place(&self) -> Place<'_> {
        Place { store_id: STORE, org: &self.org, kind: "secret", name: "s", value_version: 1 }
    }
}

static MADE: LazyLock<Made> = LazyLock::new(|| {
    let ring = KeyRing::parse(generate_key_text(&Count(1)).unwrap().open()).unwrap();
    let org = OrgName::default_org();
    let wrapped: Arc<[u8]> = new_data_key(&ring, STORE, &org, 1, &Count(2)).unwrap();
    let keys = DataKeys::open(&ring, STORE, &org, [(1, wrapped.as_ref())]).unwrap();
    let canary = make_canary(&ring, STORE, &Count(3)).unwrap();
    let mut made = Made { org, ring, keys, sealed: [Vec::new(), Vec::new(), wrapped.to_vec(), canary] };
    let value = Sensitive::new("hunter2".to_owned());
    for (at, keys) in [(0, &made.keys), (1, &DataKeys::none())] {
        let sealed = seal(&made.ring, keys, &made.place(), &value, &Count(4)).unwrap().bytes.to_vec();
        made.sealed[at] = sealed;
    }
    made
});

/// Whether it opens, as what it is said to be.
fn opens(made: &Made, which: usize, bytes: &[u8]) -> bool {
    let Made { org, ring, keys, .. } = made;
    match which {
        0 | 1 => {
            let _ = sealed_with(bytes);
            let value = open(ring, keys, &made.place(), bytes);
            assert!(value.as_ref().map_or(true, |value| value.open() == "hunter2"));
            value.is_ok()
        }
        2 => {
            let _ = wrapped_with(bytes);
            let again = rewrap_data_key(ring, STORE, org, 1, bytes, &Count(5)).is_ok();
            let opened = DataKeys::open(ring, STORE, org, [(1, bytes)]).is_ok();
            assert_eq!(again, opened);
            opened
        }
        _ => check_canary(ring, STORE, bytes).is_ok(),
    }
}

fuzz_target!(|input: &[u8]| {
    let made = &*MADE;
    let Some((how, rest)) = input.split_first() else { return };
    let which = usize::from(how >> 1) % 4;
    if how & 1 == 0 {
        let sealed = made.sealed.iter().any(|sealed| sealed == rest);
        assert!(!opens(made, which, rest) || sealed);
        // And a value that is sealed opens as it was.
        if let Ok(text) = std::str::from_utf8(rest) {
            let value = Sensitive::new(text.to_owned());
            let sealed = seal(&made.ring, &made.keys, &made.place(), &value, &Count(*how)).unwrap();
            assert_eq!(open(&made.ring, &made.keys, &made.place(), &sealed.bytes).unwrap().open(), text);
        }
        return;
    }
    let mut changed = made.sealed[which].clone();
    for change in rest.as_chunks::<3>().0 {
        let [high, low, mask] = *change;
        let at = usize::from(u16::from_be_bytes([high, low])) % (changed.len() + 1);
        match changed.get_mut(at) {
            Some(byte) => *byte ^= mask,
            // The end: some bytes are taken, or one is added.
            None if mask < 128 => changed.truncate(changed.len().saturating_sub(usize::from(mask))),
            None => changed.push(mask),
        }
        if changed.is_empty() {
            break;
        }
    }
    assert_eq!(opens(made, which, &changed), changed == made.sealed[which]);
});
