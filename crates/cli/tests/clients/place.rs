//! A server that asks everybody but `admin` for one proof, and a user for each client.

use std::fs;
use std::process::Command;

use tempfile::TempDir;

use crate::pki::Pki;
use crate::program::Program;
use crate::support::{KEY, Server, dataglot, tempdir};

/// The server, its authority and its directory.
pub struct Place {
    pub pki: Pki,
    /// Goes with it.
    _directory: TempDir,
    server: Option<Server>,
    method: &'static str,
}

impl Place {
    /// A server with that method; `tables`: what else stands in its configuration.
    pub fn new(method: &'static str, tables: impl FnOnce(&Pki) -> String) -> Place {
        Place::of(Pki::new(), method, tables)
    }

    pub fn of(pki: Pki, method: &'static str, tables: impl FnOnce(&Pki) -> String) -> Place {
        let directory = tempdir();
        let file = |name: &str| pki.path(name).display().to_string();
        let config = format!(
            r#"
listen = "127.0.0.1:0"
log_filter = "warn"
scram_iterations = 4096
tls_cert = "{}"
tls_key = "{}"
tls_client_ca = "{}"

[catalog_service]
path = "meta.redb"

[[hba]]
address = "loopback"
user = "admin"
method = "trust"

[[hba]]
address = "all"
method = "{method}"

{}
"#,
            file("server.crt"),
            file("server.key"),
            file("ca.crt"),
            tables(&pki)
        );
        fs::write(directory.path().join("dataglot.toml"), config).unwrap();
        let mut serve: Command = dataglot(directory.path(), &["serve", "--config", "dataglot.toml"]);
        let server = Server::start({
            serve.env("DATAGLOT_SECRET_KEY", KEY);
            serve
        });
        Place { pki, _directory: directory, server: Some(server), method }
    }

    fn server(&self) -> &Server {
        self.server.as_ref().unwrap()
    }

    pub fn port(&self) -> u16 {
        self.server().address.port()
    }

    /// What the superuser says.
    #[track_caller]
    pub fn query(&self, sql: &str) {
        self.server().query(sql);
    }

    /// Makes a user for each client. `password`: what stands behind PASSWORD, if anything does.
    #[track_caller]
    pub fn users(&self, password: impl Fn(&str) -> Option<String>) {
        for program in Program::ALL {
            let user = program.user();
            let password = password(user).map_or(String::new(), |password| format!(" PASSWORD '{password}'"));
            self.query(&format!("CREATE USER {user} SUPERUSER{password}"));
        }
    }

    /// The server's method.
    pub fn method(&self) -> &'static str {
        self.method
    }

    /// Ends it as an operator does.
    pub fn stop(mut self) {
        self.server.take().unwrap().stop();
    }
}
