//! How large a text may be. Every limit is checked before anything that recurses.

/// Limits on a query string and its statements.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Longest statement, in bytes.
    pub statement_bytes_max: usize,
    /// Most tokens of a statement.
    pub tokens_max: usize,
    /// Most operators in a row at one level of nesting.
    pub chain_max: usize,
    /// Deepest nesting.
    pub depth_max: usize,
    /// Longest query string, in bytes.
    pub script_bytes_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            statement_bytes_max: 1 << 20,
            tokens_max: 20_000,
            chain_max: 500,
            depth_max: 40,
            script_bytes_max: 64 << 20,
        }
    }
}
