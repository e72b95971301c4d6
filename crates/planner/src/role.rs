//! CREATE ROLE, ALTER ROLE; users are roles that may log in.

use std::collections::BTreeMap;
use std::sync::Arc;

use dataglot_model::command::{
    AlterRole, AlterRoleAction, CreateRole, OnExisting, OnMissing, PasswordChange, RoleAttributes, RoleSelector,
    RoleSpec,
};
use dataglot_model::def::{MembershipKey, MembershipOptions, RoleDef};
use dataglot_model::{At, Kind, Name, Notice, ObjectRef, Row, RowKey, Sealed, Span, SqlState, Timestamp};

use crate::draft::comment_of;
use crate::{Draft, Image, PlanError, membership, rename};

/// What `PASSWORD ''` answers.
pub(crate) const EMPTY_PASSWORD: &str = "empty string is not a valid password, clearing password";

/// Names that mean something of their own where a role is named.
const RESERVED: [&str; 6] = ["public", "PUBLIC", "none", "current_user", "session_user", "current_role"];

/// Refuses a name that a new role may not have.
///
/// # Errors
/// 42939.
pub(crate) fn check_name(name: &At<Name>) -> Result<(), PlanError> {
    let text = name.as_str();
    let detail = if text.starts_with("pg_") {
        "Role names starting with \"pg_\" are reserved."
    } else if text.starts_with("dataglot_") {
        "Role names starting with \"dataglot_\" are reserved."
    } else if RESERVED.contains(&text) {
        "The word stands for something else wherever a role is named."
    } else {
        return Ok(());
    };
    let error = PlanError::Reserved { kind: Kind::Role, name: text.to_owned(), detail, span: None };
    Err(error.at(name.span))
}

pub(crate) fn plan_create_role(draft: &mut Draft<'_>, c: &CreateRole<Sealed>) -> Result<(), PlanError> {
    let CreateRole { form: _, name, on_existing, attributes, in_roles, members, admins, comment } = c;
    check_name(name)?;
    let object = ObjectRef::Role(name.value.clone());
    let old = draft.image.role(name).map(|o| o.def.clone());
    if old.is_some() {
        match on_existing {
            OnExisting::Error => return Err(PlanError::exists(object, name.span)),
            OnExisting::Skip => {
                let differs = differences(draft, c);
                draft.skip_existing(&object, &differs);
                return Ok(());
            }
            OnExisting::Replace => {
                let message = "CREATE OR REPLACE ROLE is not supported";
                let error = PlanError::rule(SqlState::FeatureNotSupported, message);
                return Err(error
                    .with_hint("Use CREATE OR ALTER ROLE, which keeps memberships and grants.")
                    .at(name.span));
            }
            OnExisting::Alter => {}
        }
    }
    let in_roles = resolve_all(draft, in_roles)?;
    let members = resolve_all(draft, members)?;
    let admins = resolve_all(draft, admins)?;
    match old {
        None => {
            let def = changed(draft, &object, &RoleDef::default(), attributes)?;
            let header = draft.new_header(None, comment.as_deref());
            draft.put_header(object.clone(), header);
            draft.put(Row::Role(name.value.clone(), Arc::new(def)));
        }
        Some(old) => {
            // What is not named goes back to its default; a password and settings stay.
            let bare = RoleDef {
                verifier: old.verifier.clone(),
                settings: old.settings.clone(),
                extra: old.extra.clone(),
                ..RoleDef::default()
            };
            let new = changed(draft, &object, &bare, attributes)?;
            put_changed(draft, name, &old, new)?;
            if let Some(comment) = comment {
                draft.set_comment(&object, Some(comment));
            }
        }
    }
    let grantor = grantor(draft);
    let joins = in_roles
        .iter()
        .map(|role| (role, &name.value, false))
        .chain(members.iter().map(|member| (&name.value, member, false)))
        .chain(admins.iter().map(|member| (&name.value, member, true)));
    for (role, member, admin) in joins {
        let inherit = draft.image.role(member).is_none_or(|m| m.def.inherit);
        membership::add(draft, role, member, MembershipOptions { admin, inherit, set: true }, &grantor)?;
    }
    Ok(())
}

/// Who grants what a superuser grants.
fn grantor(draft: &Draft<'_>) -> Name {
    draft.image.bootstrap_superuser().unwrap_or(&draft.actor.current_user).clone()
}

fn resolve_all(draft: &Draft<'_>, specs: &[At<RoleSpec>]) -> Result<Vec<Name>, PlanError> {
    specs.iter().map(|spec| draft.resolve_role(spec)).collect()
}

