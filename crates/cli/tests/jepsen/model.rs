//! What the statements are to do, written down a second time and in the plainest way: a state, what each
//! statement answers on it, and what SHOW shows of it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::sync::Arc;

use crate::statement::{ADMIN, Name, Show, Statement};

pub const EXISTS: &str = "42710";
pub const MISSING: &str = "42704";
pub const IN_USE: &str = "2BP01";
pub const RING: &str = "0LP01";

/// An org. Copies share what they have in common, since a run keeps one for each version.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Model {
    roles: Arc<BTreeMap<Name, Role>>,
    /// Role, member.
    memberships: Arc<BTreeSet<(Name, Name)>>,
    /// With their versions.
    catalogs: Arc<BTreeMap<Name, u32>>,
    /// Catalog, grantee.
    usage: Arc<BTreeSet<(Name, Name)>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Role {
    login: bool,
    comment: Option<Arc<str>>,
    version: u32,
}

/// What a statement was answered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    pub tag: String,
    /// Messages of notices and warnings, in order.
    pub notices: Vec<String>,
    /// The rows of a SHOW, as [`Model::show`] writes them.
    pub rows: Option<String>,
}

/// What a statement did.
pub struct Effect {
    pub answer: Answer,
    pub changed: bool,
}

fn done(tag: &str) -> Result<Effect, &'static str> {
    Ok(Effect { answer: Answer { tag: tag.to_owned(), ..Answer::default() }, changed: true })
}

fn nothing(tag: &str, notice: Option<String>) -> Result<Effect, &'static str> {
    let notices = notice.into_iter().collect();
    Ok(Effect { answer: Answer { tag: tag.to_owned(), notices, rows: None }, changed: false })
}

impl Model {
    /// A fresh org with its first superuser.
    pub fn bootstrapped() -> Model {
        let admin = Role { login: true, comment: None, version: 1 };
        Model { roles: Arc::new(BTreeMap::from([(ADMIN, admin)])), ..Model::default() }
    }

