//! Durable homes of the control plane's state, the committer and the change feed.
//!
//! In: transactions as lists of [`dataglot_model::Mutation`], planned by a [`Compiler`] that the
//! caller hands in. Out: one durable commit a group, the new images, and an [`Event`] a transaction.
//! What was answered is on disk; what was not is there whole or not at all.
//!
//! * [`record`] knows how a row becomes a table, a key and bytes. Nothing else does.
//! * [`MetaStore`] is what a backend has to be: it knows tables, keys, opaque bytes and the sequence
//!   number of each org, and no kind of object. [`open_redb`] and [`open_memory`] are two of them.
//! * [`Hub`] holds the images and runs the committer.
//! * [`fault`] makes any store fail on purpose; [`conformance`] says what every store has to do.
//!
//! Deliberately absent: SQL, rights, clocks, randomness but for the id of a new store, and any async
//! runtime. All work on a store runs on plain threads.

mod catch_up;
mod committer;
pub mod conformance;
pub mod copy;
mod error;
pub mod fault;
mod feed;
mod flight;
mod follower;
mod freshness;
mod group;
mod hub;
mod images;
mod memory;
mod meta_store;
mod metrics;
mod postgres;
mod queue;
mod reader;
pub mod record;
mod redb;
mod state;
mod table;
mod ticket;
mod turns;

pub use error::{CommitError, Holder, StoreError};
pub use freshness::Freshness;
pub use hub::{Event, FirstOrg, Hub, HubLimits};
pub use memory::open_memory;
pub use meta_store::{Base, DeltaSink, Group, ImageSink, MetaStore, OrgGroup, RowSink, Rows, StoreFacts, Watcher};
pub use metrics::Metrics;
pub use postgres::{
    Attempt, ConnectError, ConnectFailure, Dsn, DsnError, Finding, Origin, PostgresError, PostgresOptions,
    open_postgres,
};
pub use postgres::{history, migrate};
pub use record::{ChangeEntry, Damage};
pub use redb::{BackendFactory, RedbOptions, open_redb, open_redb_with};
pub use state::{Compiled, Compiler, OrgWrite, State, Submission};
pub use table::Table;
pub use ticket::{Done, SubmitError, Ticket};
