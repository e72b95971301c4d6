//! Names: identifiers, folded and checked where they stand; tables and roles as statements name them.

use dataglot_model::command::{GranteeSpec, RoleSpec};
use dataglot_model::{At, ColumnRef, Name, NameError, RemoteName, SchemaRef, Span, SqlState, TableRef, is_reserved};

use super::{Cursor, Parse};
use crate::lexer::TokenKind;
use crate::{SyntaxError, literal};

impl Cursor<'_> {
    /// An identifier, folded unless quoted, not yet checked as a name. A reserved word is none.
    pub(crate) fn ident(&mut self) -> Parse<At<String>> {
        let token = self.peek();
        let text = match token.kind {
            TokenKind::Word => {
                let text = literal::folded(token.text(self.sql));
                if is_reserved(&text) {
                    return Err(self.unexpected());
                }
                text
            }
            TokenKind::QuotedIdent | TokenKind::UnicodeIdent => literal::quoted_ident(self.sql, token)?,
            _ => return Err(self.unexpected()),
        };
        self.at += 1;
        Ok(At::new(text, token.span()))
    }

    /// An identifier in a place where a reserved word may stand too (an option's key).
    pub(crate) fn label(&mut self) -> Parse<At<String>> {
        let token = self.peek();
        if token.kind == TokenKind::Word {
            self.at += 1;
            return Ok(At::new(literal::folded(token.text(self.sql)), token.span()));
        }
        self.ident()
    }

    pub(crate) fn name(&mut self) -> Parse<At<Name>> {
        let ident = self.ident()?;
        named(Name::new(&ident.value), ident.span)
    }

    pub(crate) fn remote_name(&mut self) -> Parse<At<RemoteName>> {
        let ident = self.ident()?;
        named(RemoteName::new(&ident.value), ident.span)
    }

    /// `ident {"." ident}`, at most `max` parts.
    pub(crate) fn dotted(&mut self, max: usize) -> Parse<At<Vec<At<String>>>> {
        let start = self.peek().start;
        let mut parts = vec![self.ident()?];
        while self.is_mark(b'.') {
            if parts.len() == max {
                let span = self.since(start);
                return Err(SyntaxError::invalid(
                    SqlState::SyntaxError,
                    format!("improper qualified name (too many dotted names): at most {max} parts are allowed"),
                    span,
                ));
            }
            self.at += 1;
            parts.push(self.ident()?);
        }
        let span = self.since(start);
        Ok(At::new(parts, span))
    }

    /// A table's name of one to three parts, resolved in full.
    pub(crate) fn table_ref(&mut self) -> Parse<At<TableRef>> {
        let parts = self.dotted(TableRef::PARTS)?;
        self.table_of(&parts.value).map(|table| At::new(table, parts.span))
    }

    /// Resolves a table's name.
    pub(crate) fn table_of(&self, parts: &[At<String>]) -> Parse<TableRef> {
        let [path_catalog, path_schema] = self.cx.search_path.parts();
        let whole = match parts {
            [t] => [path_catalog, path_schema, t.as_str()],
            [s, t] => [path_catalog, s.as_str(), t.as_str()],
            [c, s, t] => [c.as_str(), s.as_str(), t.as_str()],
            _ => return Err(self.unexpected()),
        };
        check_parts(parts)?;
        let span = parts.last().map(|p| p.span).unwrap_or_default();
        named(TableRef::from_parts(whole), span).map(|t| t.value)
    }

    /// A view's name: each part of it is a name of ours.
    pub(crate) fn view_ref(&mut self) -> Parse<At<TableRef>> {
        let parts = self.dotted(TableRef::PARTS)?;
        for part in &parts.value {
            named(Name::new(&part.value), part.span)?;
        }
        self.table_of(&parts.value).map(|table| At::new(table, parts.span))
    }

    /// `schema` or `catalog.schema`.
    pub(crate) fn schema_ref(&mut self) -> Parse<At<SchemaRef>> {
        let parts = self.dotted(SchemaRef::PARTS)?;
        check_parts(&parts.value)?;
        let [path_catalog, _] = self.cx.search_path.parts();
        let whole = match parts.value.as_slice() {
            [s] => [path_catalog, s.as_str()],
            [c, s] => [c.as_str(), s.as_str()],
            _ => return Err(self.unexpected()),
        };
        named(SchemaRef::from_parts(whole), parts.span)
    }

    /// A column's name of two to four parts.
    pub(crate) fn column_ref(&mut self) -> Parse<At<ColumnRef>> {
        let parts = self.dotted(ColumnRef::PARTS)?;
        let (column, table) = match parts.value.split_last() {
            Some((column, table)) if !table.is_empty() => (column, table),
            _ => {
                return Err(SyntaxError::invalid(SqlState::SyntaxError, "column name must be qualified", parts.span)
                    .with_hint("Write it as table.column."));
            }
        };
        let table = self.table_of(table)?;
        let column = named(RemoteName::new(&column.value), column.span)?;
        Ok(At::new(ColumnRef::new(&table, &column.value), parts.span))
    }

    pub(crate) fn role_spec(&mut self) -> Parse<At<RoleSpec>> {
        let token = self.peek();
        for (word, spec) in [
            ("CURRENT_USER", RoleSpec::CurrentUser),
            ("CURRENT_ROLE", RoleSpec::CurrentRole),
            ("SESSION_USER", RoleSpec::SessionUser),
        ] {
            if self.accept(&[word]) {
                return Ok(At::new(spec, token.span()));
            }
        }
        if self.is("PUBLIC") {
            return Err(SyntaxError::invalid(
                SqlState::UndefinedObject,
                "role \"public\" does not exist",
                token.span(),
            ));
        }
        Ok(self.name()?.map(RoleSpec::Name))
    }

    pub(crate) fn role_list(&mut self) -> Parse<Vec<At<RoleSpec>>> {
        self.list(Self::role_spec)
    }

    /// `[USER | ROLE | GROUP] role | PUBLIC`
    pub(crate) fn grantee(&mut self) -> Parse<At<GranteeSpec>> {
        let token = self.peek();
        if self.accept(&["PUBLIC"]) {
            return Ok(At::new(GranteeSpec::Public, token.span()));
        }
        self.skip_role_word();
        Ok(self.role_spec()?.map(GranteeSpec::Role))
    }

    /// USER, ROLE or GROUP before a role's name says nothing that the name does not. ROLE may be a name
    /// itself: it is one where a clause follows and no name.
    pub(crate) fn skip_role_word(&mut self) {
        const CLAUSES: &[&str] =
            &["GRANTED", "CASCADE", "RESTRICT", "PRIORITY", "COMMENT", "ENABLE", "DISABLE", "LIKE", "PASSWORD"];
        let next = self.peek_nth(1);
        let name_follows = match next.kind {
            TokenKind::QuotedIdent | TokenKind::UnicodeIdent => true,
            TokenKind::Word => {
                ["CURRENT_USER", "CURRENT_ROLE", "SESSION_USER"].iter().any(|w| next.is(self.sql, w))
                    || !(is_reserved(&literal::folded(next.text(self.sql)))
                        || CLAUSES.iter().any(|w| next.is(self.sql, w)))
            }
            _ => false,
        };
        if self.is("USER") || self.is("GROUP") || (name_follows && self.is("ROLE")) {
            self.at += 1;
        }
    }

    pub(crate) fn grantee_list(&mut self) -> Parse<Vec<At<GranteeSpec>>> {
        self.list(Self::grantee)
    }
}

/// Checks each part where it stands; the first is a catalog only in a full name, so the longer limit
/// holds for the others.
fn check_parts(parts: &[At<String>]) -> Parse<()> {
    for part in parts {
        named(RemoteName::new(&part.value), part.span)?;
    }
    Ok(())
}

/// A checked name at its place.
pub(crate) fn named<T>(result: Result<T, NameError>, span: Span) -> Parse<At<T>> {
    result.map(|name| At::new(name, span)).map_err(|error| SyntaxError::Name { error, span })
}
