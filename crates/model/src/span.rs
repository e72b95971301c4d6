//! Where in the client's text something stood.

use std::ops::Deref;

/// A range of bytes in the query string that the client sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span {
    /// First byte.
    pub start: u32,
    /// One past the last byte.
    pub end: u32,
}

impl Span {
    /// A span over `start..end`.
    pub const fn new(start: u32, end: u32) -> Self {
        Span { start, end }
    }

    /// The 1-based position of the first byte of this span in `sql`, counted in characters as
    /// PostgreSQL's field `P` is. `None` where the span does not lie in the text.
    pub fn char_position(self, sql: &str) -> Option<usize> {
        let before = sql.get(..usize::try_from(self.start).ok()?)?;
        Some(before.chars().count() + 1)
    }
}

/// A value and where it stood. Two of them are equal when their values are: the same statement laid
/// out otherwise is the same statement.
#[derive(Clone, Copy, Debug)]
pub struct At<T> {
    /// The value.
    pub value: T,
    /// Where it stood.
    pub span: Span,
}

impl<T> At<T> {
    /// A value that stood at `span`.
    pub const fn new(value: T, span: Span) -> Self {
        At { value, span }
    }

    /// A value that stood in no text: it was made by us.
    pub const fn nowhere(value: T) -> Self {
        At { value, span: Span::new(0, 0) }
    }

    /// Another value at the same place.
    pub fn map<U>(self, f: impl FnOnce(T) -> U) -> At<U> {
        At { value: f(self.value), span: self.span }
    }
}

impl<T> Deref for At<T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T: PartialEq> PartialEq for At<T> {
    fn eq(&self, other: &Self) -> bool {
        self.value == other.value
    }
}

impl<T: Eq> Eq for At<T> {}
