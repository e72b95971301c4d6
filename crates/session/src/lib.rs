//! A client's session, from the text of a statement to its answer: transaction state, the statement
//! pipeline, settings, SHOW and its kin, the small SELECT, prepared statements.
//!
//! In: texts and parameters, by the calls of [`Session`]. Out: [`Response`]s, handed to a [`Sink`] in
//! the order in which a client gets them. No socket and no message of the wire's: the server, the
//! command line and the golden runner all drive a session by the same calls.
//!
//! What this crate keeps: no plaintext of a credential outlives the module `seal`; no literal of a client's
//! SQL is in an error, a notice or a log line; nothing is acknowledged before it is durable.

mod access;
mod announce;
mod audit;
mod block;
mod cancel;
mod change;
mod clock;
mod compiler;
mod credentials;
mod engine;
mod error;
mod fresh;
mod identities;
mod interrupt;
mod limit;
mod login;
mod lone;
mod notify;
mod parameter;
mod pipeline;
mod prepared;
mod read;
mod read_ahead;
mod reset;
pub mod resolve;
mod response;
mod rewrap;
mod seal;
mod select;
mod session;
mod set;
mod settings;
mod show;
mod transaction;
mod value;
mod vitals;

pub use cancel::CancelHandle;
pub use clock::{Clock, OsEntropy, SystemClock};
pub use compiler::OrgState;
pub use credentials::{Credentials, PasswordVerifier, Proof};
pub use dataglot_planner::Lost;
pub use engine::{Engine, EngineConfig, OpenError};
pub use error::install_panic_hook;
pub use login::Login;
pub use notify::Notification;
pub use reset::Reset;
pub use response::{Column, Response, Sink};
pub use session::{Session, TransactionStatus};
pub use vitals::{Unready, Vitals};
