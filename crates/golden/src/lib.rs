//! Runs grammar-tests and examples through the wire, on every backend.
