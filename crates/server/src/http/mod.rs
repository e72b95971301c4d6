//! Health checks and metrics over HTTP/1.1, on an address of their own.
//!
//! Whoever asks gets little: three fixed paths, no name of an org, a user or an object, no location of the
//! store and no text of an error. Beyond loopback, a token has to be brought. A connection has one request,
//! a short life and a small budget of bytes, and there are few of them at once. The only module that
//! knows axum.
//!
//! Deliberately absent: TLS, and any request that changes something.

mod listener;
mod readiness;
mod route;
mod token;

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use tokio::sync::watch;

use crate::server::{Phase, Shared, listen_on};
use listener::Bounded;
use token::Token;

/// Where health checks and metrics are answered, and to whom.
#[derive(Clone, Debug)]
pub struct HttpConfig {
    /// The address. Port 0: any that is free.
    pub listen: SocketAddr,
    /// The file with the token that has to be brought. Without it the address has to be on loopback.
    pub token_file: Option<PathBuf>,
}

/// Why they are not.
#[derive(Debug, thiserror::Error)]
pub enum HttpError {
    /// The address can't be had.
    #[error("cannot listen on {listen} for http: {error}")]
    Listen {
        /// The address.
        listen: SocketAddr,
        /// Why not.
        error: io::Error,
    },
    /// Everybody could read the metrics.
    #[error("http on {listen} would show this server's metrics to anyone who reaches this address: it needs a token")]
    NoToken {
        /// Where it was to listen.
        listen: SocketAddr,
    },
    /// The token can't be read, or is none.
    #[error("http token file \"{}\" {why}", path.display())]
    Token {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
}

/// An address that has been taken.
#[derive(Debug)]
pub(crate) struct Http {
    listener: std::net::TcpListener,
    address: SocketAddr,
    token: Option<Token>,
}

impl Http {
    /// Reads the token, and takes the address.
    ///
    /// # Errors
    /// [`HttpError`] says why not.
    pub(crate) fn bind(config: &HttpConfig) -> Result<Http, HttpError> {
        let listen = config.listen;
        if config.token_file.is_none() && !listen.ip().to_canonical().is_loopback() {
            return Err(HttpError::NoToken { listen });
        }
        let token = config.token_file.as_deref().map(Token::read).transpose()?;
        let (listener, address) = listen_on(listen).map_err(|error| HttpError::Listen { listen, error })?;
        Ok(Http { listener, address, token })
    }

    /// Where it listens.
    pub(crate) fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// Answers until the server ends.
    pub(crate) async fn run(self, shared: Arc<Shared>, phase: watch::Receiver<Phase>) {
        let Http { listener, address, token } = self;
        let listener = match tokio::net::TcpListener::from_std(listener) {
            Ok(listener) => Bounded::new(listener, address, phase.clone()),
            Err(error) => {
                tracing::error!(%address, %error, "no health checks and no metrics");
                return;
            }
        };
        tracing::info!(%address, token = token.is_some(), "health checks and metrics");
        let router = route::router(token, shared, phase.clone());
        let served = axum::serve(listener, router).with_graceful_shutdown(listener::ended(phase)).await;
        if let Err(error) = served {
            tracing::error!(%address, %error, "health checks and metrics have ended");
        }
    }
}
