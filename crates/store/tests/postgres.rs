//! The suite over stores in a real PostgreSQL, and what only such a store has to do.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "these are tests")]

#[path = "postgres/backend.rs"]
mod backend;
#[path = "postgres/feed.rs"]
mod feed;
#[path = "postgres/outage.rs"]
mod outage;
#[path = "postgres/proxy.rs"]
mod proxy;
#[path = "postgres/rig.rs"]
mod rig;
#[path = "postgres/settle.rs"]
mod settle;
#[path = "postgres/standby.rs"]
mod standby;

use rig::PostgresRig;

mod bare {
    use super::*;
    dataglot_store::conformance_tests!(PostgresRig::new(|store| store));
}

mod spoiled {
    use super::*;
    dataglot_store::conformance_tests!(PostgresRig::new(rig::spoiled));
}
