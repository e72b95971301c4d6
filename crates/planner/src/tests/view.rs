//! Views.

use dataglot_model::def::SecurityMode;

use super::check;

#[test]
fn references_have_to_be_there() {
    check(
        "CREATE CATALOG c USING mock",
        "CREATE VIEW v AS SELECT * FROM w;
         CREATE VIEW v AS SELECT * FROM nope.s.t;
         CREATE VIEW v AS SELECT * FROM v;
         CREATE VIEW c.s.v AS SELECT 1;
         CREATE VIEW v AS SELECT * FROM c.s.t;
         CREATE VIEW v AS SELECT 1;
         CREATE VIEW IF NOT EXISTS v AS SELECT 1",
        "ERROR 42P01 @31: view \"dataglot.public.w\" does not exist
         ERROR 42704 @31: catalog \"nope\" does not exist
         ERROR 42P17 @31: view \"dataglot.public.v\" would refer to itself
         ERROR 0A000 @12: views live in the catalog \"dataglot\" only
         HINT Create it as dataglot.s.v.
         CREATE VIEW
         ERROR 42P07 @12: view \"dataglot.public.v\" already exists
         NOTICE 42P07: view \"dataglot.public.v\" already exists, skipping
         DETAIL It differs from the statement in: query.
         CREATE VIEW (unchanged)",
    );
}

#[test]
fn no_view_leads_back_to_itself() {
    check(
        "CREATE VIEW a AS SELECT 1; CREATE VIEW b AS SELECT * FROM a; CREATE VIEW c AS SELECT * FROM b",
        "CREATE OR REPLACE VIEW a AS SELECT * FROM a; CREATE OR REPLACE VIEW a AS SELECT * FROM c;
         ALTER VIEW a AS SELECT * FROM b",
        "ERROR 42P17 @42: view \"dataglot.public.a\" would refer to itself
         ERROR 42P17 @42: view \"dataglot.public.a\" would refer to itself through other views
         DETAIL The way back is \"dataglot.public.a\" -> \"dataglot.public.c\" -> \"dataglot.public.b\" -> \"dataglot.public.a\".
         ERROR 42P17 @30: view \"dataglot.public.a\" would refer to itself through other views
         DETAIL The way back is \"dataglot.public.a\" -> \"dataglot.public.b\" -> \"dataglot.public.a\".",
    );
}

#[test]
fn c065_or_replace_keeps_security_owner_comment_and_grants() {
    let world = check(
        "CREATE ROLE r; CREATE VIEW v SECURITY DEFINER AS SELECT 1 AS a; GRANT SELECT ON VIEW v TO r;
         COMMENT ON VIEW v IS 'k'; ALTER VIEW v OWNER TO r",
        "CREATE OR REPLACE VIEW v AS SELECT 1 AS a;
         CREATE OR REPLACE VIEW v AS SELECT 1 AS a, 2 AS b",
        "CREATE VIEW (unchanged)
         CREATE VIEW",
    );
    let (_, view) = world.image.views().next().unwrap();
    assert_eq!(view.def.security, SecurityMode::Definer);
    assert_eq!(view.header.comment.as_deref(), Some("k"));
    assert_eq!(view.header.owner, Some(super::name("r")));
    assert_eq!(world.image.grants().count(), 1);
}

#[test]
fn a_masked_column_stays() {
    check(
        "CREATE VIEW v (a, b) AS SELECT 1, 2; CREATE MASK m ON v (b) AS 'k'",
        "CREATE OR REPLACE VIEW v (a) AS SELECT 1; CREATE VIEW w (a, a) AS SELECT 1, 2",
        "ERROR 2BP01: cannot drop columns of view \"dataglot.public.v\" because other objects depend on them
         DETAIL mask \"m\" depends on column \"dataglot.public.v.b\"
         HINT Drop the masks first, or keep the columns.
         SYNTAX 42701: column \"a\" specified more than once",
    );
}

#[test]
fn alter() {
    let world = check(
        "CREATE VIEW v AS SELECT 1 AS a; CREATE VIEW w AS SELECT 1",
        "ALTER VIEW v RENAME TO w;
         ALTER VIEW v RENAME TO v;
         ALTER VIEW v SET SCHEMA dataglot.public;
         ALTER VIEW v SET SCHEMA c.s;
         ALTER VIEW v SET SECURITY DEFINER;
         ALTER VIEW v SET SECURITY DEFINER;
         ALTER VIEW v AS SELECT 2;
         ALTER VIEW nope SET SECURITY DEFINER;
         ALTER VIEW IF EXISTS nope SET SECURITY DEFINER;
         ALTER VIEW v SET SCHEMA dataglot.other",
        "ERROR 42P07 @23: view \"dataglot.public.w\" already exists
         ERROR 42P07 @23: view \"dataglot.public.v\" already exists
         ALTER VIEW (unchanged)
         ERROR 0A000 @24: views live in the catalog \"dataglot\" only
         HINT Create it as dataglot.s.v.
         ALTER VIEW
         ALTER VIEW (unchanged)
         ALTER VIEW
         ERROR 42P01 @11: view \"dataglot.public.nope\" does not exist
         NOTICE 00000: view \"dataglot.public.nope\" does not exist, skipping
         ALTER VIEW (unchanged)
         ALTER VIEW",
    );
    assert_eq!(
        world.image.views().map(|(n, _)| n.to_string()).collect::<Vec<_>>(),
        ["dataglot.other.v", "dataglot.public.w"]
    );
}
