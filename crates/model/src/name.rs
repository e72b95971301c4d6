//! Names: checked once, when they are made, and never repaired.
//!
//! A name of one of our own objects is at most [`NAME_BYTES_MAX`] bytes, a part of a remote table's
//! name at most [`REMOTE_NAME_BYTES_MAX`]. Both are in Unicode NFC and hold no control and no
//! zero-width character. Nothing here folds case: folding belongs to the lexer, which alone knows
//! whether a name was quoted.

use std::fmt;

use compact_str::CompactString;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use unicode_normalization::{UnicodeNormalization, is_nfc};

use crate::{Problem, SqlState};

/// Longest name of an object of ours, in bytes of UTF-8 (PostgreSQL's NAMEDATALEN - 1).
pub const NAME_BYTES_MAX: usize = 63;
/// Longest part of a remote table's name, in bytes of UTF-8.
pub const REMOTE_NAME_BYTES_MAX: usize = 255;
/// The catalog in which views without a catalog of their own live.
pub const DEFAULT_CATALOG: &str = "dataglot";
/// The schema in which views without a schema of their own live.
pub const DEFAULT_SCHEMA: &str = "public";
/// The org of a fresh store.
pub const DEFAULT_ORG: &str = "default";

/// Separates the parts of a compound name in memory. No legal name holds it, so the bytes of the
/// joined text sort exactly as the list of parts does.
const SEPARATOR: char = '\0';

/// Why a text is not a name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// No characters at all.
    #[error("zero-length delimited identifier")]
    Empty,
    /// Longer than the limit that holds for this place.
    #[error("name is {found} bytes long, over the limit of {limit} bytes")]
    TooLong {
        /// Length found, in bytes.
        found: usize,
        /// Limit, in bytes.
        limit: usize,
    },
    /// Not in Unicode normal form C; `nfc` is how it would be spelled.
    #[error("name is not in Unicode normal form C")]
    NotNfc {
        /// The same name in normal form C.
        nfc: String,
    },
    /// A control, zero-width or bidirectional formatting character.
    #[error("name contains the character U+{code:04X}, which is not allowed in a name")]
    Forbidden {
        /// Its code point.
        code: u32,
    },
    /// Not `[a-z0-9][a-z0-9_-]*`, which an org's name has to be.
    #[error("org name must start with a lower case letter or a digit and go on with those, \"_\" or \"-\"")]
    NotAnOrg,
}

impl Problem for NameError {
    fn sqlstate(&self) -> SqlState {
        match self {
            NameError::Empty => SqlState::SyntaxError,
            NameError::TooLong { .. } => SqlState::NameTooLong,
            NameError::NotNfc { .. } | NameError::Forbidden { .. } | NameError::NotAnOrg => SqlState::InvalidName,
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            NameError::TooLong { .. } => Some("Choose a shorter name; names are never cut.".to_owned()),
            NameError::NotNfc { nfc } => Some(format!("Write it as {}.", quote_ident(nfc))),
            NameError::Empty | NameError::Forbidden { .. } | NameError::NotAnOrg => None,
        }
    }
}

fn check(text: &str, limit: usize) -> Result<(), NameError> {
    if text.is_empty() {
        return Err(NameError::Empty);
    }
    if text.len() > limit {
        return Err(NameError::TooLong { found: text.len(), limit });
    }
    if text.bytes().all(|b| b.is_ascii_graphic()) {
        return Ok(());
    }
    if let Some(c) = text.chars().find(|c| is_forbidden(*c)) {
        return Err(NameError::Forbidden { code: u32::from(c) });
    }
    if !is_nfc(text) {
        return Err(NameError::NotNfc { nfc: text.nfc().collect() });
    }
    Ok(())
}

/// Control characters, and the format characters that make two names look the same: zero-width
/// space, joiners, bidirectional marks and isolates, word joiner, byte order mark, soft hyphen.
fn is_forbidden(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{00AD}' | '\u{061C}' | '\u{180E}' | '\u{200B}'..='\u{200F}' | '\u{2028}'..='\u{202E}'
            | '\u{2060}'..='\u{206F}' | '\u{FEFF}')
}

/// The name of an object of ours: a catalog, secret, role, policy, or one part of a view's name.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(CompactString);

