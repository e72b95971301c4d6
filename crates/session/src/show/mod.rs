//! SHOW, DESCRIBE and EXPLAIN: rows made of an image, one file a kind.
//!
//! Every list holds what the caller may see and nothing else, in the order of names. What he may not
//! see answers as if it did not exist. Columns of a form never change with what is in it.

mod catalog;
pub(crate) mod change;
mod create;
mod dependency;
pub(crate) mod describe;
pub(crate) mod explain;
mod grant;
pub(crate) mod like;
mod org;
mod policy;
mod role;
mod secret;
pub(crate) mod secret_key;
pub(crate) mod secret_problem;
mod view;

use std::sync::Arc;

use dataglot_model::command::{GranteeSpec, RoleSpec};
use dataglot_model::def::{Header, Stamp};
use dataglot_model::{Actor, Grantee, Kind, Name, ObjectRef, Show, ShowKind, ShowScope, SqlState, TableRef, Timestamp};
use dataglot_planner::{Image, is_superuser, may_see};
use dataglot_vault::KeyRing;

use crate::error::SessionError;
use crate::response::Column;
use crate::seal::has_key;
use crate::value::{Rows, Type, Value, columns_of};

/// What a read may look at, and for whom.
#[derive(Clone, Copy)]
pub(crate) struct ReadCx<'a> {
    /// The image.
    pub(crate) image: &'a Image,
    /// The caller.
    pub(crate) actor: &'a Actor,
    /// When the transaction began.
    pub(crate) now: Timestamp,
    /// The keys that are loaded.
    pub(crate) ring: &'a KeyRing,
}

impl ReadCx<'_> {
    /// Whether the value of a secret is in the store and cannot be had from it: it is damaged or lost, or so is
    /// its data key, or its master key is not loaded. Nothing is opened to tell.
    fn is_unreadable(&self, secret: &Name) -> bool {
        self.image.is_unreadable(secret)
            || self
                .image
                .secret(secret)
                .and_then(|found| found.envelope)
                .is_some_and(|e| !has_key(self.ring, self.image, e))
    }

    /// What SHOW and DESCRIBE say of a secret's value.
    fn secret_status(&self, secret: &Name) -> &'static str {
        if self.image.is_lost(secret) {
            "lost"
        } else if self.is_unreadable(secret) {
            "unreadable"
        } else {
            "ok"
        }
    }

    fn may_see(&self, object: &ObjectRef) -> bool {
        may_see(self.image, self.actor, object)
    }

    /// Whether `object` is there, as far as the caller may know.
    fn exists(&self, object: &ObjectRef) -> bool {
        self.image.header(object).is_some() && self.may_see(object)
    }

    fn require_superuser(&self, what: &str) -> Result<(), SessionError> {
        if is_superuser(self.image, self.actor) {
            return Ok(());
        }
        Err(SessionError::new(SqlState::InsufficientPrivilege, format!("permission denied to show {what}"))
            .with_detail("Only superusers may see them."))
    }

    /// The role that a statement names.
    fn role(&self, spec: &RoleSpec) -> Name {
        spec.resolve(self.actor).clone()
    }

    /// The grantee that a statement names, if the caller may see it.
    fn grantee(&self, spec: &GranteeSpec) -> Result<Grantee, SessionError> {
        match spec {
            GranteeSpec::Public => Ok(Grantee::Public),
            GranteeSpec::Role(role) => {
                let name = self.role(role);
                let object = ObjectRef::Role(name.clone());
                if self.exists(&object) { Ok(Grantee::Role(name)) } else { Err(undefined(&object)) }
            }
        }
    }
}

/// `object` does not exist, or the caller may not know that it does.
pub(crate) fn undefined(object: &ObjectRef) -> SessionError {
    let message = match object {
        ObjectRef::Table(_) | ObjectRef::View(_) => format!("view \"{}\" does not exist", object.plain_name()),
        ObjectRef::Org(_)
        | ObjectRef::Role(_)
        | ObjectRef::Secret(_)
        | ObjectRef::Catalog(_)
        | ObjectRef::Schema(_)
        | ObjectRef::Column(_)
        | ObjectRef::Mask(_)
        | ObjectRef::RowFilter(_) => format!("{object} does not exist"),
    };
    SessionError::new(object.kind().undefined(), message)
}

/// The columns that `show` answers.
pub(crate) fn columns(show: &Show) -> Arc<[Column]> {
    columns_of(match show {
        Show::Objects { kind, .. } => match kind {
            ShowKind::Catalogs => catalog::COLUMNS,
            ShowKind::Secrets => secret::COLUMNS,
            ShowKind::Roles | ShowKind::Users => role::COLUMNS,
            ShowKind::Masks => policy::MASK_COLUMNS,
            ShowKind::RowFilters => policy::ROW_FILTER_COLUMNS,
            ShowKind::Policies => policy::POLICY_COLUMNS,
            ShowKind::Views => view::COLUMNS,
        },
        Show::Grants(form) => grant::columns(form),
        Show::CurrentRoles => role::CURRENT_COLUMNS,
        Show::RoleGrants => role::GRANT_COLUMNS,
        Show::Create(_) => create::COLUMNS,
        Show::Dependencies { dependents: true, .. } => dependency::DEPENDENT_COLUMNS,
        Show::Dependencies { dependents: false, .. } => dependency::DEPENDENCY_COLUMNS,
        Show::Changes { .. } => change::COLUMNS,
        Show::TransactionStatus(_) => change::STATUS_COLUMNS,
        Show::Orgs => org::COLUMNS,
        Show::SecretKeys => secret_key::COLUMNS,
        Show::SecretProblems => secret_problem::COLUMNS,
    })
}

