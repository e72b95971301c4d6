//! What is wrong with a text, as its author is told of it.
//!
//! No message, detail or hint holds a literal of the text: a token that could be one is named by its
//! class. Key words, operators, names and option keys are repeated, since they say what to look at.

use std::borrow::Cow;

use dataglot_model::{NameError, Problem, Span, SqlState};

use crate::lexer::{Token, TokenKind};

/// A text that is no statement of ours, or one that asks for what is not there.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SyntaxError {
    /// A token that cannot stand where it stands.
    #[error("syntax error at {found}")]
    Unexpected {
        /// What stands there.
        found: Found,
        /// What to do about it.
        hint: Option<Cow<'static, str>>,
        /// Where.
        span: Span,
    },
    /// A string, comment or quoted name without an end.
    #[error("unterminated {what}")]
    Unterminated {
        /// What has no end.
        what: &'static str,
        /// Where it begins.
        span: Span,
    },
    /// A name that is not one.
    #[error("{error}")]
    Name {
        /// Which rule it breaks.
        error: NameError,
        /// Where it stands.
        span: Span,
    },
    /// A clause that was there already.
    #[error("conflicting or redundant options")]
    Redundant {
        /// Where it stands for the second time.
        span: Span,
    },
    /// An option that was there already.
    #[error("option \"{key}\" provided more than once")]
    DuplicateOption {
        /// Its key.
        key: String,
        /// Where it stands for the second time.
        span: Span,
    },
    /// An option whose literal value is a credential.
    #[error("option \"{key}\" would hold a credential")]
    InlineCredential {
        /// Its key.
        key: String,
        /// The object that the hint names a secret after.
        object: String,
        /// Where the value stands.
        span: Span,
    },
    /// More than a limit allows.
    #[error("{limit} exceeded: at most {max} {unit} are allowed", unit = .limit.unit())]
    Limit {
        /// Which limit.
        limit: Limit,
        /// How much it allows.
        max: usize,
        /// Where it was passed.
        span: Span,
    },
    /// A statement or clause that is known and not done.
    #[error("{what} is not supported")]
    Unsupported {
        /// The statement or clause.
        what: Cow<'static, str>,
        /// What to use instead.
        hint: Option<Cow<'static, str>>,
        /// Where it stands.
        span: Span,
    },
    /// Anything else that is wrong with a well-formed text.
    #[error("{message}")]
    Invalid {
        /// Its SQLSTATE.
        sqlstate: SqlState,
        /// The message. Never holds a literal.
        message: Cow<'static, str>,
        /// What to do about it.
        hint: Option<Cow<'static, str>>,
        /// Where.
        span: Span,
    },
}

/// What stands where something else was wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// A word, operator or punctuation mark, which may be repeated.
    Text(String),
    /// A literal of that class, which may not.
    Class(&'static str),
    /// Nothing.
    End,
}

impl std::fmt::Display for Found {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Found::Text(text) => write!(f, "or near \"{text}\""),
            Found::Class(class) => write!(f, "or near {class}"),
            Found::End => f.write_str("end of input"),
        }
    }
}

/// The limits on a text, by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// `script_bytes_max`
    ScriptBytes,
    /// `statement_bytes_max`
    StatementBytes,
    /// `tokens_max`
    Tokens,
    /// `chain_max`
    Chain,
    /// `depth_max`
    Depth,
}

impl Limit {
    /// Its name, as settings spell it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Limit::ScriptBytes => "script_bytes_max",
            Limit::StatementBytes => "statement_bytes_max",
            Limit::Tokens => "tokens_max",
            Limit::Chain => "chain_max",
            Limit::Depth => "depth_max",
        }
    }

    const fn unit(self) -> &'static str {
        match self {
            Limit::ScriptBytes | Limit::StatementBytes => "bytes",
            Limit::Tokens => "tokens",
            Limit::Chain => "operators in a row",
            Limit::Depth => "levels",
        }
    }
}

impl std::fmt::Display for Limit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Limit::ScriptBytes => "query string size limit (script_bytes_max)",
            Limit::StatementBytes => "statement size limit (statement_bytes_max)",
            Limit::Tokens => "statement token limit (tokens_max)",
            Limit::Chain => "operator chain limit (chain_max)",
            Limit::Depth => "nesting depth limit (depth_max)",
        })
    }
}

/// Longest piece of the text that a message repeats, in bytes.
const FOUND_BYTES_MAX: usize = 63;

impl SyntaxError {
    /// `token` cannot stand where it stands.
    pub(crate) fn unexpected(sql: &str, token: Token) -> Self {
        SyntaxError::Unexpected { found: found(sql, token), hint: None, span: token.span() }
    }

    /// The text ends too early; `at` is its last byte's end.
    pub(crate) fn end(at: u32) -> Self {
        SyntaxError::Unexpected { found: Found::End, hint: None, span: Span::new(at, at) }
    }

