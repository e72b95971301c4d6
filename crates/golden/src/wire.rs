//! A client of PostgreSQL's protocol, version 3, for tests: blocking, small, and blunt about what it
//! receives. It shows every message in the order in which it came, which real drivers do not.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// How long a test waits for an answer before it calls the server hung.
const ANSWER_WAIT_MAX: Duration = Duration::from_secs(60);

/// A message from the server.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "named as in the protocol")]
pub enum Message {
    Authentication(i32),
    ParameterStatus(String, String),
    BackendKeyData { pid: i32, secret: Vec<u8> },
    ReadyForQuery(char),
    RowDescription(Vec<(String, u32)>),
    DataRow(Vec<Option<Vec<u8>>>),
    CommandComplete(String),
    EmptyQueryResponse,
    ErrorResponse(Fields),
    NoticeResponse(Fields),
    ParseComplete,
    BindComplete,
    CloseComplete,
    NoData,
    ParameterDescription(Vec<u32>),
    PortalSuspended,
    NotificationResponse { pid: i32, channel: String, payload: String },
    Other(u8),
}

/// The fields of an error or a notice.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "named as in the protocol")]
pub struct Fields {
    pub severity: String,
    pub sqlstate: String,
    pub message: String,
    pub detail: Option<String>,
    pub hint: Option<String>,
    pub position: Option<usize>,
}

/// A connection.
pub struct Client {
    stream: TcpStream,
    /// What came before the first ReadyForQuery.
    pub greeting: Vec<Message>,
}

fn bad(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what.to_owned())
}

/// Reads the parts of one message's body.
struct Body<'a>(&'a [u8]);

impl<'a> Body<'a> {
    fn take(&mut self, n: usize) -> io::Result<&'a [u8]> {
        let (head, tail) = self.0.split_at_checked(n).ok_or_else(|| bad("message is short"))?;
        self.0 = tail;
        Ok(head)
    }

    fn i16(&mut self) -> io::Result<i16> {
        let bytes = self.take(2)?;
        bytes.try_into().map(i16::from_be_bytes).map_err(|_| bad("int16"))
    }

    fn i32(&mut self) -> io::Result<i32> {
        let bytes = self.take(4)?;
        bytes.try_into().map(i32::from_be_bytes).map_err(|_| bad("int32"))
    }

    fn u32(&mut self) -> io::Result<u32> {
        let bytes = self.take(4)?;
        bytes.try_into().map(u32::from_be_bytes).map_err(|_| bad("int32"))
    }

    fn text(&mut self) -> io::Result<String> {
        let end = self.0.iter().position(|b| *b == 0).ok_or_else(|| bad("string without end"))?;
        let bytes = self.take(end)?;
        self.take(1)?;
        String::from_utf8(bytes.to_vec()).map_err(|_| bad("string is not UTF-8"))
    }

    fn len(&mut self) -> io::Result<usize> {
        usize::try_from(self.i16()?).map_err(|_| bad("negative count"))
    }

    fn fields(&mut self) -> io::Result<Fields> {
        let mut fields = Fields::default();
        loop {
            let code = self.take(1)?;
            match code {
                [0] => return Ok(fields),
                [b'V'] => fields.severity = self.text()?,
                [b'C'] => fields.sqlstate = self.text()?,
                [b'M'] => fields.message = self.text()?,
                [b'D'] => fields.detail = Some(self.text()?),
                [b'H'] => fields.hint = Some(self.text()?),
                [b'P'] => fields.position = Some(self.text()?.parse().map_err(|_| bad("position"))?),
                _ => drop(self.text()?),
            }
        }
    }
}

fn decode(kind: u8, body: &[u8]) -> io::Result<Message> {
    let mut b = Body(body);
    Ok(match kind {
        b'R' => Message::Authentication(b.i32()?),
        b'S' => Message::ParameterStatus(b.text()?, b.text()?),
        b'K' => Message::BackendKeyData { pid: b.i32()?, secret: b.0.to_vec() },
        b'Z' => Message::ReadyForQuery(char::from(*b.take(1)?.first().ok_or_else(|| bad("status"))?)),
        b'T' => {
            let count = b.len()?;
            let mut columns = Vec::with_capacity(count);
            for _ in 0..count {
                let name = b.text()?;
                b.take(6)?;
                let oid = b.u32()?;
                b.take(8)?;
                columns.push((name, oid));
            }
            Message::RowDescription(columns)
        }
        b'D' => {
            let count = b.len()?;
            let mut values = Vec::with_capacity(count);
            for _ in 0..count {
                values.push(match usize::try_from(b.i32()?) {
                    Ok(n) => Some(b.take(n)?.to_vec()),
                    Err(_) => None,
                });
            }
            Message::DataRow(values)
        }
        b'C' => Message::CommandComplete(b.text()?),
        b'I' => Message::EmptyQueryResponse,
        b'E' => Message::ErrorResponse(b.fields()?),
        b'N' => Message::NoticeResponse(b.fields()?),
        b'1' => Message::ParseComplete,
        b'2' => Message::BindComplete,
        b'3' => Message::CloseComplete,
        b'n' => Message::NoData,
        b's' => Message::PortalSuspended,
        b't' => {
            let count = b.len()?;
            Message::ParameterDescription((0..count).map(|_| b.u32()).collect::<io::Result<_>>()?)
        }
        b'A' => Message::NotificationResponse { pid: b.i32()?, channel: b.text()?, payload: b.text()? },
        other => Message::Other(other),
    })
}

