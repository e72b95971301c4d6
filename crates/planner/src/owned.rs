//! Ownership: OWNER TO, REASSIGN OWNED, DROP OWNED.

use std::collections::BTreeSet;
use std::sync::Arc;

use dataglot_model::command::{Behavior, DropOwned, ReassignOwned};
use dataglot_model::def::{GrantKey, GrantRecord};
use dataglot_model::{GrantTarget, Name, ObjectRef, Row, RowKey};

use crate::{Draft, PlanError, drop, grant};

/// Gives an object another owner. What the old one granted on it, he granted as its owner: those grants are
/// the new owner's now.
pub(crate) fn set_owner(draft: &mut Draft<'_>, object: &ObjectRef, owner: &Name) {
    let Some(header) = draft.image.header(object) else { return };
    let old = header.owner.clone();
    if old.as_ref() == Some(owner) {
        return;
    }
    draft.touch_header(object, |header| header.owner = Some(owner.clone()));
    if let Some(old) = old {
        regrant(draft, object, &old, owner);
    }
}

fn regrant(draft: &mut Draft<'_>, object: &ObjectRef, from: &Name, to: &Name) {
    let mut grants: Vec<(GrantKey, Arc<GrantRecord>)> = Vec::new();
    let mut take = |(key, record): (&GrantKey, &Arc<GrantRecord>)| {
        if key.grantor == *from {
            grants.push((key.clone(), record.clone()));
        }
    };
    match object {
        ObjectRef::Catalog(name) => draft.image.grants_in_catalog(name).for_each(&mut take),
        ObjectRef::View(name) => {
            draft.image.grants_on(&GrantTarget::Object(object.clone())).for_each(&mut take);
            let table = GrantTarget::Object(ObjectRef::Table(name.clone()));
            draft.image.grants_on(&table).for_each(&mut take);
        }
        ObjectRef::Org(_)
        | ObjectRef::Role(_)
        | ObjectRef::Secret(_)
        | ObjectRef::Schema(_)
        | ObjectRef::Table(_)
        | ObjectRef::Column(_)
        | ObjectRef::Mask(_)
        | ObjectRef::RowFilter(_) => {
            draft.image.grants_on(&GrantTarget::Object(object.clone())).for_each(&mut take);
        }
    }
    for (key, record) in grants {
        draft.delete(RowKey::Grant(key.clone()));
        let key = GrantKey { grantor: to.clone(), ..key };
        let record = match draft.image.grant(&key) {
            None => record,
            Some(other) => Arc::new(united(other, &record)),
        };
        draft.put(Row::Grant(key, record));
    }
}

/// What two grants of the same on the same to the same allow together.
fn united(a: &GrantRecord, b: &GrantRecord) -> GrantRecord {
    let mut columns = a.columns.clone();
    for (column, grantable) in &b.columns {
        let entry = columns.entry(column.clone()).or_insert(false);
        *entry |= grantable;
    }
    GrantRecord {
        privileges: a.privileges.union(b.privileges),
        grantable: a.grantable.union(b.grantable),
        columns,
        as_all: a.as_all || b.as_all,
        extra: a.extra.clone().or_else(|| b.extra.clone()),
    }
}

pub(crate) fn plan_reassign_owned(draft: &mut Draft<'_>, c: &ReassignOwned) -> Result<(), PlanError> {
    let from = c.from.iter().map(|role| draft.resolve_role(role)).collect::<Result<BTreeSet<_>, _>>()?;
    let to = draft.resolve_role(&c.to)?;
    let objects: Vec<ObjectRef> =
        from.iter().filter(|role| **role != to).flat_map(|role| draft.image.owned_by(role)).cloned().collect();
    for object in objects {
        set_owner(draft, &object, &to);
    }
    Ok(())
}

pub(crate) fn plan_drop_owned(draft: &mut Draft<'_>, c: &DropOwned) -> Result<(), PlanError> {
    let by = c.by.iter().map(|role| draft.resolve_role(role)).collect::<Result<BTreeSet<_>, _>>()?;
    let objects: Vec<ObjectRef> = by.iter().flat_map(|role| draft.image.owned_by(role)).cloned().collect();
    drop::drop_with_dependents(draft, &objects, c.behavior == Behavior::Cascade)?;
    for role in &by {
        grant::drop_grants_naming_role(draft, role);
    }
    Ok(())
}
