//! The lexer: PostgreSQL's, by its manual's chapter on lexical structure.
//!
//! In: bytes of a query string. Out: [`Token`]s that hold no text, only where they stand and what they
//! are; and where each statement ends. Linear in the length of the text, and without recursion.

use std::ops::Range;

use dataglot_model::{Span, SqlState};

use crate::limits::Limits;
use crate::{Limit, SyntaxError};

/// What a token is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TokenKind {
    /// An unquoted identifier or a key word.
    Word,
    /// `"name"`
    QuotedIdent,
    /// `U&"name"`
    UnicodeIdent,
    /// `'text'`, perhaps in several pieces on several lines
    String,
    /// `E'text'`
    EscapeString,
    /// `U&'text'`
    UnicodeString,
    /// `$tag$text$tag$`
    DollarString,
    /// `B'01'`, `X'1F'`
    BitString,
    /// `12`
    Integer,
    /// `1.5`, `1e3`
    Decimal,
    /// `$1`
    Parameter,
    /// `( ) [ ] { } , ; . :` and the like, one byte
    Punctuation(u8),
    /// `::`
    Cast,
    /// Any other operator.
    Operator,
    /// The end of the statement.
    End,
}

/// A token: what it is, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Token {
    pub kind: TokenKind,
    pub start: u32,
    pub end: u32,
}

impl Token {
    pub(crate) fn span(self) -> Span {
        Span::new(self.start, self.end)
    }

    pub(crate) fn text(self, sql: &str) -> &str {
        sql.get(self.start as usize..self.end as usize).unwrap_or_default()
    }

    /// Whether it is the key word `word`, given in upper case.
    pub(crate) fn is(self, sql: &str, word: &str) -> bool {
        self.kind == TokenKind::Word && self.text(sql).eq_ignore_ascii_case(word)
    }
}

/// Reads tokens one by one from `start` on, up to `end`.
pub(crate) struct Lexer<'a> {
    sql: &'a str,
    at: usize,
    end: usize,
}

fn is_ident_start(b: u8) -> bool {
    b.is_ascii_alphabetic() || b == b'_' || b >= 0x80
}

fn is_ident_part(b: u8) -> bool {
    is_ident_start(b) || b.is_ascii_digit() || b == b'$'
}

const OPERATOR: &[u8] = b"+-*/<>=~!@#%^&|`?";

impl<'a> Lexer<'a> {
    pub(crate) fn new(sql: &'a str, range: Range<usize>) -> Self {
        // Some editors begin a file with a byte order mark.
        let mark = if range.start == 0 && sql.starts_with('\u{feff}') { '\u{feff}'.len_utf8() } else { 0 };
        Lexer { sql, at: range.start + mark, end: range.end.min(sql.len()) }
    }

    fn byte(&self, at: usize) -> Option<u8> {
        if at < self.end { self.sql.as_bytes().get(at).copied() } else { None }
    }

    fn token(&self, kind: TokenKind, start: usize) -> Token {
        Token { kind, start: offset(start), end: offset(self.at) }
    }

    fn unterminated(&self, what: &'static str, start: usize) -> SyntaxError {
        SyntaxError::Unterminated { what, span: Span::new(offset(start), offset(self.end)) }
    }

    /// Skips blanks and comments; comments nest.
    fn skip_trivia(&mut self) -> Result<(), SyntaxError> {
        loop {
            match (self.byte(self.at), self.byte(self.at + 1)) {
                (Some(b' ' | b'\t' | b'\n' | b'\r' | 0x0b | 0x0c), _) => self.at += 1,
                (Some(b'-'), Some(b'-')) => self.skip_line(),
                (Some(b'/'), Some(b'*')) => self.skip_comment()?,
                _ => return Ok(()),
            }
        }
    }

