//! Keys within an org: text segments with a NUL between them, which no name can hold. Keys that
//! share their first segments lie together, and no key is cut by another one's end.

use dataglot_model::def::{GrantKey, MembershipKey};
use dataglot_model::{
    ColumnRef, GrantTarget, Grantee, Kind, Name, ObjectRef, OrgName, PatternKind, PatternScope, Row, RowKey, SchemaRef,
    Seq, TableRef,
};

use super::Bad;
use crate::Table;

/// Ends a segment.
pub(crate) const SEPARATOR: u8 = 0;

/// Writes the segments of a key.
pub(super) struct KeyWriter<'a>(&'a mut Vec<u8>);

impl<'a> KeyWriter<'a> {
    fn new(out: &'a mut Vec<u8>) -> Self {
        out.clear();
        KeyWriter(out)
    }

    fn push(&mut self, segment: &str) -> &mut Self {
        if !self.0.is_empty() {
            self.0.push(SEPARATOR);
        }
        self.0.extend_from_slice(segment.as_bytes());
        self
    }

    fn push_all(&mut self, segments: &[&str]) -> &mut Self {
        for segment in segments {
            self.push(segment);
        }
        self
    }
}

/// Writes the key of `row` to `out`, and says in which table it is.
pub(crate) fn of_row(row: &Row, out: &mut Vec<u8>) -> Table {
    let mut key = KeyWriter::new(out);
    match row {
        Row::Header(object, _) => object_key(&mut key, object),
        Row::Catalog(name, _) => single(&mut key, Table::Entries, name),
        Row::Secret(name, ..) => single(&mut key, Table::Secrets, name),
        Row::Role(name, def) => single(&mut key, role_table(def.login), name),
        Row::Membership(membership, _) => membership_key(&mut key, membership),
        Row::Policy(name, _) => single(&mut key, Table::Policies, name),
        Row::Grant(grant, _) => grant_key(&mut key, grant),
        Row::View(name, _) => view_key(&mut key, name),
        Row::PreviousSecret(name, ..) => single(&mut key, Table::PreviousSecrets, name),
        Row::DataKey(no, ..) => data_key_key(&mut key, *no),
    }
}

/// Writes `row_key` to `out`, and says in which table it is.
pub(crate) fn of_row_key(row_key: &RowKey, out: &mut Vec<u8>) -> Table {
    let mut key = KeyWriter::new(out);
    match row_key {
        RowKey::Header(object) => object_key(&mut key, object),
        RowKey::Catalog(name) => single(&mut key, Table::Entries, name),
        RowKey::Secret(name) => single(&mut key, Table::Secrets, name),
        RowKey::Role { name, login } => single(&mut key, role_table(*login), name),
        RowKey::Membership(membership) => membership_key(&mut key, membership),
        RowKey::Policy(name) => single(&mut key, Table::Policies, name),
        RowKey::Grant(grant) => grant_key(&mut key, grant),
        RowKey::View(name) => view_key(&mut key, name),
        RowKey::PreviousSecret(name) => single(&mut key, Table::PreviousSecrets, name),
        RowKey::DataKey(no) => data_key_key(&mut key, *no),
    }
}

const fn role_table(login: bool) -> Table {
    if login { Table::Users } else { Table::Roles }
}

fn single(key: &mut KeyWriter<'_>, table: Table, name: &Name) -> Table {
    key.push(name.as_str());
    table
}

fn view_key(key: &mut KeyWriter<'_>, name: &TableRef) -> Table {
    key.push_all(&name.parts());
    Table::DerivedProducts
}

fn data_key_key(key: &mut KeyWriter<'_>, no: u32) -> Table {
    key.push(&no.to_string());
    Table::DataKeys
}

fn membership_key(key: &mut KeyWriter<'_>, membership: &MembershipKey) -> Table {
    key.push(membership.role.as_str()).push(membership.member.as_str());
    Table::RoleMembers
}

fn object_key(key: &mut KeyWriter<'_>, object: &ObjectRef) -> Table {
    object_segments(key, object);
    Table::Objects
}

