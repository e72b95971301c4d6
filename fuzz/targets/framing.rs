//! Bytes of a client: packets from before login, then frames.
#![no_main]

use dataglot_server::fuzzing;
use libfuzzer_sys::fuzz_target;

/// Longest frame; small, so that lengths near it are found.
const FRAME_BYTES_MAX: usize = 64 << 10;

fuzz_target!(|bytes: &[u8]| {
    if let Some(used) = fuzzing::first_packets(bytes) {
        assert!(used <= bytes.len());
        // What comes later does not change what came first; what is cut off is not made up.
        assert_eq!(fuzzing::first_packets(&bytes[..used]), Some(used));
        assert_eq!(fuzzing::first_packets(&bytes[..used - 1]), None);
        frames(&bytes[used..]);
    }
    frames(bytes);
});

fn frames(mut rest: &[u8]) {
    while let Ok(Some(length)) = fuzzing::frame(rest, FRAME_BYTES_MAX) {
        assert!((5..=FRAME_BYTES_MAX + 1).contains(&length));
        // Judged as soon as it can be, and not otherwise by what follows.
        assert_eq!(fuzzing::frame(&rest[..5], FRAME_BYTES_MAX), Ok(Some(length)));
        assert_eq!(fuzzing::frame(&rest[..4], FRAME_BYTES_MAX), Ok(None));
        let Some((frame, next)) = rest.split_at_checked(length) else {
            assert!(!fuzzing::message(rest, FRAME_BYTES_MAX));
            return;
        };
        assert_eq!(fuzzing::message(frame, FRAME_BYTES_MAX), fuzzing::message(rest, FRAME_BYTES_MAX));
        rest = next;
    }
}