/// The rows of a `show` that the image alone can answer. `None`: it asks for history, which is in the
/// store ([`change`] answers it), or for keys ([`secret_key`], [`secret_problem`]).
pub(crate) fn rows(cx: ReadCx<'_>, show: &Show) -> Result<Option<Rows>, SessionError> {
    let mut rows = Rows { columns: columns(show), rows: Vec::new() };
    rows.rows = match show {
        Show::Objects { kind, within, on, like } => {
            let filter = Filter { within: within.as_ref(), on: on.as_ref(), like: like.as_ref() };
            match kind {
                ShowKind::Catalogs => catalog::rows(cx, filter)?,
                ShowKind::Secrets => secret::rows(cx, filter)?,
                ShowKind::Roles => role::rows(cx, filter, false)?,
                ShowKind::Users => role::rows(cx, filter, true)?,
                ShowKind::Masks | ShowKind::RowFilters | ShowKind::Policies => policy::rows(cx, filter, *kind)?,
                ShowKind::Views => view::rows(cx, filter)?,
            }
        }
        Show::Grants(form) => grant::rows(cx, form)?,
        Show::CurrentRoles => role::current(cx),
        Show::RoleGrants => role::grants(cx, None),
        Show::Create(object) => create::rows(cx, object)?,
        Show::Dependencies { object, dependents } => dependency::rows(cx, object, *dependents)?,
        Show::Orgs => org::rows(cx)?,
        Show::Changes { .. } | Show::TransactionStatus(_) | Show::SecretKeys | Show::SecretProblems => return Ok(None),
    };
    Ok(Some(rows))
}

/// `IN`, `ON` and `LIKE` of a SHOW.
#[derive(Clone, Copy)]
struct Filter<'a> {
    within: Option<&'a ShowScope>,
    on: Option<&'a TableRef>,
    like: Option<&'a (String, Option<char>)>,
}

impl Filter<'_> {
    /// Whether a name passes LIKE.
    fn likes(&self, name: &str) -> Result<bool, SessionError> {
        self.like.map_or(Ok(true), |(pattern, escape)| like::matches(name, pattern, *escape))
    }

    /// Neither `IN` nor `ON` means anything for a kind that is in no catalog.
    fn no_place(&self, kind: Kind) -> Result<(), SessionError> {
        if self.within.is_none() && self.on.is_none() {
            return Ok(());
        }
        Err(SessionError::new(
            SqlState::FeatureNotSupported,
            format!("a {} belongs to no catalog, schema or table", kind.noun()),
        )
        .with_hint("Leave out IN and ON."))
    }
}

/// The columns that end every list of objects.
const COMMON: [(&str, Type); 5] = [
    ("owner", Type::Text),
    ("comment", Type::Text),
    ("version", Type::Int8),
    ("created", Type::Time),
    ("changed", Type::Time),
];

/// The values of [`COMMON`].
fn common(header: &Header) -> [Value; 5] {
    [
        owner(header),
        comment(header),
        int(header.version),
        Value::Time(header.created.at),
        Value::Time(header.changed.at),
    ]
}

fn owner(header: &Header) -> Value {
    Value::text_or_null(header.owner.as_ref().map(|o| o.as_str()))
}

fn comment(header: &Header) -> Value {
    Value::text_or_null(header.comment.as_deref())
}

fn int(n: u64) -> Value {
    Value::Int(i64::try_from(n).unwrap_or(i64::MAX))
}

/// `2031-02-03 04:05:06+00 by admin in 7`
fn stamp(stamp: &Stamp) -> String {
    format!("{} by {} in transaction {}", stamp.at, stamp.by, stamp.seq)
}

/// Whether `table` lies in a scope.
fn lies_in(table: &TableRef, scope: Option<&ShowScope>) -> bool {
    match scope {
        None => true,
        Some(ShowScope::Catalog(catalog)) => table.catalog() == *catalog,
        Some(ShowScope::Schema(schema)) => table.schema() == *schema,
    }
}

/// Joins a list of columns with [`COMMON`]'s.
macro_rules! with_common {
    ($($name:literal: $of:ident),* $(,)?) => {
        &[
            $(($name, crate::value::Type::$of),)*
            super::COMMON[0], super::COMMON[1], super::COMMON[2], super::COMMON[3], super::COMMON[4],
        ]
    };
}
use with_common;
