//! `dataglot resolve-catalogs`: references by default, values only where they are asked for.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "a test")]

mod support;

use std::path::Path;
use std::process::Command;

use support::{contents, dataglot, done, error_line, mode, run, serve, tempdir};

const KEY: &str = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";
const CANARY: &str = "CANARY-7Q";
const OTHER_KEY: &str = "1f1e1d1c1b1a191817161514131211100f0e0d0c0b0a09080706050403020100";

/// A store with two catalogs and their secrets.
fn store(directory: &Path) {
    let server = support::Server::start(serve(directory, Some(KEY)));
    server.query(
        "CREATE SECRET pw AS 'CANARY-7Q \"one\"';
         ALTER SECRET pw AS 'CANARY-7Q \"two\"\n' GRACE '1 hour';
         CREATE SECRET wallet AS 'CANARY-7Q wallet';
         CREATE SECRET unset AS ENV 'NO_SUCH_VARIABLE';
         CREATE CATALOG ora USING oracle WITH (host = 'h', port = 1521, password = SECRET pw, wallet = SECRET wallet AS FILE);
         CREATE CATALOG again USING mock WITH (password = SECRET pw)",
    );
    server.stop();
}

fn resolve(directory: &Path, arguments: &[&str]) -> Command {
    let mut command = dataglot(directory, &["resolve-catalogs", "--store", "path=meta.redb"]);
    command.args(arguments).env("RUST_LOG", "trace").env("DATAGLOT_LOG_FILTER", "trace");
    command
}

const REFERENCES: &str = r#"{
  "catalogs": [
    {"connector":"mock","enabled":true,"name":"again","options":{"password":{"secret":{"as_file":false,"name":"pw","version":2}}},"version":1},
    {"connector":"oracle","enabled":true,"name":"ora","options":{"host":{"text":"h"},"password":{"secret":{"as_file":false,"name":"pw","version":2}},"port":{"integer":1521},"wallet":{"secret":{"as_file":true,"name":"wallet","version":1}}},"version":1}
  ],
  "format": 1,
  "org": "default",
  "version": N
}
"#;

/// Without the number of the transaction.
fn steady(document: &str) -> String {
    let mut lines: Vec<String> = document.lines().map(str::to_owned).collect();
    for line in &mut lines {
        if line.starts_with("  \"version\": ") {
            *line = "  \"version\": N".to_owned();
        }
    }
    lines.join("\n") + "\n"
}

