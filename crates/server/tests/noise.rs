//! Random bytes, before and after login: each ends in an answer or in the end of the connection, and
//! the server lives on.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "a test fails by panicking")]

mod support;

use std::io::Write;
use std::net::Shutdown;
use std::sync::OnceLock;

use proptest::prelude::*;
use support::client::startup;
use support::{Client, Served};

fn served() -> &'static Served {
    static SERVED: OnceLock<Served> = OnceLock::new();
    SERVED.get_or_init(Served::start)
}

/// Sends `bytes`, says that nothing follows, and reads what there is.
fn send(mut client: Client, bytes: &[u8]) {
    let _ = client.stream.write_all(bytes);
    let _ = client.stream.shutdown(Shutdown::Write);
    client.until_end();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn before_login(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        send(Client::connect(served().address), &bytes);
        let length = u32::try_from(bytes.len() + 8).unwrap().to_be_bytes();
        send(Client::connect(served().address), &[&length[..], &[0, 3, 0, 0], &bytes].concat());
    }

    #[test]
    fn after_login(
        bytes in proptest::collection::vec(any::<u8>(), 0..200),
        frames in proptest::collection::vec((0usize..9, proptest::collection::vec(any::<u8>(), 0..24)), 0..9),
    ) {
        send(Client::login(served().address, "admin"), &bytes);
        let kinds = b"QPBDECHSX";
        let frames: Vec<u8> = frames.iter().flat_map(|(kind, body)| support::client::message(kinds[*kind], body)).collect();
        send(Client::login(served().address, "admin"), &frames);
        prop_assert_eq!(Client::connect(served().address).ask(&startup(&[("user", "admin")])).ends_with("Z:I"), true);
    }
}
