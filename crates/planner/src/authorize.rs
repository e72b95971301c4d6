//! Who may do what: the only place that decides it.
//!
//! Today superusers may change everything, and everybody else their own password. What one may not see answers
//! exactly as what does not exist: a refusal here comes before anything is looked up.

use std::collections::BTreeSet;

use dataglot_model::command::{AlterRole, AlterRoleAction, RoleAttributes, RoleSelector, RoleSpec};
use dataglot_model::{
    Actor, Command, GrantTarget, Grantee, Name, ObjectRef, OrgCommand, PatternKind, PatternScope, Sealed, TableRef,
};

use crate::effective::{Along, roles_of_transitive};
use crate::{Image, PlanError};

/// Proof that the actor may run the command. Only [`authorize`] makes one, and [`crate::plan`] takes
/// nothing else, so no statement changes anything unchecked.
#[derive(Debug)]
pub struct Authorized<'c> {
    command: &'c Command<Sealed>,
    actor: Actor,
}

impl<'c> Authorized<'c> {
    pub(crate) fn parts(self) -> (&'c Command<Sealed>, Actor) {
        (self.command, self.actor)
    }
}

/// Proof that the actor may run the statement on orgs. Only [`authorize_org`] makes one.
#[derive(Debug)]
pub struct AuthorizedOrg<'c> {
    command: &'c OrgCommand<Sealed>,
    actor: Actor,
}

impl<'c> AuthorizedOrg<'c> {
    pub(crate) fn parts(self) -> (&'c OrgCommand<Sealed>, Actor) {
        (self.command, self.actor)
    }
}

/// Whether `actor` may run `command`; asked again for each statement.
///
/// # Errors
/// [`PlanError::RoleDropped`], [`PlanError::Denied`].
pub fn authorize<'c>(image: &Image, actor: &Actor, command: &'c Command<Sealed>) -> Result<Authorized<'c>, PlanError> {
    let actor = current_actor(image, actor)?;
    if has_superuser(image, &actor) {
        return Ok(Authorized { command, actor });
    }
    match password_alone(command) {
        Some(role) if *role.resolve(&actor) == actor.current_user => Ok(Authorized { command, actor }),
        // The same whether there is such a role or not.
        Some(_) => Err(PlanError::Denied {
            action: action(command),
            detail: "To change another role's password, the current user must have the SUPERUSER attribute.".to_owned(),
        }),
        None => Err(denied(action(command))),
    }
}

/// The role whose password `command` sets or removes, if that is all that it does. As in PostgreSQL, the current user
/// may do that to itself.
fn password_alone(command: &Command<Sealed>) -> Option<&RoleSpec> {
    let Command::AlterRole(AlterRole {
        role: RoleSelector::One(role),
        on_missing: _,
        expected: _,
        action: AlterRoleAction::Attributes { attributes, comment: None },
    }) = command
    else {
        return None;
    };
    let RoleAttributes {
        superuser: None,
        createrole: None,
        login: None,
        inherit: None,
        bypassrls: None,
        connection_limit: None,
        password: Some(_),
        valid_until: None,
        ignored,
    } = attributes
    else {
        return None;
    };
    ignored.is_empty().then_some(&role.value)
}

/// Whether `actor`, a role of the org `default` whose image this is, may run a statement on orgs.
///
/// # Errors
/// [`PlanError::RoleDropped`], [`PlanError::Denied`].
pub fn authorize_org<'c>(
    image: &Image,
    actor: &Actor,
    command: &'c OrgCommand<Sealed>,
) -> Result<AuthorizedOrg<'c>, PlanError> {
    let actor = current_actor(image, actor)?;
    if image.org().is_default() && has_superuser(image, &actor) {
        return Ok(AuthorizedOrg { command, actor });
    }
    let action = match command {
        OrgCommand::Create { .. } => "create org",
        OrgCommand::Drop { .. } => "drop org",
    };
    Err(PlanError::Denied {
        action: action.to_owned(),
        detail: "Only superusers of the platform may do this.".to_owned(),
    })
}