    /// Executes a statement; the SQLSTATE if it is refused, and then nothing has changed.
    pub fn apply(&mut self, statement: &Statement) -> Result<Effect, &'static str> {
        match statement {
            Statement::CreateRole { name, login, if_not_exists } => {
                if self.roles.contains_key(name) {
                    let skipping = format!("role \"{name}\" already exists, skipping");
                    return if *if_not_exists { nothing("CREATE ROLE", Some(skipping)) } else { Err(EXISTS) };
                }
                Arc::make_mut(&mut self.roles).insert(name, Role { login: *login, comment: None, version: 1 });
                done("CREATE ROLE")
            }
            Statement::DropRole { name, if_exists } => {
                if !self.roles.contains_key(name) {
                    let skipping = format!("role \"{name}\" does not exist, skipping");
                    return if *if_exists { nothing("DROP ROLE", Some(skipping)) } else { Err(MISSING) };
                }
                if self.usage.iter().any(|(_, grantee)| grantee == name) {
                    return Err(IN_USE);
                }
                Arc::make_mut(&mut self.roles).remove(name);
                Arc::make_mut(&mut self.memberships).retain(|(role, member)| role != name && member != name);
                done("DROP ROLE")
            }
            Statement::RenameRole { from, to } => {
                self.check(from)?;
                if self.roles.contains_key(to) {
                    return Err(EXISTS);
                }
                let roles = Arc::make_mut(&mut self.roles);
                let mut role = roles.remove(from).ok_or(MISSING)?;
                role.version += 1;
                roles.insert(to, role);
                let renamed = |name: Name| if name == *from { *to } else { name };
                let memberships = self.memberships.iter().map(|(role, member)| (renamed(role), renamed(member)));
                self.memberships = Arc::new(memberships.collect());
                self.usage = Arc::new(self.usage.iter().map(|(catalog, role)| (*catalog, renamed(role))).collect());
                done("ALTER ROLE")
            }
            Statement::CommentOnRole { name, text } => {
                self.check(name)?;
                if self.roles.get(name).is_some_and(|role| role.comment == *text) {
                    return nothing("COMMENT", None);
                }
                if let Some(role) = Arc::make_mut(&mut self.roles).get_mut(name) {
                    role.comment.clone_from(text);
                    role.version += 1;
                }
                done("COMMENT")
            }
            Statement::GrantRole { role, member } => {
                self.check(role)?;
                self.check(member)?;
                if self.memberships.contains(&(role, member)) {
                    let notice = format!(
                        "role \"{member}\" has already been granted membership in role \"{role}\" by role \"{ADMIN}\""
                    );
                    return nothing("GRANT ROLE", Some(notice));
                }
                if self.leads_to(role, member) {
                    return Err(RING);
                }
                Arc::make_mut(&mut self.memberships).insert((role, member));
                done("GRANT ROLE")
            }
            Statement::RevokeRole { role, member } => {
                self.check(role)?;
                self.check(member)?;
                if !Arc::make_mut(&mut self.memberships).remove(&(*role, *member)) {
                    let notice = format!(
                        "role \"{member}\" has not been granted membership in role \"{role}\" by role \"{ADMIN}\""
                    );
                    return nothing("REVOKE ROLE", Some(notice));
                }
                done("REVOKE ROLE")
            }
            Statement::CreateCatalog { name, if_not_exists } => {
                if self.catalogs.contains_key(name) {
                    let skipping = format!("catalog \"{name}\" already exists, skipping");
                    return if *if_not_exists { nothing("CREATE CATALOG", Some(skipping)) } else { Err(EXISTS) };
                }
                Arc::make_mut(&mut self.catalogs).insert(name, 1);
                done("CREATE CATALOG")
            }
            Statement::DropCatalog { name, if_exists } => {
                if !self.catalogs.contains_key(name) {
                    let skipping = format!("catalog \"{name}\" does not exist, skipping");
                    return if *if_exists { nothing("DROP CATALOG", Some(skipping)) } else { Err(MISSING) };
                }
                Arc::make_mut(&mut self.catalogs).remove(name);
                Arc::make_mut(&mut self.usage).retain(|(catalog, _)| catalog != name);
                done("DROP CATALOG")
            }
            Statement::GrantUsage { catalog, role } => {
                self.check_usage(catalog, role)?;
                if !Arc::make_mut(&mut self.usage).insert((catalog, role)) {
                    return nothing("GRANT", None);
                }
                done("GRANT")
            }
            Statement::RevokeUsage { catalog, role } => {
                self.check_usage(catalog, role)?;
                if !Arc::make_mut(&mut self.usage).remove(&(*catalog, *role)) {
                    let notice = format!("role \"{role}\" has not been granted USAGE on CATALOG {catalog}");
                    return nothing("REVOKE", Some(notice));
                }
                done("REVOKE")
            }
        }
    }

    fn check(&self, role: Name) -> Result<(), &'static str> {
        if self.roles.contains_key(role) { Ok(()) } else { Err(MISSING) }
    }

    fn check_usage(&self, catalog: Name, role: Name) -> Result<(), &'static str> {
        self.check(role)?;
        if self.catalogs.contains_key(catalog) { Ok(()) } else { Err(MISSING) }
    }

    /// Whether `role` is `other`, or a member of it through any number of steps.
    fn leads_to(&self, role: Name, other: Name) -> bool {
        role == other || self.memberships.iter().any(|(above, member)| *member == role && self.leads_to(above, other))
    }

    /// The rows of a SHOW, sorted, columns separated by `|`. Not of [`Show::Version`], which the model of one
    /// version does not know.
    pub fn show(&self, show: Show) -> String {
        let mut rows: Vec<String> = Vec::new();
        match show {
            Show::Roles => {
                for (name, role) in self.roles.iter() {
                    let above: Vec<Name> =
                        self.memberships.iter().filter(|(_, m)| m == name).map(|(r, _)| *r).collect();
                    let login = if role.login { "t" } else { "f" };
                    let comment = role.comment.as_deref().unwrap_or("");
                    rows.push(format!("{name}|{login}|{{{}}}|{comment}|{}", above.join(","), role.version));
                }
            }
            Show::RoleGrants => {
                rows.extend(self.memberships.iter().map(|(role, member)| format!("{role}|{member}|{ADMIN}")));
            }
            Show::Catalogs => {
                rows.extend(self.catalogs.iter().map(|(name, version)| format!("{name}|{ADMIN}|{version}")));
            }
            Show::Grants => {
                rows.extend(self.usage.iter().map(|(catalog, role)| format!("CATALOG {catalog}|USAGE|{role}")));
            }
            Show::Version => {}
        }
        lines(rows)
    }
}

/// Rows as one text: a run keeps many of them.
pub fn lines(mut rows: Vec<String>) -> String {
    rows.sort();
    rows.iter().fold(String::new(), |mut text, row| {
        let _ = writeln!(text, "{row}");
        text
    })
}
