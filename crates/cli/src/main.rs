//! The dataglot binary.

fn main() {}
