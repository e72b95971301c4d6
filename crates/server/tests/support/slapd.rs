//! A real slapd of the test's own, on loopback, with its certificate from the test's authority.

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::pki::{Pki, write};

const SUFFIX: &str = "dc=example,dc=test";
const DIRECTORIES: [&str; 3] = ["/usr/sbin", "/usr/local/libexec", "/usr/libexec"];

/// A directory server. It ends with the test.
pub struct Slapd {
    directory: tempfile::TempDir,
    process: Child,
    /// The port of `ldap://`.
    pub port: u16,
    /// The port of `ldaps://`.
    pub tls_port: u16,
}

fn program(name: &str) -> PathBuf {
    let found = DIRECTORIES.iter().map(|directory| PathBuf::from(directory).join(name)).find(|path| path.exists());
    found.unwrap_or_else(|| panic!("there is no {name}: the tests of LDAP need it (Debian: apt-get install slapd)"))
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

impl Slapd {
    /// Starts one with these entries below its suffix. Only `cn=service` may search, by the password `service-pw`.
    pub fn start(pki: &Pki, entries: &str) -> Slapd {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name).display().to_string();
        fs::create_dir(path("data")).unwrap();
        let (certificate, key, ca) = (pki.path("server.crt"), pki.path("server.key"), pki.path("ca.crt"));
        let files = [("server.crt", certificate), ("server.key", key), ("ca.crt", ca)];
        for (name, from) in files {
            fs::copy(from, path(name)).unwrap();
        }
        let schemas = ["core", "cosine", "inetorgperson"].map(|name| format!("include /etc/ldap/schema/{name}.schema"));
        let config = format!(
            "{}\nmodulepath /usr/lib/ldap\nmoduleload back_mdb\npidfile {}\n\
             TLSCertificateFile {}\nTLSCertificateKeyFile {}\nTLSCACertificateFile {}\nTLSVerifyClient never\n\
             allow bind_anon_cred bind_anon_dn\n\
             database mdb\nmaxsize 10485760\nsuffix \"{SUFFIX}\"\nrootdn \"cn=root,{SUFFIX}\"\nrootpw root-pw\n\
             directory {}\n\
             access to attrs=userPassword by anonymous auth by * none\n\
             access to * by dn.exact=\"cn=service,{SUFFIX}\" read by anonymous auth by * none\n",
            schemas.join("\n"),
            path("pid"),
            path("server.crt"),
            path("server.key"),
            path("ca.crt"),
            path("data"),
        );
        write(&directory.path().join("slapd.conf"), &config);
        let ldif = format!(
            "dn: {SUFFIX}\nobjectClass: dcObject\nobjectClass: organization\no: example\ndc: example\n\n\
             dn: cn=service,{SUFFIX}\nobjectClass: organizationalRole\nobjectClass: simpleSecurityObject\n\
             cn: service\nuserPassword: service-pw\n\n{entries}"
        );
        write(&directory.path().join("entries.ldif"), &ldif);
        let filled = Command::new(program("slapadd"))
            .args(["-q", "-f", &path("slapd.conf"), "-l", &path("entries.ldif")])
            .output()
            .unwrap();
        assert!(filled.status.success(), "{}", String::from_utf8_lossy(&filled.stderr));
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o700)).unwrap();
        let (port, tls_port) = (free_port(), free_port());
        let urls = format!("ldap://127.0.0.1:{port}/ ldaps://127.0.0.1:{tls_port}/");
        let log = fs::File::create(path("log")).unwrap();
        let process = Command::new(program("slapd"))
            .args(["-d", "256", "-f", &path("slapd.conf"), "-h", &urls])
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap();
        let mut slapd = Slapd { directory, process, port, tls_port };
        let deadline = Instant::now() + Duration::from_secs(20);
        while TcpStream::connect(("127.0.0.1", tls_port)).is_err() {
            assert!(slapd.process.try_wait().unwrap().is_none() && Instant::now() < deadline, "{}", slapd.log());
            std::thread::sleep(Duration::from_millis(20));
        }
        slapd
    }

    /// What it has been asked so far.
    pub fn log(&self) -> String {
        String::from_utf8_lossy(&fs::read(self.directory.path().join("log")).unwrap()).into_owned()
    }

    /// How many binds it has been asked for, as whom.
    pub fn binds(&self, dn: &str) -> usize {
        self.log().lines().filter(|line| line.contains(&format!("BIND dn=\"{dn}\" method="))).count()
    }

    /// How many connections it has been asked for.
    pub fn connections(&self) -> usize {
        self.log().lines().filter(|line| line.contains(" ACCEPT from ")).count()
    }

    /// Kills it. Its ports are free then.
    pub fn stop(&mut self) {
        drop(self.process.kill());
        self.process.wait().unwrap();
    }
}

impl Drop for Slapd {
    fn drop(&mut self) {
        self.stop();
    }
}

/// An entry of a person of that `uid` and password below `ou`, and more lines of it.
pub fn person(ou: &str, uid: &str, password: &str, more: &str) -> String {
    format!(
        "dn: uid={uid},ou={ou},{SUFFIX}\nobjectClass: inetOrgPerson\nuid: {uid}\ncn: {uid}\nsn: {uid}\n\
         userPassword: {password}\n{more}\n"
    )
}

/// An entry below which others are.
pub fn unit(ou: &str) -> String {
    format!("dn: ou={ou},{SUFFIX}\nobjectClass: organizationalUnit\nou: {ou}\n\n")
}
