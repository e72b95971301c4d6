//! A client's connection to a coordinator, and what its messages come to.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use dataglot_golden::wire::{
    Client, Fields, Message, bind_message, describe_message, execute_message, parse_message, query_message,
    sync_message,
};

use crate::model::{Answer, lines};
use crate::statement::Show;

/// The longest that a client waits for an answer. After that it does not know.
pub const ANSWER_MAX: Duration = Duration::from_secs(8);
/// The same for patient ones.
pub const LONG_ANSWER_MAX: Duration = Duration::from_secs(25);
/// The setting that says which version a session has seen.
const VERSION: &str = "dataglot.version";

/// One query string or extended statement.
pub enum Send {
    Simple(String),
    Extended(String),
}

/// What came for it.
#[derive(Debug, Default)]
pub struct Reply {
    pub answers: Vec<Answer>,
    pub error: Option<Fields>,
    /// The version that the session was told of.
    pub version: Option<u64>,
}

impl Reply {
    /// Both as one. An error is the end.
    pub fn followed_by(mut self, next: Reply) -> Reply {
        self.answers.extend(next.answers);
        Reply { answers: self.answers, error: next.error, version: next.version.or(self.version) }
    }
}

pub struct Session {
    client: Client,
    /// Which of the client's.
    pub number: u64,
    pub node: usize,
    pub min_version: u64,
    /// Whether reads are strict.
    pub strict: bool,
    /// What goes out in front of the next message.
    pending: Vec<String>,
}

impl Session {
    /// Connects. The inner error is a refusal.
    pub fn open(
        address: SocketAddr,
        node: usize,
        number: u64,
        patience: Duration,
    ) -> io::Result<Result<Session, Fields>> {
        let parameters = [("user", "admin"), ("database", "default")];
        let login = Client::connect_within(address, &parameters, patience)?;
        Ok(login.map(|client| Session { client, number, node, min_version: 0, strict: false, pending: Vec::new() }))
    }

    /// Sends a SET together with what comes next.
    pub fn set(&mut self, name: &str, value: &str) {
        self.pending.push(format!("SET {name} = '{value}'"));
    }

    /// Sends, and waits for the answer. `shows` are the SHOWs in it. A SET before it that is refused is the
    /// answer to all of it.
    pub fn ask(&mut self, send: Send, shows: &[Show]) -> io::Result<Reply> {
        let settings = std::mem::take(&mut self.pending);
        let mut bytes: Vec<u8> = settings.iter().flat_map(|sql| query_message(sql)).collect();
        match send {
            Send::Simple(sql) => bytes.extend(query_message(&sql)),
            Send::Extended(sql) => bytes.extend(
                [
                    parse_message("", &sql, &[]),
                    bind_message("", "", &[]),
                    describe_message(b'P', ""),
                    execute_message("", 0),
                    sync_message(),
                ]
                .concat(),
            ),
        }
        self.client.send(&bytes)?;
        let mut refused = None;
        for _ in &settings {
            let reply = read_reply(&self.client.read_to_ready()?, &[]);
            if reply.error.as_ref().is_some_and(|error| error.severity == "FATAL") {
                return Ok(reply);
            }
            refused = refused.or(reply.error);
        }
        let reply = read_reply(&self.client.read_to_ready()?, shows);
        match refused {
            Some(error) => panic!("SET was refused: {error:?}"),
            None => Ok(reply),
        }
    }
}

fn version_in(messages: &[Message]) -> Option<u64> {
    messages.iter().rev().find_map(|message| match message {
        Message::ParameterStatus(name, value) if name == VERSION => value.parse().ok(),
        _ => None,
    })
}

fn read_reply(messages: &[Message], shows: &[Show]) -> Reply {
    let mut reply = Reply { version: version_in(messages), ..Reply::default() };
    let mut notices = Vec::new();
    let mut names: Vec<&str> = Vec::new();
    let mut rows: Vec<String> = Vec::new();
    for message in messages {
        match message {
            Message::NoticeResponse(fields) => notices.push(fields.message.clone()),
            Message::RowDescription(columns) => names = columns.iter().map(|(name, _)| name.as_str()).collect(),
            Message::DataRow(values) => {
                let Some(show) = shows.get(reply.answers.len()) else { continue };
                let value = |column: &&str| -> String {
                    let place = names.iter().position(|name| name == column);
                    let place = place.unwrap_or_else(|| panic!("{show} has no column {column}: {names:?}"));
                    values[place].as_ref().map(|bytes| String::from_utf8_lossy(bytes).into_owned()).unwrap_or_default()
                };
                rows.push(show.columns().iter().map(value).collect::<Vec<_>>().join("|"));
            }
            Message::CommandComplete(tag) => {
                let rows = std::mem::take(&mut rows);
                let rows = shows.get(reply.answers.len()).map(|_| lines(rows));
                reply.answers.push(Answer { tag: tag.clone(), notices: std::mem::take(&mut notices), rows });
            }
            Message::ErrorResponse(fields) => {
                reply.error.get_or_insert_with(|| fields.clone());
            }
            _ => {}
        }
    }
    reply
}