    fn skip_line(&mut self) {
        while !matches!(self.byte(self.at), None | Some(b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn skip_comment(&mut self) -> Result<(), SyntaxError> {
        let start = self.at;
        let mut depth = 0usize;
        loop {
            match (self.byte(self.at), self.byte(self.at + 1)) {
                (Some(b'/'), Some(b'*')) => {
                    depth += 1;
                    self.at += 2;
                }
                (Some(b'*'), Some(b'/')) => {
                    depth -= 1;
                    self.at += 2;
                    if depth == 0 {
                        return Ok(());
                    }
                }
                (Some(_), _) => self.at += 1,
                (None, _) => return Err(self.unterminated("comment", start)),
            }
        }
    }

    /// The next token; [`TokenKind::End`] for ever at the end.
    pub(crate) fn next_token(&mut self) -> Result<Token, SyntaxError> {
        self.skip_trivia()?;
        let start = self.at;
        let Some(first) = self.byte(start) else {
            return Ok(self.token(TokenKind::End, start));
        };
        let second = self.byte(start + 1);
        match first {
            b'\'' => self.string(start, start, false).map(|()| self.token(TokenKind::String, start)),
            b'E' | b'e' if second == Some(b'\'') => {
                self.string(start, start + 1, true).map(|()| self.token(TokenKind::EscapeString, start))
            }
            b'N' | b'n' if second == Some(b'\'') => {
                self.string(start, start + 1, false).map(|()| self.token(TokenKind::String, start))
            }
            b'B' | b'b' | b'X' | b'x' if second == Some(b'\'') => {
                self.string(start, start + 1, false).map(|()| self.token(TokenKind::BitString, start))
            }
            b'U' | b'u' if second == Some(b'&') && self.byte(start + 2) == Some(b'\'') => {
                self.string(start, start + 2, false).map(|()| self.token(TokenKind::UnicodeString, start))
            }
            b'U' | b'u' if second == Some(b'&') && self.byte(start + 2) == Some(b'"') => {
                self.quoted(start, start + 2).map(|()| self.token(TokenKind::UnicodeIdent, start))
            }
            b'"' => self.quoted(start, start).map(|()| self.token(TokenKind::QuotedIdent, start)),
            b if is_ident_start(b) => {
                while self.byte(self.at).is_some_and(is_ident_part) {
                    self.at += 1;
                }
                Ok(self.token(TokenKind::Word, start))
            }
            b if b.is_ascii_digit() => self.number(start),
            b'.' if second.is_some_and(|b| b.is_ascii_digit()) => self.number(start),
            b'$' => self.dollar(start),
            b':' if second == Some(b':') => {
                self.at += 2;
                Ok(self.token(TokenKind::Cast, start))
            }
            b if OPERATOR.contains(&b) => {
                self.operator();
                Ok(self.token(TokenKind::Operator, start))
            }
            0 => Err(nul(start)),
            b => {
                self.at += 1;
                Ok(self.token(TokenKind::Punctuation(b), start))
            }
        }
    }

    /// An operator ends before a comment starts, and a trailing `+` or `-` is a sign of its own unless
    /// the operator holds one of `~ ! @ # % ^ & | ` ?`.
    fn operator(&mut self) {
        let start = self.at;
        while let Some(b) = self.byte(self.at) {
            let comment = matches!((b, self.byte(self.at + 1)), (b'-', Some(b'-')) | (b'/', Some(b'*')));
            if !OPERATOR.contains(&b) || (comment && self.at > start) {
                break;
            }
            self.at += 1;
        }
        let text = self.sql.as_bytes().get(start..self.at).unwrap_or_default();
        if !text.iter().any(|b| b"~!@#%^&|`?".contains(b)) {
            while self.at - start > 1 && matches!(self.byte(self.at - 1), Some(b'+' | b'-')) {
                self.at -= 1;
            }
        }
    }

    /// A string whose opening quote is at `quote`; pieces on further lines belong to it.
    fn string(&mut self, start: usize, quote: usize, escapes: bool) -> Result<(), SyntaxError> {
        self.at = quote + 1;
        loop {
            match self.byte(self.at) {
                None => return Err(self.unterminated("quoted string", start)),
                Some(b'\\') if escapes => self.at += 2,
                Some(b'\'') if self.byte(self.at + 1) == Some(b'\'') => self.at += 2,
                Some(b'\'') => {
                    self.at += 1;
                    match self.continuation() {
                        Some(next) => self.at = next + 1,
                        None => return Ok(()),
                    }
                }
                Some(_) => self.at += 1,
            }
        }
    }

    /// Where the next piece of a string opens: after blanks with at least one line end among them.
    fn continuation(&self) -> Option<usize> {
        let mut at = self.at;
        let mut newline = false;
        loop {
            match (self.byte(at), self.byte(at + 1)) {
                (Some(b'\n' | b'\r'), _) => {
                    newline = true;
                    at += 1;
                }
                (Some(b' ' | b'\t' | 0x0b | 0x0c), _) => at += 1,
                (Some(b'-'), Some(b'-')) => {
                    while !matches!(self.byte(at), None | Some(b'\n' | b'\r')) {
                        at += 1;
                    }
                }
                (Some(b'\''), _) if newline => return Some(at),
                _ => return None,
            }
        }
    }

    fn quoted(&mut self, start: usize, quote: usize) -> Result<(), SyntaxError> {
        self.at = quote + 1;
        loop {
            match self.byte(self.at) {
                None => return Err(self.unterminated("quoted identifier", start)),
                Some(b'"') if self.byte(self.at + 1) == Some(b'"') => self.at += 2,
                Some(b'"') => {
                    self.at += 1;
                    return Ok(());
                }
                Some(_) => self.at += 1,
            }
        }
    }

    fn digits(&mut self) {
        while self.byte(self.at).is_some_and(|b| b.is_ascii_digit()) {
            self.at += 1;
        }
    }

    fn number(&mut self, start: usize) -> Result<Token, SyntaxError> {
        let mut kind = TokenKind::Integer;
        self.digits();
        if self.byte(self.at) == Some(b'.') && self.byte(self.at + 1) != Some(b'.') {
            kind = TokenKind::Decimal;
            self.at += 1;
            self.digits();
        }
        if matches!(self.byte(self.at), Some(b'e' | b'E')) {
            let sign = usize::from(matches!(self.byte(self.at + 1), Some(b'+' | b'-')));
            if self.byte(self.at + 1 + sign).is_some_and(|b| b.is_ascii_digit()) {
                kind = TokenKind::Decimal;
                self.at += 1 + sign;
                self.digits();
            }
        }
        if self.byte(self.at).is_some_and(is_ident_part) {
            while self.byte(self.at).is_some_and(is_ident_part) {
                self.at += 1;
            }
            let span = Span::new(offset(start), offset(self.at));
            return Err(SyntaxError::invalid(SqlState::SyntaxError, "trailing junk after numeric literal", span));
        }
        Ok(self.token(kind, start))
    }

    /// `$1`, or a dollar-quoted string. A tag may not begin with a digit.
    fn dollar(&mut self, start: usize) -> Result<Token, SyntaxError> {
        self.at = start + 1;
        if self.byte(self.at).is_some_and(|b| b.is_ascii_digit()) {
            self.digits();
            if self.byte(self.at).is_some_and(is_ident_part) {
                let span = Span::new(offset(start), offset(self.at));
                return Err(SyntaxError::invalid(SqlState::SyntaxError, "trailing junk after parameter", span));
            }
            return Ok(self.token(TokenKind::Parameter, start));
        }
        if self.byte(self.at).is_some_and(is_ident_start) {
            while self.byte(self.at).is_some_and(|b| is_ident_part(b) && b != b'$') {
                self.at += 1;
            }
        }
        if self.byte(self.at) != Some(b'$') {
            self.at = start + 1;
            return Ok(self.token(TokenKind::Punctuation(b'$'), start));
        }
        self.at += 1;
        let body = self.at;
        let tag = self.sql.get(start..body).unwrap_or_default();
        let rest = self.sql.get(body..self.end).unwrap_or_default();
        match rest.find(tag) {
            Some(length) => {
                self.at = body + length + tag.len();
                Ok(self.token(TokenKind::DollarString, start))
            }
            None => Err(self.unterminated("dollar-quoted string", start)),
        }
    }
}

fn nul(at: usize) -> SyntaxError {
    let span = Span::new(offset(at), offset(at + 1));
    SyntaxError::invalid(SqlState::CharacterNotInRepertoire, "invalid byte sequence for encoding \"UTF8\": 0x00", span)
}

/// Texts are at most [`Limits::script_bytes_max`] long, far below 4 GiB.
fn offset(at: usize) -> u32 {
    u32::try_from(at).unwrap_or(u32::MAX)
}

/// The byte ranges of the statements in `sql`: without the semicolons, without blanks and comments
/// around them; empty ones are left out.
///
/// # Errors
/// [`SyntaxError`] for what has no end, and for a text or statement over its limit.
pub fn split(sql: &str, limits: &Limits) -> Result<Vec<Range<usize>>, SyntaxError> {
    if sql.len() > limits.script_bytes_max {
        let span = Span::new(offset(limits.script_bytes_max), offset(sql.len()));
        return Err(SyntaxError::Limit { limit: Limit::ScriptBytes, max: limits.script_bytes_max, span });
    }
    if let Some(at) = sql.find('\0') {
        return Err(nul(at));
    }
    let mut ranges = Vec::new();
    let mut lexer = Lexer::new(sql, 0..sql.len());
    let mut current: Option<Range<usize>> = None;
    loop {
        let token = lexer.next_token()?;
        if matches!(token.kind, TokenKind::Punctuation(b';')) {
            ranges.extend(current.take());
        } else if matches!(token.kind, TokenKind::End) {
            ranges.extend(current.take());
            return Ok(ranges);
        } else {
            let start = current.as_ref().map_or(token.start as usize, |r| r.start);
            current = Some(start..token.end as usize);
        }
    }
}
