//! Asks an issuer for its keys: one GET of the configured address, and nothing else (J8).
//!
//! hyper is here already, below the HTTP endpoint; its client knows no redirects, proxies, cookies or compression
//! that would have to be turned off, and takes a connection that is made here, to an address that has been looked
//! at. Any failure is one text: what the other side sent is not repeated.

use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Empty, Limited};
use hyper::header::{ACCEPT, HOST};
use hyper::{Request, StatusCode, Uri};
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::super::hba::Network;
use super::super::roots;

/// Longest key set, in bytes.
pub(super) const KEY_SET_BYTES_MAX: usize = 256 << 10;
/// How long an issuer has to answer.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Where the keys are.
pub(super) struct Address {
    host: String,
    port: u16,
    path: String,
    /// What stands in the `Host` header.
    authority: String,
    /// `None`: in clear, on this machine.
    tls: Option<(Arc<ClientConfig>, ServerName<'static>)>,
    /// Networks that are not the internet's and are asked nevertheless.
    networks: Vec<Network>,
}

impl Address {
    /// Reads an address, and the CAs of the server there.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(super) fn new(url: &str, ca_file: Option<&Path>, networks: Vec<Network>) -> Result<Self, String> {
        let parts = Uri::try_from(url).ok().map(Uri::into_parts);
        let form = || "its address is not of the form https://host[:port]/path".to_owned();
        let (Some(scheme), Some(authority), path) =
            parts.map(|parts| (parts.scheme, parts.authority, parts.path_and_query)).ok_or_else(form)?
        else {
            return Err(form());
        };
        if authority.as_str().contains('@') || url.contains('#') {
            return Err("its address has a user or a fragment".to_owned());
        }
        let bare = authority.host().trim_start_matches('[').trim_end_matches(']').to_owned();
        let (tls, port) = match scheme.as_str() {
            "https" => {
                let name = ServerName::try_from(bare.clone()).map_err(|_| form())?;
                (Some((roots::client_config(ca_file)?, name)), 443)
            }
            "http" if is_loopback(&bare) => (None, 80),
            "http" => return Err("its keys would come in clear from another machine".to_owned()),
            _ => return Err(form()),
        };
        Ok(Address {
            host: bare,
            port: authority.port_u16().unwrap_or(port),
            path: path.map_or_else(|| "/".to_owned(), |path| path.as_str().to_owned()),
            authority: authority.as_str().to_owned(),
            tls,
            networks,
        })
    }

    /// What is there now.
    ///
    /// # Errors
    /// Why not.
    pub(super) async fn get(&self) -> Result<Bytes, &'static str> {
        tokio::time::timeout(TIMEOUT, self.ask()).await.unwrap_or(Err("the issuer did not answer in time"))
    }

    async fn ask(&self) -> Result<Bytes, &'static str> {
        let stream = self.connect().await?;
        match &self.tls {
            None => self.exchange(stream).await,
            Some((config, name)) => {
                let connector = TlsConnector::from(Arc::clone(config));
                let stream = connector.connect(name.clone(), stream).await;
                self.exchange(stream.map_err(|_| "the issuer's TLS or certificate is not one to trust")?).await
            }
        }
    }

    async fn connect(&self) -> Result<TcpStream, &'static str> {
        let found = tokio::net::lookup_host((self.host.as_str(), self.port)).await;
        let found = found.map_err(|_| "the issuer's host has no address")?;
        let mut failed = "the issuer's host has no address that may be asked";
        for address in found {
            if self.may_ask(address.ip()) {
                match TcpStream::connect(address).await {
                    Ok(stream) => return Ok(stream),
                    Err(_) => failed = "the issuer can't be reached",
                }
            }
        }
        Err(failed)
    }

    /// Private addresses are for those who configure them: a name that leads to one would let whoever has the name
    /// ask around inside. A loopback address is asked only where it is the configured one.
    fn may_ask(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        match address.is_loopback() {
            true => is_loopback(&self.host) || self.networks.iter().any(|network| network.contains(address)),
            false => is_public(address) || self.networks.iter().any(|network| network.contains(address)),
        }
    }

    async fn exchange<S>(&self, stream: S) -> Result<Bytes, &'static str>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        const BROKEN: &str = "the issuer's answer is not one of HTTP";
        let (mut client, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(|_| BROKEN)?;
        let mut driver = tokio::task::JoinSet::new();
        driver.spawn(connection);
        let request = Request::get(&self.path).header(HOST, &self.authority).header(ACCEPT, "application/json");
        let request = request.body(Empty::<Bytes>::new()).map_err(|_| "the issuer's address is none of HTTP")?;
        let response = client.send_request(request).await.map_err(|_| BROKEN)?;
        if response.status().is_redirection() {
            return Err("the issuer sends us elsewhere, and we don't go");
        }
        if response.status() != StatusCode::OK {
            return Err("the issuer has no keys for us");
        }
        let body = Limited::new(response.into_body(), KEY_SET_BYTES_MAX).collect().await;
        Ok(body.map_err(|_| "the issuer's answer is too long, or breaks off")?.to_bytes())
    }
}

