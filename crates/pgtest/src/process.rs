//! A server's processes: signals to all of them, and the watchdog that outlives the test.

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

/// How often a condition is looked at again.
pub(crate) const LOOK_EVERY: Duration = Duration::from_millis(5);
/// How long a server may take for anything before the test fails.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Waits until `done`, or fails the test with `what` was waited for.
pub(crate) fn wait_until(what: &str, mut done: impl FnMut() -> bool) {
    let begun = std::time::Instant::now();
    while !done() {
        assert!(begun.elapsed() < PATIENCE, "waited {PATIENCE:?} for {what}");
        std::thread::sleep(LOOK_EVERY);
    }
}

/// Sends `signal`; a process that is gone already is fine.
pub(crate) fn signal(pid: u32, signal: Signal) {
    if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
        let _ = kill_process(pid, signal);
    }
}

/// The children of a process, which for a server are all its other processes.
pub(crate) fn children(parent: u32) -> Vec<u32> {
    let Ok(processes) = std::fs::read_dir("/proc") else {
        panic!("/proc is needed to pause a whole server");
    };
    processes
        .filter_map(|entry| {
            let pid: u32 = entry.ok()?.file_name().to_str()?.parse().ok()?;
            let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
            // The name in parentheses may hold anything; behind it: state, parent.
            let of: u32 = stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()?;
            (of == parent).then_some(pid)
        })
        .collect()
}

/// What the watchdog does when the pipe from the test's process closes: wake what is paused, since a
/// stopped process heeds no other signal, stop the server, remove its directory. `$1` is that.
const WATCHDOG: &str = r#"
read -r _
pid=
[ -e "$1/data/postmaster.pid" ] && read -r pid < "$1/data/postmaster.pid"
if [ -n "$pid" ]; then
  for stat in /proc/[0-9]*/stat; do
    read -r child _ _ parent _ < "$stat" && [ "$parent" = "$pid" ] && kill -CONT "$child"
  done
  kill -CONT "$pid"
  kill -QUIT "$pid"
  tries=0
  while [ -e "$1/data/postmaster.pid" ] && kill -0 "$pid" && [ $tries -lt 100 ]; do
    sleep 0.05
    tries=$((tries + 1))
  done
  kill -KILL "$pid"
fi
rm -rf "$1"
"#;

/// Starts the watchdog over a cluster's directory. It waits for the end of its standard input, which
/// is the end of this process or the drop of what is returned.
pub(crate) fn watchdog(root: &Path) -> Child {
    Command::new("/bin/sh")
        .args(["-c", WATCHDOG, "pgtest-watchdog"])
        .arg(root)
        .current_dir("/")
        .stdin(Stdio::piped())
        // Whoever reads this process's output must not wait for the watchdog's.
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        // Ctrl-C goes to the whole group of the terminal.
        .process_group(0)
        .spawn()
        .expect("/bin/sh runs")
}
