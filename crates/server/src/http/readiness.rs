//! Whether the server would serve clients now.
//!
//! The store is asked on a thread of its own, one question at a time, and its answer counts for a moment:
//! however many ask here, and however long the store takes, it costs one thread and one question.

use std::sync::Arc;
use std::time::Duration;

use dataglot_session::{Engine, Unready};
use tokio::sync::{Mutex, oneshot};
use tokio::time::{Instant, timeout};

/// How long an answer counts.
const COUNTS_FOR: Duration = Duration::from_millis(500);
/// How long the store may take.
const WAIT_MAX: Duration = Duration::from_secs(2);

/// Why clients would not be served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NotReady {
    /// The engine says so.
    Engine(Unready),
    /// The store does not answer.
    Silent,
    /// The server ends.
    Ending,
}

impl NotReady {
    /// For people. A closed list: it holds nothing that a stranger should not know.
    pub(super) const fn reason(self) -> &'static str {
        match self {
            NotReady::Engine(Unready::Store) => "the meta store cannot be reached or takes no commits",
            NotReady::Engine(Unready::Image) => "the meta store cannot be loaded",
            NotReady::Engine(Unready::Diverged) => "the history in the meta store is not the one that was seen before",
            NotReady::Engine(Unready::Expired) => "the meta store has not been reached for too long",
            NotReady::Silent => "the meta store does not answer in time",
            NotReady::Ending => "the server is shutting down",
        }
    }

    /// Whether it is the store that is out of reach.
    pub(super) const fn is_store(self) -> bool {
        match self {
            NotReady::Engine(Unready::Store) | NotReady::Silent => true,
            NotReady::Engine(Unready::Image | Unready::Diverged | Unready::Expired) | NotReady::Ending => false,
        }
    }
}

type Answer = Result<(), NotReady>;

/// Asks, and remembers.
pub(super) struct Readiness {
    engine: Arc<Engine>,
    asked: Mutex<Asked>,
}

#[derive(Default)]
struct Asked {
    last: Option<(Instant, Answer)>,
    /// A question that is not answered yet.
    running: Option<oneshot::Receiver<Answer>>,
}

impl Readiness {
    pub(super) fn new(engine: Arc<Engine>) -> Self {
        Readiness { engine, asked: Mutex::default() }
    }

    /// Whether clients would be served.
    pub(super) async fn check(&self) -> Answer {
        // Whoever waits for his turn gets the answer of the one before him.
        let Ok(mut asked) = timeout(WAIT_MAX, self.asked.lock()).await else { return Err(NotReady::Silent) };
        if let Some((at, answer)) = asked.last
            && at.elapsed() < COUNTS_FOR
        {
            return answer;
        }
        if asked.running.is_none() {
            asked.running = Some(self.ask());
        }
        let answer = match asked.running.as_mut() {
            Some(running) => match timeout(WAIT_MAX, running).await {
                Ok(answer) => {
                    asked.running = None;
                    // A thread that ended without an answer has panicked.
                    answer.unwrap_or(Err(NotReady::Engine(Unready::Store)))
                }
                Err(_) => Err(NotReady::Silent),
            },
            None => Err(NotReady::Silent),
        };
        asked.last = Some((Instant::now(), answer));
        answer
    }

    /// Asks on a thread that may hang as long as it likes.
    fn ask(&self) -> oneshot::Receiver<Answer> {
        let (sender, receiver) = oneshot::channel();
        let engine = Arc::clone(&self.engine);
        let ask = move || {
            // Nobody may be waiting any more.
            let _ = sender.send(engine.check_ready().map_err(NotReady::Engine));
        };
        if let Err(error) = std::thread::Builder::new().name("readiness".to_owned()).spawn(ask) {
            tracing::warn!(%error, "no thread to ask the store");
        }
        receiver
    }
}
