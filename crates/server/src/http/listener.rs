//! Sockets that a peer cannot keep: few at once, each for a short time and a few bytes.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::serve::Listener;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::sleep;

use crate::server::Phase;

/// Connections at once. One more waits until another's life is over.
const CONNECTIONS_MAX: usize = 32;
/// How long a connection may live: its request and its answer.
const LIFE_MAX: Duration = Duration::from_secs(10);
/// About how many bytes a peer may send.
const READ_BYTES_MAX: usize = 16 << 10;
/// How long to wait when nothing can be accepted.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// A listener of bounded sockets.
pub(super) struct Bounded {
    listener: TcpListener,
    address: SocketAddr,
    places: Arc<Semaphore>,
    phase: watch::Receiver<Phase>,
}

impl Bounded {
    pub(super) fn new(listener: TcpListener, address: SocketAddr, phase: watch::Receiver<Phase>) -> Self {
        Bounded { listener, address, places: Arc::new(Semaphore::new(CONNECTIONS_MAX)), phase }
    }
}

impl Listener for Bounded {
    type Io = Socket;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Socket, SocketAddr) {
        loop {
            let Ok(place) = Arc::clone(&self.places).acquire_owned().await else {
                // Nobody closes it.
                std::future::pending().await
            };
            match self.listener.accept().await {
                Ok((stream, peer)) => {
                    let phase = self.phase.clone();
                    let over = async move {
                        tokio::select! {
                            () = sleep(LIFE_MAX) => {}
                            () = ended(phase) => {}
                        }
                    };
                    let socket = Socket { stream, over: Some(Box::pin(over)), left: READ_BYTES_MAX, _place: place };
                    return (socket, peer);
                }
                Err(error) => {
                    tracing::debug!(%error, "http connection not accepted");
                    sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.address)
    }
}

/// Resolves when the server has ended.
pub(super) async fn ended(mut phase: watch::Receiver<Phase>) {
    // Without a sender there is no server any more.
    let _ = phase.wait_for(|now| *now >= Phase::Ending).await;
}

/// A socket that fails when its life is over, or its peer has sent too much.
pub(super) struct Socket {
    stream: TcpStream,
    /// `None`: it is.
    over: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
    left: usize,
    _place: OwnedSemaphorePermit,
}

impl Socket {
    fn check(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        if self.over.as_mut().is_some_and(|over| over.as_mut().poll(cx).is_ready()) {
            self.over = None;
        }
        if self.over.is_none() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(()) }
    }
}

impl AsyncRead for Socket {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        self.check(cx)?;
        if self.left == 0 {
            return Poll::Ready(Err(io::ErrorKind::FileTooLarge.into()));
        }
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(cx, buffer);
        self.left = self.left.saturating_sub(buffer.filled().len().saturating_sub(before));
        read
    }
}

impl AsyncWrite for Socket {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.check(cx)?;
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.check(cx)?;
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
