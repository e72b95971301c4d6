//! The service file, and the environment behind it.
//!
//! `[name]` opens a group of `keyword=value` lines; nothing is trimmed around the `=`, since a blank may
//! belong to a password. The user's file is looked into first, then the system's.

use std::path::{Path, PathBuf};

use dataglot_model::Sensitive;

use super::environment::Environment;
use super::error::{DsnError, Origin};
use super::keyword::Given;

/// The system's directory where `PGSYSCONFDIR` names none: what Debian's packages of libpq use.
const SYSTEM_DIRECTORY: &str = "/etc/postgresql-common";

/// Adds what the service gives, and then what the environment does.
pub(super) fn complete(mut given: Given, environment: &dyn Environment) -> Result<Given, DsnError> {
    let variable = |name: &'static str| match environment.variable(name).map(std::ffi::OsString::into_string) {
        None => Ok(None),
        Some(Ok(text)) => Ok(Some(Sensitive::new(text))),
        Some(Err(_)) => Err(DsnError::Unreadable {
            kind: "environment variable",
            path: name.into(),
            reason: "it is not UTF-8".to_owned(),
        }),
    };
    let service = match given.has("service") {
        true => given.get("service").map(|s| Sensitive::new(s.to_owned())),
        false => variable("PGSERVICE")?,
    };
    if let Some(service) = service.filter(|s| !s.open().is_empty()) {
        let named = match given.get("servicefile") {
            Some(file) => Some(PathBuf::from(file)),
            None => environment.variable("PGSERVICEFILE").filter(|v| !v.is_empty()).map(PathBuf::from),
        };
        given.complete(look_up(service.open(), named, environment)?);
    }
    given.complete_from(variable)?;
    Ok(given)
}

fn look_up(service: &str, named: Option<PathBuf>, environment: &dyn Environment) -> Result<Given, DsnError> {
    let own = match named {
        Some(named) => Some(named),
        None => environment.home().map(|home| home.join(".pg_service.conf")).filter(|file| file.exists()),
    };
    let directory = environment.variable("PGSYSCONFDIR").unwrap_or_else(|| SYSTEM_DIRECTORY.into());
    let system = Some(Path::new(&directory).join("pg_service.conf")).filter(|file| file.exists());
    let files: Vec<_> = own.into_iter().chain(system).collect();
    for file in &files {
        if let Some(found) = read(service, file)? {
            return Ok(found);
        }
    }
    Err(DsnError::NoService { files })
}

/// The group of that name. Only its lines have to be right.
fn read(service: &str, path: &Path) -> Result<Option<Given>, DsnError> {
    let text = std::fs::read_to_string(path).map_err(|error| DsnError::Unreadable {
        kind: "service file",
        path: path.to_owned(),
        reason: error.kind().to_string(),
    })?;
    let text = Sensitive::new(text);
    let mut group: Option<Given> = None;
    let mut after = None;
    for (number, line) in text.open().lines().enumerate() {
        let line = line.trim_ascii();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let here = line.strip_prefix('[').map(|name| name.strip_suffix(']') == Some(service));
        match (here, &mut group) {
            (Some(true), None) => group = Some(Given::default()),
            (Some(_), Some(_)) => break,
            (Some(false), None) | (None, None) => {}
            (None, Some(group)) => {
                let origin = Origin::Service { path: path.to_owned(), line: number + 1 };
                let Some((name, value)) = line.split_once('=') else {
                    return Err(DsnError::ServiceLine { path: path.to_owned(), line: number + 1 });
                };
                if name == "service" || name == "servicefile" {
                    let hint = "Write the settings of the other service here.";
                    let keyword = if name == "service" { "service" } else { "servicefile" };
                    return Err(DsnError::Unsupported { keyword, value: false, hint, origin });
                }
                // As in libpq the first line of a keyword holds.
                let mut setting = Given::default();
                after = Some(setting.set(name, Sensitive::new(value.to_owned()), origin, after)?);
                group.complete(setting);
            }
        }
    }
    Ok(group)
}
