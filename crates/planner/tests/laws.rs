//! Laws that every plan keeps, whatever the statements: on random scripts over a small world of names, so that
//! statements meet each other's objects.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
#![allow(clippy::wildcard_enum_match_arm, reason = "what a test does not ask for is beside its point")]

use std::collections::BTreeSet;

use dataglot_grammar::{Limits, Parameters, ParseCx, parse, print};
use dataglot_model::command::OnExisting;
use dataglot_model::def::{Header, MaskTarget, ObjectId, PolicyDef, RowFilterTarget, SecretOrigin};
use dataglot_model::{
    Actor, Command, GrantTarget, Grantee, HeadRecord, Mutation, Name, ObjectRef, OrgName, PatternScope, Problem, Row,
    RowKey, SchemaRef, Sealed, Sensitive, Seq, SqlState, Statement, TableRef, Timestamp,
};
use dataglot_planner::{
    Image, Plan, PlanCx, authorize, initial_superuser, is_superuser, plan, recreate, recreate_grants,
};
use proptest::prelude::*;

const NOW: Timestamp = Timestamp(1_780_000_000_000_000);

fn name(text: &str) -> Name {
    Name::new(text).unwrap()
}

fn empty() -> Image {
    let head = HeadRecord { org_id: 1, seq: Seq(0), next_id: ObjectId(1), at: NOW };
    Image::new(OrgName::default_org(), head)
}

fn actor(image: &Image, user: &Name) -> Actor {
    let id = image.role(user).unwrap().header.id;
    Actor { session_user: user.clone(), session_user_id: id, current_user: user.clone(), current_user_id: id }
}

/// An org and everything that ever changed it.
struct World {
    image: Image,
    actor: Actor,
    history: Vec<Mutation>,
}

impl World {
    fn new() -> Self {
        let mut image = empty();
        let history = initial_superuser(&name("admin"), None, NOW);
        history.iter().for_each(|mutation| image.apply(mutation));
        image.advance(Seq(1), NOW);
        let actor = actor(&image, &name("admin"));
        World { image, actor, history }
    }

    fn with(script: &[&str]) -> Self {
        let mut world = World::new();
        for sql in script {
            world.run(sql).unwrap_or_else(|error| panic!("{sql}: {error:?}"));
        }
        world
    }

    fn plan(&self, command: &Command<Sealed>) -> Result<Plan, dataglot_planner::PlanError> {
        let authorized = authorize(&self.image, &self.actor, command)?;
        plan(&self.image, &PlanCx { now: NOW }, authorized)
    }

    /// Plans twice, which must give the same, and applies.
    fn execute(&mut self, command: &Command<Sealed>) -> Result<Plan, SqlState> {
        let planned = self.plan(command);
        assert_eq!(planned, self.plan(command), "the plan of {} differs", print(command));
        let planned = planned.map_err(|error| error.sqlstate())?;
        for mutation in &planned.mutations {
            self.image.apply(mutation);
            self.history.push(mutation.clone());
        }
        if !planned.mutations.is_empty() {
            self.image.advance(self.image.seq().next(), NOW);
        }
        if !is_superuser(&self.image, &self.actor) {
            // He took his own right away: somebody else goes on.
            let able = self.image.roles().find(|(_, role)| role.def.superuser && role.def.login);
            self.actor = actor(&self.image, able.expect("nobody is left to administer the org").0);
        }
        Ok(planned)
    }

    fn run(&mut self, sql: &str) -> Result<Plan, SqlState> {
        self.execute(&command(sql))
    }
}

fn command(sql: &str) -> Command<Sealed> {
    let (limits, path) = (Limits::default(), SchemaRef::default_schema());
    let cx = ParseCx { search_path: &path, parameters: Parameters::None, limits: &limits };
    let parsed = parse(sql, 0..sql.len(), &cx).unwrap_or_else(|error| panic!("{sql}: {error}"));
    match parsed.statement {
        Statement::Change(command) => seal(command),
        _ => panic!("{sql} changes nothing"),
    }
}

/// No statement here holds a credential.
fn seal(command: Command<Sensitive>) -> Command<Sealed> {
    command.map_credential(|_| panic!("a credential"))
}

