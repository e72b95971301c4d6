//! The values of literals: strings in their five forms, quoted names, points in time.

use dataglot_model::{Span, SqlState, Timestamp};

use crate::SyntaxError;
use crate::cursor::Parse;
use crate::lexer::{Token, TokenKind};

/// An unquoted identifier: A to Z fold, nothing else does.
pub(crate) fn folded(text: &str) -> String {
    text.to_ascii_lowercase()
}

pub(crate) fn is_string(kind: TokenKind) -> bool {
    matches!(kind, TokenKind::String | TokenKind::EscapeString | TokenKind::UnicodeString | TokenKind::DollarString)
}

/// The name in `"…"` or `U&"…"`.
pub(crate) fn quoted_ident(sql: &str, token: Token) -> Parse<String> {
    let text = token.text(sql);
    let unicode = token.kind == TokenKind::UnicodeIdent;
    let inner = text.get(if unicode { 3 } else { 1 }..text.len().saturating_sub(1)).unwrap_or_default();
    let name = inner.replace("\"\"", "\"");
    if unicode { unicode_escapes(&name, token.span()) } else { Ok(name) }
}

/// The text of a string token.
pub(crate) fn string(sql: &str, token: Token) -> Parse<String> {
    let text = token.text(sql);
    if token.kind == TokenKind::DollarString {
        let tag = text.get(1..).and_then(|t| t.find('$')).map_or(2, |n| n + 2);
        return Ok(text.get(tag..text.len().saturating_sub(tag)).unwrap_or_default().to_owned());
    }
    let joined = pieces(text);
    match token.kind {
        TokenKind::EscapeString => escapes(&joined, token.span()),
        TokenKind::UnicodeString => unicode_escapes(&joined.replace("''", "'"), token.span()),
        _ => Ok(joined.replace("''", "'")),
    }
}

/// The insides of the pieces of a string, put together; doubled quotes stay doubled.
fn pieces(text: &str) -> String {
    let escaped = text.starts_with(['e', 'E']);
    let bytes = text.as_bytes();
    let mut out = String::with_capacity(text.len());
    let mut at = 0;
    // Between two pieces stand blanks, and line comments that may hold a quote.
    while let Some(b) = bytes.get(at) {
        match b {
            b'\'' => {
                let start = at + 1;
                at = end_of_piece(bytes, start, escaped);
                out.push_str(text.get(start..at).unwrap_or_default());
            }
            b'-' => {
                at = (at..bytes.len()).find(|n| matches!(bytes.get(*n), Some(b'\n' | b'\r'))).unwrap_or(bytes.len())
            }
            _ => {}
        }
        at += 1;
    }
    out
}

/// Where the quote stands that closes the piece which begins at `at`.
fn end_of_piece(bytes: &[u8], mut at: usize, escaped: bool) -> usize {
    while let Some(b) = bytes.get(at) {
        match b {
            b'\\' if escaped => at += 2,
            b'\'' if bytes.get(at + 1) == Some(&b'\'') => at += 2,
            b'\'' => break,
            _ => at += 1,
        }
    }
    at
}

fn bad_escape(span: Span) -> SyntaxError {
    SyntaxError::invalid(SqlState::InvalidEscapeSequence, "invalid Unicode escape", span)
        .with_hint("Unicode escapes must be \\XXXX or \\+XXXXXX in U&'', and \\uXXXX or \\UXXXXXXXX in E''.")
}

fn nul(span: Span) -> SyntaxError {
    SyntaxError::invalid(SqlState::CharacterNotInRepertoire, "invalid byte sequence for encoding \"UTF8\": 0x00", span)
}