/// Whether the host of an address is this machine, by a name or number that can't be anything else.
fn is_loopback(host: &str) -> bool {
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.to_canonical().is_loopback())
}

/// Whether an address is one of the internet's at large.
fn is_public(address: IpAddr) -> bool {
    const PRIVATE: [&str; 25] = [
        "0.0.0.0/8",
        "10.0.0.0/8",
        "100.64.0.0/10",
        "127.0.0.0/8",
        "169.254.0.0/16",
        "172.16.0.0/12",
        "192.0.0.0/24",
        "192.0.2.0/24",
        "192.88.99.0/24",
        "192.168.0.0/16",
        "198.18.0.0/15",
        "198.51.100.0/24",
        "203.0.113.0/24",
        "224.0.0.0/4",
        "240.0.0.0/4",
        // Of IPv6 only 2000::/3 is public; these parts of it are not, or hold addresses of IPv4.
        "::/3",
        "4000::/2",
        "8000::/1",
        "2001::/23",
        "2001:db8::/32",
        "2002::/16",
        "3fff::/20",
        "64:ff9b::/96",
        "fc00::/7",
        "fe80::/10",
    ];
    !PRIVATE.iter().filter_map(|network| Network::parse(network)).any(|network| network.contains(address))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(url: &str, networks: &[&str], address: &str, expected: bool) {
        let networks = networks.iter().map(|n| Network::parse(n).unwrap()).collect();
        let found = Address::new(url, None, networks).unwrap();
        assert_eq!(found.may_ask(address.parse().unwrap()), expected, "{url} {address}");
    }

    #[test]
    fn j8_private_addresses_are_not_asked_unless_configured() {
        let url = "http://localhost/keys";
        for private in [
            "10.0.0.1",
            "172.31.0.1",
            "192.168.1.1",
            "169.254.169.254",
            "100.64.0.1",
            "0.0.0.0",
            "224.0.0.1",
            "255.255.255.255",
            "::",
            "fe80::1",
            "fd00::1",
            "::ffff:10.0.0.1",
            "64:ff9b::a00:1",
            "2002:a00:1::",
            "ff02::1",
            "2001:db8::1",
        ] {
            check(url, &[], private, false);
        }
        for public in ["8.8.8.8", "172.32.0.1", "2606:4700::1111", "2a00::1"] {
            check(url, &[], public, true);
        }
        check(url, &["10.0.0.0/8"], "10.0.0.1", true);
        check(url, &["10.0.0.0/8"], "::ffff:10.0.0.1", true);
        check(url, &["10.0.0.0/8"], "192.168.0.1", false);
        check(url, &[], "127.0.0.1", true);
    }

    #[test]
    fn j8_keys_come_encrypted_or_from_this_machine() {
        let refused = |url: &str| Address::new(url, None, Vec::new()).err();
        for bad in [
            "http://id.example/keys",
            "http://10.0.0.1/",
            "http://localhost.example/",
            "ftp://localhost/",
            "localhost",
            "/keys",
            "",
            "https://",
            "http://user@localhost/",
            "http://localhost/#x",
        ] {
            assert!(refused(bad).is_some(), "{bad}");
        }
        for good in ["http://localhost:1/keys", "http://127.0.0.1/", "http://[::1]:8/keys?x=1"] {
            assert_eq!(refused(good), None, "{good}");
        }
    }
}
