//! How a server of one's own differs from the shared one.

use std::fmt::Write as _;

/// How to make a cluster. The default is fast and forgets: no fsync, everyone is trusted.
#[derive(Clone, Debug, Default)]
pub struct ClusterOptions {
    /// Whether the server waits for the disk, as a real one does.
    pub fsync: bool,
    /// Lines for postgresql.conf, name and value. They win over what this crate sets.
    pub settings: Vec<(String, String)>,
    /// Lines of pg_hba.conf for everyone but the superuser on the Unix socket, who is always
    /// trusted. Empty: everyone is trusted everywhere.
    pub hba: Vec<String>,
    /// Serves TLS with this certificate.
    pub tls: Option<Tls>,
}

impl ClusterOptions {
    /// The same, with one more setting.
    #[must_use]
    pub fn set(mut self, name: &str, value: &str) -> Self {
        self.settings.push((name.to_owned(), value.to_owned()));
        self
    }

    /// The same, with one more line of pg_hba.conf.
    #[must_use]
    pub fn hba(mut self, line: &str) -> Self {
        self.hba.push(line.to_owned());
        self
    }

    pub(crate) fn hba_text(&self) -> String {
        let mut text = "local all postgres trust\nlocal replication postgres trust\n".to_owned();
        if self.hba.is_empty() {
            text.push_str(
                "local all all trust\nhost all all 127.0.0.1/32 trust\nhost replication all 127.0.0.1/32 trust\n",
            );
        }
        for line in &self.hba {
            text.push_str(line);
            text.push('\n');
        }
        text
    }

    pub(crate) fn settings_text(&self, port: u16, sockets: &str) -> String {
        let port = port.to_string();
        let durable = if self.fsync { "on" } else { "off" };
        let mut all: Vec<(&str, &str)> = vec![
            ("listen_addresses", "127.0.0.1"),
            ("port", &port),
            ("unix_socket_directories", sockets),
            ("fsync", durable),
            ("full_page_writes", durable),
            ("max_connections", "300"),
            ("wal_level", "replica"),
            ("max_wal_senders", "8"),
            ("wal_keep_size", "128MB"),
            // A worker in a database that is to be copied or dropped makes that wait.
            ("autovacuum", "off"),
            ("log_line_prefix", "%m [%p] %a "),
            ("log_timezone", "UTC"),
            ("timezone", "UTC"),
        ];
        if self.tls.is_some() {
            all.extend([("ssl", "on"), ("ssl_cert_file", "server.crt"), ("ssl_key_file", "server.key")]);
        }
        if self.tls.as_ref().is_some_and(|tls| tls.client_authority.is_some()) {
            all.push(("ssl_ca_file", "authority.crt"));
        }
        all.extend(self.settings.iter().map(|(name, value)| (name.as_str(), value.as_str())));
        let mut text = String::new();
        for (name, value) in all {
            let _ = writeln!(text, "{name} = '{}'", value.replace('\'', "''"));
        }
        text
    }
}

/// What a server needs for TLS, each as the text of a PEM file.
#[derive(Clone)]
pub struct Tls {
    /// The server's certificate and what leads from it to an authority.
    pub certificate: String,
    /// The certificate's private key.
    pub key: String,
    /// Who signs the certificates of clients, where those are asked for.
    pub client_authority: Option<String>,
}

impl std::fmt::Debug for Tls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tls").field("certificate", &self.certificate).finish_non_exhaustive()
    }
}
