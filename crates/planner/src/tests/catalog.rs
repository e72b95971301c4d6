//! CREATE CATALOG, ALTER CATALOG.

use dataglot_model::def::OptionValue;

use super::{check, name};

#[test]
fn c001_the_quoted_name_is_the_same_name() {
    let world = check(
        "",
        r#"CREATE CATALOG "north_a" USING mock; CREATE CATALOG north_a USING mock;"#,
        "CREATE CATALOG
         ERROR 42710 @15: catalog \"north_a\" already exists",
    );
    assert_eq!(world.image.catalogs().map(|(n, _)| n.as_str().to_owned()).collect::<Vec<_>>(), ["north_a"]);
}

#[test]
fn values_are_coerced_by_the_schema() {
    let world = check(
        "CREATE SECRET s AS 'x'",
        "CREATE CATALOG c USING mock WITH (PORT = '5432', verify = 'on', ratio = 2, tables = '[1]', mode = 'FAST',
           password = SECRET s, host = ENV 'H')",
        "CREATE CATALOG",
    );
    let def = world.image.catalog(&name("c")).unwrap().def.clone();
    assert_eq!(def.options["port"], OptionValue::Integer(5432));
    assert_eq!(def.options["verify"], OptionValue::Boolean(true));
    assert_eq!(def.options["ratio"], OptionValue::Decimal("2".to_owned()));
    assert_eq!(def.options["mode"], OptionValue::Text("fast".to_owned()));
    assert!(matches!(def.options["tables"], OptionValue::Json(_)));
    assert!(matches!(def.options["password"], OptionValue::Secret { .. }));
}

#[test]
fn c031_a_wrong_value_is_never_repeated() {
    check(
        "",
        "CREATE CATALOG c1 USING mock WITH (port = 'CANARY-7Q');
         CREATE CATALOG c1 USING mock WITH (port = 0);
         CREATE CATALOG c1 USING mock WITH (mode = 'CANARY-7Q');
         CREATE CATALOG c1 USING mock WITH (hst = 'CANARY-7Q');
         CREATE CATALOG c1 USING mock WITH (zzzzz = 'CANARY-7Q');
         CREATE CATALOG c1 USING mock WITH (host = 5)",
        "ERROR 22023 @42: option \"port\" of connector \"mock\" takes an integer from 1 to 65535
         ERROR 22023 @42: option \"port\" of connector \"mock\" takes an integer from 1 to 65535
         ERROR 22023 @42: option \"mode\" of connector \"mock\" takes one of fast, slow
         ERROR 42704 @35: option \"hst\" of connector \"mock\" does not exist
         HINT Perhaps you meant the option \"host\".
         ERROR 42704 @35: option \"zzzzz\" of connector \"mock\" does not exist
         HINT Options of connector \"mock\" are: a, b, c, dsn, host, mode, note, password, pool, port, ratio, tables, token, user, verify.
         ERROR 22023 @42: option \"host\" of connector \"mock\" takes text",
    );
}

#[test]
fn a_required_option_has_to_be_there() {
    check(
        "",
        "CREATE CATALOG p USING postgres;
         CREATE CATALOG p USING postgres VALIDATE OFF;
         ALTER CATALOG p SET (pool = 3);
         ALTER CATALOG p SET (host = 'h');
         ALTER CATALOG p RESET (host)",
        "ERROR 22023 @23: connector \"postgres\" requires the option \"dsn\"
         HINT Or give host instead.
         CREATE CATALOG
         ALTER CATALOG
         ALTER CATALOG
         ERROR 22023 @14: connector \"postgres\" requires the option \"dsn\"
         HINT Or give host instead.",
    );
}

#[test]
fn a_secret_has_to_be_there() {
    check(
        "",
        "CREATE CATALOG c USING mock WITH (password = SECRET nope)",
        "ERROR 42704 @45: secret \"nope\" does not exist",
    );
}

#[test]
fn the_built_in_catalog_is_not_touched() {
    check(
        "",
        "CREATE CATALOG dataglot USING mock; ALTER CATALOG dataglot DISABLE; DROP CATALOG IF EXISTS dataglot;
         CREATE CATALOG c USING mock; ALTER CATALOG c RENAME TO dataglot; COMMENT ON CATALOG dataglot IS 'x'",
        "ERROR 42939 @15: catalog name \"dataglot\" is reserved
         DETAIL This catalog is built in and holds the views; it cannot be created, changed or dropped.
         ERROR 42939 @14: catalog name \"dataglot\" is reserved
         DETAIL This catalog is built in and holds the views; it cannot be created, changed or dropped.
         ERROR 42939 @23: catalog name \"dataglot\" is reserved
         DETAIL This catalog is built in and holds the views; it cannot be created, changed or dropped.
         CREATE CATALOG
         ERROR 42939 @26: catalog name \"dataglot\" is reserved
         DETAIL This catalog is built in and holds the views; it cannot be created, changed or dropped.
         ERROR 42939 @19: catalog name \"dataglot\" is reserved
         DETAIL This catalog is built in and holds the views; it cannot be created, changed or dropped.",
    );
}

