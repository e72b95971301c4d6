//! The front door: PostgreSQL's wire protocol, configuration and process life.
