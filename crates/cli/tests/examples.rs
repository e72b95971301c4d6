//! The example with three coordinators does what it says.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test")]

use std::path::Path;
use std::process::Command;

use dataglot_pgtest::binary;

#[test]
fn examples_ha_runs_to_its_end_and_all_agree() {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/ha/run.sh");
    let mut command = Command::new(script);
    command.env("DATAGLOT", env!("CARGO_BIN_EXE_dataglot")).env("PG_BIN", binary("initdb").parent().unwrap());
    let output = command.output().expect("bash is here");
    let (said, complained) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(0), "{said}\n{complained}");
    let versions: Vec<&str> = said.lines().filter_map(|l| l.split_once("  version ")).map(|(_, rest)| rest).collect();
    assert_eq!(versions.len(), 3, "{said}");
    assert!(versions.iter().all(|v| Some(v) == versions.first()), "{said}");
    assert!(said.contains("and all are there") && said.contains("is as it should be"), "{said}");
}
