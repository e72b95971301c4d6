//! The text under construction, and the clauses that every kind shares.

use std::fmt::{Display, Write};

use dataglot_model::command::{
    Behavior, CommentText, ExpectedVersion, GranteeSpec, OnExisting, OnMissing, OptionEntry, RoleSpec,
};
use dataglot_model::connector::{Connector, OptionType, holds_password};
use dataglot_model::def::{ExpressionText, OptionValue};
use dataglot_model::{At, Name, quote_ident, quote_string};

/// SQL, word by word. Every method that adds a word puts the blank before it.
#[derive(Default)]
pub(super) struct Sql {
    text: String,
}

impl Sql {
    pub(super) fn finish(self) -> String {
        self.text
    }

    /// Adds `text` as it is.
    pub(super) fn raw(&mut self, text: impl Display) -> &mut Self {
        // Writing to a String cannot fail.
        let _ = write!(self.text, "{text}");
        self
    }

    /// Adds `word`, after a blank where one is needed.
    pub(super) fn word(&mut self, word: impl Display) -> &mut Self {
        if !self.text.is_empty() && !self.text.ends_with('(') {
            self.text.push(' ');
        }
        self.raw(word)
    }

    /// Adds `word` if `condition` holds.
    pub(super) fn word_if(&mut self, condition: bool, word: &str) -> &mut Self {
        if condition { self.word(word) } else { self }
    }

    /// Adds `text` as a string literal.
    pub(super) fn string(&mut self, text: &str) -> &mut Self {
        self.word(quote_string(text))
    }

    /// Adds the items with commas between them.
    pub(super) fn list<T>(
        &mut self,
        items: impl IntoIterator<Item = T>,
        mut each: impl FnMut(&mut Self, T),
    ) -> &mut Self {
        for (i, item) in items.into_iter().enumerate() {
            if i > 0 {
                self.raw(",");
            }
            each(self, item);
        }
        self
    }

    /// `CREATE [OR …] KIND [IF NOT EXISTS]`
    pub(super) fn create(&mut self, on_existing: OnExisting, kind: &str) -> &mut Self {
        self.word("CREATE");
        match on_existing {
            OnExisting::Error => self.word(kind),
            OnExisting::Skip => self.word(kind).word("IF NOT EXISTS"),
            OnExisting::Replace => self.word("OR REPLACE").word(kind),
            OnExisting::Alter => self.word("OR ALTER").word(kind),
        }
    }

    /// `[IF EXISTS]`
    pub(super) fn if_exists(&mut self, on_missing: OnMissing) -> &mut Self {
        match on_missing {
            OnMissing::Error => self,
            OnMissing::Skip => self.word("IF EXISTS"),
        }
    }

    /// `[IF VERSION n]`
    pub(super) fn if_version(&mut self, expected: &ExpectedVersion) -> &mut Self {
        match expected {
            None => self,
            Some(version) => self.word("IF VERSION").word(version.value),
        }
    }

    /// `[CASCADE]`
    pub(super) fn behavior(&mut self, behavior: Behavior) -> &mut Self {
        match behavior {
            Behavior::Restrict => self,
            Behavior::Cascade => self.word("CASCADE"),
        }
    }

    /// `[COMMENT 'text']`
    pub(super) fn comment(&mut self, comment: Option<&str>) -> &mut Self {
        match comment {
            None => self,
            Some(text) => self.word("COMMENT").string(text),
        }
    }

    /// `'text'` or `NULL`
    pub(super) fn comment_text(&mut self, text: &CommentText) -> &mut Self {
        match text {
            CommentText::Remove => self.word("NULL"),
            CommentText::Set(text) => self.string(text),
        }
    }

    /// `ENABLE` or `DISABLE`
    pub(super) fn enable(&mut self, enabled: bool) -> &mut Self {
        self.word(if enabled { "ENABLE" } else { "DISABLE" })
    }

    pub(super) fn role(&mut self, role: &RoleSpec) -> &mut Self {
        match role {
            RoleSpec::Name(name) => self.word(quote_name(name)),
            RoleSpec::CurrentUser => self.word("CURRENT_USER"),
            RoleSpec::CurrentRole => self.word("CURRENT_ROLE"),
            RoleSpec::SessionUser => self.word("SESSION_USER"),
        }
    }

    pub(super) fn roles(&mut self, roles: &[At<RoleSpec>]) -> &mut Self {
        self.list(roles, |sql, role| {
            sql.role(&role.value);
        })
    }

