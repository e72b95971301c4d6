//! DROP of every kind.

use super::{World, check, name};

const BEFORE: &str = "CREATE SECRET s AS 'x'; CREATE CATALOG c USING mock WITH (password = SECRET s);
    CREATE VIEW v AS SELECT * FROM c.s.t; CREATE VIEW w AS SELECT a FROM v;
    CREATE MASK m ON c.s.t (x) AS 'k'; CREATE ROW FILTER f ON SCHEMA c.s USING (true);
    CREATE MASK mw ON w (a) AS 'k';
    COMMENT ON SCHEMA c.s IS 'k'; COMMENT ON TABLE c.s.t IS 'k'; COMMENT ON COLUMN c.s.t.x IS 'k';
    COMMENT ON COLUMN w.a IS 'k'; CREATE ROLE r; GRANT USAGE ON CATALOG c TO r; GRANT SELECT ON VIEW w TO r;
    GRANT SELECT ON c.s.t TO r; GRANT SELECT ON ALL TABLES IN SCHEMA c.s TO r; GRANT USAGE ON SECRET s TO r;
    GRANT APPLY ON MASK m TO r";

#[test]
fn restrict_lists_all_dependents() {
    check(
        BEFORE,
        "DROP SECRET s; DROP CATALOG c; DROP VIEW v; DROP VIEW w; DROP VIEW v, w RESTRICT",
        "ERROR 2BP01: cannot drop secret \"s\" because other objects depend on it
         DETAIL catalog \"c\" depends on secret \"s\"
         view \"dataglot.public.v\" depends on catalog \"c\"
         mask \"m\" depends on catalog \"c\"
         row filter \"f\" depends on catalog \"c\"
         view \"dataglot.public.w\" depends on view \"dataglot.public.v\"
         mask \"mw\" depends on view \"dataglot.public.w\"
         HINT Use DROP ... CASCADE to drop the dependent objects too.
         ERROR 2BP01: cannot drop catalog \"c\" because other objects depend on it
         DETAIL view \"dataglot.public.v\" depends on catalog \"c\"
         mask \"m\" depends on catalog \"c\"
         row filter \"f\" depends on catalog \"c\"
         view \"dataglot.public.w\" depends on view \"dataglot.public.v\"
         mask \"mw\" depends on view \"dataglot.public.w\"
         HINT Use DROP ... CASCADE to drop the dependent objects too.
         ERROR 2BP01: cannot drop view \"dataglot.public.v\" because other objects depend on it
         DETAIL view \"dataglot.public.w\" depends on view \"dataglot.public.v\"
         mask \"mw\" depends on view \"dataglot.public.w\"
         HINT Use DROP ... CASCADE to drop the dependent objects too.
         ERROR 2BP01: cannot drop view \"dataglot.public.w\" because other objects depend on it
         DETAIL mask \"mw\" depends on view \"dataglot.public.w\"
         HINT Use DROP ... CASCADE to drop the dependent objects too.
         ERROR 2BP01: cannot drop desired objects because other objects depend on them
         DETAIL mask \"mw\" depends on view \"dataglot.public.w\"
         HINT Use DROP ... CASCADE to drop the dependent objects too.",
    );
}

#[test]
fn cascade_takes_all_and_says_so() {
    let world = check(
        BEFORE,
        "DROP VIEW w CASCADE; DROP SECRET s CASCADE",
        "NOTICE 00000: drop cascades to mask \"mw\"
         DROP VIEW
         NOTICE 00000: drop cascades to 4 other objects
         DETAIL drop cascades to catalog \"c\"
         drop cascades to view \"dataglot.public.v\"
         drop cascades to mask \"m\"
         drop cascades to row filter \"f\"
         DROP SECRET",
    );
    // Nothing is left but the two roles.
    assert_eq!(world.image.all_rows().len(), 4, "{}", world.image.dump());
}

#[test]
fn objects_of_the_same_statement_do_not_hold_each_other() {
    check("CREATE VIEW v AS SELECT 1; CREATE VIEW w AS SELECT a FROM v", "DROP VIEW v, w, v", "DROP VIEW");
}

