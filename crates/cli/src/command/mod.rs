//! One file a command. Each returns when the command is done, or says why it cannot be.

pub(crate) mod accept_history;
pub(crate) mod backup;
pub(crate) mod config;
pub(crate) mod copy;
pub(crate) mod dev;
pub(crate) mod migrate;
pub(crate) mod rekey;
pub(crate) mod reset_secrets;
pub(crate) mod resolve_catalogs;
pub(crate) mod serve;
pub(crate) mod version;
