//! The functions that drivers and tools call at start.

use dataglot_model::{At, ObjectRef, SqlState, quote_ident};
use dataglot_planner::may_see;

use super::Host;
use crate::error::SessionError;
use crate::settings::{parse_bool, unrecognized_text, version_text};
use crate::value::{Type, Value};

/// OIDs of our own objects start here, as PostgreSQL's do; what is added is the object's id.
pub(super) const FIRST_OID: i64 = 16_384;

/// The functions: name, least and most arguments, type of the answer.
const FUNCTIONS: &[(&str, usize, usize, Type)] = &[
    ("version", 0, 0, Type::Text),
    ("current_database", 0, 0, Type::Name),
    ("current_catalog", 0, 0, Type::Name),
    ("current_schema", 0, 0, Type::Name),
    ("current_schemas", 1, 1, Type::TextArray),
    ("current_user", 0, 0, Type::Name),
    ("current_role", 0, 0, Type::Name),
    ("user", 0, 0, Type::Name),
    ("session_user", 0, 0, Type::Name),
    ("pg_backend_pid", 0, 0, Type::Int4),
    ("current_setting", 1, 2, Type::Text),
    ("set_config", 3, 3, Type::Text),
    ("pg_is_in_recovery", 0, 0, Type::Bool),
    ("pg_is_wal_replay_paused", 0, 0, Type::Bool),
    ("now", 0, 0, Type::Time),
    ("current_timestamp", 0, 0, Type::Time),
    ("transaction_timestamp", 0, 0, Type::Time),
    ("statement_timestamp", 0, 0, Type::Time),
    ("obj_description", 1, 2, Type::Text),
    ("col_description", 2, 2, Type::Text),
    ("shobj_description", 2, 2, Type::Text),
    ("pg_get_userbyid", 1, 1, Type::Name),
    ("pg_encoding_to_char", 1, 1, Type::Name),
    ("pg_client_encoding", 0, 0, Type::Name),
    ("pg_table_is_visible", 1, 1, Type::Bool),
    ("pg_type_is_visible", 1, 1, Type::Bool),
    ("format_type", 2, 2, Type::Text),
    ("quote_ident", 1, 1, Type::Text),
    ("lower", 1, 1, Type::Text),
    ("upper", 1, 1, Type::Text),
    ("coalesce", 1, usize::MAX, Type::Text),
    ("nullif", 2, 2, Type::Text),
    ("inet_server_addr", 0, 0, Type::Text),
    ("inet_client_addr", 0, 0, Type::Text),
    ("inet_server_port", 0, 0, Type::Int4),
    ("pg_listening_channels", 0, 0, Type::Text),
];

fn undefined(name: &At<String>) -> SessionError {
    SessionError::new(SqlState::UndefinedFunction, format!("function {}() does not exist", name.value))
        .with_hint("This server has the few functions that drivers need; use SHOW for what is in it.")
        .at(name.span)
}

/// The type that the function answers.
///
/// # Errors
/// 42883: there is no such function of that number of arguments.
pub(super) fn type_of(name: &At<String>, count: usize) -> Result<Type, SessionError> {
    FUNCTIONS
        .iter()
        .find(|(n, least, most, _)| *n == name.value && (*least..=*most).contains(&count))
        .map(|(.., of)| *of)
        .ok_or_else(|| undefined(name))
}

/// The value that it answers.
pub(super) fn call(host: &mut dyn Host, name: &At<String>, args: &[Value]) -> Result<Value, SessionError> {
    type_of(name, args.len())?;
    let text = |at: usize| args.get(at).and_then(Value::to_text);
    Ok(match name.value.as_str() {
        "version" => Value::Text(version_text()),
        "current_database" | "current_catalog" => Value::from(host.org().as_str()),
        "current_schema" => Value::text_or_null(Some(current_schema(host)).filter(|s| !s.is_empty())),
        "current_schemas" => {
            let mut schemas = vec![current_schema(host)];
            schemas.retain(|s| !s.is_empty());
            if text(0).and_then(|t| parse_bool(&t)) == Some(true) {
                schemas.insert(0, "pg_catalog".to_owned());
            }
            Value::List(schemas)
        }
        "current_user" | "current_role" | "user" => Value::from(host.actor().current_user.as_str()),
        "session_user" => Value::from(host.actor().session_user.as_str()),
        "pg_backend_pid" => Value::Int(i64::from(host.pid())),
        "current_setting" => match text(0) {
            None => Value::Null,
            Some(setting) => match host.setting(&setting) {
                Some(value) => Value::Text(value),
                None if text(1).and_then(|t| parse_bool(&t)) == Some(true) => Value::Null,
                None => return Err(unrecognized_text()),
            },
        },
        "set_config" => match (text(0), text(1), text(2).and_then(|t| parse_bool(&t))) {
            (Some(setting), Some(value), Some(local)) => Value::Text(host.set_config(&setting, &value, local)?),
            _ => {
                return Err(
                    SessionError::new(SqlState::InvalidParameterValue, "set_config takes no NULL").at(name.span)
                );
            }
        },
        "pg_is_in_recovery" | "pg_is_wal_replay_paused" => Value::Bool(false),
        "now" | "current_timestamp" | "transaction_timestamp" | "statement_timestamp" => Value::Time(host.now()),
        "pg_get_userbyid" => Value::Text(role_of_oid(host, args.first())),
        "pg_encoding_to_char" | "pg_client_encoding" => Value::from("UTF8"),
        "pg_table_is_visible" | "pg_type_is_visible" => Value::Bool(true),
        "format_type" => match args.first() {
            Some(Value::Int(oid)) => {
                Value::from(u32::try_from(*oid).ok().and_then(Type::of_oid).map_or("???", super::relation::type_name))
            }
            _ => Value::Null,
        },
        "pg_listening_channels" => match host.is_listening() {
            true => Value::from(crate::notify::CHANNEL),
            false => Value::Null,
        },
        "quote_ident" => Value::text_or_null(text(0).map(|t| quote_ident(&t))),
        "lower" => Value::text_or_null(text(0).map(|t| t.to_lowercase())),
        "upper" => Value::text_or_null(text(0).map(|t| t.to_uppercase())),
        "coalesce" => args.iter().find(|v| **v != Value::Null).cloned().unwrap_or(Value::Null),
        "nullif" => match args {
            [a, b] if a == b => Value::Null,
            [a, ..] => a.clone(),
            [] => Value::Null,
        },
        // Descriptions of objects of PostgreSQL's, addresses of sockets: nothing that is known here.
        _ => Value::Null,
    })
}

fn current_schema(host: &dyn Host) -> String {
    let path = host.setting("search_path").unwrap_or_default();
    path.split(',').next().unwrap_or_default().trim().trim_matches('"').to_owned()
}

/// The role whose id an OID stands for.
fn role_of_oid(host: &dyn Host, oid: Option<&Value>) -> String {
    let Some(Value::Int(oid)) = oid else { return String::new() };
    let id = u64::try_from(oid - FIRST_OID).ok().map(dataglot_model::def::ObjectId);
    id.and_then(|id| host.image().role_by_id(id))
        .filter(|name| may_see(host.image(), host.actor(), &ObjectRef::Role(name.clone())))
        .map_or_else(|| format!("unknown (OID={oid})"), |name| name.as_str().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `crate::access` takes every SELECT for one that decides nothing.
    #[test]
    fn h07_no_function_answers_what_somebody_may_do() {
        for (name, ..) in FUNCTIONS {
            assert!(!name.starts_with("has_") && *name != "pg_has_role" && !name.starts_with("row_security"), "{name}");
        }
    }
}
