//! Whatever was put in comes out again.

use proptest::prelude::*;

use super::*;
use crate::conformance::sample::rows;
use crate::record::{begin, encode_row, finish, open};

/// What PostgreSQL would give back for the parameters of a key.
fn key_back(columns: KeyColumns, KeyTexts(texts): &KeyTexts<'_>) -> Vec<u8> {
    let mut key = Vec::new();
    match columns {
        KeyColumns::List => {
            let segments: Vec<_> = match texts[0].as_ref() {
                "" => Vec::new(),
                text => text.split(SEGMENT_END).collect(),
            };
            push_list(&array(&segments), &mut key).unwrap();
        }
        KeyColumns::Each(names) => {
            texts.iter().take(names.len()).enumerate().for_each(|(at, t)| push_segment(at, t.as_bytes(), &mut key));
        }
    }
    finish_key(&mut key, 0);
    key
}

/// A `text[]` in binary form.
fn array(segments: &[&str]) -> Vec<u8> {
    let number = |n: usize| i32::try_from(n).unwrap().to_be_bytes();
    let mut bytes = [number(usize::from(!segments.is_empty())), number(0), number(25)].concat();
    if !segments.is_empty() {
        bytes.extend([number(segments.len()), number(1)].concat());
    }
    segments.iter().for_each(|s| bytes.extend([number(s.len()).as_slice(), s.as_bytes()].concat()));
    bytes
}

fn value_back(table: Table, value: &[u8]) -> Vec<u8> {
    let (columns, _) = to_columns(table, value);
    assert!(columns.body.is_some() != columns.raw.is_some());
    let mut back = Vec::new();
    from_columns(&columns, &mut back);
    back
}

const TABLES: [Table; 11] = Table::IMAGE;

/// Each real record is in columns that a person can query.
#[test]
fn real_records_are_texts_and_json() {
    for row in rows() {
        let (mut key, mut value) = (Vec::new(), Vec::new());
        let table = encode_row(&row, &mut key, &mut value).unwrap();
        let columns = key_columns(table);
        let texts = key_texts(columns, &key);
        assert!(!texts.0[0].starts_with(UNREADABLE_KEY), "{row:?}");
        assert_eq!(key_back(columns, &texts), key);
        assert!(to_columns(table, &value).0.body.is_some(), "{row:?}");
        assert_eq!(value_back(table, &value), value);
    }
}

#[test]
fn what_postgresql_refuses_is_kept_whole() {
    let framed = |body: &[u8]| [&[1, 2, 3, 4, 5], body].concat();
    for body in [
        &br#"{"a":"\u0000"}"#[..],
        br#"{"a":"\\\u0000"}"#,
        br#"{"a":"\ud800"}"#,
        br#"{"a":1"#,
        b"[1]",
        b"",
        b"{\"a\":\"\xff\"}",
        b"{\"a\":\"\x01\"}",
        br#" {"a":1}"#,
        br#"{"a":1}}"#,
    ] {
        let value = framed(body);
        assert_eq!(to_columns(Table::Roles, &value).0.raw, Some(&value[..]), "{}", String::from_utf8_lossy(body));
    }
    for body in [&br#"{"a":"\u0001 \\u0000 \" \\\\"}"#[..], "{\"ä\":[{}]}".as_bytes(), b"{}"] {
        let value = framed(body);
        assert_eq!(to_columns(Table::Roles, &value).0.body, Some(body), "{}", String::from_utf8_lossy(body));
    }
    assert_eq!(to_columns(Table::Secrets, &framed(b"\0")).0.body, Some(&b"\0"[..]));
    assert_eq!(to_columns(Table::DataKeys, &framed(b"\0")).0.body, Some(&b"\0"[..]));
    assert_eq!(to_columns(Table::Secrets, b"abcd").0.raw, Some(&b"abcd"[..]));
}

