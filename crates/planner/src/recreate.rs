//! The commands that would make an object again, as SHOW CREATE prints them.
//!
//! Planned as OR REPLACE or OR ALTER over the same image, such a command changes nothing, but that names in a
//! view that were bound by a search path are written in full. What is no part of a
//! definition is left out: passwords, settings of a role, memberships, whether a catalog is enabled.

use dataglot_model::command::{
    Comment, CommentText, CreateCatalog, CreateMask, CreateRole, CreateRoleForm, CreateRowFilter, CreateSecret,
    CreateView, GrantMembership, GrantPrivileges, GranteeSpec, OnExisting, OnMissing, OptionEntry, PrivilegeItem,
    Privileges, RoleAttributes, RoleSpec, SecretValue, ValidateMode, ViewQuery,
};
use dataglot_model::def::{
    CatalogDef, GrantKey, GrantRecord, Header, MaskDef, OptionValue, PolicyDef, RoleDef, RowFilterDef, SecretMeta,
    SecretOrigin, ViewDef,
};
use dataglot_model::{
    At, Audience, Command, DEFAULT_CATALOG, GrantTarget, Grantee, Name, ObjectRef, Privilege, PrivilegeSet, RemoteName,
    SchemaRef, Sealed, TableRef,
};

use crate::{Image, options, rename};

/// What SHOW CREATE prints: the whole definition, with its comment. A schema, table or column of a source is
/// not ours: its comment is all there is. `None`: there is no such object, or nothing makes one (an org).
pub fn recreate(image: &Image, object: &ObjectRef) -> Option<Command<Sealed>> {
    match object {
        ObjectRef::Catalog(name) => image.catalog(name).map(|o| catalog(name, o.header, o.def)),
        ObjectRef::Secret(name) => image.secret(name).map(|o| secret(name, o.header, o.meta)),
        ObjectRef::Role(name) => image.role(name).map(|o| role(name, o.header, o.def)),
        ObjectRef::View(name) => image.view(name).map(|o| view(name, o.header, o.def)),
        ObjectRef::Mask(name) => image.policy(name).and_then(|o| match &**o.def {
            PolicyDef::Mask(def) => Some(mask(name, o.header, def)),
            PolicyDef::RowFilter(_) => None,
        }),
        ObjectRef::RowFilter(name) => image.policy(name).and_then(|o| match &**o.def {
            PolicyDef::RowFilter(def) => Some(row_filter(name, o.header, def)),
            PolicyDef::Mask(_) => None,
        }),
        ObjectRef::Schema(_) | ObjectRef::Table(_) | ObjectRef::Column(_) => {
            let text = comment(image.header(object)?)?;
            Some(Command::Comment(Comment {
                object: At::nowhere(object.clone()),
                on_missing: OnMissing::Error,
                text: CommentText::Set(text),
            }))
        }
        ObjectRef::Org(_) => None,
    }
}

fn comment(header: &Header) -> Option<String> {
    header.comment.as_deref().map(str::to_owned)
}

fn named(name: &Name) -> At<RoleSpec> {
    At::nowhere(RoleSpec::Name(name.clone()))
}

fn entries<'a>(options: impl IntoIterator<Item = (&'a String, &'a OptionValue)>) -> Vec<OptionEntry> {
    let entry = |(key, value): (&String, &OptionValue)| OptionEntry {
        key: At::nowhere(key.clone()),
        value: At::nowhere(value.clone()),
    };
    options.into_iter().map(entry).collect()
}

fn catalog(name: &Name, header: &Header, def: &CatalogDef) -> Command<Sealed> {
    // One that was made with VALIDATE OFF can only be made so again.
    let complete = options::missing(def.connector, &def.options).next().is_none();
    Command::CreateCatalog(CreateCatalog {
        name: At::nowhere(name.clone()),
        on_existing: OnExisting::Error,
        connector: At::nowhere(def.connector),
        options: entries(&def.options),
        comment: comment(header),
        owner: header.owner.as_ref().map(named),
        validate: if complete { ValidateMode::Schema } else { ValidateMode::Off },
    })
}

fn secret(name: &Name, header: &Header, meta: &SecretMeta) -> Command<Sealed> {
    let value = match &meta.origin {
        SecretOrigin::Sealed(_) => SecretValue::Redacted,
        SecretOrigin::Env(variable) => SecretValue::Env(variable.clone()),
        SecretOrigin::File(path) => SecretValue::File(path.clone()),
    };
    Command::CreateSecret(CreateSecret {
        name: At::nowhere(name.clone()),
        on_existing: OnExisting::Error,
        value: At::nowhere(value),
        comment: comment(header),
    })
}

fn role(name: &Name, header: &Header, def: &RoleDef) -> Command<Sealed> {
    let RoleDef {
        superuser,
        createrole,
        login,
        inherit,
        bypassrls,
        connection_limit,
        valid_until,
        verifier: _,
        settings: _,
        extra: _,
    } = def;
    let usual = RoleDef::default();
    let flag = |value: bool, usual: bool| (value != usual).then(|| At::nowhere(value));
    Command::CreateRole(CreateRole {
        form: if *login { CreateRoleForm::User } else { CreateRoleForm::Role },
        name: At::nowhere(name.clone()),
        on_existing: OnExisting::Error,
        attributes: RoleAttributes {
            superuser: flag(*superuser, usual.superuser),
            createrole: flag(*createrole, usual.createrole),
            login: flag(*login, usual.login),
            inherit: flag(*inherit, usual.inherit),
            bypassrls: flag(*bypassrls, usual.bypassrls),
            connection_limit: (*connection_limit != usual.connection_limit).then(|| At::nowhere(*connection_limit)),
            password: None,
            valid_until: valid_until.map(At::nowhere),
            ignored: Vec::new(),
        },
        in_roles: Vec::new(),
        members: Vec::new(),
        admins: Vec::new(),
        comment: comment(header),
    })
}

