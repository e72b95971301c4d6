//! What stands between a store and its server, and does not always let everything through.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// Passes connections on to a server on loopback.
pub struct Proxy {
    port: u16,
    state: Arc<State>,
}

#[derive(Default)]
struct State {
    /// What the server says is lost.
    deaf: AtomicBool,
    /// New connections are closed at once.
    down: AtomicBool,
    /// What the server is asked does not arrive for now.
    held: AtomicBool,
    /// What is held.
    holds: Mutex<Vec<Vec<u8>>>,
    /// Both ends of each connection.
    open: Mutex<Vec<[TcpStream; 2]>>,
}

impl Proxy {
    pub fn start(server_port: u16) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let state = Arc::new(State::default());
        let shared = Arc::clone(&state);
        thread::spawn(move || {
            for client in listener.incoming() {
                let client = client.unwrap();
                if !shared.down.load(Ordering::SeqCst) {
                    shared.pass_on(&client, server_port);
                }
            }
        });
        Proxy { port, state }
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// From now on nothing that the server says arrives.
    pub fn lose_replies(&self, lose: bool) {
        self.state.deaf.store(lose, Ordering::SeqCst);
    }

    /// What the server is asked arrives later: once this is taken back, whatever has become of its client.
    pub fn hold_questions(&self, hold: bool) {
        self.state.holds.lock().unwrap().clear();
        self.state.held.store(hold, Ordering::SeqCst);
    }

    /// Whether something that the server was asked is held and has `text` in it.
    pub fn holds(&self, text: &str) -> bool {
        let holds = self.state.holds.lock().unwrap();
        holds.iter().any(|held| held.windows(text.len()).any(|window| window == text.as_bytes()))
    }

    /// Lets no new connections through until told otherwise.
    pub fn refuse_new(&self, refuse: bool) {
        self.state.down.store(refuse, Ordering::SeqCst);
    }

    /// Closes every connection on the client's side only: the server goes on with what it was asked.
    pub fn cut_clients(&self) {
        for [client, _] in self.state.open.lock().unwrap().iter() {
            let _ = client.shutdown(Shutdown::Both);
        }
    }

    /// Closes every connection, and lets none through until told otherwise.
    pub fn set_down(&self, down: bool) {
        self.state.down.store(down, Ordering::SeqCst);
        if down {
            for ends in self.state.open.lock().unwrap().drain(..) {
                ends.iter().for_each(|end| drop(end.shutdown(Shutdown::Both)));
            }
        }
    }
}

impl State {
    fn pass_on(self: &Arc<Self>, client: &TcpStream, server_port: u16) {
        let server = TcpStream::connect((Ipv4Addr::LOCALHOST, server_port)).unwrap();
        client.set_nodelay(true).unwrap();
        server.set_nodelay(true).unwrap();
        let clones = || [client.try_clone().unwrap(), server.try_clone().unwrap()];
        self.open.lock().unwrap().push(clones());
        let [mut from, mut to] = clones();
        let state = Arc::clone(self);
        thread::spawn(move || {
            let mut buffer = [0; 16 << 10];
            // The server is not told that the client is gone: a network would not do that either.
            while let Ok(length @ 1..) = from.read(&mut buffer) {
                if state.held.load(Ordering::SeqCst) {
                    state.holds.lock().unwrap().push(buffer[..length].to_vec());
                }
                while state.held.load(Ordering::SeqCst) {
                    thread::sleep(Duration::from_millis(1));
                }
                if to.write_all(&buffer[..length]).is_err() {
                    return;
                }
            }
        });
        let [mut to, mut from] = clones();
        let state = Arc::clone(self);
        thread::spawn(move || {
            let mut buffer = [0; 16 << 10];
            while let Ok(length @ 1..) = from.read(&mut buffer) {
                if !state.deaf.load(Ordering::SeqCst) && to.write_all(&buffer[..length]).is_err() {
                    return;
                }
            }
            let _ = to.shutdown(Shutdown::Both);
        });
    }
}
