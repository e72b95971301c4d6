//! A cursor over the tokens of one statement: what every production is written with.

use std::ops::Range;

use dataglot_model::command::{CommentText, GranteeSpec, RoleSpec};
use dataglot_model::{
    At, ColumnRef, Name, NameError, Notice, RemoteName, SchemaRef, Sensitive, Span, SqlState, TableRef, Timestamp,
    is_reserved,
};

use crate::lexer::{Lexer, Token, TokenKind};
use crate::literal;
use crate::nesting::Nesting;
use crate::{Found, Limit, Parameters, ParseCx, SyntaxError};

/// The tokens of one statement, and how far they were read.
pub(crate) struct Cursor<'a> {
    pub(crate) sql: &'a str,
    pub(crate) cx: &'a ParseCx<'a>,
    tokens: Vec<Token>,
    at: usize,
    parameters: u16,
    height: usize,
    pub(crate) notices: Vec<Notice>,
}

/// A value that a statement gives: a literal, or what a placeholder stands for.
pub(crate) enum Given {
    /// A text.
    Text(String),
    /// NULL, bound to a placeholder.
    Null,
    /// A placeholder whose value comes later: not to be judged.
    Later,
}

pub(crate) type Parse<T> = Result<T, SyntaxError>;

impl<'a> Cursor<'a> {
    /// Reads the statement's tokens and checks the limits on them.
    pub(crate) fn new(sql: &'a str, range: Range<usize>, cx: &'a ParseCx<'a>) -> Parse<Self> {
        let limits = cx.limits;
        if range.len() > limits.statement_bytes_max {
            let over = range.start.saturating_add(limits.statement_bytes_max);
            let span = Span::new(to_u32(over), to_u32(range.end));
            return Err(SyntaxError::Limit { limit: Limit::StatementBytes, max: limits.statement_bytes_max, span });
        }
        let mut lexer = Lexer::new(sql, range);
        let mut tokens = Vec::with_capacity(16);
        let mut nesting = Nesting::new();
        loop {
            let token = lexer.next_token()?;
            if tokens.len() >= limits.tokens_max && token.kind != TokenKind::End {
                return Err(SyntaxError::Limit { limit: Limit::Tokens, max: limits.tokens_max, span: token.span() });
            }
            nesting.take(sql, token, limits)?;
            tokens.push(token);
            if token.kind == TokenKind::End {
                let height = nesting.height();
                return Ok(Cursor { sql, cx, tokens, at: 0, parameters: 0, height, notices: Vec::new() });
            }
        }
    }

    /// At least the height of any tree that the statement can become.
    pub(crate) fn height(&self) -> usize {
        self.height
    }

    /// The highest placeholder so far.
    pub(crate) fn parameters(&self) -> u16 {
        self.parameters
    }

    pub(crate) fn peek(&self) -> Token {
        self.peek_nth(0)
    }

    pub(crate) fn peek_nth(&self, n: usize) -> Token {
        let end = Token { kind: TokenKind::End, start: to_u32(self.sql.len()), end: to_u32(self.sql.len()) };
        self.tokens.get(self.at + n).or(self.tokens.last()).copied().unwrap_or(end)
    }

    pub(crate) fn bump(&mut self) -> Token {
        let token = self.peek();
        if token.kind != TokenKind::End {
            self.at += 1;
        }
        token
    }

    /// Gives back the last token.
    pub(crate) fn step_back(&mut self) {
        self.at = self.at.saturating_sub(1);
    }

    /// Where the last token ended.
    pub(crate) fn last_end(&self) -> u32 {
        self.at.checked_sub(1).and_then(|at| self.tokens.get(at)).map_or(0, |t| t.end)
    }

    /// A place to come back to with [`Cursor::rewind`].
    pub(crate) fn mark(&self) -> usize {
        self.at
    }

    pub(crate) fn rewind(&mut self, mark: usize) {
        self.at = mark;
    }

    /// From `start` to the end of the last token.
    pub(crate) fn since(&self, start: u32) -> Span {
        Span::new(start, self.last_end().max(start))
    }

    /// The next token cannot stand here.
    pub(crate) fn unexpected(&self) -> SyntaxError {
        let token = self.peek();
        if token.kind == TokenKind::End {
            SyntaxError::end(token.start)
        } else {
            SyntaxError::unexpected(self.sql, token)
        }
    }

