//! Precedence, origins, and what is refused how.

use miette::{Diagnostic, GraphicalReportHandler, GraphicalTheme};

use super::*;

/// Loads from flags, variables and the text of a file.
fn load(flags: &[(Setting, &str)], variables: &[(&str, &str)], file: Option<&str>) -> Result<Config, ConfigError> {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("dataglot.toml");
    let mut all = Flags::new();
    if let Some(text) = file {
        std::fs::write(&path, text).unwrap();
        all = all.with_file(Some(path.to_str().unwrap().to_owned()));
    }
    for (setting, value) in flags {
        all = all.with(*setting, Some((*value).to_owned()));
    }
    Config::load(&all, &Environment::of(variables.iter().copied()))
}

/// The error as a person reads it, without the path of the file.
fn rendered(error: &ConfigError) -> String {
    let mut out = String::new();
    let handler = GraphicalReportHandler::new_themed(GraphicalTheme::none()).with_width(200);
    handler.render_report(&mut out, error as &dyn Diagnostic).unwrap();
    out
}

/// Loads from the text of a file.
pub(super) fn file(text: &str) -> Result<Config, ConfigError> {
    load(&[], &[], Some(text))
}

#[track_caller]
pub(super) fn refused(file: &str, expected: &[&str]) {
    let text = rendered(&load(&[], &[], Some(file)).unwrap_err());
    for part in expected {
        assert!(text.contains(part), "{part:?} is not in\n{text}");
    }
    assert!(!text.contains("CANARY-7Q"), "{text}");
}

#[test]
fn the_strongest_source_wins() {
    let flag = [(Setting::Listen, "127.0.0.1:1")];
    let variable = [("DATAGLOT_LISTEN", "127.0.0.1:2")];
    let file = Some("# a comment\nlisten = \"127.0.0.1:3\"\n");
    let port = |c: &Config| (c.listen.port(), c.origin(Setting::Listen));

    let (found, origin) = port(&load(&flag, &variable, file).unwrap());
    assert_eq!((found, origin.to_string().as_str()), (1, "flag --listen"));
    let (found, origin) = port(&load(&[], &variable, file).unwrap());
    assert_eq!((found, origin.to_string().as_str()), (2, "variable DATAGLOT_LISTEN"));
    let (found, origin) = port(&load(&[], &[], file).unwrap());
    assert_eq!(found, 3);
    assert!(origin.to_string().starts_with("file ") && origin.to_string().ends_with("dataglot.toml:2"), "{origin}");
    let (found, origin) = port(&load(&[], &[], None).unwrap());
    assert_eq!((found, origin), (7432, Origin::Default));
}

