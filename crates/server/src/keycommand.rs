//! A key from a program: run without a shell, for a short time, heard and never quoted.

use std::fmt;
use std::io::Read as _;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};

use dataglot_model::Problem as _;
use dataglot_vault::KeyRing;
use rustix::process::{Pid, Signal, kill_process_group};
use zeroize::Zeroizing;

use crate::config::Setting;

/// How long it may run.
const TIME_MAX: Duration = Duration::from_secs(10);
/// Longest output, in bytes: room for sixteen keys and comments.
const OUTPUT_BYTES_MAX: usize = 4 << 10;
/// How often a program that has closed its output is asked whether it has ended.
const ASK_AGAIN: Duration = Duration::from_millis(5);

/// A program and its arguments.
#[derive(Clone, PartialEq, Eq)]
pub struct KeyCommand {
    program: String,
    arguments: Vec<String>,
}

impl fmt::Display for KeyCommand {
    /// The program. Arguments may be credentials themselves.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let more = if self.arguments.is_empty() { "" } else { " …" };
        write!(f, "{}{more}", self.program)
    }
}

impl fmt::Debug for KeyCommand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Why there is no key. Names the program, and nothing that it was given or has said.
#[derive(Debug, thiserror::Error, miette::Diagnostic)]
#[error("secret key command \"{program}\" {what}")]
pub struct KeyCommandError {
    program: String,
    what: String,
    #[help]
    help: Option<String>,
}

impl KeyCommand {
    /// Of a list whose first element is the program. `None`: there is none, or it cannot be run.
    pub(crate) fn new(list: Vec<String>) -> Option<Self> {
        let mut list = list.into_iter();
        let program = list.next().filter(|program| !program.is_empty())?;
        let arguments: Vec<String> = list.collect();
        let has_nul = arguments.iter().chain([&program]).any(|text| text.contains('\0'));
        (!has_nul).then_some(KeyCommand { program, arguments })
    }

    /// Runs it, and reads the keys that it prints: the text that a key file has.
    ///
    /// It gets no input and none of our variables; what it says on standard error goes nowhere. After ten seconds it
    /// is killed, with what it has started.
    ///
    /// # Errors
    /// [`KeyCommandError`]: it cannot be started, fails, takes too long, prints too much or no key.
    pub fn read(&self) -> Result<KeyRing, KeyCommandError> {
        self.read_within(TIME_MAX)
    }

    fn read_within(&self, limit: Duration) -> Result<KeyRing, KeyCommandError> {
        let output = self.output(limit).map_err(|what| self.error(what, None))?;
        let text = std::str::from_utf8(&output).map_err(|_| self.error("printed what is no text".to_owned(), None))?;
        KeyRing::parse(text).map_err(|error| self.error(format!("gave no key: {error}"), error.hint()))
    }

    fn error(&self, what: String, help: Option<String>) -> KeyCommandError {
        KeyCommandError { program: self.program.clone(), what, help }
    }

