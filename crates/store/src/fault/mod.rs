//! Stores and disks that fail on purpose, for tests here and in other crates.
//!
//! * [`FaultStore`] stands before any store and spoils commits: refused before they are written, written
//!   but not answered, no room, or held until the test lets them go.
//! * [`SharedStore`] makes any store one that other processes write to: out of reach, or replaced by one
//!   with another history, when the test says so.
//! * [`FaultDisk`] is a disk in memory for the redb backend, on which the n-th write, sync, length
//!   change or read fails once.

mod disk;
mod shared;
mod store;

pub use disk::{DiskFault, DiskOp, FaultDisk};
pub use shared::{Moment, SharedStore};
pub use store::{Fault, FaultStore, Held};
