//! Service files, password files and the environment, and which of them holds.

use super::*;

/// The text, then the service, then the environment.
#[test]
fn precedence() {
    let home = tempfile::tempdir().unwrap();
    let service =
        "# comment\n\n[other]\nhost=no\n[mine]\nhost=service\ndbname=service\nport=1\nhost=later\n[mine]\nuser=no\n";
    write(&home.path().join(".pg_service.conf"), service, 0o644);
    let around = Surroundings::default()
        .at_home(home.path())
        .set("PGHOST", "env")
        .set("PGDATABASE", "env")
        .set("PGUSER", "env")
        .set("PGPORT", "2");
    let location = |text: &str, around: &Surroundings| Dsn::parse_with(text, around).unwrap().location();
    assert_eq!(location("", &around), "host=env port=2 dbname=env user=env");
    assert_eq!(location("service=mine dbname=text", &around), "host=service port=1 dbname=text user=env");
    assert_eq!(location("postgres:///?service=mine", &around), "host=service port=1 dbname=service user=env");
    let around = around.set("PGSERVICE", "mine");
    assert_eq!(location("host=text", &around), "host=text port=1 dbname=service user=env");
    // An empty value in the text asks for the default, not for the environment's.
    assert_eq!(location("host=text user='' service=''", &around), "host=text port=2 dbname=env user=account");
}

#[test]
fn service_files() {
    let (home, system) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let named = home.path().join("named");
    write(&named, "[a]\nhost=named\r\npassword= blank \n[b]\nnonsense\n[c]\nhots=x\n[d]\nservice=a\n", 0o600);
    write(&home.path().join(".pg_service.conf"), "[a]\nhost=home\n[h]\nhost=home\n", 0o600);
    write(&system.path().join("pg_service.conf"), "[a]\nhost=system\n[s]\nhost=system\n", 0o600);
    let around = Surroundings::default().at_home(home.path()).set("PGSYSCONFDIR", system.path());
    let host =
        |text: &str, around: &Surroundings| Dsn::parse_with(text, around).map(|d| d.targets[0].place.to_string());
    assert_eq!(host("service=a", &around), Ok("home".into()));
    assert_eq!(host("service=h", &around), Ok("home".into()));
    assert_eq!(host("service=s", &around), Ok("system".into()));
    let text = format!("service=h servicefile={}", named.display());
    assert!(matches!(host(&text, &around), Err(DsnError::NoService { files }) if files.len() == 2));

    let around = around.set("PGSERVICEFILE", &named);
    assert_eq!(host("service=a", &around), Ok("named".into()));
    let dsn = Dsn::parse_with("service=a", &around).unwrap();
    assert_eq!(password(&dsn).as_deref(), Some(" blank"), "the end of a line is trimmed, as in libpq");
    assert_eq!(host("service=b", &around), Err(DsnError::ServiceLine { path: named.clone(), line: 5 }));
    let error = Dsn::parse_with("service=c", &around).unwrap_err();
    assert_eq!(error.to_string(), "invalid connection option \"hots\"");
    assert_eq!(error.detail(), Some(format!("It was read from service file \"{}\", line 7.", named.display())));
    assert!(matches!(host("service=d", &around), Err(DsnError::Unsupported { keyword: "service", .. })));
    let around = around.set("PGSERVICEFILE", "/nowhere");
    assert!(matches!(host("service=a", &around), Err(DsnError::Unreadable { kind: "service file", .. })));
}

#[test]
fn password_file_lines() {
    let text = "# comment:*:*:*:no\nshort\n\
        db:5432:d:u:plain\n\
        db:*:d:colon\\:back\\\\slash:p\\:q\\\\r\n\
        ::1:5432:d:u:never\n\
        \\:\\:1:5432:d:u:six\n\
        *:7:*:*:any: rest\n\
        *:8:*:*:\n\
        *:8:*:*:blank \r\n";
    let find = |host: &str, port: &str, dbname: &str, user: &str| {
        passfile::find(text, &[host, port, dbname, user]).map(|p| p.open().to_owned())
    };
    assert_eq!(find("db", "5432", "d", "u").as_deref(), Some("plain"));
    assert_eq!(find("db", "1", "d", r"colon:back\slash").as_deref(), Some(r"p:q\r"));
    assert_eq!(find("::1", "5432", "d", "u").as_deref(), Some("six"));
    assert_eq!(find("x", "7", "y", "z").as_deref(), Some("any"));
    assert_eq!(find("x", "8", "y", "z"), None, "the first line that matches decides");
    assert_eq!(find("x", "9", "y", "z"), None);
    assert_eq!(find("db", "5432", "d", "other"), None);
}

#[test]
fn password_files() {
    let home = tempfile::tempdir().unwrap();
    let line = "a:5432:d:u:first\nb:5432:d:u:second\n10.0.0.1:5432:d:u:third\nlocalhost:5432:d:u:fourth\n";
    let file = home.path().join(".pgpass");
    write(&file, line, 0o600);
    let around = Surroundings::default().at_home(home.path());
    let dsn = Dsn::parse_with("host=a,b,,/else hostaddr=,,10.0.0.1, dbname=d user=u", &around).unwrap();
    let found: Vec<_> = dsn.targets.iter().map(|t| dsn.password_for(t).map(|p| p.open().to_owned())).collect();
    assert_eq!(found, [Some("first".into()), Some("second".into()), Some("third".into()), None]);
    let dsn = Dsn::parse_with("host=/var/run/postgresql dbname=d user=u", &around).unwrap();
    assert_eq!(password(&dsn).as_deref(), Some("fourth"));

    // A changed file is read again; one that others may read is not used.
    let dsn = Dsn::parse_with("host=a dbname=d user=u", &around).unwrap();
    write(&file, "a:*:*:*:changed\n", 0o600);
    assert_eq!(password(&dsn).as_deref(), Some("changed"));
    for mode in [0o640, 0o604, 0o620] {
        write(&file, "a:*:*:*:open\n", mode);
        assert_eq!(password(&dsn), None, "{mode:o}");
    }

    let named = home.path().join("named");
    write(&named, "a:*:*:*:named\n", 0o600);
    let around = around.set("PGPASSFILE", &named);
    assert_eq!(password(&Dsn::parse_with("host=a", &around).unwrap()).as_deref(), Some("named"));
    let text = format!("host=a passfile={}", file.display());
    assert_eq!(password(&Dsn::parse_with(&text, &around).unwrap()), None, "the named file, which is open to others");
    assert_eq!(password(&Dsn::parse_with("host=a password=given", &around).unwrap()).as_deref(), Some("given"));
    let around = around.set("PGPASSWORD", "env");
    assert_eq!(password(&Dsn::parse_with("host=a", &around).unwrap()).as_deref(), Some("env"));
}
