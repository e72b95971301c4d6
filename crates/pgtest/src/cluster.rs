//! A PostgreSQL server of the test's own: made, stopped, paused, followed by a standby.

use std::fmt;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use rustix::process::Signal;

use crate::binaries::{Owner, command};
use crate::client::Address;
use crate::database::Database;
use crate::options::ClusterOptions;
use crate::process::{children, signal, wait_until, watchdog};

/// Below the range that systems hand out by themselves. There a client that knocks at a stopped
/// server's port can be given that very port, and is then connected to itself.
const PORTS: std::ops::Range<u16> = 20_000..32_000;
/// A socket's path has at most 107 bytes, and the file's own name takes some.
const SOCKET_DIRECTORY_MAX: usize = 80;

/// A server with its data directory. Dropping it stops the server and removes the directory.
pub struct Cluster {
    root: PathBuf,
    address: Address,
    server: Mutex<Option<Child>>,
    watchdog: Mutex<Option<Child>>,
    databases: AtomicU32,
    shared: bool,
}

impl fmt::Debug for Cluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cluster").field("root", &self.root).field("port", &self.address.port).finish_non_exhaustive()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A test that failed while it held this must not hide its own message behind another.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Cluster {
    /// The server that all tests of this process share. It is not to be stopped or paused.
    #[must_use]
    pub fn shared() -> &'static Cluster {
        static SHARED: OnceLock<Cluster> = OnceLock::new();
        SHARED.get_or_init(|| {
            let mut cluster = Cluster::start(ClusterOptions::default());
            cluster.shared = true;
            cluster
        })
    }

    /// Makes a new cluster and starts its server.
    ///
    /// # Panics
    /// PostgreSQL is not installed, or refuses.
    #[must_use]
    #[allow(clippy::needless_pass_by_value, reason = "what a caller writes reads better so")]
    pub fn start(options: ClusterOptions) -> Cluster {
        let cluster = Cluster::prepare();
        let data = cluster.data();
        run(command("initdb")
            .args(["-N", "--locale=C", "-E", "UTF8", "-U", "postgres", "-A", "trust", "-D"])
            .arg(&data));
        let main = data.join("postgresql.conf");
        let mut text = std::fs::read_to_string(&main).expect("initdb wrote it");
        text.push_str("include 'pgtest.conf'\n");
        write_owned(&main, &text);
        if let Some(tls) = &options.tls {
            write_owned(&data.join("server.crt"), &tls.certificate);
            write_owned(&data.join("server.key"), &tls.key);
            if let Some(authority) = &tls.client_authority {
                write_owned(&data.join("authority.crt"), authority);
            }
        }
        cluster.configure(&options);
        cluster.launch();
        cluster
    }

    /// A standby that follows `primary` by streaming, with its own settings in `options`.
    ///
    /// # Panics
    /// The primary does not let itself be copied.
    #[must_use]
    #[allow(clippy::needless_pass_by_value, reason = "what a caller writes reads better so")]
    pub fn standby_of(primary: &Cluster, options: ClusterOptions) -> Cluster {
        let cluster = Cluster::prepare();
        let port = primary.port().to_string();
        let from = ["-U", "postgres", "-h", primary.socket_directory(), "-p", &port];
        run(command("pg_basebackup").args(from).args(["-R", "-X", "stream", "-c", "fast", "-D"]).arg(cluster.data()));
        cluster.configure(&options);
        cluster.launch();
        cluster
    }

    fn prepare() -> Cluster {
        let mut parent = std::env::temp_dir();
        if parent.as_os_str().len() > SOCKET_DIRECTORY_MAX - 20 {
            parent = PathBuf::from("/tmp");
        }
        let root = tempfile::Builder::new()
            .prefix("dataglot-pg-")
            .permissions(std::fs::Permissions::from_mode(0o755))
            .tempdir_in(parent)
            .expect("a temporary directory can be made")
            .keep();
        Owner::own(&root);
        let watchdog = watchdog(&root);
        let address = Address {
            sockets: root.to_str().expect("the path is text").to_owned(),
            port: free_port(),
            answers: Arc::default(),
        };
        Cluster {
            root,
            address,
            server: Mutex::new(None),
            watchdog: Mutex::new(Some(watchdog)),
            databases: AtomicU32::new(0),
            shared: false,
        }
    }

    fn configure(&self, options: &ClusterOptions) {
        let data = self.data();
        write_owned(&data.join("pgtest.conf"), &options.settings_text(self.address.port, &self.address.sockets));
        write_owned(&data.join("pg_hba.conf"), &options.hba_text());
    }

    fn launch(&self) {
        let mut server = lock(&self.server);
        assert!(server.is_none(), "the server runs already");
        let log =
            std::fs::File::options().create(true).append(true).open(self.log_path()).expect("the log can be opened");
        // What a server left that was killed; it would be taken for the new one's.
        let _ = std::fs::remove_file(self.data().join("postmaster.pid"));
        let mut child = std::os::unix::process::CommandExt::process_group(
            command("postgres").arg("-D").arg(self.data()).current_dir(&self.root),
            0,
        )
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log)
        .spawn()
        .expect("postgres runs");
        wait_until("the server to be ready", || {
            if let Some(status) = child.try_wait().expect("a child can be waited for") {
                panic!("PostgreSQL ended ({status}):\n{}", self.log());
            }
            self.is_ready()
        });
        *server = Some(child);
        self.address.set_answers(true);
    }

    /// The last line of its pid file says how far a server has come.
    fn is_ready(&self) -> bool {
        std::fs::read_to_string(self.data().join("postmaster.pid"))
            .is_ok_and(|text| text.lines().nth(7).is_some_and(|status| matches!(status.trim(), "ready" | "standby")))
    }

    fn data(&self) -> PathBuf {
        self.root.join("data")
    }

    fn log_path(&self) -> PathBuf {
        self.root.join("log")
    }

    /// What the server has logged.
    #[must_use]
    pub fn log(&self) -> String {
        std::fs::read(self.log_path()).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default()
    }

    /// A fresh database. It may outlive a stop of the server, not the cluster.
    #[must_use]
    pub fn database(&self) -> Database {
        let number = self.databases.fetch_add(1, Ordering::Relaxed);
        Database::create(self.address.clone(), format!("test_{number}"))
    }

    /// The port on 127.0.0.1, which is also part of the socket's name.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.address.port
    }

    /// The directory of the Unix socket, which libpq takes as a host.
    #[must_use]
    pub fn socket_directory(&self) -> &str {
        &self.address.sockets
    }

    /// The server's main process. `None` while it is stopped.
    #[must_use]
    pub fn pid(&self) -> Option<u32> {
        lock(&self.server).as_ref().map(Child::id)
    }

    /// Runs statements as the superuser in the database `postgres`.
    ///
    /// # Panics
    /// One failed.
    pub fn execute(&self, sql: &str) {
        if let Err(error) = self.address.run("postgres", sql) {
            panic!("{error}");
        }
    }

    /// The one value that `sql` gives as the superuser in the database `postgres`.
    ///
    /// # Panics
    /// The statement failed, or gave another number of rows than one.
    #[must_use]
    pub fn query_one(&self, sql: &str) -> String {
        match self.address.run("postgres", sql).as_deref() {
            Ok([value]) => value.clone().unwrap_or_default(),
            Ok(rows) => panic!("one row is wanted, not {}", rows.len()),
            Err(error) => panic!("{error}"),
        }
    }

    /// Stops the server as `pg_ctl stop -m immediate` does: it recovers from its log when it starts
    /// again.
    pub fn stop_immediate(&self) {
        self.stop(Signal::QUIT);
    }

    /// Stops the server in order: what is committed is in its files and with its standbys.
    pub fn stop_fast(&self) {
        self.stop(Signal::INT);
    }

    fn stop(&self, how: Signal) {
        assert!(!self.shared, "other tests use this server");
        self.end(how);
    }

    fn end(&self, how: Signal) {
        let Some(mut child) = lock(&self.server).take() else { return };
        self.address.set_answers(false);
        self.wake(child.id());
        signal(child.id(), how);
        wait_until("the server to stop", || child.try_wait().expect("a child can be waited for").is_some());
    }

    /// Starts a stopped server: the same data, the same port.
    pub fn start_again(&self) {
        self.launch();
    }

    /// Stops all its processes where they are, as a machine that hangs does. Connections stay open.
    pub fn pause(&self) {
        assert!(!self.shared, "other tests use this server");
        let pid = self.pid().expect("the server runs");
        self.address.set_answers(false);
        // The first one first: it is who starts others.
        signal(pid, Signal::STOP);
        for child in children(pid) {
            signal(child, Signal::STOP);
        }
    }

    /// Lets a paused server go on.
    pub fn resume(&self) {
        self.wake(self.pid().expect("the server runs"));
        self.address.set_answers(true);
    }

    fn wake(&self, pid: u32) {
        if self.shared {
            return;
        }
        for child in children(pid) {
            signal(child, Signal::CONT);
        }
        signal(pid, Signal::CONT);
    }

    /// Makes a standby a primary.
    pub fn promote(&self) {
        assert_eq!(self.query_one("SELECT pg_promote(true, 60)"), "t", "the standby is promoted");
    }

    /// Waits until this standby has replayed all that `primary` has written.
    pub fn catch_up_with(&self, primary: &Cluster) {
        let position = primary.query_one("SELECT pg_current_wal_lsn()");
        wait_until("the standby to catch up", || {
            self.query_one(&format!("SELECT coalesce(pg_last_wal_replay_lsn() >= '{position}', false)")) == "t"
        });
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.end(Signal::QUIT);
        // The end of its input is its order to remove the directory.
        if let Some(mut watchdog) = lock(&self.watchdog).take() {
            drop(watchdog.stdin.take());
            let _ = watchdog.wait();
        }
    }
}

fn run(command: &mut std::process::Command) {
    let out = command.current_dir("/").stdin(Stdio::null()).output().expect("PostgreSQL's programs run");
    assert!(
        out.status.success(),
        "{} failed ({}):\n{}{}",
        command.get_program().to_string_lossy(),
        out.status,
        String::from_utf8_lossy(&out.stdout),
        String::from_utf8_lossy(&out.stderr)
    );
}

fn write_owned(path: &Path, text: &str) {
    std::fs::write(path, text).expect("the data directory can be written");
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).expect("the file is ours");
    Owner::own(path);
}

/// A port that nobody listens on. Processes that look at the same time look from different places.
fn free_port() -> u16 {
    static LAST: AtomicU32 = AtomicU32::new(0);
    let width = u32::from(PORTS.end - PORTS.start);
    let first = std::process::id().wrapping_mul(37);
    for _ in 0..width {
        let step = LAST.fetch_add(1, Ordering::Relaxed);
        let port = PORTS.start + u16::try_from(first.wrapping_add(step) % width).expect("it is below the width");
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
    panic!("no port is free on loopback");
}
