//! What is written about metrics holds: the dashboard, the alerts and the documentation name those that a
//! running server shows, and no others.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "a test fails by panicking")]

mod support;

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::Path;

use dataglot_server::{HttpConfig, ServerConfig, TlsMode};
use serde_json::Value;
use support::Served;
use support::http::until;
use support::pki::Pki;

/// Prometheus makes it.
const NOT_OURS: &str = "up";

fn file(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// The names of all series that a server shows, and those of the metrics that they belong to.
fn shown() -> (BTreeSet<String>, BTreeSet<String>) {
    let http = HttpConfig { listen: SocketAddr::from(([127, 0, 0, 1], 0)), token_file: None };
    // Some are there with TLS only.
    let pki = Pki::new();
    let tls = Some(pki.config(TlsMode::Allow));
    let served = Served::with(ServerConfig { http: Some(http), tls, ..ServerConfig::default() });
    let text = until(served.http.unwrap(), "dataglot_tls_certificate_expiry_seconds{chain=\"server\"}", |_| true);
    let series = text.lines().filter(|l| !l.starts_with('#')).map(|l| l.split([' ', '{']).next().unwrap().to_owned());
    let metrics = text.lines().filter_map(|l| {
        let (name, kind) = l.strip_prefix("# TYPE ")?.split_once(' ')?;
        Some(if kind == "counter" { format!("{name}_total") } else { name.to_owned() })
    });
    (series.collect(), metrics.collect())
}

/// What looks like a name of a metric in an expression: words that are no function, label or text.
fn named(expression: &str) -> BTreeSet<String> {
    let mut bare = String::new();
    for (at, part) in expression.split('"').enumerate() {
        // Every second part is a text.
        bare.push_str(if at % 2 == 0 { part } else { " " });
    }
    let words = bare.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
    words
        .filter(|w| w.starts_with("dataglot_") || w.starts_with("process_") || *w == NOT_OURS)
        .map(str::to_owned)
        .collect()
}

#[track_caller]
fn all_shown(names: &BTreeSet<String>, place: &str) {
    let (series, _) = shown();
    let strange: Vec<_> = names.iter().filter(|n| *n != NOT_OURS && !series.contains(*n)).collect();
    assert!(strange.is_empty(), "{place} names {strange:?}, which a server does not show");
}

/// The fields of all objects under `value` with the name `key`.
fn fields<'a>(value: &'a Value, key: &str, into: &mut Vec<&'a Value>) {
    match value {
        Value::Object(map) => map.iter().for_each(|(name, value)| {
            if name == key {
                into.push(value);
            }
            fields(value, key, into);
        }),
        Value::Array(values) => values.iter().for_each(|value| fields(value, key, into)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[test]
fn the_dashboard_shows_what_there_is() {
    let dashboard: Value = serde_json::from_str(&file("examples/grafana/dashboard.json")).unwrap();
    let mut expressions = Vec::new();
    fields(&dashboard, "expr", &mut expressions);
    fields(&dashboard, "definition", &mut expressions);
    let names: BTreeSet<String> = expressions.iter().flat_map(|e| named(e.as_str().unwrap())).collect();
    assert!(names.len() > 20, "{names:?}");
    all_shown(&names, "the dashboard");
    let variables: Vec<_> =
        dashboard["templating"]["list"].as_array().unwrap().iter().map(|v| v["name"].as_str().unwrap()).collect();
    assert_eq!(variables, ["datasource", "instance"]);
    for panel in dashboard["panels"].as_array().unwrap() {
        let title = panel["title"].as_str().unwrap();
        assert!(panel["type"] == "row" || panel["datasource"]["uid"] == "${datasource}", "{title}");
        for target in panel["targets"].as_array().into_iter().flatten() {
            let expression = target["expr"].as_str().unwrap();
            assert!(expression.contains("instance=~\"$instance\""), "{title}: {expression}");
        }
    }
    let mut ids = Vec::new();
    fields(&dashboard["panels"], "id", &mut ids);
    let count = ids.len();
    ids.sort_by_key(|id| id.as_u64());
    ids.dedup();
    assert_eq!(ids.len(), count, "panels have numbers of their own");
}

/// The alerts of the rules, each as its name and its lines.
fn alerts(rules: &str) -> Vec<(String, Vec<String>)> {
    let mut alerts: Vec<(String, Vec<String>)> = Vec::new();
    for line in rules.lines().map(str::trim) {
        match line.strip_prefix("- alert: ") {
            Some(name) => alerts.push((name.to_owned(), Vec::new())),
            None => alerts.iter_mut().last().into_iter().for_each(|(_, lines)| lines.push(line.to_owned())),
        }
    }
    alerts
}

#[test]
fn the_alerts_name_what_there_is_and_where_it_is_explained() {
    let rules = file("examples/prometheus/alerts.yml");
    let runbook = file("docs/operations.md");
    let alerts = alerts(&rules);
    let mut names = BTreeSet::new();
    for (alert, lines) in &alerts {
        let starting = |key: &str| lines.iter().filter(|l| l.starts_with(key)).count();
        for key in ["expr: ", "severity: ", "summary: "] {
            assert_eq!(starting(key), 1, "{alert}: {key}");
        }
        let until_labels: Vec<_> = lines.iter().take_while(|l| *l != "labels:").cloned().collect();
        let used = named(&until_labels.join(" "));
        assert!(!used.is_empty(), "{alert}");
        names.extend(used);
        let section = format!("runbook: docs/operations.md#{}", alert.to_ascii_lowercase());
        assert_eq!(lines.iter().filter(|l| **l == section).count(), 1, "{alert}: {section}");
        assert!(runbook.lines().any(|l| l == format!("### {alert}")), "{alert} is not in docs/operations.md");
    }
    let sections: Vec<_> = runbook.lines().filter_map(|l| l.strip_prefix("### ")).collect();
    let alerts: Vec<_> = alerts.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(sections, alerts, "the sections of docs/operations.md stand for the alerts, in their order");
    all_shown(&names, "examples/prometheus/alerts.yml");
}

#[test]
fn the_documentation_lists_every_metric() {
    let text = file("docs/operations.md");
    let listed: BTreeSet<String> = text
        .lines()
        .filter_map(|l| l.strip_prefix("| `")?.split_once("` | "))
        .filter(|(_, rest)| ["gauge", "counter", "histogram"].iter().any(|kind| rest.starts_with(kind)))
        .map(|(name, _)| name.to_owned())
        .collect();
    let (_, metrics) = shown();
    assert_eq!(listed, metrics);
}

/// Links within the page lead somewhere.
#[test]
fn the_documentations_links_lead_to_sections() {
    let text = file("docs/operations.md");
    let slug = |title: &str| title.to_ascii_lowercase().replace(' ', "-");
    let sections: BTreeSet<_> =
        text.lines().filter(|l| l.starts_with('#')).map(|l| slug(l.trim_start_matches(['#', ' ']))).collect();
    for (at, _) in text.match_indices("](#") {
        let target = text[at + 3..].split(')').next().unwrap();
        assert!(sections.contains(target), "#{target}");
    }
}