/// A value that differs from the default, for every setting, by every source that may have it.
#[test]
fn every_setting_comes_from_every_source() {
    let samples: [(Setting, &str, &str); 31] = [
        (Setting::Store, "path=/x/y", "path=/x/y"),
        (Setting::StorePollInterval, "250", "250ms"),
        (Setting::StoreLease, "2min", "2min"),
        (Setting::Node, "east-1", "east-1"),
        (Setting::Listen, "[::1]:5", "[::1]:5"),
        (Setting::Http, "localhost:6", "127.0.0.1:6"),
        (Setting::HttpTokenFile, "/t", "/t"),
        (Setting::Tls, "require", "require"),
        (Setting::TlsCert, "/c", "/c"),
        (Setting::TlsKey, "/k", "/k"),
        (Setting::TlsClientCa, "/ca", "/ca"),
        (Setting::Auth, "cert", "cert"),
        (Setting::AllowRemoteTrust, "true", "true"),
        (Setting::Admin, "root", "root"),
        (Setting::AdminPassword, "CANARY-7Q", "set"),
        (Setting::AdminPasswordFile, "/p", "/p"),
        (Setting::SecretKey, "CANARY-7Q", "set"),
        (Setting::SecretKeyFile, "/k", "/k"),
        (Setting::LogFormat, "json", "json"),
        (Setting::LogFilter, "debug", "debug"),
        (Setting::MaxConnections, "7", "7"),
        (Setting::MaxConnectionsPerAddress, "6", "6"),
        (Setting::SuperuserReservedConnections, "5", "5"),
        (Setting::StatementTimeout, "90000", "90s"),
        (Setting::IdleInTransactionSessionTimeout, "2min", "2min"),
        (Setting::ShutdownTimeout, "1500", "1500ms"),
        (Setting::ScramIterations, "4096", "4096"),
        (Setting::StatementBytesMax, "2048", "2kB"),
        (Setting::TokensMax, "9", "9"),
        (Setting::ChainMax, "8", "8"),
        (Setting::DepthMax, "7", "7"),
    ];
    for (setting, text, shown) in samples {
        let variable = setting.variable();
        let mut loaded = vec![load(&[], &[(&variable, text)], None).unwrap()];
        if setting.has_flag() {
            loaded.push(load(&[(setting, text)], &[], None).unwrap());
        }
        let file = match setting.place() {
            setting::Place::Top => format!("{} = \"{text}\"", setting.name()),
            setting::Place::Limits => format!("[limits]\n{} = {text}", setting.name()),
            setting::Place::CatalogService => "[catalog_service]\npath = \"/x/y\"".to_owned(),
            setting::Place::Nowhere => String::new(),
        };
        if !file.is_empty() {
            loaded.push(load(&[], &[], Some(&file)).unwrap());
        }
        for config in loaded {
            let found = config.effective().into_iter().find(|e| e.setting == setting).unwrap();
            assert_eq!(found.value, shown, "{setting:?} of {}", found.origin);
            assert_ne!(found.origin, Origin::Default, "{setting:?}");
        }
    }
}

/// S-12: a list, in the file or as one in JSON; arguments are shown nowhere.
#[test]
fn s_12_a_command_is_a_list() {
    let list = r#"["/usr/bin/pass", "show", "CANARY-7Q"]"#;
    let in_file = format!("secret_key_command = {list}");
    let by_flag = [(Setting::SecretKeyCommand, list)];
    let by_variable = [("DATAGLOT_SECRET_KEY_COMMAND", list)];
    for config in [load(&by_flag, &[], None), load(&[], &by_variable, None), load(&[], &[], Some(&in_file))] {
        let config = config.unwrap();
        let found = config.effective().into_iter().find(|e| e.setting == Setting::SecretKeyCommand).unwrap();
        assert_eq!(found.value, "/usr/bin/pass …");
        assert!(!format!("{config:?} {:?}", config.effective()).contains("CANARY-7Q"));
    }
    let wanted = &["takes a list of a program and its arguments, as in [\"pass\", \"show\", \"dataglot\"]"];
    for bad in ["\"pass CANARY-7Q\"", "[]", "[\"\", \"CANARY-7Q\"]", "\"[1]\""] {
        refused(&format!("secret_key_command = {bad}"), wanted);
    }
    for bad in ["[1]", "[[\"CANARY-7Q\"]]", "{ a = \"CANARY-7Q\" }", "[\"CANARY-7Q\", 1.5]"] {
        refused(&format!("secret_key_command = {bad}"), &["takes a string", "this value"]);
    }
    refused("secret_key_command = [\n  \"pass\",\n  \"CANARY-7Q\",\n]\nlisten = 5", &["takes an address"]);
}

#[test]
fn numbers_and_booleans_of_the_file_need_no_quotes() {
    let config =
        load(&[], &[], Some("max_connections = 1_000\nallow_remote_trust = true\nstatement_timeout = 0")).unwrap();
    assert_eq!((config.max_connections, config.allow_remote_trust, config.statement_timeout), (1000, true, None));
}

#[test]
fn secrets_are_shown_as_set_or_not() {
    let config = load(&[], &[("DATAGLOT_SECRET_KEY", "CANARY-7Q")], None).unwrap();
    let text = format!("{config:?} {:?}", config.effective());
    assert!(!text.contains("CANARY-7Q"), "{text}");
}

