//! OWNER TO, REASSIGN OWNED, DROP OWNED.

use super::{check, name};

const BEFORE: &str = "CREATE ROLE a; CREATE ROLE b; CREATE ROLE r; CREATE CATALOG c USING mock AUTHORIZATION a;
    GRANT USAGE ON CATALOG c TO r; GRANT SELECT ON c.s.t TO r; GRANT SELECT ON ALL TABLES IN SCHEMA c.s TO r;
    CREATE SECRET s AS 'x'; ALTER SECRET s OWNER TO a; GRANT USAGE ON SECRET s TO r";

#[test]
fn grants_of_the_owner_follow_the_owner() {
    let world = check(
        BEFORE,
        "ALTER CATALOG c OWNER TO b; ALTER CATALOG c OWNER TO b; GRANT USAGE ON CATALOG c TO r;
         ALTER CATALOG c OWNER TO nope",
        "ALTER CATALOG
         ALTER CATALOG (unchanged)
         GRANT (unchanged)
         ERROR 42704 @25: role \"nope\" does not exist",
    );
    assert_eq!(world.image.grants_by(&name("b")).count(), 3);
    assert_eq!(world.image.grants_by(&name("a")).count(), 1);
}

#[test]
fn reassign() {
    let world = check(
        BEFORE,
        "REASSIGN OWNED BY a TO b; REASSIGN OWNED BY a, b TO b; REASSIGN OWNED BY nope TO b; DROP ROLE a",
        "REASSIGN OWNED
         REASSIGN OWNED (unchanged)
         ERROR 42704 @18: role \"nope\" does not exist
         DROP ROLE",
    );
    assert_eq!(world.image.owned_by(&name("b")).count(), 2);
    assert_eq!(world.image.grants_by(&name("b")).count(), 4);
}

#[test]
fn drop_owned() {
    let world = check(
        &format!("{BEFORE}; CREATE VIEW v AS SELECT * FROM c.s.t; GRANT SELECT ON VIEW v TO a"),
        "DROP OWNED BY a; DROP OWNED BY a CASCADE; DROP OWNED BY a; DROP ROLE a",
        "ERROR 2BP01: cannot drop desired objects because other objects depend on them
         DETAIL view \"dataglot.public.v\" depends on catalog \"c\"
         HINT Use DROP ... CASCADE to drop the dependent objects too.
         NOTICE 00000: drop cascades to view \"dataglot.public.v\"
         DROP OWNED
         DROP OWNED (unchanged)
         DROP ROLE",
    );
    assert_eq!(world.image.grants().count(), 0);
}
