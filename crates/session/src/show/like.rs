//! LIKE: `%` any text, `_` any one character.

use dataglot_model::SqlState;

use crate::error::SessionError;

/// Whether `text` is like `pattern`. `escape` takes its meaning from the character after it.
///
/// # Errors
/// 22025: the pattern ends with the escape character.
pub(crate) fn matches(text: &str, pattern: &str, escape: Option<char>) -> Result<bool, SessionError> {
    let mut parts = Vec::new();
    let mut chars = pattern.chars();
    while let Some(c) = chars.next() {
        parts.push(if Some(c) == escape {
            Part::Char(chars.next().ok_or_else(|| {
                SessionError::new(SqlState::InvalidEscapeSequence, "LIKE pattern must not end with escape character")
            })?)
        } else if c == '%' {
            Part::Any
        } else if c == '_' {
            Part::One
        } else {
            Part::Char(c)
        });
    }
    Ok(walk(&text.chars().collect::<Vec<_>>(), &parts))
}

#[derive(Clone, Copy)]
enum Part {
    Any,
    One,
    Char(char),
}

/// With one mark to come back to: the last `%`. Time is at most the product of both lengths.
fn walk(text: &[char], parts: &[Part]) -> bool {
    let (mut at, mut part) = (0, 0);
    let mut mark: Option<(usize, usize)> = None;
    while let Some(c) = text.get(at) {
        match parts.get(part) {
            Some(Part::Any) => {
                part += 1;
                mark = Some((at, part));
                continue;
            }
            Some(Part::One) => {
                at += 1;
                part += 1;
                continue;
            }
            Some(Part::Char(wanted)) if wanted == c => {
                at += 1;
                part += 1;
                continue;
            }
            Some(Part::Char(_)) | None => {}
        }
        let Some((from, after)) = mark else { return false };
        mark = Some((from + 1, after));
        at = from + 1;
        part = after;
    }
    parts.iter().skip(part).all(|p| matches!(p, Part::Any))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, pattern: &str, want: bool) {
        assert_eq!(matches(text, pattern, Some('\\')).unwrap(), want, "{text} like {pattern}");
    }

    #[test]
    fn patterns() {
        check("", "", true);
        check("", "%", true);
        check("abc", "abc", true);
        check("abc", "a%", true);
        check("abc", "%c", true);
        check("abc", "%b%", true);
        check("abc", "_b_", true);
        check("abc", "ab", false);
        check("abc", "abcd", false);
        check("aXbXc", "a%X_", true);
        check("a_c", r"a\_c", true);
        check("abc", r"a\_c", false);
        check("é", "_", true);
        assert!(matches("a", "\\", Some('\\')).is_err());
        assert!(matches("\\", "\\", None).unwrap());
    }
}
