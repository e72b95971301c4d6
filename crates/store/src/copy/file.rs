//! Copies into a file that is not there yet: under another name first, so that the file is a whole copy
//! from the moment on at which it is there.

use std::fs;
use std::io;
use std::path::Path;

use super::{CopyError, Summary, copy};
use crate::redb::{beside, put_in_place};
use crate::{MetaStore, RedbOptions, StoreError, open_redb};

/// Copies `from` into the new file `path`, and compares the two. Returns what both hold. A process that is
/// killed meanwhile leaves a file of another name, which is of no use.
///
/// # Errors
/// [`CopyError`] says why not. There is no file `path` then, unless there was one.
pub fn copy_to_file(from: &dyn MetaStore, path: &Path) -> Result<Summary, CopyError> {
    match fs::symlink_metadata(path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => {}
        Ok(_) => return Err(CopyError::Exists(path.to_owned())),
        Err(e) => return Err(failed(&e)),
    }
    let unfinished = beside(path, "copy");
    let copied = write(from, &unfinished).and_then(|copied| match put_in_place(&unfinished, path) {
        Ok(true) => Ok(copied),
        Ok(false) => Err(CopyError::Exists(path.to_owned())),
        Err(e) => Err(failed(&e)),
    });
    // It is another name of the copy now, or of no use.
    let _ = fs::remove_file(&unfinished);
    copied
}

fn write(from: &dyn MetaStore, unfinished: &Path) -> Result<Summary, CopyError> {
    // One of that name can only be what a process that was killed has left.
    let _ = fs::remove_file(unfinished);
    let options = RedbOptions { store_id: Some(from.facts().store_id), ..RedbOptions::default() };
    let to = open_redb(unfinished, options).map_err(CopyError::Target)?;
    match copy(from, to.as_ref()) {
        // It is going to be removed.
        Err(CopyError::NotRemoved { why }) => Err(*why),
        copied => copied,
    }
}

fn failed(error: &io::Error) -> CopyError {
    CopyError::Target(StoreError::io("create", error))
}