/// Every object, with its header.
fn headers(image: &Image) -> Vec<(ObjectRef, Header)> {
    let mut all = Vec::new();
    let mut push = |object: ObjectRef, header: &Header| all.push((object, header.clone()));
    image.roles().for_each(|(n, o)| push(ObjectRef::Role(n.clone()), o.header));
    image.secrets().for_each(|(n, o)| push(ObjectRef::Secret(n.clone()), o.header));
    image.catalogs().for_each(|(n, o)| push(ObjectRef::Catalog(n.clone()), o.header));
    image.views().for_each(|(n, o)| push(ObjectRef::View(n.clone()), o.header));
    image.comments().for_each(|(o, header)| push(o.clone(), header));
    image.policies().for_each(|(n, o)| match **o.def {
        PolicyDef::Mask(_) => push(ObjectRef::Mask(n.clone()), o.header),
        PolicyDef::RowFilter(_) => push(ObjectRef::RowFilter(n.clone()), o.header),
    });
    all
}

/// Every row as text, in one order. `stamped`: with identities, versions and stamps.
fn rows(image: &Image, stamped: bool) -> Vec<String> {
    let mut all = Vec::new();
    for (object, header) in headers(image) {
        all.push(if stamped {
            format!("{object} {header:?}")
        } else {
            format!("{object} {:?} {:?} {:?}", header.owner, header.comment, header.secret)
        });
    }
    all.extend(image.roles().map(|(n, o)| format!("role {n} {:?}", o.def)));
    all.extend(image.catalogs().map(|(n, o)| format!("catalog {n} {:?}", o.def)));
    all.extend(image.views().map(|(n, o)| format!("view {n} {:?}", o.def)));
    all.extend(image.policies().map(|(n, o)| format!("policy {n} {:?}", o.def)));
    all.extend(image.grants().map(|(k, r)| format!("grant {k:?} {r:?}")));
    all.extend(image.memberships().map(|(k, r)| format!("membership {k:?} {r:?}")));
    all.sort();
    all
}

fn one_of(words: &'static [&'static str]) -> impl Strategy<Value = &'static str> {
    prop::sample::select(words)
}

const ROLES: &[&str] = &["a", "b", "c", "d"];
const CATALOGS: &[&str] = &["pg", "ora"];
const VIEWS: &[&str] = &["v", "w", "other.v"];

fn role() -> impl Strategy<Value = &'static str> {
    one_of(ROLES)
}

/// Privileges and a target that they fit.
fn privileges_on() -> impl Strategy<Value = (String, String)> {
    let table =
        (one_of(CATALOGS), one_of(&["s.t", "s.u", "x.t"])).prop_map(|(catalog, table)| format!("{catalog}.{table}"));
    let view = one_of(VIEWS).prop_map(|view| format!("VIEW {view}"));
    let of_tables = one_of(&["ALL", "SELECT", "APPLY", "SELECT, APPLY", "SELECT (k)", "SELECT (k, l), APPLY"]);
    let scope = one_of(&["SCHEMA pg.s", "CATALOG pg", "SCHEMA dataglot.public"]);
    let pattern = (one_of(&["ALL TABLES", "ALL VIEWS", "FUTURE VIEWS"]), scope)
        .prop_map(|(all, scope)| format!("{all} IN {scope}"));
    let catalog = one_of(&["CATALOG pg", "CATALOG ora", "CATALOG pg, ora", "ALL CATALOGS"]).prop_map(str::to_owned);
    let own = |(privileges, target): (&str, String)| (privileges.to_owned(), target);
    prop_oneof![
        (of_tables, prop_oneof![table, view]).prop_map(own),
        (one_of(&["ALL", "SELECT", "APPLY"]), pattern).prop_map(own),
        (one_of(&["ALL", "USAGE", "ALTER, MANAGE"]), catalog).prop_map(own),
        (Just("USAGE"), one_of(&["SECRET s", "ALL SECRETS", "SCHEMA pg.s"]).prop_map(str::to_owned)).prop_map(own),
        (one_of(&["ALL", "CREATE ROLE, AUDIT"]), Just("SYSTEM".to_owned())).prop_map(own),
    ]
}

