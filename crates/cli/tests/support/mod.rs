//! The real binary, run and asked.

#![allow(dead_code, reason = "each test uses some of it")]

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use dataglot_golden::wire::{Client, Message, error_of, rows_of};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

pub const KEY: &str = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";
pub const OTHER_KEY: &str = "101112131415161718191a1b1c1d1e1f000102030405060708090a0b0c0d0e0f";
/// How long a process may take for anything.
pub const WAIT_MAX: Duration = Duration::from_secs(60);

/// The binary in `directory`, with an empty environment.
pub fn dataglot(directory: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_dataglot"));
    command.args(arguments).current_dir(directory).env_clear();
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Runs a command that must end by itself.
pub fn run(command: &mut Command) -> Output {
    command.output().expect("the binary runs")
}

/// Runs a command that must be refused with this exit code; gives what it said.
#[track_caller]
pub fn refused(command: &mut Command, code: i32) -> String {
    let output = run(command);
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(code), "{said}");
    said
}

/// A server that listens.
pub struct Server {
    pub child: Child,
    pub address: SocketAddr,
    /// What it printed before it listened, and after.
    pub lines: Vec<String>,
    pub rest: Receiver<String>,
}

impl Server {
    #[track_caller]
    pub fn start(mut command: Command) -> Server {
        let mut child = command.spawn().expect("the binary starts");
        let (send, rest) = channel();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        thread::spawn(move || stdout.lines().map_while(Result::ok).try_for_each(|line| send.send(line)));
        let mut lines = Vec::new();
        loop {
            let Ok(line) = rest.recv_timeout(WAIT_MAX) else {
                let _ = child.kill();
                let _ = child.wait();
                let mut said = String::new();
                let _ = child.stderr.take().unwrap().read_to_string(&mut said);
                panic!("it does not listen: {said}");
            };
            lines.push(line);
            if let Some(address) = lines.last().and_then(|l| l.strip_prefix("listening on ")) {
                let address = address.parse().expect("an address and a port");
                return Server { child, address, lines, rest };
            }
        }
    }

    pub fn dev(directory: &Path) -> Server {
        Server::start(dataglot(directory, &["dev", "--listen", "127.0.0.1:0"]))
    }

    pub fn serve(directory: &Path, key: Option<&str>) -> Server {
        Server::start(serve(directory, key))
    }

    #[track_caller]
    pub fn client(&self) -> Client {
        Client::connect(self.address, "admin", "default").unwrap().expect("admin is let in")
    }

    #[track_caller]
    pub fn query(&self, sql: &str) -> Vec<Message> {
        let messages = self.client().query(sql).unwrap();
        assert_eq!(error_of(&messages), None, "{sql}");
        messages
    }

    pub fn roles(&self) -> Vec<String> {
        rows_of(&self.query("SHOW ROLES")).into_iter().filter_map(|row| row.into_iter().next().flatten()).collect()
    }

    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("the signal is sent");
    }

    pub fn wait(mut self) -> ExitStatus {
        self.child.wait().expect("it ends")
    }

    #[track_caller]
    pub fn stop(self) {
        self.signal(Signal::TERM);
        assert_eq!(self.wait().code(), Some(0));
    }

    pub fn kill(mut self) {
        self.child.kill().expect("SIGKILL is sent");
        self.child.wait().expect("it ends");
    }
}

impl Drop for Server {
    /// A test that failed leaves no server behind.
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub fn serve(directory: &Path, key: Option<&str>) -> Command {
    serve_on(directory, "path=meta.redb", key)
}

/// A server on the store that `store` names.
pub fn serve_on(directory: &Path, store: &str, key: Option<&str>) -> Command {
    let mut command = dataglot(directory, &["serve", "--listen", "127.0.0.1:0", "--auth", "trust"]);
    command.env("DATAGLOT_STORE", store);
    if let Some(key) = key {
        command.env("DATAGLOT_SECRET_KEY", key);
    }
    command
}

/// Runs a command that must do what it was asked; gives what it printed.
#[track_caller]
pub fn done(command: &mut Command) -> String {
    let output = run(command);
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(0), "{said}");
    String::from_utf8(output.stdout).unwrap()
}

/// Waits until `done` holds.
#[track_caller]
pub fn wait_until(what: &str, mut done: impl FnMut() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < WAIT_MAX, "waited {WAIT_MAX:?} for: {what}");
        thread::sleep(Duration::from_millis(10));
    }
}

pub fn mode(path: PathBuf) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

/// Every file of the directory with its bytes.
pub fn contents(directory: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let entries = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    entries.filter(|path| path.is_file()).map(|path| (path.clone(), fs::read(path).unwrap())).collect()
}

/// The one line that a person is told, and no more than a line of help.
#[track_caller]
pub fn error_line(said: &str) -> &str {
    let lines: Vec<&str> = said.lines().collect();
    assert!(lines.len() <= 2 && lines[0].starts_with("error: "), "{said}");
    assert!(lines.get(1).is_none_or(|l| l.starts_with("help: ")), "{said}");
    lines[0]
}

pub fn tempdir() -> TempDir {
    tempfile::tempdir().unwrap()
}

/// Words of 16 hexadecimal digits.
pub fn fingerprints(text: &str) -> Vec<String> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric());
    words.filter(|w| w.len() == 16 && w.bytes().all(|b| b.is_ascii_hexdigit())).map(str::to_owned).collect()
}
