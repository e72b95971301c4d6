//! How much has to be moved for a message before anything of it is done.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "a test")]

mod common;

use common::Rig;
use dataglot_session::Response;

fn bytes<T>(future: T) -> usize {
    let bytes = size_of_val(&future);
    drop(future);
    bytes
}

/// A message is answered by a future that is made for it. What only some messages need is no part of it.
#[tokio::test]
async fn the_futures_of_messages_are_small() {
    const BYTES_MAX: usize = 2 << 10;
    let mut client = Rig::new().await.admin().await;
    let session = &mut client.session;
    let mut out: Vec<Response> = Vec::new();
    let sizes = [
        bytes(session.simple("", &mut out)),
        bytes(session.parse("", "", &[], &mut out)),
        bytes(session.bind("", "", &[], Vec::new(), &[], &mut out)),
        bytes(session.describe_statement("", &mut out)),
        bytes(session.describe_portal("", &mut out)),
        bytes(session.execute("", 0, &mut out)),
        bytes(session.close_statement("", &mut out)),
        bytes(session.close_portal("", &mut out)),
        bytes(session.sync(&mut out)),
    ];
    assert!(sizes.iter().all(|bytes| *bytes <= BYTES_MAX), "{sizes:?}");
}
