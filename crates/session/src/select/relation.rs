//! The relations of the small SELECT: a few of `pg_catalog` and `information_schema`, made of what the
//! caller may see.

use dataglot_model::def::Header;
use dataglot_model::{DEFAULT_CATALOG, DEFAULT_SCHEMA, ObjectRef, SqlState, Timestamp};
use dataglot_planner::may_see;

use super::Host;
use super::function::FIRST_OID;
use crate::error::SessionError;
use crate::value::{Type, Value};

/// A relation: its columns, and rows as long as those.
pub(super) struct Relation {
    pub(super) columns: Vec<(&'static str, Type)>,
    pub(super) rows: Vec<Vec<Value>>,
}

/// OIDs that PostgreSQL gives its own.
const SCHEMA_PG_CATALOG: i64 = 11;
const SCHEMA_PUBLIC: i64 = 2200;
const SCHEMA_INFORMATION: i64 = 13_000;
/// Schemas of the default catalog besides `public`, in order of their names.
const FIRST_SCHEMA_OID: i64 = 14_000;
const OWNER_OID: i64 = 10;

/// The relation `[schema.]name`.
///
/// # Errors
/// 0A000: there is none such here; HINT says what is.
pub(super) fn open(host: &dyn Host, schema: Option<&str>, name: &str) -> Result<Relation, SessionError> {
    let relation = match (schema.unwrap_or("pg_catalog"), name) {
        ("pg_catalog", "pg_namespace") => namespaces(host),
        ("pg_catalog", "pg_database") => databases(host),
        ("pg_catalog", "pg_type") => types(),
        ("pg_catalog", "pg_roles" | "pg_user") => roles(host, name == "pg_user"),
        ("pg_catalog", "pg_settings") => settings(host),
        ("pg_catalog", "pg_class") => classes(host),
        ("pg_catalog", "pg_views") => views(host),
        ("pg_catalog", "pg_tables") => empty(&["schemaname", "tablename", "tableowner", "tablespace"]),
        ("pg_catalog", "pg_extension") => empty(&["oid", "extname", "extowner", "extnamespace", "extversion"]),
        ("pg_catalog", "pg_description") => empty(&["objoid", "classoid", "objsubid", "description"]),
        ("pg_catalog", "pg_shdescription") => empty(&["objoid", "classoid", "description"]),
        ("pg_catalog", "pg_tablespace") => empty(&["oid", "spcname", "spcowner", "spcacl", "spcoptions"]),
        ("information_schema", "schemata") => schemata(host),
        ("information_schema", "tables") => tables(host),
        ("information_schema", "views") => information_views(host),
        _ => {
            let full = schema.map_or_else(|| name.to_owned(), |s| format!("{s}.{name}"));
            return Err(SessionError::new(
                SqlState::FeatureNotSupported,
                format!("relation \"{full}\" cannot be queried here"),
            )
            .with_hint(
                "This is the control plane: use SHOW CATALOGS, SHOW VIEWS, SHOW ROLES, SHOW GRANTS or DESCRIBE to read it.",
            ));
        }
    };
    Ok(relation)
}

fn empty(columns: &[&'static str]) -> Relation {
    Relation { columns: columns.iter().map(|c| (*c, Type::Text)).collect(), rows: Vec::new() }
}

fn int(n: i64) -> Value {
    Value::Int(n)
}

fn oid_of(header: &Header) -> i64 {
    FIRST_OID + i64::try_from(header.id.0).unwrap_or(0)
}

/// Schemas of the default catalog: those that hold a view which the caller may see.
fn schemas(host: &dyn Host) -> Vec<(i64, String)> {
    let mut names: Vec<String> = visible_views(host).into_iter().map(|v| v.schema).collect();
    names.sort();
    names.dedup();
    names.retain(|n| n != DEFAULT_SCHEMA);
    std::iter::once((SCHEMA_PUBLIC, DEFAULT_SCHEMA.to_owned())).chain((FIRST_SCHEMA_OID..).zip(names)).collect()
}

struct VisibleView {
    oid: i64,
    schema: String,
    name: String,
    owner: Option<String>,
    query: String,
}

fn visible_views(host: &dyn Host) -> Vec<VisibleView> {
    let image = host.image();
    image
        .views()
        .filter(|(name, _)| may_see(image, host.actor(), &ObjectRef::View((*name).clone())))
        .filter_map(|(name, object)| {
            let [catalog, schema, view] = name.parts();
            (catalog == DEFAULT_CATALOG).then(|| VisibleView {
                oid: oid_of(object.header),
                schema: schema.to_owned(),
                name: view.to_owned(),
                owner: object.header.owner.as_ref().map(|o| o.as_str().to_owned()),
                query: object.def.query.to_string(),
            })
        })
        .collect()
}

fn namespaces(host: &dyn Host) -> Relation {
    let row = |(oid, name): (i64, String)| vec![int(oid), Value::Text(name), int(OWNER_OID), Value::Null];
    let fixed = [(SCHEMA_PG_CATALOG, "pg_catalog".to_owned()), (SCHEMA_INFORMATION, "information_schema".to_owned())];
    Relation {
        columns: vec![
            ("oid", Type::Oid),
            ("nspname", Type::Name),
            ("nspowner", Type::Oid),
            ("nspacl", Type::TextArray),
        ],
        rows: fixed.into_iter().chain(schemas(host)).map(row).collect(),
    }
}

/// The org of the session. Nobody sees here that there are others.
fn databases(host: &dyn Host) -> Relation {
    Relation {
        columns: vec![
            ("oid", Type::Oid),
            ("datname", Type::Name),
            ("datdba", Type::Oid),
            ("encoding", Type::Int4),
            ("datcollate", Type::Text),
            ("datctype", Type::Text),
            ("datistemplate", Type::Bool),
            ("datallowconn", Type::Bool),
            ("datconnlimit", Type::Int4),
            ("dattablespace", Type::Oid),
            ("datacl", Type::TextArray),
        ],
        rows: vec![vec![
            int(FIRST_OID),
            Value::from(host.org().as_str()),
            int(OWNER_OID),
            int(6),
            Value::from("C"),
            Value::from("C"),
            Value::Bool(false),
            Value::Bool(true),
            int(-1),
            int(1663),
            Value::Null,
        ]],
    }
}

/// The types of results, with PostgreSQL's OIDs: name, type of its array, category.
const TYPES: &[(Type, &str, i64, &str)] = &[
    (Type::Bool, "bool", 1000, "B"),
    (Type::Name, "name", 1003, "S"),
    (Type::Int8, "int8", 1016, "N"),
    (Type::Int4, "int4", 1007, "N"),
    (Type::Text, "text", 1009, "S"),
    (Type::Oid, "oid", 1028, "N"),
    (Type::Json, "json", 199, "U"),
    (Type::TextArray, "_text", 0, "A"),
    (Type::Time, "timestamptz", 1185, "D"),
    (Type::Void, "void", 0, "P"),
];

/// As `format_type` prints it.
pub(super) const fn type_name(of: Type) -> &'static str {
    match of {
        Type::Bool => "boolean",
        Type::Int4 => "integer",
        Type::Int8 => "bigint",
        Type::Text => "text",
        Type::Name => "name",
        Type::Oid => "oid",
        Type::Json => "json",
        Type::Time => "timestamp with time zone",
        Type::TextArray => "text[]",
        Type::Void => "void",
    }
}

fn types() -> Relation {
    let row = |(of, name, array, category): &(Type, &str, i64, &str)| {
        let kind = if *of == Type::Void { "p" } else { "b" };
        vec![
            int(i64::from(of.oid())),
            Value::from(*name),
            int(SCHEMA_PG_CATALOG),
            int(OWNER_OID),
            int(i64::from(of.len())),
            Value::Bool(of.len() > 0 && *of != Type::Name),
            Value::from(kind),
            Value::from(*category),
            int(0),
            int(if *of == Type::TextArray { i64::from(Type::Text.oid()) } else { 0 }),
            int(*array),
            int(0),
            Value::Bool(false),
            int(-1),
            Value::from(","),
        ]
    };
    Relation {
        columns: vec![
            ("oid", Type::Oid),
            ("typname", Type::Name),
            ("typnamespace", Type::Oid),
            ("typowner", Type::Oid),
            ("typlen", Type::Int4),
            ("typbyval", Type::Bool),
            ("typtype", Type::Text),
            ("typcategory", Type::Text),
            ("typrelid", Type::Oid),
            ("typelem", Type::Oid),
            ("typarray", Type::Oid),
            ("typbasetype", Type::Oid),
            ("typnotnull", Type::Bool),
            ("typtypmod", Type::Int4),
            ("typdelim", Type::Text),
        ],
        rows: TYPES.iter().map(row).collect(),
    }
}

fn roles(host: &dyn Host, users: bool) -> Relation {
    let image = host.image();
    let columns = if users {
        vec![
            ("usename", Type::Name),
            ("usesysid", Type::Oid),
            ("usecreatedb", Type::Bool),
            ("usesuper", Type::Bool),
            ("userepl", Type::Bool),
            ("usebypassrls", Type::Bool),
            ("passwd", Type::Text),
            ("valuntil", Type::Time),
            ("useconfig", Type::TextArray),
        ]
    } else {
        vec![
            ("rolname", Type::Name),
            ("rolsuper", Type::Bool),
            ("rolinherit", Type::Bool),
            ("rolcreaterole", Type::Bool),
            ("rolcreatedb", Type::Bool),
            ("rolcanlogin", Type::Bool),
            ("rolreplication", Type::Bool),
            ("rolconnlimit", Type::Int4),
            ("rolpassword", Type::Text),
            ("rolvaliduntil", Type::Time),
            ("rolbypassrls", Type::Bool),
            ("rolconfig", Type::TextArray),
            ("oid", Type::Oid),
        ]
    };
    let hidden = || Value::from("********");
    let until = |at: Option<Timestamp>| at.map_or(Value::Null, Value::Time);
    let rows = image
        .roles()
        .filter(|(_, role)| !users || role.def.login)
        .filter(|(name, _)| may_see(image, host.actor(), &ObjectRef::Role((*name).clone())))
        .map(|(name, role)| {
            let def = role.def;
            let oid = int(oid_of(role.header));
            let config = def.settings.as_ref().map_or(Value::Null, |settings| {
                Value::List(settings.iter().map(|(k, v)| format!("{k}={v}")).collect())
            });
            if users {
                vec![
                    Value::from(name.as_str()),
                    oid,
                    Value::Bool(false),
                    Value::Bool(def.superuser),
                    Value::Bool(false),
                    Value::Bool(def.bypassrls),
                    hidden(),
                    until(def.valid_until),
                    config,
                ]
            } else {
                vec![
                    Value::from(name.as_str()),
                    Value::Bool(def.superuser),
                    Value::Bool(def.inherit),
                    Value::Bool(def.createrole),
                    Value::Bool(false),
                    Value::Bool(def.login),
                    Value::Bool(false),
                    int(i64::from(def.connection_limit)),
                    hidden(),
                    until(def.valid_until),
                    Value::Bool(def.bypassrls),
                    config,
                    oid,
                ]
            }
        })
        .collect();
    Relation { columns, rows }
}

fn settings(host: &dyn Host) -> Relation {
    let row = |(name, value, about): (String, String, String)| {
        vec![Value::Text(name), Value::Text(value), Value::Null, Value::Text(about), Value::from("user")]
    };
    Relation {
        columns: vec![
            ("name", Type::Text),
            ("setting", Type::Text),
            ("unit", Type::Text),
            ("short_desc", Type::Text),
            ("context", Type::Text),
        ],
        rows: host.settings().into_iter().map(row).collect(),
    }
}

fn classes(host: &dyn Host) -> Relation {
    let schemas = schemas(host);
    let row = |view: VisibleView| {
        let schema = schemas.iter().find(|(_, name)| *name == view.schema).map_or(SCHEMA_PUBLIC, |(oid, _)| *oid);
        vec![int(view.oid), Value::Text(view.name), int(schema), int(OWNER_OID), Value::from("v")]
    };
    Relation {
        columns: vec![
            ("oid", Type::Oid),
            ("relname", Type::Name),
            ("relnamespace", Type::Oid),
            ("relowner", Type::Oid),
            ("relkind", Type::Text),
        ],
        rows: visible_views(host).into_iter().map(row).collect(),
    }
}

fn views(host: &dyn Host) -> Relation {
    let row = |view: VisibleView| {
        vec![Value::Text(view.schema), Value::Text(view.name), Value::text_or_null(view.owner), Value::Text(view.query)]
    };
    Relation {
        columns: vec![
            ("schemaname", Type::Name),
            ("viewname", Type::Name),
            ("viewowner", Type::Name),
            ("definition", Type::Text),
        ],
        rows: visible_views(host).into_iter().map(row).collect(),
    }
}

fn schemata(host: &dyn Host) -> Relation {
    let row = |(_, name): (i64, String)| vec![Value::from(host.org().as_str()), Value::Text(name), Value::Null];
    let fixed = [(0, "pg_catalog".to_owned()), (0, "information_schema".to_owned())];
    Relation {
        columns: vec![("catalog_name", Type::Name), ("schema_name", Type::Name), ("schema_owner", Type::Name)],
        rows: fixed.into_iter().chain(schemas(host)).map(row).collect(),
    }
}

fn tables(host: &dyn Host) -> Relation {
    let row = |view: VisibleView| {
        vec![Value::from(host.org().as_str()), Value::Text(view.schema), Value::Text(view.name), Value::from("VIEW")]
    };
    Relation {
        columns: vec![
            ("table_catalog", Type::Name),
            ("table_schema", Type::Name),
            ("table_name", Type::Name),
            ("table_type", Type::Text),
        ],
        rows: visible_views(host).into_iter().map(row).collect(),
    }
}

fn information_views(host: &dyn Host) -> Relation {
    let row = |view: VisibleView| {
        vec![
            Value::from(host.org().as_str()),
            Value::Text(view.schema),
            Value::Text(view.name),
            Value::Text(view.query),
        ]
    };
    Relation {
        columns: vec![
            ("table_catalog", Type::Name),
            ("table_schema", Type::Name),
            ("table_name", Type::Name),
            ("view_definition", Type::Text),
        ],
        rows: visible_views(host).into_iter().map(row).collect(),
    }
}
