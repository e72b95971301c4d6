//! A plan that is being made: an image to which each mutation is applied as it is added.
//!
//! The image is changed in place, so where nobody else holds it, as in a long script, nothing of it is
//! copied. What each row was before is kept beside its mutation: by that the rows that end as they began
//! are left out of the plan, and the image before the statement can be had again.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use dataglot_model::command::{CommentText, ExpectedVersion, GranteeSpec, RoleSpec};
use dataglot_model::def::{Header, Stamp};
use dataglot_model::{Actor, At, Grantee, Mutation, Name, Notice, ObjectRef, Row, RowKey, SealedBy};

use crate::{Image, Plan, PlanCx, PlanError};

/// A plan that is being made.
pub(crate) struct Draft<'a> {
    /// As it is after what has been added so far.
    pub(crate) image: Image,
    pub(crate) cx: &'a PlanCx,
    pub(crate) actor: &'a Actor,
    changes: Vec<Change>,
    /// Where in `changes` a row is changed: each row at most once.
    places: BTreeMap<RowKey, usize>,
    touched: BTreeSet<ObjectRef>,
    notices: Vec<Notice>,
}

/// A row that the statement changes.
struct Change {
    /// What it was before the statement.
    before: Option<Row>,
    /// What becomes of it.
    mutation: Mutation,
}

impl<'a> Draft<'a> {
    pub(crate) fn new(image: Image, cx: &'a PlanCx, actor: &'a Actor) -> Self {
        Draft {
            image,
            cx,
            actor,
            changes: Vec::new(),
            places: BTreeMap::new(),
            touched: BTreeSet::new(),
            notices: Vec::new(),
        }
    }

    /// Puts a row.
    pub(crate) fn put(&mut self, row: Row) {
        self.add(row.key(), Mutation::Put(row));
    }

    /// Deletes a row. Nothing happens if it is not there.
    pub(crate) fn delete(&mut self, key: RowKey) {
        if self.image.has(&key) {
            self.add(key.clone(), Mutation::Delete(key));
        }
    }

    fn add(&mut self, key: RowKey, mutation: Mutation) {
        match self.places.get(&key).and_then(|place| self.changes.get_mut(*place)) {
            Some(change) => {
                self.image.apply(&mutation);
                change.mutation = mutation;
            }
            None => {
                let before = self.image.row(&key);
                self.image.apply(&mutation);
                self.places.insert(key, self.changes.len());
                self.changes.push(Change { before, mutation });
            }
        }
    }

    /// The image as it was before the statement, for the few statements that compare.
    pub(crate) fn before(&self) -> Image {
        let mut image = self.image.clone();
        for (key, place) in &self.places {
            match self.changes.get(*place).and_then(|change| change.before.clone()) {
                Some(row) => image.apply(&Mutation::Put(row)),
                None => image.apply(&Mutation::Delete(key.clone())),
            }
        }
        image
    }

    /// Sees to it that the org has the data key that something of `object` was sealed with: one that was made
    /// for it becomes the org's first, in the same transaction.
    ///
    /// # Errors
    /// [`PlanError::Stale`]: the org has another one by now.
    pub(crate) fn bring_key(&mut self, object: &ObjectRef, by: Option<&SealedBy>) -> Result<(), PlanError> {
        let Some(SealedBy { no, hash, made }) = by else { return Ok(()) };
        match made {
            // Also where it was made for another part of the same statement.
            _ if self.image.data_key(*no).is_some_and(|(_, found)| found == *hash) => Ok(()),
            Some(wrapped) if self.image.data_keys().next().is_none() => {
                self.put(Row::DataKey(*no, wrapped.clone(), *hash));
                Ok(())
            }
            None | Some(_) => Err(PlanError::Stale { object: object.clone() }),
        }
    }

    /// Tells the client something.
    pub(crate) fn notice(&mut self, notice: Notice) {
        self.notices.push(notice);
    }

    /// `… does not exist, skipping`
    pub(crate) fn skip_missing(&mut self, object: &ObjectRef) {
        self.notice(Notice::note(format!("{object} does not exist, skipping")));
    }

    /// `… already exists, skipping`
    pub(crate) fn skip_existing(&mut self, object: &ObjectRef, differs: &[String]) {
        let message = format!("{object} already exists, skipping");
        let notice = Notice::new(dataglot_model::Severity::Notice, object.kind().duplicate(), message);
        self.notice(if differs.is_empty() {
            notice
        } else {
            notice.with_detail(format!("It differs from the statement in: {}.", differs.join(", ")))
        });
    }

    /// The mutations that change something, and the notices.
    pub(crate) fn finish(self, tag: &'static str) -> (Plan, Image) {
        let Draft { image, changes, notices, .. } = self;
        let changed = changes.into_iter().filter_map(|Change { before, mutation }| {
            let changes_it = match &mutation {
                Mutation::Put(row) => before.as_ref() != Some(row),
                Mutation::Delete(_) => before.is_some(),
            };
            changes_it.then_some(mutation)
        });
        let mut mutations: Vec<Mutation> = changed.collect();
        // A long transaction keeps one such list a statement.
        mutations.shrink_to_fit();
        (Plan { mutations, tag, notices }, image)
    }