/// One part of the name of something in a remote source: a schema, table or column.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RemoteName(CompactString);

/// The name of an org: `[a-z0-9][a-z0-9_-]{0,62}`, never folded or repaired.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OrgName(CompactString);

impl Name {
    /// Sorts before every name and is none itself: where a range of names starts.
    pub const LEAST: Name = Name(CompactString::const_new(""));

    /// Checks `text` as it stands.
    ///
    /// # Errors
    /// [`NameError`] says which rule it breaks.
    pub fn new(text: &str) -> Result<Self, NameError> {
        check(text, NAME_BYTES_MAX)?;
        Ok(Name(CompactString::new(text)))
    }

    /// The name, unquoted.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl RemoteName {
    /// Checks `text` as it stands.
    ///
    /// # Errors
    /// [`NameError`] says which rule it breaks.
    pub fn new(text: &str) -> Result<Self, NameError> {
        check(text, REMOTE_NAME_BYTES_MAX)?;
        Ok(RemoteName(CompactString::new(text)))
    }

    /// The name, unquoted.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl OrgName {
    /// Checks `text` as it stands.
    ///
    /// # Errors
    /// [`NameError`] says which rule it breaks.
    pub fn new(text: &str) -> Result<Self, NameError> {
        check(text, NAME_BYTES_MAX)?;
        let inner = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
        let mut bytes = text.bytes();
        let first = bytes.next().is_some_and(inner);
        if first && bytes.all(|b| inner(b) || b == b'_' || b == b'-') {
            Ok(OrgName(CompactString::new(text)))
        } else {
            Err(NameError::NotAnOrg)
        }
    }

    /// The org of a fresh store, which is also the org of the platform's operators.
    pub fn default_org() -> Self {
        OrgName(CompactString::const_new(DEFAULT_ORG))
    }

    /// Whether this is the org of the platform's operators.
    pub fn is_default(&self) -> bool {
        self.0 == DEFAULT_ORG
    }

    /// The name, unquoted.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<Name> for RemoteName {
    fn from(name: Name) -> Self {
        RemoteName(name.0)
    }
}

macro_rules! simple_name {
    ($name:ident) => {
        impl fmt::Display for $name {
            /// As SQL would spell it: quoted where it has to be.
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&quote_ident(&self.0))
            }
        }
        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }
        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
                s.serialize_str(&self.0)
            }
        }
        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
                struct Text;
                impl de::Visitor<'_> for Text {
                    type Value = $name;
                    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                        f.write_str("a name")
                    }
                    fn visit_str<E: de::Error>(self, text: &str) -> Result<$name, E> {
                        $name::new(text).map_err(E::custom)
                    }
                }
                d.deserialize_str(Text)
            }
        }
    };
}
simple_name!(Name);
simple_name!(RemoteName);
simple_name!(OrgName);

