//! Stores and disks that fail on purpose, for tests here and in other crates.
//!
//! * [`FaultStore`] stands before any store and spoils commits: refused before they are written, written
//!   but not answered, no room, or held until the test lets them go.
//! * [`FaultDisk`] is a disk in memory for the redb backend, on which the n-th write, sync, length
//!   change or read fails once.

mod disk;
mod store;

pub use disk::{DiskFault, DiskOp, FaultDisk};
pub use store::{Fault, FaultStore, Held};