#[test]
fn what_people_search_for_is_found_where_it_is_of_its_type() {
    let fields = |body: &str| to_columns(Table::Objects, &[&[1, 2, 3, 4, 5], body.as_bytes()].concat()).1;
    let Fields { id, owner, at, by } = fields(r#"{"by":"é\n","owner":"ann","later":[{"id":9}],"id":7,"at":-1}"#);
    assert_eq!(
        (id.get(), owner.get(), at.get(), by.get()),
        (Some(7), Some("ann".into()), Some(-1), Some("é\n".into()))
    );
    for none in ["{}", r#"{"id":"7","owner":7,"at":1.5,"by":null}"#, r#"{"id":18446744073709551615,"owner":{}}"#] {
        assert_eq!(fields(none), Fields::default(), "{none}");
    }
    assert_eq!(fields("damaged"), Fields::default());
}

/// What somebody wrote into the columns by hand is no record, and nothing worse.
#[test]
fn numbers_that_do_not_fit_are_damage() {
    for (format, checksum) in [(-1, 0), (256, 0), (1, -1), (1, 1 << 32)] {
        let mut value = Vec::new();
        from_columns(&Columns { format, checksum, body: Some(b"{}"), raw: None }, &mut value);
        assert!(open(Table::Roles, b"a", &value).is_err());
    }
    assert!(push_list(&[0, 0], &mut Vec::new()).is_err());
    assert!(push_list(&array(&["abc"])[..24], &mut Vec::new()).is_err());
}

#[test]
fn a_row_of_history_has_its_transaction_in_the_first_one_only() {
    let mut value = Vec::new();
    begin(&mut value);
    value.extend_from_slice(b"{\"id\":\"0000000000000000000000000000002a\",\"at\":1}");
    let key = key::of_change(dataglot_model::Seq(7), 0);
    finish(Table::Changes, &key, &mut value);
    let id = Some("0000000000000000000000000000002a".to_owned());
    assert_eq!(change_columns(&key, &value), Ok(ChangeColumns { seq: 7, step: 0, transaction_id: id }));
    let key = key::of_change(dataglot_model::Seq(7), 1);
    assert_eq!(change_columns(&key, &value), Ok(ChangeColumns { seq: 7, step: 1, transaction_id: None }));
    assert!(change_columns(b"short", &value).is_err());
    assert!(change_columns(&key::of_change(dataglot_model::Seq(u64::MAX), 0), &value).is_err());
}

/// Bytes, mostly such as keys are made of.
fn key_bytes() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        any::<Vec<u8>>(),
        "[a-c\u{0}\u{1}\u{2}ä]{0,8}".prop_map(String::into_bytes),
        proptest::collection::vec("[a-z]{0,3}", 1..6).prop_map(|s| s.join("\0").into_bytes()),
    ]
}

proptest! {
    #[test]
    fn any_key_comes_back(table in 0..TABLES.len(), key in key_bytes()) {
        let columns = key_columns(TABLES[table]);
        let texts = key_texts(columns, &key);
        prop_assert!(texts.0.iter().all(|text| !text.contains('\0')));
        prop_assert_eq!(key_back(columns, &texts), key);
    }

    /// No two keys are the same row.
    #[test]
    fn different_keys_stay_different(table in 0..TABLES.len(), a in key_bytes(), b in key_bytes()) {
        let columns = key_columns(TABLES[table]);
        prop_assert_eq!(key_texts(columns, &a) == key_texts(columns, &b), a == b);
    }

    #[test]
    fn any_value_comes_back(table in 0..TABLES.len(), value: Vec<u8>, body in "\\{\"a\":\"[a-z\\\\u0d]{0,9}\"\\}") {
        let table = TABLES[table];
        prop_assert_eq!(value_back(table, &value), value);
        let framed = [&[1, 2, 3, 4, 5], body.as_bytes()].concat();
        prop_assert_eq!(value_back(table, &framed), framed);
    }
}

/// The place where a real header says when it was made is where it is looked for.
#[test]
fn when_an_object_was_made_is_found_in_its_header() {
    let mut headers = 0;
    for row in rows() {
        let (mut key, mut value) = (Vec::new(), Vec::new());
        encode_row(&row, &mut key, &mut value).unwrap();
        if let dataglot_model::Row::Header(_, header) = row {
            // One with fields of a later version has its fields in another order: it is not taken for new.
            assert_eq!(created_in(&value), header.extra.is_none().then_some(header.created.seq));
            headers += 1;
        }
    }
    assert!(headers > 10);
    for none in [&b""[..], b"{\"created\":{\"seq\":", b"{\"comment\":\"\\\"created\\\":{\\\"seq\\\":7\"}"] {
        assert_eq!(created_in(none), None);
    }
}
