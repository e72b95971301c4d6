//! A session that may become some roles only: whoever vouched for its user has named them.
//!
//! The limit takes away and gives nothing. What the user has of its own and by inheritance stays as it was granted;
//! a user whose memberships do not inherit has nothing else than these roles.

use dataglot_model::def::ObjectId;
use dataglot_model::{Actor, Name};
use dataglot_planner::{Along, Image, is_superuser, roles_of_transitive};

/// The roles, by their identities: others that are given their names later are not meant.
pub(crate) struct Limit(Vec<ObjectId>);

impl Limit {
    /// The limit to these names; `None` of none: there is no limit. Names that are no roles count for nothing.
    pub(crate) fn new(image: &Image, names: &[String]) -> Option<Limit> {
        if names.is_empty() {
            return None;
        }
        let roles = names.iter().filter_map(|name| image.role(&Name::new(name).ok()?));
        Some(Limit(roles.map(|role| role.header.id).collect()))
    }

    /// Whether it lets the session become the role.
    pub(crate) fn allows(&self, role: ObjectId) -> bool {
        self.0.contains(&role)
    }

    /// Whether the user of the session is a member of one of the roles.
    pub(crate) fn holds(&self, image: &Image, user: &Actor) -> bool {
        let name = &user.session_user;
        let of = roles_of_transitive(image, name, Along::Any);
        let mut roles = self.0.iter().filter_map(|id| image.role_by_id(*id));
        roles.any(|role| role == *name || of.contains(&role) || is_superuser(image, user))
    }
}