macro_rules! compound_name {
    ($(#[$doc:meta])* $name:ident, $count:literal) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(CompactString);

        impl $name {
            /// How many parts the name has.
            pub const PARTS: usize = $count;

            fn join(parts: [&str; $count]) -> Self {
                let mut text = CompactString::default();
                for (i, part) in parts.iter().enumerate() {
                    if i > 0 {
                        text.push(SEPARATOR);
                    }
                    text.push_str(part);
                }
                $name(text)
            }

            /// The parts in order, unquoted.
            pub fn parts(&self) -> [&str; $count] {
                let mut parts = [""; $count];
                for (slot, part) in parts.iter_mut().zip(self.0.split(SEPARATOR)) {
                    *slot = part;
                }
                parts
            }

            /// Checks and joins the parts.
            ///
            /// # Errors
            /// [`NameError`] of the first part that is not a name.
            pub fn from_parts(parts: [&str; $count]) -> Result<Self, NameError> {
                for (i, part) in parts.iter().enumerate() {
                    check(part, if i == 0 { NAME_BYTES_MAX } else { REMOTE_NAME_BYTES_MAX })?;
                }
                Ok(Self::join(parts))
            }

            /// Sorts before every name that begins with the parts of `prefix`, and is none itself: where
            /// the range of those names starts.
            pub fn least_within(prefix: &[&str]) -> Self {
                let mut parts = [""; $count];
                for (slot, part) in parts.iter_mut().zip(prefix) {
                    *slot = part;
                }
                Self::join(parts)
            }

            /// The catalog that holds it.
            pub fn catalog(&self) -> Name {
                let [catalog, ..] = self.parts();
                Name(CompactString::new(catalog))
            }

            /// The same name under another catalog.
            #[must_use]
            pub fn with_catalog(&self, catalog: &Name) -> Self {
                let mut parts = self.parts();
                if let Some(first) = parts.first_mut() {
                    *first = catalog.as_str();
                }
                Self::join(parts)
            }
        }

        impl fmt::Display for $name {
            /// As SQL would spell it: dotted, each part quoted where it has to be.
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                for (i, part) in self.parts().into_iter().enumerate() {
                    if i > 0 {
                        f.write_str(".")?;
                    }
                    f.write_str(&quote_ident(part))?;
                }
                Ok(())
            }
        }
        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }
        impl Serialize for $name {
            /// As the list of its parts: a dotted text could not tell `"a.b".c` from `a."b.c"`.
            fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
                self.parts().serialize(s)
            }
        }
        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
                let parts = <[std::borrow::Cow<'de, str>; $count]>::deserialize(d)?;
                $name::from_parts(parts.each_ref().map(|p| p.as_ref())).map_err(de::Error::custom)
            }
        }
    };
}
compound_name! {
    /// `catalog.schema`.
    SchemaRef, 2
}
compound_name! {
    /// `catalog.schema.name`: a table of a remote source, or a view.
    TableRef, 3
}
compound_name! {
    /// `catalog.schema.table.column`.
    ColumnRef, 4
}

impl SchemaRef {
    /// Joins checked names.
    pub fn new(catalog: &Name, schema: &RemoteName) -> Self {
        Self::join([catalog.as_str(), schema.as_str()])
    }

    /// `dataglot.public`.
    pub fn default_schema() -> Self {
        Self::join([DEFAULT_CATALOG, DEFAULT_SCHEMA])
    }

    /// The schema's own name.
    pub fn schema(&self) -> RemoteName {
        let [_, schema] = self.parts();
        RemoteName(CompactString::new(schema))
    }
}

impl TableRef {
    /// Joins checked names.
    pub fn new(catalog: &Name, schema: &RemoteName, table: &RemoteName) -> Self {
        Self::join([catalog.as_str(), schema.as_str(), table.as_str()])
    }

    /// The table called `table` in `schema`.
    pub fn within(schema: &SchemaRef, table: &RemoteName) -> Self {
        let [catalog, schema] = schema.parts();
        Self::join([catalog, schema, table.as_str()])
    }

    /// The schema that holds it.
    pub fn schema(&self) -> SchemaRef {
        let [catalog, schema, _] = self.parts();
        SchemaRef::join([catalog, schema])
    }

    /// The last part.
    pub fn table(&self) -> RemoteName {
        let [_, _, table] = self.parts();
        RemoteName(CompactString::new(table))
    }
}

impl ColumnRef {
    /// The column called `column` of `table`.
    pub fn new(table: &TableRef, column: &RemoteName) -> Self {
        let [c, s, t] = table.parts();
        Self::join([c, s, t, column.as_str()])
    }

    /// The table that holds it.
    pub fn table(&self) -> TableRef {
        let [c, s, t, _] = self.parts();
        TableRef::join([c, s, t])
    }

    /// The last part.
    pub fn column(&self) -> RemoteName {
        let [_, _, _, column] = self.parts();
        RemoteName(CompactString::new(column))
    }
}

/// `text` as an SQL identifier: bare where that reads back as the same name, else quoted.
pub fn quote_ident(text: &str) -> String {
    let mut bytes = text.bytes();
    let bare = bytes.next().is_some_and(|b| b.is_ascii_lowercase() || b == b'_')
        && bytes.all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_' || b == b'$')
        && !is_reserved(text);
    if bare { text.to_owned() } else { format!("\"{}\"", text.replace('"', "\"\"")) }
}

