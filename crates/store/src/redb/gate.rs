//! What stands between redb and its file.
//!
//! Until the file is known to be a store that this version may open, every write that redb makes (it
//! marks a file as open, and repairs one after a crash) is kept in memory, so that a file that is
//! refused stays as it was, byte for byte.

use std::io;
use std::ops::Bound;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ::redb::{BackendError, StorageBackend};

/// Bytes that are read at once to write them again.
const REWRITE_BYTES: usize = 1 << 20;
/// Bytes that are written again at once.
const BLOCK_BYTES: usize = 4096;

/// A write that is held back.
#[derive(Debug)]
enum Held {
    Write(u64, Vec<u8>),
    SetLen(u64),
    Sync,
}

/// The gate of one file. Clones are handles on the same one.
#[derive(Clone, Debug)]
pub(super) struct Gate(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    backend: Box<dyn StorageBackend>,
    released: AtomicBool,
    held: Mutex<Vec<Held>>,
    len: AtomicU64,
}

impl Gate {
    pub(super) fn new(backend: Box<dyn StorageBackend>) -> Self {
        let len = AtomicU64::new(backend.len().unwrap_or(0));
        Gate(Arc::new(Shared { backend, released: AtomicBool::new(false), held: Mutex::default(), len }))
    }

    /// Writes what was held back, and holds back no more.
    pub(super) fn release(&self) -> io::Result<()> {
        if self.is_released() {
            return Ok(());
        }
        let mut held = self.held();
        for write in held.drain(..) {
            match write {
                Held::Write(offset, data) => self.0.backend.write(offset, &data)?,
                Held::SetLen(len) => {
                    self.0.backend.set_len(len)?;
                    self.0.len.store(len, Ordering::Relaxed);
                }
                Held::Sync => self.0.backend.sync_data()?,
            }
        }
        self.0.released.store(true, Ordering::Release);
        Ok(())
    }

    /// Writes the whole file again as it reads, and syncs it. After a sync that failed the kernel takes
    /// the pages as written, whatever is on the disk: what is found in the file then is durable only
    /// when it was written once more. Blocks of zeros are left out: they may be holes, and say nothing.
    pub(super) fn rewrite(&self) -> io::Result<()> {
        let backend = &self.0.backend;
        let len = backend.len()?;
        let mut chunk = vec![0; REWRITE_BYTES];
        let mut offset = 0;
        while offset < len {
            let rest = usize::try_from(len - offset).unwrap_or(REWRITE_BYTES).min(REWRITE_BYTES);
            chunk.truncate(rest);
            backend.read(offset, &mut chunk)?;
            for (block, at) in chunk.chunks(BLOCK_BYTES).zip((offset..).step_by(BLOCK_BYTES)) {
                if block.iter().any(|byte| *byte != 0) {
                    backend.write(at, block)?;
                }
            }
            offset += u64::try_from(rest).unwrap_or(len);
        }
        backend.sync_data()
    }

    /// The length of the file.
    pub(super) fn file_len(&self) -> u64 {
        self.0.len.load(Ordering::Relaxed)
    }

    fn is_released(&self) -> bool {
        self.0.released.load(Ordering::Acquire)
    }

    fn len_of(&self, held: &[Held]) -> io::Result<u64> {
        let set = held.iter().rev().find_map(|h| match h {
            Held::SetLen(len) => Some(*len),
            Held::Write(..) | Held::Sync => None,
        });
        set.map_or_else(|| self.0.backend.len(), Ok)
    }

    fn held(&self) -> MutexGuard<'_, Vec<Held>> {
        self.0.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl StorageBackend for Gate {
    fn len(&self) -> io::Result<u64> {
        if self.is_released() { self.0.backend.len() } else { self.len_of(&self.held()) }
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        if self.is_released() {
            return self.0.backend.read(offset, out);
        }
        let held = self.held();
        let wanted = u64::try_from(out.len()).unwrap_or(u64::MAX);
        let beyond = self.len_of(&held)?.checked_sub(offset).is_none_or(|rest| rest < wanted);
        if beyond {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let on_disk = self.0.backend.len()?.saturating_sub(offset).min(wanted);
        let on_disk = usize::try_from(on_disk).unwrap_or(out.len()).min(out.len());
        let (file, rest) = out.split_at_mut(on_disk);
        if !file.is_empty() {
            self.0.backend.read(offset, file)?;
        }
        rest.fill(0);
        for write in held.iter() {
            match write {
                Held::Write(at, data) => overlay(out, offset, *at, data),
                Held::SetLen(len) => {
                    let keep = usize::try_from(len.saturating_sub(offset)).unwrap_or(usize::MAX);
                    out.iter_mut().skip(keep).for_each(|byte| *byte = 0);
                }
                Held::Sync => {}
            }
        }
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        if self.is_released() {
            self.0.backend.set_len(len)?;
            self.0.len.store(len, Ordering::Relaxed);
        } else {
            self.held().push(Held::SetLen(len));
        }
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        if self.is_released() {
            return self.0.backend.sync_data();
        }
        self.held().push(Held::Sync);
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        if self.is_released() {
            return self.0.backend.write(offset, data);
        }
        self.held().push(Held::Write(offset, data.to_vec()));
        Ok(())
    }

    fn close(&self) -> io::Result<()> {
        self.0.backend.close()
    }

    fn try_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.0.backend.try_lock_range(start, end)
    }

    fn try_lock_shared_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.0.backend.try_lock_shared_range(start, end)
    }

    fn lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.0.backend.lock_range(start, end)
    }

    fn lock_shared_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.0.backend.lock_shared_range(start, end)
    }

    fn unlock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.0.backend.unlock_range(start, end)
    }

    fn query_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.0.backend.query_lock_range(start, end)
    }
}

/// Copies the part of `data`, which stands at `at`, that lies in `out`, which stands at `offset`.
fn overlay(out: &mut [u8], offset: u64, at: u64, data: &[u8]) {
    let skip_out = usize::try_from(at.saturating_sub(offset)).unwrap_or(usize::MAX);
    let skip_data = usize::try_from(offset.saturating_sub(at)).unwrap_or(usize::MAX);
    let from = data.iter().skip(skip_data);
    out.iter_mut().skip(skip_out).zip(from).for_each(|(slot, byte)| *slot = *byte);
}
