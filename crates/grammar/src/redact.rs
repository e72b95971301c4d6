//! A statement's text without its literals, for logs: names and key words stay, values do not.

use crate::lexer::{Lexer, TokenKind};

/// What stands for a literal.
const HIDDEN: &str = "'…'";

/// `sql` with every string and number replaced by `'…'`. From where it cannot be read on, nothing of it is
/// left.
pub fn without_literals(sql: &str) -> String {
    let mut lexer = Lexer::new(sql, 0..sql.len());
    let mut out = String::with_capacity(sql.len());
    let mut copied = 0;
    loop {
        let Ok(token) = lexer.next_token() else {
            if !out.is_empty() {
                out.push(' ');
            }
            out.push_str(HIDDEN);
            return out;
        };
        let (start, end) = (token.start as usize, token.end as usize);
        // What stands between two tokens are blanks and comments, and a comment may hold anything.
        if start > copied && !out.is_empty() {
            out.push(' ');
        }
        match token.kind {
            TokenKind::String
            | TokenKind::EscapeString
            | TokenKind::UnicodeString
            | TokenKind::DollarString
            | TokenKind::BitString
            | TokenKind::Integer
            | TokenKind::Decimal => out.push_str(HIDDEN),
            TokenKind::Word
            | TokenKind::QuotedIdent
            | TokenKind::UnicodeIdent
            | TokenKind::Parameter
            | TokenKind::Punctuation(_)
            | TokenKind::Cast
            | TokenKind::Operator => out.push_str(token.text(sql)),
            TokenKind::End => return out.trim_end().to_owned(),
        }
        copied = end;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(sql: &str, want: &str) {
        assert_eq!(without_literals(sql), want);
    }

    #[test]
    fn literals_go_and_names_stay() {
        check("GRANT r1, r2 TO \"u 1\" WITH ADMIN OPTION", "GRANT r1, r2 TO \"u 1\" WITH ADMIN OPTION");
        check(
            "CREATE CATALOG c USING mock WITH (a = 'x''y', b = 5)",
            "CREATE CATALOG c USING mock WITH (a = '…', b = '…')",
        );
        check(
            "SELECT E'a\\'b', U&'\\0041', $$x$$, $t$y$t$, B'01', 1.5e3 /* canary */ -- canary",
            "SELECT '…', '…', '…', '…', '…', '…'",
        );
        check("SELECT a::int", "SELECT a::int");
        check("", "");
    }

    #[test]
    fn what_cannot_be_read_is_left_out() {
        check("CREATE ROLE a PASSWORD 'canary", "CREATE ROLE a PASSWORD '…'");
        check("CREATE ROLE \"canary", "CREATE ROLE '…'");
    }
}
