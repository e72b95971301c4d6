//! COMMENT ON: on our own objects, and on schemas, tables and columns of a source, of which the comment is
//! all that is kept.

use dataglot_model::command::{Comment, OnMissing};
use dataglot_model::{At, DEFAULT_CATALOG, ObjectRef, RowKey, Span};

use crate::draft::{comment_of, comment_text};
use crate::image::kind_of_policy;
use crate::{Draft, PlanError, catalog, policy};

pub(crate) fn plan_comment(draft: &mut Draft<'_>, c: &Comment) -> Result<(), PlanError> {
    let Comment { object, on_missing, text } = c;
    let text = comment_text(text);
    match check(draft, object) {
        Ok(()) => {}
        Err(PlanError::Undefined { object: missing, .. }) if *on_missing == OnMissing::Skip => {
            draft.skip_missing(&missing);
            return Ok(());
        }
        Err(error) => return Err(error),
    }
    match &object.value {
        ObjectRef::Schema(_) | ObjectRef::Table(_) | ObjectRef::Column(_) => remark(draft, &object.value, text),
        ObjectRef::Org(_)
        | ObjectRef::Role(_)
        | ObjectRef::Secret(_)
        | ObjectRef::Catalog(_)
        | ObjectRef::View(_)
        | ObjectRef::Mask(_)
        | ObjectRef::RowFilter(_) => draft.set_comment(&object.value, text),
    }
    Ok(())
}

/// Whether there can be such an object.
fn check(draft: &Draft<'_>, object: &At<ObjectRef>) -> Result<(), PlanError> {
    let at: Span = object.span;
    match &object.value {
        ObjectRef::Schema(schema) => return catalog::check_exists(draft, &schema.catalog(), at),
        ObjectRef::Table(table) => {
            if table.catalog().as_str() == DEFAULT_CATALOG && draft.image.view(table).is_some() {
                return Err(PlanError::WrongKind {
                    name: object.value.plain_name(),
                    wanted: dataglot_model::Kind::Table,
                    found: dataglot_model::Kind::View,
                    verb: "COMMENT ON",
                    span: None,
                }
                .at(at));
            }
            return policy::check_table(draft, table, at);
        }
        ObjectRef::Column(column) => return policy::check_column(draft, column, at),
        ObjectRef::Catalog(name) => catalog::check_name(&At::new(name.clone(), at))?,
        ObjectRef::Mask(name) | ObjectRef::RowFilter(name) => {
            if let Some(found) = draft.image.policy(name).map(|p| kind_of_policy(p.def))
                && found != object.value.kind()
            {
                let (name, wanted) = (name.as_str().to_owned(), object.value.kind());
                return Err(PlanError::WrongKind { name, wanted, found, verb: "COMMENT ON", span: None }.at(at));
            }
        }
        ObjectRef::Org(_) | ObjectRef::Role(_) | ObjectRef::Secret(_) | ObjectRef::View(_) => {}
    }
    match draft.image.header(&object.value) {
        Some(_) => Ok(()),
        None => Err(PlanError::undefined(object.value.clone(), at)),
    }
}

/// Sets or removes the comment on something that is not ours.
fn remark(draft: &mut Draft<'_>, object: &ObjectRef, text: Option<&str>) {
    match comment_of(text) {
        None => draft.delete(RowKey::Header(object.clone())),
        Some(_) if draft.image.header(object).is_some() => draft.set_comment(object, text),
        Some(_) => {
            let header = draft.new_header(None, text);
            draft.put_header(object.clone(), header);
        }
    }
}