    fn output(&self, limit: Duration) -> Result<Zeroizing<Vec<u8>>, String> {
        let end = Instant::now() + limit;
        let mut command = Command::new(&self.program);
        command.args(&self.arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        // What it starts is in its group, and ends with it.
        command.process_group(0);
        for setting in Setting::ALL {
            command.env_remove(setting.variable());
        }
        let mut child = command.spawn().map_err(|error| format!("cannot be started: {error}"))?;
        let heard = heard(&mut child, end, limit);
        let ended = heard.and_then(|output| Ok((ended(&mut child, end, limit)?, output)));
        let (status, output) = match ended {
            Ok(done) => done,
            Err(what) => {
                let _ = kill_process_group(Pid::from_child(&child), Signal::KILL);
                let _ = child.wait();
                return Err(what);
            }
        };
        match (status.code(), status.signal()) {
            (Some(0), _) => Ok(output),
            (Some(code), _) => Err(format!("ended with exit code {code}")),
            (None, Some(signal)) => Err(format!("was ended by signal {signal}")),
            (None, None) => Err("did not end well".to_owned()),
        }
    }
}

fn too_long(limit: Duration) -> String {
    format!("took longer than {} s, and was killed", limit.as_secs())
}

/// All that it prints.
fn heard(child: &mut Child, end: Instant, limit: Duration) -> Result<Zeroizing<Vec<u8>>, String> {
    let Some(stdout) = child.stdout.take() else { return Err("has no output".to_owned()) };
    let (send, receive) = channel();
    // Ends with the output; where that is kept open by somebody else, with this process.
    thread::spawn(move || {
        // At its full length at once: what outgrows its place leaves a copy behind.
        let mut output = Zeroizing::new(Vec::with_capacity(OUTPUT_BYTES_MAX + 1));
        let most = u64::try_from(OUTPUT_BYTES_MAX + 1).unwrap_or(u64::MAX);
        let read = stdout.take(most).read_to_end(&mut output).map(|_| output);
        let _ = send.send(read);
    });
    match receive.recv_timeout(end.saturating_duration_since(Instant::now())) {
        Ok(Ok(output)) if output.len() > OUTPUT_BYTES_MAX => {
            Err(format!("printed more than {} kB, and was killed", OUTPUT_BYTES_MAX >> 10))
        }
        Ok(Ok(output)) => Ok(output),
        Ok(Err(error)) => Err(format!("cannot be heard: {error}")),
        Err(RecvTimeoutError::Timeout) => Err(too_long(limit)),
        Err(RecvTimeoutError::Disconnected) => Err("cannot be heard".to_owned()),
    }
}

/// How it ended.
fn ended(child: &mut Child, end: Instant, limit: Duration) -> Result<ExitStatus, String> {
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return Ok(status),
            Ok(None) if Instant::now() < end => thread::sleep(ASK_AGAIN),
            Ok(None) => return Err(too_long(limit)),
            Err(error) => return Err(format!("cannot be waited for: {error}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;

    const KEY: &str = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";
    const OTHER: &str = "f00102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";
    const WAIT_MAX: Duration = Duration::from_secs(30);

    fn shell(script: &str) -> KeyCommand {
        KeyCommand::new(["/bin/sh", "-c", script, "CANARY-7Q"].map(str::to_owned).to_vec()).unwrap()
    }

    fn refused(script: &str, limit: Duration) -> String {
        let error = shell(script).read_within(limit).unwrap_err();
        let said = format!("{error} {error:?} {:?}", error.help);
        assert!(said.starts_with("secret key command \"/bin/sh\" "), "{said}");
        for hidden in ["CANARY-7Q", script, KEY] {
            assert!(!said.contains(hidden), "{said}");
        }
        error.what
    }

    /// S-12: the text is that of a key file: several keys, the first one primary.
    #[test]
    fn s_12_a_command_gives_what_a_key_file_holds() {
        let ring = shell(&format!("printf '# comment\\n{KEY}\\n{OTHER}\\n'")).read().unwrap();
        let expected = KeyRing::parse(&format!("{KEY},{OTHER}")).unwrap();
        assert_eq!(ring.ids().collect::<Vec<_>>(), expected.ids().collect::<Vec<_>>());
        // No shell: an argument is one, whatever is in it.
        let echo = KeyCommand::new(vec!["echo".to_owned(), format!("{KEY}; exit 7 $(exit 8)")]).unwrap();
        assert!(echo.read().unwrap_err().what.starts_with("gave no key"));
        assert!(KeyCommand::new(vec!["echo".to_owned(), KEY.to_owned()]).unwrap().read().is_ok());
        assert_eq!(format!("{} {:?}", shell("CANARY-7Q"), shell("CANARY-7Q")), "/bin/sh … /bin/sh …");
        for bad in [&[][..], &["", "x"], &["a\0b"], &["a", "\0"]] {
            assert!(KeyCommand::new(bad.iter().map(|s| (*s).to_owned()).collect()).is_none(), "{bad:?}");
        }
    }

    /// S-12: whatever it says, on either stream, is in no error.
    #[test]
    fn s_12_what_fails_names_the_program_only() {
        for (script, what) in [
            ("echo CANARY-7Q", "gave no key: secret key is not usable: "),
            ("echo CANARY-7Q >&2; exit 3", "ended with exit code 3"),
            (&format!("echo {KEY}; exit 1"), "ended with exit code 1"),
            (&format!("echo {KEY}; kill -TERM $$"), "was ended by signal 15"),
            ("head -c 100000 /dev/zero", "printed more than 4 kB, and was killed"),
            ("head -c 4096 /dev/zero | tr '\\0' '#'", "gave no key: secret key is not usable: it is empty"),
            ("printf '\\377'", "printed what is no text"),
            ("cat", "gave no key: secret key is not usable: it is empty"),
        ] {
            let found = refused(script, WAIT_MAX);
            assert!(found.starts_with(what), "{script}: {found}");
        }
        let none = KeyCommand::new(vec!["/no/such/program".to_owned(), "CANARY-7Q".to_owned()]).unwrap();
        let error = none.read().unwrap_err();
        assert!(error.to_string().starts_with("secret key command \"/no/such/program\" cannot be started"), "{error}");
        assert!(!format!("{error:?}").contains("CANARY-7Q"));
    }

    fn runs(pid: &Path) -> bool {
        let pid = fs::read_to_string(pid).unwrap();
        let stat = fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap_or_default();
        // One that has ended and that nobody has asked after yet is a zombie.
        stat.rsplit(')').next().is_some_and(|rest| !rest.is_empty() && !rest.starts_with(" Z"))
    }

    /// S-12: it is killed at the limit, and so is what it has started: whether it goes on printing, waits, or has
    /// closed its output.
    #[test]
    fn s_12_what_takes_too_long_is_killed_with_its_children() {
        for script in ["sleep 600 & echo $! > PID; wait", "exec >&-; sleep 600 & echo $! > PID; wait"] {
            let directory = tempfile::tempdir().unwrap();
            let pid = directory.path().join("pid");
            let script = script.replace("PID", pid.to_str().unwrap());
            // Long enough to get to the point of it: the file is there, or the next try has more time.
            let mut limit = Duration::from_secs(1);
            while !pid.exists() || fs::read_to_string(&pid).unwrap().is_empty() {
                assert!(limit < WAIT_MAX, "it does not start");
                assert!(refused(&script, limit).starts_with("took longer than"));
                limit *= 2;
            }
            let start = Instant::now();
            while runs(&pid) {
                assert!(start.elapsed() < WAIT_MAX, "it still runs");
                thread::sleep(Duration::from_millis(5));
            }
        }
    }
}
