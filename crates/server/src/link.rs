//! One client's socket with its two buffers.
//!
//! Reading is safe to cancel. Writing is bounded in time: a peer that does not take 64 KiB within the
//! write timeout is gone. Nothing here knows what the bytes mean.

use std::io;
use std::time::Duration;

use bytes::{Buf, BytesMut};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::outbox::Outbox;

/// Bytes of an input buffer to begin with, and after a long message.
const INPUT_BYTES: usize = 4 << 10;
/// A peer has the write timeout for each piece of this size.
const PIECE_BYTES: usize = 64 << 10;
/// How long a peer has to read our last words before its socket is closed under it.
const LINGER: Duration = Duration::from_millis(500);
/// How much of a peer's input is read and thrown away meanwhile.
const LINGER_BYTES_MAX: usize = 1 << 20;

/// The peer is gone, or treated so.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Gone {
    /// It closed the connection.
    #[error("connection closed by peer")]
    Closed,
    /// It does not read.
    #[error("peer stopped reading")]
    NotReading,
    /// The socket failed.
    #[error("socket: {0}")]
    Socket(#[from] io::Error),
}

/// A socket and its buffers.
#[derive(Debug)]
pub(crate) struct Link {
    stream: TcpStream,
    write_timeout: Duration,
    /// What has come and is not used yet.
    pub(crate) input: BytesMut,
    /// What is to go.
    pub(crate) out: Outbox,
}

impl Link {
    /// Takes the socket over. Its buffers hold nothing, and take no memory yet.
    pub(crate) fn new(stream: TcpStream, write_timeout: Duration, out_bytes_max: usize) -> Self {
        Link { stream, write_timeout, input: BytesMut::new(), out: Outbox::new(out_bytes_max) }
    }

    /// Reads exactly as many bytes as `bytes` has room for, past the buffer: what comes after them
    /// stays in the socket.
    pub(crate) async fn read_exact(&mut self, bytes: &mut [u8]) -> Result<(), Gone> {
        match self.stream.read_exact(bytes).await {
            Ok(_) => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Err(Gone::Closed),
            Err(error) => Err(error.into()),
        }
    }

    /// Whether a byte can be read now. It is lost if so.
    pub(crate) fn has_more(&self) -> bool {
        matches!(self.stream.try_read(&mut [0]), Ok(1..))
    }

    /// Waits for input and appends it to [`Link::input`]. `wanted` is how many bytes more the message
    /// at hand has: room for them is made as they come, never ahead of them. Safe to cancel.
    pub(crate) async fn fill(&mut self, wanted: usize) -> Result<(), Gone> {
        if self.input.capacity() == self.input.len() {
            let step = self.input.len().max(INPUT_BYTES);
            self.input.reserve(if wanted == 0 { step } else { wanted.clamp(1, step) });
        }
        match self.stream.read_buf(&mut self.input).await? {
            0 => Err(Gone::Closed),
            _ => Ok(()),
        }
    }

    /// The first `bytes` of the input are done with: they may have held a credential, and are wiped.
    /// Gives a grown buffer back.
    pub(crate) fn consume(&mut self, bytes: usize) {
        let bytes = bytes.min(self.input.len());
        self.input.iter_mut().take(bytes).for_each(|byte| *byte = 0);
        self.input.advance(bytes);
        if bytes > PIECE_BYTES && self.input.len() <= INPUT_BYTES {
            let mut small = BytesMut::with_capacity(INPUT_BYTES);
            small.extend_from_slice(&self.input);
            self.input = small;
        }
    }

    /// Sends all that waits.
    pub(crate) async fn flush(&mut self) -> Result<(), Gone> {
        while !self.out.pending().is_empty() {
            match self.stream.try_write(self.out.pending()) {
                Ok(n) => self.out.consume(n),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.flush_piece().await?,
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    async fn flush_piece(&mut self) -> Result<(), Gone> {
        let Link { stream, out, .. } = self;
        let piece = async {
            let mut left = out.pending().len().min(PIECE_BYTES);
            while left > 0 {
                let n = stream.write(out.pending().get(..left).unwrap_or_default()).await?;
                if n == 0 {
                    return Err(Gone::Closed);
                }
                out.consume(n);
                left -= n;
            }
            Ok(())
        };
        timeout(self.write_timeout, piece).await.map_err(|_| Gone::NotReading)?
    }

    /// Sends what waits, says that nothing follows, and gives the peer a moment to read it: closing
    /// a socket with unread input would take our last words away from it.
    pub(crate) async fn close(mut self) {
        if self.flush().await.is_err() {
            return;
        }
        let farewell = async {
            self.stream.shutdown().await?;
            let mut sink = [0; 1024];
            let mut left = LINGER_BYTES_MAX;
            while left > 0 {
                match self.stream.read(&mut sink).await? {
                    0 => break,
                    n => left = left.saturating_sub(n),
                }
            }
            Ok::<(), io::Error>(())
        };
        // Whatever goes wrong now, there is nobody left to be told.
        let _ = timeout(LINGER, farewell).await;
    }
}
