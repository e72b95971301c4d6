//! Where the parts of an object wait for each other.

use std::sync::Arc;

use dataglot_model::def::{Header, PolicyDef, SecretOrigin};
use dataglot_model::{Name, ObjectRef, SecretHash};

use super::{Object, Secret, kind_of_policy};

/// A place for the parts of one object.
pub(super) trait Hold: Clone + Default {
    /// Whether no part is there.
    fn is_empty(&self) -> bool;
}

/// Header and body of an object; either may be missing.
pub(super) struct Slot<D> {
    pub(super) header: Option<Arc<Header>>,
    pub(super) def: Option<Arc<D>>,
}

impl<D> Clone for Slot<D> {
    fn clone(&self) -> Self {
        Slot { header: self.header.clone(), def: self.def.clone() }
    }
}

impl<D> Default for Slot<D> {
    fn default() -> Self {
        Slot { header: None, def: None }
    }
}

impl<D> Slot<D> {
    pub(super) fn object(&self) -> Option<Object<'_, D>> {
        Some(Object { header: self.header.as_ref()?, def: self.def.as_ref()? })
    }

    pub(super) fn owner(&self) -> Option<&Name> {
        self.header.as_ref().and_then(|h| h.owner.as_ref())
    }
}

/// A secret: the header says where the value is.
#[derive(Clone, Default)]
pub(super) struct SecretSlot {
    pub(super) header: Option<Arc<Header>>,
    pub(super) envelope: Option<(Arc<[u8]>, SecretHash)>,
    /// Boxed, since few have one.
    pub(super) previous: Option<Box<(Arc<[u8]>, SecretHash)>>,
}

impl SecretSlot {
    pub(super) fn secret(&self) -> Option<Secret<'_>> {
        let header = self.header.as_ref()?;
        let meta = header.secret.as_deref()?;
        let envelope = self.envelope.as_ref().map(|(bytes, _)| bytes);
        let previous = self.previous.as_ref().map(|sealed| &sealed.0);
        Some(Secret { header, meta, envelope, previous })
    }

    /// Whether header and ciphertext do not fit.
    pub(super) fn is_broken(&self) -> bool {
        match self.secret().map(|s| &s.meta.origin) {
            None => true,
            Some(SecretOrigin::Sealed(hash)) => self.envelope.as_ref().is_none_or(|(_, found)| found != hash),
            Some(SecretOrigin::Env(_) | SecretOrigin::File(_)) => self.envelope.is_some(),
        }
    }

    /// Whether header and ciphertext of the value before do not fit.
    pub(super) fn is_previous_broken(&self) -> bool {
        let origin = self.secret().and_then(|s| s.meta.previous.as_deref()).map(|p| &p.origin);
        match origin {
            Some(SecretOrigin::Sealed(hash)) => self.previous.as_ref().is_none_or(|sealed| sealed.1 != *hash),
            Some(SecretOrigin::Env(_) | SecretOrigin::File(_)) | None => self.previous.is_some(),
        }
    }
}

/// A mask or row filter: one name space, two kinds of header.
#[derive(Clone, Default)]
pub(super) struct PolicySlot {
    pub(super) mask: Option<Arc<Header>>,
    pub(super) filter: Option<Arc<Header>>,
    pub(super) def: Option<Arc<PolicyDef>>,
}

impl PolicySlot {
    pub(super) fn object(&self) -> Option<Object<'_, PolicyDef>> {
        let def = self.def.as_ref()?;
        let header = match **def {
            PolicyDef::Mask(_) => self.mask.as_ref()?,
            PolicyDef::RowFilter(_) => self.filter.as_ref()?,
        };
        Some(Object { header, def })
    }

    /// Whether there is one object and nothing left over.
    pub(super) fn is_whole(&self) -> bool {
        self.object().is_some() && !(self.mask.is_some() && self.filter.is_some())
    }

    /// What it is, as far as one can tell.
    pub(super) fn object_ref(&self, name: &Name) -> ObjectRef {
        let filter = self
            .def
            .as_ref()
            .map_or(self.filter.is_some(), |def| kind_of_policy(def) == dataglot_model::Kind::RowFilter);
        if filter { ObjectRef::RowFilter(name.clone()) } else { ObjectRef::Mask(name.clone()) }
    }
}

impl<D> Hold for Slot<D> {
    fn is_empty(&self) -> bool {
        self.header.is_none() && self.def.is_none()
    }
}

impl Hold for SecretSlot {
    fn is_empty(&self) -> bool {
        self.header.is_none() && self.envelope.is_none() && self.previous.is_none()
    }
}

impl Hold for PolicySlot {
    fn is_empty(&self) -> bool {
        self.mask.is_none() && self.filter.is_none() && self.def.is_none()
    }
}
