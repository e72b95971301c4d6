//! Real PostgreSQL servers for tests: made from the installed binaries, thrown away afterwards.
//!
//! In: the binaries of an installed PostgreSQL. Out: a [`Cluster`] (a server with a data directory,
//! a Unix socket and a TCP port on loopback) and fresh [`Database`]s in it, each owned by a role of
//! its own that can do nothing else.
//!
//! A server never outlives the process that started it, however that process ends: a small shell
//! holds a pipe from it, and when the pipe closes it stops the server and removes its directory.
//!
//! This is for tests only, so everything that goes wrong is a panic with a sentence. All calls block
//! and may be made from anywhere, also from inside an async runtime.

#![allow(
    clippy::panic,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::disallowed_methods,
    reason = "only tests use this crate: what fails here fails the test, and the environment is the developer's"
)]

mod binaries;
mod client;
mod cluster;
mod database;
mod options;
mod process;

pub use binaries::{binary, version};
pub use cluster::Cluster;
pub use database::Database;
pub use options::{ClusterOptions, Tls};