#[test]
fn references_need_no_key_and_values_are_asked_for_twice() {
    let directory = tempdir();
    let directory = directory.path();
    store(directory);
    // References, and no key anywhere.
    let printed = done(&mut resolve(directory, &[]));
    assert_eq!(steady(&printed), REFERENCES);
    assert_eq!(
        done(&mut resolve(directory, &["--org", "default", "--out", "-"])),
        printed,
        "one state, the same bytes"
    );

    // Values, not without a place for them, and not to a terminal by mistake.
    let before = contents(directory);
    for arguments in [&["--resolve"][..], &["--resolve", "--out", "-"], &["--resolve", "--yes-print-secrets"]] {
        let output = run(resolve(directory, arguments).env("DATAGLOT_SECRET_KEY", KEY));
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0), "{said}");
        error_line(&said);
    }
    assert_eq!(contents(directory), before);

    let output =
        run(resolve(directory, &["--resolve", "--out", "-", "--yes-print-secrets"]).env("DATAGLOT_SECRET_KEY", KEY));
    assert_eq!(output.status.code(), Some(0));
    let resolved = String::from_utf8(output.stdout).unwrap();
    assert!(!String::from_utf8_lossy(&output.stderr).contains(CANARY));
    let value = r#""name":"pw","value":"CANARY-7Q \"two\"\n","version":2"#;
    assert_eq!(resolved.matches(value).count(), 2, "{resolved}");
    assert_eq!(resolved.matches("\"one\\\"").count(), 0);

    // A file has the same, and is its owner's alone, also where there was another one.
    let path = directory.join("catalogs.json");
    for _ in 0..2 {
        let output = run(resolve(directory, &["--resolve", "--out", "catalogs.json"]).env("DATAGLOT_SECRET_KEY", KEY));
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!((output.status.code(), output.stdout.len()), (Some(0), 0), "{said}");
        assert!(!said.contains(CANARY));
        assert_eq!(std::fs::read_to_string(&path).unwrap(), resolved);
        assert_eq!(mode(path.clone()), 0o600);
        std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o644)).unwrap();
    }
    // Also from the key's file, and references go to a file as well.
    std::fs::write(directory.join("secret.key"), KEY).unwrap();
    std::fs::set_permissions(directory.join("secret.key"), std::os::unix::fs::PermissionsExt::from_mode(0o600))
        .unwrap();
    done(&mut resolve(directory, &["--resolve", "--out", "catalogs.json", "--secret-key-file", "secret.key"]));
    assert_eq!(std::fs::read_to_string(&path).unwrap(), resolved);
    done(&mut resolve(directory, &["--out", "references.json"]));
    assert_eq!(steady(&std::fs::read_to_string(directory.join("references.json")).unwrap()), REFERENCES);
    // Nothing else was left.
    let names: Vec<String> =
        contents(directory).into_keys().map(|p| p.file_name().unwrap().to_str().unwrap().to_owned()).collect();
    assert!(names.iter().all(|n| !n.ends_with(".new")), "{names:?}");
}

/// C039
#[test]
fn c039_what_cannot_be_resolved_is_told_and_takes_nothing_else_down() {
    let directory = tempdir();
    let directory = directory.path();
    store(directory);
    let server = support::Server::start(serve(directory, Some(KEY)));
    server.query("CREATE CATALOG lost USING mock WITH (password = SECRET unset)");
    server.stop();
    let output = run(resolve(directory, &["--resolve", "--out", "c.json"]).env("DATAGLOT_SECRET_KEY", KEY));
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(10), "{said}");
    assert!(
        said.contains("error: 1 of 3 secrets could not be resolved") && said.contains("NO_SUCH_VARIABLE"),
        "{said}"
    );
    assert!(!said.contains(CANARY));
    let written = std::fs::read_to_string(directory.join("c.json")).unwrap();
    assert!(written.contains(r#""error":"secret \"unset\" is in the environment variable"#), "{written}");
    assert_eq!(written.matches(r#""value":"CANARY-7Q"#).count(), 3);

    // With another key, or none, there is nothing to write, and what is there stays.
    for key in [Some(OTHER_KEY), None] {
        let mut command = resolve(directory, &["--resolve", "--out", "c.json"]);
        key.map(|key| command.env("DATAGLOT_SECRET_KEY", key));
        let output = run(&mut command);
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(4), "{said}");
        assert!(!said.contains(CANARY));
        assert_eq!(std::fs::read_to_string(directory.join("c.json")).unwrap(), written);
    }

    // Where standard output takes nothing, a half document is no success.
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    assert_eq!(resolve(directory, &[]).stdout(full).status().unwrap().code(), Some(1));

    // What a killed run left beside the file is no obstacle.
    std::fs::write(directory.join(".c.json.new"), "x").unwrap();
    done(resolve(directory, &["--out", "c.json"]).env("DATAGLOT_SECRET_KEY", KEY));
    assert!(!directory.join(".c.json.new").exists());

    let output = run(&mut resolve(directory, &["--org", "nobody"]));
    assert_eq!(output.status.code(), Some(2));
    let output = run(resolve(directory, &["--resolve", "--out", "none/c.json"]).env("DATAGLOT_SECRET_KEY", KEY));
    assert_eq!(output.status.code(), Some(1));
    assert!(!String::from_utf8_lossy(&output.stderr).contains(CANARY));
}