#[test]
fn or_replace_keeps_what_is_not_the_definition() {
    let world = check(
        "CREATE ROLE r; CREATE CATALOG c USING mock WITH (a = '1', b = '2') COMMENT 'k' AUTHORIZATION r;
         GRANT USAGE ON CATALOG c TO r",
        "CREATE OR REPLACE CATALOG c USING mock WITH (a = '1', b = '2');
         CREATE OR REPLACE CATALOG c USING mock WITH (a = '3');
         CREATE OR ALTER CATALOG c USING postgres WITH (host = 'h');
         CREATE OR ALTER CATALOG c USING mock WITH (a = '3') COMMENT 'new'",
        "CREATE CATALOG (unchanged)
         CREATE CATALOG
         ERROR 0A000 @32: cannot change the connector of catalog \"c\"
         HINT Drop the catalog and create it anew, or create another one.
         CREATE CATALOG",
    );
    let catalog = world.image.catalog(&name("c")).unwrap();
    assert_eq!(catalog.def.options.len(), 1);
    assert_eq!(catalog.header.owner, Some(name("r")));
    assert_eq!(catalog.header.comment.as_deref(), Some("new"));
    assert_eq!(catalog.header.version, 3);
    assert_eq!(world.image.grants().count(), 1);
}

#[test]
fn c075_if_not_exists_names_what_differs() {
    check(
        "CREATE CATALOG c1 USING mock WITH (a = '1')",
        "CREATE CATALOG IF NOT EXISTS c1 USING postgres WITH (host = 'h', password = SECRET s1);
         CREATE CATALOG IF NOT EXISTS c1 USING mock WITH (a = '2') COMMENT 'x';
         CREATE CATALOG IF NOT EXISTS c1 USING mock WITH (A = '1')",
        "NOTICE 42710: catalog \"c1\" already exists, skipping
         DETAIL It differs from the statement in: connector, a, host, password.
         CREATE CATALOG (unchanged)
         NOTICE 42710: catalog \"c1\" already exists, skipping
         DETAIL It differs from the statement in: a, comment.
         CREATE CATALOG (unchanged)
         NOTICE 42710: catalog \"c1\" already exists, skipping
         CREATE CATALOG (unchanged)",
    );
}

#[test]
fn actions_of_alter_are_applied_in_order() {
    let world = check(
        "CREATE ROLE r; CREATE CATALOG c USING mock WITH (a = '1'); CREATE CATALOG d USING mock",
        "ALTER CATALOG c SET (b = '2'), RESET (a), DISABLE, SET COMMENT 'k', OWNER TO r, RENAME TO e, ENABLE;
         ALTER CATALOG e RENAME TO d;
         ALTER CATALOG e RENAME TO e;
         ALTER CATALOG e ENABLE;
         ALTER CATALOG c ENABLE;
         ALTER CATALOG IF EXISTS c ENABLE;
         ALTER CATALOG e IF VERSION 1 DISABLE;
         ALTER CATALOG e IF VERSION 2 DISABLE",
        "ALTER CATALOG
         ERROR 42710 @26: catalog \"d\" already exists
         ERROR 42710 @26: catalog \"e\" already exists
         ALTER CATALOG (unchanged)
         ERROR 42704 @14: catalog \"c\" does not exist
         NOTICE 00000: catalog \"c\" does not exist, skipping
         ALTER CATALOG (unchanged)
         ERROR 40001 @27: catalog \"e\" is at version 2, which is not the expected one
         HINT Read the object again and decide anew.
         ALTER CATALOG",
    );
    let catalog = world.image.catalog(&name("e")).unwrap();
    assert_eq!(catalog.header.version, 3);
    assert_eq!(catalog.def.options.keys().collect::<Vec<_>>(), ["b"]);
}

#[test]
fn options_as_postgresql_changes_them() {
    check(
        "CREATE CATALOG c USING mock WITH (a = '1')",
        "ALTER CATALOG c OPTIONS (ADD a 'x');
         ALTER CATALOG c OPTIONS (SET b 'x');
         ALTER CATALOG c OPTIONS (DROP b);
         ALTER CATALOG c OPTIONS (ADD b '2', SET a '3', DROP b)",
        "ERROR 42710 @29: option \"a\" provided more than once
         ERROR 42704 @29: option \"b\" of catalog \"c\" is not set
         ERROR 42704 @30: option \"b\" of catalog \"c\" is not set
         ALTER CATALOG",
    );
}
