//! File descriptors: each connection takes one, and a process may have so many.

use std::io;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Descriptors for everything but clients' connections: the store, logs, health checks, issuers, a directory.
const OTHERS: usize = 256;
/// How many connections there may be at least, whatever the limit: it will show when they are accepted.
const SOCKETS_MIN: usize = 16;

/// Raises the process's limit, as far as it may, so that `sockets` can be open. Out: how many can be.
pub(crate) fn allow(sockets: usize) -> usize {
    let limit = getrlimit(Resource::Nofile);
    let wanted = u64::try_from(sockets.saturating_add(OTHERS)).unwrap_or(u64::MAX);
    let mut current = limit.current.unwrap_or(u64::MAX);
    if current < wanted {
        let raised = wanted.min(limit.maximum.unwrap_or(u64::MAX));
        match setrlimit(Resource::Nofile, Rlimit { current: Some(raised), maximum: limit.maximum }) {
            Ok(()) => current = raised,
            Err(error) => tracing::warn!(%error, "the limit on open files cannot be raised"),
        }
    }
    usize::try_from(current).unwrap_or(usize::MAX).saturating_sub(OTHERS).clamp(SOCKETS_MIN, sockets.max(SOCKETS_MIN))
}

/// Whether there was no descriptor, or no memory, for a connection.
pub(crate) fn are_all_taken(error: &io::Error) -> bool {
    use rustix::io::Errno;
    let taken = [Errno::MFILE, Errno::NFILE, Errno::NOBUFS, Errno::NOMEM];
    error.raw_os_error().is_some_and(|code| taken.iter().any(|errno| errno.raw_os_error() == code))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_can_be_open_is_what_the_limit_leaves() {
        let most = getrlimit(Resource::Nofile).maximum;
        assert_eq!(allow(20), 20);
        let all = allow(usize::MAX);
        assert!(most.is_none_or(|most| all as u64 <= most), "{all}");
    }

    #[test]
    fn errors_of_accept() {
        assert!(are_all_taken(&io::Error::from_raw_os_error(rustix::io::Errno::MFILE.raw_os_error())));
        assert!(!are_all_taken(&io::ErrorKind::ConnectionAborted.into()));
    }
}
