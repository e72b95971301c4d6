//! Which proof is asked of whom: an ordered list of rules, as in `pg_hba.conf`. The first that fits decides;
//! if none does, nobody gets in.
//!
//! Pure. A rule knows a client by where it comes from, whether it is encrypted, the database and the user.

use std::collections::BTreeMap;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// By what proof a client gets in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Method {
    /// None: the name is believed.
    Trust,
    /// An exchange in which the password is not sent.
    ScramSha256,
    /// The password, as it is: in TLS or on this machine only.
    Password,
    /// An md5 hash of the password, for those who still have one.
    Md5,
    /// A signed token in the place of the password.
    Jwt,
    /// The password, as a directory takes it.
    Ldap,
    /// The client's certificate.
    Cert,
    /// No proof will do.
    Reject,
}

impl Method {
    /// All of them.
    pub const ALL: [Method; 8] = [
        Method::Trust,
        Method::ScramSha256,
        Method::Password,
        Method::Md5,
        Method::Jwt,
        Method::Ldap,
        Method::Cert,
        Method::Reject,
    ];

    /// As in the file.
    pub const fn as_str(self) -> &'static str {
        match self {
            Method::Trust => "trust",
            Method::ScramSha256 => "scram-sha-256",
            Method::Password => "password",
            Method::Md5 => "md5",
            Method::Jwt => "jwt",
            Method::Ldap => "ldap",
            Method::Cert => "cert",
            Method::Reject => "reject",
        }
    }

    /// The method of that name.
    pub fn named(name: &str) -> Option<Method> {
        Method::ALL.into_iter().find(|method| method.as_str() == name)
    }
}

/// Whether a rule is for encrypted connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Encrypted or not.
    Host,
    /// Encrypted.
    HostSsl,
    /// In clear.
    HostNoSsl,
}

impl Kind {
    /// The kind of that name.
    pub fn named(name: &str) -> Option<Kind> {
        [Kind::Host, Kind::HostSsl, Kind::HostNoSsl].into_iter().find(|kind| kind.as_str() == name)
    }

    /// As in the file.
    pub const fn as_str(self) -> &'static str {
        match self {
            Kind::Host => "host",
            Kind::HostSsl => "hostssl",
            Kind::HostNoSsl => "hostnossl",
        }
    }
}

/// The addresses whose first `bits` are those of `network`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    network: IpAddr,
    bits: u8,
}

impl Network {
    /// Reads `10.0.0.0/8`, `2001:db8::/32`, or one address. The address must be the network's: one that has more
    /// bits is a slip.
    pub fn parse(text: &str) -> Option<Network> {
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits)),
            None => (text, None),
        };
        let network: IpAddr = address.parse().ok()?;
        let most = if network.is_ipv4() { 32 } else { 128 };
        let bits = match bits {
            None => most,
            Some(text) if text.bytes().all(|b| b.is_ascii_digit()) => text.parse().ok().filter(|b| *b <= most)?,
            Some(_) => return None,
        };
        (cut(network, bits) == network).then_some(Network { network, bits })
    }

    /// Whether `address` is in it. An IPv4 address that is written as one of IPv6 is one of IPv4.
    pub fn contains(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        address.is_ipv4() == self.network.is_ipv4() && cut(address, self.bits) == self.network
    }

    /// Whether all of it is this machine.
    fn is_loopback(&self) -> bool {
        match self.network {
            IpAddr::V4(address) => address.is_loopback() && self.bits >= 8,
            IpAddr::V6(address) => address.is_loopback() && self.bits == 128,
        }
    }
}

/// The first `bits` of an address, and zeros.
pub(super) fn cut(address: IpAddr, bits: u8) -> IpAddr {
    match address {
        IpAddr::V4(v4) => {
            let mask = u32::MAX.checked_shl(32 - u32::from(bits.min(32))).unwrap_or_default();
            IpAddr::V4(Ipv4Addr::from_bits(v4.to_bits() & mask))
        }
        IpAddr::V6(v6) => {
            let mask = u128::MAX.checked_shl(128 - u32::from(bits.min(128))).unwrap_or_default();
            IpAddr::V6(Ipv6Addr::from_bits(v6.to_bits() & mask))
        }
    }
}

/// Where a client comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Address {
    /// Anywhere.
    All,
    /// This machine, by a loopback address.
    Loopback,
    /// This machine, by any of its addresses.
    SameHost,
    /// A network.
    Network(Network),
}

