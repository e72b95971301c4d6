//! The connections that reads use: a few, opened when they are needed, replaced when they are lost.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use super::connection::{Connection, Failure};
use super::reach::Reach;
use crate::StoreError;

/// How many reads run at once.
const CONNECTIONS_MAX: usize = 3;

/// The connections.
#[derive(Default)]
pub(super) struct Readers {
    connections: Mutex<Connections>,
    freed: Condvar,
}

#[derive(Default)]
struct Connections {
    idle: Vec<Connection>,
    /// Idle ones included.
    open: usize,
}

impl Readers {
    /// Gives it a connection that is open already.
    pub(super) fn add(&self, connection: Connection) {
        let mut connections = self.lock();
        connections.idle.push(connection);
        connections.open += 1;
    }

    /// Reads on one of them. If it turns out to be lost, `read` is called once more on a new one: it must
    /// not hand out twice what it has handed out already.
    pub(super) fn read<T>(
        &self,
        reach: &Reach,
        mut read: impl FnMut(&mut Connection) -> Result<T, Failure>,
    ) -> Result<T, StoreError> {
        for again in [true, false] {
            if reach.is_silent() {
                self.lock().forget_idle();
            }
            let mut lease = self.lease();
            let connection = match &mut lease.connection {
                Some(connection) => connection,
                None => lease.connection.insert(reach.open("reader")?),
            };
            match read(connection) {
                Ok(value) => {
                    lease.keep();
                    return Ok(value);
                }
                // The others have most likely gone the same way.
                Err(Failure::Lost(_)) if again => self.lock().forget_idle(),
                Err(failure @ (Failure::Lost(_) | Failure::Silent)) => {
                    self.lock().forget_idle();
                    return Err(failure.into_store_error("read"));
                }
                Err(failure @ (Failure::Refused(_) | Failure::Warned | Failure::Store(_))) => {
                    return Err(failure.into_store_error("read"));
                }
            }
        }
        Err(StoreError::ConnectionLost)
    }

    /// Waits for a connection, or for the right to open one.
    fn lease(&self) -> Lease<'_> {
        let mut connections = self.lock();
        loop {
            while let Some(mut connection) = connections.idle.pop() {
                if !connection.is_closed() {
                    return Lease { readers: self, connection: Some(connection) };
                }
                connections.open -= 1;
            }
            if connections.open < CONNECTIONS_MAX {
                connections.open += 1;
                return Lease { readers: self, connection: None };
            }
            connections = self.freed.wait(connections).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Connections> {
        self.connections.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Connections {
    fn forget_idle(&mut self) {
        self.open -= self.idle.len();
        self.idle.clear();
    }
}

/// The right to use one connection. What is not kept is closed: it may be in the middle of something.
struct Lease<'a> {
    readers: &'a Readers,
    connection: Option<Connection>,
}

impl Lease<'_> {
    fn keep(mut self) {
        if let Some(connection) = self.connection.take() {
            let mut connections = self.readers.lock();
            connections.idle.push(connection);
            // The drop takes one off.
            connections.open += 1;
        }
    }
}

impl Drop for Lease<'_> {
    fn drop(&mut self) {
        self.readers.lock().open -= 1;
        self.readers.freed.notify_one();
    }
}
