//! The rows of one org, read from the source while the target writes them.
//!
//! A thread of its own reads, and hands batches over: a store drives its connection from the thread that
//! calls it, and the two calls would otherwise be nested in each other.

use std::cell::RefCell;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread;

use dataglot_model::{HeadRecord, OrgName, Seq, TransactionId};

use crate::record::{key, transaction_id};
use crate::{ImageSink, MetaStore, RowSink, Rows, StoreError, Table};

/// About how many bytes of rows are handed over at once.
const BATCH_BYTES: usize = 256 << 10;
/// Batches that may wait for the target.
const BATCHES_MAX: usize = 4;
/// Transactions that are asked for at once.
const TRANSACTIONS: usize = 256;

/// What is wrong with the source.
pub(super) enum Trouble {
    /// Somebody writes to it.
    Moved,
    /// It cannot be read.
    Store(StoreError),
}

impl From<StoreError> for Trouble {
    fn from(error: StoreError) -> Self {
        Trouble::Store(error)
    }
}

/// What has come of the copy so far.
#[derive(Default)]
pub(super) struct Progress {
    /// What went wrong at the source.
    pub(super) trouble: Option<Trouble>,
    /// A transaction by which the outcome of the commit can be asked.
    pub(super) last: Option<(OrgName, TransactionId)>,
}

/// The rows of one org.
pub(super) struct OrgRows<'a> {
    from: &'a dyn MetaStore,
    org: &'a OrgName,
    head: HeadRecord,
    progress: &'a RefCell<Progress>,
}

/// Rows on their way.
#[derive(Default)]
struct Batch {
    bytes: Vec<u8>,
    /// Table, length of the key, length of the value.
    rows: Vec<(Table, usize, usize)>,
}

impl Batch {
    fn push(&mut self, table: Table, key: &[u8], value: &[u8]) {
        self.bytes.extend_from_slice(key);
        self.bytes.extend_from_slice(value);
        self.rows.push((table, key.len(), value.len()));
    }

    fn each(&self, mut f: impl FnMut(Table, &[u8], &[u8]) -> Result<(), StoreError>) -> Result<(), StoreError> {
        let mut rest = self.bytes.as_slice();
        for (table, key_len, value_len) in &self.rows {
            let (key, after) = rest.split_at_checked(*key_len).ok_or(StoreError::Internal)?;
            let (value, after) = after.split_at_checked(*value_len).ok_or(StoreError::Internal)?;
            rest = after;
            f(*table, key, value)?;
        }
        Ok(())
    }
}

/// Hands rows over. Once the other side has given up, they go nowhere.
struct Sender {
    batches: SyncSender<Batch>,
    batch: Batch,
    closed: bool,
}

impl Sender {
    fn push(&mut self, table: Table, key: &[u8], value: &[u8]) {
        self.batch.push(table, key, value);
        if self.batch.bytes.len() >= BATCH_BYTES {
            self.flush();
        }
    }

    fn flush(&mut self) {
        let batch = std::mem::take(&mut self.batch);
        self.closed = self.closed || self.batches.send(batch).is_err();
    }
}

/// Takes the image, if it is the one of `head`.
struct Image<'a> {
    sender: &'a mut Sender,
    head: HeadRecord,
    found: Option<HeadRecord>,
}

impl ImageSink for Image<'_> {
    fn begin(&mut self, head: HeadRecord) {
        self.found = Some(head);
    }

    fn row(&mut self, table: Table, key: &[u8], value: &[u8]) {
        if !self.sender.closed && self.found == Some(self.head) {
            self.sender.push(table, key, value);
        }
    }
}

impl<'a> OrgRows<'a> {
    pub(super) fn new(
        from: &'a dyn MetaStore,
        org: &'a OrgName,
        head: HeadRecord,
        progress: &'a RefCell<Progress>,
    ) -> Self {
        OrgRows { from, org, head, progress }
    }
}

/// Reads the org's image and its history up to `head`.
fn read(from: &dyn MetaStore, org: &OrgName, head: HeadRecord, sender: &mut Sender) -> Result<(), Trouble> {
    let mut image = Image { sender, head, found: None };
    from.load(org, &mut image)?;
    if image.found != Some(head) {
        return Err(Trouble::Moved);
    }
    each_change(from, org, head.seq, &mut |seq, step, value| {
        sender.push(Table::Changes, &key::of_change(seq, step), value);
        !sender.closed
    })?;
    sender.flush();
    Ok(())
}

/// Hands every row of the history up to `last` to `f`, until it returns false.
pub(super) fn each_change(
    from: &dyn MetaStore,
    org: &OrgName,
    last: Seq,
    f: &mut dyn FnMut(Seq, u32, &[u8]) -> bool,
) -> Result<(), StoreError> {
    let mut after = Seq(0);
    let mut more = true;
    while more && after < last {
        let start = after;
        from.changes(org, start, TRANSACTIONS, &mut |seq, step, value| {
            if seq > last {
                return false;
            }
            after = seq;
            more = f(seq, step, value);
            more
        })?;
        // Nothing more up to `last`: a history that was cut is shorter than its head says.
        more &= after > start;
    }
    Ok(())
}

impl Rows for OrgRows<'_> {
    fn write(&self, sink: &mut RowSink<'_>) -> Result<(), StoreError> {
        let OrgRows { from, org, head, progress } = *self;
        let (batches, received) = sync_channel::<Batch>(BATCHES_MAX);
        thread::scope(|scope| {
            let reader = scope.spawn(move || {
                let mut sender = Sender { batches, batch: Batch::default(), closed: false };
                read(from, org, head, &mut sender)
            });
            let mut last = None;
            let written = received.iter().try_for_each(|batch| {
                batch.each(|table, key, value| {
                    if table == Table::Changes {
                        last = transaction_id(value).or(last);
                    }
                    sink(table, key, Some(value))
                })
            });
            // The reader stops once nobody listens.
            drop(received);
            let trouble = match reader.join() {
                Ok(Ok(())) => None,
                Ok(Err(trouble)) => Some(trouble),
                Err(_) => Some(Trouble::Store(StoreError::Internal)),
            };
            let mut progress = progress.borrow_mut();
            progress.last = last.map(|id| (org.clone(), id)).or_else(|| progress.last.take());
            match trouble {
                Some(trouble) if written.is_ok() => {
                    progress.trouble = Some(trouble);
                    // Of the source: it is in `progress`. To the target it is a reason to stop.
                    Err(StoreError::Internal)
                }
                Some(_) | None => written,
            }
        })
    }
}
