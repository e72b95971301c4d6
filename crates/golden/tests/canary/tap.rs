//! A wire that is tapped: clients connect to it instead of the server, and all that the server says is kept.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

/// All that a server said.
#[derive(Clone, Default)]
pub struct Heard(Arc<Mutex<Vec<u8>>>);

impl Heard {
    pub fn bytes(&self) -> Vec<u8> {
        self.0.lock().unwrap().clone()
    }

    fn keep(&self, bytes: &[u8]) {
        self.0.lock().unwrap().extend_from_slice(bytes);
    }
}

impl Write for Heard {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.keep(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// The address to connect to instead of `server`.
pub fn tap(server: SocketAddr, heard: &Heard) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let heard = heard.clone();
    thread::spawn(move || {
        while let Ok((client, _)) = listener.accept() {
            let Ok(upstream) = TcpStream::connect(server) else { return };
            for stream in [&client, &upstream] {
                stream.set_nodelay(true).unwrap();
            }
            let (from, to) = (client.try_clone().unwrap(), upstream.try_clone().unwrap());
            thread::spawn(move || pass(from, to, |_| {}));
            let heard = heard.clone();
            thread::spawn(move || pass(upstream, client, |bytes| heard.keep(bytes)));
        }
    });
    address
}

fn pass(mut from: TcpStream, mut to: TcpStream, keep: impl Fn(&[u8])) {
    let mut bytes = [0; 16 << 10];
    while let Ok(n @ 1..) = from.read(&mut bytes) {
        // Kept before it is passed on: who has an answer knows that it was kept.
        keep(&bytes[..n]);
        if to.write_all(&bytes[..n]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Write);
}
