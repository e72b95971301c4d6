//! One client's socket with its two buffers.
//!
//! Reading is safe to cancel. Writing is bounded in time: a peer that does not take 64 KiB within the
//! write timeout is gone. Nothing here knows what the bytes mean, but for the one message that may hold a
//! credential.

use std::io;
use std::net::IpAddr;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::{Buf, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::server::TlsStream;
use zeroize::Zeroizing;

use crate::door::Turned;
use crate::lobby::{Evicted, Meter};
use crate::outbox::Outbox;
use crate::refusal::Refusal;
use crate::tls::{Begun, Capped, Failed, Security, Tls};

/// What TLS holds of a connection while it makes the handshake, besides what the peer has sent.
const HANDSHAKE_BYTES: usize = 12 << 10;
/// What it holds afterwards, at most: a record that has not come in full.
const RECORD_BYTES: usize = 16 << 10;
/// Bytes of an input buffer to begin with, and after a long message.
const INPUT_BYTES: usize = 4 << 10;
/// What of a credential is waited for first. Most are no longer.
const CREDENTIAL_BYTES: usize = 512;
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
    Socket(io::Error),
}

impl From<io::Error> for Gone {
    fn from(error: io::Error) -> Self {
        // TLS tells an end without a farewell from one with it. Every message here has a length of its own.
        if error.kind() == io::ErrorKind::UnexpectedEof { Gone::Closed } else { Gone::Socket(error) }
    }
}

/// The way to the peer.
#[derive(Debug)]
enum Stream {
    Plain(TcpStream),
    Tls(Box<TlsStream<Capped>>),
    /// A handshake has it, or had it when it failed. Nothing can be said any more, in clear least of all.
    Lost,
}

/// What a peer gave for a proof: the body of one message of type `p`. Wiped when it is dropped.
pub(crate) struct Credential(Zeroizing<Vec<u8>>);

impl Credential {
    /// The body of the message.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }
}

impl std::fmt::Debug for Credential {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Credential(..)")
    }
}

/// A socket and its buffers.
#[derive(Debug)]
pub(crate) struct Link {
    stream: Stream,
    security: Security,
    is_loopback: bool,
    local: Option<IpAddr>,
    write_timeout: Duration,
    /// What memory is charged to before the login.
    meter: Option<Meter>,
    /// What has come and is not used yet.
    pub(crate) input: BytesMut,
    /// What is to go.
    pub(crate) out: Outbox,
}

impl Link {
    /// Takes the socket over. Its buffers hold nothing, and take no memory yet.
    pub(crate) fn new(stream: TcpStream, write_timeout: Duration, out_bytes_max: usize, meter: Option<Meter>) -> Self {
        let is_loopback = stream.peer_addr().is_ok_and(|peer| peer.ip().to_canonical().is_loopback());
        let local = stream.local_addr().ok().map(|address| address.ip());
        Link {
            stream: Stream::Plain(stream),
            security: Security::default(),
            is_loopback,
            local,
            write_timeout,
            meter,
            input: BytesMut::new(),
            out: Outbox::new(out_bytes_max),
        }
    }

    /// `bytes` of memory are about to be taken for a peer that has not logged in.
    ///
    /// # Errors
    /// The connection had to go.
    pub(crate) fn charge(&self, bytes: usize) -> Result<(), Evicted> {
        self.meter.as_ref().map_or(Ok(()), |meter| meter.charge(bytes))
    }

    /// The peer has logged in.
    pub(crate) fn is_admitted(&mut self) {
        self.meter = None;
    }

    /// What is known of the way to the peer.
    pub(crate) fn security(&self) -> &Security {
        &self.security
    }

    /// Our address, that the peer connected to.
    pub(crate) fn local_address(&self) -> Option<IpAddr> {
        self.local
    }

    /// Whether a credential may travel on it: in TLS, or without leaving this machine.
    pub(crate) fn is_private(&self) -> bool {
        self.security.tls || self.is_loopback
    }