    /// Known, but not done.
    pub(crate) fn unsupported(what: impl Into<Cow<'static, str>>, hint: &'static str, span: Span) -> Self {
        let hint = if hint.is_empty() { None } else { Some(Cow::Borrowed(hint)) };
        SyntaxError::Unsupported { what: what.into(), hint, span }
    }

    /// Well-formed, and wrong.
    pub(crate) fn invalid(sqlstate: SqlState, message: impl Into<Cow<'static, str>>, span: Span) -> Self {
        SyntaxError::Invalid { sqlstate, message: message.into(), hint: None, span }
    }

    /// The same error with another hint, where its kind has one.
    pub(crate) fn with_hint(mut self, text: impl Into<Cow<'static, str>>) -> Self {
        match &mut self {
            SyntaxError::Unexpected { hint, .. }
            | SyntaxError::Unsupported { hint, .. }
            | SyntaxError::Invalid { hint, .. } => *hint = Some(text.into()),
            SyntaxError::Unterminated { .. }
            | SyntaxError::Name { .. }
            | SyntaxError::Redundant { .. }
            | SyntaxError::DuplicateOption { .. }
            | SyntaxError::InlineCredential { .. }
            | SyntaxError::Limit { .. } => {}
        }
        self
    }
}

/// How a message names `token`: by its text only where it cannot be a literal.
fn found(sql: &str, token: Token) -> Found {
    let text = || {
        let text = token.text(sql);
        let cut = text.char_indices().map(|(at, c)| at + c.len_utf8()).take_while(|end| *end <= FOUND_BYTES_MAX).last();
        Found::Text(text.get(..cut.unwrap_or(0)).unwrap_or_default().to_owned())
    };
    match token.kind {
        TokenKind::Word | TokenKind::Parameter | TokenKind::Punctuation(_) | TokenKind::Cast | TokenKind::Operator => {
            text()
        }
        // Often a string in the wrong quotes.
        TokenKind::QuotedIdent | TokenKind::UnicodeIdent => Found::Class("a quoted name"),
        TokenKind::Integer | TokenKind::Decimal => Found::Class("a number"),
        TokenKind::String
        | TokenKind::EscapeString
        | TokenKind::UnicodeString
        | TokenKind::DollarString
        | TokenKind::BitString => Found::Class("a string literal"),
        TokenKind::End => Found::End,
    }
}

impl Problem for SyntaxError {
    fn sqlstate(&self) -> SqlState {
        match self {
            SyntaxError::Unexpected { .. } | SyntaxError::Unterminated { .. } | SyntaxError::Redundant { .. } => {
                SqlState::SyntaxError
            }
            SyntaxError::Name { error, .. } => error.sqlstate(),
            SyntaxError::DuplicateOption { .. } => SqlState::DuplicateObject,
            SyntaxError::InlineCredential { .. } => SqlState::InsufficientPrivilege,
            SyntaxError::Limit { limit, .. } => match limit {
                Limit::ScriptBytes | Limit::StatementBytes => SqlState::ProgramLimitExceeded,
                Limit::Tokens | Limit::Chain | Limit::Depth => SqlState::StatementTooComplex,
            },
            SyntaxError::Unsupported { .. } => SqlState::FeatureNotSupported,
            SyntaxError::Invalid { sqlstate, .. } => *sqlstate,
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            SyntaxError::Unexpected { hint, .. }
            | SyntaxError::Unsupported { hint, .. }
            | SyntaxError::Invalid { hint, .. } => hint.as_ref().map(|h| h.clone().into_owned()),
            SyntaxError::Name { error, .. } => error.hint(),
            SyntaxError::InlineCredential { key, object, .. } => Some(credential_hint(key, object)),
            SyntaxError::Limit { limit, .. } => {
                Some(format!("Split the statement, or raise the setting {} of the server.", limit.as_str()))
            }
            SyntaxError::Unterminated { .. } | SyntaxError::Redundant { .. } | SyntaxError::DuplicateOption { .. } => {
                None
            }
        }
    }

    fn span(&self) -> Option<Span> {
        match self {
            SyntaxError::Unexpected { span, .. }
            | SyntaxError::Unterminated { span, .. }
            | SyntaxError::Name { span, .. }
            | SyntaxError::Redundant { span }
            | SyntaxError::DuplicateOption { span, .. }
            | SyntaxError::InlineCredential { span, .. }
            | SyntaxError::Limit { span, .. }
            | SyntaxError::Unsupported { span, .. }
            | SyntaxError::Invalid { span, .. } => Some(*span),
        }
    }
}

/// The two statements to write instead of an inline credential.
fn credential_hint(key: &str, object: &str) -> String {
    let secret: String = format!("{object}_{key}")
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '_' })
        .take(dataglot_model::NAME_BYTES_MAX)
        .collect();
    let secret = dataglot_model::quote_ident(&secret);
    let key = dataglot_model::quote_ident(key);
    format!("Write CREATE SECRET {secret} AS '...'; and then the option as {key} = SECRET {secret}.")
}
