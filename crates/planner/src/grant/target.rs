//! What a statement grants on, and which privileges it means there.

use std::collections::BTreeSet;

use dataglot_model::command::{PrivilegeItem, Privileges};
use dataglot_model::{
    At, ColumnRef, GrantTarget, Kind, ObjectRef, PatternScope, Privilege, PrivilegeSet, RemoteName, Span, SqlState,
    TableRef,
};

use crate::policy::{check_table, find};
use crate::{Draft, PlanError, catalog};

/// The rights that a statement names, as they work out on one target.
#[derive(Debug)]
pub(super) struct Rights {
    /// Privileges on the whole.
    pub(super) set: PrivilegeSet,
    /// SELECT on these columns.
    pub(super) columns: BTreeSet<RemoteName>,
    /// It said ALL.
    pub(super) all: bool,
}

impl Rights {
    /// Whether SELECT is among them, on the whole or on a column.
    pub(super) fn selects(&self) -> bool {
        self.set.contains(Privilege::Select) || !self.columns.is_empty()
    }
}

/// The target as grants on it are kept: a table that is a view is a view.
///
/// # Errors
/// 42704, 42P01, 42809 for what is not there; 0LP01 for what carries no privilege.
pub(super) fn resolve(draft: &Draft<'_>, spec: &At<GrantTarget>) -> Result<GrantTarget, PlanError> {
    let at = spec.span;
    let object = match &spec.value {
        GrantTarget::System | GrantTarget::AllCatalogs | GrantTarget::AllSecrets => return Ok(spec.value.clone()),
        GrantTarget::Pattern { within, .. } => {
            match within {
                PatternScope::Schema(schema) => catalog::check_exists(draft, &schema.catalog(), at)?,
                PatternScope::Catalog(name) => catalog::check_exists(draft, name, at)?,
            }
            return Ok(spec.value.clone());
        }
        GrantTarget::Object(object) => object,
    };
    let missing = || Err(PlanError::undefined(object.clone(), at));
    let named = |name: &dataglot_model::Name, kind| find(draft, &At::new(name.clone(), at), kind, "GRANT APPLY ON");
    match object {
        ObjectRef::Catalog(name) => catalog::check_exists(draft, name, at)?,
        ObjectRef::Schema(schema) => catalog::check_exists(draft, &schema.catalog(), at)?,
        ObjectRef::Table(table) => {
            check_table(draft, table, at)?;
            if draft.image.view(table).is_some() {
                return Ok(GrantTarget::Object(ObjectRef::View(table.clone())));
            }
        }
        ObjectRef::View(view) if draft.image.view(view).is_none() => return missing(),
        ObjectRef::Secret(name) if draft.image.secret(name).is_none() => return missing(),
        ObjectRef::Mask(name) if named(name, Kind::Mask)?.is_none() => return missing(),
        ObjectRef::RowFilter(name) if named(name, Kind::RowFilter)?.is_none() => return missing(),
        ObjectRef::View(_) | ObjectRef::Secret(_) | ObjectRef::Mask(_) | ObjectRef::RowFilter(_) => {}
        ObjectRef::Org(_) | ObjectRef::Role(_) | ObjectRef::Column(_) => {
            let message = format!("no privileges can be granted on {object}");
            return Err(PlanError::rule(SqlState::InvalidGrantOperation, message).at(at));
        }
    }
    Ok(spec.value.clone())
}

/// What the privileges of a statement mean on `target`.
///
/// # Errors
/// 0LP01 for a privilege that does not fit, 42703 for a column that the view does not have.
pub(super) fn rights_on(
    draft: &Draft<'_>,
    privileges: &Privileges,
    target: &GrantTarget,
    at: Span,
) -> Result<Rights, PlanError> {
    let Some(class) = target.class() else {
        return Err(invalid(format!("no privileges can be granted on {target}"), at));
    };
    let items = match privileges {
        Privileges::All => return Ok(Rights { set: class.all(), columns: BTreeSet::new(), all: true }),
        Privileges::List(items) => items,
    };
    let mut rights = Rights { set: PrivilegeSet::EMPTY, columns: BTreeSet::new(), all: false };
    for item in items {
        let PrivilegeItem { privilege, columns } = &item.value;
        if !class.all().contains(*privilege) {
            let message = format!("invalid privilege type {} for {}", privilege.keyword(), class.noun());
            return Err(invalid(message, item.span));
        }
        if columns.is_empty() {
            rights.set = rights.set.union(PrivilegeSet::of(&[*privilege]));
            continue;
        }
        let Some(table) = table_of(target) else {
            return Err(invalid("column privileges are only valid for tables and views".to_owned(), item.span));
        };
        if *privilege != Privilege::Select {
            let message = format!("invalid privilege type {} for column", privilege.keyword());
            return Err(invalid(message, item.span));
        }
        for column in columns {
            let column_ref = ColumnRef::new(table, column);
            crate::policy::check_column(draft, &column_ref, item.span)?;
            rights.columns.insert(column.clone());
        }
    }
    Ok(rights)
}

fn invalid(message: String, at: Span) -> PlanError {
    PlanError::rule(SqlState::InvalidGrantOperation, message).at(at)
}

/// The one table or view that a target is.
fn table_of(target: &GrantTarget) -> Option<&TableRef> {
    match target {
        GrantTarget::Object(ObjectRef::Table(table) | ObjectRef::View(table)) => Some(table),
        GrantTarget::Object(
            ObjectRef::Org(_)
            | ObjectRef::Role(_)
            | ObjectRef::Secret(_)
            | ObjectRef::Catalog(_)
            | ObjectRef::Schema(_)
            | ObjectRef::Column(_)
            | ObjectRef::Mask(_)
            | ObjectRef::RowFilter(_),
        )
        | GrantTarget::System
        | GrantTarget::Pattern { .. }
        | GrantTarget::AllCatalogs
        | GrantTarget::AllSecrets => None,
    }
}

/// Whether the columns of `target` are known here: those of a view that declares them.
pub(super) fn knows_columns(draft: &Draft<'_>, target: &GrantTarget) -> bool {
    table_of(target).and_then(|table| draft.image.view(table)).is_some_and(|view| view.def.columns.is_some())
}
