//! A socket from which only so much can be read, until the cap is lifted. What is read is charged until then.
//!
//! TLS itself takes 64 KiB of a handshake before it looks at it. That is far too much for a peer of whom
//! nothing is known yet.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

use crate::lobby::Meter;

/// The socket and what may still be read from it.
#[derive(Debug)]
pub(crate) struct Capped {
    stream: TcpStream,
    /// `None`: any number of bytes.
    left: Option<usize>,
    meter: Option<Meter>,
}

/// More came than may.
#[derive(Debug, thiserror::Error)]
#[error("the handshake is longer than any may be")]
pub(crate) struct TooLong;

impl Capped {
    pub(super) fn new(stream: TcpStream, bytes_max: usize, meter: Option<Meter>) -> Self {
        Capped { stream, left: Some(bytes_max), meter }
    }

    pub(super) fn lift(&mut self) {
        self.left = None;
        self.meter = None;
    }
}

impl AsyncRead for Capped {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let Some(left) = self.left else { return Pin::new(&mut self.stream).poll_read(cx, buffer) };
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(cx, buffer))?;
        let read = buffer.filled().len() - before;
        if self.meter.as_ref().is_some_and(|meter| meter.charge(read).is_err()) {
            return Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into()));
        }
        match left.checked_sub(read) {
            None => Poll::Ready(Err(io::Error::new(io::ErrorKind::InvalidData, TooLong))),
            left @ Some(_) => {
                self.left = left;
                Poll::Ready(Ok(()))
            }
        }
    }
}

impl AsyncWrite for Capped {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, bytes)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
