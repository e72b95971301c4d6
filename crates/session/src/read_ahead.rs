//! Parses a long script on a thread of its own, a little ahead of the session that plans it: the two take
//! about as long, and neither needs the other's result.
//!
//! What is read ahead depends on the search path alone. Before a statement that could change it runs, the
//! session drops its [`ReadAhead`] and parses the rest itself.

use std::ops::Range;
use std::sync::Arc;
use std::thread;

use dataglot_grammar::{Limits, Parameters, ParseCx, Parsed, SyntaxError, parse};
use dataglot_model::SchemaRef;
use tokio::sync::mpsc;

/// Shorter scripts are parsed as they run: a thread would cost more than it saves.
pub(crate) const STATEMENTS_MIN: usize = 1_000;
/// Statements that are handed over at once.
const BATCH: usize = 64;
/// Batches that may wait.
const BATCHES_MAX: usize = 8;

/// The statements of a script, in order, as they were parsed.
pub(crate) struct ReadAhead {
    batches: mpsc::Receiver<Vec<Result<Parsed, SyntaxError>>>,
    batch: std::vec::IntoIter<Result<Parsed, SyntaxError>>,
}

impl ReadAhead {
    /// Starts reading the statements in `ranges` of `sql`. `None`: no thread can be had.
    pub(crate) fn start(sql: &str, ranges: &[Range<usize>], path: SchemaRef, limits: Limits) -> Option<Self> {
        let (batch_out, batches) = mpsc::channel(BATCHES_MAX);
        let (sql, ranges) = (Arc::<str>::from(sql), ranges.to_vec());
        let read = move || {
            let cx = ParseCx { search_path: &path, parameters: Parameters::None, limits: &limits };
            for some in ranges.chunks(BATCH) {
                let parsed = some.iter().map(|range| parse(&sql, range.clone(), &cx)).collect();
                // Nobody waits for it any more.
                if batch_out.blocking_send(parsed).is_err() {
                    return;
                }
            }
        };
        thread::Builder::new().name("read-ahead".to_owned()).spawn(read).ok()?;
        Some(ReadAhead { batches, batch: Vec::new().into_iter() })
    }

    /// The next statement. `None`: the thread is gone, and the caller has to parse.
    pub(crate) async fn next(&mut self) -> Option<Result<Parsed, SyntaxError>> {
        if let Some(parsed) = self.batch.next() {
            return Some(parsed);
        }
        self.batch = self.batches.recv().await?.into_iter();
        self.batch.next()
    }
}
