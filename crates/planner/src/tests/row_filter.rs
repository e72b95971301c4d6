//! Row filters.

use super::check;

#[test]
fn targets_have_to_be_there() {
    check(
        "CREATE CATALOG c USING mock",
        "CREATE ROW FILTER f ON nope.s.t USING (true);
         CREATE ROW FILTER f ON CATALOG nope USING (true);
         CREATE ROW FILTER f ON SCHEMA nope.s USING (true);
         CREATE ROW FILTER f ON v USING (true);
         CREATE ROW FILTER f ON CATALOG c USING (true);
         CREATE ROW FILTER g ON SCHEMA c.s USING (true);
         CREATE ROW FILTER h ON c.s.t USING (true)",
        "ERROR 42704 @23: catalog \"nope\" does not exist
         ERROR 42704 @31: catalog \"nope\" does not exist
         ERROR 42704 @30: catalog \"nope\" does not exist
         ERROR 42P01 @23: view \"dataglot.public.v\" does not exist
         CREATE ROW FILTER
         CREATE ROW FILTER
         CREATE ROW FILTER",
    );
}

#[test]
fn else_belongs_to_to() {
    check(
        "CREATE ROLE r; CREATE CATALOG c USING mock; CREATE ROW FILTER f ON c.s.t USING (true)",
        "ALTER ROW FILTER f SET TO r;
         ALTER ROW FILTER f ADD TO r;
         ALTER ROW FILTER f SET TO r ELSE NO ROWS;
         ALTER ROW FILTER f SET TO PUBLIC, r;
         ALTER ROW FILTER f SET USING (a = 1), DISABLE;
         ALTER ROW FILTER f ON c.s.u DISABLE;
         CREATE ROW FILTER IF NOT EXISTS f ON c.s.t USING (true)",
        "ERROR 42601: row filter \"f\" does not say what those see whom TO does not name
         HINT Add ELSE ALL ROWS or ELSE NO ROWS.
         ERROR 55000: row filter \"f\" has no TO list: it applies to everyone
         HINT Give it one with SET TO.
         ALTER ROW FILTER
         ALTER ROW FILTER
         ALTER ROW FILTER
         ERROR 42704 @17: row filter \"f\" on table \"c.s.u\" does not exist
         NOTICE 42710: row filter \"f\" already exists, skipping
         DETAIL It differs from the statement in: USING, audience, ELSE, ENABLE.
         CREATE ROW FILTER (unchanged)",
    );
}
