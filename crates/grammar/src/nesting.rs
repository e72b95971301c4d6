//! How deep a statement nests and how tall a tree it becomes, counted on its tokens before anything
//! recursive sees them.
//!
//! sqlparser bounds its own recursion, but not the trees that its loops build: `a + a + a`,
//! `a::t::t`, `a UNION b UNION c` grow one level with each operator, and walking or dropping such a
//! tree recurses. So operators in a row have a limit of their own ([`crate::Limits::chain_max`]), and
//! [`Nesting::height`] bounds the tree by what cannot be got round: every level takes a token.

use crate::cursor::Parse;
use crate::lexer::{Token, TokenKind};
use crate::{Limit, Limits, SyntaxError};

/// What was counted so far.
pub(crate) struct Nesting {
    /// The open brackets, the statement itself first.
    levels: Vec<Level>,
    /// CASEs that are open, on all levels.
    cases: usize,
    /// Prefix operators (`NOT`, `-`, `INTERVAL`) in a row.
    prefixes: usize,
}

/// One bracket, or the statement.
#[derive(Clone, Copy, Default)]
struct Level {
    cases: usize,
    /// Set operations: a comma does not end their chain.
    sets: usize,
    /// Operators since the last comma, and the longest chain in a bracket since then.
    chain: usize,
    inner_chain: usize,
    /// Tokens since the last comma, and the tallest bracket since then.
    tokens: usize,
    inner_height: usize,
    /// The most of both sums before the last comma.
    chain_before: usize,
    height_before: usize,
}

impl Level {
    fn chain(&self) -> usize {
        self.sets + self.chain_before.max(self.chain + self.inner_chain)
    }

    fn height(&self) -> usize {
        self.sets + self.height_before.max(self.tokens + self.inner_height)
    }

    fn comma(&mut self) {
        self.chain_before = self.chain_before.max(self.chain + self.inner_chain);
        self.height_before = self.height_before.max(self.tokens + self.inner_height);
        (self.chain, self.inner_chain, self.tokens, self.inner_height) = (0, 0, 0, 0);
    }
}

/// What a word does to the count.
enum Role {
    Prefix,
    Operator,
    Set,
    Case,
    End,
    Other,
}

fn role(word: &str) -> Role {
    let mut lower = [0u8; 9];
    let Some(lower) = lower.get_mut(..word.len()) else { return Role::Other };
    lower.copy_from_slice(word.as_bytes());
    lower.make_ascii_lowercase();
    match &*lower {
        b"not" | b"interval" | b"explain" | b"prepare" | b"array" | b"exists" => Role::Prefix,
        b"and" | b"or" | b"xor" | b"is" | b"isnull" | b"notnull" | b"in" | b"like" | b"ilike" | b"rlike"
        | b"regexp" | b"glob" | b"match" | b"similar" | b"between" | b"overlaps" | b"member" | b"operator"
        | b"collate" | b"at" | b"div" | b"join" => Role::Operator,
        b"union" | b"except" | b"intersect" | b"minus" => Role::Set,
        b"case" => Role::Case,
        b"end" => Role::End,
        _ => Role::Other,
    }
}

impl Nesting {
    pub(crate) fn new() -> Self {
        Nesting { levels: vec![Level::default()], cases: 0, prefixes: 0 }
    }

    /// At least the height of any tree that the tokens can become.
    pub(crate) fn height(&self) -> usize {
        self.levels.iter().map(Level::height).sum()
    }

    /// Counts `token`.
    pub(crate) fn take(&mut self, sql: &str, token: Token, limits: &Limits) -> Parse<()> {
        let Some(level) = self.levels.last_mut() else { return Ok(()) };
        level.tokens += 1;
        let mut prefix = false;
        match token.kind {
            TokenKind::Punctuation(b'(' | b'{') => self.levels.push(Level::default()),
            TokenKind::Punctuation(b'[') => {
                // `int[][][]` is a chain too.
                level.chain += 1;
                self.levels.push(Level::default());
            }
            TokenKind::Punctuation(b')' | b']' | b'}') => self.close(),
            TokenKind::Punctuation(b',' | b';') => level.comma(),
            TokenKind::Operator => {
                level.chain += 1;
                prefix = true;
            }
            TokenKind::Cast => level.chain += 1,
            TokenKind::Word => match role(token.text(sql)) {
                Role::Prefix => prefix = true,
                Role::Operator => level.chain += 1,
                Role::Set => level.sets += 1,
                Role::Case => {
                    level.cases += 1;
                    self.cases += 1;
                }
                Role::End if level.cases > 0 => {
                    level.cases -= 1;
                    self.cases -= 1;
                }
                Role::End | Role::Other => {}
            },
            TokenKind::QuotedIdent
            | TokenKind::UnicodeIdent
            | TokenKind::String
            | TokenKind::EscapeString
            | TokenKind::UnicodeString
            | TokenKind::DollarString
            | TokenKind::BitString
            | TokenKind::Integer
            | TokenKind::Decimal
            | TokenKind::Parameter
            | TokenKind::Punctuation(_)
            | TokenKind::End => {}
        }
        self.prefixes = if prefix { self.prefixes + 1 } else { 0 };
        let over = |limit, max| Err(SyntaxError::Limit { limit, max, span: token.span() });
        if self.levels.last().is_some_and(|level| level.chain() > limits.chain_max) {
            return over(Limit::Chain, limits.chain_max);
        }
        if self.levels.len() - 1 + self.cases + self.prefixes > limits.depth_max {
            return over(Limit::Depth, limits.depth_max);
        }
        Ok(())
    }

    /// A bracket that was never opened closes nothing.
    fn close(&mut self) {
        if self.levels.len() < 2 {
            return;
        }
        if let Some(inner) = self.levels.pop()
            && let Some(outer) = self.levels.last_mut()
        {
            self.cases -= inner.cases;
            outer.inner_chain = outer.inner_chain.max(inner.chain());
            outer.inner_height = outer.inner_height.max(inner.height());
        }
    }
}
