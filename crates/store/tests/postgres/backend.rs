//! What only a store in PostgreSQL has to do.
