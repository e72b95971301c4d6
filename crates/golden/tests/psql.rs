//! A real psql runs `examples/quickstart.sql`; after a restart everything in it is still there.

#![allow(clippy::expect_used, clippy::unwrap_used, reason = "a test's own helpers")]

use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Stdio};

use dataglot_golden::backend::Backend;
use dataglot_golden::rig::Rig;

/// Runs psql; gives what it printed on both streams.
#[track_caller]
fn psql(address: SocketAddr, arguments: &[&str]) -> String {
    let out = Command::new("psql")
        .args(["-X", "-v", "ON_ERROR_STOP=1", "-h", "127.0.0.1", "-U", "admin", "-d", "default", "-p"])
        .arg(address.port().to_string())
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .expect("psql is needed by this test; ./test installs it, or says how to get it");
    let text = format!("{}{}", String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr));
    assert!(out.status.success(), "{arguments:?}: {text}");
    text
}

#[test]
fn quickstart_runs_and_outlives_the_server() {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/quickstart.sql");
    let script = script.to_str().unwrap();
    for backend in Backend::ALL {
        let mut rig = Rig::start(backend).unwrap();
        let first = psql(rig.address().unwrap(), &["-f", script]);
        for tag in [
            "CREATE SECRET",
            "CREATE CATALOG",
            "CREATE ROLE",
            "GRANT ROLE",
            "CREATE MASK",
            "CREATE ROW FILTER",
            "COMMIT",
        ] {
            assert!(first.contains(tag), "{tag} is missing in {first}");
        }
        assert!(!first.contains("change-me"), "a credential came back: {first}");
        let shows = [
            "SHOW CATALOGS",
            "SHOW SECRETS",
            "SHOW ROLES",
            "SHOW POLICIES",
            "SHOW VIEWS",
            "SHOW GRANTS",
            "SHOW ROLE GRANTS",
            "SHOW CREATE CATALOG sales",
            "SHOW CREATE SECRET sales_password",
            "SHOW CREATE USER ana",
            "SHOW CREATE MASK customer_email",
            "SHOW CREATE ROW FILTER open_orders",
            "SHOW CREATE VIEW revenue",
            "DESCRIBE COLUMN sales.public.customers.email",
        ];
        let before: Vec<String> = shows.iter().map(|show| psql(rig.address().unwrap(), &["-c", show])).collect();
        rig.restart().unwrap();
        let after: Vec<String> = shows.iter().map(|show| psql(rig.address().unwrap(), &["-c", show])).collect();
        assert_eq!(before, after, "on {backend}");
    }
}

/// psql shows where an error is: under the right character of the right line.
#[test]
fn an_error_has_its_caret() {
    let rig = Rig::start(Backend::Memory).unwrap();
    let out = Command::new("psql")
        .args(["-X", "-h", "127.0.0.1", "-U", "admin", "-d", "default", "-p"])
        .arg(rig.address().unwrap().port().to_string())
        .args(["-c", "CREATE ROLE é\n  WITH LOGIN é"])
        .output()
        .expect("psql is needed by this test; ./test installs it, or says how to get it");
    let text = String::from_utf8_lossy(&out.stderr);
    assert!(text.contains("LINE 2:   WITH LOGIN é\n                     ^"), "{text}");
}
