//! `dataglot resolve-catalogs`: the catalogs of an org as executors are given them. Credentials are references;
//! values come out only where they are asked for, and then into a file that nobody else can read.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use dataglot_model::{Name, OrgName, Sensitive, Seq};
use dataglot_session::resolve::{CatalogOption, ResolveError, ResolvedCatalog, Resolver, SecretRef};
use dataglot_vault::KeyRing;
use serde_json::{Value, json};

use crate::arguments::ResolveCatalogsArguments;
use crate::failure::{Exit, Failure};
use crate::store::{self, Opening};
use crate::{key, logging, output};

/// As what PostgreSQL lists the sessions.
const NODE: &str = "resolve-catalogs";
/// The form of the document. It changes where a reader of the old one would go wrong.
const FORMAT: u32 = 1;
/// `--out`: standard output.
const STDOUT: &str = "-";

/// The values of secrets, as far as they could be had.
type Values = BTreeMap<Name, Result<Sensitive, ResolveError>>;

pub(crate) fn run(arguments: &ResolveCatalogsArguments) -> Result<(), Failure> {
    let ResolveCatalogsArguments { store: sealed, org, resolve, out, yes_print_secrets } = arguments;
    logging::start_warnings()?;
    let out = out.as_deref().filter(|out| *out != STDOUT || *resolve);
    check(*resolve, out, *yes_print_secrets)?;
    let org = OrgName::new(org).map_err(|_| Failure::new(Exit::Usage, "--org is not the name of a database", None))?;
    let config = store::config_of(sealed)?;
    let location = config.store()?;
    // Without --resolve no key is looked at.
    let ring = if *resolve { key::ring(&config)? } else { KeyRing::none() };
    store::refuse_pending(location)?;
    let store = store::open(location, &Opening::read(NODE))?;
    let resolver = Resolver::new(store.as_ref(), ring);
    if *resolve {
        // With another key no value is had, and what an earlier run wrote is better than that.
        resolver.check_key()?;
    }
    let (seq, catalogs) = resolver.catalogs_at(&org)?;
    let values = if *resolve { Some(values(&resolver, &catalogs)) } else { None };
    let document = document(&org, seq, &catalogs, values.as_ref());
    match out {
        None | Some(STDOUT) => output::document(document.open().trim_end())?,
        Some(path) => write_privately(Path::new(path), document.open().as_bytes())
            .map_err(|e| Failure::io(Exit::Internal, format_args!("\"{path}\" cannot be written"), &e))?,
    }
    drop(document);
    complete(values.unwrap_or_default())
}

/// Values go where they were sent, on purpose.
fn check(resolve: bool, out: Option<&str>, yes_print_secrets: bool) -> Result<(), Failure> {
    let usage = |message: &str, help: &str| Err(Failure::new(Exit::Usage, message, Some(help.to_owned())));
    match (resolve, out) {
        (true, None) => usage("--resolve writes the values of secrets, and needs a place for them", "Say --out FILE."),
        (true, Some(STDOUT)) if !yes_print_secrets => usage(
            "--resolve --out - prints the values of secrets",
            "Say --out FILE, or --yes-print-secrets to go on with it.",
        ),
        (true | false, None | Some(_)) => Ok(()),
    }
}

/// Each secret that the catalogs refer to, once.
fn values(resolver: &Resolver<'_>, catalogs: &[ResolvedCatalog]) -> Values {
    let mut values = Values::new();
    for secret in catalogs.iter().flat_map(ResolvedCatalog::secrets) {
        if !values.contains_key(&secret.name) {
            // The number that the document tells, and not a newer one.
            values.insert(secret.name.clone(), resolver.resolve_version(secret, secret.version));
        }
    }
    values
}

/// The document: a line a catalog, keys sorted. It may hold values, so it is a [`Sensitive`] itself.
fn document(org: &OrgName, seq: Seq, catalogs: &[ResolvedCatalog], values: Option<&Values>) -> Sensitive {
    let lines: Vec<Sensitive> = catalogs.iter().map(|catalog| catalog_text(catalog, values)).collect();
    // Made at its full length: what outgrows its place leaves a copy behind.
    let length = lines.iter().map(|line| line.open().len() + 8).sum::<usize>() + 256;
    let mut text = String::with_capacity(length);
    text.push_str("{\n  \"catalogs\": [");
    for (at, line) in lines.iter().enumerate() {
        text.push_str(if at == 0 { "\n    " } else { ",\n    " });
        text.push_str(line.open());
    }
    text.push_str(if lines.is_empty() { "],\n" } else { "\n  ],\n" });
    text.push_str(&format!("  \"format\": {FORMAT},\n  \"org\": {},\n  \"version\": {seq}\n}}\n", json!(org.as_str())));
    Sensitive::new(text)
}

