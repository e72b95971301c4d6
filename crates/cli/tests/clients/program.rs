//! The clients: each is its script in `examples/clients`, run with the settings that a login needs and no others.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::LazyLock;

use crate::example;
use crate::place::Place;

/// A client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Program {
    Psql,
    Psycopg,
    Asyncpg,
    Node,
    Pgjdbc,
    Tokio,
}

/// How it connects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// As it does unless told otherwise.
    Default,
    /// In clear.
    Clear,
    /// Encrypted, and the server's certificate has to be for its name.
    Verified,
    /// The same, and the login has to be bound to the connection.
    Bound,
    /// The same as `Verified`, with a certificate of the user's.
    Certificate,
}

impl Program {
    pub const ALL: [Program; 6] =
        [Program::Psql, Program::Psycopg, Program::Asyncpg, Program::Node, Program::Pgjdbc, Program::Tokio];

    /// Its user: each has its own, so that none waits for what another one did wrong.
    pub fn user(self) -> &'static str {
        match self {
            Program::Psql => "psql",
            Program::Psycopg => "psycopg",
            Program::Asyncpg => "asyncpg",
            Program::Node => "node",
            Program::Pgjdbc => "pgjdbc",
            Program::Tokio => "tokio",
        }
    }

    /// Whether it can do that at all.
    pub fn can(self, how: How) -> bool {
        match how {
            How::Default | How::Clear | How::Verified | How::Certificate => true,
            How::Bound => matches!(self, Program::Psql | Program::Psycopg | Program::Node | Program::Tokio),
        }
    }

    /// What it says of a wrong password. psql and psycopg tell no code of a login that failed.
    pub fn refusal(self) -> &'static str {
        match self {
            Program::Psql | Program::Psycopg => "password authentication failed for user",
            Program::Asyncpg => "InvalidPasswordError",
            Program::Node | Program::Pgjdbc | Program::Tokio => "28P01",
        }
    }

    /// Logs in by `mode`, and does what the example does. What it said, or what it complained of.
    pub fn log_in(self, place: &Place, how: How, password: Option<&str>, mode: &str) -> Result<String, String> {
        let mut command = match self {
            Program::Tokio => return tokio(place, how, password, mode),
            Program::Psql => Command::new(example("psql.sh")),
            Program::Psycopg => python("psycopg-login.py"),
            Program::Asyncpg => python("asyncpg-login.py"),
            Program::Node => {
                let mut node = Command::new("node");
                node.arg(example("node-postgres.js")).env("NODE_PATH", installed("node_modules"));
                if how != How::Default {
                    node.env("DATABASE_URL", url(place, "postgresql", self.user(), &parameters(place, self, how)));
                }
                node
            }
            Program::Pgjdbc => {
                let mut path = OsString::from(&*CLASSES);
                path.push(":");
                path.push(installed("pgjdbc.jar"));
                let mut java = Command::new("java");
                java.args(["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp"]).arg(path).arg("Login");
                java.env("JDBC_URL", url(place, "jdbc:postgresql", "", &parameters(place, self, how)));
                java
            }
        };
        command.arg(mode);
        clean(&mut command);
        command.env("PGHOST", "localhost").env("PGPORT", place.port().to_string());
        command.env("PGUSER", self.user()).env("PGDATABASE", "default");
        if let Some(password) = password {
            command.env("PGPASSWORD", password);
        }
        let file = |name: String| place.pki.path(&name);
        match how {
            How::Default => {}
            How::Clear => drop(command.env("PGSSLMODE", "disable")),
            How::Verified | How::Bound | How::Certificate => {
                command.env("PGSSLMODE", "verify-full").env("PGSSLROOTCERT", file("ca.crt".to_owned()));
            }
        }
        if how == How::Bound {
            command.env("PGCHANNELBINDING", "require");
        }
        if how == How::Certificate {
            command.env("PGSSLCERT", file(format!("{}.crt", self.user())));
            command.env("PGSSLKEY", file(format!("{}.key", self.user())));
        }
        said(&mut command)
    }
}

