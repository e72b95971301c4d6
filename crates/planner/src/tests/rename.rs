//! Renames: every reference follows.

use super::{World, check, name};

fn texts(world: &World) -> Vec<String> {
    world.image.views().map(|(n, v)| format!("{n}: {}", v.def.query)).collect()
}

#[test]
fn c057_a_catalog() {
    let mut world = check(
        "CREATE ROLE r1; CREATE ROLE r2; CREATE CATALOG c1 USING mock; GRANT USAGE ON CATALOG c1 TO r1;
         GRANT SELECT ON c1.s.t TO r1; GRANT SELECT ON ALL TABLES IN SCHEMA c1.s TO r1;
         GRANT SELECT ON ALL TABLES IN CATALOG c1 TO r1;
         CREATE MASK m ON c1.s.t (x) AS 'k'; CREATE ROW FILTER f ON c1.s.t USING (true);
         CREATE ROW FILTER g ON SCHEMA c1.s USING (true); CREATE ROW FILTER h ON CATALOG c1 USING (true);
         COMMENT ON SCHEMA c1.s IS 'k'; COMMENT ON TABLE c1.s.t IS 'k'; COMMENT ON COLUMN c1.s.t.x IS 'k';
         CREATE VIEW v AS SELECT c1.s.t.x, u.y FROM c1.s.t, c1.s.u AS u JOIN c1.\"S\".w ON true",
        "ALTER CATALOG c1 RENAME TO c2; CREATE CATALOG c1 USING mock; DROP CATALOG c1",
        "ALTER CATALOG
         CREATE CATALOG
         DROP CATALOG",
    );
    assert!(!world.image.dump().contains("c1"), "{}", world.image.dump());
    assert_eq!(
        texts(&world),
        ["dataglot.public.v: SELECT c2.s.t.x, u.y FROM c2.s.t, c2.s.u AS u JOIN c2.\"S\".w ON true"]
    );
    assert_eq!(world.image.grants().count(), 4);
    assert_eq!(world.image.comments().count(), 3);
    let id = world.image.catalog(&name("c2")).unwrap().header.id;
    // And back, under a name that has to be quoted.
    world.run("ALTER CATALOG c2 RENAME TO \"C 1\"");
    assert_eq!(world.image.catalog(&name("C 1")).unwrap().header.id, id);
    assert_eq!(
        texts(&world),
        [
            "dataglot.public.v: SELECT \"C 1\".s.t.x, u.y FROM \"C 1\".s.t, \"C 1\".s.u AS u JOIN \"C 1\".\"S\".w ON true"
        ]
    );
}

#[test]
fn a_view() {
    let mut world = check(
        "CREATE ROLE r; CREATE VIEW v (a) AS SELECT 1; COMMENT ON VIEW v IS 'k'; COMMENT ON COLUMN v.a IS 'k';
         GRANT SELECT ON VIEW v TO r; CREATE MASK m ON v (a) AS 'k'; CREATE ROW FILTER f ON v USING (true);
         CREATE VIEW w1 AS SELECT v.a, dataglot.public.v.a AS b FROM v; CREATE VIEW w2 AS SELECT x.a FROM v x;
         CREATE VIEW w3 AS SELECT * FROM dataglot.public.v WHERE a IN (SELECT a FROM v)",
        "ALTER VIEW v RENAME TO z",
        "ALTER VIEW",
    );
    assert_eq!(
        texts(&world),
        [
            "dataglot.public.w1: SELECT v.a, v.a AS b FROM dataglot.public.z AS v",
            "dataglot.public.w2: SELECT x.a FROM dataglot.public.z x",
            "dataglot.public.w3: SELECT * FROM dataglot.public.z AS v WHERE a IN (SELECT a FROM dataglot.public.z AS v)",
            "dataglot.public.z: SELECT 1",
        ]
    );
    assert_eq!(world.image.comments().count(), 1);
    assert_eq!(world.image.grants().count(), 1);
    let answer = world.run("DROP VIEW z");
    assert_eq!(answer.matches("depends on view \"dataglot.public.z\"").count(), 5, "{answer}");
    assert_eq!(world.run("ALTER VIEW z SET SCHEMA dataglot.s2"), "ALTER VIEW\n");
    assert_eq!(texts(&world)[0], "dataglot.public.w1: SELECT v.a, v.a AS b FROM dataglot.s2.z AS v");
    assert_eq!(world.run("CREATE VIEW z AS SELECT 1; DROP VIEW z"), "CREATE VIEW\nDROP VIEW\n");
}

#[test]
fn a_schema_change_keeps_the_last_part_and_needs_no_alias() {
    let mut world = World::with("CREATE VIEW v AS SELECT 1 AS a; CREATE VIEW w AS SELECT v.a FROM v");
    world.run("ALTER VIEW v SET SCHEMA dataglot.s");
    assert_eq!(texts(&world)[0], "dataglot.public.w: SELECT v.a FROM dataglot.s.v");
}

#[test]
fn a_role() {
    let world = check(
        "CREATE ROLE old; CREATE USER u IN ROLE old; CREATE ROLE g ROLE old;
         CREATE CATALOG c USING mock AUTHORIZATION old; GRANT USAGE ON CATALOG c TO u;
         GRANT USAGE ON SCHEMA c.s TO old; CREATE MASK m ON c.s.t (x) AS 'k' TO old, u EXCEPT g, old;
         CREATE VIEW v AS SELECT 1; ALTER VIEW v OWNER TO old",
        "ALTER ROLE old RENAME TO new; CREATE ROLE old; DROP ROLE old",
        "ALTER ROLE
         CREATE ROLE
         DROP ROLE",
    );
    assert!(!world.image.dump().contains("old"), "{}", world.image.dump());
    assert_eq!(world.image.owned_by(&name("new")).count(), 2);
    assert_eq!(world.image.policies_naming(&name("new")).count(), 1);
}

#[test]
fn a_session_follows_its_role() {
    let mut world = World::with("ALTER ROLE admin RENAME TO boss");
    assert_eq!(world.run("CREATE ROLE x"), "CREATE ROLE\n");
    assert_eq!(world.image.role(&name("x")).unwrap().header.created.by, name("boss"));
    let actor = crate::current_actor(&world.image, &world.actor).unwrap();
    assert_eq!(actor.session_user, name("boss"));
}

#[test]
fn a_policy() {
    let world = check(
        "CREATE ROLE r; CREATE CATALOG c USING mock; CREATE MASK m ON c.s.t (x) AS 'k'; GRANT APPLY ON MASK m TO r;
         CREATE ROW FILTER f ON c.s.t USING (true)",
        "ALTER MASK m RENAME TO f; ALTER MASK m RENAME TO m; ALTER MASK m RENAME TO n",
        "ERROR 42710 @23: row filter \"f\" already exists
         ERROR 42710 @23: mask \"m\" already exists
         ALTER MASK",
    );
    assert!(world.image.policy(&name("n")).is_some());
    assert_eq!(world.image.grants().filter(|(k, _)| format!("{k:?}").contains("Mask(n)")).count(), 1);
}