/// `def` with the attributes that a statement names.
fn changed(
    draft: &mut Draft<'_>,
    object: &ObjectRef,
    def: &RoleDef,
    attributes: &RoleAttributes<Sealed>,
) -> Result<RoleDef, PlanError> {
    let RoleAttributes {
        superuser,
        createrole,
        login,
        inherit,
        bypassrls,
        connection_limit,
        password,
        valid_until,
        // The grammar has warned of these.
        ignored: _,
    } = attributes;
    let flag = |given: &Option<At<bool>>, old: bool| given.as_ref().map_or(old, |at| at.value);
    if let Some(limit) = connection_limit
        && limit.value < -1
    {
        let message = "connection limit must be -1 or more";
        return Err(PlanError::rule(SqlState::InvalidParameterValue, message).at(limit.span));
    }
    let verifier = match password.as_ref().map(|p| &p.value) {
        None => def.verifier.clone(),
        Some(PasswordChange::Remove) => None,
        Some(PasswordChange::Set(sealed)) => match sealed {
            Sealed::Verifier { text, by } => {
                draft.bring_key(object, by.as_ref())?;
                Some(text.clone())
            }
            Sealed::EmptyPassword => {
                draft.notice(Notice::note(EMPTY_PASSWORD));
                None
            }
            Sealed::Unchanged { .. } if def.verifier.is_some() => def.verifier.clone(),
            Sealed::Unchanged { .. } | Sealed::Envelope { .. } => {
                return Err(PlanError::Stale { object: object.clone() });
            }
        },
    };
    Ok(RoleDef {
        superuser: flag(superuser, def.superuser),
        createrole: flag(createrole, def.createrole),
        login: flag(login, def.login),
        inherit: flag(inherit, def.inherit),
        bypassrls: flag(bypassrls, def.bypassrls),
        connection_limit: connection_limit.as_ref().map_or(def.connection_limit, |at| at.value),
        valid_until: valid_until.as_ref().map_or(def.valid_until, |at| Some(at.value)),
        verifier,
        settings: def.settings.clone(),
        extra: def.extra.clone(),
    })
}

/// Puts the definition if it differs from `old`; a change of LOGIN moves it to the other table.
///
/// # Errors
/// 55000 if nobody could administer the org any more.
fn put_changed(draft: &mut Draft<'_>, name: &At<Name>, old: &RoleDef, new: RoleDef) -> Result<(), PlanError> {
    if *old == new {
        return Ok(());
    }
    let object = ObjectRef::Role(name.value.clone());
    draft.touch_header(&object, |_| {});
    if old.login != new.login {
        draft.delete(RowKey::Role { name: name.value.clone(), login: old.login });
    }
    draft.put(Row::Role(name.value.clone(), Arc::new(new)));
    check_superuser_left(draft, name)
}

/// Whether `role` can administer the org: a superuser who may log in and has not expired.
pub(crate) fn is_able(def: &RoleDef, now: Timestamp) -> bool {
    def.superuser && def.login && def.valid_until.is_none_or(|until| until > now)
}

fn any_able(image: &Image, now: Timestamp) -> bool {
    image.superusers().filter_map(|name| image.role(name)).any(|role| is_able(role.def, now))
}

/// Refuses a plan that leaves nobody who can administer the org, where there was somebody before.
///
/// # Errors
/// 55000 naming `role`.
pub(crate) fn check_superuser_left(draft: &Draft<'_>, role: &At<Name>) -> Result<(), PlanError> {
    let now = draft.cx.now;
    if any_able(&draft.image, now) || !any_able(&draft.before(), now) {
        return Ok(());
    }
    Err(PlanError::LastSuperuser { role: role.value.clone(), span: None }.at(role.span))
}

/// In what an existing role differs from the one that the statement describes.
fn differences(draft: &Draft<'_>, c: &CreateRole<Sealed>) -> Vec<String> {
    let Some(old) = draft.image.role(&c.name) else { return Vec::new() };
    let def = old.def;
    let RoleAttributes {
        superuser,
        createrole,
        login,
        inherit,
        bypassrls,
        connection_limit,
        password,
        valid_until,
        ignored: _,
    } = &c.attributes;
    let flag = |given: &Option<At<bool>>, old: bool| given.as_ref().is_some_and(|at| at.value != old);
    let password_differs = match password.as_ref().map(|p| &p.value) {
        None => false,
        Some(PasswordChange::Remove) => def.verifier.is_some(),
        Some(PasswordChange::Set(sealed)) => match sealed {
            Sealed::Verifier { text, by: _ } => def.verifier.as_ref() != Some(text),
            Sealed::EmptyPassword => def.verifier.is_some(),
            Sealed::Unchanged { .. } => false,
            Sealed::Envelope { .. } => true,
        },
    };
    let is_member = |role: &Name, member: &Name| {
        let key = MembershipKey { role: role.clone(), member: member.clone() };
        draft.image.membership(&key).is_some()
    };
    let not_in = |role: &At<RoleSpec>| !is_member(draft.role_name(role), &c.name);
    let not_member = |member: &At<RoleSpec>| !is_member(&c.name, draft.role_name(member));
    let checks = [
        (flag(superuser, def.superuser), "SUPERUSER"),
        (flag(createrole, def.createrole), "CREATEROLE"),
        (flag(login, def.login), "LOGIN"),
        (flag(inherit, def.inherit), "INHERIT"),
        (flag(bypassrls, def.bypassrls), "BYPASSRLS"),
        (connection_limit.as_ref().is_some_and(|at| at.value != def.connection_limit), "CONNECTION LIMIT"),
        (password_differs, "PASSWORD"),
        (valid_until.as_ref().is_some_and(|at| Some(at.value) != def.valid_until), "VALID UNTIL"),
        (c.in_roles.iter().any(not_in), "IN ROLE"),
        (c.members.iter().any(not_member), "ROLE"),
        (c.admins.iter().any(not_member), "ADMIN"),
        (c.comment.as_ref().is_some_and(|text| comment_of(Some(text)) != old.header.comment), "COMMENT"),
    ];
    checks.into_iter().filter(|(differs, _)| *differs).map(|(_, what)| what.to_owned()).collect()
}

