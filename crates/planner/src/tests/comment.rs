//! COMMENT ON every kind.

use super::check;

#[test]
fn every_kind() {
    let world = check(
        "CREATE SECRET s AS 'x'; CREATE CATALOG c USING mock; CREATE ROLE r; CREATE VIEW v (a) AS SELECT 1;
         CREATE MASK m ON c.s.t (x) AS 'k'; CREATE ROW FILTER f ON c.s.t USING (true)",
        "COMMENT ON SECRET s IS 'k'; COMMENT ON CATALOG c IS 'k'; COMMENT ON ROLE r IS 'k'; COMMENT ON VIEW v IS 'k';
         COMMENT ON MASK m IS 'k'; COMMENT ON ROW FILTER f IS 'k'; COMMENT ON SCHEMA c.s IS 'k';
         COMMENT ON TABLE c.s.t IS 'k'; COMMENT ON COLUMN c.s.t.x IS 'k'; COMMENT ON COLUMN v.a IS 'k';
         COMMENT ON SECRET s IS 'k'; COMMENT ON SCHEMA c.s IS 'k'; COMMENT ON SCHEMA c.s IS 'l';
         COMMENT ON SCHEMA c.s IS NULL; COMMENT ON SCHEMA c.s IS NULL; COMMENT ON TABLE c.s.t IS '';
         COMMENT ON COLUMN c.s.t.x IS NULL; COMMENT ON COLUMN v.a IS NULL; COMMENT ON VIEW v IS NULL",
        "COMMENT
         COMMENT
         COMMENT
         COMMENT
         COMMENT
         COMMENT
         COMMENT
         COMMENT
         COMMENT
         COMMENT
         COMMENT (unchanged)
         COMMENT (unchanged)
         COMMENT
         COMMENT
         COMMENT (unchanged)
         COMMENT
         COMMENT
         COMMENT
         COMMENT",
    );
    assert_eq!(world.image.comments().count(), 0);
}

#[test]
fn on_what_is_not_there() {
    check(
        "CREATE CATALOG c USING mock; CREATE VIEW v (a) AS SELECT 1",
        "COMMENT ON ROLE nope IS 'k'; COMMENT IF EXISTS ON ROLE nope IS 'k'; COMMENT ON TABLE nope.s.t IS 'k';
         COMMENT ON COLUMN v.b IS 'k'; COMMENT ON TABLE v IS 'k'; COMMENT ON TABLE w IS 'k'",
        "ERROR 42704 @16: role \"nope\" does not exist
         NOTICE 00000: role \"nope\" does not exist, skipping
         COMMENT (unchanged)
         ERROR 42704 @17: catalog \"nope\" does not exist
         ERROR 42703 @18: column \"dataglot.public.v.b\" does not exist
         ERROR 42809 @17: \"dataglot.public.v\" is not a table
         HINT Use COMMENT ON VIEW.
         ERROR 42P01 @17: view \"dataglot.public.w\" does not exist",
    );
}
