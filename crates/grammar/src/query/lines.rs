//! sqlparser says where something stands as line and column of characters; we need bytes.

use sqlparser::tokenizer::Location;

/// Where the lines of a text begin.
pub(super) struct LineIndex<'a> {
    text: &'a str,
    starts: Vec<usize>,
}

impl<'a> LineIndex<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        let starts = std::iter::once(0).chain(text.match_indices('\n').map(|(at, _)| at + 1)).collect();
        LineIndex { text, starts }
    }

    /// The byte at which the character of that line and column begins; `None` for the empty location.
    /// Past the end of its line it is the end of the text at most.
    pub(super) fn byte(&self, location: Location) -> Option<usize> {
        let line = usize::try_from(location.line).ok()?.checked_sub(1)?;
        let column = usize::try_from(location.column).ok()?.checked_sub(1)?;
        let start = *self.starts.get(line)?;
        let rest = self.text.get(start..)?;
        Some(rest.char_indices().nth(column).map_or(self.text.len(), |(at, _)| start + at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_count_characters() {
        let index = LineIndex::new("é a\r\n日b");
        let at = |line, column| index.byte(Location { line, column });
        assert_eq!(at(1, 1), Some(0));
        assert_eq!(at(1, 3), Some(3));
        assert_eq!(at(2, 1), Some(6));
        assert_eq!(at(2, 2), Some(9));
        assert_eq!(at(2, 3), Some(10));
        assert_eq!(at(2, 9), Some(10));
        assert_eq!(at(0, 0), None);
        assert_eq!(at(3, 1), None);
    }
}
