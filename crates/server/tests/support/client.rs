//! The client: builds messages, sends bytes, and tells what came back in a line.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// A message of the server's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Said {
    pub kind: u8,
    pub body: Vec<u8>,
}

/// One connection.
pub struct Client<S = TcpStream> {
    pub stream: S,
}

impl Client {
    /// Connects, and says nothing.
    pub fn connect(address: SocketAddr) -> Client {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        stream.set_nodelay(true).unwrap();
        Client { stream }
    }

    /// Logs in, and reads up to the first ReadyForQuery.
    pub fn login(address: SocketAddr, user: &str) -> Client {
        let mut client = Client::connect(address);
        client.send(&startup(&[("user", user)]));
        let said = client.until_ready();
        assert_eq!(said.last().map(Said::line).as_deref(), Some("Z:I"), "{}", lines(&said));
        client
    }
}

impl<S: Read + Write> Client<S> {
    pub fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).unwrap();
    }

    /// The next byte; `None` at the end.
    pub fn byte(&mut self) -> Option<u8> {
        let mut byte = [0];
        match self.stream.read(&mut byte) {
            Ok(1) => Some(byte[0]),
            Ok(_) => None,
            Err(error) if matches!(error.kind(), io::ErrorKind::ConnectionReset | io::ErrorKind::UnexpectedEof) => None,
            Err(error) => panic!("{error}"),
        }
    }

    /// The next message; `None` at the end.
    pub fn next(&mut self) -> Option<Said> {
        let kind = self.byte()?;
        let mut length = [0; 4];
        self.stream.read_exact(&mut length).ok()?;
        let mut body = vec![0; u32::from_be_bytes(length) as usize - 4];
        self.stream.read_exact(&mut body).ok()?;
        Some(Said { kind, body })
    }

    /// All messages up to ReadyForQuery, or to the end.
    pub fn until_ready(&mut self) -> Vec<Said> {
        let mut said = Vec::new();
        while let Some(next) = self.next() {
            let is_ready = next.kind == b'Z';
            said.push(next);
            if is_ready {
                break;
            }
        }
        said
    }

    /// All messages up to the end of the connection.
    pub fn until_end(&mut self) -> Vec<Said> {
        std::iter::from_fn(|| self.next()).collect()
    }

    /// Sends, and tells what came up to ReadyForQuery.
    pub fn ask(&mut self, bytes: &[u8]) -> String {
        self.send(bytes);
        lines(&self.until_ready())
    }

    /// Sends a query string, and tells what came.
    pub fn query(&mut self, sql: &str) -> String {
        self.ask(&query(sql))
    }

    /// Sends, and tells what came up to the end of the connection.
    pub fn last(&mut self, bytes: &[u8]) -> String {
        // The server may close before it has read everything.
        let _ = self.stream.write_all(bytes);
        lines(&self.until_end())
    }
}

impl Said {
    /// The value of a field of an error or notice.
    pub fn field(&self, code: u8) -> Option<String> {
        let text = |f: &[u8]| String::from_utf8(f.to_vec()).unwrap();
        self.body.split(|b| *b == 0).find(|f| f.first() == Some(&code)).map(|f| text(&f[1..]))
    }

    /// The texts of the body.
    pub fn texts(&self) -> Vec<String> {
        self.body.split(|b| *b == 0).map(|t| String::from_utf8_lossy(t).into_owned()).collect()
    }

    /// In short: `C:CREATE ROLE`, `E:42710`, `D:a,NULL`, `Z:I`.
    pub fn line(&self) -> String {
        let kind = self.kind as char;
        match self.kind {
            b'E' | b'N' => {
                let fatal = if self.field(b'S').as_deref() == Some("FATAL") { "FATAL " } else { "" };
                format!("{kind}:{fatal}{}", self.field(b'C').unwrap())
            }
            b'C' => format!("C:{}", self.texts()[0]),
            b'S' => format!("S:{}={}", self.texts()[0], self.texts()[1]),
            b'Z' => format!("Z:{}", self.body[0] as char),
            b'D' => format!("D:{}", self.values().iter().map(value).collect::<Vec<_>>().join(",")),
            b'T' => format!("T:{}", self.columns().iter().map(|c| c.0.clone()).collect::<Vec<_>>().join(",")),
            b't' => {
                let oids = self.body[2..].as_chunks::<4>().0.iter().map(|o| u32::from_be_bytes(*o).to_string());
                format!("t:{}", oids.collect::<Vec<_>>().join(","))
            }
            _ => kind.to_string(),
        }
    }

