//! Old bytes, round trips, unknown fields, and what people get to read.

use std::sync::Arc;

use dataglot_model::def::{Header, ObjectId};
use dataglot_model::{Mutation, Row};
use proptest::prelude::*;

use super::*;
use crate::conformance::sample::{data_key, name, previous_secret, role, rows, secret, user};

fn encoded(row: &Row) -> (Table, Vec<u8>, Vec<u8>) {
    let (mut key, mut value) = (Vec::new(), Vec::new());
    let table = encode_row(row, &mut key, &mut value).unwrap();
    (table, key, value)
}

fn framed(table: Table, key: &str, json: &str) -> Vec<u8> {
    let mut value = Vec::new();
    begin(&mut value);
    value.extend_from_slice(json.as_bytes());
    finish(table, key.replace('/', "\0").as_bytes(), &mut value);
    value
}

#[test]
fn every_row_comes_back() {
    for row in rows() {
        let (table, key, value) = encoded(&row);
        assert_eq!(decode_row(table, &key, &value), Ok(row.clone()), "{row:?}");
        let (mut again, row_key) = (Vec::new(), row.key());
        assert_eq!((encode_key(&row_key, &mut again), &again), (table, &key));
        assert_eq!(key::read(table, &key), Ok(row_key));
    }
}

