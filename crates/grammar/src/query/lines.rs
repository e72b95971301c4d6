//! sqlparser says where something stands as line and column of characters; we need bytes.

use sqlparser::tokenizer::Location;

/// So many characters lie between two marks: what is looked at to find one place.
const STRIDE: usize = 64;

/// Where the lines and characters of a text begin.
pub(super) struct LineIndex<'a> {
    text: &'a str,
    /// Of each line, the number of its first character.
    lines: Vec<usize>,
    /// The byte of every [`STRIDE`]th character; empty where each character is a byte.
    marks: Vec<usize>,
}

impl<'a> LineIndex<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        let (mut lines, mut marks) = (vec![0], Vec::new());
        if text.is_ascii() {
            lines.extend(text.match_indices('\n').map(|(at, _)| at + 1));
        } else {
            for (number, (at, c)) in text.char_indices().enumerate() {
                if number % STRIDE == 0 {
                    marks.push(at);
                }
                if c == '\n' {
                    lines.push(number + 1);
                }
            }
        }
        LineIndex { text, lines, marks }
    }

    /// The byte at which the character of that line and column begins; `None` for the empty location.
    /// Past the end of the text it is the end. Takes the same time wherever the place is.
    pub(super) fn byte(&self, location: Location) -> Option<usize> {
        let line = usize::try_from(location.line).ok()?.checked_sub(1)?;
        let column = usize::try_from(location.column).ok()?.checked_sub(1)?;
        let number = self.lines.get(line)?.checked_add(column)?;
        if self.marks.is_empty() {
            return Some(number.min(self.text.len()));
        }
        let Some(mark) = self.marks.get(number / STRIDE) else { return Some(self.text.len()) };
        let rest = self.text.get(*mark..)?;
        Some(rest.char_indices().nth(number % STRIDE).map_or(self.text.len(), |(at, _)| mark + at))
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

    #[test]
    fn every_character_is_found_where_it_is() {
        for text in ["é\n日".repeat(100), "ab\n".repeat(100), "é".repeat(200), "a".repeat(64), String::new()] {
            let index = LineIndex::new(&text);
            let mut location = Location { line: 1, column: 1 };
            for (at, c) in text.char_indices() {
                assert_eq!(index.byte(location), Some(at));
                location.column += 1;
                if c == '\n' {
                    location = Location { line: location.line + 1, column: 1 };
                }
            }
            assert_eq!(index.byte(location), Some(text.len()));
        }
    }
}
