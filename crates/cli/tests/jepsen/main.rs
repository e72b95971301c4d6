//! jepsen
#![allow(
    clippy::disallowed_methods,
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::wildcard_enum_match_arm,
    missing_docs,
    reason = "a test's own helpers; its knobs come from the environment"
)]

mod checker;
mod checker_tests;
mod history;
mod model;
mod random;
mod statement;
