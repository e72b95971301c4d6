//! Turns messages of the server into the text of a golden file: what psql would show, with
//! SQLSTATEs and positions, and without what differs from run to run.

use crate::wire::{Fields, Message};

/// The text of the messages that answer one query string. `sql` is that string: an error's position
/// is shown with the text that it points at.
pub fn render(messages: &[Message], sql: &str) -> String {
    let mut out = String::new();
    let mut columns: Vec<String> = Vec::new();
    let mut rows: Vec<Vec<String>> = Vec::new();
    for message in messages {
        match message {
            Message::RowDescription(described) => {
                columns = described.iter().map(|(name, _)| name.clone()).collect();
                rows.clear();
            }
            Message::DataRow(values) => rows.push(values.iter().map(cell).collect()),
            Message::CommandComplete(tag) => {
                if !columns.is_empty() {
                    table(&mut out, &columns, &rows);
                    columns.clear();
                }
                line(&mut out, tag);
            }
            Message::PortalSuspended => {
                table(&mut out, &columns, &rows);
                line(&mut out, "(suspended)");
            }
            Message::EmptyQueryResponse => line(&mut out, "(empty query)"),
            Message::ErrorResponse(fields) | Message::NoticeResponse(fields) => said(&mut out, fields, sql),
            // It goes with every change, and would say in each transcript how many came before.
            Message::ParameterStatus(name, _) if name == "dataglot.version" => {}
            Message::ParameterStatus(name, value) => line(&mut out, &format!("PARAMETER {name} = {value}")),
            Message::NotificationResponse { channel, payload, .. } => {
                line(&mut out, &format!("NOTIFICATION {channel}: {payload}"));
            }
            Message::ParameterDescription(types) => line(&mut out, &format!("PARAMETERS {types:?}")),
            Message::Other(kind) => line(&mut out, &format!("UNKNOWN MESSAGE {}", char::from(*kind))),
            Message::Authentication(_)
            | Message::BackendKeyData { .. }
            | Message::ReadyForQuery(_)
            | Message::ParseComplete
            | Message::BindComplete
            | Message::CloseComplete
            | Message::NoData => {}
        }
    }
    steady(&out)
}

fn line(out: &mut String, text: &str) {
    out.push_str(text);
    out.push('\n');
}

fn cell(value: &Option<Vec<u8>>) -> String {
    value.as_ref().map_or_else(|| "∅".to_owned(), |bytes| String::from_utf8_lossy(bytes).replace('\n', "⏎"))
}

fn said(out: &mut String, fields: &Fields, sql: &str) {
    line(out, &format!("{} {}: {}", fields.severity, fields.sqlstate, fields.message));
    if let Some(detail) = &fields.detail {
        line(out, &format!("  DETAIL: {}", detail.replace('\n', "\n          ")));
    }
    if let Some(hint) = &fields.hint {
        line(out, &format!("  HINT: {}", hint.replace('\n', "\n        ")));
    }
    if let Some(position) = fields.position {
        let rest: String = sql.chars().skip(position.saturating_sub(1)).take(24).collect();
        let shown = rest.lines().next().unwrap_or_default();
        // Literals stay out, so that a file in which one appears shows a leak.
        let bare = shown.split(['\'', '"', '$']).next().unwrap_or_default();
        let literal = if bare.len() < shown.len() { "'…'" } else { "" };
        line(
            out,
            &format!(
                "  AT {position}: {}",
                if shown.is_empty() { "(end)".to_owned() } else { format!("{bare}{literal}") }
            ),
        );
    }
}

fn table(out: &mut String, columns: &[String], rows: &[Vec<String>]) {
    let rows: Vec<Vec<String>> = rows.iter().map(|row| row.iter().map(|c| steady(c)).collect()).collect();
    let width = |i: usize, name: &str| {
        rows.iter()
            .filter_map(|row| row.get(i))
            .map(|c| c.chars().count())
            .chain([name.chars().count()])
            .max()
            .unwrap_or(0)
    };
    let widths: Vec<usize> = columns.iter().enumerate().map(|(i, name)| width(i, name)).collect();
    let row_text = |cells: &[String]| {
        let padded: Vec<String> = cells.iter().zip(&widths).map(|(c, w)| format!("{c:<w$}")).collect();
        padded.join(" | ").trim_end().to_owned()
    };
    line(out, &row_text(columns));
    line(out, &widths.iter().map(|w| "-".repeat(*w)).collect::<Vec<_>>().join("-+-"));
    rows.iter().for_each(|row| line(out, &row_text(row)));
    line(out, &format!("({} row{})", rows.len(), if rows.len() == 1 { "" } else { "s" }));
}

/// Replaces what differs from run to run: hashes and ids (16 hexadecimal digits and more), the ports of
/// clients, and the times of the test clock, which all lie on 2031-02-03.
pub fn steady(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        if rest.starts_with("2031-02-03") {
            let end = rest.find(|c: char| !(c.is_ascii_digit() || "-:.+TZ ".contains(c))).unwrap_or(rest.len());
            let (time, tail) = rest.split_at(end);
            out.push_str("<time>");
            // A blank after the time is not a part of it.
            out.push_str(&time[time.trim_end().len()..]);
            rest = tail;
            continue;
        }
        if let Some(port) = rest.strip_prefix("127.0.0.1:") {
            out.push_str("127.0.0.1:<port>");
            rest = port.strip_prefix("<port>").unwrap_or_else(|| port.trim_start_matches(|c: char| c.is_ascii_digit()));
            continue;
        }
        let word = rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(rest.len());
        if word == 0 {
            out.push(c);
            rest = &rest[c.len_utf8()..];
            continue;
        }
        let (head, tail) = rest.split_at(word);
        let is_hex = head.len() >= 16 && head.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
        out.push_str(if is_hex { "<hex>" } else { head });
        rest = tail;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_hashes_are_left_out() {
        assert_eq!(steady("a 2031-02-03 04:05:06.7+00 | x"), "a <time> | x");
        assert_eq!(steady("id 0123456789abcdef0123456789abcdef;"), "id <hex>;");
        assert_eq!(steady("deadbeef und 2030-01-01 00:00:00+00"), "deadbeef und 2030-01-01 00:00:00+00");
    }
}
