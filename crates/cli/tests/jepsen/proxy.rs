//! What stands between a coordinator and PostgreSQL, and can cut the line or let it go quiet.

use std::net::{Ipv4Addr, SocketAddr, TcpListener as BoundListener};
use std::thread::JoinHandle;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// Bytes that are under way in one direction.
const BUFFER_BYTES: usize = 16 << 10;
/// Below the range that systems hand out by themselves, so that a port is still free when it is wanted again.
const PORTS: std::ops::Range<u16> = 20_000..32_000;

/// What becomes of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    Pass,
    /// Every connection is reset, new ones too.
    Cut,
    /// Nothing arrives, on either side, until the line passes again. Then all of it does.
    Hold,
    /// The same for what PostgreSQL answers: what it is asked does arrive.
    HoldAnswers,
}

/// The direction of bytes.
#[derive(Clone, Copy)]
enum Way {
    Question,
    Answer,
}

impl Mode {
    fn lets(self, way: Way) -> bool {
        match (self, way) {
            (Mode::Pass, _) | (Mode::HoldAnswers, Way::Question) => true,
            (Mode::Cut | Mode::Hold, _) | (Mode::HoldAnswers, Way::Answer) => false,
        }
    }
}

/// A line to PostgreSQL. Dropping the last one ends their thread.
pub struct Proxy {
    pub port: u16,
    mode: watch::Sender<Mode>,
}

/// `count` lines to the server at `port`, all on one thread.
pub fn proxies(port: u16, count: usize) -> (Vec<Proxy>, JoinHandle<()>) {
    let upstream = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let mut proxies = Vec::new();
    let mut listeners = Vec::new();
    for _ in 0..count {
        let listener = bind_any();
        listener.set_nonblocking(true).unwrap();
        let port = listener.local_addr().unwrap().port();
        let (mode, watched) = watch::channel(Mode::Pass);
        proxies.push(Proxy { port, mode });
        listeners.push((listener, watched));
    }
    let thread = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let tasks: Vec<_> = listeners
                .into_iter()
                .map(|(listener, mode)| tokio::spawn(serve(TcpListener::from_std(listener).unwrap(), upstream, mode)))
                .collect();
            for task in tasks {
                task.await.unwrap();
            }
        });
    });
    (proxies, thread)
}

/// A listener on a port that stays ours to use again.
fn bind_any() -> BoundListener {
    let first = std::process::id() % u32::from(PORTS.end - PORTS.start);
    let first = PORTS.start + u16::try_from(first).unwrap();
    let mut ports = (first..PORTS.end).chain(PORTS.start..first);
    ports.find_map(|port| BoundListener::bind((Ipv4Addr::LOCALHOST, port)).ok()).expect("a port is free")
}

/// Ports that nobody listens on.
pub fn free_ports(count: usize) -> Vec<u16> {
    let bound: Vec<BoundListener> = (0..count).map(|_| bind_any()).collect();
    bound.iter().map(|listener| listener.local_addr().unwrap().port()).collect()
}

impl Proxy {
    pub fn set(&self, mode: Mode) {
        self.mode.send_replace(mode);
    }

    pub fn mode(&self) -> Mode {
        *self.mode.borrow()
    }
}

/// Takes connections until its [`Proxy`] is gone.
async fn serve(listener: TcpListener, upstream: SocketAddr, mode: watch::Receiver<Mode>) {
    let mut gone = mode.clone();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = async { while gone.changed().await.is_ok() {} } => return,
        };
        if let Ok((client, _)) = accepted {
            tokio::spawn(relay(client, upstream, mode.clone()));
        }
    }
}

async fn relay(mut client: TcpStream, upstream: SocketAddr, mut mode: watch::Receiver<Mode>) {
    let cut = *mode.borrow() == Mode::Cut;
    let server = if cut { None } else { TcpStream::connect(upstream).await.ok() };
    let Some(mut server) = server else {
        let _ = client.set_zero_linger();
        return;
    };
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let was_cut = {
        let (client_reads, client_writes) = client.split();
        let (server_reads, server_writes) = server.split();
        let (asks, answers) = (mode.clone(), mode.clone());
        let both = async {
            tokio::join!(
                pump(client_reads, server_writes, Way::Question, asks),
                pump(server_reads, client_writes, Way::Answer, answers)
            )
        };
        tokio::select! {
            _ = both => false,
            // An error: the run is over.
            _ = mode.wait_for(|mode| *mode == Mode::Cut) => true,
        }
    };
    if was_cut {
        // A reset instead of an end.
        let _ = (client.set_zero_linger(), server.set_zero_linger());
    }
}

/// Carries bytes one way, and the end of them.
async fn pump(mut from: ReadHalf<'_>, mut to: WriteHalf<'_>, way: Way, mut mode: watch::Receiver<Mode>) {
    let mut buffer = vec![0; BUFFER_BYTES];
    loop {
        let read = from.read(&mut buffer).await.unwrap_or(0);
        if mode.wait_for(|mode| mode.lets(way)).await.is_err() {
            return;
        }
        if read == 0 {
            let _ = to.shutdown().await;
            return;
        }
        if to.write_all(&buffer[..read]).await.is_err() {
            return;
        }
    }
}
