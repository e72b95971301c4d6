//! A disk in memory that fails once, for the redb backend.
//!
//! It forgets as disks do. What was written and not synced is gone after [`FaultDisk::after_power_cut`]; and a
//! sync that failed is not made up for by the next one, since the kernel takes the pages as written.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ::redb::StorageBackend;

use crate::BackendFactory;

/// What redb asks of a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskOp {
    /// It writes a page.
    Write,
    /// It waits for what it wrote.
    Sync,
    /// It makes the file longer or shorter.
    SetLen,
    /// It reads a page.
    Read,
}

/// An operation that fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskFault {
    /// The n-th operation from now on, from 0. Reads are counted apart from the others.
    pub at: u64,
    /// Whether the reads are counted, or the others.
    pub reads: bool,
    /// What it fails with.
    pub kind: io::ErrorKind,
    /// It happens all the same, in full or (a write) in its first half.
    pub happens: bool,
    /// Every later one that takes room fails too, until [`FaultDisk::heal`].
    pub stays: bool,
}

/// A disk in memory. Clones are the same disk.
#[derive(Clone, Debug, Default)]
pub struct FaultDisk(Arc<Mutex<Disk>>);

#[derive(Debug, Default)]
struct Disk {
    /// What a read finds.
    bytes: Vec<u8>,
    /// What is there after a power cut.
    durable: Vec<u8>,
    /// What the next sync makes durable.
    dirty: Vec<Dirty>,
    writes: u64,
    reads: u64,
    fault: Option<DiskFault>,
    /// What failed last.
    failed: Option<DiskOp>,
}

#[derive(Debug)]
enum Dirty {
    Write(usize, Vec<u8>),
    Len(usize),
}

impl FaultDisk {
    /// A new, empty disk.
    pub fn new() -> Self {
        FaultDisk::default()
    }

    /// The disk as [`crate::open_redb_with`] wants it.
    pub fn factory(&self) -> BackendFactory {
        let disk = self.clone();
        Arc::new(move || Ok(Box::new(disk.clone())))
    }

    /// Makes one operation fail, counted from now.
    pub fn fail(&self, fault: DiskFault) {
        let mut disk = self.disk();
        (disk.writes, disk.reads, disk.failed) = (0, 0, None);
        disk.fault = Some(fault);
    }

    /// Fails no more. What has failed, if anything has.
    pub fn heal(&self) -> Option<DiskOp> {
        let mut disk = self.disk();
        disk.fault = None;
        disk.failed.take()
    }

    /// Operations since [`FaultDisk::fail`] or the beginning, without reads.
    pub fn writes(&self) -> u64 {
        self.disk().writes
    }

    /// Another disk that holds what this one would after a power cut: what is durable.
    #[must_use]
    pub fn after_power_cut(&self) -> FaultDisk {
        let bytes = self.disk().durable.clone();
        FaultDisk(Arc::new(Mutex::new(Disk { durable: bytes.clone(), bytes, ..Disk::default() })))
    }

    /// Its content.
    pub fn bytes(&self) -> Vec<u8> {
        self.disk().bytes.clone()
    }

    fn disk(&self) -> MutexGuard<'_, Disk> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Disk {
    /// Counts an operation. `Some`: it fails, and whether it happens.
    fn count(&mut self, op: DiskOp) -> Option<(io::Error, bool)> {
        let counter = if op == DiskOp::Read { &mut self.reads } else { &mut self.writes };
        let now = *counter;
        *counter += 1;
        let fault = self.fault?;
        if fault.reads != (op == DiskOp::Read) {
            return None;
        }
        let takes_room = matches!(op, DiskOp::Write | DiskOp::SetLen | DiskOp::Sync);
        if now == fault.at || (fault.stays && now > fault.at && takes_room) {
            self.failed = Some(op);
            return Some((fault.kind.into(), fault.happens));
        }
        None
    }

    fn put(&mut self, offset: u64, data: &[u8]) -> io::Result<()> {
        let start = usize::try_from(offset).map_err(|_| io::ErrorKind::InvalidInput)?;
        let end = start.checked_add(data.len()).ok_or(io::ErrorKind::InvalidInput)?;
        let slot = self.bytes.get_mut(start..end).ok_or(io::ErrorKind::UnexpectedEof)?;
        slot.copy_from_slice(data);
        self.dirty.push(Dirty::Write(start, data.to_vec()));
        Ok(())
    }

    fn sync(&mut self) {
        for dirty in self.dirty.drain(..) {
            match dirty {
                Dirty::Len(len) => self.durable.resize(len, 0),
                Dirty::Write(at, data) => {
                    let slots = self.durable.iter_mut().skip(at);
                    slots.zip(data).for_each(|(slot, byte)| *slot = byte);
                }
            }
        }
    }
}

impl StorageBackend for FaultDisk {
    fn len(&self) -> io::Result<u64> {
        u64::try_from(self.disk().bytes.len()).map_err(|_| io::ErrorKind::InvalidInput.into())
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let mut disk = self.disk();
        if let Some((error, _)) = disk.count(DiskOp::Read) {
            return Err(error);
        }
        let start = usize::try_from(offset).map_err(|_| io::ErrorKind::InvalidInput)?;
        let end = start.checked_add(out.len()).ok_or(io::ErrorKind::InvalidInput)?;
        out.copy_from_slice(disk.bytes.get(start..end).ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let mut disk = self.disk();
        let failed = disk.count(DiskOp::SetLen);
        if failed.as_ref().is_none_or(|(_, happens)| *happens) {
            let len = usize::try_from(len).map_err(|_| io::ErrorKind::InvalidInput)?;
            disk.bytes.resize(len, 0);
            disk.dirty.push(Dirty::Len(len));
        }
        failed.map_or(Ok(()), |(error, _)| Err(error))
    }

    fn sync_data(&self) -> io::Result<()> {
        let mut disk = self.disk();
        let failed = disk.count(DiskOp::Sync);
        if failed.as_ref().is_none_or(|(_, happens)| *happens) {
            disk.sync();
        }
        disk.dirty.clear();
        failed.map_or(Ok(()), |(error, _)| Err(error))
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut disk = self.disk();
        match disk.count(DiskOp::Write) {
            None => disk.put(offset, data),
            Some((error, happens)) => {
                if happens {
                    let (first, _) = data.split_at(data.len() / 2);
                    disk.put(offset, first)?;
                }
                Err(error)
            }
        }
    }
}