pub(crate) fn plan_alter_role(draft: &mut Draft<'_>, c: &AlterRole<Sealed>) -> Result<(), PlanError> {
    let AlterRole { role, on_missing, expected, action } = c;
    let spec = match role {
        RoleSelector::One(spec) => spec,
        RoleSelector::All => {
            let message = "ALTER ROLE ALL is not supported";
            let error = PlanError::rule(SqlState::FeatureNotSupported, message);
            return Err(error.with_hint("Set it for each role: ALTER ROLE name SET ..."));
        }
    };
    let name = At::new(draft.role_name(&spec.value).clone(), spec.span);
    let object = ObjectRef::Role(name.value.clone());
    let Some(old) = draft.image.role(&name).map(|o| o.def.clone()) else {
        return match on_missing {
            OnMissing::Error => Err(PlanError::undefined(object, name.span)),
            OnMissing::Skip => {
                draft.skip_missing(&object);
                Ok(())
            }
        };
    };
    draft.check_version(&object, expected)?;
    match action {
        AlterRoleAction::Attributes { attributes, comment } => {
            let new = changed(draft, &object, &old, attributes)?;
            put_changed(draft, &name, &old, new)?;
            if let Some(comment) = comment {
                draft.set_comment(&object, Some(comment));
            }
            Ok(())
        }
        AlterRoleAction::Rename { to, resealed } => {
            check_name(to)?;
            if draft.image.role(to).is_some() {
                return Err(PlanError::exists(ObjectRef::Role(to.value.clone()), to.span));
            }
            let verifier = match resealed {
                Some(Sealed::Verifier { text, by }) => {
                    draft.bring_key(&object, by.as_ref())?;
                    Some(text.clone())
                }
                // The verifier is bound to the old name.
                None if old.has_sealed_verifier() => return Err(PlanError::Stale { object }),
                None => old.verifier.clone(),
                Some(Sealed::Envelope { .. } | Sealed::Unchanged { .. } | Sealed::EmptyPassword) => {
                    return Err(PlanError::Stale { object });
                }
            };
            rename::rename_role(draft, &name, to, verifier);
            Ok(())
        }
        AlterRoleAction::Set { name: setting, value } => set_settings(draft, &name, &old, |settings| {
            settings.insert(setting.value.clone(), value.clone());
        }),
        AlterRoleAction::Reset(setting) => set_settings(draft, &name, &old, |settings| {
            settings.remove(&setting.value);
        }),
        AlterRoleAction::ResetAll => set_settings(draft, &name, &old, BTreeMap::clear),
    }
}

fn set_settings(
    draft: &mut Draft<'_>,
    name: &At<Name>,
    old: &RoleDef,
    change: impl FnOnce(&mut BTreeMap<String, String>),
) -> Result<(), PlanError> {
    let mut settings = old.settings.as_deref().cloned().unwrap_or_default();
    change(&mut settings);
    let settings = (!settings.is_empty()).then(|| Box::new(settings));
    put_changed(draft, name, old, RoleDef { settings, ..old.clone() })
}

/// Refuses to drop whom the session runs as.
///
/// # Errors
/// 55006.
pub(crate) fn check_not_in_use(draft: &Draft<'_>, name: &Name, at: Span) -> Result<(), PlanError> {
    let message = if *name == draft.actor.current_user {
        "current user cannot be dropped"
    } else if *name == draft.actor.session_user {
        "session user cannot be dropped"
    } else {
        return Ok(());
    };
    Err(PlanError::rule(SqlState::ObjectInUse, message).at(at))
}
