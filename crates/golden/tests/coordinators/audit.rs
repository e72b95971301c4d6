//! The audit stream of several coordinators.

use std::io::Write;
use std::sync::{Arc, Mutex, OnceLock};

use dataglot_golden::backend::Backend;
use dataglot_golden::rig::Rig;

use crate::common::{fails, ok};
use crate::{admins, shown_strictly};

/// What the audit stream of this process has said so far.
#[derive(Clone, Default)]
struct Heard(Arc<Mutex<Vec<u8>>>);

impl Heard {
    /// Listens to the audit stream from now on, once a process.
    fn start() -> &'static Heard {
        static HEARD: OnceLock<Heard> = OnceLock::new();
        HEARD.get_or_init(|| {
            let heard = Heard::default();
            let writer = heard.clone();
            tracing_subscriber::fmt()
                .json()
                .flatten_event(true)
                .with_env_filter("dataglot::audit=debug")
                .with_writer(move || writer.clone())
                .init();
            heard
        })
    }

    /// The events whose statement has `word` in it.
    fn about(&self, word: &str) -> Vec<serde_json::Value> {
        let bytes = self.0.lock().unwrap().clone();
        let events = String::from_utf8(bytes).unwrap();
        let events = events.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
        events.filter(|event| event["sql"].as_str().is_some_and(|sql| sql.contains(word))).collect()
    }
}

impl Write for Heard {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// The audit stream says who did what to whom, from where and with what outcome, through whichever
/// coordinator; what was done, done again from empty, gives the stored grants.
#[test]
fn c119_audit_without_the_essential() {
    let heard = Heard::start();
    for backend in Backend::ALL {
        let rig = Rig::start_nodes(backend, 2).unwrap();
        let mut clients = admins(&rig, 2);
        // Other tests of this process are heard too.
        let [u1, u2, r1, r2] = ["u1", "u2", "r1", "r2"].map(|name| format!("{name}_c119_{backend}"));
        let setup = format!("CREATE ROLE {r1}; CREATE ROLE {r2}; CREATE USER {u1}; CREATE USER {u2}");
        ok(&mut clients[0], &setup);
        ok(&mut clients[0], &format!("GRANT {r1}, {r2} TO {u1} WITH ADMIN OPTION"));
        ok(&mut clients[1], &format!("REVOKE {r1} FROM {u1}"));
        assert_eq!(fails(&mut clients[0], &format!("GRANT r_missing TO {u1}")), "42704");
        ok(&mut clients[1], "BEGIN");
        ok(&mut clients[1], &format!("GRANT {r2} TO {u2}"));
        ok(&mut clients[1], "ROLLBACK");

        let events = heard.about(&format!("c119_{backend}"));
        let what = |event: &serde_json::Value| {
            let text = |key: &str| event[key].as_str().map(str::to_owned);
            (text("outcome"), text("sqlstate"), text("sql"))
        };
        let said: Vec<_> =
            events.iter().map(what).filter(|(_, _, sql)| !sql.as_ref().unwrap().starts_with("CREATE")).collect();
        let expected = [
            ("done", None, format!("GRANT {r1}, {r2} TO {u1} WITH ADMIN TRUE")),
            ("done", None, format!("REVOKE {r1} FROM {u1}")),
            ("refused", Some("42704"), format!("GRANT r_missing TO {u1}")),
            ("rolled back", None, format!("GRANT {r2} TO {u2}")),
        ];
        let expected: Vec<_> = expected
            .into_iter()
            .map(|(outcome, code, sql)| (Some(outcome.to_owned()), code.map(str::to_owned), Some(sql)))
            .collect();
        assert_eq!(said, expected);
        for event in &events {
            assert_eq!(event["actor"], "admin");
            assert_eq!(event["session_user"], "admin");
            assert_eq!(event["org"], "default");
            assert!(event["client"].as_str().is_some_and(|c| c.contains("127.0.0.1")), "{event}");
        }

        let again = Rig::start_nodes(backend, 2).unwrap();
        let mut second = admins(&again, 2);
        for (i, event) in events.iter().filter(|event| event["outcome"] == "done").enumerate() {
            ok(&mut second[i % 2], event["sql"].as_str().unwrap());
        }
        let show = "SHOW ROLE GRANTS";
        let stored = shown_strictly(&mut clients[0], show);
        assert!(!stored.is_empty());
        assert_eq!(shown_strictly(&mut second[0], show), stored);
    }
}