#[test]
fn errors_of_the_file_point_at_their_place() {
    refused("listn = \"127.0.0.1:1\"", &["no setting \"listn\"", "Did you mean \"listen\"?", "this key"]);
    refused("listen = 5", &["\"listen\" takes an address and a port", "dataglot.toml:1", "this value"]);
    refused("listen = [1]", &["takes a string, a whole number or a boolean"]);
    refused("log_format = \"xml\"", &["takes text or json"]);
    refused("max_connections = 0", &["takes a whole number from 1 to 100000"]);
    refused("statement_timeout = \"soon\"", &["takes a length of time"]);
    refused("[limits]\nstatement_bytes_max = \"2TB\"", &["a number of bytes from 1kB to 1GB"]);
    refused("[limits]\nlisten = \"127.0.0.1:1\"", &["It stands at the top of the file"]);
    refused("depth_max = 3", &["It stands under [limits]."]);
    refused("store = \"path=x\"", &["path = … under [catalog_service]"]);
    refused("[catalog_service]\npth = \"x\"", &["no setting \"pth\"", "Did you mean \"path\"?"]);
    refused("[catalog_service]\npath = \"x\"\ndsn = \"y\"", &["A store is named once"]);
    refused("[catalog_servise]\npath = \"x\"", &["Did you mean \"catalog_service\"?"]);
    refused("catalog_service = 1", &["no setting \"catalog_service\""]);
    refused("listen = \"a\"\nlisten = \"b\"", &["is not TOML", "duplicate key"]);
    refused("listen = ", &["is not TOML"]);
}

/// What is not known to be harmless is not shown, whatever the error is about.
#[test]
fn errors_of_the_file_show_no_secret() {
    refused("secret_key = \"CANARY-7Q\"", &["no setting \"secret_key\"", "DATAGLOT_SECRET_KEY only"]);
    refused(
        "[catalog_service]\ndsn = \"postgres://u:CANARY-7Q@h:port/db\"",
        &["connection option \"port\"", "dataglot.toml:2", "this value"],
    );
    refused("[catalog_service]\ndsn = \"host=h password=CANARY 7Q\"", &["in connection string", "this value"]);
    refused("pasword = \"CANARY-7Q\"\nlisten = 5", &["pasword"]);
    refused("# dsn = \"CANARY-7Q\"\nlisten = 5", &["takes an address"]);
    refused("x = \"\"\"\nCANARY-7Q\n\"\"\"\nlisten = 5", &["no setting \"x\""]);
    refused("dsn = \"CANARY-7Q", &["is not TOML"]);
    refused("dsn = \"\"\"\nhost=db\nuser=app password=CANARY-7Q\"\"\"\nlisten = 5", &["no setting \"dsn\""]);
    let url = "[catalog_service]\ndsn = \"\"\"\\\npostgres://u:CANARY-7Q@h/db?sslmode=require\"\"\"\n[x]\n";
    refused(url, &["no setting \"x\""]);
    refused("secret_key_command = [\n\"CANARY-7Q==\",\n]\nlisten = 5", &["takes an address"]);
    refused("CANARY-7Q", &["is not TOML"]);
    refused("listen = \"CANARY", &["is not TOML"]);
    refused("dsn='CANARY-7Q\u{e9}'\nlisten = 5", &["no setting \"dsn\""]);
}

#[test]
fn errors_of_flags_and_variables_name_them_and_not_their_value() {
    let error = load(&[(Setting::Listen, "CANARY-7Q")], &[], None).unwrap_err();
    assert!(error.to_string().starts_with("flag --listen: \"listen\" takes"), "{error}");
    let error = load(&[], &[("DATAGLOT_MAX_CONNECTIONS", "CANARY-7Q")], None).unwrap_err();
    assert!(error.to_string().starts_with("variable DATAGLOT_MAX_CONNECTIONS:"), "{error}");
    for bad in ["", "+5", " 5", "5 ", "0x5", "1e3", "-1"] {
        assert!(load(&[(Setting::MaxConnections, bad)], &[], None).is_err(), "{bad:?}");
    }
}

