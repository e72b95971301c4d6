//! tokio-postgres logs in, and says `ok` and its first argument.
//!
//!     DATABASE_URL='postgresql://admin@localhost:7432/default' cargo run --example tokio-postgres
//!
//! `DATABASE_URL` says where and as whom, with `sslmode` (it prefers encryption) and `channel_binding`. `PGSSLROOTCERT`
//! names the authority of the server's certificate, `PGSSLCERT` and `PGSSLKEY` a certificate of one's own.

use std::error::Error;
use std::path::Path;
use std::sync::Arc;

use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};
use tokio_postgres::{Client, Config, SimpleQueryMessage};
use tokio_postgres_rustls::MakeRustlsConnect;

/// What the connection is encrypted with.
#[derive(Clone, Copy, Debug)]
pub struct Files<'a> {
    /// The authority of the server's certificate.
    pub ca: &'a Path,
    /// A certificate of one's own, and its key.
    pub certificate: Option<(&'a Path, &'a Path)>,
}

fn tls(files: Option<Files<'_>>) -> Result<MakeRustlsConnect, Box<dyn Error>> {
    let mut roots = RootCertStore::empty();
    if let Some(files) = files {
        roots.add(CertificateDer::from_pem_file(files.ca)?)?;
    }
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots);
    let config = match files.and_then(|files| files.certificate) {
        None => config.with_no_client_auth(),
        Some((certificate, key)) => config.with_client_auth_cert(
            vec![CertificateDer::from_pem_file(certificate)?],
            PrivateKeyDer::from_pem_file(key)?,
        )?,
    };
    Ok(MakeRustlsConnect::new(config))
}

/// Logs in and does what the other examples do.
pub async fn log_in(config: &Config, files: Option<Files<'_>>) -> Result<(), Box<dyn Error>> {
    let (mut client, connection) = config.connect(tls(files)?).await?;
    let driver = tokio::spawn(connection);

    client.batch_execute("CREATE ROLE IF NOT EXISTS example_tokio").await?;
    if !roles(&client).await?.iter().any(|role| role == "example_tokio") {
        return Err("the new role is not there".into());
    }

    let transaction = client.transaction().await?;
    transaction.batch_execute("CREATE ROLE example_tokio_undone").await?;
    transaction.rollback().await?;
    if roles(&client).await?.iter().any(|role| role == "example_tokio_undone") {
        return Err("what was rolled back is there".into());
    }

    drop(client);
    driver.await??;
    Ok(())
}

/// By a prepared statement, and by one that is not: both have to give the same.
async fn roles(client: &Client) -> Result<Vec<String>, Box<dyn Error>> {
    let rows = client.query("SHOW ROLES", &[]).await?;
    let prepared: Vec<String> = rows.iter().map(|row| row.try_get("name")).collect::<Result<_, _>>()?;
    let mut simple = Vec::new();
    for message in client.simple_query("SHOW ROLES").await? {
        if let SimpleQueryMessage::Row(row) = message {
            simple.extend(row.try_get("name")?.map(str::to_owned));
        }
    }
    if simple != prepared {
        return Err("two ways to ask, and two answers".into());
    }
    Ok(prepared)
}

/// The program. A test takes the rest of this file only.
#[allow(dead_code, clippy::disallowed_methods, clippy::print_stdout, reason = "an example is a program of its own")]
#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let path = |name| std::env::var_os(name).map(std::path::PathBuf::from);
    let (ca, certificate, key) = (path("PGSSLROOTCERT"), path("PGSSLCERT"), path("PGSSLKEY"));
    let files = ca.as_deref().map(|ca| Files { ca, certificate: certificate.as_deref().zip(key.as_deref()) });
    log_in(&std::env::var("DATABASE_URL")?.parse()?, files).await?;
    println!("ok {}", std::env::args().nth(1).unwrap_or_default());
    Ok(())
}