#[test]
fn all_or_nothing() {
    let world = check(
        "CREATE ROLE a; CREATE VIEW v AS SELECT 1",
        "DROP ROLE a, nope; DROP ROLE IF EXISTS nope, a, nope2; DROP VIEW IF EXISTS x; DROP VIEW x;
         DROP SECRET IF EXISTS nope",
        "ERROR 42704 @13: role \"nope\" does not exist
         NOTICE 00000: role \"nope\" does not exist, skipping
         NOTICE 00000: role \"nope2\" does not exist, skipping
         DROP ROLE
         NOTICE 00000: view \"dataglot.public.x\" does not exist, skipping
         DROP VIEW (unchanged)
         ERROR 42P01 @10: view \"dataglot.public.x\" does not exist
         NOTICE 00000: secret \"nope\" does not exist, skipping
         DROP SECRET (unchanged)",
    );
    assert!(world.image.role(&name("a")).is_none());
}

#[test]
fn the_wrong_kind_and_the_wrong_target() {
    check(
        BEFORE,
        "DROP MASK f; DROP ROW FILTER IF EXISTS m; DROP MASK m ON c.s.t (y); DROP MASK IF EXISTS m ON c.s.t (y);
         DROP MASK m ON c.s.t (x); DROP ROW FILTER f ON SCHEMA c.s",
        "ERROR 42809 @10: \"f\" is not a mask
         HINT Use DROP ROW FILTER.
         ERROR 42809 @26: \"m\" is not a row filter
         HINT Use DROP MASK.
         ERROR 42704 @10: mask \"m\" on column \"c.s.t.y\" does not exist
         NOTICE 00000: mask \"m\" on column \"c.s.t.y\" does not exist, skipping
         DROP MASK (unchanged)
         DROP MASK
         DROP ROW FILTER",
    );
}

#[test]
fn a_long_list_is_cut() {
    let mut world = World::with("CREATE CATALOG c USING mock");
    for i in 0..103 {
        world.run(&format!("CREATE VIEW v{i:03} AS SELECT * FROM c.s.t"));
    }
    let answer = world.run("DROP CATALOG c");
    assert!(answer.contains("view \"dataglot.public.v099\"") && !answer.contains("v100"), "{answer}");
    assert!(answer.contains("and 3 other objects"), "{answer}");
}

#[test]
fn a_new_object_of_the_same_name_inherits_nothing() {
    let mut world = World::with(BEFORE);
    world.run("DROP CATALOG c CASCADE; CREATE CATALOG c USING mock");
    assert_eq!(world.image.grants().filter(|(key, _)| format!("{key:?}").contains("Catalog(c)")).count(), 0);
    assert_eq!(world.image.comments().count(), 0);
}

#[test]
fn c047_a_role_that_is_still_named_somewhere() {
    let world = check(
        "CREATE ROLE r1; CREATE USER u1; GRANT r1 TO u1; CREATE CATALOG c1 USING mock;
         CREATE ROW FILTER f1 ON c1.s.t1 USING (true) TO r1 ELSE NO ROWS; GRANT USAGE ON CATALOG c1 TO r1",
        "DROP ROLE r1; DROP ROLE r1 CASCADE",
        "ERROR 2BP01: role \"r1\" cannot be dropped because some objects depend on it
         DETAIL privileges on catalog \"c1\"
         target of row filter \"f1\"
         membership of role \"u1\" in role \"r1\"
         HINT Use REASSIGN OWNED and DROP OWNED first, or DROP ROLE ... CASCADE.
         NOTICE 00000: drop cascades to 3 other objects
         DETAIL drop cascades to membership of role \"u1\" in role \"r1\"
         drop cascades to privileges of role \"r1\" on catalog \"c1\"
         drop cascades to mention of role \"r1\" in row filter \"f1\"
         DROP ROLE",
    );
    assert!(!world.image.dump().contains("r1"), "{}", world.image.dump());
}