#[test]
fn what_comes_later_says_so() {
    let error = load(&[(Setting::Store, "root=/CANARY-7Q")], &[], None).unwrap_err();
    assert!(error.to_string().ends_with("comes with a later version"), "{error}");
    assert!(!error.to_string().contains("CANARY-7Q"));
    assert!(load(&[(Setting::Auth, "none")], &[], None).unwrap_err().to_string().contains("takes trust"));
    assert!(
        load(&[(Setting::Store, "memory")], &[], None)
            .unwrap_err()
            .to_string()
            .contains("takes path=FILE or dsn=CONNINFO")
    );
}

#[test]
fn trust_stays_on_loopback_unless_told_otherwise() {
    let check = |listen: &str, allow: &str| {
        let trust = [(Setting::Auth, "trust"), (Setting::Listen, listen), (Setting::AllowRemoteTrust, allow)];
        load(&trust, &[], None).unwrap().check()
    };
    for local in ["127.0.0.1:0", "127.8.9.10:1", "[::1]:1", "[::ffff:127.0.0.1]:1", "localhost:1"] {
        assert!(check(local, "false").is_ok(), "{local}");
    }
    for remote in ["0.0.0.0:1", "[::]:1", "10.0.0.1:1", "[::ffff:10.0.0.1]:1"] {
        assert!(matches!(check(remote, "false"), Err(ConfigError::RemoteTrust { .. })), "{remote}");
        assert!(check(remote, "true").is_ok(), "{remote}");
    }
}

#[test]
fn l_05_metrics_stay_on_loopback_without_a_token() {
    let check = |http: &str, token: &[(Setting, &str)]| {
        load(&[&[(Setting::Http, http)], token].concat(), &[], None).unwrap().check()
    };
    let token = [(Setting::HttpTokenFile, "/t")];
    for local in ["off", "127.0.0.1:0", "[::1]:1", "[::ffff:127.0.0.1]:1", "localhost:1"] {
        assert!(check(local, &[]).is_ok(), "{local}");
    }
    for remote in ["0.0.0.0:1", "[::]:1", "10.0.0.1:1", "[::ffff:10.0.0.1]:1"] {
        assert!(matches!(check(remote, &[]), Err(ConfigError::HttpWithoutToken { .. })), "{remote}");
        assert!(check(remote, &token).is_ok(), "{remote}");
    }
    refused("http = \"on\"", &["\"http\" takes off, or an address and a port"]);
}

#[test]
fn tls_takes_a_certificate_and_its_key() {
    let (cert, key, ca) = ((Setting::TlsCert, "/c"), (Setting::TlsKey, "/k"), (Setting::TlsClientCa, "/ca"));
    let loaded = |settings: &[(Setting, &str)]| load(settings, &[], None).unwrap();
    for (settings, expected) in [
        (&[cert][..], "\"tls_cert\" needs \"tls_key\""),
        (&[key], "\"tls_key\" needs \"tls_cert\""),
        (&[ca], "\"tls_client_ca\" needs \"tls_cert\""),
        (&[(Setting::Tls, "allow")], "\"tls\" needs \"tls_cert\""),
        (&[(Setting::Tls, "require"), key], "\"tls_key\" needs \"tls_cert\""),
        (&[(Setting::Tls, "off"), cert], "\"tls_cert\" needs \"tls_key\""),
    ] {
        assert_eq!(loaded(settings).check().unwrap_err().to_string(), expected);
    }
    for (settings, mode) in [
        (&[][..], None),
        (&[cert, key], Some(TlsMode::Allow)),
        (&[cert, key, ca, (Setting::Tls, "allow")], Some(TlsMode::Allow)),
        (&[cert, key, (Setting::Tls, "require")], Some(TlsMode::Require)),
        (&[cert, key, (Setting::Tls, "off")], None),
    ] {
        let config = loaded(settings);
        config.check().unwrap();
        assert_eq!(config.tls().map(|tls| tls.mode), mode);
    }
    refused("tls = \"prefer\"", &["\"tls\" takes off, allow or require"]);
}