    /// This transaction, now, by the current user.
    pub(crate) fn stamp(&self) -> Stamp {
        Stamp { seq: self.image.seq().next(), at: self.cx.now, by: self.actor.current_user.clone() }
    }

    /// The header of a new object, with an identity of its own.
    pub(crate) fn new_header(&self, owner: Option<Name>, comment: Option<&str>) -> Header {
        let stamp = self.stamp();
        Header {
            id: self.image.head().next_id,
            owner,
            comment: comment_of(comment),
            version: 1,
            created: stamp.clone(),
            changed: stamp,
            secret: None,
            extra: None,
        }
    }

    /// Puts the header of a new object.
    pub(crate) fn put_header(&mut self, object: ObjectRef, header: Header) {
        self.touched.insert(object.clone());
        self.put(Row::Header(object, Arc::new(header)));
    }

    /// Changes the header of an object; the first change by a statement is a new version of the object.
    pub(crate) fn touch_header(&mut self, object: &ObjectRef, change: impl FnOnce(&mut Header)) {
        let Some(header) = self.image.header(object) else { return };
        let mut header = Header::clone(header);
        if self.touched.insert(object.clone()) {
            header.version = header.version.saturating_add(1);
            header.changed = self.stamp();
        }
        change(&mut header);
        self.put(Row::Header(object.clone(), Arc::new(header)));
    }

    /// Changes the header of an object whose definition stays as it is: no new version.
    pub(crate) fn amend_header(&mut self, object: &ObjectRef, change: impl FnOnce(&mut Header)) {
        let Some(header) = self.image.header(object) else { return };
        let mut header = Header::clone(header);
        change(&mut header);
        self.put(Row::Header(object.clone(), Arc::new(header)));
    }

    /// Moves the header of an object to a new name, as a change of the object.
    pub(crate) fn move_header(&mut self, from: &ObjectRef, to: &ObjectRef) {
        self.touch_header(from, |_| {});
        if let Some(header) = self.image.header(from).cloned() {
            self.delete(RowKey::Header(from.clone()));
            self.touched.insert(to.clone());
            self.put(Row::Header(to.clone(), header));
        }
    }

    /// Sets a comment if `comment` differs from the one that is there.
    pub(crate) fn set_comment(&mut self, object: &ObjectRef, comment: Option<&str>) {
        let new = comment_of(comment);
        if self.image.header(object).is_some_and(|header| header.comment != new) {
            self.touch_header(object, |header| header.comment = new);
        }
    }

    /// The role that `spec` means.
    ///
    /// # Errors
    /// 42704 at its place if there is none.
    pub(crate) fn resolve_role(&self, spec: &At<RoleSpec>) -> Result<Name, PlanError> {
        let name = self.role_name(&spec.value);
        if self.image.role(name).is_none() {
            return Err(PlanError::undefined(ObjectRef::Role(name.clone()), spec.span));
        }
        Ok(name.clone())
    }

    /// The name that `spec` means, whether or not there is such a role.
    pub(crate) fn role_name<'s>(&'s self, spec: &'s RoleSpec) -> &'s Name {
        spec.resolve(self.actor)
    }

    /// The grantee that `spec` means.
    ///
    /// # Errors
    /// 42704 at its place if there is none.
    pub(crate) fn resolve_grantee(&self, spec: &At<GranteeSpec>) -> Result<Grantee, PlanError> {
        match &spec.value {
            GranteeSpec::Public => Ok(Grantee::Public),
            GranteeSpec::Role(role) => self.resolve_role(&At::new(role.clone(), spec.span)).map(Grantee::Role),
        }
    }

    /// `IF VERSION n`
    ///
    /// # Errors
    /// 40001 unless the object is at that version.
    pub(crate) fn check_version(&self, object: &ObjectRef, expected: &ExpectedVersion) -> Result<(), PlanError> {
        let Some(expected) = expected else { return Ok(()) };
        match self.image.header(object) {
            Some(header) if header.version != expected.value => {
                let error = PlanError::Version { object: object.clone(), version: header.version, span: None };
                Err(error.at(expected.span))
            }
            Some(_) | None => Ok(()),
        }
    }

    /// Says what a CASCADE takes along: `lines` are objects as messages name them.
    pub(crate) fn notice_cascade(&mut self, lines: &[String]) {
        match lines {
            [] => {}
            [one] => self.notice(Notice::note(format!("drop cascades to {one}"))),
            many => {
                let detail = many.iter().map(|line| format!("drop cascades to {line}")).collect::<Vec<_>>();
                let message = format!("drop cascades to {} other objects", many.len());
                self.notice(Notice::note(message).with_detail(crate::error::listed(&detail)));
            }
        }
    }
}

/// A comment as it is kept: an empty one is none.
pub(crate) fn comment_of(text: Option<&str>) -> Option<Arc<str>> {
    text.filter(|text| !text.is_empty()).map(Arc::from)
}

/// The comment that a clause leaves.
pub(crate) fn comment_text(text: &CommentText) -> Option<&str> {
    match text {
        CommentText::Remove => None,
        CommentText::Set(text) => Some(text),
    }
}
