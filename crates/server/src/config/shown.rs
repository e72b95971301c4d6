//! The file as an error may show it: same lines, same offsets, values hidden.
//!
//! It may be wrong in any way, so it is not parsed: a line is shown as far as it is known to hold no secret, and none
//! is that goes on with a value of a line before.

use super::hba;
use super::setting::Setting;

/// `text`, hidden but for what is harmless.
pub(super) fn shown(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut within = Within::default();
    for line in text.split_inclusive('\n') {
        let goes_on = !within.is_outside();
        let value = line.find('=').map_or(line.len(), |at| at + 1);
        let key = line.get(..value).and_then(|key| key.strip_suffix('=')).map(str::trim).filter(|key| is_bare(key));
        // A key without a value is none: base64 ends like that.
        let key = key.filter(|_| !matches!(after(line, value).trim().chars().next(), None | Some('=')));
        let end = within.read(line, value);
        let kept = match key {
            _ if goes_on => 0,
            None if is_head(line.trim()) => line.len(),
            None => 0,
            Some(key) if is_harmless(key) => end,
            Some(_) => value,
        };
        for (at, c) in line.char_indices() {
            match c {
                _ if at < kept || c == '\n' || c == '\r' => shown.push(c),
                _ => shown.extend(std::iter::repeat_n('*', c.len_utf8())),
            }
        }
    }
    shown
}

fn after(line: &str, at: usize) -> &str {
    line.get(at..).unwrap_or_default()
}

fn is_bare(key: &str) -> bool {
    !key.is_empty() && key.chars().all(is_bare_char)
}

fn is_bare_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '-')
}

/// Whether the line is the head of a table.
fn is_head(line: &str) -> bool {
    let name = line.strip_prefix('[').and_then(|line| line.strip_suffix(']'));
    let name = name.map(|name| name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name));
    name.is_some_and(|name| name.chars().all(|c| is_bare_char(c) || c == '.'))
}

/// Whether the values of this key are no secret.
fn is_harmless(key: &str) -> bool {
    let is_setting = Setting::ALL.into_iter().any(|setting| {
        setting.name() == key
            && !matches!(
                setting,
                Setting::SecretKey | Setting::AdminPassword | Setting::SecretKeyCommand | Setting::Store
            )
    });
    key == "path" || hba::KEYS.contains(&key) || is_setting
}

/// What a line's start is within.
#[derive(Default)]
struct Within {
    /// The quotes that end a text of several lines.
    quotes: Option<&'static str>,
    /// How many brackets are open.
    depth: usize,
    /// Nothing is known any more.
    is_lost: bool,
}

impl Within {
    fn is_outside(&self) -> bool {
        self.quotes.is_none() && self.depth == 0 && !self.is_lost
    }

    /// Reads a line whose value, if it has one, begins at `value`. Where the line's first value ends, or the line,
    /// if that goes on.
    fn read(&mut self, line: &str, value: usize) -> usize {
        let (mut at, mut end) = (0, None);
        while let Some(c) = after(line, at).chars().next().filter(|_| !self.is_lost) {
            let rest = after(line, at);
            if let Some(quotes) = self.quotes {
                at += self.text_bytes(rest, c, quotes);
            } else if let Some(quotes) = [BASIC, LITERAL].into_iter().find(|quotes| rest.starts_with(quotes)) {
                self.quotes = Some(quotes);
                at += quotes.len();
            } else {
                match c {
                    '#' => break,
                    '"' | '\'' => match string_bytes(rest) {
                        Some(bytes) => at += bytes,
                        None => self.is_lost = true,
                    },
                    '[' | '{' => (self.depth, at) = (self.depth + 1, at + 1),
                    ']' | '}' => (self.depth, at) = (self.depth.saturating_sub(1), at + 1),
                    _ if is_number(c) => at += rest.chars().take_while(|c| is_number(*c)).count(),
                    _ => {
                        at += c.len_utf8();
                        continue;
                    }
                }
            }
            if at > value && self.is_outside() {
                end.get_or_insert(at);
            }
        }
        match end {
            Some(end) => end,
            None if self.is_outside() || self.is_lost => value,
            None => line.len(),
        }
    }

