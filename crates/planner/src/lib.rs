//! Decides what one authorized command changes. Writes none of it.
//!
//! In: the [`Image`] of one org, an [`Authorized`] command, and a [`PlanCx`] with the only reading of the
//! clock that this run may use. Out: a [`Plan`]. Equal inputs give an equal plan, so EXPLAIN, a dry run and
//! a commit that has to be repeated are the same function called again.
//!
//! Deliberately absent: SQL text (`grammar`), ciphers (`vault`), rows as bytes (`store`), retries (`session`).

mod authorize;
mod catalog;
mod comment;
mod dependencies;
mod draft;
mod drop;
mod effective;
mod error;
mod grant;
mod image;
mod mask;
mod membership;
mod options;
mod org;
mod owned;
mod platform;
mod policy;
mod recreate;
mod rename;
mod reset;
mod rewrap;
mod role;
mod row_filter;
mod secret;
#[cfg(test)]
mod tests;
mod view;

use dataglot_model::{Command, Mutation, Notice, Sealed, Timestamp};

pub use authorize::{
    Authorized, AuthorizedOrg, Sight, authorize, authorize_org, authorize_rewrap, current_actor, is_superuser, may_see,
    may_set_role,
};
pub use dependencies::{Dependent, dependencies, dependents};
pub use effective::{Along, EffectiveGrant, effective_grants, has_privilege, roles_of_transitive, usable_roles};
pub use error::{DEPENDENTS_LISTED_MAX, PlanError};
pub use image::{Image, Object, Secret};
pub use org::{FIRST_SUPERUSER, OrgEffect, OrgPlan, initial_superuser, plan_org};
pub use recreate::{recreate, recreate_grants};
pub use reset::{Lost, RESET_TAG, plan_reset};
pub use rewrap::{REWRAP_TAG, RewrapBatch, Rewrapped, plan_rewrap};

pub(crate) use draft::Draft;

/// What a plan may know of the world outside the image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlanCx {
    /// When the transaction started.
    pub now: Timestamp,
}

/// What a command changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// In order, each row at most once; empty where nothing changes.
    pub mutations: Vec<Mutation>,
    /// The command tag.
    pub tag: &'static str,
    /// What the client is told besides.
    pub notices: Vec<Notice>,
}

/// Plans `authorized` on `image`; the transaction being built is the one after the image's last.
///
/// # Errors
/// [`PlanError`]: the command is refused.
pub fn plan(image: &Image, cx: &PlanCx, authorized: Authorized<'_>) -> Result<Plan, PlanError> {
    plan_onto(image, cx, authorized).map(|(plan, _)| plan)
}

/// As [`plan`], and gives the image after it too, which saves applying the mutations again. Its head is not
/// advanced.
///
/// # Errors
/// [`PlanError`]: the command is refused.
pub fn plan_onto(image: &Image, cx: &PlanCx, authorized: Authorized<'_>) -> Result<(Plan, Image), PlanError> {
    plan_into(image.clone(), cx, authorized)
}

/// As [`plan_onto`], in place: nothing of an image that nobody else holds is copied, which a script of many
/// statements feels. A refusal takes the image with it.
///
/// # Errors
/// [`PlanError`]: the command is refused.
pub fn plan_into(image: Image, cx: &PlanCx, authorized: Authorized<'_>) -> Result<(Plan, Image), PlanError> {
    let (command, actor) = authorized.parts();
    let mut draft = Draft::new(image, cx, &actor);
    dispatch(&mut draft, command)?;
    Ok(draft.finish(command.tag()))
}

fn dispatch(draft: &mut Draft<'_>, command: &Command<Sealed>) -> Result<(), PlanError> {
    match command {
        Command::CreateCatalog(c) => catalog::plan_create_catalog(draft, c),
        Command::AlterCatalog(c) => catalog::plan_alter_catalog(draft, c),
        Command::CreateSecret(c) => secret::plan_create_secret(draft, c),
        Command::AlterSecret(c) => secret::plan_alter_secret(draft, c),
        Command::CreateRole(c) => role::plan_create_role(draft, c),
        Command::AlterRole(c) => role::plan_alter_role(draft, c),
        Command::CreateMask(c) => mask::plan_create_mask(draft, c),
        Command::AlterMask(c) => mask::plan_alter_mask(draft, c),
        Command::CreateRowFilter(c) => row_filter::plan_create_row_filter(draft, c),
        Command::AlterRowFilter(c) => row_filter::plan_alter_row_filter(draft, c),
        Command::CreateView(c) => view::plan_create_view(draft, c),
        Command::AlterView(c) => view::plan_alter_view(draft, c),
        Command::Drop(c) => drop::plan_drop(draft, c),
        Command::GrantPrivileges(c) => grant::plan_grant_privileges(draft, c),
        Command::RevokePrivileges(c) => grant::plan_revoke_privileges(draft, c),
        Command::GrantMembership(c) => membership::plan_grant_membership(draft, c),
        Command::RevokeMembership(c) => membership::plan_revoke_membership(draft, c),
        Command::Comment(c) => comment::plan_comment(draft, c),
        Command::ReassignOwned(c) => owned::plan_reassign_owned(draft, c),
        Command::DropOwned(c) => owned::plan_drop_owned(draft, c),
    }
}