/// A GRANT of privileges.
fn grant() -> impl Strategy<Value = String> {
    let grantees = prop_oneof![
        (one_of(&["a", "b", "c, d", "a, c"]), one_of(&["", " WITH GRANT OPTION"]))
            .prop_map(|(to, with)| format!("{to}{with}")),
        Just("PUBLIC".to_owned()),
    ];
    (privileges_on(), grantees).prop_map(|((privileges, target), to)| format!("GRANT {privileges} ON {target} TO {to}"))
}

/// A GRANT of membership of an earlier role to a later one, with options that commute.
fn membership() -> impl Strategy<Value = String> {
    let options = one_of(&["", " WITH ADMIN OPTION", " WITH INHERIT FALSE", " WITH SET FALSE", " GRANTED BY boss"]);
    (0..ROLES.len(), 1..ROLES.len(), options).prop_filter_map("a ring", |(role, step, options)| {
        let member = ROLES.get(role + step)?;
        Some(format!("GRANT {} TO {member}{options}", ROLES[role]))
    })
}

/// A statement of any kind, which may well be refused.
fn statement() -> impl Strategy<Value = String> {
    let replace = || one_of(&["CREATE", "CREATE OR REPLACE"]);
    let cascade = || one_of(&["", " CASCADE"]);
    let made = prop_oneof![
        (
            one_of(&["CREATE", "CREATE OR ALTER"]),
            one_of(&["ROLE", "USER"]),
            role(),
            one_of(&["", " NOINHERIT", " SUPERUSER", " COMMENT 'x'"])
        )
            .prop_map(|(create, word, role, rest)| format!("{create} {word} {role}{rest}")),
        (role(), one_of(&["IN ROLE", "ROLE", "ADMIN"]), role())
            .prop_map(|(r, clause, other)| format!("CREATE ROLE {r} {clause} {other}")),
        (
            replace(),
            one_of(CATALOGS),
            one_of(&[
                "USING mock",
                "USING postgres WITH (host = 'h', password = SECRET s)",
                "USING postgres VALIDATE OFF"
            ]),
            one_of(&["", " AUTHORIZATION a", " COMMENT 'x'"])
        )
            .prop_map(|(create, catalog, using, rest)| format!("{create} CATALOG {catalog} {using}{rest}")),
        (replace(), one_of(&["s", "s2"]), one_of(&["E", "F"]))
            .prop_map(|(create, s, env)| format!("{create} SECRET {s} AS ENV '{env}'")),
        (
            replace(),
            one_of(VIEWS),
            one_of(&[
                "SELECT 1 AS k",
                "SELECT k FROM pg.s.t",
                "SELECT x.k FROM v AS x",
                "SELECT k FROM w, ora.x.t AS y"
            ])
        )
            .prop_map(|(create, view, query)| format!("{create} VIEW {view} AS {query}")),
        (
            replace(),
            one_of(&["m", "m2"]),
            one_of(&["pg.s.t (k)", "ora.x.t (k)", "v (k)"]),
            one_of(&["", " TO a, b", " EXCEPT c", " TO d PRIORITY 1"])
        )
            .prop_map(|(create, mask, on, rest)| format!("{create} MASK {mask} ON {on} AS 'x'{rest}")),
        (
            replace(),
            one_of(&["f", "m"]),
            one_of(&["pg.s.t", "SCHEMA pg.s", "CATALOG ora", "v"]),
            one_of(&["", " TO a ELSE NO ROWS", " TO b, PUBLIC ELSE ALL ROWS", " EXCEPT d"])
        )
            .prop_map(|(create, filter, on, rest)| format!("{create} ROW FILTER {filter} ON {on} USING (true){rest}")),
    ];
    let changed = prop_oneof![
        (
            role(),
            one_of(&["SUPERUSER", "NOSUPERUSER", "NOLOGIN", "RENAME TO d", "RENAME TO a", "SET search_path = 'pg.s'"])
        )
            .prop_map(|(r, what)| format!("ALTER ROLE {r} {what}")),
        one_of(&["ALTER ROLE admin NOSUPERUSER", "ALTER ROLE admin NOLOGIN", "DROP ROLE IF EXISTS boss CASCADE"])
            .prop_map(str::to_owned),
        (
            one_of(CATALOGS),
            one_of(&["RENAME TO pg", "RENAME TO ora", "OWNER TO b", "DISABLE", "SET COMMENT 'y'", "SET (port = 5432)"])
        )
            .prop_map(|(c, what)| format!("ALTER CATALOG {c} {what}")),
        one_of(&[
            "ALTER SECRET s RENAME TO s2",
            "ALTER SECRET s2 RENAME TO s",
            "ALTER SECRET s OWNER TO a",
            "ALTER SECRET s AS ENV 'G'",
            "ALTER SECRET s AS ENV 'H' GRACE '1 hour'",
            "ALTER SECRET s AS FILE '/s' GRACE '1 second'"
        ])
        .prop_map(str::to_owned),
        (
            one_of(VIEWS),
            one_of(&["RENAME TO v", "RENAME TO w", "SET SCHEMA dataglot.other", "OWNER TO c", "AS SELECT 2 AS k"])
        )
            .prop_map(|(v, what)| format!("ALTER VIEW {v} {what}")),
        one_of(&[
            "ALTER MASK m SET PRIORITY 4",
            "ALTER MASK m RENAME TO m2",
            "ALTER ROW FILTER f DISABLE",
            "ALTER ROW FILTER f RENAME TO m"
        ])
        .prop_map(str::to_owned),
        one_of(&[
            "COMMENT ON SCHEMA pg.s IS 'z'",
            "COMMENT ON COLUMN pg.s.t.k IS 'z'",
            "COMMENT ON ROLE a IS 'z'",
            "COMMENT ON VIEW v IS NULL"
        ])
        .prop_map(str::to_owned),
        (role(), role()).prop_map(|(from, to)| format!("REASSIGN OWNED BY {from} TO {to}")),
        (role(), cascade()).prop_map(|(by, rest)| format!("DROP OWNED BY {by}{rest}")),
    ];
    let dropped = prop_oneof![
        role().prop_map(|r| format!("ROLE {r}")),
        one_of(CATALOGS).prop_map(|c| format!("CATALOG {c}")),
        one_of(VIEWS).prop_map(|v| format!("VIEW {v}")),
        one_of(&["SECRET s", "SECRET s2", "MASK m", "MASK m2", "ROW FILTER f", "ROW FILTER m"]).prop_map(str::to_owned),
    ];
    let dropped = (dropped, cascade()).prop_map(|(what, rest)| format!("DROP {what}{rest}"));
    let revoked = (one_of(&["", "GRANT OPTION FOR "]), privileges_on(), one_of(&["a", "b", "c, PUBLIC"]), cascade())
        .prop_map(|(option, (privileges, target), from, rest)| {
            format!("REVOKE {option}{privileges} ON {target} FROM {from}{rest}")
        });
    let joined = (role(), role(), one_of(&["", " WITH ADMIN TRUE, INHERIT FALSE", " WITH ADMIN FALSE"]))
        .prop_map(|(r, m, rest)| format!("GRANT {r} TO {m}{rest}"));
    let by =
        (role(), role(), role()).prop_map(|(r, m, g)| format!("GRANT {r} TO {m} WITH ADMIN OPTION GRANTED BY {g}"));
    let left = (one_of(&["", "ADMIN OPTION FOR "]), role(), role(), cascade())
        .prop_map(|(option, r, m, rest)| format!("REVOKE {option}{r} FROM {m}{rest}"));
    prop_oneof![3 => made, 3 => changed, 1 => dropped, 2 => grant(), 1 => revoked, 2 => joined, 1 => by, 1 => left]
}