/// Whether `actor` may have everything of the org wrapped and sealed anew; who it is.
///
/// # Errors
/// [`PlanError::RoleDropped`], [`PlanError::Denied`].
pub fn authorize_rewrap(image: &Image, actor: &Actor) -> Result<Actor, PlanError> {
    let actor = current_actor(image, actor)?;
    if has_superuser(image, &actor) { Ok(actor) } else { Err(denied("rewrap secrets".to_owned())) }
}

/// The same actor under the present names of its roles.
///
/// # Errors
/// [`PlanError::RoleDropped`]: one of them is gone, even if there is a new one of its name.
pub fn current_actor(image: &Image, actor: &Actor) -> Result<Actor, PlanError> {
    let present = |id, name: &Name| {
        // Almost always the name still is that role's.
        match image.role(name) {
            Some(role) if role.header.id == id => Ok(name.clone()),
            Some(_) | None => image.role_by_id(id).ok_or_else(|| PlanError::RoleDropped { role: name.clone() }),
        }
    };
    Ok(Actor {
        session_user: present(actor.session_user_id, &actor.session_user)?,
        session_user_id: actor.session_user_id,
        current_user: present(actor.current_user_id, &actor.current_user)?,
        current_user_id: actor.current_user_id,
    })
}

/// Whether the current user of `actor` is a superuser now.
pub fn is_superuser(image: &Image, actor: &Actor) -> bool {
    current_actor(image, actor).is_ok_and(|actor| has_superuser(image, &actor))
}

fn has_superuser(image: &Image, actor: &Actor) -> bool {
    image.role(&actor.current_user).is_some_and(|role| role.def.superuser)
}

/// Whether the session may `SET ROLE` to `role`: its user is a superuser, is that role, or is a member of it,
/// each step of the way with the SET option.
///
/// # Errors
/// 42704 for a role that does not exist or that the user is in no way a member of; 42501 for a membership
/// without the SET option.
pub fn may_set_role(image: &Image, actor: &Actor, role: &Name) -> Result<(), PlanError> {
    let actor = current_actor(image, actor)?;
    let user = &actor.session_user;
    let there = image.role(role).is_some();
    if there && (role == user || image.role(user).is_some_and(|u| u.def.superuser)) {
        return Ok(());
    }
    if there && roles_of_transitive(image, user, Along::Set).contains(role) {
        return Ok(());
    }
    if there && roles_of_transitive(image, user, Along::Any).contains(role) {
        return Err(PlanError::Denied {
            action: format!("set role \"{}\"", role.as_str()),
            detail: "The membership does not come with the SET option.".to_owned(),
        });
    }
    Err(PlanError::Undefined { object: ObjectRef::Role(role.clone()), span: None })
}

/// Whether `actor` may see `object`. Whether it exists is not asked.
pub fn may_see(image: &Image, actor: &Actor, object: &ObjectRef) -> bool {
    Sight::of(image, actor).is_some_and(|sight| sight.sees(object))
}

/// What one actor may see: [`may_see`] for many objects.
#[derive(Debug)]
pub struct Sight<'a> {
    image: &'a Image,
    all: bool,
    roles: BTreeSet<Name>,
}

impl<'a> Sight<'a> {
    /// Of `actor`; `None`: one of its roles is gone, and it sees nothing.
    pub fn of(image: &'a Image, actor: &Actor) -> Option<Self> {
        let actor = current_actor(image, actor).ok()?;
        let all = has_superuser(image, &actor);
        let mut roles = BTreeSet::new();
        if !all {
            roles = roles_of_transitive(image, &actor.current_user, Along::Any);
            roles.extend([actor.current_user, actor.session_user]);
        }
        Some(Sight { image, all, roles })
    }

    /// Whether it may see `object`.
    pub fn sees(&self, object: &ObjectRef) -> bool {
        self.all || self.owns(object) || self.is_granted(object)
    }

    fn owns(&self, object: &ObjectRef) -> bool {
        match object {
            ObjectRef::Role(name) => self.roles.contains(name),
            ObjectRef::Org(_)
            | ObjectRef::Secret(_)
            | ObjectRef::Catalog(_)
            | ObjectRef::Schema(_)
            | ObjectRef::Table(_)
            | ObjectRef::Column(_)
            | ObjectRef::View(_)
            | ObjectRef::Mask(_)
            | ObjectRef::RowFilter(_) => self
                .image
                .header(object)
                .and_then(|header| header.owner.as_ref())
                .is_some_and(|owner| self.roles.contains(owner)),
        }
    }