/// The bytes of format 1. None of these lines may change; a later format adds lines of its own.
#[test]
fn old_bytes_stay_readable() {
    let stored = [
        (
            Table::Objects,
            "role/full",
            r#"{"id":1152921504606846976,"owner":"o'dd \"näme\" ;","comment":"it's a comment","version":7,"created":{"seq":1,"at":1700000000000001,"by":"admin"},"changed":{"seq":9,"at":1700000000000001,"by":"o'dd"},"secret":{"value_version":2,"origin":{"sealed":"abababababababababababababababababababababababababababababababab"}},"later":{"deep":[1,2]}}"#,
        ),
        (
            Table::Objects,
            "column/pg/public/people/ssn",
            r#"{"id":16,"version":1,"created":{"seq":3,"at":1700000000000000,"by":"admin"}}"#,
        ),
        (
            Table::Entries,
            "pg",
            r#"{"connector":"mock","options":{"a":{"text":"line\n\"quoted\" 😀"},"b":{"decimal":"1.50"},"note":{"env":"NOTE"},"password":{"secret":{"name":"s1","as_file":true}},"pool":{"integer":-8},"tables":{"json":[{"a":null,"z":1},1.5,"x"]},"token":{"secret":{"name":"s2"}},"verify":{"boolean":true}},"enabled":false,"later":{"deep":[1,2]}}"#,
        ),
        (Table::Entries, "plain", r#"{"connector":"postgres"}"#),
        (Table::Users, "someone", r#"{"verifier":"SCRAM-SHA-256$4096:c2FsdA==$canary-verifier:x"}"#),
        (Table::Roles, "plain", "{}"),
        (
            Table::Roles,
            "o'dd \"näme\" ;",
            r#"{"superuser":true,"createrole":true,"inherit":false,"bypassrls":true,"connection_limit":3,"valid_until":9223372036854775807,"settings":{"search_path":"pg.public"},"later":{"deep":[1,2]}}"#,
        ),
        (
            Table::RoleMembers,
            "o'dd \"näme\" ;/someone",
            r#"{"by":{"admin":{"admin":true,"inherit":false,"set":true},"o'dd \"näme\" ;":{"admin":false,"inherit":true,"set":false}}}"#,
        ),
        (
            Table::Policies,
            "f1",
            r#"{"kind":"row_filter","target":{"table":["pg","public","people"]},"using":"region = 'EU'"}"#,
        ),
        (
            Table::Policies,
            "f2",
            r#"{"kind":"row_filter","target":{"schema":["pg","public"]},"using":"region = 'EU'","to":["public",{"role":"o'dd \"näme\" ;"}],"except":["boss"],"others":"all_rows"}"#,
        ),
        (
            Table::Policies,
            "f3",
            r#"{"kind":"row_filter","target":{"catalog":"pg"},"using":"region = 'EU'","to":["public",{"role":"o'dd \"näme\" ;"}],"except":["boss"],"others":"no_rows"}"#,
        ),
        (
            Table::Policies,
            "m0",
            r#"{"kind":"mask","target":{"column":["pg","public","people","ssn"]},"function":{"constant":"***"},"when":"a = 'b'","priority":-3,"enabled":false,"later":{"deep":[1,2]}}"#,
        ),
        (
            Table::Policies,
            "m8",
            r#"{"kind":"mask","target":{"column":["pg","public","people","ssn"]},"function":{"function":{"name":"f","arguments":["1","'x'"]}},"when":"a = 'b'","priority":-3,"enabled":false,"later":{"deep":[1,2]}}"#,
        ),
        (
            Table::Grants,
            "system/public/admin",
            r#"{"privileges":["SELECT","CREATE ROLE"],"grantable":["SELECT"],"columns":{"c d":true},"as_all":true}"#,
        ),
        (Table::Grants, "object/catalog/pg/role/o'dd \"näme\" ;/admin", "{}"),
        (
            Table::Grants,
            "object/table/pg/public/people/public/admin",
            r#"{"privileges":["SELECT","CREATE ROLE"],"grantable":["SELECT"],"columns":{"c d":true},"as_all":true}"#,
        ),
        (
            Table::Grants,
            "pattern/tables/all/schema/pg/public/role/o'dd \"näme\" ;/admin",
            r#"{"privileges":["SELECT","CREATE ROLE"],"grantable":["SELECT"],"columns":{"c d":true},"as_all":true}"#,
        ),
        (
            Table::Grants,
            "pattern/schemas/future/catalog/pg/public/admin",
            r#"{"privileges":["SELECT","CREATE ROLE"],"grantable":["SELECT"],"columns":{"c d":true},"as_all":true}"#,
        ),
        (Table::DerivedProducts, "dataglot/public/v2", r#"{"sql":"SELECT 1"}"#),
    ];
    let all = rows();
    for (table, key, json) in stored {
        let value = framed(table, key, json);
        let bytes = key.replace('/', "\0");
        let row = decode_row(table, bytes.as_bytes(), &value).unwrap_or_else(|e| panic!("{table} {key}: {e}"));
        assert!(all.contains(&row), "{row:?}");
        // What we write is the same still, but for the order of unknown fields.
        if !json.contains("later") {
            assert_eq!(encoded(&row), (table, bytes.into_bytes(), value));
        }
    }
    let mut envelope = vec![1, 0x65, 0x86, 0xc0, 0xd7];
    envelope.extend([7; 72]);
    assert_eq!(encoded(&secret("s1", 7)), (Table::Secrets, b"s1".to_vec(), envelope));
    let (table, key, value) = encoded(&previous_secret("s1", 7));
    assert_eq!((table, key.as_slice(), &value[5..]), (Table::PreviousSecrets, &b"s1"[..], [7; 72].as_slice()));
    let (table, key, value) = encoded(&data_key(10, 7));
    assert_eq!((table, key.as_slice(), &value[5..]), (Table::DataKeys, &b"10"[..], [7; 72].as_slice()));
}

fn is_sealed(row: &Row) -> bool {
    matches!(row, Row::Secret(..) | Row::PreviousSecret(..) | Row::DataKey(..))
}

/// A field that a later version wrote is there after a read and a write by this one.
#[test]
fn unknown_fields_survive() {
    for row in rows().into_iter().filter(|row| !is_sealed(row)) {
        let (table, key, value) = encoded(&row);
        let mut fields: BTreeMap<String, serde_json::Value> =
            serde_json::from_slice(open(table, &key, &value).unwrap()).unwrap();
        fields.insert("zukunft".to_owned(), serde_json::json!({"a": [1, null]}));
        let mut newer = Vec::new();
        begin(&mut newer);
        serde_json::to_writer(&mut newer, &fields).unwrap();
        finish(table, &key, &mut newer);

        let read = decode_row(table, &key, &newer).unwrap();
        assert_ne!(read, row);
        let (.., written) = encoded(&read);
        let found: BTreeMap<String, serde_json::Value> =
            serde_json::from_slice(open(table, &key, &written).unwrap()).unwrap();
        assert_eq!(found, fields);
    }
}

/// A field that we write is one that we know: it would be kept twice otherwise.
#[test]
fn known_fields_are_listed() {
    for row in rows().into_iter().filter(|row| !is_sealed(row)) {
        let (table, key, value) = encoded(&row);
        let json: BTreeMap<String, serde_json::Value> =
            serde_json::from_slice(open(table, &key, &value).unwrap()).unwrap();
        let fields = match row {
            Row::Header(..) => header::HeaderRecord::FIELDS,
            Row::Catalog(..) => catalog::CatalogRecord::FIELDS,
            Row::Secret(..) | Row::PreviousSecret(..) | Row::DataKey(..) => continue,
            Row::Role(..) => role::RoleRecord::FIELDS,
            Row::Membership(..) => grant::StoredMembershipRecord::FIELDS,
            Row::Policy(..) => policy::PolicyRecord::FIELDS,
            Row::Grant(..) => grant::StoredGrantRecord::FIELDS,
            Row::View(..) => view::ViewRecord::FIELDS,
        };
        assert!(json.keys().all(|k| k == "later" || fields.contains(&k.as_str())), "{json:?}");
    }
}

#[test]
fn what_does_not_decode_is_damaged() {
    for (table, key, json) in [
        (Table::Roles, "r", "{"),
        (Table::Roles, "r", r#"{"superuser":1}"#),
        (Table::Entries, "c", "{}"),
        (Table::Entries, "c", r#"{"connector":"floppy"}"#),
        (Table::Policies, "p", r#"{"kind":"mask","target":{"table":["a","b","c"]},"function":"hash"}"#),
        (Table::Policies, "p", r#"{"kind":"row_filter","target":{"catalog":"c"}}"#),
        (Table::Grants, "system/public/admin", r#"{"privileges":["FLY"]}"#),
        (Table::Objects, "role/r", r#"{"id":1,"version":1}"#),
    ] {
        let bytes = key.replace('/', "\0");
        assert_eq!(decode_row(table, bytes.as_bytes(), &framed(table, key, json)), Err(Bad::Value), "{json}");
    }
    for (table, key) in [
        (Table::Roles, ""),
        (Table::Roles, "a/b"),
        (Table::Roles, "a\u{200b}"),
        (Table::Objects, "role"),
        (Table::Objects, "rule/r"),
        (Table::Objects, "org/Not-An-Org"),
        (Table::DerivedProducts, "a/b"),
        (Table::DerivedProducts, "a/b/c/d"),
        (Table::Grants, "system/public"),
        (Table::Grants, "pattern/tables/some/catalog/c/public/admin"),
        (Table::Changes, "x"),
        (Table::Meta, "x"),
    ] {
        let bytes = key.replace('/', "\0");
        assert_eq!(decode_row(table, bytes.as_bytes(), &framed(table, key, "{}")), Err(Bad::Key), "{table} {key}");
    }
}

proptest! {
    /// Whatever a disk gives back, it is a row or damaged.
    #[test]
    fn arbitrary_bytes_never_panic(table in 0..Table::ALL.len(), key: Vec<u8>, value: Vec<u8>, json: String) {
        let table = Table::ALL[table];
        let _ = decode_row(table, &key, &value);
        let mut framed = Vec::new();
        begin(&mut framed);
        framed.extend_from_slice(json.as_bytes());
        finish(table, &key, &mut framed);
        let _ = decode_row(table, &key, &framed);
        let _ = transaction_id(&framed);
    }

    /// Keys sort by org first, and an org's range holds its keys alone.
    #[test]
    fn an_orgs_range_holds_its_keys_alone(a in "[a-z0-9][a-z0-9_-]{0,5}", b in "[a-z0-9][a-z0-9_-]{0,5}", key: Vec<u8>) {
        let (a, b) = (dataglot_model::OrgName::new(&a).unwrap(), dataglot_model::OrgName::new(&b).unwrap());
        let (mut prefix, mut other) = (Vec::new(), Vec::new());
        key::org_prefix(&a, &mut prefix);
        key::org_prefix(&b, &mut other);
        other.extend_from_slice(&key);
        let range = prefix.clone()..key::prefix_end(&prefix);
        prop_assert_eq!(range.contains(&other), a == b);
    }
}

#[track_caller]
fn renders(mutation: &Mutation, expected: &str) {
    let Rendered { action, table, key, value } = render(mutation);
    let text = format!("{action} {table} {key}");
    assert_eq!(value.map_or_else(|| text.clone(), |v| format!("{text} {v}")), expected);
    // The same as JSON.
    let json = render_json(mutation);
    assert_eq!(json["action"], action);
    assert_eq!(json["table"], table);
    assert_eq!(json["key"], key);
}

#[test]
fn people_read_names_and_no_credentials() {
    let put = |at: usize| Mutation::Put(rows()[at].clone());
    renders(
        &put(0),
        r#"put objects role "full" {"comment":"it's a comment","later":{"deep":[1,2]},"owner":"o'dd \"näme\" ;","secret":{"origin":{"sealed":"<sealed>"},"value_version":2},"version":7}"#,
    );
    renders(&put(2), r#"put entries plain {"connector":"postgres"}"#);
    renders(&put(3), "put secrets s1 <sealed>");
    renders(&Mutation::Put(previous_secret("s1", 7)), "put previous_secrets s1 <sealed>");
    renders(&Mutation::Put(data_key(1, 7)), "put data_keys 1 <sealed>");
    renders(&Mutation::Put(user("u")), r#"put users u {"verifier":"<verifier>"}"#);
    renders(&Mutation::Put(role("r")), "put roles r {}");
    renders(
        &put(7),
        r#"put role_members "o'dd ""näme"" ;" TO someone {"by":{"admin":{"admin":true,"inherit":false,"set":true},"o'dd \"näme\" ;":{"admin":false,"inherit":true,"set":false}}}"#,
    );
    renders(&Mutation::Delete(rows()[9].key()), "delete derived_products dataglot.public.v2");
    let is_grant = |row: &Row| matches!(row, Row::Grant(..));
    let grants = rows().into_iter().filter(is_grant);
    let grants: Vec<_> = grants.map(|row| render(&Mutation::Delete(row.key())).key).collect();
    assert_eq!(
        grants,
        [
            "SYSTEM TO PUBLIC BY admin",
            "ALL CATALOGS TO \"o'dd \"\"näme\"\" ;\" BY admin",
            "ALL SECRETS TO PUBLIC BY admin",
            "CATALOG pg TO \"o'dd \"\"näme\"\" ;\" BY admin",
            "TABLE pg.public.people TO PUBLIC BY admin",
            "ALL TABLES IN SCHEMA pg.public TO \"o'dd \"\"näme\"\" ;\" BY admin",
            "FUTURE SCHEMAS IN CATALOG pg TO PUBLIC BY admin",
            "ALL VIEWS IN CATALOG pg TO \"o'dd \"\"näme\"\" ;\" BY admin",
        ]
    );
    for row in rows() {
        let json = render_json(&Mutation::Put(row)).to_string();
        assert!(!json.contains("canary-verifier") && !json.contains("abab") && !json.contains("1700000000"), "{json}");
    }
}

/// The path of a million rows: a header without unknown fields is read in one pass.
#[test]
fn a_header_without_unknown_fields_has_none() {
    let (table, key, value) = encoded(&rows()[15]);
    let Ok(Row::Header(_, header)) = decode_row(table, &key, &value) else { panic!("not a header") };
    let Header { id, extra, created, changed, .. } = Arc::unwrap_or_clone(header);
    assert_eq!((id, extra, created == changed), (ObjectId(12), None, true));
    assert_eq!(name("x").as_str(), "x");
}
