//! Statements that work on any kind: DROP, COMMENT, REASSIGN OWNED, DROP OWNED.

use dataglot_model::ObjectRef;
use dataglot_model::command::{Comment, DropObjects, DropOwned, ReassignOwned};

use super::policy::print_on_column;
use super::sql::{Sql, quote_name};

pub(super) fn print_drop(sql: &mut Sql, drop: &DropObjects) {
    let DropObjects { kind, objects, on, on_missing, behavior } = drop;
    sql.word("DROP").word(kind.keyword()).if_exists(*on_missing);
    sql.list(objects, |sql, object| {
        sql.word(object.sql_name());
    });
    match on.as_ref().map(|on| &on.value) {
        None => {}
        Some(ObjectRef::Column(column)) => print_on_column(sql, column),
        Some(ObjectRef::Catalog(catalog)) => {
            sql.word("ON CATALOG").word(quote_name(catalog));
        }
        Some(
            on @ (ObjectRef::Org(_)
            | ObjectRef::Role(_)
            | ObjectRef::Secret(_)
            | ObjectRef::Schema(_)
            | ObjectRef::Table(_)
            | ObjectRef::View(_)
            | ObjectRef::Mask(_)
            | ObjectRef::RowFilter(_)),
        ) => {
            sql.word("ON");
            print_object(sql, on);
        }
    }
    sql.behavior(*behavior);
}

pub(super) fn print_comment(sql: &mut Sql, comment: &Comment) {
    let Comment { object, on_missing, text } = comment;
    sql.word("COMMENT").if_exists(*on_missing).word("ON");
    print_object(sql, &object.value);
    sql.word("IS").comment_text(text);
}

pub(super) fn print_reassign_owned(sql: &mut Sql, reassign: &ReassignOwned) {
    let ReassignOwned { from, to } = reassign;
    sql.word("REASSIGN OWNED BY").roles(from).word("TO").role(&to.value);
}

pub(super) fn print_drop_owned(sql: &mut Sql, drop: &DropOwned) {
    let DropOwned { by, behavior } = drop;
    sql.word("DROP OWNED BY").roles(by).behavior(*behavior);
}

/// `CATALOG pg`
pub(super) fn print_object(sql: &mut Sql, object: &ObjectRef) {
    sql.word(object.kind().keyword()).word(object.sql_name());
}