fn object_segments(key: &mut KeyWriter<'_>, object: &ObjectRef) {
    key.push(kind_word(object.kind()));
    match object {
        ObjectRef::Org(name) => key.push(name.as_str()),
        ObjectRef::Role(name)
        | ObjectRef::Secret(name)
        | ObjectRef::Catalog(name)
        | ObjectRef::Mask(name)
        | ObjectRef::RowFilter(name) => key.push(name.as_str()),
        ObjectRef::Schema(name) => key.push_all(&name.parts()),
        ObjectRef::Table(name) | ObjectRef::View(name) => key.push_all(&name.parts()),
        ObjectRef::Column(name) => key.push_all(&name.parts()),
    };
}

fn grant_key(key: &mut KeyWriter<'_>, grant: &GrantKey) -> Table {
    match &grant.target {
        GrantTarget::System => drop(key.push("system")),
        GrantTarget::AllCatalogs => drop(key.push("all_catalogs")),
        GrantTarget::AllSecrets => drop(key.push("all_secrets")),
        GrantTarget::Object(object) => {
            key.push("object");
            object_segments(key, object);
        }
        GrantTarget::Pattern { of, within, future } => {
            key.push("pattern").push(pattern_word(*of)).push(if *future { "future" } else { "all" });
            match within {
                PatternScope::Schema(schema) => key.push("schema").push_all(&schema.parts()),
                PatternScope::Catalog(catalog) => key.push("catalog").push(catalog.as_str()),
            };
        }
    }
    match &grant.grantee {
        Grantee::Public => key.push("public"),
        Grantee::Role(name) => key.push("role").push(name.as_str()),
    };
    key.push(grant.grantor.as_str());
    Table::Grants
}

const fn kind_word(kind: Kind) -> &'static str {
    match kind {
        Kind::Org => "org",
        Kind::Role => "role",
        Kind::Secret => "secret",
        Kind::Catalog => "catalog",
        Kind::Schema => "schema",
        Kind::Table => "table",
        Kind::Column => "column",
        Kind::View => "view",
        Kind::Mask => "mask",
        Kind::RowFilter => "row_filter",
    }
}

const fn pattern_word(of: PatternKind) -> &'static str {
    match of {
        PatternKind::Tables => "tables",
        PatternKind::Views => "views",
        PatternKind::Schemas => "schemas",
    }
}

/// Reads the segments of a key.
struct Segments<'a>(std::str::Split<'a, char>);

impl<'a> Segments<'a> {
    fn next(&mut self) -> Result<&'a str, Bad> {
        self.0.next().ok_or(Bad::Key)
    }

    fn name(&mut self) -> Result<Name, Bad> {
        Name::new(self.next()?).map_err(|_| Bad::Key)
    }

    /// A number as [`KeyWriter`] writes it, and in no other way: one key a number.
    fn number(&mut self) -> Result<u32, Bad> {
        let text = self.next()?;
        text.parse().ok().filter(|no: &u32| no.to_string() == text).ok_or(Bad::Key)
    }

    fn schema(&mut self) -> Result<SchemaRef, Bad> {
        SchemaRef::from_parts([self.next()?, self.next()?]).map_err(|_| Bad::Key)
    }

    fn table(&mut self) -> Result<TableRef, Bad> {
        TableRef::from_parts([self.next()?, self.next()?, self.next()?]).map_err(|_| Bad::Key)
    }

    fn object(&mut self) -> Result<ObjectRef, Bad> {
        let word = self.next()?;
        let kind = Kind::ALL.into_iter().find(|k| kind_word(*k) == word).ok_or(Bad::Key)?;
        Ok(match kind {
            Kind::Org => ObjectRef::Org(OrgName::new(self.next()?).map_err(|_| Bad::Key)?),
            Kind::Role => ObjectRef::Role(self.name()?),
            Kind::Secret => ObjectRef::Secret(self.name()?),
            Kind::Catalog => ObjectRef::Catalog(self.name()?),
            Kind::Schema => ObjectRef::Schema(self.schema()?),
            Kind::Table => ObjectRef::Table(self.table()?),
            Kind::Column => {
                let parts = [self.next()?, self.next()?, self.next()?, self.next()?];
                ObjectRef::Column(ColumnRef::from_parts(parts).map_err(|_| Bad::Key)?)
            }
            Kind::View => ObjectRef::View(self.table()?),
            Kind::Mask => ObjectRef::Mask(self.name()?),
            Kind::RowFilter => ObjectRef::RowFilter(self.name()?),
        })
    }

    fn target(&mut self) -> Result<GrantTarget, Bad> {
        Ok(match self.next()? {
            "system" => GrantTarget::System,
            "all_catalogs" => GrantTarget::AllCatalogs,
            "all_secrets" => GrantTarget::AllSecrets,
            "object" => GrantTarget::Object(self.object()?),
            "pattern" => {
                let word = self.next()?;
                let of = [PatternKind::Tables, PatternKind::Views, PatternKind::Schemas]
                    .into_iter()
                    .find(|k| pattern_word(*k) == word)
                    .ok_or(Bad::Key)?;
                let future = match self.next()? {
                    "future" => true,
                    "all" => false,
                    _ => return Err(Bad::Key),
                };
                let within = match self.next()? {
                    "schema" => PatternScope::Schema(self.schema()?),
                    "catalog" => PatternScope::Catalog(self.name()?),
                    _ => return Err(Bad::Key),
                };
                GrantTarget::Pattern { of, within, future }
            }
            _ => return Err(Bad::Key),
        })
    }

    fn grant(&mut self) -> Result<GrantKey, Bad> {
        let target = self.target()?;
        let grantee = match self.next()? {
            "public" => Grantee::Public,
            "role" => Grantee::Role(self.name()?),
            _ => return Err(Bad::Key),
        };
        Ok(GrantKey { target, grantee, grantor: self.name()? })
    }
}