/// `text` as an SQL string literal. `E''` only where a control character has to be visible.
pub fn quote_string(text: &str) -> String {
    if !text.chars().any(|c| c.is_control()) {
        return format!("'{}'", text.replace('\'', "''"));
    }
    let mut out = String::with_capacity(text.len() + 8);
    out.push_str("E'");
    for c in text.chars() {
        match c {
            '\'' => out.push_str("''"),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c.is_control() => out.push_str(&format!("\\u{:04X}", u32::from(c))),
            c => out.push(c),
        }
    }
    out.push('\'');
    out
}

/// Reserved key words of PostgreSQL 18 (appendix C, "reserved" and "reserved (can be function or
/// type)"): a bare name may not be one of them.
pub(crate) const RESERVED: &[&str] = &[
    "all",
    "analyse",
    "analyze",
    "and",
    "any",
    "array",
    "as",
    "asc",
    "asymmetric",
    "authorization",
    "binary",
    "both",
    "case",
    "cast",
    "check",
    "collate",
    "collation",
    "column",
    "concurrently",
    "constraint",
    "create",
    "cross",
    "current_catalog",
    "current_date",
    "current_role",
    "current_schema",
    "current_time",
    "current_timestamp",
    "current_user",
    "default",
    "deferrable",
    "desc",
    "distinct",
    "do",
    "else",
    "end",
    "except",
    "false",
    "fetch",
    "for",
    "foreign",
    "freeze",
    "from",
    "full",
    "grant",
    "group",
    "having",
    "ilike",
    "in",
    "initially",
    "inner",
    "intersect",
    "into",
    "is",
    "isnull",
    "join",
    "lateral",
    "leading",
    "left",
    "like",
    "limit",
    "localtime",
    "localtimestamp",
    "natural",
    "not",
    "notnull",
    "null",
    "offset",
    "on",
    "only",
    "or",
    "order",
    "outer",
    "overlaps",
    "placing",
    "primary",
    "references",
    "returning",
    "right",
    "select",
    "session_user",
    "similar",
    "some",
    "symmetric",
    "system_user",
    "table",
    "tablesample",
    "then",
    "to",
    "trailing",
    "true",
    "union",
    "unique",
    "user",
    "using",
    "variadic",
    "verbose",
    "when",
    "where",
    "window",
    "with",
];

/// Whether `word`, in lower case, may not be a bare name.
pub fn is_reserved(word: &str) -> bool {
    RESERVED.binary_search(&word).is_ok()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn reserved_words_are_sorted() {
        assert!(RESERVED.is_sorted());
    }

    #[test]
    fn length_is_counted_in_bytes_at_the_limit_and_one_past_it() {
        assert!(Name::new(&"p".repeat(63)).is_ok());
        assert_eq!(Name::new(&"p".repeat(64)), Err(NameError::TooLong { found: 64, limit: 63 }));
        assert!(Name::new(&"日".repeat(21)).is_ok());
        assert_eq!(Name::new(&"日".repeat(22)), Err(NameError::TooLong { found: 66, limit: 63 }));
    }

    #[test]
    fn only_normal_form_c_is_a_name() {
        assert!(Name::new("caf\u{e8}").is_ok());
        assert_eq!(Name::new("cafe\u{300}"), Err(NameError::NotNfc { nfc: "caf\u{e8}".to_owned() }));
        assert_eq!(Name::new("a\u{200b}b"), Err(NameError::Forbidden { code: 0x200b }));
        assert_eq!(Name::new("a\0b"), Err(NameError::Forbidden { code: 0 }));
    }

    #[test]
    fn parts_with_dots_stay_apart() {
        let a = TableRef::from_parts(["a.b", "c", "d"]).unwrap();
        let b = TableRef::from_parts(["a", "b.c", "d"]).unwrap();
        assert_ne!(a, b);
        assert_eq!(a.to_string(), "\"a.b\".c.d");
        let json = serde_json::to_string(&a).unwrap();
        assert_eq!(json, r#"["a.b","c","d"]"#);
        assert_eq!(serde_json::from_str::<TableRef>(&json).unwrap(), a);
    }

    #[test]
    fn strings_print_with_escapes_only_for_control_characters() {
        assert_eq!(quote_string("it's \\"), "'it''s \\'");
        assert_eq!(quote_string("a\nb'\\"), "E'a\\nb''\\\\'");
    }
}