    /// How far the text of several lines goes on that these quotes end: a character, or the quotes.
    fn text_bytes(&mut self, rest: &str, c: char, quotes: &'static str) -> usize {
        if rest.starts_with(quotes) {
            self.quotes = None;
            // A fourth and a fifth one belong to the text.
            return rest.chars().take_while(|c| quotes.starts_with(*c)).count();
        }
        let escaped = if c == '\\' && quotes == BASIC { after(rest, 1).chars().next() } else { None };
        c.len_utf8() + escaped.map_or(0, char::len_utf8)
    }
}

/// Whether it may stand in a value without quotes: a number, a boolean, most of a time.
fn is_number(c: char) -> bool {
    is_bare_char(c) || matches!(c, '.' | '+')
}

const BASIC: &str = "\"\"\"";
const LITERAL: &str = "'''";

/// How many bytes the text of one line takes that begins here; `None`: it does not end.
fn string_bytes(text: &str) -> Option<usize> {
    let quote = text.chars().next()?;
    let mut chars = text.char_indices().skip(1);
    while let Some((at, c)) = chars.next() {
        match c {
            _ if c == quote => return Some(at + 1),
            '\n' => return None,
            '\\' if quote == '"' => drop(chars.next()),
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::shown;

    /// Of each line this is shown, and stars for the rest.
    #[track_caller]
    fn check(text: &str, kept: &[&str]) {
        let lines = text.split_inclusive('\n').zip(kept).map(|(line, kept)| {
            let hidden = line.strip_prefix(kept).unwrap();
            let stars: String = hidden
                .chars()
                .map(|c| if c == '\r' || c == '\n' { c.to_string() } else { "*".repeat(c.len_utf8()) })
                .collect();
            format!("{kept}{stars}")
        });
        assert_eq!(text.lines().count(), kept.len());
        assert_eq!(shown(text), lines.collect::<String>());
    }

    #[test]
    fn l_02_values_are_hidden_and_harmless_ones_are_not() {
        check("listen = \"h:1\" # x\n", &["listen = \"h:1\""]);
        check("[limits]\nmax_connections=5\n[[hba]]\n", &["[limits]", "max_connections=5", "[[hba]]"]);
        check("pasword = \"x\u{e9}\"\r\n\n", &["pasword =", ""]);
        let rule = "user = [\"a\", \"b\"]\nmap = { a = \"b\" }";
        check(rule, &["user = [\"a\", \"b\"]", "map = { a = \"b\" }"]);
        check("# dsn = 1\n\"path\" = 2\n[\"x\"]\n", &["", "", ""]);
    }

    #[test]
    fn l_02_lines_that_go_on_are_hidden_whole() {
        check("dsn = \"\"\"\nhost=db\nuser=app password=x\n\"\"\"\n", &["dsn =", "", "", ""]);
        check("dsn = \"\"\"\\\npath=1\"\"\"\nlisten = 5", &["dsn =", "", "listen = 5"]);
        check("dsn = '''\npath=\\'''\nlisten = 5", &["dsn =", "", "listen = 5"]);
        let list = "x = [\n  \"Q0FOQVJZ==\",\n  [1],\npath=1]\nlisten = 5";
        check(list, &["x =", "", "", "", "listen = 5"]);
        check("\"a=b\" = \"\"\"\npath=1\n\"\"\"\npath=1", &["", "", "", "path=1"]);
        check("x = \"\"\" \\\"\"\"\npath=1\n\"\"\"\"\"\npath=1", &["x =", "", "", "path=1"]);
    }

    #[test]
    fn l_02_what_is_wrong_is_hidden() {
        // A text that does not end where it has to: nothing after it is known.
        check("dsn = \"\npath=1\nuser=x\n\"\n", &["dsn =", "", "", ""]);
        check("user=app password=x\nhost=db", &["user=app", "host="]);
        check("listen = \"h\" dsn = \"x\"\n", &["listen = \"h\""]);
        check("Q0FOQVJZ==\nQ0FOQVI=\n", &["", ""]);
        check("x = ]\npath = 1\n", &["x =", "path = 1"]);
    }
}