/// Reads the key of a row of one of the tables of [`Table::IMAGE`].
pub(crate) fn read(table: Table, key: &[u8]) -> Result<RowKey, Bad> {
    let text = std::str::from_utf8(key).map_err(|_| Bad::Key)?;
    let mut segments = Segments(text.split('\0'));
    let row_key = match table {
        Table::Objects => RowKey::Header(segments.object()?),
        Table::Entries => RowKey::Catalog(segments.name()?),
        Table::Secrets => RowKey::Secret(segments.name()?),
        Table::Users => RowKey::Role { name: segments.name()?, login: true },
        Table::Roles => RowKey::Role { name: segments.name()?, login: false },
        Table::RoleMembers => RowKey::Membership(MembershipKey { role: segments.name()?, member: segments.name()? }),
        Table::Policies => RowKey::Policy(segments.name()?),
        Table::Grants => RowKey::Grant(segments.grant()?),
        Table::DerivedProducts => RowKey::View(segments.table()?),
        Table::PreviousSecrets => RowKey::PreviousSecret(segments.name()?),
        Table::DataKeys => RowKey::DataKey(segments.number()?),
        Table::Changes | Table::Meta => return Err(Bad::Key),
    };
    if segments.0.next().is_some() { Err(Bad::Key) } else { Ok(row_key) }
}

/// The key of the `step`th row of a transaction in [`Table::Changes`].
pub(crate) fn of_change(seq: Seq, step: u32) -> [u8; 12] {
    let mut key = [0; 12];
    let bytes = seq.0.to_be_bytes().into_iter().chain(step.to_be_bytes());
    key.iter_mut().zip(bytes).for_each(|(slot, byte)| *slot = byte);
    key
}

/// The other way round.
pub(crate) fn read_change(key: &[u8]) -> Result<(Seq, u32), Bad> {
    let (seq, step) = key.split_first_chunk::<8>().ok_or(Bad::Key)?;
    let step = <[u8; 4]>::try_from(step).map_err(|_| Bad::Key)?;
    Ok((Seq(u64::from_be_bytes(*seq)), u32::from_be_bytes(step)))
}

/// What all keys of an org start with in a backend whose tables hold several orgs. An org's name holds
/// no NUL, so no org's prefix is a prefix of another one's.
pub(crate) fn org_prefix(org: &OrgName, out: &mut Vec<u8>) {
    out.clear();
    out.extend_from_slice(org.as_str().as_bytes());
    out.push(SEPARATOR);
}

/// The first key after all that start with `prefix`, which ends in [`SEPARATOR`].
pub(crate) fn prefix_end(prefix: &[u8]) -> Vec<u8> {
    let mut end = prefix.to_vec();
    if let Some(last) = end.last_mut() {
        *last = SEPARATOR + 1;
    }
    end
}