/// In every form in which a connection string may come, and nothing that is printed shows its password.
#[test]
fn a_store_may_be_a_database() {
    let shown = "dsn=host=db port=6543 dbname=meta user=dataglot";
    let keywords = "host=db port=6543 dbname=meta user=dataglot password='CANARY-7Q'";
    for text in [keywords, "postgresql://dataglot:CANARY-7Q@db:6543/meta", "postgres://dataglot:CANARY-7Q@db:6543/meta"]
    {
        let store = format!("dsn={text}");
        let file = format!("[catalog_service]\ndsn = \"{text}\"\n");
        for config in [
            load(&[(Setting::Store, &store)], &[], None).unwrap(),
            load(&[], &[("DATAGLOT_STORE", &store)], None).unwrap(),
            load(&[], &[], Some(&file)).unwrap(),
        ] {
            assert!(matches!(config.store(), Ok(StoreLocation::Dsn(_))));
            let row = config.effective().into_iter().find(|e| e.setting == Setting::Store).unwrap();
            assert_eq!(row.value, shown);
            assert!(!format!("{config:?}").contains("CANARY-7Q"));
        }
    }
    let error = load(&[(Setting::Store, "dsn=host=h pasword=CANARY-7Q")], &[], None).unwrap_err();
    assert_eq!(error.to_string(), "flag --store: invalid connection option \"pasword\"");
    assert!(rendered(&error).contains("Did you mean \"password\"?"), "{}", rendered(&error));
}

/// Every user of the machine can read a command line; only its owner reads the rest.
#[test]
fn a_password_on_the_command_line_is_noticed() {
    let shows = |text: &str| load(&[(Setting::Store, text)], &[], None).unwrap().shows_password();
    for exposed in [
        "dsn=host=h password=x",
        "dsn=host=h password = 'x y'",
        "dsn=postgresql://u:x@h/d",
        "dsn=postgresql://u:x%40y@h1:1,h2:2/d?sslmode=require",
        "dsn=postgresql://u@h/d?password=x",
    ] {
        assert!(shows(exposed), "{exposed}");
    }
    for fine in ["dsn=host=h user=u passfile=/p", "dsn=postgresql://u@h:1/d?passfile=/p", "path=/password=x"] {
        assert!(!shows(fine), "{fine}");
    }
    let store = "dsn=host=h password=x";
    assert!(!load(&[], &[("DATAGLOT_STORE", store)], None).unwrap().shows_password());
}

#[test]
fn a_lease_outlasts_the_looks_at_the_store() {
    let check = |lease: &str, poll: &str| {
        load(&[(Setting::StoreLease, lease), (Setting::StorePollInterval, poll)], &[], None).unwrap().check()
    };
    assert!(check("2s", "1s").is_ok());
    assert!(matches!(check("1999ms", "1s"), Err(ConfigError::ShortLease { .. })));
    refused("store_poll_interval = 0", &["a length of time from 10ms to a day"]);
    refused("store_poll_interval = \"9ms\"", &["a length of time from 10ms to a day"]);
    refused("store_lease = \"99ms\"", &["a length of time from 100ms to a day"]);
}

#[test]
fn a_node_has_a_name_that_can_be_shown_anywhere() {
    for bad in ["", "a b", "n\u{f6}de", "a\nb", &"x".repeat(49)] {
        assert!(load(&[(Setting::Node, bad)], &[], None).is_err(), "{bad:?}");
    }
    assert_eq!(load(&[(Setting::Node, &"x".repeat(48))], &[], None).unwrap().node.len(), 48);
    assert!(!load(&[], &[], None).unwrap().node.is_empty());
}

