//! What GRANT and REVOKE tell the client besides their tags.

use std::collections::{BTreeMap, BTreeSet};

use dataglot_model::def::{GrantKey, GrantRecord};
use dataglot_model::{
    DEFAULT_CATALOG, GrantTarget, Grantee, Name, Notice, ObjectRef, Privilege, PrivilegeSet, RemoteName, TargetClass,
};

use super::Rights;
use super::chain::Part;
use crate::Draft;
use crate::effective::{Along, catalog_of, covering, has_privilege, public_has_privilege, roles_of_transitive};

/// `role "r"`, `PUBLIC`
fn who(grantee: &Grantee) -> String {
    match grantee {
        Grantee::Public => "PUBLIC".to_owned(),
        Grantee::Role(name) => role(name),
    }
}

fn role(name: &Name) -> String {
    format!("role \"{}\"", name.as_str())
}

/// `SELECT, APPLY, SELECT (a, b)`
fn privileges<'c>(set: PrivilegeSet, columns: impl Iterator<Item = &'c RemoteName>) -> String {
    let mut words: Vec<String> = set.iter().map(|privilege| privilege.keyword().to_owned()).collect();
    let columns: Vec<String> = columns.map(ToString::to_string).collect();
    if !columns.is_empty() {
        words.push(format!("{} ({})", Privilege::Select.keyword(), columns.join(", ")));
    }
    words.join(", ")
}

/// Whether a grant on `target` holds for things that are not there yet.
pub(super) const fn is_pattern(target: &GrantTarget) -> bool {
    match target {
        GrantTarget::Pattern { .. } | GrantTarget::AllCatalogs | GrantTarget::AllSecrets => true,
        GrantTarget::System | GrantTarget::Object(_) => false,
    }
}

pub(super) fn kept_as_pattern(target: &GrantTarget) -> Notice {
    let things = match target {
        GrantTarget::Pattern { of, .. } => of.keyword().to_lowercase(),
        GrantTarget::AllSecrets => "secrets".to_owned(),
        GrantTarget::AllCatalogs | GrantTarget::System | GrantTarget::Object(_) => "catalogs".to_owned(),
    };
    Notice::note(format!("grant on {target} is kept as a pattern and holds for {things} that appear later"))
}

/// The remote catalog on which USAGE is needed besides SELECT on `target`.
pub(super) fn catalog_to_reach(target: &GrantTarget) -> Option<Name> {
    let of_view = match target {
        GrantTarget::Object(object) => matches!(object, ObjectRef::View(_)),
        GrantTarget::System | GrantTarget::Pattern { .. } | GrantTarget::AllCatalogs | GrantTarget::AllSecrets => false,
    };
    if of_view || target.class() != Some(TargetClass::Table) {
        return None;
    }
    catalog_of(target).filter(|catalog| catalog.as_str() != DEFAULT_CATALOG)
}

/// One notice for each grantee who has SELECT now and cannot reach the catalog.
pub(super) fn missing_usage(draft: &mut Draft<'_>, granted: &BTreeSet<(&Grantee, Name)>) {
    let mut lacking: BTreeMap<&Grantee, Vec<&Name>> = BTreeMap::new();
    for (grantee, catalog) in granted {
        let target = GrantTarget::Object(ObjectRef::Catalog(catalog.clone()));
        let has = match grantee {
            Grantee::Public => public_has_privilege(&draft.image, &target, Privilege::Usage),
            Grantee::Role(role) => has_privilege(&draft.image, role, &target, Privilege::Usage),
        };
        if !has {
            lacking.entry(grantee).or_default().push(catalog);
        }
    }
    for (grantee, catalogs) in lacking {
        let noun = if catalogs.len() == 1 { "catalog" } else { "catalogs" };
        let quoted: Vec<String> = catalogs.iter().map(|c| format!("\"{}\"", c.as_str())).collect();
        let listed: Vec<String> = catalogs.iter().map(ToString::to_string).collect();
        let notice = Notice::note(format!("{} lacks USAGE on {noun} {}", who(grantee), quoted.join(", ")))
            .with_detail("SELECT on a table works only together with USAGE on its catalog.")
            .with_hint(format!("GRANT USAGE ON CATALOG {} TO {grantee};", listed.join(", ")));
        draft.notice(notice);
    }
}

/// A REVOKE that took nothing, and where the privilege, if there still is one, comes from.
pub(super) fn nothing_to_revoke(
    draft: &Draft<'_>,
    target: &GrantTarget,
    grantee: &Grantee,
    rights: &Rights,
    option_only: bool,
) -> Notice {
    let what = if rights.all { "any privilege".to_owned() } else { privileges(rights.set, rights.columns.iter()) };
    let what = if option_only { format!("the grant option for {what}") } else { what };
    let notice = Notice::warning(format!("{} has not been granted {what} on {target}", who(grantee)));
    let sources = still_given(draft, target, grantee, rights);
    if sources.is_empty() {
        return notice;
    }
    notice
        .with_detail(crate::error::listed(&sources))
        .with_hint("Revoke that grant instead: an exception to a grant cannot be kept.")
}

/// One line for each other grant that gives some of `rights` on `target` to `grantee`.
fn still_given(draft: &Draft<'_>, target: &GrantTarget, grantee: &Grantee, rights: &Rights) -> Vec<String> {
    let image = &draft.image;
    let mut via = vec![grantee.clone()];
    if let Grantee::Role(name) = grantee {
        via.extend(
            roles_of_transitive(image, name, Along::Inherit).into_iter().filter(|role| role != name).map(Grantee::Role),
        );
        via.push(Grantee::Public);
    }
    let mut lines = Vec::new();
    for broader in covering(image, target) {
        for (key, record) in image.grants_on(&broader).filter(|(key, _)| via.contains(&key.grantee)) {
            let Part { set, columns } = overlap(record, rights);
            if !set.is_empty() || !columns.is_empty() {
                let what = privileges(set, columns.iter());
                let by = role(&key.grantor);
                lines.push(format!("{} has {what} on {}, granted by {by}", who(&key.grantee), key.target));
            }
        }
    }
    lines
}

/// What a record has to do with `rights`.
fn overlap(record: &GrantRecord, rights: &Rights) -> Part {
    let mut wanted = rights.set;
    if !rights.columns.is_empty() {
        wanted = wanted.union(PrivilegeSet::of(&[Privilege::Select]));
    }
    let every_column = rights.set.contains(Privilege::Select);
    Part {
        set: record.privileges.intersection(wanted),
        columns: record.columns.keys().filter(|c| every_column || rights.columns.contains(*c)).cloned().collect(),
    }
}

/// `SELECT on TABLE c.s.t granted to role "b" by role "a"`
pub(super) fn describe(key: &GrantKey, part: &Part) -> String {
    let what = privileges(part.set, part.columns.iter());
    format!("{what} on {} granted to {} by {}", key.target, who(&key.grantee), role(&key.grantor))
}

/// Says what a REVOKE … CASCADE took along.
pub(crate) fn cascades(draft: &mut Draft<'_>, lines: &[String]) {
    match lines {
        [] => {}
        [one] => draft.notice(Notice::note(format!("revoke cascades to {one}"))),
        many => {
            let detail: Vec<String> = many.iter().map(|line| format!("revoke cascades to {line}")).collect();
            let message = format!("revoke cascades to {} other grants", many.len());
            draft.notice(Notice::note(message).with_detail(crate::error::listed(&detail)));
        }
    }
}
