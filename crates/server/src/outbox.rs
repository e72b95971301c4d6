//! What is to be sent to one client: the answers of its session, as bytes.
//!
//! One buffer a connection. Every message is whole or absent: one that can't be encoded leaves
//! nothing behind. A NUL in any text becomes U+FFFD, for on the wire it would end the text.

use bytes::{BufMut, BytesMut};
use dataglot_model::{Notice, Report, Severity, SqlState};
use dataglot_session::{Column, Notification, Response, Sink, TransactionStatus};
use pgwire::messages::data::{FieldDescription, MESSAGE_TYPE_BYTE_DATA_ROW, NoData, RowDescription};
use pgwire::messages::extendedquery::{BindComplete, CloseComplete, ParseComplete, PortalSuspended};
use pgwire::messages::response::{
    CommandComplete, EmptyQueryResponse, ErrorResponse, NoticeResponse, NotificationResponse, ReadyForQuery,
    TransactionStatus as WireStatus,
};
use pgwire::messages::startup::ParameterStatus;
use pgwire::messages::{Message, data::MESSAGE_TYPE_BYTE_PARAMETER_DESCRITION};

/// Bytes of a buffer that has nothing to do.
const IDLE_BYTES: usize = 4 << 10;
/// A buffer that has grown past this is given back when it is empty.
const KEPT_BYTES_MAX: usize = 64 << 10;

/// The bytes that wait to be sent.
#[derive(Debug)]
pub(crate) struct Outbox {
    bytes: BytesMut,
    /// How many bytes have been sent.
    sent: usize,
    /// How many may wait.
    bytes_max: usize,
    state: State,
}

/// What has been said since [`Outbox::take_state`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct State {
    /// An error was sent.
    pub(crate) failed: bool,
    /// A FATAL was sent: nothing may follow.
    pub(crate) fatal: bool,
    /// More answers than may wait: the client can't be told the truth any more.
    pub(crate) overflowed: bool,
    /// Statements that were answered with their tag.
    pub(crate) completed: u32,
    /// Errors.
    pub(crate) errors: u32,
}

impl Outbox {
    /// An empty one that holds at most `bytes_max`.
    pub(crate) fn new(bytes_max: usize) -> Self {
        Outbox { bytes: BytesMut::new(), sent: 0, bytes_max, state: State::default() }
    }

    /// What waits to be sent.
    pub(crate) fn pending(&self) -> &[u8] {
        self.bytes.get(self.sent..).unwrap_or_default()
    }

    /// So many of them are sent. Keeps a small buffer only.
    pub(crate) fn consume(&mut self, bytes: usize) {
        self.sent += bytes;
        if self.sent < self.bytes.len() {
            return;
        }
        self.sent = 0;
        if self.bytes.capacity() > KEPT_BYTES_MAX {
            self.bytes = BytesMut::with_capacity(IDLE_BYTES);
        } else {
            self.bytes.clear();
        }
    }

    /// Forgets what is not sent.
    pub(crate) fn discard(&mut self) {
        self.bytes = BytesMut::new();
        self.sent = 0;
    }

    /// What has been said since the last call.
    pub(crate) fn take_state(&mut self) -> State {
        std::mem::take(&mut self.state)
    }

    /// Appends a message of pgwire's.
    pub(crate) fn put(&mut self, message: &impl Message) {
        if !self.has_room() {
            return;
        }
        let start = self.bytes.len();
        if let Err(error) = message.encode(&mut self.bytes) {
            self.bytes.truncate(start);
            tracing::error!(%error, "message not sent");
        }
    }

    /// Appends bytes that are a message already.
    pub(crate) fn put_raw(&mut self, bytes: &[u8]) {
        self.bytes.put_slice(bytes);
    }

    /// ReadyForQuery.
    pub(crate) fn ready(&mut self, status: TransactionStatus) {
        self.put(&ReadyForQuery::new(match status {
            TransactionStatus::Idle => WireStatus::Idle,
            TransactionStatus::InBlock => WireStatus::Transaction,
            TransactionStatus::Failed => WireStatus::Error,
        }));
    }

