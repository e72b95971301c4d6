//! The threads on which stores are read for async callers.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use tokio::sync::oneshot;

use crate::StoreError;

/// How many reads run at once.
const READERS_MAX: usize = 2;

type Task = Box<dyn FnOnce() + Send>;

/// A few threads that end when it is dropped and what they were given is done.
pub(crate) struct Readers {
    tasks: Mutex<Sender<Task>>,
}

impl Readers {
    pub(crate) fn start() -> Result<Self, StoreError> {
        let (sender, receiver) = channel::<Task>();
        let receiver = Arc::new(Mutex::new(receiver));
        for _ in 0..READERS_MAX {
            let receiver = Arc::clone(&receiver);
            thread::Builder::new()
                .name("store-reader".to_owned())
                .spawn(move || serve(&receiver))
                .map_err(|e| StoreError::io("start a thread for", &e))?;
        }
        Ok(Readers { tasks: Mutex::new(sender) })
    }

    /// Runs `task` on one of the threads. One that panics answers [`StoreError::Internal`].
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        task: impl FnOnce() -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (sender, receiver) = oneshot::channel();
        let boxed: Task = Box::new(move || {
            // The receiver may be gone: nobody waits any more.
            let _ = sender.send(task());
        });
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner).send(boxed).map_err(|_| StoreError::Internal)?;
        receiver.await.unwrap_or(Err(StoreError::Internal))
    }
}

fn serve(tasks: &Mutex<Receiver<Task>>) {
    loop {
        let next = tasks.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(task) = next else { return };
        // A panic drops the sender, which is the answer.
        let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(task));
    }
}
