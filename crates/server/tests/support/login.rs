//! The client's side of a login: SCRAM by its formulas, the password itself, md5.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::{Digest as _, Sha256};

use super::client::{Client, Said, lines, message, startup};

/// What a login came to.
#[derive(Debug)]
pub struct Outcome {
    /// The messages in short, up to ReadyForQuery or the end.
    pub line: String,
    /// All of them.
    pub said: Vec<Said>,
}

impl Outcome {
    pub fn is_in(&self) -> bool {
        self.line.ends_with("Z:I")
    }

    /// SQLSTATE and text of the error at the end.
    pub fn error(&self) -> String {
        let last = self.said.last().filter(|said| said.kind == b'E').unwrap_or_else(|| panic!("{}", self.line));
        format!("{} {}", last.field(b'C').unwrap(), last.field(b'M').unwrap())
    }
}

fn mac(key: &[u8], message: &[u8]) -> Vec<u8> {
    Hmac::<Sha256>::new_from_slice(key).unwrap().chain_update(message).finalize().into_bytes().to_vec()
}

/// SASLInitialResponse.
pub fn initial(mechanism: &str, client_first: &[u8]) -> Vec<u8> {
    let length = u32::try_from(client_first.len()).unwrap().to_be_bytes();
    message(b'p', &[mechanism.as_bytes(), &[0], &length, client_first].concat())
}

/// The client's last message for the server's first one, without preparing the password.
pub fn client_final(password: &str, header: &str, bound: &[u8], bare: &str, server_first: &str) -> String {
    let attribute = |name: &str| server_first.split(',').find_map(|a| a.strip_prefix(name)).unwrap().to_owned();
    let (nonce, salt, iterations) = (attribute("r="), attribute("s="), attribute("i=").parse().unwrap());
    let mut salted = [0; 32];
    pbkdf2::pbkdf2_hmac::<Sha256>(password.as_bytes(), &STANDARD.decode(salt).unwrap(), iterations, &mut salted);
    let client_key = mac(&salted, b"Client Key");
    let binding = STANDARD.encode([header.as_bytes(), bound].concat());
    let without_proof = format!("c={binding},r={nonce}");
    let signature = mac(&Sha256::digest(&client_key), format!("{bare},{server_first},{without_proof}").as_bytes());
    let proof: Vec<u8> = client_key.iter().zip(signature).map(|(a, b)| a ^ b).collect();
    format!("{without_proof},p={}", STANDARD.encode(proof))
}

pub const BARE: &str = "n=,r=a-nonce-of-the-client";

/// Answers whatever the server asks for, as a client that has `password`.
pub fn go_on<S: Read + Write>(client: &mut Client<S>, user: &str, password: &str) -> Outcome {
    let mut said: Vec<Said> = Vec::new();
    while let Some(next) = client.next() {
        let answer = match (next.kind, next.body.get(3)) {
            (b'R', Some(3)) => Some(message(b'p', &[password.as_bytes(), &[0]].concat())),
            (b'R', Some(5)) => {
                let hex = |bytes: &[u8]| md5::Md5::digest(bytes).iter().map(|b| format!("{b:02x}")).collect::<String>();
                let inner = hex(format!("{password}{user}").as_bytes());
                let answer = format!("md5{}\0", hex(&[inner.as_bytes(), &next.body[4..]].concat()));
                Some(message(b'p', answer.as_bytes()))
            }
            (b'R', Some(10)) => Some(initial("SCRAM-SHA-256", format!("n,,{BARE}").as_bytes())),
            (b'R', Some(11)) => {
                let server_first = String::from_utf8(next.body[4..].to_vec()).unwrap();
                Some(message(b'p', client_final(password, "n,,", b"", BARE, &server_first).as_bytes()))
            }
            _ => None,
        };
        let is_ready = next.kind == b'Z';
        said.push(next);
        if is_ready {
            break;
        }
        if let Some(answer) = answer {
            client.send(&answer);
        }
    }
    Outcome { line: lines(&said), said }
}

/// Logs in on a connection that has said nothing yet.
pub fn login_on<S: Read + Write>(client: &mut Client<S>, user: &str, database: &str, password: &str) -> Outcome {
    client.send(&startup(&[("user", user), ("database", database)]));
    go_on(client, user, password)
}

/// Logs in, and gives the connection.
pub fn login(address: SocketAddr, user: &str, password: &str) -> (Client, Outcome) {
    let mut client = Client::connect(address);
    let outcome = login_on(&mut client, user, "default", password);
    (client, outcome)
}

/// Logs in, which has to work.
#[track_caller]
pub fn log_in(address: SocketAddr, user: &str, password: &str) -> Client {
    let (client, outcome) = login(address, user, password);
    assert!(outcome.is_in(), "{}", outcome.line);
    client
}

/// Tries to, which must not.
#[track_caller]
pub fn denied(address: SocketAddr, user: &str, password: &str) -> String {
    let (_, outcome) = login(address, user, password);
    outcome.error()
}

/// Connects from another address of this machine.
pub fn connect_from(from: &str, address: SocketAddr) -> Client {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let stream: TcpStream = runtime.block_on(async {
        let socket = tokio::net::TcpSocket::new_v4().unwrap();
        socket.bind(format!("{from}:0").parse().unwrap()).unwrap();
        socket.connect(address).await.unwrap().into_std().unwrap()
    });
    stream.set_nonblocking(false).unwrap();
    stream.set_read_timeout(Some(std::time::Duration::from_secs(30))).unwrap();
    Client { stream }
}
