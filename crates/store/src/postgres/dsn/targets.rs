//! The servers that a connection string names: lists of hosts, addresses and ports.

use std::fmt;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use super::error::DsnError;
use super::keyword::Given;

const PORT: u16 = 5432;
/// Where servers put their sockets: the directory of Debian's and Red Hat's packages, and PostgreSQL's own.
const SOCKET_DIRECTORIES: [&str; 2] = ["/var/run/postgresql", "/tmp"];

/// Where a server listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// At an address, or under a name that has some.
    Tcp {
        /// Its name: what its certificate has to be for.
        name: Option<String>,
        /// Its address, if that was given (`hostaddr`): then the name is not looked up.
        address: Option<IpAddr>,
    },
    /// In a directory, on a Unix socket.
    Unix(PathBuf),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Tcp { name: Some(name), .. } => f.write_str(name),
            Place::Tcp { name: None, address } => address.iter().try_for_each(|a| a.fmt(f)),
            Place::Unix(directory) => directory.display().fmt(f),
        }
    }
}

/// One of the servers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) place: Place,
    pub(crate) port: u16,
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "host \"{}\" port {}", self.place, self.port)
    }
}

impl Target {
    /// Whether nothing that is sent there leaves the machine over TCP.
    pub(crate) fn is_loopback(&self) -> bool {
        match &self.place {
            Place::Tcp { address: Some(address), .. } => address.is_loopback(),
            Place::Tcp { name: Some(name), address: None } => {
                name.eq_ignore_ascii_case("localhost") || name.parse().is_ok_and(|a: IpAddr| a.is_loopback())
            }
            Place::Tcp { name: None, address: None } => false,
            Place::Unix(_) => true,
        }
    }
}

/// Reads `host`, `hostaddr` and `port`.
pub(super) fn read(given: &Given) -> Result<Vec<Target>, DsnError> {
    let list =
        |name| given.get(name).map(|v| v.split(',').map(str::trim_ascii).collect::<Vec<_>>()).unwrap_or_default();
    let (hosts, addresses, ports) = (list("host"), list("hostaddr"), list("port"));
    let count = if hosts.is_empty() { addresses.len().max(1) } else { hosts.len() };
    if !addresses.is_empty() && addresses.len() != count {
        return Err(DsnError::Count { keyword: "hostaddr", found: addresses.len(), hosts: count });
    }
    if ports.len() > 1 && ports.len() != count {
        return Err(DsnError::Count { keyword: "port", found: ports.len(), hosts: count });
    }
    let invalid_port = || given.invalid("port", "numbers from 1 to 65535");
    (0..count)
        .map(|i| {
            let host = hosts.get(i).copied().unwrap_or_default();
            let address = match addresses.get(i).copied().unwrap_or_default() {
                "" => None,
                text => Some(text.parse().map_err(|_| given.invalid("hostaddr", "IPv4 and IPv6 addresses"))?),
            };
            let port = match ports.get(i).or(ports.first().filter(|_| ports.len() == 1)).copied().unwrap_or_default() {
                "" => PORT,
                text => text.parse().ok().filter(|p| *p > 0).ok_or_else(invalid_port)?,
            };
            let place = match (host, address) {
                ("", None) => Place::Unix(default_directory()),
                (host, None) if host.starts_with('/') => Place::Unix(host.into()),
                (host, None) if host.starts_with('@') => {
                    return Err(given.invalid("host", "names, addresses and directories, no abstract socket"));
                }
                (host, address) => Place::Tcp { name: (!host.is_empty()).then(|| host.to_owned()), address },
            };
            Ok(Target { place, port })
        })
        .collect()
}

/// The ports as a list.
pub(super) fn ports(targets: &[Target]) -> String {
    targets.iter().map(|t| t.port.to_string()).collect::<Vec<_>>().join(",")
}

fn default_directory() -> PathBuf {
    let [first, second] = SOCKET_DIRECTORIES.map(Path::new);
    if first.is_dir() { first } else { second }.to_owned()
}

/// Whether that is where servers put their sockets by default.
pub(super) fn is_default_directory(directory: &Path) -> bool {
    SOCKET_DIRECTORIES.iter().any(|d| Path::new(d) == directory)
}
