//! A client that speaks TLS.

use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;

use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use super::client::{Client, ssl_request};
use super::pki::{NAME, Pki};

pub type Encrypted = Client<StreamOwned<ClientConnection, TcpStream>>;

/// Trusts the authority, brings `client`'s certificate if one is named, and offers these protocols.
pub fn config(pki: &Pki, client: Option<&str>, alpn: &[&str]) -> ClientConfig {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(pki.path("ca.crt")).unwrap()).unwrap();
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots);
    let mut config = match client {
        None => config.with_no_client_auth(),
        Some(name) => {
            let chain = vec![CertificateDer::from_pem_file(pki.path(&format!("{name}.crt"))).unwrap()];
            let key = PrivateKeyDer::from_pem_file(pki.path(&format!("{name}.key"))).unwrap();
            config.with_client_auth_cert(chain, key).unwrap()
        }
    };
    config.alpn_protocols = alpn.iter().map(|name| name.as_bytes().to_vec()).collect();
    config
}

/// Makes the handshake on a connection that is ready for it.
pub fn handshake(mut stream: TcpStream, config: ClientConfig) -> std::io::Result<Encrypted> {
    let name = ServerName::try_from(NAME).unwrap();
    let mut connection = ClientConnection::new(Arc::new(config), name).unwrap();
    while connection.is_handshaking() {
        connection.complete_io(&mut stream)?;
    }
    Ok(Client { stream: StreamOwned::new(connection, stream) })
}

/// Asks for TLS and makes the handshake.
pub fn on_request(address: SocketAddr, config: ClientConfig) -> std::io::Result<Encrypted> {
    let mut client = Client::connect(address);
    client.send(&ssl_request());
    assert_eq!(client.byte(), Some(b'S'));
    handshake(client.stream, config)
}

/// Begins with the handshake.
pub fn directly(address: SocketAddr, config: ClientConfig) -> std::io::Result<Encrypted> {
    handshake(Client::connect(address).stream, config)
}