    /// Whether the first byte of the peer's is that of a TLS handshake. Waits for it, and leaves it there.
    pub(crate) async fn starts_with_tls(&self) -> Result<bool, Gone> {
        const HANDSHAKE: u8 = 0x16;
        match &self.stream {
            Stream::Plain(stream) => {
                let mut first = [0];
                let n = stream.peek(&mut first).await?;
                if n == 0 { Err(Gone::Closed) } else { Ok(first == [HANDSHAKE]) }
            }
            Stream::Tls(_) | Stream::Lost => Ok(false),
        }
    }

    /// Makes the handshake. Whatever was read in clear is gone before; if the future is dropped, so is the
    /// socket.
    pub(crate) async fn encrypt(&mut self, tls: &Tls, begun: Begun) -> Result<(), Failed> {
        self.input.clear();
        self.charge(HANDSHAKE_BYTES).map_err(|Evicted| Failed::Lost)?;
        let Stream::Plain(stream) = std::mem::replace(&mut self.stream, Stream::Lost) else {
            return Err(Failed::Lost);
        };
        let (stream, security) = tls.accept(stream, begun, self.meter.clone()).await?;
        self.charge(RECORD_BYTES).map_err(|Evicted| Failed::Lost)?;
        self.stream = Stream::Tls(Box::new(stream));
        self.security = security;
        Ok(())
    }

    /// Reads exactly as many bytes as `bytes` has room for, past the buffer: what comes after them
    /// stays in the socket.
    pub(crate) async fn read_exact(&mut self, bytes: &mut [u8]) -> Result<(), Gone> {
        self.stream.read_exact(bytes).await?;
        Ok(())
    }

    /// Reads one message of type `p` whose body has at most `bytes_max`, past the buffer. Type and length
    /// are judged before anything of the body is waited for; memory is taken as it comes.
    ///
    /// # Errors
    /// It is another message, or too long, or there is none.
    pub(crate) async fn read_credential(&mut self, bytes_max: usize) -> Result<Credential, Turned> {
        if !self.is_private() {
            return Err(Refusal::Unencrypted.into());
        }
        let mut kind = [0];
        self.read_exact(&mut kind).await?;
        if kind != *b"p" {
            return Err(Refusal::NotACredential.into());
        }
        let mut length = [0; 4];
        self.read_exact(&mut length).await?;
        let length = usize::try_from(i32::from_be_bytes(length)).ok().and_then(|length| length.checked_sub(4));
        let length = length.filter(|bytes| *bytes <= bytes_max).ok_or(Refusal::CredentialLength)?;
        let mut body = Zeroizing::new(Vec::new());
        while body.len() < length {
            // A vector that grows by itself would leave copies behind.
            let room = length.min((body.len() * 2).max(CREDENTIAL_BYTES));
            self.charge(room - body.len())?;
            let mut larger = Zeroizing::new(Vec::with_capacity(room));
            larger.extend_from_slice(&body);
            larger.resize(room, 0);
            let start = body.len();
            self.read_exact(larger.get_mut(start..).unwrap_or_default()).await?;
            body = larger;
        }
        Ok(Credential(body))
    }

