//! A piece of SQL that sqlparser reads: its tokens, its places, its errors.
//!
//! sqlparser's errors are texts that repeat the offending token, and that may be a literal. Only the
//! place is taken from them; what is said comes from here.

use std::ops::Range;

use dataglot_model::{Span, SqlState, is_reserved};
use sqlparser::ast::Ident;
use sqlparser::dialect::PostgreSqlDialect;
use sqlparser::keywords::Keyword;
use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::{Location, Token, TokenWithSpan, Tokenizer};

use super::lines::LineIndex;
use crate::error::{Found, Limit};
use crate::{ParseCx, SyntaxError};

/// How many of sqlparser's recursions one level of ours can take: a subquery in FROM is a table
/// factor, a query and an expression.
const RECURSIONS_PER_LEVEL: usize = 4;

/// Recursions for which every thread's stack is large enough.
const SHALLOW_RECURSIONS: usize = 12;
/// More than one recursion takes: 100 KiB were measured in a debug build. Only what is touched is paid for.
const STACK_BYTES_PER_RECURSION: usize = 256 << 10;

static DIALECT: PostgreSqlDialect = PostgreSqlDialect {};

/// A trimmed piece of the statement, and its tokens.
pub(crate) struct Source<'a> {
    text: &'a str,
    /// Where `text` begins in the whole.
    offset: usize,
    lines: LineIndex<'a>,
    tokens: Vec<TokenWithSpan>,
    depth_max: usize,
}

impl<'a> Source<'a> {
    /// Reads the tokens of `sql[range]`.
    pub(crate) fn new(sql: &'a str, range: Range<usize>, cx: &ParseCx<'_>) -> Result<Self, SyntaxError> {
        let whole = sql.get(range.clone()).unwrap_or_default();
        let text = whole.trim();
        let offset = range.start + (whole.len() - whole.trim_start().len());
        let mut source =
            Source { text, offset, lines: LineIndex::new(text), tokens: Vec::new(), depth_max: cx.limits.depth_max };
        match Tokenizer::new(&DIALECT, text).tokenize_with_location() {
            Ok(tokens) => source.tokens = tokens,
            Err(error) => return Err(source.unexpected_at(source.byte(error.location))),
        }
        source.refuse_unicode_names()?;
        if source.tokens.iter().all(|t| matches!(t.token, Token::Whitespace(_))) {
            return Err(source.unexpected_at(text.len()));
        }
        Ok(source)
    }

