//! Rows of every kind.

use std::collections::BTreeMap;
use std::sync::Arc;

use dataglot_model::connector::Connector;
use dataglot_model::def::{
    CatalogDef, ExpressionText, GrantKey, GrantRecord, Header, MaskDef, MaskFunction, MaskTarget, MembershipKey,
    MembershipOptions, MembershipRecord, ObjectId, OptionValue, PolicyDef, PreviousSecret, ReferenceRole, RoleDef,
    RowFilterDef, RowFilterTarget, SecretMeta, SecretOrigin, SecurityMode, Stamp, ViewDef, ViewReference,
};
use dataglot_model::{
    Audience, ColumnRef, GrantTarget, Grantee, Name, ObjectRef, OrgName, Others, PatternKind, PatternScope, Privilege,
    PrivilegeSet, RemoteName, Row, SchemaRef, SecretHash, Seq, TableRef, Timestamp,
};

pub fn name(text: &str) -> Name {
    Name::new(text).unwrap()
}

pub fn org(text: &str) -> OrgName {
    OrgName::new(text).unwrap()
}

pub fn table(parts: [&str; 3]) -> TableRef {
    TableRef::from_parts(parts).unwrap()
}

fn header(object: ObjectRef, id: u64) -> Row {
    let created = Stamp { seq: Seq(3), at: Timestamp(1_700_000_000_000_000), by: name("admin") };
    let header = Header {
        id: ObjectId(id),
        owner: None,
        comment: None,
        version: 1,
        changed: created.clone(),
        created,
        secret: None,
        extra: None,
    };
    Row::Header(object, Arc::new(header))
}

pub fn org_header(org: &OrgName, id: u64) -> Row {
    header(ObjectRef::Org(org.clone()), id)
}

/// A role that may not log in.
pub fn role(text: &str) -> Row {
    Row::Role(name(text), Arc::new(RoleDef::default()))
}

/// A user with a password.
pub fn user(text: &str) -> Row {
    let verifier = Some(Arc::from("SCRAM-SHA-256$4096:c2FsdA==$canary-verifier:x"));
    Row::Role(name(text), Arc::new(RoleDef { login: true, verifier, ..RoleDef::default() }))
}

pub fn secret(text: &str, byte: u8) -> Row {
    Row::Secret(name(text), Arc::from([byte; 40].as_slice()), SecretHash([byte; 32]))
}

/// The ciphertext of the value that a secret had before.
pub fn previous_secret(text: &str, byte: u8) -> Row {
    Row::PreviousSecret(name(text), Arc::from([byte; 40].as_slice()), SecretHash([byte; 32]))
}

/// A data key.
pub fn data_key(no: u32, byte: u8) -> Row {
    Row::DataKey(no, Arc::from([byte; 40].as_slice()), SecretHash([byte; 32]))
}