/// Takes away what whoever runs the test has set, and the files that it has at home.
pub fn clean(command: &mut Command) {
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("PG")) {
        command.env_remove(name);
    }
    command.env("HOME", "/nonexistent").env("PGCONNECT_TIMEOUT", "30").stdin(Stdio::null());
}

/// What a command said, or what it complained of.
pub fn said(command: &mut Command) -> Result<String, String> {
    let output = command.output().unwrap_or_else(|error| panic!("{:?}: {error}. {SETUP}", command.get_program()));
    match output.status.success() {
        true => Ok(String::from_utf8(output.stdout).unwrap().trim().to_owned()),
        false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
    }
}

const SETUP: &str = "examples/clients/setup installs the clients, as ./test does, or says how to get them";

/// A part of what `setup` installs.
fn installed(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/clients").join(name);
    assert!(path.exists(), "{} is not there. {SETUP}", path.display());
    path
}

fn python(script: &str) -> Command {
    let mut python = Command::new(installed("python/bin/python"));
    python.arg(example(script));
    python
}

/// The compiled example of pgjdbc.
static CLASSES: LazyLock<PathBuf> = LazyLock::new(|| {
    let classes = Path::new(env!("CARGO_TARGET_TMPDIR")).join("pgjdbc-login");
    fs::create_dir_all(&classes).unwrap();
    let mut javac = Command::new("javac");
    said(javac.arg("-d").arg(&classes).arg(example("pgjdbc/Login.java"))).unwrap();
    classes
});

fn url(place: &Place, scheme: &str, user: &str, parameters: &[(&str, String)]) -> String {
    let at = if user.is_empty() { "" } else { "@" };
    let parameters: Vec<String> = parameters.iter().map(|(name, value)| format!("{name}={value}")).collect();
    format!("{scheme}://{user}{at}localhost:{}/default?{}", place.port(), parameters.join("&"))
}

/// The same settings for those who have them in their URL.
fn parameters(place: &Place, program: Program, how: How) -> Vec<(&'static str, String)> {
    let file = |name: &str| place.pki.path(name).display().to_string();
    let mut parameters = match how {
        How::Default => vec![],
        How::Clear => vec![("sslmode", "disable".to_owned())],
        How::Verified | How::Bound | How::Certificate => {
            vec![("sslmode", "verify-full".to_owned()), ("sslrootcert", file("ca.crt"))]
        }
    };
    if how == How::Certificate {
        let key = if program == Program::Pgjdbc { "der" } else { "key" };
        parameters.push(("sslcert", file(&format!("{}.crt", program.user()))));
        parameters.push(("sslkey", file(&format!("{}.{key}", program.user()))));
    }
    parameters
}

/// In this process: the example's own function.
fn tokio(place: &Place, how: How, password: Option<&str>, mode: &str) -> Result<String, String> {
    let mut config = tokio_postgres::Config::new();
    config.host("localhost").port(place.port()).user(Program::Tokio.user()).dbname("default");
    if let Some(password) = password {
        config.password(password);
    }
    match how {
        How::Default => {}
        How::Clear => drop(config.ssl_mode(tokio_postgres::config::SslMode::Disable)),
        How::Verified | How::Bound | How::Certificate => {
            config.ssl_mode(tokio_postgres::config::SslMode::Require);
        }
    }
    if how == How::Bound {
        config.channel_binding(tokio_postgres::config::ChannelBinding::Require);
    }
    let (ca, certificate, key) = (place.pki.path("ca.crt"), place.pki.path("tokio.crt"), place.pki.path("tokio.key"));
    let own = (how == How::Certificate).then_some((certificate.as_path(), key.as_path()));
    let files = crate::tokio_example::Files { ca: &ca, certificate: own };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    match runtime.block_on(crate::tokio_example::log_in(&config, Some(files))) {
        Ok(()) => Ok(format!("ok {mode}")),
        Err(error) => {
            let code = error.downcast_ref::<tokio_postgres::Error>().and_then(tokio_postgres::Error::code);
            Err(format!("{} {error}", code.map_or("", |code| code.code())))
        }
    }
}
