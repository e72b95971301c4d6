//! Decides what one command changes.