/// A row of every kind, with everything in it; their texts hold what needs escaping.
pub fn rows() -> Vec<Row> {
    let pg = name("pg");
    let odd = name("o'dd \"näme\" ;");
    let people = table(["pg", "public", "people"]);
    let schema = SchemaRef::from_parts(["pg", "public"]).unwrap();
    let ssn = ColumnRef::new(&people, &RemoteName::new("ssn").unwrap());
    let view = table(["dataglot", "public", "v.1"]);
    let stamp = |seq, by: &str| Stamp { seq: Seq(seq), at: Timestamp(1_700_000_000_000_001), by: name(by) };
    let options = BTreeMap::from([
        ("a".to_owned(), OptionValue::Text("line\n\"quoted\" \u{1F600}".to_owned())),
        ("b".to_owned(), OptionValue::Decimal("1.50".to_owned())),
        ("note".to_owned(), OptionValue::Env("NOTE".to_owned())),
        ("password".to_owned(), OptionValue::Secret { name: name("s1"), as_file: true }),
        ("pool".to_owned(), OptionValue::Integer(-8)),
        ("tables".to_owned(), OptionValue::Json(serde_json::json!([{"z": 1, "a": null}, 1.5, "x"]))),
        ("token".to_owned(), OptionValue::Secret { name: name("s2"), as_file: false }),
        ("verify".to_owned(), OptionValue::Boolean(true)),
    ]);
    let extra = Some(Box::new(BTreeMap::from([("later".to_owned(), serde_json::json!({"deep": [1, 2]}))])));
    let full_header = Header {
        id: ObjectId(1 << 60),
        owner: Some(odd.clone()),
        comment: Some(Arc::from("it's a comment")),
        version: 7,
        created: stamp(1, "admin"),
        changed: stamp(9, "o'dd"),
        secret: Some(Box::new(SecretMeta {
            value_version: 2,
            origin: SecretOrigin::Sealed(SecretHash([0xab; 32])),
            set_at: Timestamp(1_700_000_000_000_001),
            previous: None,
        })),
        extra: extra.clone(),
    };
    let full_role = RoleDef {
        superuser: true,
        createrole: true,
        login: false,
        inherit: false,
        bypassrls: true,
        connection_limit: 3,
        valid_until: Some(Timestamp::INFINITY),
        verifier: None,
        settings: Some(Box::new(BTreeMap::from([("search_path".to_owned(), "pg.public".to_owned())]))),
        extra: extra.clone(),
    };
    let everyone = Audience { to: None, except: Vec::new() };
    let some = Audience { to: Some(vec![Grantee::Public, Grantee::Role(odd.clone())]), except: vec![name("boss")] };
    let mask = |function, audience: &Audience<Grantee, Name>| {
        PolicyDef::Mask(MaskDef {
            target: MaskTarget::Column(ssn.clone()),
            function,
            when: Some(ExpressionText { text: "a = 'b'".to_owned() }),
            audience: audience.clone(),
            priority: -3,
            enabled: false,
            extra: extra.clone(),
        })
    };
    let filter = |target, audience: &Audience<Grantee, Name>, others| {
        PolicyDef::RowFilter(RowFilterDef {
            target,
            using: ExpressionText { text: "region = 'EU'".to_owned() },
            audience: audience.clone(),
            others,
            enabled: true,
            extra: None,
        })
    };
    let functions = [
        MaskFunction::Constant("***".to_owned()),
        MaskFunction::Expression(ExpressionText { text: "left(value, 2)".to_owned() }),
        MaskFunction::Redact,
        MaskFunction::Hash,
        MaskFunction::Nullify,
        MaskFunction::DateYear,
        MaskFunction::ShowFirst(2),
        MaskFunction::ShowLast(4),
        MaskFunction::Function { name: name("f"), arguments: vec!["1".to_owned(), "'x'".to_owned()] },
    ];
    let targets = [
        GrantTarget::System,
        GrantTarget::AllCatalogs,
        GrantTarget::AllSecrets,
        GrantTarget::Object(ObjectRef::Catalog(pg.clone())),
        GrantTarget::Object(ObjectRef::Table(people.clone())),
        GrantTarget::Pattern { of: PatternKind::Tables, within: PatternScope::Schema(schema.clone()), future: false },
        GrantTarget::Pattern { of: PatternKind::Schemas, within: PatternScope::Catalog(pg.clone()), future: true },
        GrantTarget::Pattern { of: PatternKind::Views, within: PatternScope::Catalog(pg.clone()), future: false },
    ];
    let objects = [
        ObjectRef::Org(org("acme-1")),
        ObjectRef::Role(odd.clone()),
        ObjectRef::Secret(name("s1")),
        ObjectRef::Catalog(pg.clone()),
        ObjectRef::Schema(schema.clone()),
        ObjectRef::Table(people.clone()),
        ObjectRef::Column(ssn.clone()),
        ObjectRef::View(view.clone()),
        ObjectRef::Mask(name("m")),
        ObjectRef::RowFilter(name("f")),
    ];
    let catalog =
        CatalogDef { connector: Connector::Mock, options: options.clone(), enabled: false, extra: extra.clone() };
    let plain_catalog =
        CatalogDef { connector: Connector::Postgres, options: BTreeMap::new(), enabled: true, extra: None };
    let reference = |table: &TableRef, start, role| ViewReference { table: table.clone(), start, end: start + 5, role };
    let full_view = ViewDef {
        query: Arc::from("SELECT *\r\nFROM pg.public.people AS p"),
        references: vec![
            reference(&people, 1, ReferenceRole::Aliased),
            reference(&view, 9, ReferenceRole::Bare),
            reference(&people, 20, ReferenceRole::Qualifier),
        ],
        columns: Some(vec![RemoteName::new("A b").unwrap()]),
        security: SecurityMode::Definer,
        options,
        extra: extra.clone(),
    };
    let plain_view = ViewDef {
        query: Arc::from("SELECT 1"),
        references: Vec::new(),
        columns: None,
        security: SecurityMode::Invoker,
        options: BTreeMap::new(),
        extra: None,
    };
    let grant = GrantRecord {
        privileges: PrivilegeSet::of(&[Privilege::Select, Privilege::CreateRole]),
        grantable: PrivilegeSet::of(&[Privilege::Select]),
        columns: BTreeMap::from([(RemoteName::new("c d").unwrap(), true)]),
        as_all: true,
        extra: None,
    };
    let membership = MembershipRecord {
        by: BTreeMap::from([
            (name("admin"), MembershipOptions { admin: true, inherit: false, set: true }),
            (odd.clone(), MembershipOptions { admin: false, inherit: true, set: false }),
        ]),
        extra: None,
    };

    let mut rows = vec![
        Row::Header(ObjectRef::Role(name("full")), Arc::new(full_header.clone())),
        Row::Catalog(pg.clone(), Arc::new(catalog)),
        Row::Catalog(name("plain"), Arc::new(plain_catalog)),
        secret("s1", 7),
        Row::Role(odd.clone(), Arc::new(full_role)),
        role("plain"),
        user("someone"),
        Row::Membership(MembershipKey { role: odd.clone(), member: name("someone") }, Arc::new(membership)),
        Row::View(view, Arc::new(full_view)),
        Row::View(table(["dataglot", "public", "v2"]), Arc::new(plain_view)),
        Row::Policy(name("f1"), Arc::new(filter(RowFilterTarget::Table(people), &everyone, None))),
        Row::Policy(name("f2"), Arc::new(filter(RowFilterTarget::Schema(schema), &some, Some(Others::AllRows)))),
        Row::Policy(name("f3"), Arc::new(filter(RowFilterTarget::Catalog(pg), &some, Some(Others::NoRows)))),
    ];
    rows.extend(objects.into_iter().zip(10..).map(|(object, id)| header(object, id)));
    rows.extend(functions.into_iter().enumerate().map(|(i, function)| {
        let audience = if i % 2 == 0 { &everyone } else { &some };
        Row::Policy(name(&format!("m{i}")), Arc::new(mask(function, audience)))
    }));
    rows.extend(targets.into_iter().enumerate().map(|(i, target)| {
        let grantee = if i % 2 == 0 { Grantee::Public } else { Grantee::Role(odd.clone()) };
        let record = if i == 3 { GrantRecord::default() } else { grant.clone() };
        Row::Grant(GrantKey { target, grantee, grantor: name("admin") }, Arc::new(record))
    }));
    rows.extend([data_key(1, 8), data_key(10, 9)]);
    let origin = |byte| SecretOrigin::Sealed(SecretHash([byte; 32]));
    let until = Timestamp(1_700_000_000_000_002);
    let rotated = Header {
        secret: Some(Box::new(SecretMeta {
            value_version: 9,
            origin: origin(7),
            set_at: Timestamp(1_700_000_000_000_000),
            previous: Some(Box::new(PreviousSecret { value_version: 8, origin: origin(6), until })),
        })),
        extra: None,
        comment: None,
        ..full_header
    };
    rows.push(Row::Header(ObjectRef::Secret(name("s1")), Arc::new(rotated)));
    rows.push(previous_secret("s1", 6));
    rows
}
