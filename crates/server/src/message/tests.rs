//! Framing and decoding, against what pgwire encodes and against what nobody would send.

use bytes::BytesMut;
use pgwire::messages::{Message as _, extendedquery, simplequery};
use proptest::prelude::*;

use super::*;

const MAX: usize = 1 << 20;

#[track_caller]
fn check_header(input: &[u8], expected: Result<Option<(Kind, usize)>, Fault>) {
    let found = header(input, MAX).map(|h| h.map(|h| (h.kind, h.frame_bytes)));
    assert_eq!(found, expected);
}

#[test]
fn w_10_lengths_are_judged_without_a_body() {
    check_header(b"", Ok(None));
    check_header(b"Q\0\0\0", Ok(None));
    check_header(b"Q\0\0\0\x04", Ok(Some((Kind::Query, 5))));
    for short in [0, 1, 3] {
        check_header(&[b'Q', 0, 0, 0, short], Err(Fault::Length));
    }
    check_header(b"Q\xff\xff\xff\xff", Err(Fault::Length));
    check_header(b"Q\x80\0\0\0", Err(Fault::Length));
    check_header(b"Q\0\x10\0\0", Ok(Some((Kind::Query, MAX + 1))));
    check_header(b"Q\0\x10\0\x01", Err(Fault::TooLong { limit: MAX }));
    check_header(b"B\x3f\xff\xff\xff", Err(Fault::TooLong { limit: MAX }));
    check_header(b"D\0\0\x27\x10", Ok(Some((Kind::Describe, 10_001))));
    check_header(b"D\0\0\x27\x11", Err(Fault::TooLong { limit: SHORT_BYTES_MAX }));
}

#[test]
fn w_17_types_are_an_allow_list() {
    check_header(b"F", Err(Fault::FunctionCall));
    for kind in 0..=u8::MAX {
        if !b"QPBDECHSXF".contains(&kind) {
            check_header(&[kind], Err(Fault::UnknownType(kind)));
        }
    }
}

#[track_caller]
fn check(kind: Kind, body: &[u8], expected: Result<Message<'_>, Fault>) {
    assert_eq!(decode(kind, body), expected);
}

#[test]
fn bodies() {
    check(Kind::Query, b"SELECT 1\0", Ok(Message::Query("SELECT 1")));
    check(Kind::Query, b"\0", Ok(Message::Query("")));
    check(Kind::Query, b"", Err(Fault::Format));
    check(Kind::Query, b"SELECT 1", Err(Fault::Format));
    check(Kind::Query, b"SEL\0ECT\0", Err(Fault::NotText));
    check(Kind::Query, b"\xff\0", Err(Fault::NotText));
    check(Kind::Sync, b"", Ok(Message::Sync));
    check(Kind::Sync, b"\0", Err(Fault::Format));
    check(Kind::Describe, b"Sx\0", Ok(Message::Describe(Target::Statement("x"))));
    check(Kind::Close, b"P\0", Ok(Message::Close(Target::Portal(""))));
    check(Kind::Close, b"Q\0", Err(Fault::Format));
    check(Kind::Close, b"P\xfe\0", Err(Fault::NotText));
    check(Kind::Execute, b"\0\0\0\0\x05", Ok(Message::Execute { portal: "", rows_max: 5 }));
    check(Kind::Execute, b"\0\0\0\0", Err(Fault::Format));
    check(Kind::Parse, b"\0a\0\0\0", Ok(Message::Parse { name: "", query: "a", types: vec![] }));
    check(Kind::Parse, b"\0a\0\0\x01\0\0\0\x19", Ok(Message::Parse { name: "", query: "a", types: vec![25] }));
    check(Kind::Parse, b"\0a\0\0\x02\0\0\0\x19", Err(Fault::Format));
    check(Kind::Parse, b"\0a\0\0\0\0", Err(Fault::Format));
}

#[test]
fn p3_a_truncated_bind_is_refused() {
    let whole = b"\0s\0\0\x01\0\0\0\x02\xff\xff\xff\xff\0\0\0\x02hi\0\x01\0\x01";
    let bind = Bind {
        portal: "",
        statement: "s",
        formats: vec![0],
        values: vec![None, Some(b"hi".to_vec())],
        result_formats: vec![1],
    };
    check(Kind::Bind, whole, Ok(Message::Bind(bind)));
    for end in 0..whole.len() {
        check(Kind::Bind, &whole[..end], Err(Fault::Format));
    }
    check(Kind::Bind, b"\0\0\0\0\0\x01\xff\xff\xff\xfe\0\0", Err(Fault::Format));
    check(Kind::Bind, b"\0\0\0\0\xff\xff\0\0\0\0", Err(Fault::Format));
}

fn text() -> impl Strategy<Value = String> {
    "[^\0]{0,12}"
}

proptest! {
    #[test]
    fn w_10_no_bytes_panic(input in proptest::collection::vec(any::<u8>(), 0..64), kind in 0usize..9) {
        let _ = header(&input, MAX);
        let kinds = [Kind::Query, Kind::Parse, Kind::Bind, Kind::Describe, Kind::Execute, Kind::Close, Kind::Flush,
            Kind::Sync, Kind::Terminate];
        let _ = decode(kinds[kind], &input);
    }

    /// What a stock encoder writes is what is read.
    #[test]
    fn reads_what_pgwire_writes(
        (name, query) in (text(), text()),
        types in proptest::collection::vec(any::<u32>(), 0..4),
        formats in proptest::collection::vec(0i16..2, 0..4),
        values in proptest::collection::vec(proptest::option::of(proptest::collection::vec(any::<u8>(), 0..9)), 0..4),
    ) {
        let mut bytes = BytesMut::new();
        extendedquery::Parse::new(Some(name.clone()), query.clone(), types.clone()).encode(&mut bytes).unwrap();
        let found = header(&bytes, MAX).unwrap().unwrap();
        prop_assert_eq!(found, Header { kind: Kind::Parse, frame_bytes: bytes.len() });
        prop_assert_eq!(decode(Kind::Parse, &bytes[5..]), Ok(Message::Parse { name: &name, query: &query, types }));

        bytes.clear();
        let params = values.iter().map(|v| v.clone().map(Into::into)).collect();
        extendedquery::Bind::new(Some(name.clone()), Some(query.clone()), formats.clone(), params, formats.clone())
            .encode(&mut bytes)
            .unwrap();
        let bind = Bind { portal: &name, statement: &query, result_formats: formats.clone(), formats, values };
        prop_assert_eq!(decode(Kind::Bind, &bytes[5..]), Ok(Message::Bind(bind)));

        bytes.clear();
        simplequery::Query::new(query.clone()).encode(&mut bytes).unwrap();
        prop_assert_eq!(decode(Kind::Query, &bytes[5..]), Ok(Message::Query(&query)));
    }
}
