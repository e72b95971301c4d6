//! The startup parameter `options`: `-c name=value` and `--name=value`, as PostgreSQL takes them.

use dataglot_model::SqlState;

use crate::error::SessionError;

/// The settings that `text` names, in order. A backslash keeps the blank after it.
///
/// # Errors
/// 42601 for anything but the two forms.
pub(crate) fn parse_options(text: &str) -> Result<Vec<(String, String)>, SessionError> {
    let mut words = words(text).into_iter();
    let mut out = Vec::new();
    while let Some(word) = words.next() {
        let pair = if word == "-c" {
            words.next()
        } else if let Some(rest) = word.strip_prefix("--") {
            Some(rest.to_owned())
        } else {
            word.strip_prefix("-c").map(str::to_owned)
        };
        let Some((name, value)) = pair.as_deref().and_then(|p| p.split_once('=')) else {
            return Err(SessionError::new(SqlState::SyntaxError, "invalid command-line argument for server process")
                .with_hint("Write options as \"-c name=value\"."));
        };
        out.push((name.replace('-', "_"), value.to_owned()));
    }
    Ok(out)
}

fn words(text: &str) -> Vec<String> {
    let mut out = Vec::new();
    let mut word: Option<String> = None;
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => word.get_or_insert_default().extend(chars.next()),
            c if c.is_whitespace() => out.extend(word.take()),
            c => word.get_or_insert_default().push(c),
        }
    }
    out.extend(word);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, want: &[(&str, &str)]) {
        let got = parse_options(text).unwrap();
        let got: Vec<_> = got.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
        assert_eq!(got, want);
    }

    #[test]
    fn forms() {
        check("", &[]);
        check("-c a=b  -cc=d --e-f=g", &[("a", "b"), ("c", "d"), ("e_f", "g")]);
        check(r"-c a=b\ c\\", &[("a", r"b c\")]);
        assert!(parse_options("-x").is_err());
        assert!(parse_options("-c").is_err());
        assert!(parse_options("-c a").is_err());
    }
}
