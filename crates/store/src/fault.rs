//! Stores that fail on purpose.