/// One message of the protocol, ready to be sent.
pub fn frame(kind: u8, body: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(body.len() + 5);
    out.push(kind);
    out.extend_from_slice(&u32::try_from(body.len() + 4).unwrap_or(u32::MAX).to_be_bytes());
    out.extend_from_slice(body);
    out
}

/// A text with its closing NUL.
fn zero(text: &str) -> Vec<u8> {
    let mut bytes = text.as_bytes().to_vec();
    bytes.push(0);
    bytes
}

/// `Parse`
pub fn parse_message(name: &str, sql: &str, types: &[u32]) -> Vec<u8> {
    let mut body = [zero(name), zero(sql)].concat();
    body.extend_from_slice(&u16::try_from(types.len()).unwrap_or(0).to_be_bytes());
    types.iter().for_each(|t| body.extend_from_slice(&t.to_be_bytes()));
    frame(b'P', &body)
}

/// `Bind` with text parameters and text results.
pub fn bind_message(portal: &str, statement: &str, values: &[Option<&str>]) -> Vec<u8> {
    let mut body = [zero(portal), zero(statement)].concat();
    body.extend_from_slice(&[0, 0]);
    body.extend_from_slice(&u16::try_from(values.len()).unwrap_or(0).to_be_bytes());
    for value in values {
        match value {
            Some(text) => {
                body.extend_from_slice(&u32::try_from(text.len()).unwrap_or(0).to_be_bytes());
                body.extend_from_slice(text.as_bytes());
            }
            None => body.extend_from_slice(&(-1i32).to_be_bytes()),
        }
    }
    body.extend_from_slice(&[0, 0]);
    frame(b'B', &body)
}

/// `Describe` of a statement (`S`) or portal (`P`).
pub fn describe_message(what: u8, name: &str) -> Vec<u8> {
    frame(b'D', &[vec![what], zero(name)].concat())
}

/// `Execute` with a row limit; 0: none.
pub fn execute_message(portal: &str, rows_max: u32) -> Vec<u8> {
    frame(b'E', &[zero(portal), rows_max.to_be_bytes().to_vec()].concat())
}

/// `Query`
pub fn query_message(sql: &str) -> Vec<u8> {
    frame(b'Q', &zero(sql))
}

/// `Sync`
pub fn sync_message() -> Vec<u8> {
    frame(b'S', &[])
}

impl Client {
    /// Connects and logs in by trust. `Err(Ok(fields))` is the server's refusal.
    ///
    /// # Errors
    /// The connection's error, or what the server said before it closed.
    pub fn connect(address: SocketAddr, user: &str, database: &str) -> io::Result<Result<Client, Fields>> {
        Self::connect_with(address, &[("user", user), ("database", database)])
    }

    /// The same with any startup parameters.
    ///
    /// # Errors
    /// As for [`Client::connect`].
    pub fn connect_with(address: SocketAddr, parameters: &[(&str, &str)]) -> io::Result<Result<Client, Fields>> {
        Self::connect_within(address, parameters, ANSWER_WAIT_MAX)
    }

    /// The same with a limit for each answer, now and later, from a server that may hang.
    ///
    /// # Errors
    /// As for [`Client::connect`]; a late answer is [`io::ErrorKind::WouldBlock`] or
    /// [`io::ErrorKind::TimedOut`].
    pub fn connect_within(
        address: SocketAddr,
        parameters: &[(&str, &str)],
        wait: Duration,
    ) -> io::Result<Result<Client, Fields>> {
        let stream = TcpStream::connect_timeout(&address, wait)?;
        stream.set_read_timeout(Some(wait))?;
        stream.set_nodelay(true)?;
        let mut body = 196_608i32.to_be_bytes().to_vec();
        for (key, value) in parameters {
            body.extend(zero(key));
            body.extend(zero(value));
        }
        body.push(0);
        let mut client = Client { stream, greeting: Vec::new() };
        let mut packet = u32::try_from(body.len() + 4).unwrap_or(0).to_be_bytes().to_vec();
        packet.extend(body);
        client.send(&packet)?;
        loop {
            let message = client.read()?;
            match message {
                Message::ErrorResponse(fields) => return Ok(Err(fields)),
                Message::ReadyForQuery(_) => return Ok(Ok(client)),
                other => client.greeting.push(other),
            }
        }
    }