    /// The piece, trimmed.
    pub(crate) fn text(&self) -> &'a str {
        self.text
    }

    /// Where the piece stands in the whole text.
    pub(crate) fn span(&self) -> Span {
        self.span_of(0..self.text.len())
    }

    /// The first token that is not a blank or comment.
    pub(crate) fn first(&self) -> Option<&TokenWithSpan> {
        self.tokens.iter().find(|t| !matches!(t.token, Token::Whitespace(_)))
    }

    /// Refuses `$1`: nothing is bound here.
    pub(crate) fn refuse_parameters(&self, place: &str) -> Result<(), SyntaxError> {
        match self.tokens.iter().find(|t| matches!(t.token, Token::Placeholder(_))) {
            None => Ok(()),
            Some(token) => Err(SyntaxError::invalid(
                SqlState::SyntaxError,
                format!("a parameter cannot stand in {place}"),
                self.span_between(token.span.start, token.span.end),
            )),
        }
    }

    /// sqlparser takes `U&"x"` for three tokens, so the name would be another one than meant.
    fn refuse_unicode_names(&self) -> Result<(), SyntaxError> {
        for window in self.tokens.windows(3) {
            let [prefix, and, quoted] = window else { continue };
            let is_prefix =
                matches!(&prefix.token, Token::Word(w) if w.quote_style.is_none() && w.value.eq_ignore_ascii_case("u"));
            let is_quoted = matches!(&quoted.token, Token::Word(w) if w.quote_style.is_some());
            if is_prefix && and.token == Token::Ampersand && is_quoted {
                return Err(SyntaxError::unsupported(
                    "a name written as U&\"...\" in a query",
                    "Write the characters themselves, between double quotes.",
                    self.span_between(prefix.span.start, quoted.span.end),
                ));
            }
        }
        Ok(())
    }

    /// Rewrites `TABLE name`, of which sqlparser knows names of at most two parts, to `SELECT * FROM name`
    /// in the tokens; the text stays. Answers where each such name begins, in bytes.
    pub(crate) fn expand_table_commands(&mut self) -> Vec<usize> {
        let is_blank = |token: &TokenWithSpan| matches!(token.token, Token::Whitespace(_));
        let mut names = Vec::new();
        let mut expanded = Vec::with_capacity(self.tokens.len());
        let mut before: Option<&TokenWithSpan> = None;
        for (i, token) in self.tokens.iter().enumerate() {
            let next = self.tokens.iter().skip(i + 1).find(|t| !is_blank(t));
            let name = next.filter(|t| matches!(t.token, Token::Word(_)));
            match name.and_then(|name| self.lines.byte(name.span.start)) {
                Some(at) if keyword(token) == Some(Keyword::TABLE) && before.is_none_or(begins_query) => {
                    names.push(at);
                    for new in [Token::make_keyword("SELECT"), Token::Mul, Token::make_keyword("FROM")] {
                        expanded.push(TokenWithSpan::new(new, token.span));
                    }
                }
                Some(_) | None => expanded.push(token.clone()),
            }
            if !is_blank(token) {
                before = Some(token);
            }
        }
        self.tokens = expanded;
        names
    }

    /// Parses all of the piece with `parse`.
    ///
    /// sqlparser recurses with frames of tens of kilobytes. What is nested little is parsed here; for
    /// the rest a thread with a stack of its own is made, so that no text, whatever thread it is read
    /// on, can overflow a stack, which would end the process.
    pub(crate) fn parse<T: Send>(
        &self,
        parse: impl Fn(&mut Parser<'_>) -> Result<T, ParserError> + Sync,
    ) -> Result<T, SyntaxError> {
        match self.parse_within(SHALLOW_RECURSIONS, &parse) {
            Err(Failure::Parser(ParserError::RecursionLimitExceeded)) => {}
            Ok(tree) => return Ok(tree),
            Err(failure) => return Err(self.failed(&failure)),
        }
        let recursions = self.depth_max.saturating_mul(RECURSIONS_PER_LEVEL);
        let stack = recursions.saturating_mul(STACK_BYTES_PER_RECURSION);
        let parsed = std::thread::scope(|scope| {
            let work = || self.parse_within(recursions, &parse);
            let thread = std::thread::Builder::new().stack_size(stack).spawn_scoped(scope, work).ok()?;
            thread.join().ok()
        });
        match parsed {
            Some(Ok(tree)) => Ok(tree),
            Some(Err(failure)) => Err(self.failed(&failure)),
            None => Err(self.too_deep()),
        }
    }

    fn parse_within<T>(
        &self,
        recursions: usize,
        parse: impl Fn(&mut Parser<'_>) -> Result<T, ParserError>,
    ) -> Result<T, Failure> {
        let mut parser =
            Parser::new(&DIALECT).with_recursion_limit(recursions).with_tokens_with_locations(self.tokens.clone());
        let tree = parse(&mut parser).map_err(Failure::Parser)?;
        let next = parser.peek_token_ref();
        if next.token == Token::EOF { Ok(tree) } else { Err(Failure::Rest(next.span.start)) }
    }

    fn failed(&self, failure: &Failure) -> SyntaxError {
        match failure {
            Failure::Rest(location) => self.unexpected_at(self.byte(*location)),
            Failure::Parser(ParserError::TokenizerError(text) | ParserError::ParserError(text)) => {
                let at = location_in(text).and_then(|location| self.lines.byte(location)).unwrap_or(self.text.len());
                self.unexpected_at(at)
            }
            Failure::Parser(ParserError::RecursionLimitExceeded) => self.too_deep(),
        }
    }

    fn too_deep(&self) -> SyntaxError {
        SyntaxError::Limit { limit: Limit::Depth, max: self.depth_max, span: self.span() }
    }

    /// A syntax error at the token that begins at byte `at` of the piece.
    pub(crate) fn unexpected_at(&self, at: usize) -> SyntaxError {
        let rest = self.text.get(at..).unwrap_or_default();
        let (found, len) = found(rest);
        SyntaxError::Unexpected { found, hint: None, span: self.span_of(at..at + len) }
    }

    /// The byte of the piece at `location`; its end for the empty location, which end of file has.
    pub(crate) fn byte(&self, location: Location) -> usize {
        self.lines.byte(location).unwrap_or(self.text.len())
    }

    /// The span, in the whole text, of bytes of the piece.
    pub(crate) fn span_of(&self, bytes: Range<usize>) -> Span {
        let place = |byte: usize| u32::try_from(self.offset + byte).unwrap_or(u32::MAX);
        Span::new(place(bytes.start), place(bytes.end))
    }

    /// The span of what lies between two locations, the second excluded; the piece where they are empty.
    pub(crate) fn span_between(&self, start: Location, end: Location) -> Span {
        match (self.lines.byte(start), self.lines.byte(end)) {
            (Some(start), Some(end)) if start <= end => self.span_of(start..end),
            (_, _) => self.span(),
        }
    }

    /// The bytes of the piece that `ident` takes up. Checked against the text: an offset that is off by
    /// one would make a rename rewrite something else.
    pub(crate) fn ident_bytes(&self, ident: &Ident) -> Result<Range<usize>, SyntaxError> {
        let span = ident.span;
        let (start, end) = (self.lines.byte(span.start), self.lines.byte(span.end));
        if let (Some(start), Some(end)) = (start, end)
            && let Some(written) = self.text.get(start..end)
        {
            let same = match ident.quote_style {
                None => written == ident.value,
                Some(_) => {
                    let inner = written.strip_prefix('"').and_then(|w| w.strip_suffix('"'));
                    inner.is_some_and(|w| w.replace("\"\"", "\"") == ident.value)
                }
            };
            if same {
                return Ok(start..end);
            }
        }
        Err(SyntaxError::unsupported(
            "this spelling of a name",
            "Write the name on one line, without escapes.",
            self.span(),
        ))
    }

    /// Refuses a string, which sqlparser takes for a name in places.
    pub(crate) fn check_label(&self, ident: &Ident) -> Result<(), SyntaxError> {
        match ident.quote_style {
            None => Ok(()),
            Some('"') if !ident.value.is_empty() => Ok(()),
            Some(_) => Err(self.unexpected_at(self.byte(ident.span.start))),
        }
    }

    /// The same, and a reserved word, which PostgreSQL takes for a name only after a dot.
    pub(crate) fn check_name<'i>(&self, idents: impl IntoIterator<Item = &'i Ident>) -> Result<(), SyntaxError> {
        for (i, ident) in idents.into_iter().enumerate() {
            self.check_label(ident)?;
            if i == 0 && ident.quote_style.is_none() && is_reserved(&ident.value.to_ascii_lowercase()) {
                return Err(self.unexpected_at(self.byte(ident.span.start)));
            }
        }
        Ok(())
    }

    /// The span, in the whole text, of `ident`.
    pub(crate) fn ident_span(&self, ident: &Ident) -> Span {
        self.span_between(ident.span.start, ident.span.end)
    }
}