    pub(super) fn grantee(&mut self, grantee: &GranteeSpec) -> &mut Self {
        match grantee {
            GranteeSpec::Public => self.word("PUBLIC"),
            GranteeSpec::Role(role) => self.role(role),
        }
    }

    pub(super) fn grantees(&mut self, grantees: &[At<GranteeSpec>]) -> &mut Self {
        self.list(grantees, |sql, grantee| {
            sql.grantee(&grantee.value);
        })
    }

    /// `[GRANTED BY role]`
    pub(super) fn granted_by(&mut self, role: Option<&At<RoleSpec>>) -> &mut Self {
        match role {
            None => self,
            Some(role) => self.word("GRANTED BY").role(&role.value),
        }
    }

    /// `(expression)`. A comment at its end must not swallow the parenthesis.
    pub(super) fn expression(&mut self, expression: &ExpressionText) -> &mut Self {
        let ExpressionText { text } = expression;
        let comment_at_end = text.lines().next_back().is_some_and(|line| line.contains("--"));
        self.word("(").raw(text).raw(if comment_at_end { "\n)" } else { ")" })
    }

    /// `(k = v, …)`, sorted by key.
    pub(super) fn options(&mut self, options: &[OptionEntry], connector: Option<Connector>) -> &mut Self {
        let mut sorted: Vec<&OptionEntry> = options.iter().collect();
        sorted.sort_by(|a, b| a.key.value.cmp(&b.key.value));
        self.word("(").list(sorted, |sql, entry| {
            let OptionEntry { key, value } = entry;
            sql.option_key(&key.value).word("=").option_value(&key.value, &value.value, connector);
        });
        self.raw(")")
    }

    /// A key: every word may be one, so only what is not a word is quoted.
    pub(super) fn option_key(&mut self, key: &str) -> &mut Self {
        self.word(quote_label(key))
    }

    pub(super) fn option_value(&mut self, key: &str, value: &OptionValue, connector: Option<Connector>) -> &mut Self {
        if could_be_credential(key, value, connector) {
            return self.word("REDACTED");
        }
        match value {
            OptionValue::Text(text) => self.string(text),
            OptionValue::Integer(n) => self.word(n),
            OptionValue::Decimal(digits) => self.word(digits),
            OptionValue::Boolean(yes) => self.word(boolean(*yes)),
            OptionValue::Json(json) => self.word("JSON").string(&json.to_string()),
            OptionValue::Secret { name, as_file } => self.word("SECRET").word(name).word_if(*as_file, "AS FILE"),
            OptionValue::Env(variable) => self.word("ENV").string(variable),
        }
    }
}

/// Whether the literal could be a credential. Lowering refuses such a literal, so there is none; if
/// one ever gets here, it goes no further.
fn could_be_credential(key: &str, value: &OptionValue, connector: Option<Connector>) -> bool {
    let takes_credential = match connector {
        Some(connector) => connector.option(key).is_some_and(|spec| spec.kind == OptionType::Credential),
        None => Connector::any_takes_credential(key),
    };
    match value {
        OptionValue::Secret { .. } | OptionValue::Env(_) => false,
        OptionValue::Text(text) => takes_credential || holds_password(text),
        OptionValue::Json(json) => takes_credential || holds_password(&json.to_string()),
        OptionValue::Integer(_) | OptionValue::Decimal(_) | OptionValue::Boolean(_) => takes_credential,
    }
}

pub(super) const fn boolean(yes: bool) -> &'static str {
    if yes { "TRUE" } else { "FALSE" }
}

/// A word that stands where any key word may: reserved words need no quotes there.
pub(super) fn quote_label(word: &str) -> String {
    let quoted = quote_ident(word);
    // `quote_ident` adds quotes to a plain word only where it is reserved.
    let plain = word.bytes().next().is_some_and(|b| b.is_ascii_lowercase() || b == b'_')
        && word.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_' || b == b'$');
    if plain { word.to_owned() } else { quoted }
}

/// A name, quoted also where it is a word that may stand in its place or begins the next clause: `ROLE`
/// before a role's name, `NONE` and `PUBLIC` instead of one, the actions of ALTER.
pub(super) fn quote_name(name: &Name) -> String {
    match name.as_str() {
        word @ ("add" | "comment" | "disable" | "drop" | "enable" | "none" | "owner" | "public" | "rename" | "role"
        | "set") => {
            format!("\"{word}\"")
        }
        _ => name.to_string(),
    }
}