/// A world in which most statements find their objects.
fn furnished() -> World {
    World::with(&[
        "CREATE USER boss SUPERUSER",
        "CREATE ROLE a",
        "CREATE USER b",
        "CREATE ROLE c NOINHERIT",
        "CREATE ROLE d",
        "CREATE SECRET s AS ENV 'E'",
        "CREATE CATALOG pg USING mock AUTHORIZATION a",
        "CREATE CATALOG ora USING postgres WITH (host = 'h', password = SECRET s)",
        "CREATE VIEW v AS SELECT k FROM pg.s.t",
        "CREATE VIEW w AS SELECT x.k FROM v AS x",
        "CREATE VIEW other.v AS SELECT 1 AS k",
        "CREATE MASK m ON pg.s.t (k) AS 'x' EXCEPT a",
        "CREATE ROW FILTER f ON pg.s.t USING (true) TO b ELSE NO ROWS",
    ])
}

/// What holds in every state.
fn assert_sound(image: &Image) {
    assert_eq!(image.damaged(), []);
    let role = |name: &Name| assert!(image.role(name).is_some(), "no role {name}");
    let catalog =
        |name: &Name| assert!(name.as_str() == "dataglot" || image.catalog(name).is_some(), "no catalog {name}");
    let table = |table: &TableRef| {
        catalog(&table.catalog());
        let there = table.catalog().as_str() != "dataglot" || image.view(table).is_some();
        assert!(there, "no view {table}");
    };
    let mut ids = BTreeSet::new();
    for (object, header) in headers(image) {
        assert!(ids.insert(header.id), "{object} has the identity of another object");
        header.owner.iter().for_each(role);
    }
    for (key, record) in image.grants() {
        role(&key.grantor);
        match &key.grantee {
            Grantee::Role(name) => role(name),
            Grantee::Public => assert!(record.grantable.is_empty()),
        }
        assert!(!record.privileges.is_empty() || !record.columns.is_empty(), "an empty grant on {}", key.target);
        assert!(record.privileges.contains_all(record.grantable));
        assert!(key.target.class().unwrap().all().contains_all(record.privileges));
        match &key.target {
            GrantTarget::Object(ObjectRef::Schema(schema)) => catalog(&schema.catalog()),
            GrantTarget::Object(ObjectRef::Catalog(name)) => catalog(name),
            GrantTarget::Object(ObjectRef::Table(name)) => table(name),
            GrantTarget::Object(object) => assert!(image.header(object).is_some(), "no {object}"),
            GrantTarget::Pattern { within: PatternScope::Schema(schema), .. } => catalog(&schema.catalog()),
            GrantTarget::Pattern { within: PatternScope::Catalog(name), .. } => catalog(name),
            GrantTarget::System | GrantTarget::AllCatalogs | GrantTarget::AllSecrets => {}
        }
    }
    for (key, record) in image.memberships() {
        role(&key.role);
        role(&key.member);
        record.by.keys().for_each(role);
        assert!(!record.by.is_empty());
        let above = dataglot_planner::roles_of_transitive(image, &key.role, dataglot_planner::Along::Any);
        assert!(!above.contains(&key.role), "{} is in a ring", key.role);
    }
    for (_, policy) in image.policies() {
        let audience = match &**policy.def {
            PolicyDef::Mask(mask) => {
                let MaskTarget::Column(column) = &mask.target;
                table(&column.table());
                &mask.audience
            }
            PolicyDef::RowFilter(filter) => {
                match &filter.target {
                    RowFilterTarget::Table(name) => table(name),
                    RowFilterTarget::Schema(schema) => catalog(&schema.catalog()),
                    RowFilterTarget::Catalog(name) => catalog(name),
                }
                assert_eq!(filter.audience.to.is_some(), filter.others.is_some());
                &filter.audience
            }
        };
        for grantee in audience.to.iter().flatten() {
            match grantee {
                Grantee::Role(name) => role(name),
                Grantee::Public => {}
            }
        }
        audience.except.iter().for_each(role);
    }
    for (_, view) in image.views() {
        view.def.references.iter().for_each(|reference| table(&reference.table));
    }
    for (_, found) in image.catalogs() {
        for value in found.def.options.values() {
            if let dataglot_model::def::OptionValue::Secret { name, .. } = value {
                assert!(image.secret(name).is_some(), "no secret {name}");
            }
        }
    }
    for (_, secret) in image.secrets() {
        assert!(!matches!(secret.meta.origin, SecretOrigin::Sealed(_)));
    }
    let able = |(_, role): (&Name, dataglot_planner::Object<'_, dataglot_model::def::RoleDef>)| {
        role.def.superuser && role.def.login
    };
    assert!(image.roles().any(able), "nobody is left to administer the org");
}