    pub(crate) fn is(&self, word: &str) -> bool {
        self.peek().is(self.sql, word)
    }

    pub(crate) fn nth_is(&self, n: usize, word: &str) -> bool {
        self.peek_nth(n).is(self.sql, word)
    }

    /// Whether the next tokens are these words.
    pub(crate) fn are(&self, words: &[&str]) -> bool {
        words.iter().enumerate().all(|(n, word)| self.nth_is(n, word))
    }

    /// Takes these words if they come next, all of them or none.
    pub(crate) fn accept(&mut self, words: &[&str]) -> bool {
        let there = self.are(words);
        if there {
            self.at += words.len();
        }
        there
    }

    pub(crate) fn expect(&mut self, words: &[&str]) -> Parse<()> {
        for word in words {
            if !self.accept(&[word]) {
                return Err(self.unexpected());
            }
        }
        Ok(())
    }

    /// Takes the one of `words` that comes next.
    pub(crate) fn accept_one<'w>(&mut self, words: &[&'w str]) -> Option<&'w str> {
        words.iter().copied().find(|word| self.accept(&[word]))
    }

    pub(crate) fn is_mark(&self, mark: u8) -> bool {
        self.peek().kind == TokenKind::Punctuation(mark)
    }

    pub(crate) fn accept_mark(&mut self, mark: u8) -> bool {
        let there = self.is_mark(mark);
        if there {
            self.at += 1;
        }
        there
    }

    pub(crate) fn expect_mark(&mut self, mark: u8) -> Parse<()> {
        if self.accept_mark(mark) { Ok(()) } else { Err(self.unexpected()) }
    }

    pub(crate) fn is_operator(&self, text: &str) -> bool {
        let token = self.peek();
        token.kind == TokenKind::Operator && token.text(self.sql) == text
    }

    pub(crate) fn accept_operator(&mut self, text: &str) -> bool {
        let there = self.is_operator(text);
        if there {
            self.at += 1;
        }
        there
    }

    pub(crate) fn at_end(&self) -> bool {
        self.peek().kind == TokenKind::End
    }

    pub(crate) fn expect_end(&self) -> Parse<()> {
        if self.at_end() { Ok(()) } else { Err(self.unexpected()) }
    }

    /// `item {"," item}`
    pub(crate) fn list<T>(&mut self, mut item: impl FnMut(&mut Self) -> Parse<T>) -> Parse<Vec<T>> {
        let mut items = vec![item(self)?];
        while self.accept_mark(b',') {
            items.push(item(self)?);
        }
        Ok(items)
    }

    /// What lies between the parenthesis that comes next and its partner, as bytes of the text; both are
    /// taken. Brackets inside are matched by token, so a parenthesis in a string counts for nothing.
    pub(crate) fn parenthesised(&mut self) -> Parse<Range<usize>> {
        let open = self.peek();
        self.expect_mark(b'(')?;
        let mut depth = 1usize;
        loop {
            let token = self.bump();
            match token.kind {
                TokenKind::Punctuation(b'(') => depth += 1,
                TokenKind::Punctuation(b')') => {
                    depth -= 1;
                    if depth == 0 {
                        return Ok(open.end as usize..token.start as usize);
                    }
                }
                TokenKind::End => return Err(SyntaxError::end(token.start)),
                _ => {}
            }
        }
    }

    /// Everything up to the end of the statement, as bytes of the text.
    pub(crate) fn rest(&mut self) -> Range<usize> {
        let start = self.peek().start as usize;
        while !self.at_end() {
            self.at += 1;
        }
        start..self.last_end().max(to_u32(start)) as usize
    }

    // --- names ---

    /// An identifier, folded unless quoted, not yet checked as a name. A reserved word is none.
    pub(crate) fn ident(&mut self) -> Parse<At<String>> {
        let token = self.peek();
        let text = match token.kind {
            TokenKind::Word => {
                let text = literal::folded(token.text(self.sql));
                if is_reserved(&text) {
                    return Err(self.unexpected());
                }
                text
            }
            TokenKind::QuotedIdent | TokenKind::UnicodeIdent => literal::quoted_ident(self.sql, token)?,
            _ => return Err(self.unexpected()),
        };
        self.at += 1;
        Ok(At::new(text, token.span()))
    }

    /// An identifier in a place where a reserved word may stand too (an option's key).
    pub(crate) fn label(&mut self) -> Parse<At<String>> {
        let token = self.peek();
        if token.kind == TokenKind::Word {
            self.at += 1;
            return Ok(At::new(literal::folded(token.text(self.sql)), token.span()));
        }
        self.ident()
    }

    pub(crate) fn name(&mut self) -> Parse<At<Name>> {
        let ident = self.ident()?;
        named(Name::new(&ident.value), ident.span)
    }

    pub(crate) fn remote_name(&mut self) -> Parse<At<RemoteName>> {
        let ident = self.ident()?;
        named(RemoteName::new(&ident.value), ident.span)
    }

    /// `ident {"." ident}`, at most `max` parts.
    pub(crate) fn dotted(&mut self, max: usize) -> Parse<At<Vec<At<String>>>> {
        let start = self.peek().start;
        let mut parts = vec![self.ident()?];
        while self.is_mark(b'.') {
            if parts.len() == max {
                let span = self.since(start);
                return Err(SyntaxError::invalid(
                    SqlState::SyntaxError,
                    format!("improper qualified name (too many dotted names): at most {max} parts are allowed"),
                    span,
                ));
            }
            self.at += 1;
            parts.push(self.ident()?);
        }
        let span = self.since(start);
        Ok(At::new(parts, span))
    }

    /// A table's name of one to three parts, resolved in full.
    pub(crate) fn table_ref(&mut self) -> Parse<At<TableRef>> {
        let parts = self.dotted(TableRef::PARTS)?;
        self.table_of(&parts.value).map(|table| At::new(table, parts.span))
    }

    /// Resolves a table's name.
    pub(crate) fn table_of(&self, parts: &[At<String>]) -> Parse<TableRef> {
        let [path_catalog, path_schema] = self.cx.search_path.parts();
        let whole = match parts {
            [t] => [path_catalog, path_schema, t.as_str()],
            [s, t] => [path_catalog, s.as_str(), t.as_str()],
            [c, s, t] => [c.as_str(), s.as_str(), t.as_str()],
            _ => return Err(self.unexpected()),
        };
        check_parts(parts)?;
        let span = parts.last().map(|p| p.span).unwrap_or_default();
        named(TableRef::from_parts(whole), span).map(|t| t.value)
    }

    /// A view's name: each part of it is a name of ours.
    pub(crate) fn view_ref(&mut self) -> Parse<At<TableRef>> {
        let parts = self.dotted(TableRef::PARTS)?;
        for part in &parts.value {
            named(Name::new(&part.value), part.span)?;
        }
        self.table_of(&parts.value).map(|table| At::new(table, parts.span))
    }

    /// `schema` or `catalog.schema`.
    pub(crate) fn schema_ref(&mut self) -> Parse<At<SchemaRef>> {
        let parts = self.dotted(SchemaRef::PARTS)?;
        check_parts(&parts.value)?;
        let [path_catalog, _] = self.cx.search_path.parts();
        let whole = match parts.value.as_slice() {
            [s] => [path_catalog, s.as_str()],
            [c, s] => [c.as_str(), s.as_str()],
            _ => return Err(self.unexpected()),
        };
        named(SchemaRef::from_parts(whole), parts.span)
    }

    /// A column's name of two to four parts.
    pub(crate) fn column_ref(&mut self) -> Parse<At<ColumnRef>> {
        let parts = self.dotted(ColumnRef::PARTS)?;
        let (column, table) = match parts.value.split_last() {
            Some((column, table)) if !table.is_empty() => (column, table),
            _ => {
                return Err(SyntaxError::invalid(SqlState::SyntaxError, "column name must be qualified", parts.span)
                    .with_hint("Write it as table.column."));
            }
        };
        let table = self.table_of(table)?;
        let column = named(RemoteName::new(&column.value), column.span)?;
        Ok(At::new(ColumnRef::new(&table, &column.value), parts.span))
    }

    pub(crate) fn role_spec(&mut self) -> Parse<At<RoleSpec>> {
        let token = self.peek();
        for (word, spec) in [
            ("CURRENT_USER", RoleSpec::CurrentUser),
            ("CURRENT_ROLE", RoleSpec::CurrentRole),
            ("SESSION_USER", RoleSpec::SessionUser),
        ] {
            if self.accept(&[word]) {
                return Ok(At::new(spec, token.span()));
            }
        }
        if self.is("PUBLIC") {
            return Err(SyntaxError::invalid(
                SqlState::UndefinedObject,
                "role \"public\" does not exist",
                token.span(),
            ));
        }
        Ok(self.name()?.map(RoleSpec::Name))
    }

    pub(crate) fn role_list(&mut self) -> Parse<Vec<At<RoleSpec>>> {
        self.list(Self::role_spec)
    }

    /// `[USER | ROLE | GROUP] role | PUBLIC`
    pub(crate) fn grantee(&mut self) -> Parse<At<GranteeSpec>> {
        let token = self.peek();
        if self.accept(&["PUBLIC"]) {
            return Ok(At::new(GranteeSpec::Public, token.span()));
        }
        self.skip_role_word();
        Ok(self.role_spec()?.map(GranteeSpec::Role))
    }

    /// USER, ROLE or GROUP before a role's name says nothing that the name does not. ROLE may be a name
    /// itself: it is one where a clause follows and no name.
    pub(crate) fn skip_role_word(&mut self) {
        const CLAUSES: &[&str] =
            &["GRANTED", "CASCADE", "RESTRICT", "PRIORITY", "COMMENT", "ENABLE", "DISABLE", "LIKE", "PASSWORD"];
        let next = self.peek_nth(1);
        let name_follows = match next.kind {
            TokenKind::QuotedIdent | TokenKind::UnicodeIdent => true,
            TokenKind::Word => {
                ["CURRENT_USER", "CURRENT_ROLE", "SESSION_USER"].iter().any(|w| next.is(self.sql, w))
                    || !(is_reserved(&literal::folded(next.text(self.sql)))
                        || CLAUSES.iter().any(|w| next.is(self.sql, w)))
            }
            _ => false,
        };
        if self.is("USER") || self.is("GROUP") || (name_follows && self.is("ROLE")) {
            self.at += 1;
        }
    }

    pub(crate) fn grantee_list(&mut self) -> Parse<Vec<At<GranteeSpec>>> {
        self.list(Self::grantee)
    }

    // --- values ---

    pub(crate) fn is_string(&self) -> bool {
        literal::is_string(self.peek().kind)
    }

    /// A string literal.
    pub(crate) fn string(&mut self) -> Parse<At<String>> {
        let token = self.peek();
        if !literal::is_string(token.kind) {
            return Err(self.unexpected());
        }
        self.at += 1;
        Ok(At::new(literal::string(self.sql, token)?, token.span()))
    }

    /// `$n`, if one comes next.
    pub(crate) fn placeholder(&mut self) -> Parse<Option<At<Given>>> {
        let token = self.peek();
        if token.kind != TokenKind::Parameter {
            return Ok(None);
        }
        self.at += 1;
        let number: u16 = token.text(self.sql).get(1..).and_then(|n| n.parse().ok()).unwrap_or(0);
        let missing = || {
            SyntaxError::invalid(SqlState::UndefinedObject, format!("there is no parameter ${number}"), token.span())
        };
        if number == 0 {
            return Err(missing());
        }
        self.parameters = self.parameters.max(number);
        let given = match self.cx.parameters {
            Parameters::None => return Err(missing()),
            Parameters::Describe => Given::Later,
            Parameters::Bound(values) => match values.get(usize::from(number) - 1) {
                None => return Err(missing()),
                Some(None) => Given::Null,
                Some(Some(value)) => Given::Text(value.open().to_owned()),
            },
        };
        Ok(Some(At::new(given, token.span())))
    }

    /// Whether what stood at `span` is a placeholder whose value comes later.
    pub(crate) fn is_later(&self, span: Span) -> bool {
        // Nothing else begins so: the tag of a dollar-quoted string has no digit first.
        let mut bytes = self.sql.as_bytes().iter().skip(span.start as usize).copied();
        matches!(self.cx.parameters, Parameters::Describe)
            && bytes.next() == Some(b'$')
            && bytes.next().is_some_and(|b| b.is_ascii_digit())
    }

    /// A string literal or placeholder.
    pub(crate) fn given(&mut self) -> Parse<At<Given>> {
        match self.placeholder()? {
            Some(given) => Ok(given),
            None => Ok(self.string()?.map(Given::Text)),
        }
    }

    /// A string literal or placeholder whose value must not be NULL. What comes later is the empty text.
    pub(crate) fn text(&mut self) -> Parse<At<String>> {
        let given = self.given()?;
        let text = match given.value {
            Given::Text(text) => text,
            Given::Later => String::new(),
            Given::Null => return Err(null_value(given.span)),
        };
        Ok(At::new(text, given.span))
    }

    /// A credential: a string literal or placeholder.
    pub(crate) fn sensitive(&mut self) -> Parse<At<Sensitive>> {
        self.expect_credential()?;
        Ok(self.text()?.map(Sensitive::new))
    }

    /// Where a credential has to come next and something else does, that may be the credential, written
    /// without quotes or in the wrong ones: it is not repeated.
    pub(crate) fn expect_credential(&self) -> Parse<()> {
        let token = self.peek();
        if self.is_string() || token.kind == TokenKind::Parameter || token.kind == TokenKind::End {
            return Ok(());
        }
        let hint = "Write it as a string literal, in single quotes.";
        Err(SyntaxError::Unexpected { found: Found::Class("a word"), hint: Some(hint.into()), span: token.span() })
    }

    /// `'text' | NULL` as in COMMENT.
    pub(crate) fn comment_text(&mut self) -> Parse<CommentText> {
        if self.accept(&["NULL"]) {
            return Ok(CommentText::Remove);
        }
        Ok(match self.given()?.value {
            Given::Text(text) => CommentText::Set(text),
            Given::Later => CommentText::Set(String::new()),
            Given::Null => CommentText::Remove,
        })
    }

    /// A whole number with an optional sign, within the bounds of `T`.
    pub(crate) fn integer<T: TryFrom<i64> + Default>(&mut self) -> Parse<At<T>> {
        let start = self.peek().start;
        if let Some(given) = self.placeholder()? {
            let number = match given.value {
                Given::Later => return Ok(At::new(T::default(), given.span)),
                Given::Null => return Err(null_value(given.span)),
                Given::Text(text) => text.trim().parse::<i64>().ok(),
            };
            let invalid =
                || SyntaxError::invalid(SqlState::InvalidTextRepresentation, "parameter is not an integer", given.span);
            let value = number.and_then(|n| T::try_from(n).ok()).ok_or_else(invalid)?;
            return Ok(At::new(value, given.span));
        }
        let negative = self.accept_operator("-");
        if !negative {
            self.accept_operator("+");
        }
        let token = self.peek();
        if token.kind != TokenKind::Integer {
            return Err(self.unexpected());
        }
        self.at += 1;
        let span = self.since(start);
        let digits = token.text(self.sql).parse::<i64>().ok().map(|n| if negative { -n } else { n });
        let out = || SyntaxError::invalid(SqlState::NumericValueOutOfRange, "integer out of range", span);
        Ok(At::new(digits.and_then(|n| T::try_from(n).ok()).ok_or_else(out)?, span))
    }

    /// A point in time: a string literal or placeholder.
    pub(crate) fn timestamp(&mut self) -> Parse<At<Timestamp>> {
        let given = self.given()?;
        let at = match &given.value {
            Given::Later => Timestamp::INFINITY,
            Given::Null => return Err(null_value(given.span)),
            Given::Text(text) => literal::timestamp(text).ok_or_else(|| {
                SyntaxError::invalid(
                    SqlState::InvalidDatetimeFormat,
                    "invalid input syntax for type timestamp with time zone",
                    given.span,
                )
                .with_hint("Write it as '2030-12-31', '2030-12-31 23:59:59+00' or 'infinity'.")
            })?,
        };
        Ok(At::new(at, given.span))
    }
}

fn null_value(span: Span) -> SyntaxError {
    SyntaxError::invalid(SqlState::InvalidParameterValue, "parameter must not be null here", span)
}

/// Checks each part where it stands; the first is a catalog only in a full name, so the longer limit
/// holds for the others.
fn check_parts(parts: &[At<String>]) -> Parse<()> {
    for part in parts {
        named(RemoteName::new(&part.value), part.span)?;
    }
    Ok(())
}

/// A checked name at its place.
pub(crate) fn named<T>(result: Result<T, NameError>, span: Span) -> Parse<At<T>> {
    result.map(|name| At::new(name, span)).map_err(|error| SyntaxError::Name { error, span })
}

fn to_u32(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}