#[test]
fn memberships_go_silently() {
    let world = check("CREATE ROLE a; CREATE ROLE b IN ROLE a; CREATE ROLE c IN ROLE b", "DROP ROLE b", "DROP ROLE");
    assert_eq!(world.image.memberships().count(), 0);
}

#[test]
fn an_owner_is_not_dropped() {
    check(
        "CREATE ROLE r; CREATE CATALOG c USING mock AUTHORIZATION r",
        "DROP ROLE r; DROP ROLE r CASCADE",
        "ERROR 2BP01: role \"r\" cannot be dropped because some objects depend on it
         DETAIL owner of catalog \"c\"
         HINT Use REASSIGN OWNED and DROP OWNED first, or DROP ROLE ... CASCADE.
         ERROR 2BP01: role \"r\" cannot be dropped because some objects depend on it
         DETAIL owner of catalog \"c\"
         HINT Use REASSIGN OWNED or DROP OWNED first.",
    );
}

#[test]
fn dropping_a_role_never_shows_more() {
    let before = "CREATE ROLE a; CREATE ROLE b; CREATE USER u; CREATE CATALOG c USING mock";
    let refused = |setup: &str, what: &str| {
        check(
            &format!("{before}; {setup}"),
            "DROP ROLE a CASCADE",
            &format!(
                "ERROR 2BP01: role \"a\" cannot be dropped because some objects depend on it
                 DETAIL target of {what}
                 HINT Change whom these apply to first: dropping the role would show more to its members."
            ),
        );
    };
    let allowed = |setup: &str| {
        let mut world = World::with(&format!("{before}; {setup}"));
        let answer = world.run("DROP ROLE a CASCADE");
        assert!(answer.ends_with("DROP ROLE\n"), "{answer}");
    };
    refused("CREATE MASK m ON c.s.t (x) AS 'k' TO a", "mask \"m\"");
    refused("CREATE MASK m ON c.s.t (x) AS 'k' TO a, b; GRANT a TO u", "mask \"m\"");
    refused("CREATE ROW FILTER m ON c.s.t USING (true) TO a ELSE ALL ROWS", "row filter \"m\"");
    refused("CREATE ROW FILTER m ON c.s.t USING (true) TO a, b ELSE ALL ROWS; GRANT a TO u", "row filter \"m\"");
    allowed("CREATE MASK m ON c.s.t (x) AS 'k' TO a, b");
    allowed("CREATE MASK m ON c.s.t (x) AS 'k' TO a, b; GRANT a TO u; GRANT b TO u");
    allowed("CREATE MASK m ON c.s.t (x) AS 'k' TO a, PUBLIC; GRANT a TO u");
    allowed("CREATE MASK m ON c.s.t (x) AS 'k' TO a, b EXCEPT u; GRANT a TO u");
    allowed("CREATE MASK m ON c.s.t (x) AS 'k' EXCEPT a; GRANT a TO u");
    allowed("CREATE ROW FILTER m ON c.s.t USING (true) TO a ELSE NO ROWS; GRANT a TO u");
    allowed("CREATE ROW FILTER m ON c.s.t USING (true) EXCEPT a; GRANT a TO u");
}

#[test]
fn who_is_logged_in_stays() {
    check(
        "CREATE USER s SUPERUSER",
        "DROP ROLE admin; DROP ROLE s, admin",
        "ERROR 55006 @10: current user cannot be dropped
         ERROR 55006 @13: current user cannot be dropped",
    );
}

#[test]
fn the_last_superuser_is_not_dropped() {
    let mut world = World::with("CREATE USER s SUPERUSER; CREATE ROLE n SUPERUSER");
    // `n` acts; it cannot log in, so `admin` and `s` are the last who can.
    let n = world.image.role(&name("n")).unwrap().header.id;
    world.actor = dataglot_model::Actor {
        session_user: name("n"),
        session_user_id: n,
        current_user: name("n"),
        current_user_id: n,
    };
    let answer = world.run("DROP ROLE s, admin; DROP ROLE s; DROP ROLE admin");
    assert_eq!(answer.matches("55000").count(), 2, "{answer}");
    assert!(answer.contains("\nDROP ROLE\n"), "{answer}");
}
