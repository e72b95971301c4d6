//! A cursor over the tokens of one statement: what every production is written with.

mod name;
mod value;

use std::ops::Range;

use dataglot_model::{Notice, Span};

use crate::lexer::{Lexer, Token, TokenKind};
use crate::nesting::Nesting;
use crate::{Limit, ParseCx, SyntaxError};

pub(crate) use self::name::named;
pub(crate) use self::value::Given;

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
}

fn to_u32(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}