    /// The values of a row.
    pub fn values(&self) -> Vec<Option<Vec<u8>>> {
        let mut rest = &self.body[2..];
        let mut values = Vec::new();
        while let Some((length, after)) = rest.split_first_chunk::<4>() {
            match usize::try_from(i32::from_be_bytes(*length)) {
                Err(_) => (values.push(None), rest = after).1,
                Ok(length) => (values.push(Some(after[..length].to_vec())), rest = &after[length..]).1,
            }
        }
        values
    }

    /// Name and OID of each column of a row description.
    pub fn columns(&self) -> Vec<(String, u32)> {
        let mut rest = &self.body[2..];
        let mut columns = Vec::new();
        while let Some(end) = rest.iter().position(|b| *b == 0) {
            let oid = u32::from_be_bytes(rest[end + 7..end + 11].try_into().unwrap());
            columns.push((String::from_utf8(rest[..end].to_vec()).unwrap(), oid));
            rest = &rest[end + 19..];
        }
        columns
    }
}

fn value(value: &Option<Vec<u8>>) -> String {
    value.as_ref().map_or("NULL".to_owned(), |v| String::from_utf8_lossy(v).into_owned())
}

/// Messages in short, in a line, without the version that goes with every change.
pub fn lines(said: &[Said]) -> String {
    let is_version = |s: &&Said| s.kind == b'S' && s.texts()[0] == "dataglot.version";
    said.iter().filter(|s| !is_version(s)).map(Said::line).collect::<Vec<_>>().join(" ")
}

/// A message of a type and a body.
pub fn message(kind: u8, body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(body.len() + 4).unwrap();
    [&[kind], &length.to_be_bytes()[..], body].concat()
}

/// A packet without a type: a request code and a body.
pub fn packet(code: u32, body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(body.len() + 8).unwrap();
    [&length.to_be_bytes()[..], &code.to_be_bytes(), body].concat()
}

pub const PROTOCOL_3_0: u32 = 3 << 16;
pub const PROTOCOL_3_2: u32 = 3 << 16 | 2;

pub fn startup(parameters: &[(&str, &str)]) -> Vec<u8> {
    startup_of(PROTOCOL_3_0, parameters)
}

pub fn startup_of(protocol: u32, parameters: &[(&str, &str)]) -> Vec<u8> {
    let mut body: Vec<u8> = parameters.iter().flat_map(|(k, v)| format!("{k}\0{v}\0").into_bytes()).collect();
    body.push(0);
    packet(protocol, &body)
}

pub fn ssl_request() -> Vec<u8> {
    packet(80_877_103, &[])
}

pub fn gss_request() -> Vec<u8> {
    packet(80_877_104, &[])
}

/// A CancelRequest of a body of BackendKeyData's form.
pub fn cancel_request(process: i32, key: &[u8]) -> Vec<u8> {
    packet(80_877_102, &[&process.to_be_bytes()[..], key].concat())
}

pub fn query(sql: &str) -> Vec<u8> {
    message(b'Q', &[sql.as_bytes(), &[0]].concat())
}

pub fn parse(name: &str, sql: &str) -> Vec<u8> {
    message(b'P', format!("{name}\0{sql}\0\0\0").as_bytes())
}

/// Text parameters, text results.
pub fn bind(portal: &str, statement: &str, values: &[&str]) -> Vec<u8> {
    bind_as(portal, statement, values, 0)
}

/// Text parameters, results in `format`.
pub fn bind_as(portal: &str, statement: &str, values: &[&str], format: u16) -> Vec<u8> {
    let mut body = format!("{portal}\0{statement}\0\0\0").into_bytes();
    body.extend(u16::try_from(values.len()).unwrap().to_be_bytes());
    for value in values {
        body.extend(u32::try_from(value.len()).unwrap().to_be_bytes());
        body.extend(value.as_bytes());
    }
    body.extend(1u16.to_be_bytes());
    body.extend(format.to_be_bytes());
    message(b'B', &body)
}

pub fn describe_statement(name: &str) -> Vec<u8> {
    message(b'D', format!("S{name}\0").as_bytes())
}

pub fn describe_portal(name: &str) -> Vec<u8> {
    message(b'D', format!("P{name}\0").as_bytes())
}

pub fn close_statement(name: &str) -> Vec<u8> {
    message(b'C', format!("S{name}\0").as_bytes())
}

pub fn execute(portal: &str, rows_max: u32) -> Vec<u8> {
    message(b'E', &[portal.as_bytes(), &[0], &rows_max.to_be_bytes()].concat())
}

pub fn sync() -> Vec<u8> {
    message(b'S', &[])
}

pub fn flush() -> Vec<u8> {
    message(b'H', &[])
}
