//! Values: literals, and placeholders wherever one may stand.

use dataglot_model::command::CommentText;
use dataglot_model::{At, Sensitive, Span, SqlState, Timestamp};

use super::{Cursor, Parse};
use crate::lexer::TokenKind;
use crate::{Found, Parameters, SyntaxError, literal};

/// A value that a statement gives: a literal, or what a placeholder stands for.
pub(crate) enum Given {
    /// A text.
    Text(String),
    /// NULL, bound to a placeholder.
    Null,
    /// A placeholder whose value comes later: not to be judged.
    Later,
}

impl Cursor<'_> {
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
