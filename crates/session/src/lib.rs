//! Transactions, the statement pipeline, settings and SHOW.
