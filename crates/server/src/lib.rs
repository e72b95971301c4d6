//! The front door: PostgreSQL's wire protocol, health checks and metrics, configuration and process life.
//!
//! In: sockets. Out: sessions' answers as bytes. The only crate that knows pgwire. Every byte of a
//! peer is framed and judged here before anything else sees it; what a statement means is not known
//! here at all.
//!
//! Deliberately absent: SQL, the store, and the runtime: the caller brings one.

mod admission;
mod auth;
mod cancel;
pub mod config;
mod connection;
mod descriptors;
mod door;
#[doc(hidden)]
pub mod fuzzing;
mod http;
pub mod keycommand;
pub mod keyfile;
mod link;
mod lobby;
mod message;
mod metrics;
mod outbox;
mod private_file;
mod refusal;
mod server;
mod startup;
mod tls;

pub use auth::client_config as tls_client_config;
pub use auth::{
    Address, Algorithm, Authentication, DirectoryConfig, DirectoryError, Hba, IssuerConfig, IssuerError, KeyPlace,
    Kind as RuleKind, Method, Names, Network, Rule,
};
pub use http::{HttpConfig, HttpError};
pub use private_file::password as read_password;
pub use server::{ServeError, Server, ServerConfig};
pub use tls::{Mode as TlsMode, TlsConfig, TlsError};