    /// Sends bytes as they are.
    ///
    /// # Errors
    /// The connection's.
    pub fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes)
    }

    /// The next message.
    ///
    /// # Errors
    /// The connection's, or [`io::ErrorKind::InvalidData`] for what is no message.
    pub fn read(&mut self) -> io::Result<Message> {
        let mut head = [0u8; 5];
        self.stream.read_exact(&mut head)?;
        let [kind, length @ ..] = head;
        let length = usize::try_from(i32::from_be_bytes(length)).map_err(|_| bad("length"))?;
        let mut body = vec![0u8; length.checked_sub(4).ok_or_else(|| bad("length"))?];
        self.stream.read_exact(&mut body)?;
        decode(kind, &body)
    }

    /// All messages up to ReadyForQuery, or up to a FATAL error, after which the server closes.
    ///
    /// # Errors
    /// The connection's.
    pub fn read_to_ready(&mut self) -> io::Result<Vec<Message>> {
        let mut messages = Vec::new();
        loop {
            let message = self.read()?;
            let done = match &message {
                Message::ReadyForQuery(_) => true,
                Message::ErrorResponse(fields) => fields.severity == "FATAL",
                _ => false,
            };
            messages.push(message);
            if done {
                return Ok(messages);
            }
        }
    }

    /// Sends one simple query and collects the answer.
    ///
    /// # Errors
    /// The connection's.
    pub fn query(&mut self, sql: &str) -> io::Result<Vec<Message>> {
        self.send(&query_message(sql))?;
        self.read_to_ready()
    }

    /// Sends one statement by Parse, Bind, Describe, Execute, Sync and collects the answer.
    ///
    /// # Errors
    /// The connection's.
    pub fn extended(&mut self, sql: &str, values: &[Option<&str>]) -> io::Result<Vec<Message>> {
        let messages = [
            parse_message("", sql, &[]),
            bind_message("", "", values),
            describe_message(b'P', ""),
            execute_message("", 0),
            sync_message(),
        ];
        self.send(&messages.concat())?;
        self.read_to_ready()
    }

    /// The cancel key that the server gave.
    pub fn cancel_key(&self) -> Option<(i32, Vec<u8>)> {
        self.greeting.iter().find_map(|m| match m {
            Message::BackendKeyData { pid, secret } => Some((*pid, secret.clone())),
            _ => None,
        })
    }

    /// Asks the server to cancel what the session of `pid` runs.
    ///
    /// # Errors
    /// The connection's. The server never answers.
    pub fn cancel(address: SocketAddr, pid: i32, secret: &[u8]) -> io::Result<()> {
        let mut stream = TcpStream::connect(address)?;
        stream.set_read_timeout(Some(ANSWER_WAIT_MAX))?;
        let mut packet = u32::try_from(12 + secret.len()).unwrap_or(0).to_be_bytes().to_vec();
        packet.extend_from_slice(&80_877_102i32.to_be_bytes());
        packet.extend_from_slice(&pid.to_be_bytes());
        packet.extend_from_slice(secret);
        stream.write_all(&packet)?;
        let mut rest = Vec::new();
        stream.read_to_end(&mut rest).map(drop)
    }
}

/// The first error among the messages.
pub fn error_of(messages: &[Message]) -> Option<&Fields> {
    messages.iter().find_map(|m| match m {
        Message::ErrorResponse(fields) => Some(fields),
        _ => None,
    })
}

/// The command tags among the messages.
pub fn tags_of(messages: &[Message]) -> Vec<&str> {
    messages
        .iter()
        .filter_map(|m| match m {
            Message::CommandComplete(tag) => Some(tag.as_str()),
            _ => None,
        })
        .collect()
}

/// The rows among the messages, as text.
pub fn rows_of(messages: &[Message]) -> Vec<Vec<Option<String>>> {
    messages
        .iter()
        .filter_map(|m| match m {
            Message::DataRow(values) => {
                Some(values.iter().map(|v| v.as_ref().map(|b| String::from_utf8_lossy(b).into_owned())).collect())
            }
            _ => None,
        })
        .collect()
}
