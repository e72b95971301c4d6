//! What tests with sessions of their own ask for again and again.

#![allow(clippy::panic, clippy::unwrap_used, reason = "a test's own helpers")]

use std::net::SocketAddr;

use dataglot_golden::wire::{Client, Message, error_of, rows_of};

pub fn admin(address: SocketAddr) -> Client {
    login(address, "admin")
}

#[track_caller]
pub fn login(address: SocketAddr, user: &str) -> Client {
    Client::connect(address, user, "default").unwrap().unwrap_or_else(|f| panic!("refused: {f:?}"))
}

#[track_caller]
pub fn ok(client: &mut Client, sql: &str) -> Vec<Message> {
    let messages = client.query(sql).unwrap();
    assert_eq!(error_of(&messages), None, "{sql:.400}");
    messages
}

#[track_caller]
pub fn fails(client: &mut Client, sql: &str) -> String {
    let messages = client.query(sql).unwrap();
    error_of(&messages).unwrap_or_else(|| panic!("{sql:.400} succeeded")).sqlstate.clone()
}

/// The first column of what is shown.
#[track_caller]
pub fn names(client: &mut Client, show: &str) -> Vec<String> {
    rows_of(&ok(client, show)).into_iter().filter_map(|row| row.into_iter().next().flatten()).collect()
}

/// Whether a notice says that what is to be made exists.
pub fn says_exists(message: &&Message) -> bool {
    matches!(message, Message::NoticeResponse(fields) if fields.sqlstate == "42710")
}