    fn is_granted(&self, object: &ObjectRef) -> bool {
        if self.holds(&GrantTarget::Object(object.clone())) {
            return true;
        }
        match object {
            ObjectRef::Org(_) | ObjectRef::Role(_) | ObjectRef::Mask(_) | ObjectRef::RowFilter(_) => false,
            ObjectRef::Secret(_) => self.holds(&GrantTarget::AllSecrets),
            ObjectRef::Catalog(_) => self.holds(&GrantTarget::AllCatalogs),
            ObjectRef::Schema(schema) => {
                self.sees(&ObjectRef::Catalog(schema.catalog()))
                    || self.holds_pattern(PatternKind::Schemas, PatternScope::Catalog(schema.catalog()))
            }
            ObjectRef::Table(table) | ObjectRef::View(table) => {
                // A grant on a view may have been written as one on a table.
                self.holds(&GrantTarget::Object(ObjectRef::Table(table.clone()))) || self.holds_around(table)
            }
            ObjectRef::Column(column) => {
                let table = column.table();
                let object =
                    if self.image.view(&table).is_some() { ObjectRef::View(table) } else { ObjectRef::Table(table) };
                self.sees(&object) || self.sees(&ObjectRef::Catalog(column.catalog()))
            }
        }
    }

    fn holds_around(&self, table: &TableRef) -> bool {
        let scopes = [PatternScope::Schema(table.schema()), PatternScope::Catalog(table.catalog())];
        let view = self.image.view(table).is_some();
        scopes.into_iter().any(|scope| {
            self.holds_pattern(PatternKind::Tables, scope.clone())
                || (view && self.holds_pattern(PatternKind::Views, scope))
        })
    }

    fn holds_pattern(&self, of: PatternKind, within: PatternScope) -> bool {
        [false, true].into_iter().any(|future| self.holds(&GrantTarget::Pattern { of, within: within.clone(), future }))
    }

    fn holds(&self, target: &GrantTarget) -> bool {
        self.image.grants_on(target).any(|(key, _)| match &key.grantee {
            Grantee::Public => true,
            Grantee::Role(name) => self.roles.contains(name),
        })
    }
}

fn denied(action: String) -> PlanError {
    PlanError::Denied { action, detail: "Only roles with the SUPERUSER attribute may do this.".to_owned() }
}

/// What a command does, after `permission denied to`.
fn action(command: &Command<Sealed>) -> String {
    match command {
        Command::CreateCatalog(_) => "create catalog".to_owned(),
        Command::AlterCatalog(c) => format!("alter catalog \"{}\"", c.name.as_str()),
        Command::CreateSecret(_) => "create secret".to_owned(),
        Command::AlterSecret(c) => format!("alter secret \"{}\"", c.name.as_str()),
        Command::CreateRole(_) => "create role".to_owned(),
        Command::AlterRole(_) => "alter role".to_owned(),
        Command::CreateMask(_) => "create mask".to_owned(),
        Command::AlterMask(c) => format!("alter mask \"{}\"", c.name.as_str()),
        Command::CreateRowFilter(_) => "create row filter".to_owned(),
        Command::AlterRowFilter(c) => format!("alter row filter \"{}\"", c.name.as_str()),
        Command::CreateView(_) => "create view".to_owned(),
        Command::AlterView(c) => format!("alter {}", ObjectRef::View(c.name.value.clone())),
        Command::Drop(c) => match c.objects.as_slice() {
            [one] => format!("drop {}", one.value),
            [] | [_, _, ..] => format!("drop {}s", c.kind.noun()),
        },
        Command::GrantPrivileges(_) => "grant privileges".to_owned(),
        Command::RevokePrivileges(_) => "revoke privileges".to_owned(),
        Command::GrantMembership(_) => "grant role".to_owned(),
        Command::RevokeMembership(_) => "revoke role".to_owned(),
        Command::Comment(c) => format!("comment on {}", c.object.value),
        Command::ReassignOwned(_) => "reassign objects".to_owned(),
        Command::DropOwned(_) => "drop objects".to_owned(),
    }
}
