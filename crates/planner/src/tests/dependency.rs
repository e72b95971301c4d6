//! What SHOW DEPENDENCIES lists.

use dataglot_model::{ObjectRef, TableRef};

use super::{World, name};
use crate::{dependencies, dependents};

#[test]
fn both_directions_in_a_fixed_order() {
    let world = World::with(
        "CREATE ROLE r; CREATE SECRET s AS 'x'; CREATE CATALOG c USING mock WITH (password = SECRET s) AUTHORIZATION r;
         CREATE VIEW v AS SELECT * FROM c.s.t; CREATE VIEW w AS SELECT a FROM v; CREATE MASK m ON c.s.t (x) AS 'k' TO r;
         GRANT USAGE ON CATALOG c TO r; CREATE USER u IN ROLE r",
    );
    let on = |object: &ObjectRef| -> Vec<String> {
        dependents(&world.image, object).iter().map(|d| format!("{}: {}", d.object, d.via)).collect()
    };
    let of = |object: &ObjectRef| -> Vec<String> {
        dependencies(&world.image, object).iter().map(ToString::to_string).collect()
    };
    let view = |v: &str| ObjectRef::View(TableRef::from_parts(["dataglot", "public", v]).unwrap());
    let (c, s, r) = (ObjectRef::Catalog(name("c")), ObjectRef::Secret(name("s")), ObjectRef::Role(name("r")));
    assert_eq!(on(&s), ["catalog \"c\": uses"]);
    assert_eq!(
        on(&c),
        [
            "view \"dataglot.public.v\": references",
            "mask \"m\": applies to",
            "privileges of role \"r\" on catalog \"c\": privilege"
        ]
    );
    assert_eq!(on(&view("v")), ["view \"dataglot.public.w\": references"]);
    assert_eq!(
        on(&r),
        [
            "catalog \"c\": owner",
            "mask \"m\": audience",
            "privileges of role \"r\" on catalog \"c\": grantee",
            "privileges of role \"r\" on catalog \"c\": grantor",
            "role \"u\": member"
        ]
    );
    assert_eq!(of(&c), ["role \"r\"", "secret \"s\""]);
    assert_eq!(of(&view("v")), ["role \"admin\"", "catalog \"c\"", "table \"c.s.t\""]);
    assert_eq!(of(&view("w")), ["role \"admin\"", "view \"dataglot.public.v\""]);
    assert_eq!(of(&ObjectRef::Mask(name("m"))), ["role \"admin\"", "role \"r\"", "catalog \"c\"", "table \"c.s.t\""]);
    assert_eq!(of(&ObjectRef::RowFilter(name("m"))), Vec::<String>::new());
    assert_eq!(of(&ObjectRef::Role(name("u"))), ["role \"r\""]);
}
