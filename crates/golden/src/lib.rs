//! Test-only: runs `grammar-tests/` and `examples/` through the wire, on every backend.
//!
//! A golden file holds its input and its expected output side by side ([`case`]); [`run`] sends the
//! input to a real server and puts what came in place of what was expected; [`transcript`] is how
//! an answer looks in a file. [`rig`] is those servers, one or several over one store in a [`backend`],
//! and [`wire`] the client, for other tests too.

pub mod backend;
pub mod case;
pub mod rig;
pub mod run;
pub mod transcript;
#[allow(clippy::wildcard_enum_match_arm, reason = "a test looks for one kind of message among all others")]
pub mod wire;