impl Address {
    /// Reads `all`, `loopback`, `samehost` or a network.
    pub fn parse(text: &str) -> Option<Address> {
        match text {
            "all" => Some(Address::All),
            "loopback" => Some(Address::Loopback),
            "samehost" => Some(Address::SameHost),
            _ => Network::parse(text).map(Address::Network),
        }
    }

    fn fits(&self, origin: &Origin) -> bool {
        let is_loopback = origin.peer.to_canonical().is_loopback();
        match self {
            Address::All => true,
            Address::Loopback => is_loopback,
            Address::SameHost => {
                is_loopback || origin.local.is_some_and(|local| local.to_canonical() == origin.peer.to_canonical())
            }
            Address::Network(network) => network.contains(origin.peer),
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::All => f.write_str("all"),
            Address::Loopback => f.write_str("loopback"),
            Address::SameHost => f.write_str("samehost"),
            Address::Network(Network { network, bits }) => write!(f, "{network}/{bits}"),
        }
    }
}

/// Which names a rule is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Names {
    /// All.
    All,
    /// These.
    Of(Vec<String>),
}

impl Names {
    fn fit(&self, name: &str) -> bool {
        match self {
            Names::All => true,
            Names::Of(names) => names.iter().any(|n| n == name),
        }
    }
}

impl fmt::Display for Names {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Names::All => f.write_str("all"),
            Names::Of(names) => f.write_str(&names.join(",")),
        }
    }
}

/// One line of the list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Encrypted or not.
    pub kind: Kind,
    /// From where.
    pub address: Address,
    /// Into which databases (orgs).
    pub databases: Names,
    /// As whom.
    pub users: Names,
    /// By what proof.
    pub method: Method,
    /// Of `cert`: the names that a certificate's stand for. Empty: they stand for themselves.
    pub map: BTreeMap<String, Vec<String>>,
}

impl Rule {
    /// The rule for everybody.
    pub fn for_all(method: Method) -> Rule {
        Rule {
            kind: Kind::Host,
            address: Address::All,
            databases: Names::All,
            users: Names::All,
            method,
            map: BTreeMap::new(),
        }
    }

    /// Whether it can fit a client that is not on this machine.
    pub fn reaches_beyond_loopback(&self) -> bool {
        match &self.address {
            Address::All => true,
            Address::Loopback | Address::SameHost => false,
            Address::Network(network) => !network.is_loopback(),
        }
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Rule { kind, address, databases, users, method, map } = self;
        write!(f, "{} {databases} {users} {address} {}", kind.as_str(), method.as_str())?;
        if !map.is_empty() {
            write!(f, " map={}", map.len())?;
        }
        Ok(())
    }
}

/// The method's name, or the rules in order.
impl fmt::Display for Hba {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.as_slice() {
            [rule] if *rule == Rule::for_all(rule.method) => f.write_str(rule.method.as_str()),
            rules => f.write_str(&rules.iter().map(Rule::to_string).collect::<Vec<_>>().join("; ")),
        }
    }
}

/// Where a connection comes from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Origin {
    /// The client's address.
    pub(crate) peer: IpAddr,
    /// Ours, that it connected to.
    pub(crate) local: Option<IpAddr>,
    /// Whether it is encrypted.
    pub(crate) tls: bool,
}

/// The rules, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hba(Vec<Rule>);

impl Hba {
    /// These rules.
    pub fn new(rules: Vec<Rule>) -> Hba {
        Hba(rules)
    }

    /// One method for everybody.
    pub fn one(method: Method) -> Hba {
        Hba(vec![Rule::for_all(method)])
    }

    /// All rules.
    pub fn rules(&self) -> &[Rule] {
        &self.0
    }

    /// Whether a rule has this method.
    pub fn uses(&self, method: Method) -> bool {
        self.0.iter().any(|rule| rule.method == method)
    }

    /// Whether somebody could be trusted who is not on this machine.
    pub fn trusts_beyond_loopback(&self) -> bool {
        self.0.iter().any(|rule| rule.method == Method::Trust && rule.reaches_beyond_loopback())
    }

    /// Whether the user could be let in without a password of its own.
    pub fn may_do_without_password(&self, user: &str) -> bool {
        self.0.iter().filter(|rule| rule.users.fit(user)).any(|rule| match rule.method {
            Method::Trust | Method::Jwt | Method::Ldap | Method::Cert => true,
            Method::ScramSha256 | Method::Password | Method::Md5 | Method::Reject => false,
        })
    }

