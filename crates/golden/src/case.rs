//! The format of a golden file.
//!
//! ```text
//! # What is shown, and why.
//!
//! == run as=admin
//! CREATE ROLE r;
//! --
//! CREATE ROLE
//! ```
//!
//! A block starts with `==`, its verb and `key=value` arguments. What stands above the line `--` is
//! input, what stands below it is expected output, which blessing rewrites. Verbs:
//!
//! | verb | input | output |
//! |---|---|---|
//! | `run` | statements, sent one by one as psql does | the transcript |
//! | `script` | statements, sent as one query string | the transcript |
//! | `extended` | statements, each by Parse, Bind, Describe, Execute, Sync | the transcript |
//! | `lower` | statements | the canonical text of each |
//! | `mutations` | none | what the transactions since the last such block changed |
//! | `state` | none | every row of the org |
//! | `restart` | none | none: the server is stopped, the store is opened again |
//!
//! `as=` names the user (`admin`), `org=` the org (`default`), `session=` keeps sessions apart.

use std::collections::BTreeMap;
use std::fmt::Write;

/// A golden file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Case {
    /// The comment at the top, with its `#`.
    pub preamble: String,
    /// The blocks, in order.
    pub blocks: Vec<Block>,
}

/// One block of a golden file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// What it does.
    pub verb: Verb,
    /// `key=value`, in the order of the keys.
    pub arguments: BTreeMap<String, String>,
    /// Above `--`.
    pub input: String,
    /// Below `--`.
    pub expected: String,
}

/// What a block does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "see the module")]
pub enum Verb {
    Run,
    Script,
    Extended,
    Lower,
    Mutations,
    State,
    Restart,
}

impl Verb {
    const ALL: [Verb; 7] =
        [Verb::Run, Verb::Script, Verb::Extended, Verb::Lower, Verb::Mutations, Verb::State, Verb::Restart];

    const fn as_str(self) -> &'static str {
        match self {
            Verb::Run => "run",
            Verb::Script => "script",
            Verb::Extended => "extended",
            Verb::Lower => "lower",
            Verb::Mutations => "mutations",
            Verb::State => "state",
            Verb::Restart => "restart",
        }
    }
}

impl Block {
    /// The argument of that key, or what holds without it.
    pub fn argument<'a>(&'a self, key: &str, default: &'a str) -> &'a str {
        self.arguments.get(key).map_or(default, String::as_str)
    }
}

impl Case {
    /// Reads a file's text.
    ///
    /// # Errors
    /// A sentence that says what is wrong, with the line's number.
    pub fn parse(text: &str) -> Result<Case, String> {
        let mut preamble = String::new();
        let mut blocks: Vec<Block> = Vec::new();
        let mut below = false;
        for (number, line) in text.lines().enumerate() {
            if let Some(head) = line.strip_prefix("== ") {
                let mut words = head.split_whitespace();
                let name = words.next().unwrap_or_default();
                let verb = Verb::ALL
                    .into_iter()
                    .find(|v| v.as_str() == name)
                    .ok_or_else(|| format!("line {}: no such verb: {name}", number + 1))?;
                let arguments = words
                    .map(|word| {
                        let pair = word
                            .split_once('=')
                            .ok_or_else(|| format!("line {}: not key=value: {word}", number + 1))?;
                        Ok((pair.0.to_owned(), pair.1.to_owned()))
                    })
                    .collect::<Result<_, String>>()?;
                blocks.push(Block { verb, arguments, input: String::new(), expected: String::new() });
                below = false;
            } else if let Some(block) = blocks.last_mut() {
                if line == "--" && !below {
                    below = true;
                } else {
                    let side = if below { &mut block.expected } else { &mut block.input };
                    side.push_str(line);
                    side.push('\n');
                }
            } else {
                preamble.push_str(line);
                preamble.push('\n');
            }
        }
        for block in &mut blocks {
            block.input = tidy(&block.input);
            block.expected = tidy(&block.expected);
        }
        Ok(Case { preamble: tidy(&preamble), blocks })
    }

    /// The file's text.
    pub fn print(&self) -> String {
        let mut out = self.preamble.clone();
        for block in &self.blocks {
            out.push_str("\n== ");
            out.push_str(block.verb.as_str());
            for (key, value) in &block.arguments {
                // Writing to a String cannot fail.
                let _ = write!(out, " {key}={value}");
            }
            out.push('\n');
            out.push_str(&block.input);
            if block.verb != Verb::Restart {
                out.push_str("--\n");
                out.push_str(&block.expected);
            }
        }
        out
    }
}

/// Without blank lines at either end.
fn tidy(text: &str) -> String {
    let trimmed = text.trim_matches('\n');
    if trimmed.is_empty() { String::new() } else { format!("{trimmed}\n") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_prints_as_it_was_read() {
        let text = "# why\n\n== run as=u\nSELECT 1;\n--\nSELECT 1\n\n== restart\n\n== state\n--\nrow\n";
        let case = Case::parse(text).unwrap();
        assert_eq!(case.print(), text);
        assert_eq!(case.blocks[0].argument("as", "admin"), "u");
    }
}
