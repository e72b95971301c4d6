//! Points in time: microseconds since 1970-01-01T00:00:00Z. The clock itself is read elsewhere.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A point in time, in microseconds of UTC since 1970. The largest value is `infinity`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Timestamp(pub i64);

impl Timestamp {
    /// Later than every other point in time, as `VALID UNTIL 'infinity'` says it.
    pub const INFINITY: Timestamp = Timestamp(i64::MAX);
}

impl fmt::Display for Timestamp {
    /// As PostgreSQL prints a `timestamptz` in UTC: `2030-01-01 00:00:00+00`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Timestamp::INFINITY {
            return f.write_str("infinity");
        }
        let Ok(at) = jiff::Timestamp::from_microsecond(self.0) else {
            return write!(f, "{}us", self.0);
        };
        write!(f, "{}", at.strftime("%Y-%m-%d %H:%M:%S"))?;
        let micros = self.0.rem_euclid(1_000_000);
        if micros != 0 {
            let digits = format!("{micros:06}");
            write!(f, ".{}", digits.trim_end_matches('0'))?;
        }
        f.write_str("+00")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prints_as_postgresql_does() {
        assert_eq!(Timestamp(1_893_456_000_000_000).to_string(), "2030-01-01 00:00:00+00");
        assert_eq!(Timestamp(1_893_456_000_120_000).to_string(), "2030-01-01 00:00:00.12+00");
        assert_eq!(Timestamp::INFINITY.to_string(), "infinity");
    }
}