    /// ErrorResponse; `position` counts characters from 1.
    pub(crate) fn error(&mut self, report: Report, position: Option<usize>) {
        self.state.failed = true;
        self.state.errors = self.state.errors.saturating_add(1);
        self.state.fatal |= report.severity == Severity::Fatal;
        let Report { severity, sqlstate, message, detail, hint, span: _ } = report;
        let mut fields = fields(severity, sqlstate, message, detail, hint);
        if let Some(position) = position {
            fields.push((b'P', position.to_string()));
        }
        self.put(&ErrorResponse::new(fields));
    }

    /// NoticeResponse.
    pub(crate) fn notice(&mut self, notice: Notice) {
        let Notice { severity, sqlstate, message, detail, hint } = notice;
        self.put(&NoticeResponse::new(fields(severity, sqlstate, message, detail, hint)));
    }

    /// NotificationResponse.
    pub(crate) fn notification(&mut self, notification: Notification) {
        let Notification { channel, payload, pid } = notification;
        self.put(&NotificationResponse::new(pid, clean(channel), clean(payload)));
    }

    /// ParameterStatus.
    pub(crate) fn parameter(&mut self, name: impl Into<String>, value: String) {
        self.put(&ParameterStatus::new(clean(name.into()), clean(value)));
    }

    /// Whether another message may wait. The first that may not is the end of all.
    fn has_room(&mut self) -> bool {
        self.state.overflowed |= self.bytes.len() - self.sent > self.bytes_max;
        !self.state.overflowed
    }

    /// Appends a message whose body `write` writes.
    fn frame(&mut self, kind: u8, write: impl FnOnce(&mut BytesMut) -> Option<()>) {
        if !self.has_room() {
            return;
        }
        let start = self.bytes.len();
        self.bytes.put_u8(kind);
        self.bytes.put_i32(0);
        let written = write(&mut self.bytes);
        let length = i32::try_from(self.bytes.len() - start - 1).ok();
        match (written, length, self.bytes.get_mut(start + 1..start + 5)) {
            (Some(()), Some(length), Some(place)) => place.copy_from_slice(&length.to_be_bytes()),
            _ => {
                self.bytes.truncate(start);
                tracing::error!(kind, "message not sent: too long");
            }
        }
    }

    fn row(&mut self, values: &[Option<Vec<u8>>]) {
        self.frame(MESSAGE_TYPE_BYTE_DATA_ROW, |bytes| {
            bytes.put_i16(i16::try_from(values.len()).ok()?);
            for value in values {
                match value {
                    None => bytes.put_i32(-1),
                    Some(value) => {
                        bytes.put_i32(i32::try_from(value.len()).ok()?);
                        bytes.put_slice(value);
                    }
                }
            }
            Some(())
        });
    }

    fn columns(&mut self, columns: &[Column], formats: &[i16]) {
        let formats = formats.iter().copied().chain(std::iter::repeat(0));
        let field = |(column, format): (&Column, i16)| {
            FieldDescription::new(clean(column.name.clone()), 0, 0, column.oid, column.type_len, -1, format)
        };
        self.put(&RowDescription::new(columns.iter().zip(formats).map(field).collect()));
    }
}

impl Sink for Outbox {
    fn send(&mut self, response: Response) {
        match response {
            Response::ParameterDescription(types) => self.frame(MESSAGE_TYPE_BYTE_PARAMETER_DESCRITION, |bytes| {
                // More than 32,767 go over the wire as an unsigned count, as PostgreSQL sends them.
                bytes.put_u16(u16::try_from(types.len()).ok()?);
                types.iter().for_each(|oid| bytes.put_u32(*oid));
                Some(())
            }),
            Response::RowDescription(columns, formats) => self.columns(&columns, &formats),
            Response::NoData => self.put(&NoData::new()),
            Response::Row(values) => self.row(&values),
            Response::Complete(tag) => {
                self.state.completed = self.state.completed.saturating_add(1);
                self.put(&CommandComplete::new(clean(tag)));
            }
            Response::EmptyQuery => self.put(&EmptyQueryResponse::new()),
            Response::ParseComplete => self.put(&ParseComplete::new()),
            Response::BindComplete => self.put(&BindComplete::new()),
            Response::CloseComplete => self.put(&CloseComplete::new()),
            Response::PortalSuspended => self.put(&PortalSuspended::new()),
            Response::Notice(notice) => self.notice(notice),
            Response::Error { report, position } => self.error(report, position),
            Response::ParameterStatus(name, value) => self.parameter(name, value),
        }
    }
}