/// The command for an object that is there.
fn over_existing(command: Command<Sealed>) -> Command<Sealed> {
    let mut command = command;
    let on_existing = match &mut command {
        Command::CreateCatalog(c) => &mut c.on_existing,
        Command::CreateSecret(c) => &mut c.on_existing,
        Command::CreateMask(c) => &mut c.on_existing,
        Command::CreateRowFilter(c) => &mut c.on_existing,
        Command::CreateView(c) => &mut c.on_existing,
        Command::CreateRole(c) => {
            c.on_existing = OnExisting::Alter;
            return command;
        }
        _ => return command,
    };
    *on_existing = OnExisting::Replace;
    command
}

/// Whether saying it twice is saying it once.
fn is_idempotent(command: &Command<Sealed>) -> bool {
    let over = |on_existing: OnExisting| on_existing != OnExisting::Error;
    match command {
        Command::CreateCatalog(c) => over(c.on_existing),
        Command::CreateSecret(c) => over(c.on_existing),
        Command::CreateRole(c) => over(c.on_existing),
        Command::CreateMask(c) => over(c.on_existing),
        Command::CreateRowFilter(c) => over(c.on_existing),
        Command::CreateView(c) => over(c.on_existing),
        Command::GrantPrivileges(_)
        | Command::RevokePrivileges(_)
        | Command::GrantMembership(_)
        | Command::RevokeMembership(_)
        | Command::Comment(_)
        | Command::ReassignOwned(_)
        | Command::DropOwned(_) => true,
        Command::AlterCatalog(_)
        | Command::AlterSecret(_)
        | Command::AlterRole(_)
        | Command::AlterMask(_)
        | Command::AlterRowFilter(_)
        | Command::AlterView(_)
        | Command::Drop(_) => false,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    /// Grants are a set: their order leaves no trace.
    #[test]
    fn any_order_of_grants_gives_one_state(
        (script, shuffled) in prop::collection::vec(prop_oneof![grant(), membership()], 1..16)
            .prop_flat_map(|script| (Just(script.clone()), Just(script).prop_shuffle()))
    ) {
        let (mut one, mut other) = (furnished(), furnished());
        for (a, b) in script.iter().zip(&shuffled) {
            prop_assert!(one.run(a).is_ok(), "{}", a);
            prop_assert!(other.run(b).is_ok(), "{}", b);
        }
        prop_assert_eq!(rows(&one.image, false), rows(&other.image, false));
        // And a script that has run has nothing left to do, whatever its order.
        for sql in &shuffled {
            prop_assert_eq!(one.run(sql).unwrap().mutations, vec![], "{}", sql);
        }
    }

    /// Whatever is said, names lead somewhere, roles form no ring, and somebody can administer the org.
    #[test]
    fn every_state_is_sound(script in prop::collection::vec(statement(), 1..24)) {
        let mut world = furnished();
        for sql in &script {
            let before = rows(&world.image, true);
            let command = command(sql);
            match world.execute(&command) {
                Ok(plan) => {
                    let mut keys = BTreeSet::new();
                    for mutation in &plan.mutations {
                        let key: RowKey = match mutation {
                            Mutation::Put(row) => Row::key(row),
                            Mutation::Delete(key) => key.clone(),
                        };
                        prop_assert!(keys.insert(key), "a row twice in {}", sql);
                    }
                    prop_assert_eq!(plan.mutations.is_empty(), before == rows(&world.image, true), "{}", sql);
                    assert_sound(&world.image);
                    if is_idempotent(&command) {
                        prop_assert_eq!(world.execute(&command).map(|plan| plan.mutations), Ok(vec![]), "again: {}", sql);
                    }
                }
                Err(state) => {
                    prop_assert!(state != SqlState::InternalError, "{}", sql);
                    prop_assert_eq!(&before, &rows(&world.image, true));
                }
            }
        }
        // History from empty is the state.
        let mut again = empty();
        world.history.iter().for_each(|mutation| again.apply(mutation));
        prop_assert_eq!(rows(&again, true), rows(&world.image, true));
    }

    /// What SHOW CREATE prints reads back as the same command, and says nothing new of the object.
    #[test]
    fn recreating_changes_nothing(script in prop::collection::vec(statement(), 1..16)) {
        let mut world = furnished();
        for sql in &script {
            let _ = world.run(sql);
        }
        for (object, _) in headers(&world.image) {
            let made = recreate(&world.image, &object).unwrap();
            let text = print(&made);
            prop_assert_eq!(&command(&text), &made, "{}", text);
            let again = world.plan(&over_existing(made));
            prop_assert_eq!(again.map(|plan| plan.mutations), Ok(vec![]), "{}", text);
            for grant in recreate_grants(&world.image, &object) {
                let text = print(&grant);
                prop_assert_eq!(&command(&text), &grant, "{}", text);
            }
        }
    }
}