#[test]
fn there_is_one_source_of_the_key_and_one_store() {
    let two = load(&[(Setting::SecretKeyFile, "/k")], &[("DATAGLOT_SECRET_KEY", "x")], None);
    assert_eq!(
        two.unwrap_err().to_string(),
        "two sources of secret keys are configured: secret_key and secret_key_file"
    );
    let command = "secret_key_command = [\"pass\", \"CANARY-7Q\"]";
    for (flags, variables, named) in [
        (&[(Setting::SecretKeyFile, "/k")][..], &[][..], "secret_key_file and secret_key_command"),
        (&[], &[("DATAGLOT_SECRET_KEY", "x")], "secret_key and secret_key_command"),
    ] {
        let error = load(flags, variables, Some(command)).unwrap_err().to_string();
        assert!(error.ends_with(named) && !error.contains("CANARY-7Q"), "{error}");
    }
    assert!(matches!(load(&[], &[], None).unwrap().store(), Err(ConfigError::NoStore)));
    let unreadable = Config::load(&Flags::new().with_file(Some("/no/such/file".to_owned())), &Environment::default());
    assert!(matches!(unreadable, Err(ConfigError::Unreadable { .. })));
}

#[test]
fn a_variable_that_is_nearly_one_of_ours_is_noticed() {
    let config = load(&[], &[("DATAGLOT_LISTN", "CANARY-7Q"), ("DATAGLOT_CRASH_ROUNDS", "9")], None).unwrap();
    assert_eq!(config.unknown_variables(), ["DATAGLOT_LISTN"]);
}

#[test]
fn lengths_of_time_and_bytes_read_as_they_print() {
    for text in ["0", "1ms", "1500ms", "2s", "1min", "90s"] {
        assert_eq!(value::duration_text(value::duration(text).unwrap()), text);
    }
    assert_eq!(value::duration("24h").unwrap(), Some(Duration::from_secs(86_400)));
    for bad in ["", "s", "25h", "1d", "-1", "1.5s", "99999999999999999999s"] {
        assert!(value::duration(bad).is_err(), "{bad:?}");
    }
    for text in ["1023", "1kB", "64MB", "1GB"] {
        assert_eq!(value::bytes_text(value::bytes(text, 0, usize::MAX).unwrap()), text);
    }
    assert!(value::bytes("18446744073709551615GB", 0, usize::MAX).is_err());
}

const HBA: &str = r#"
[[hba]]
address = "all"
user = ["mallory", "eve"]
method = "reject"

[[hba]]
type = "hostssl"
address = "10.0.0.0/8"
database = "sales"
method = "cert"
map = { "etl.example" = "etl", "ann.example" = ["ann", "bob"] }

[[hba]]
type = "hostnossl"
address = "loopback"
method = "trust"
"#;

#[test]
fn the_list_of_rules_is_read_in_its_order() {
    let config = load(&[], &[], Some(HBA)).unwrap();
    let found = config.effective().into_iter().find(|e| e.setting == Setting::Auth).unwrap();
    assert_eq!(
        found.value,
        "host all mallory,eve all reject; hostssl sales all 10.0.0.0/8 cert map=2; hostnossl all all loopback trust"
    );
    assert!(found.origin.to_string().ends_with("dataglot.toml:2"), "{}", found.origin);
    assert_eq!(config.auth.rules()[1].map["ann.example"], ["ann", "bob"]);
}

#[test]
fn a_rule_that_is_not_understood_is_refused_with_its_place() {
    let rule = |lines: &str| format!("[[hba]]\naddress = \"all\"\nmethod = \"reject\"\n[[hba]]\n{lines}");
    let all = "address = \"all\"\nmethod = \"cert\"\n";
    refused(
        &rule("address = \"10.0.0.1/8\"\nmethod = \"cert\""),
        &["\"address\" takes", "dataglot.toml:5", "this value"],
    );
    refused(
        &rule("address = \"all\"\nmethod = \"ident\""),
        &["\"method\" takes trust, scram-sha-256", "dataglot.toml:6"],
    );
    refused(&rule("address = \"all\""), &["\"hba\" takes at least address", "dataglot.toml:4"]);
    refused(&rule("method = \"trust\""), &["\"hba\" takes at least address"]);
    refused(&rule(&format!("{all}type = \"local\"")), &["\"type\" takes host, hostssl or hostnossl"]);
    refused(&rule(&format!("{all}user = []")), &["\"user\" takes"]);
    refused(&rule(&format!("{all}user = [\"all\"]")), &["\"user\" takes"]);
    refused(&rule(&format!("{all}user = 5")), &["\"user\" takes"]);
    refused(&rule(&format!("{all}database = \"\"")), &["\"database\" takes"]);
    refused(&rule(&format!("{all}map = {{ }}")), &["\"map\" takes"]);
    refused(&rule(&format!("{all}usr = \"x\"")), &["no setting \"hba.usr\"", "Did you mean \"user\"?"]);
    let mapped = "address = \"all\"\nmethod = \"trust\"\nmap = { a = \"b\" }";
    refused(&rule(mapped), &["\"map\" takes effect with method = \"cert\" only"]);
    refused("hba = \"trust\"", &["\"hba\" takes 1 to 1000 tables"]);
    refused("hba = []", &["\"hba\" takes 1 to 1000 tables"]);
    refused("hba = [1]", &["\"hba\" takes a table"]);
}