    /// Whether a rule looks at databases.
    pub(crate) fn names_databases(&self) -> bool {
        self.0.iter().any(|rule| rule.databases != Names::All)
    }

    /// The first rule that fits.
    pub(crate) fn find(&self, origin: &Origin, database: &str, user: &str) -> Option<&Rule> {
        self.0.iter().find(|rule| {
            let kind = match rule.kind {
                Kind::Host => true,
                Kind::HostSsl => origin.tls,
                Kind::HostNoSsl => !origin.tls,
            };
            kind && rule.address.fits(origin) && rule.databases.fit(database) && rule.users.fit(user)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(network: &str, address: &str, expected: bool) {
        let network = Network::parse(network).unwrap();
        assert_eq!(network.contains(address.parse().unwrap()), expected);
    }

    #[test]
    fn networks() {
        check("10.0.0.0/8", "10.255.0.1", true);
        check("10.0.0.0/8", "11.0.0.1", false);
        check("10.0.0.0/8", "::ffff:10.1.2.3", true);
        check("0.0.0.0/0", "192.0.2.1", true);
        check("0.0.0.0/0", "2001:db8::1", false);
        check("192.0.2.7", "192.0.2.7", true);
        check("192.0.2.7", "192.0.2.6", false);
        check("2001:db8::/32", "2001:db8:1::1", true);
        check("2001:db8::/32", "2001:db9::1", false);
        check("::/0", "::1", true);
        for bad in ["", "10.0.0.1/8", "10.0.0.0/33", "::1/129", "10.0.0.0/+8", "10.0.0.0/", "10.0.0/8", "host"] {
            assert_eq!(Network::parse(bad), None, "{bad}");
        }
    }

    fn rule(kind: Kind, address: &str, databases: &[&str], users: &[&str], method: Method) -> Rule {
        let names = |names: &[&str]| match names {
            [] => Names::All,
            some => Names::Of(some.iter().map(|n| (*n).to_owned()).collect()),
        };
        Rule {
            kind,
            address: Address::parse(address).unwrap(),
            databases: names(databases),
            users: names(users),
            method,
            map: BTreeMap::new(),
        }
    }

    #[test]
    fn the_first_that_fits_decides() {
        let hba = Hba::new(vec![
            rule(Kind::Host, "all", &[], &["mallory"], Method::Reject),
            rule(Kind::Host, "loopback", &[], &["admin"], Method::Trust),
            rule(Kind::HostSsl, "10.0.0.0/8", &["sales"], &[], Method::Cert),
            rule(Kind::HostSsl, "all", &[], &[], Method::ScramSha256),
            rule(Kind::HostNoSsl, "samehost", &[], &[], Method::Password),
        ]);
        let find = |peer: &str, tls, database: &str, user: &str| {
            let origin = Origin { peer: peer.parse().unwrap(), local: Some("192.0.2.1".parse().unwrap()), tls };
            hba.find(&origin, database, user).map(|rule| rule.method)
        };
        assert_eq!(find("127.0.0.1", false, "d", "mallory"), Some(Method::Reject));
        assert_eq!(find("127.0.0.1", false, "d", "admin"), Some(Method::Trust));
        assert_eq!(find("::ffff:127.0.0.1", false, "d", "admin"), Some(Method::Trust));
        assert_eq!(find("10.0.0.1", true, "sales", "admin"), Some(Method::Cert));
        assert_eq!(find("10.0.0.1", true, "other", "admin"), Some(Method::ScramSha256));
        assert_eq!(find("10.0.0.1", false, "sales", "admin"), None);
        assert_eq!(find("192.0.2.1", false, "d", "a"), Some(Method::Password));
        assert_eq!(find("192.0.2.2", false, "d", "a"), None);
        assert_eq!(find("127.0.0.1", false, "d", "Admin"), Some(Method::Password));
    }

    #[test]
    fn what_is_beyond_loopback() {
        let beyond = |address| rule(Kind::Host, address, &[], &[], Method::Trust).reaches_beyond_loopback();
        for here in ["loopback", "samehost", "127.0.0.0/8", "127.0.0.1", "::1"] {
            assert!(!beyond(here), "{here}");
        }
        for there in ["all", "0.0.0.0/0", "10.0.0.0/8", "::/0", "::/127"] {
            assert!(beyond(there), "{there}");
        }
    }
}
