//! The statements that clients send, over few names so that they meet.

use std::fmt;
use std::sync::Arc;

use crate::random::Random;

/// Roles and users are one name space.
pub const ROLES: [&str; 6] = ["r1", "r2", "r3", "r4", "u1", "u2"];
pub const CATALOGS: [&str; 3] = ["c1", "c2", "c3"];
/// Who sends all of them.
pub const ADMIN: &str = "admin";

pub type Name = &'static str;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Statement {
    CreateRole { name: Name, login: bool, if_not_exists: bool },
    DropRole { name: Name, if_exists: bool },
    RenameRole { from: Name, to: Name },
    CommentOnRole { name: Name, text: Option<Arc<str>> },
    GrantRole { role: Name, member: Name },
    RevokeRole { role: Name, member: Name },
    CreateCatalog { name: Name, if_not_exists: bool },
    DropCatalog { name: Name, if_exists: bool },
    GrantUsage { catalog: Name, role: Name },
    RevokeUsage { catalog: Name, role: Name },
}

/// In canonical form, as history keeps it.
impl fmt::Display for Statement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let not_exists = |skip: &bool| if *skip { "IF NOT EXISTS " } else { "" };
        let exists = |skip: &bool| if *skip { "IF EXISTS " } else { "" };
        match self {
            Statement::CreateRole { name, login, if_not_exists } => {
                let noun = if *login { "USER" } else { "ROLE" };
                write!(f, "CREATE {noun} {}{name}", not_exists(if_not_exists))
            }
            Statement::DropRole { name, if_exists } => write!(f, "DROP ROLE {}{name}", exists(if_exists)),
            Statement::RenameRole { from, to } => write!(f, "ALTER ROLE {from} RENAME TO {to}"),
            Statement::CommentOnRole { name, text: Some(text) } => write!(f, "COMMENT ON ROLE {name} IS '{text}'"),
            Statement::CommentOnRole { name, text: None } => write!(f, "COMMENT ON ROLE {name} IS NULL"),
            Statement::GrantRole { role, member } => write!(f, "GRANT {role} TO {member}"),
            Statement::RevokeRole { role, member } => write!(f, "REVOKE {role} FROM {member}"),
            Statement::CreateCatalog { name, if_not_exists } => {
                write!(f, "CREATE CATALOG {}{name} USING mock", not_exists(if_not_exists))
            }
            Statement::DropCatalog { name, if_exists } => write!(f, "DROP CATALOG {}{name}", exists(if_exists)),
            Statement::GrantUsage { catalog, role } => write!(f, "GRANT USAGE ON CATALOG {catalog} TO {role}"),
            Statement::RevokeUsage { catalog, role } => write!(f, "REVOKE USAGE ON CATALOG {catalog} FROM {role}"),
        }
    }
}

impl Statement {
    /// Any of them. `mark` is a text that no other statement of the run has.
    pub fn random(random: &mut Random, mark: &str) -> Statement {
        match random.below(100) {
            0..14 => Statement::CreateRole { name: random.pick(&ROLES), login: false, if_not_exists: false },
            14..20 => Statement::CreateRole { name: random.pick(&ROLES), login: true, if_not_exists: false },
            20..26 => {
                Statement::CreateRole { name: random.pick(&ROLES), login: random.chance(50), if_not_exists: true }
            }
            26..37 => Statement::DropRole { name: random.pick(&ROLES), if_exists: false },
            37..42 => Statement::DropRole { name: random.pick(&ROLES), if_exists: true },
            42..48 => Statement::RenameRole { from: random.pick(&ROLES), to: random.pick(&ROLES) },
            48..58 => Statement::CommentOnRole {
                name: random.pick(&ROLES),
                text: match random.below(6) {
                    0 => None,
                    1 => Some("same".into()),
                    _ => Some(mark.into()),
                },
            },
            58..68 => Statement::GrantRole { role: random.pick(&ROLES), member: random.pick(&ROLES) },
            68..75 => Statement::RevokeRole { role: random.pick(&ROLES), member: random.pick(&ROLES) },
            75..80 => Statement::CreateCatalog { name: random.pick(&CATALOGS), if_not_exists: false },
            80..82 => Statement::CreateCatalog { name: random.pick(&CATALOGS), if_not_exists: true },
            82..85 => Statement::DropCatalog { name: random.pick(&CATALOGS), if_exists: false },
            85..87 => Statement::DropCatalog { name: random.pick(&CATALOGS), if_exists: true },
            87..94 => Statement::GrantUsage { catalog: random.pick(&CATALOGS), role: random.pick(&ROLES) },
            _ => Statement::RevokeUsage { catalog: random.pick(&CATALOGS), role: random.pick(&ROLES) },
        }
    }
}

/// What a client can look at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Show {
    Roles,
    RoleGrants,
    Catalogs,
    Grants,
    /// The version of what the statements beside it show.
    Version,
}

impl Show {
    /// All that is in the model.
    pub const STATE: [Show; 4] = [Show::Roles, Show::RoleGrants, Show::Catalogs, Show::Grants];

    /// The columns that are compared. Times are not: they are nobody's answer.
    pub const fn columns(self) -> &'static [&'static str] {
        match self {
            Show::Roles => &["name", "login", "member_of", "comment", "version"],
            Show::RoleGrants => &["role", "member", "grantor"],
            Show::Catalogs => &["name", "owner", "version"],
            Show::Grants => &["object", "privilege", "grantee"],
            Show::Version => &["dataglot.version"],
        }
    }
}

impl fmt::Display for Show {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Show::Roles => "SHOW ROLES",
            Show::RoleGrants => "SHOW ROLE GRANTS",
            Show::Catalogs => "SHOW CATALOGS",
            Show::Grants => "SHOW GRANTS",
            Show::Version => "SHOW dataglot.version",
        })
    }
}
