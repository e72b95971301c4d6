//! A length of time, as PostgreSQL reads an interval of fixed units: `90 minutes`, `1 day 2 hours`, `01:30:00`.
//!
//! Units whose length depends on the calendar (months, years), fractions, negative parts and `ago` are left out:
//! what is meant by them is not said by their length.

use dataglot_model::{Span, SqlState};

use crate::SyntaxError;

/// What is wrong with an interval. Never holds its text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BadInterval {
    /// It is none, or not one of these.
    Form,
    /// It has a unit of no fixed length.
    Calendar,
    /// It is too long to be counted.
    Range,
}

impl BadInterval {
    /// As an error at its place.
    pub(crate) fn at(self, span: Span) -> SyntaxError {
        let (sqlstate, message) = match self {
            BadInterval::Form => (SqlState::InvalidDatetimeFormat, "invalid input syntax for type interval"),
            BadInterval::Calendar => {
                (SqlState::InvalidParameterValue, "an interval in months or years has no fixed length")
            }
            BadInterval::Range => (SqlState::InvalidParameterValue, "interval out of range"),
        };
        SyntaxError::invalid(sqlstate, message, span)
            .with_hint("Write it in weeks, days, hours, minutes and seconds: '1 day 2 hours'.")
    }
}

/// Its length in seconds.
pub(crate) fn seconds(text: &str) -> Result<u64, BadInterval> {
    let words = words(text)?;
    let mut words = words.iter().copied().peekable();
    let mut total = 0u64;
    let mut any = false;
    while let Some(word) = words.next() {
        let part = if word.contains(':') {
            clock(word)?
        } else {
            let count = number(word)?;
            // A last number without a unit counts seconds.
            let unit = words.next().map_or(if any { Err(BadInterval::Form) } else { Ok(1) }, unit)?;
            count.checked_mul(unit).ok_or(BadInterval::Range)?
        };
        total = total.checked_add(part).ok_or(BadInterval::Range)?;
        any = true;
    }
    if any { Ok(total) } else { Err(BadInterval::Form) }
}

/// Its numbers, units and times of day: a unit need not be apart from its number.
fn words(text: &str) -> Result<Vec<&str>, BadInterval> {
    let mut words = Vec::new();
    for word in text.split_ascii_whitespace() {
        let at = word.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(word.len());
        let (digits, unit) = word.split_at_checked(at).ok_or(BadInterval::Form)?;
        words.extend([digits, unit].into_iter().filter(|w| !w.is_empty()));
    }
    Ok(words)
}

fn number(digits: &str) -> Result<u64, BadInterval> {
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return Err(BadInterval::Form);
    }
    digits.parse().map_err(|_| BadInterval::Range)
}

/// The seconds of a unit.
fn unit(word: &str) -> Result<u64, BadInterval> {
    match word.to_ascii_lowercase().as_str() {
        "s" | "sec" | "secs" | "second" | "seconds" => Ok(1),
        "m" | "min" | "mins" | "minute" | "minutes" => Ok(60),
        "h" | "hr" | "hrs" | "hour" | "hours" => Ok(60 * 60),
        "d" | "day" | "days" => Ok(24 * 60 * 60),
        "w" | "week" | "weeks" => Ok(7 * 24 * 60 * 60),
        "mon" | "mons" | "month" | "months" | "y" | "yr" | "yrs" | "year" | "years" | "dec" | "decade" | "decades"
        | "c" | "cent" | "century" | "centuries" | "mil" | "mils" | "millennium" | "millennia" => {
            Err(BadInterval::Calendar)
        }
        _ => Err(BadInterval::Form),
    }
}

/// `HH:MM` or `HH:MM:SS`
fn clock(word: &str) -> Result<u64, BadInterval> {
    let mut parts = word.split(':');
    let hours = number(parts.next().unwrap_or_default())?;
    let mut total = hours.checked_mul(60 * 60).ok_or(BadInterval::Range)?;
    let (minutes, seconds) = (parts.next().unwrap_or_default(), parts.next());
    for (digits, unit) in [(Some(minutes), 60), (seconds, 1)] {
        let Some(digits) = digits else { continue };
        let count = number(digits)?;
        if count >= 60 {
            return Err(BadInterval::Form);
        }
        total = total.checked_add(count * unit).ok_or(BadInterval::Range)?;
    }
    if parts.next().is_some() { Err(BadInterval::Form) } else { Ok(total) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_postgresql_reads() {
        for (text, expected) in [
            ("90 minutes", Ok(5400)),
            ("1 hour", Ok(3600)),
            ("1 day 2 hours", Ok(93_600)),
            ("1d 2h", Ok(93_600)),
            ("  1   WEEK ", Ok(604_800)),
            ("90", Ok(90)),
            ("1 day 02:03", Ok(93_780)),
            ("26:00:01", Ok(93_601)),
            ("0 seconds", Ok(0)),
            ("2 days 3 days", Ok(432_000)),
            ("", Err(BadInterval::Form)),
            ("hour", Err(BadInterval::Form)),
            ("-1 hour", Err(BadInterval::Form)),
            ("1 hour ago", Err(BadInterval::Form)),
            ("1.5 hours", Err(BadInterval::Form)),
            ("1 hour 5", Err(BadInterval::Form)),
            ("01:60", Err(BadInterval::Form)),
            ("1:2:3:4", Err(BadInterval::Form)),
            ("1:", Err(BadInterval::Form)),
            ("1 fortnight", Err(BadInterval::Form)),
            ("\u{663} hours", Err(BadInterval::Form)),
            ("1 month", Err(BadInterval::Calendar)),
            ("99999999999999999999 s", Err(BadInterval::Range)),
            ("9999999999999999999 weeks", Err(BadInterval::Range)),
        ] {
            assert_eq!(seconds(text), expected, "{text}");
        }
    }
}