/// The fields of an error or a notice, in PostgreSQL's order.
fn fields(
    severity: Severity,
    sqlstate: SqlState,
    message: String,
    detail: Option<String>,
    hint: Option<String>,
) -> Vec<(u8, String)> {
    let word = severity.as_str().to_owned();
    let mut fields =
        vec![(b'S', word.clone()), (b'V', word), (b'C', sqlstate.code().to_owned()), (b'M', clean(message))];
    fields.extend(detail.map(|text| (b'D', clean(text))));
    fields.extend(hint.map(|text| (b'H', clean(text))));
    fields
}

/// The text without what would end it.
fn clean(text: String) -> String {
    if text.contains('\0') { text.replace('\0', "\u{FFFD}") } else { text }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[track_caller]
    fn check(response: Response, expected: &[u8]) {
        let mut out = Outbox::new(1 << 20);
        out.send(response);
        assert_eq!(out.pending(), expected, "{}", out.pending().escape_ascii());
    }

    #[test]
    fn messages() {
        check(Response::Complete("GRANT".to_owned()), b"C\0\0\0\x0aGRANT\0");
        check(Response::Row(vec![None, Some(b"ab".to_vec())]), b"D\0\0\0\x10\0\x02\xff\xff\xff\xff\0\0\0\x02ab");
        check(Response::ParameterDescription(vec![25]), b"t\0\0\0\x0a\0\x01\0\0\0\x19");
        check(Response::NoData, b"n\0\0\0\x04");
        let column = Column { name: "a".to_owned(), oid: 23, type_len: 4 };
        let expected = b"T\0\0\0\x1a\0\x01a\0\0\0\0\0\0\0\0\0\0\x17\0\x04\xff\xff\xff\xff\0\x01";
        check(Response::RowDescription(Arc::from([column]), vec![1]), expected);
    }

    #[test]
    fn w_15_nul_in_any_text_is_replaced() {
        let report = Report::error(SqlState::SyntaxError, "a\0b").with_detail("\0").with_hint("h\0");
        let expected = "E\0\0\0\x38SERROR\0VERROR\0C42601\0Ma\u{FFFD}b\0D\u{FFFD}\0Hh\u{FFFD}\0P7\0\0".as_bytes();
        check(Response::Error { report, position: Some(7) }, &with_length(expected));
        let expected = "N\0\0\0\0SNOTICE\0VNOTICE\0C00000\0Mx\u{FFFD}\0\0".as_bytes();
        check(Response::Notice(Notice::note("x\0")), &with_length(expected));
        let expected = "S\0\0\0\0a\u{FFFD}\0\u{FFFD}\0".as_bytes();
        check(Response::ParameterStatus("a\0".to_owned(), "\0".to_owned()), &with_length(expected));
        check(Response::Complete("\0".to_owned()), &with_length("C\0\0\0\0\u{FFFD}\0".as_bytes()));
    }

    fn with_length(message: &[u8]) -> Vec<u8> {
        let mut message = message.to_vec();
        let length = u32::try_from(message.len() - 1).unwrap();
        message[1..5].copy_from_slice(&length.to_be_bytes());
        message
    }

    #[test]
    fn w_16_what_waits_is_bounded() {
        let mut out = Outbox::new(100);
        for _ in 0..20 {
            out.send(Response::Row(vec![Some(vec![b'x'; 30])]));
        }
        assert!(out.pending().len() <= 100 + 41);
        assert!(out.take_state().overflowed);
    }

    #[test]
    fn a_message_that_is_too_long_leaves_nothing() {
        let mut out = Outbox::new(1 << 20);
        out.send(Response::ParameterStatus("a".to_owned(), "x".repeat(40_000)));
        assert_eq!(out.pending(), b"");
    }

    #[test]
    fn a_grown_buffer_is_given_back() {
        let mut out = Outbox::new(1 << 20);
        out.send(Response::Row(vec![Some(vec![b'x'; 200_000])]));
        let bytes = out.pending().len();
        out.consume(bytes);
        assert!(out.pending().is_empty() && out.bytes.capacity() <= IDLE_BYTES);
    }
}
