//! Decisions that nobody takes by accident: somebody at a terminal types the words that stand for them.

use std::io::{IsTerminal as _, Write as _};

use crate::failure::{Exit, Failure};

/// Whether somebody at a terminal answers `question` by `words`. Where there is no terminal, nobody does.
pub(crate) fn confirmed(question: &str, words: &str) -> Result<bool, Failure> {
    let input = std::io::stdin();
    if !input.is_terminal() {
        return Ok(false);
    }
    let mut out = std::io::stdout().lock();
    let _ = write!(out, "{question}: ").and_then(|()| out.flush());
    let mut answer = String::new();
    input.read_line(&mut answer).map_err(|e| Failure::io(Exit::Internal, "the answer cannot be read", &e))?;
    Ok(answer.trim() == words)
}