/// `E''` escapes. Bytes given by number have to be UTF-8 together.
fn escapes(text: &str, span: Span) -> Parse<String> {
    let mut out: Vec<u8> = Vec::with_capacity(text.len());
    let mut high: Option<u32> = None;
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        if c == '\'' {
            chars.next_if_eq(&'\'');
        }
        if c != '\\' {
            if high.is_some() {
                return Err(bad_escape(span));
            }
            out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
            continue;
        }
        let mut digits = |radix: u32, max: usize| -> (u32, usize) {
            let (mut value, mut count) = (0u32, 0);
            while count < max
                && let Some(d) = chars.peek().and_then(|c| c.to_digit(radix))
            {
                value = value.wrapping_mul(radix).wrapping_add(d);
                count += 1;
                chars.next();
            }
            (value, count)
        };
        // The escape's own letter was not consumed yet where digits may start right away.
        let (octal, count) = digits(8, 3);
        if count > 0 {
            out.push(u8::try_from(octal & 0xff).unwrap_or(0));
            continue;
        }
        match chars.next() {
            Some('b') => out.push(8),
            Some('f') => out.push(12),
            Some('n') => out.push(b'\n'),
            Some('r') => out.push(b'\r'),
            Some('t') => out.push(b'\t'),
            Some('x') => {
                let (mut value, mut count) = (0u32, 0);
                while count < 2
                    && let Some(d) = chars.peek().and_then(|c| c.to_digit(16))
                {
                    value = value * 16 + d;
                    count += 1;
                    chars.next();
                }
                if count == 0 { out.push(b'x') } else { out.push(u8::try_from(value).unwrap_or(0)) }
            }
            Some(u @ ('u' | 'U')) => {
                let want = if u == 'u' { 4 } else { 8 };
                let hex: String = chars.by_ref().take(want).collect();
                let code =
                    u32::from_str_radix(&hex, 16).ok().filter(|_| hex.len() == want).ok_or_else(|| bad_escape(span))?;
                push_code(&mut out, &mut high, code, span)?;
                continue;
            }
            Some(other) => out.extend_from_slice(other.encode_utf8(&mut [0; 4]).as_bytes()),
            None => {}
        }
        if high.is_some() {
            return Err(bad_escape(span));
        }
    }
    if high.is_some() {
        return Err(bad_escape(span));
    }
    if out.contains(&0) {
        return Err(nul(span));
    }
    String::from_utf8(out).map_err(|_| {
        SyntaxError::invalid(SqlState::CharacterNotInRepertoire, "invalid byte sequence for encoding \"UTF8\"", span)
    })
}

/// Adds a code point; a surrogate pair is two of them.
fn push_code(out: &mut Vec<u8>, high: &mut Option<u32>, code: u32, span: Span) -> Parse<()> {
    let code = match (high.take(), code) {
        (None, 0xD800..=0xDBFF) => {
            *high = Some(code);
            return Ok(());
        }
        (Some(first), 0xDC00..=0xDFFF) => 0x10000 + ((first - 0xD800) << 10) + (code - 0xDC00),
        (None, code) => code,
        (Some(_), _) => return Err(bad_escape(span)),
    };
    if code == 0 {
        return Err(nul(span));
    }
    let c = char::from_u32(code).ok_or_else(|| bad_escape(span))?;
    out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
    Ok(())
}

/// `\XXXX`, `\+XXXXXX` and `\\` of `U&''` and `U&""`.
fn unicode_escapes(text: &str, span: Span) -> Parse<String> {
    let mut out: Vec<u8> = Vec::with_capacity(text.len());
    let mut high = None;
    let mut rest = text;
    while let Some((head, tail)) = rest.split_once('\\') {
        if high.is_some() && !head.is_empty() {
            return Err(bad_escape(span));
        }
        out.extend_from_slice(head.as_bytes());
        if let Some(after) = tail.strip_prefix('\\') {
            out.push(b'\\');
            rest = after;
            continue;
        }
        let (digits, skip) = if tail.starts_with('+') { (tail.get(1..7), 7) } else { (tail.get(..4), 4) };
        let digits = digits.filter(|d| d.bytes().all(|b| b.is_ascii_hexdigit())).ok_or_else(|| bad_escape(span))?;
        let code = u32::from_str_radix(digits, 16).map_err(|_| bad_escape(span))?;
        push_code(&mut out, &mut high, code, span)?;
        rest = tail.get(skip..).unwrap_or_default();
    }
    if high.is_some() {
        return Err(bad_escape(span));
    }
    out.extend_from_slice(rest.as_bytes());
    String::from_utf8(out).map_err(|_| bad_escape(span))
}

/// `infinity`, a date, a date with a time, with or without an offset; without one it is UTC.
pub(crate) fn timestamp(text: &str) -> Option<Timestamp> {
    let text = text.trim();
    if text.eq_ignore_ascii_case("infinity") {
        return Some(Timestamp::INFINITY);
    }
    if let Ok(date) = text.parse::<jiff::civil::Date>()
        && text.len() <= 10
    {
        return civil(date.to_datetime(jiff::civil::Time::midnight()));
    }
    // PostgreSQL prints an offset without minutes (`+00`), which ISO 8601 knows too.
    if let Ok(at) = text.parse::<jiff::Timestamp>() {
        return Some(Timestamp(at.as_microsecond()));
    }
    let trimmed = text.strip_suffix("UTC").or_else(|| text.strip_suffix("utc")).unwrap_or(text).trim_end();
    civil(trimmed.parse::<jiff::civil::DateTime>().ok()?)
}

fn civil(at: jiff::civil::DateTime) -> Option<Timestamp> {
    let at = jiff::tz::Offset::UTC.to_timestamp(at).ok()?;
    Some(Timestamp(at.as_microsecond()))
}
