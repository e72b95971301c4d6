//! One test a golden file and backend. `DATAGLOT_BLESS=1` rewrites the files instead (`./bless`).

#![allow(
    clippy::disallowed_methods,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a test, though its harness is not the standard one"
)]

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use dataglot_golden::backend::Backend;
use dataglot_golden::case::Case;
use dataglot_golden::run::{find_cases, run};
use libtest_mimic::{Arguments, Failed, Trial};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../grammar-tests")
}

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let bless = std::env::var_os("DATAGLOT_BLESS").is_some();
    let cases = find_cases(&root()).expect("grammar-tests/ can be read");
    assert!(!cases.is_empty(), "grammar-tests/ holds no case");
    let backends: &[Backend] = if bless { &[Backend::Memory] } else { &Backend::ALL };
    let mut trials = Vec::new();
    for (name, path) in &cases {
        for backend in backends.iter().copied() {
            let path = path.clone();
            trials.push(Trial::test(format!("{name} on {backend}"), move || check(&path, backend, bless)));
        }
    }
    libtest_mimic::run(&arguments, trials).exit_code()
}

fn check(path: &Path, backend: Backend, bless: bool) -> Result<(), Failed> {
    let text = std::fs::read_to_string(path)?;
    let case = Case::parse(&text)?;
    let actual = run(&case, backend).map_err(|e| e.to_string())?;
    if bless {
        std::fs::write(path, actual.print())?;
        return Ok(());
    }
    for (want, got) in case.blocks.iter().zip(&actual.blocks) {
        if want.expected != got.expected {
            let input = &want.input;
            let difference = difference(&want.expected, &got.expected);
            return Err(format!("{}\n== {:?}\n{input}--\n{difference}", path.display(), want.verb).into());
        }
    }
    Ok(())
}

/// Both texts line by line; lines that only one of them has are marked.
fn difference(want: &str, got: &str) -> String {
    let (want, got): (Vec<&str>, Vec<&str>) = (want.lines().collect(), got.lines().collect());
    let same = want.iter().zip(&got).take_while(|(a, b)| a == b).count();
    let mut out = String::new();
    let head = &want[..same];
    head.iter().skip(head.len().saturating_sub(3)).for_each(|l| out.push_str(&format!("  {l}\n")));
    want[same..].iter().take(20).for_each(|l| out.push_str(&format!("- {l}\n")));
    got[same..].iter().take(20).for_each(|l| out.push_str(&format!("+ {l}\n")));
    out
}
