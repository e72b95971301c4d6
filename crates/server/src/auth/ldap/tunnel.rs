//! The way to a directory: encrypted, to a server that has shown its certificate, and with nothing on it from there
//! that has not been judged.

use std::sync::Arc;

use hyper::Uri;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncWriteExt as _, BufReader};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::frame::{Allowance, STARTTLS, begins_tls};

/// Where a directory is, and how it is spoken to.
pub(super) struct Address {
    host: String,
    port: u16,
    name: ServerName<'static>,
    tls: Arc<ClientConfig>,
    /// TLS is asked for first, and not begun with.
    asks: bool,
}

impl Address {
    /// Reads `ldaps://host[:port]`, or `ldap://host[:port]`, where TLS is asked for.
    ///
    /// # Errors
    /// It is none.
    pub(super) fn new(url: &str, tls: Arc<ClientConfig>) -> Result<Self, String> {
        let form = || "its address is not of the form ldaps://host[:port] or ldap://host[:port]".to_owned();
        let uri = Uri::try_from(url).map_err(|_| form())?;
        let (asks, port) = match uri.scheme_str() {
            Some("ldaps") => (false, 636),
            Some("ldap") => (true, 389),
            _ => return Err(form()),
        };
        let host = uri.host().unwrap_or_default().trim_start_matches('[').trim_end_matches(']').to_owned();
        let name = ServerName::try_from(host.clone()).map_err(|_| form())?;
        Ok(Address { host, port: uri.port_u16().unwrap_or(port), name, tls, asks })
    }

    /// Connects. Before there is TLS, nothing is said but that it is wanted. `None`: there is no such server there.
    pub(super) async fn connect(&self) -> Option<TlsStream<TcpStream>> {
        let mut stream = TcpStream::connect((self.host.as_str(), self.port)).await.ok()?;
        if self.asks {
            stream.write_all(STARTTLS).await.ok()?;
            // What anybody has put behind the answer is no TLS, and ends the handshake.
            let answer = Allowance::default().next(&mut stream).await?;
            if !begins_tls(&answer) {
                return None;
            }
        }
        TlsConnector::from(Arc::clone(&self.tls)).connect(self.name.clone(), stream).await.ok()
    }
}

/// Passes on what is said at `near` and the directory's answers, to the end of either, or to an answer that is not to
/// be passed on.
pub(super) async fn carry(far: TlsStream<TcpStream>, near: UnixStream) {
    let (from_far, mut to_far) = tokio::io::split(far);
    let (mut from_near, mut to_near) = near.into_split();
    let asking = async {
        drop(tokio::io::copy(&mut from_near, &mut to_far).await);
        drop(to_far.shutdown().await);
    };
    let answering = async {
        let (mut from_far, mut allowed) = (BufReader::new(from_far), Allowance::default());
        while let Some(answer) = allowed.next(&mut from_far).await {
            if to_near.write_all(&answer).await.is_err() {
                return;
            }
        }
    };
    tokio::select! {
        () = asking => {}
        () = answering => {}
    }
}