fn audience(stored: &Audience<Grantee, Name>) -> Audience<At<GranteeSpec>, At<RoleSpec>> {
    Audience {
        to: stored.to.as_ref().map(|to| to.iter().map(|grantee| At::nowhere(grantee.clone().into())).collect()),
        except: stored.except.iter().map(named).collect(),
    }
}

fn mask(name: &Name, header: &Header, def: &MaskDef) -> Command<Sealed> {
    let MaskDef { target, function, when, audience: whom, priority, enabled, extra: _ } = def;
    Command::CreateMask(CreateMask {
        name: At::nowhere(name.clone()),
        on_existing: OnExisting::Error,
        target: At::nowhere(target.clone()),
        function: function.clone(),
        when: when.clone(),
        audience: audience(whom),
        priority: *priority,
        enabled: *enabled,
        comment: comment(header),
    })
}

fn row_filter(name: &Name, header: &Header, def: &RowFilterDef) -> Command<Sealed> {
    let RowFilterDef { target, using, audience: whom, others, enabled, extra: _ } = def;
    Command::CreateRowFilter(CreateRowFilter {
        name: At::nowhere(name.clone()),
        on_existing: OnExisting::Error,
        target: At::nowhere(target.clone()),
        using: using.clone(),
        audience: audience(whom),
        others: *others,
        enabled: *enabled,
        comment: comment(header),
    })
}

fn view(name: &TableRef, header: &Header, def: &ViewDef) -> Command<Sealed> {
    let portable = rename::rewritten(def, &|table| binds_by_search_path(def, table).then(|| table.clone()));
    let ViewDef { query, references, columns, security, options, extra: _ } = portable.as_ref().unwrap_or(def);
    Command::CreateView(CreateView {
        name: At::nowhere(name.clone()),
        on_existing: OnExisting::Error,
        columns: columns.clone(),
        comment: comment(header),
        security: Some(*security),
        options: entries(options),
        query: At::nowhere(ViewQuery { text: query.clone(), references: references.clone() }),
    })
}

/// Whether the view's text names `table` in a form that means it only under the search path that the view
/// was created with. Such a name is printed in full, so that the statement means the same anywhere.
fn binds_by_search_path(def: &ViewDef, table: &TableRef) -> bool {
    def.references.iter().filter(|reference| reference.table == *table).any(|reference| {
        let range = usize::try_from(reference.start).ok().zip(usize::try_from(reference.end).ok());
        let written = range.and_then(|(start, end)| def.query.get(start..end)).unwrap_or_default();
        // A dot between an even number of quotes is one between parts.
        let dots = written.split('"').step_by(2).map(|bare| bare.matches('.').count()).sum::<usize>();
        match dots {
            0 => table.schema() != SchemaRef::default_schema(),
            1 => table.catalog().as_str() != DEFAULT_CATALOG,
            _ => false,
        }
    })
}

/// The statements that grant again what is granted on `object`, in the order of grantees; of a role: its
/// memberships. Who granted it is not said.
pub fn recreate_grants(image: &Image, object: &ObjectRef) -> Vec<Command<Sealed>> {
    let mut commands = Vec::new();
    if let ObjectRef::Role(name) = object {
        for (key, record) in image.members_of(name) {
            commands.extend(record.by.values().map(|options| {
                Command::GrantMembership(GrantMembership {
                    roles: vec![named(name)],
                    members: vec![named(&key.member)],
                    admin: Some(options.admin),
                    inherit: Some(options.inherit),
                    set: Some(options.set),
                    granted_by: None,
                })
            }));
        }
        return commands;
    }
    for (key, record) in image.grants_on(&GrantTarget::Object(object.clone())) {
        push_grants(&mut commands, key, record);
    }
    commands
}

/// One statement for what comes without grant option, and one for what comes with it.
fn push_grants(commands: &mut Vec<Command<Sealed>>, key: &GrantKey, record: &GrantRecord) {
    let GrantRecord { privileges, grantable, columns, as_all, extra: _ } = record;
    let mut push = |list: Privileges, grant_option: bool| {
        commands.push(Command::GrantPrivileges(GrantPrivileges {
            privileges: list,
            targets: vec![At::nowhere(key.target.clone())],
            grantees: vec![At::nowhere(key.grantee.clone().into())],
            grant_option,
            granted_by: None,
        }));
    };
    if *as_all {
        push(Privileges::All, *privileges == *grantable);
    }
    let plain = if *as_all { PrivilegeSet::EMPTY } else { privileges.difference(*grantable) };
    let passed_on = if *as_all && *privileges == *grantable { PrivilegeSet::EMPTY } else { *grantable };
    let with = |option: bool| columns.iter().filter(move |(_, has)| **has == option).map(|(column, _)| column.clone());
    for (set, columns, option) in [
        (plain, with(false).collect::<Vec<RemoteName>>(), false),
        (passed_on, with(true).collect::<Vec<RemoteName>>(), true),
    ] {
        let mut items: Vec<At<PrivilegeItem>> =
            set.iter().map(|privilege| At::nowhere(PrivilegeItem { privilege, columns: Vec::new() })).collect();
        if !columns.is_empty() {
            items.push(At::nowhere(PrivilegeItem { privilege: Privilege::Select, columns }));
        }
        if !items.is_empty() {
            push(Privileges::List(items), option);
        }
    }
}

#[cfg(test)]
mod tests;