#[test]
fn how_clients_are_let_in_is_said_once() {
    for (flags, variables) in [(vec![(Setting::Auth, "trust")], vec![]), (vec![], vec![("DATAGLOT_AUTH", "trust")])] {
        let error = load(&flags, &variables, Some(HBA)).unwrap_err();
        assert!(matches!(error, ConfigError::TwoAuths { .. }), "{error}");
    }
    let error = load(&[], &[], Some(&format!("auth = \"trust\"\n{HBA}"))).unwrap_err();
    assert!(error.to_string().contains("dataglot.toml:1: \"auth\" and the list"), "{error}");
    assert_eq!(load(&[], &[], None).unwrap().auth.to_string(), "scram-sha-256");
}

#[test]
fn what_rules_need_is_there() {
    let check = |text: &str| load(&[], &[], Some(text)).unwrap().check();
    assert!(matches!(check("auth = \"cert\""), Err(ConfigError::CertWithoutCa)));
    check("auth = \"cert\"\ntls_cert = \"c\"\ntls_key = \"k\"\ntls_client_ca = \"a\"").unwrap();
    let trust = |address| format!("listen = \"0.0.0.0:1\"\n[[hba]]\naddress = \"{address}\"\nmethod = \"trust\"");
    assert!(matches!(check(&trust("10.0.0.0/8")), Err(ConfigError::RemoteTrust { .. })));
    check(&trust("loopback")).unwrap();
    assert!(matches!(check("max_connections = 3\nsuperuser_reserved_connections = 3"), Err(ConfigError::AllReserved)));
    check("max_connections = 1").unwrap();
}

#[test]
fn a_13_the_first_password_has_one_source_and_is_not_empty() {
    let two = [("DATAGLOT_ADMIN_PASSWORD", "CANARY-7Q"), ("DATAGLOT_ADMIN_PASSWORD_FILE", "/p")];
    assert!(matches!(load(&[], &two, None), Err(ConfigError::TwoAdminPasswords)));
    let read = |value| load(&[], &[("DATAGLOT_ADMIN_PASSWORD", value)], None).unwrap().admin_password.read();
    assert_eq!(read("CANARY-7Q").unwrap().unwrap().open(), "CANARY-7Q");
    assert!(read("").unwrap_err().to_string().contains("variable DATAGLOT_ADMIN_PASSWORD: the password is empty"));
    assert!(load(&[], &[], None).unwrap().admin_password.read().unwrap().is_none());

    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("p");
    let read = |text: &str, mode| {
        std::fs::write(&file, text).unwrap();
        std::fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(mode)).unwrap();
        AdminPassword::File(file.clone()).read()
    };
    assert_eq!(read(" pass word \r\n", 0o600).unwrap().unwrap().open(), " pass word ");
    assert!(read("\n", 0o600).unwrap_err().to_string().contains("the password is empty"));
    let error = read("CANARY-7Q", 0o644).unwrap_err().to_string();
    assert!(error.contains("its mode is 0644") && !error.contains("CANARY-7Q"), "{error}");
}
