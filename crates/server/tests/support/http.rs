//! A client of HTTP that sends any bytes one likes, and reads metrics.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

/// An answer.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub head: String,
    pub body: String,
}

/// What comes back for `bytes`; `None`: nothing that is HTTP.
pub fn send(address: SocketAddr, bytes: &[u8]) -> Option<Answer> {
    let mut stream = TcpStream::connect(address).unwrap();
    // The server may close before it has read everything.
    let _ = stream.write_all(bytes);
    read(&mut stream)
}

/// The same, and says that nothing follows.
pub fn send_all(address: SocketAddr, bytes: &[u8]) -> Option<Answer> {
    let mut stream = TcpStream::connect(address).unwrap();
    let _ = stream.write_all(bytes);
    let _ = stream.shutdown(Shutdown::Write);
    read(&mut stream)
}

/// Reads to the end.
pub fn read(stream: &mut TcpStream) -> Option<Answer> {
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    let mut all = Vec::new();
    let mut piece = [0; 4096];
    while let Ok(n @ 1..) = stream.read(&mut piece) {
        all.extend_from_slice(&piece[..n]);
    }
    let text = String::from_utf8_lossy(&all).into_owned();
    let (head, body) = text.split_once("\r\n\r\n")?;
    let status = head.strip_prefix("HTTP/1.1 ").or(head.strip_prefix("HTTP/1.0 "))?.get(..3)?.parse().ok()?;
    Some(Answer { status, head: head.to_ascii_lowercase(), body: body.to_owned() })
}

/// GET without more.
pub fn get(address: SocketAddr, path: &str) -> Answer {
    send(address, format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes()).unwrap()
}

/// The value of a series as it is written in `/metrics`, with its labels.
pub fn value(text: &str, series: &str) -> Option<f64> {
    text.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' ')?.parse().ok())
}

/// Asks for `/metrics` until `series` has a value that will do.
#[track_caller]
pub fn until(address: SocketAddr, series: &str, will_do: impl Fn(f64) -> bool) -> String {
    let deadline = Instant::now() + Duration::from_secs(30);
    loop {
        let text = get(address, "/metrics").body;
        if value(&text, series).is_some_and(&will_do) {
            return text;
        }
        assert!(Instant::now() < deadline, "{series} does not become what it should in\n{text}");
        std::thread::yield_now();
    }
}
