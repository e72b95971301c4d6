//! Handing out history: so many transactions, whole ones.

use dataglot_model::Seq;

/// Takes rows of history in order, and hands them to a sink as [`crate::MetaStore::changes`] says.
pub(crate) struct Feed<'a> {
    sink: &'a mut dyn FnMut(Seq, u32, &[u8]) -> bool,
    last: Option<Seq>,
    /// Transactions that may be begun.
    left: usize,
    more: bool,
}

impl<'a> Feed<'a> {
    /// For up to `limit` transactions.
    pub(crate) fn new(limit: usize, sink: &'a mut dyn FnMut(Seq, u32, &[u8]) -> bool) -> Self {
        Feed { sink, last: None, left: limit, more: true }
    }

    /// The next row. False: it was not handed out, and no later one will be.
    pub(crate) fn row(&mut self, seq: Seq, step: u32, value: &[u8]) -> bool {
        if self.last != Some(seq) {
            if self.left == 0 || !self.more {
                return false;
            }
            self.left -= 1;
            self.last = Some(seq);
        }
        self.more &= (self.sink)(seq, step, value);
        true
    }
}