/// Why sqlparser did not read all of a piece.
enum Failure {
    Parser(ParserError),
    /// It stopped before the token there.
    Rest(Location),
}

/// What `ident` names: folded, A to Z only, unless it was quoted.
pub(crate) fn ident_text(ident: &Ident) -> String {
    match ident.quote_style {
        None => ident.value.to_ascii_lowercase(),
        Some(_) => ident.value.clone(),
    }
}

/// The key word that `token` is, if it is one.
pub(super) fn keyword(token: &TokenWithSpan) -> Option<Keyword> {
    let Token::Word(word) = &token.token else { return None };
    word.quote_style.is_none().then_some(word.keyword)
}

/// Whether a query may begin after `token`.
fn begins_query(token: &TokenWithSpan) -> bool {
    matches!(token.token, Token::LParen | Token::RParen)
        || matches!(
            keyword(token),
            Some(Keyword::UNION | Keyword::EXCEPT | Keyword::INTERSECT | Keyword::ALL | Keyword::DISTINCT)
        )
}

/// The place that sqlparser writes at the end of its messages: `… at Line: 2, Column: 3`.
fn location_in(message: &str) -> Option<Location> {
    let tail = message.get(message.rfind("Line: ")? + "Line: ".len()..)?;
    let (line, column) = tail.split_once(", Column: ")?;
    let digits = column.split(|c: char| !c.is_ascii_digit()).next()?;
    Some(Location { line: line.parse().ok()?, column: digits.parse().ok()? })
}

/// What a message may say of the token that `rest` begins with, and how many bytes long it is.
fn found(rest: &str) -> (Found, usize) {
    let word = |text: &str| {
        text.char_indices()
            .find(|(_, c)| !(c.is_ascii_alphanumeric() || matches!(c, '_' | '$') || !c.is_ascii()))
            .map_or(text.len(), |(at, _)| at)
    };
    let mut chars = rest.chars();
    let Some(first) = chars.next() else { return (Found::End, 0) };
    let second = chars.next();
    if first == '\''
        || first == '$'
        || (matches!(first, 'e' | 'E' | 'b' | 'B' | 'x' | 'X' | 'n' | 'N') && second == Some('\''))
    {
        // How long it is could be read from nothing but the literal.
        return (Found::Class("a string literal"), first.len_utf8());
    }
    if matches!(first, 'u' | 'U') && second == Some('&') {
        return (Found::Class("a string literal"), first.len_utf8());
    }
    if first.is_ascii_digit() {
        return (Found::Class("a number"), word(rest));
    }
    if first == '"' {
        return (Found::Class("a quoted name"), first.len_utf8());
    }
    if first.is_ascii_alphabetic() || first == '_' || !first.is_ascii() {
        let len = word(rest);
        let cut = rest.char_indices().map(|(at, c)| at + c.len_utf8()).take_while(|end| *end <= len.min(63)).last();
        return (Found::Text(rest.get(..cut.unwrap_or(0)).unwrap_or_default().to_owned()), len);
    }
    (Found::Text(first.to_string()), first.len_utf8())
}
