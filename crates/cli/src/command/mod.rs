//! One file a command. Each returns when the command is done, or says why it cannot be.

pub(crate) mod backup;
pub(crate) mod config;
pub(crate) mod dev;
pub(crate) mod serve;
pub(crate) mod version;
