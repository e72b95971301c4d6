//! A coordinator: the real binary, started again whenever it ends, as a supervisor does.

use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

/// How often a process is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// What a supervisor waits after a start that failed.
const START_AGAIN_AFTER: Duration = Duration::from_millis(200);
/// How long a coordinator may take to end in order.
const STOP_MAX: Duration = Duration::from_secs(60);
/// What it ends with if it cannot open the store, as when PostgreSQL is down.
const CANNOT_OPEN: i32 = 3;

pub struct Coordinator {
    pub name: String,
    pub address: SocketAddr,
    supervised: Arc<Supervised>,
    supervisor: Option<JoinHandle<()>>,
}

struct Supervised {
    child: Mutex<Option<Child>>,
    /// Killed by us: the next end is no surprise.
    killed: AtomicBool,
    /// It is not to be started again.
    stopping: AtomicBool,
    /// Ends that nobody ordered.
    surprises: Mutex<Vec<String>>,
    command: Mutex<Command>,
    log: PathBuf,
}

impl Coordinator {
    /// Starts it, and a thread that goes on doing so. Its log is a file in `directory`.
    pub fn start(name: &str, dsn: &str, port: u16, directory: &Path) -> Coordinator {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let mut command = Command::new(env!("CARGO_BIN_EXE_dataglot"));
        command
            .args(["serve", "--auth", "trust", "--node", name, "--store", &format!("dsn={dsn}")])
            .args(["--listen", &address.to_string()])
            .current_dir(directory)
            .env_clear()
            .stdin(Stdio::null())
            .stdout(Stdio::piped());
        if let Ok(filter) = std::env::var("DATAGLOT_JEPSEN_LOG") {
            command.args(["--log-filter", &filter]);
        }
        let supervised = Arc::new(Supervised {
            child: Mutex::new(None),
            killed: AtomicBool::new(false),
            stopping: AtomicBool::new(false),
            surprises: Mutex::new(Vec::new()),
            command: Mutex::new(command),
            log: directory.join(format!("{name}.log")),
        });
        let supervisor = {
            let supervised = Arc::clone(&supervised);
            thread::spawn(move || supervised.supervise())
        };
        Coordinator { name: name.to_owned(), address, supervised, supervisor: Some(supervisor) }
    }

    /// SIGKILL. It is started again at once.
    pub fn kill(&self) {
        if let Some(child) = self.supervised.child.lock().unwrap().as_mut() {
            self.supervised.killed.store(true, Ordering::SeqCst);
            child.kill().expect("SIGKILL is sent");
        }
    }

    /// SIGSTOP, SIGCONT.
    pub fn signal(&self, signal: Signal) {
        if let Some(child) = self.supervised.child.lock().unwrap().as_ref() {
            kill_process(Pid::from_child(child), signal).expect("the signal is sent");
        }
    }

    /// Ends it in order; what was unexpected about all its lives, this end included.
    pub fn stop(mut self) -> Vec<String> {
        self.supervised.stopping.store(true, Ordering::SeqCst);
        self.signal(Signal::TERM);
        let start = Instant::now();
        let supervisor = self.supervisor.take().unwrap();
        while !supervisor.is_finished() {
            if start.elapsed() > STOP_MAX {
                self.supervised.surprise(format!("{} does not end", self.name));
                self.kill();
                break;
            }
            thread::sleep(LOOK_EVERY);
        }
        supervisor.join().unwrap();
        std::mem::take(&mut *self.supervised.surprises.lock().unwrap())
    }
}

impl Drop for Coordinator {
    /// A test that failed leaves no server behind.
    fn drop(&mut self) {
        self.supervised.stopping.store(true, Ordering::SeqCst);
        if let Some(supervisor) = self.supervisor.take() {
            self.kill();
            let _ = supervisor.join();
        }
    }
}

impl Supervised {
    fn surprise(&self, what: String) {
        self.surprises.lock().unwrap().push(what);
    }

    /// Until it is to stop.
    fn supervise(&self) {
        while !self.stopping.load(Ordering::SeqCst) {
            let listens = Arc::new(AtomicBool::new(false));
            self.spawn(Arc::clone(&listens));
            let status = loop {
                if let Some(status) = self.child.lock().unwrap().as_mut().unwrap().try_wait().unwrap() {
                    break status;
                }
                thread::sleep(LOOK_EVERY);
            };
            *self.child.lock().unwrap() = None;
            let expected = self.killed.swap(false, Ordering::SeqCst)
                || (self.stopping.load(Ordering::SeqCst) && status.success())
                || (!listens.load(Ordering::SeqCst) && status.code() == Some(CANNOT_OPEN));
            if !expected {
                self.surprise(format!("it ended with {status}; see {}", self.log.display()));
            }
            if !listens.load(Ordering::SeqCst) {
                thread::sleep(START_AGAIN_AFTER);
            }
        }
    }

    fn spawn(&self, listens: Arc<AtomicBool>) {
        let log = File::options().create(true).append(true).open(&self.log).expect("the log can be written");
        let mut child = self.command.lock().unwrap().stderr(log).spawn().expect("the binary starts");
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        // The pipe is kept open, so that the server can go on printing.
        thread::spawn(move || {
            while let Some(Ok(line)) = lines.next() {
                if line.starts_with("listening on ") {
                    listens.store(true, Ordering::SeqCst);
                }
            }
        });
        *self.child.lock().unwrap() = Some(child);
    }
}
