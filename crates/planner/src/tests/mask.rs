//! Masks.

use super::{check, name};

const BEFORE: &str = "CREATE ROLE a; CREATE ROLE b; CREATE CATALOG c USING mock;
    CREATE MASK m ON c.s.t (x) WITH (type = 'redact') TO a";

#[test]
fn targets_and_audiences_have_to_be_there() {
    check(
        "CREATE VIEW v (x) AS SELECT 1",
        "CREATE MASK m ON nope.s.t (x) AS 'k';
         CREATE MASK m ON dataglot.public.w (x) AS 'k';
         CREATE MASK m ON v (y) AS 'k';
         CREATE MASK m ON v (x) AS 'k' EXCEPT hr;
         CREATE MASK m ON v (x) AS 'k'",
        "ERROR 42704 @17: catalog \"nope\" does not exist
         ERROR 42P01 @17: view \"dataglot.public.w\" does not exist
         ERROR 42703 @17: column \"dataglot.public.v.y\" does not exist
         ERROR 42704 @37: role \"hr\" does not exist
         CREATE MASK",
    );
}

#[test]
fn two_masks_that_could_meet_are_refused() {
    check(
        BEFORE,
        "CREATE MASK m2 ON c.s.t (x) AS 'k';
         CREATE MASK m2 ON c.s.t (x) AS 'k' TO b DISABLE;
         CREATE MASK m2 ON c.s.t (x) AS 'k' PRIORITY 1;
         CREATE MASK m3 ON c.s.t (x) AS 'k' EXCEPT a;
         CREATE MASK m4 ON c.s.t (y) AS 'k';
         ALTER MASK m2 SET PRIORITY 0;
         ALTER MASK m3 SET EXCEPT b",
        "ERROR 42710 @12: mask \"m2\" conflicts with mask \"m\"
         DETAIL Both are on column \"c.s.t.x\" with the same priority, and someone could be subject to both.
         HINT Give one of them another PRIORITY, or name the roles of the one in EXCEPT of the other.
         ERROR 42710 @12: mask \"m2\" conflicts with mask \"m\"
         DETAIL Both are on column \"c.s.t.x\" with the same priority, and someone could be subject to both.
         HINT Give one of them another PRIORITY, or name the roles of the one in EXCEPT of the other.
         CREATE MASK
         CREATE MASK
         CREATE MASK
         ERROR 42710 @11: mask \"m2\" conflicts with mask \"m\"
         DETAIL Both are on column \"c.s.t.x\" with the same priority, and someone could be subject to both.
         HINT Give one of them another PRIORITY, or name the roles of the one in EXCEPT of the other.
         ERROR 42710 @11: mask \"m3\" conflicts with mask \"m\"
         DETAIL Both are on column \"c.s.t.x\" with the same priority, and someone could be subject to both.
         HINT Give one of them another PRIORITY, or name the roles of the one in EXCEPT of the other.",
    );
}

#[test]
fn c067_replacing_leaves_nothing_behind() {
    let mut world = check(
        BEFORE,
        "CREATE OR REPLACE MASK m ON c.s.t (x) WITH (type = 'redact') TO a;
         CREATE MASK m ON c.s.t (x) AS 'k';
         CREATE MASK IF NOT EXISTS m ON c.s.t (x) AS 'k' PRIORITY 3",
        "CREATE MASK (unchanged)
         ERROR 42710 @12: mask \"m\" already exists
         NOTICE 42710: mask \"m\" already exists, skipping
         DETAIL It differs from the statement in: function, audience, PRIORITY.
         CREATE MASK (unchanged)",
    );
    let rows = world.image.all_rows().len();
    for i in 0..20 {
        let text = format!("CREATE OR REPLACE MASK m ON c.s.t (x{i}) AS 'k{i}'");
        assert_eq!(world.run(&text), "CREATE MASK\n");
    }
    assert_eq!(world.image.all_rows().len(), rows);
    assert_eq!(world.image.policy(&name("m")).unwrap().header.version, 21);
    assert_eq!(world.run("DROP MASK m; CREATE MASK m ON c.s.t (x) AS 'k'"), "DROP MASK\nCREATE MASK\n");
    assert_eq!(world.image.all_rows().len(), rows);
}

#[test]
fn masks_and_filters_share_names() {
    check(
        BEFORE,
        "CREATE ROW FILTER m ON c.s.t USING (true);
         CREATE ROW FILTER IF NOT EXISTS m ON c.s.t USING (true);
         CREATE OR REPLACE ROW FILTER m ON c.s.t USING (true);
         DROP ROW FILTER IF EXISTS m;
         ALTER ROW FILTER m DISABLE;
         COMMENT ON ROW FILTER m IS 'x'",
        "ERROR 42710 @18: mask \"m\" already exists
         ERROR 42710 @32: mask \"m\" already exists
         ERROR 42710 @29: mask \"m\" already exists
         ERROR 42809 @26: \"m\" is not a row filter
         HINT Use DROP MASK.
         ERROR 42809 @17: \"m\" is not a row filter
         HINT Use ALTER MASK.
         ERROR 42809 @22: \"m\" is not a row filter
         HINT Use COMMENT ON MASK.",
    );
}

#[test]
fn alter() {
    check(
        BEFORE,
        "ALTER MASK m ON c.s.t (y) DISABLE;
         ALTER MASK IF EXISTS m ON c.s.t (y) DISABLE;
         ALTER MASK m ON c.s.t (x) DISABLE, SET PRIORITY 4, SET AS 'k', ADD TO b, OWNER TO b, RENAME TO n, SET COMMENT 'z';
         ALTER MASK n DROP TO a, b;
         ALTER MASK n DROP TO b;
         ALTER MASK n DROP TO b;
         ALTER MASK n SET TO a;
         ALTER MASK n ENABLE;
         ALTER MASK n ENABLE;
         ALTER MASK m ENABLE",
        "ERROR 42704 @11: mask \"m\" on column \"c.s.t.y\" does not exist
         NOTICE 00000: mask \"m\" on column \"c.s.t.y\" does not exist, skipping
         ALTER MASK (unchanged)
         ALTER MASK
         ERROR 55000: mask \"n\" would apply to no one
         HINT Name others with SET TO, or say so with DISABLE.
         ALTER MASK
         ERROR 42704 @21: role \"b\" is not in the TO list of mask \"n\"
         ALTER MASK (unchanged)
         ALTER MASK
         ALTER MASK (unchanged)
         ERROR 42704 @11: mask \"m\" does not exist",
    );
}

#[test]
fn an_audience_is_a_set() {
    check(
        "CREATE ROLE a; CREATE ROLE b; CREATE CATALOG c USING mock;
         CREATE MASK m ON c.s.t (x) AS 'k' TO b, a, b EXCEPT a",
        "CREATE OR REPLACE MASK m ON c.s.t (x) AS 'k' TO a, b EXCEPT a, a",
        "CREATE MASK (unchanged)",
    );
}