    /// Whether a byte can be read now. It is lost if so.
    pub(crate) fn has_more(&mut self) -> bool {
        match &mut self.stream {
            Stream::Plain(stream) => matches!(stream.try_read(&mut [0]), Ok(1..)),
            stream @ Stream::Tls(_) => {
                let mut byte = [0];
                let read = pin!(stream.read(&mut byte));
                matches!(read.poll(&mut Context::from_waker(Waker::noop())), Poll::Ready(Ok(1..)))
            }
            Stream::Lost => false,
        }
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
            match &self.stream {
                Stream::Plain(stream) => match stream.try_write(self.out.pending()) {
                    Ok(n) => self.out.consume(n),
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.flush_piece().await?,
                    Err(error) => return Err(error.into()),
                },
                Stream::Tls(_) => self.flush_piece().await?,
                Stream::Lost => return Err(Gone::Closed),
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
            // What TLS has taken is not sent yet.
            Ok(stream.flush().await?)
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
            // In TLS this is close_notify, and then the same.
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

impl AsyncRead for Stream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Stream::Plain(stream) => Pin::new(stream).poll_read(cx, buffer),
            Stream::Tls(stream) => Pin::new(stream).poll_read(cx, buffer),
            Stream::Lost => Poll::Ready(Ok(())),
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Stream::Plain(stream) => Pin::new(stream).poll_write(cx, bytes),
            Stream::Tls(stream) => Pin::new(stream).poll_write(cx, bytes),
            Stream::Lost => Poll::Ready(Ok(0)),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Stream::Plain(stream) => Pin::new(stream).poll_flush(cx),
            Stream::Tls(stream) => Pin::new(stream).poll_flush(cx),
            Stream::Lost => Poll::Ready(Ok(())),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Stream::Plain(stream) => Pin::new(stream).poll_shutdown(cx),
            Stream::Tls(stream) => Pin::new(stream).poll_shutdown(cx),
            Stream::Lost => Poll::Ready(Ok(())),
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    /// What comes of `pieces` of a client's, where at most 5 bytes are a credential.
    async fn credential(pieces: &[&[u8]]) -> Result<Vec<u8>, Turned> {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (stream, _) = listener.accept().await.unwrap();
        let mut link = Link::new(stream, Duration::from_secs(10), 1 << 10, None);
        let send = async {
            for piece in pieces {
                client.write_all(piece).await.unwrap();
                tokio::task::yield_now().await;
            }
            client.shutdown().await.unwrap();
        };
        let (read, ()) = tokio::join!(link.read_credential(5), send);
        assert!(link.input.is_empty());
        Ok(read?.bytes().to_vec())
    }

    #[tokio::test]
    async fn w_02_a_credential_is_one_short_message_of_its_type() {
        let refused = |turned: Result<Vec<u8>, Turned>| match turned {
            Err(Turned::Refused(refusal)) => Some(refusal),
            Ok(_) | Err(Turned::Away | Turned::Evicted | Turned::Stuffed | Turned::Handshake(_) | Turned::Gone(_)) => {
                None
            }
        };
        assert_eq!(credential(&[b"p\0\0\0\x09hello"]).await.unwrap(), b"hello");
        assert_eq!(credential(&[b"p", b"\0\0", b"\0\x09he", b"llo"]).await.unwrap(), b"hello");
        assert_eq!(credential(&[b"p\0\0\0\x04"]).await.unwrap(), b"");
        // What follows stays where it is.
        assert_eq!(credential(&[b"p\0\0\0\x05xQ\0\0\0\x05\0"]).await.unwrap(), b"x");
        for long in [&b"p\0\0\0\x0a"[..], b"p\x7f\xff\xff\xff", b"p\xff\xff\xff\xff", b"p\0\0\0\x03", b"p\0\0\0\0"] {
            assert_eq!(refused(credential(&[long]).await), Some(Refusal::CredentialLength), "{}", long.escape_ascii());
        }
        for other in (0..=u8::MAX).filter(|byte| *byte != b'p') {
            assert_eq!(refused(credential(&[&[other]]).await), Some(Refusal::NotACredential), "{other}");
        }
        for cut in [&b""[..], b"p", b"p\0\0\0", b"p\0\0\0\x09hell"] {
            assert!(matches!(credential(&[cut]).await, Err(Turned::Gone(Gone::Closed))), "{}", cut.escape_ascii());
        }
    }

    #[tokio::test]
    async fn a_credential_is_not_shown() {
        let credential = Credential(Zeroizing::new(b"CANARY-7Q".to_vec()));
        assert_eq!(format!("{credential:?}"), "Credential(..)");
    }

    /// W-07.
    #[tokio::test]
    async fn w_07_a_credential_is_not_read_in_clear_from_elsewhere() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (stream, _) = listener.accept().await.unwrap();
        let mut link = Link::new(stream, Duration::from_secs(10), 1 << 10, None);
        link.is_loopback = false;
        client.write_all(b"p\0\0\0\x09hello").await.unwrap();
        let refused = link.read_credential(5).await.unwrap_err();
        assert!(matches!(refused, Turned::Refused(Refusal::Unencrypted)));
        link.security.tls = true;
        assert_eq!(link.read_credential(5).await.unwrap().bytes(), b"hello");
    }
}
