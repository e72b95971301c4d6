//! drop
