//! Rules about the repository itself, kept as tests.

#![allow(clippy::expect_used, reason = "a test's own helpers")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn metadata() -> serde_json::Value {
    let out = Command::new(env!("CARGO"))
        .args(["metadata", "--locked", "--format-version=1"])
        .current_dir(root())
        .output()
        .expect("cargo runs");
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    serde_json::from_slice(&out.stdout).expect("cargo metadata is JSON")
}

/// Whether an SPDX expression can be satisfied with what is allowed: one branch of OR, all of AND.
fn satisfied(expression: &str, allowed: &BTreeSet<String>) -> bool {
    let spaced = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let mut words = spaced.split_whitespace().peekable();
    any(&mut words, allowed)
}

type Words<'a> = std::iter::Peekable<std::str::SplitWhitespace<'a>>;

fn any(words: &mut Words<'_>, allowed: &BTreeSet<String>) -> bool {
    let mut ok = all(words, allowed);
    while words.next_if_eq(&"OR").is_some() {
        ok |= all(words, allowed);
    }
    ok
}

fn all(words: &mut Words<'_>, allowed: &BTreeSet<String>) -> bool {
    let mut ok = one(words, allowed);
    while words.next_if_eq(&"AND").is_some() {
        ok &= one(words, allowed);
    }
    ok
}

fn one(words: &mut Words<'_>, allowed: &BTreeSet<String>) -> bool {
    let word = words.next().unwrap_or_default();
    if word == "(" {
        let ok = any(words, allowed);
        words.next();
        return ok;
    }
    if words.next_if_eq(&"WITH").is_some() {
        let exception = words.next().unwrap_or_default();
        return allowed.contains(&format!("{word} WITH {exception}"));
    }
    allowed.contains(word)
}

/// Every crate that we build with has a licence that deny.toml allows.
#[test]
fn licences_are_allowed() {
    let deny: toml::Table = std::fs::read_to_string(root().join("deny.toml")).unwrap().parse().unwrap();
    let licences = deny["licenses"].as_table().unwrap();
    let list = |value: &toml::Value| -> BTreeSet<String> {
        value.as_array().unwrap().iter().map(|v| v.as_str().unwrap().to_owned()).collect()
    };
    let allowed = list(&licences["allow"]);
    let exceptions: BTreeMap<&str, BTreeSet<String>> = licences["exceptions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|e| (e["crate"].as_str().unwrap(), list(&e["allow"])))
        .collect();
    let metadata = metadata();
    let refused: Vec<String> = metadata["packages"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|p| {
            let licence = p["license"].as_str().unwrap_or("none");
            let extra = exceptions.get(p["name"].as_str().unwrap());
            !satisfied(licence, &allowed) && !extra.is_some_and(|extra| satisfied(licence, extra))
        })
        .map(|p| format!("{} {}: {}", p["name"], p["version"], p["license"]))
        .collect();
    assert!(refused.is_empty(), "not allowed by deny.toml: {refused:#?}");
}

/// The crates depend on each other as ARCHITECTURE.md says, and each foreign library is known to
/// exactly the crate that may know it.
#[test]
fn arrows_go_one_way() {
    let metadata = metadata();
    let mut uses: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for package in metadata["packages"].as_array().unwrap() {
        let name = package["name"].as_str().unwrap();
        if !name.starts_with("dataglot-") {
            continue;
        }
        let normal = package["dependencies"].as_array().unwrap().iter().filter(|d| d["kind"].is_null());
        uses.insert(name.to_owned(), normal.map(|d| d["name"].as_str().unwrap().to_owned()).collect());
    }
    let users = |library: &str| -> Vec<&str> {
        uses.iter().filter(|(_, deps)| deps.contains(library)).map(|(name, _)| name.as_str()).collect()
    };
    assert_eq!(users("sqlparser"), ["dataglot-grammar"]);
    assert_eq!(users("pgwire"), ["dataglot-server"]);
    assert_eq!(users("redb"), ["dataglot-store"]);
    assert_eq!(users("chacha20poly1305"), ["dataglot-vault"]);
    assert_eq!(users("imbl"), ["dataglot-planner"]);
    for pure in ["dataglot-model", "dataglot-grammar", "dataglot-planner", "dataglot-vault"] {
        for outside in ["tokio", "redb", "pgwire", "tracing", "getrandom", "rand"] {
            assert!(!uses[pure].contains(outside), "{pure} must not use {outside}");
        }
    }
    for apart in ["dataglot-grammar", "dataglot-planner", "dataglot-store", "dataglot-vault"] {
        let ours: Vec<&String> = uses[apart].iter().filter(|d| d.starts_with("dataglot-")).collect();
        assert_eq!(ours, ["dataglot-model"], "{apart}");
    }
}

/// Each source file opens with a module comment.
#[test]
fn every_module_says_what_it_is_for() {
    let mut open = vec![root().join("crates")];
    while let Some(directory) = open.pop() {
        for entry in std::fs::read_dir(&directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                open.push(path);
            } else if path.extension().is_some_and(|e| e == "rs") {
                let text = std::fs::read_to_string(&path).unwrap();
                assert!(text.starts_with("//!"), "{} opens without saying what it is for", path.display());
            }
        }
    }
}

/// `docs/connectors.md` says what the schemas in `model::connector` say. `DATAGLOT_BLESS=1` rewrites it.
#[test]
#[allow(clippy::disallowed_methods, reason = "a test's own knob")]
fn connectors_are_documented() {
    use dataglot_model::connector::{Connector, OptionType};
    let mut text = String::from(
        "# Connectors\n\nWhat `USING` takes, and the options of each. A *credential* is `SECRET name` or `ENV 'NAME'`, never \
         a literal;\na *connection string* is text that holds no password. **Bold**: required, unless an option named \
         beside it\nis there.\n",
    );
    let listed = |words: &[&str]| words.iter().map(|w| format!("`{w}`")).collect::<Vec<_>>().join(", ");
    for connector in Connector::ALL {
        text.push_str(&format!("\n## `{connector}`\n\n| option | type |\n|---|---|\n"));
        for option in connector.options() {
            let mut kind = match option.kind {
                OptionType::Text => "text".to_owned(),
                OptionType::Dsn => "connection string".to_owned(),
                OptionType::Integer(least, most) => format!("whole number, {least} to {most}"),
                OptionType::Decimal => "number".to_owned(),
                OptionType::Boolean => "boolean".to_owned(),
                OptionType::Json => "JSON".to_owned(),
                OptionType::OneOf(words) => listed(words),
                OptionType::Credential => "credential".to_owned(),
            };
            if !option.or.is_empty() {
                kind.push_str(&format!(", or {}", listed(option.or)));
            }
            let bold = if option.required { "**" } else { "" };
            text.push_str(&format!("| {bold}`{}`{bold} | {kind} |\n", option.key));
        }
    }
    let path = root().join("docs/connectors.md");
    if std::env::var_os("DATAGLOT_BLESS").is_some() {
        std::fs::write(&path, &text).unwrap();
    }
    assert_eq!(std::fs::read_to_string(&path).unwrap(), text, "bless docs/connectors.md");
}
