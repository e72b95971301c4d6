//! `SHOW ROLES`, `SHOW USERS`, `SHOW CURRENT ROLES`, `SHOW ROLE GRANTS`

use dataglot_model::{Kind, Name, ObjectRef};
use dataglot_planner::usable_roles;

use super::{Filter, ReadCx, comment, int};
use crate::error::SessionError;
use crate::value::{Type, Value};

pub(super) const COLUMNS: &[(&str, Type)] = &[
    ("name", Type::Text),
    ("login", Type::Bool),
    ("superuser", Type::Bool),
    ("createrole", Type::Bool),
    ("inherit", Type::Bool),
    ("bypassrls", Type::Bool),
    ("connection_limit", Type::Int4),
    ("valid_until", Type::Time),
    ("has_password", Type::Bool),
    ("member_of", Type::TextArray),
    ("comment", Type::Text),
    ("version", Type::Int8),
    ("created", Type::Time),
    ("changed", Type::Time),
];
pub(super) const CURRENT_COLUMNS: &[(&str, Type)] = &[("role", Type::Text)];
pub(super) const GRANT_COLUMNS: &[(&str, Type)] = &[
    ("role", Type::Text),
    ("member", Type::Text),
    ("grantor", Type::Text),
    ("admin", Type::Bool),
    ("inherit", Type::Bool),
    ("set", Type::Bool),
];

pub(super) fn rows(cx: ReadCx<'_>, filter: Filter<'_>, users: bool) -> Result<Vec<Vec<Value>>, SessionError> {
    filter.no_place(Kind::Role)?;
    let mut rows = Vec::new();
    for (name, role) in cx.image.roles() {
        let wanted = role.def.login || !users;
        if !wanted || !filter.likes(name.as_str())? || !cx.may_see(&ObjectRef::Role(name.clone())) {
            continue;
        }
        let def = role.def;
        rows.push(vec![
            Value::from(name.as_str()),
            Value::Bool(def.login),
            Value::Bool(def.superuser),
            Value::Bool(def.createrole),
            Value::Bool(def.inherit),
            Value::Bool(def.bypassrls),
            Value::Int(i64::from(def.connection_limit)),
            def.valid_until.map_or(Value::Null, Value::Time),
            Value::Bool(def.verifier.is_some()),
            Value::List(
                cx.image
                    .roles_of(name)
                    .filter(|(key, _)| cx.may_see(&ObjectRef::Role(key.role.clone())))
                    .map(|(key, _)| key.role.as_str().to_owned())
                    .collect(),
            ),
            comment(role.header),
            int(role.header.version),
            Value::Time(role.header.created.at),
            Value::Time(role.header.changed.at),
        ]);
    }
    Ok(rows)
}

/// The roles whose rights the session has: the current one, and what it inherits.
pub(super) fn current(cx: ReadCx<'_>) -> Vec<Vec<Value>> {
    let mut roles = usable_roles(cx.image, &cx.actor.current_user);
    roles.sort();
    roles.iter().map(|name| vec![Value::from(name.as_str())]).collect()
}

/// The memberships that the caller may see; those in one role, if one is named.
pub(super) fn grants(cx: ReadCx<'_>, of: Option<&Name>) -> Vec<Vec<Value>> {
    let sees = |name: &Name| cx.may_see(&ObjectRef::Role(name.clone()));
    cx.image
        .memberships()
        .filter(|(key, _)| of.is_none_or(|role| key.role == *role))
        .filter(|(key, _)| sees(&key.role) && sees(&key.member))
        .flat_map(|(key, record)| {
            record.by.iter().map(move |(grantor, options)| {
                vec![
                    Value::from(key.role.as_str()),
                    Value::from(key.member.as_str()),
                    Value::from(grantor.as_str()),
                    Value::Bool(options.admin),
                    Value::Bool(options.inherit),
                    Value::Bool(options.set),
                ]
            })
        })
        .collect()
}