fn catalog_text(catalog: &ResolvedCatalog, values: Option<&Values>) -> Sensitive {
    let options: Vec<(String, Sensitive)> = catalog
        .options
        .iter()
        .map(|(key, option)| {
            let text = match (option, values) {
                (CatalogOption::Secret(secret), Some(values)) => secret_text(secret, values),
                (option, _) => Sensitive::new(option.to_json().to_string()),
            };
            (json!(key).to_string(), text)
        })
        .collect();
    let mut json = catalog.to_json();
    let mut text =
        String::with_capacity(options.iter().map(|(k, v)| k.len() + v.open().len() + 2).sum::<usize>() + 1024);
    text.push('{');
    let fields = json.as_object_mut().map(std::mem::take).unwrap_or_default();
    let mut fields: Vec<(String, Value)> = fields.into_iter().collect();
    fields.sort_by(|(a, _), (b, _)| a.cmp(b));
    for (at, (name, value)) in fields.into_iter().enumerate() {
        text.push_str(if at == 0 { "" } else { "," });
        text.push_str(&format!("\"{name}\":"));
        if name != "options" {
            text.push_str(&value.to_string());
            continue;
        }
        text.push('{');
        for (at, (key, option)) in options.iter().enumerate() {
            text.push_str(if at == 0 { "" } else { "," });
            text.push_str(key);
            text.push(':');
            text.push_str(option.open());
        }
        text.push('}');
    }
    text.push('}');
    Sensitive::new(text)
}

/// A secret with its value, or with what is the matter with it.
fn secret_text(secret: &SecretRef, values: &Values) -> Sensitive {
    let SecretRef { org: _, name, version, as_file } = secret;
    let missing = ResolveError::NoSecret { secret: name.clone() };
    let (value, error) = match values.get(name) {
        Some(Ok(value)) => (Some(json_string(value)), None),
        Some(Err(error)) => (None, Some(error)),
        None => (None, Some(&missing)),
    };
    let mut text = String::with_capacity(value.as_ref().map_or(0, |v| v.open().len()) + 1024);
    text.push_str(&format!("{{\"secret\":{{\"as_file\":{as_file}"));
    if let Some(error) = error {
        text.push_str(&format!(",\"error\":{}", json!(error.to_string())));
    }
    text.push_str(&format!(",\"name\":{}", json!(name.as_str())));
    if let Some(value) = &value {
        text.push_str(",\"value\":");
        text.push_str(value.open());
    }
    text.push_str(&format!(",\"version\":{version}}}}}"));
    Sensitive::new(text)
}

/// A text in quotes, escaped at its full length in one place.
fn json_string(value: &Sensitive) -> Sensitive {
    let mut bytes = Vec::with_capacity(value.open().len() * 6 + 2);
    // A text always has a JSON form, and a buffer takes it.
    let _ = serde_json::to_writer(&mut bytes, value.open());
    Sensitive::new(String::from_utf8(bytes).unwrap_or_default())
}

/// Puts `content` at `path`, readable by its owner alone: whole or not at all, and on disk. What a run that was killed
/// left beside it goes: it may hold values, too.
fn write_privately(path: &Path, content: &[u8]) -> io::Result<()> {
    let name = path.file_name().ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))?;
    let directory = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut beside = std::ffi::OsString::from(".");
    beside.push(name);
    beside.push(".new");
    let beside = directory.join(beside);
    match fs::remove_file(&beside) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        Ok(()) | Err(_) => {}
    }
    // A link that somebody puts there meanwhile is not followed: the file has to be a new one.
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&beside)?;
    let mut write = || {
        file.write_all(content)?;
        file.sync_all()?;
        fs::rename(&beside, path)?;
        File::open(directory)?.sync_all()
    };
    write().inspect_err(|_| {
        // Where it was renamed already there is nothing by that name.
        let _ = fs::remove_file(&beside);
    })
}

/// Whether every value was had: each that was not is told of.
fn complete(values: Values) -> Result<(), Failure> {
    let asked = values.len();
    let failed: Vec<ResolveError> = values.into_values().filter_map(Result::err).collect();
    if failed.is_empty() {
        return Ok(());
    }
    failed.iter().for_each(|error| tracing::warn!("{error}"));
    let help = "All others are in the document; these have an error in place of the value.".to_owned();
    let message = format!("{} of {asked} secrets could not be resolved", failed.len());
    Err(Failure::new(Exit::Unresolved, message, Some(help)))
}
