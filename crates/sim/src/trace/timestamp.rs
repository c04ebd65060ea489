//! Time stamps of trace files, as nanoseconds since 1970.

use tollgate_arbiter::Nanos;

const NANOS_PER_SECOND: u64 = 1_000_000_000;
const FORM: &str = "a time stamp like 2023-11-16 18:17:03.9799600";

/// Reads `YYYY-MM-DD HH:MM:SS`, `T` in place of the blank, then up to nine decimals of the second,
/// then `Z` or an offset like `+00:00` if there is one. Years 1970 to 2500.
pub(crate) fn parse(text: &str) -> Result<Nanos, String> {
    let wrong = || format!("{text:?} is not {FORM}");
    let (date, rest) = text.split_once([' ', 'T']).ok_or_else(wrong)?;
    let (time, offset_minutes) = split_offset(rest).ok_or_else(wrong)?;
    let days = days_since_1970(date).ok_or_else(wrong)?;
    let (seconds, nanos) = time_of_day(time).ok_or_else(wrong)?;
    let seconds = i64::try_from(days * 86_400 + seconds).map_err(|_| wrong())?;
    let utc = u64::try_from(seconds - offset_minutes * 60).map_err(|_| wrong())?;
    Ok(Nanos(utc * NANOS_PER_SECOND + nanos))
}

/// The time of day, and the offset from UTC in minutes.
fn split_offset(text: &str) -> Option<(&str, i64)> {
    if let Some(time) = text.strip_suffix('Z') {
        return Some((time, 0));
    }
    let Some(at) = text.find(['+', '-']) else {
        return Some((text, 0));
    };
    let (time, offset) = text.split_at(at);
    let (sign, offset) = offset.split_at(1);
    let (hours, minutes) = offset.split_once(':')?;
    let total = number(hours, 2, 0..=23)? * 60 + number(minutes, 2, 0..=59)?;
    let total = i64::try_from(total).ok()?;
    Some((time, if sign == "-" { -total } else { total }))
}

fn days_since_1970(date: &str) -> Option<u64> {
    let mut parts = date.split('-');
    let year = number(parts.next()?, 4, 1970..=2500)?;
    let month = number(parts.next()?, 2, 1..=12)?;
    let day = number(parts.next()?, 2, 1..=days_in_month(year, month))?;
    if parts.next().is_some() {
        return None;
    }
    let leap_days = |year: u64| year / 4 - year / 100 + year / 400;
    let years = (year - 1970) * 365 + leap_days(year - 1) - leap_days(1969);
    let months: u64 = (1..month).map(|month| days_in_month(year, month)).sum();
    Some(years + months + day - 1)
}

const fn days_in_month(year: u64, month: u64) -> u64 {
    let leap = (year.is_multiple_of(4) && !year.is_multiple_of(100)) || year.is_multiple_of(400);
    match month {
        4 | 6 | 9 | 11 => 30,
        2 if leap => 29,
        2 => 28,
        _ => 31,
    }
}

/// Whole seconds of the day and nanoseconds of the second.
fn time_of_day(time: &str) -> Option<(u64, u64)> {
    let (clock, decimals) = time
        .split_once('.')
        .map_or((time, None), |(a, b)| (a, Some(b)));
    let mut parts = clock.split(':');
    let hours = number(parts.next()?, 2, 0..=23)?;
    let minutes = number(parts.next()?, 2, 0..=59)?;
    let seconds = number(parts.next()?, 2, 0..=59)?;
    if parts.next().is_some() {
        return None;
    }
    let nanos = match decimals {
        None => 0,
        Some(digits) if (1..=9).contains(&digits.len()) => {
            let scale = u32::try_from(9 - digits.len()).ok()?;
            number(digits, digits.len(), 0..=NANOS_PER_SECOND - 1)? * 10_u64.pow(scale)
        }
        Some(_) => return None,
    };
    Some((hours * 3_600 + minutes * 60 + seconds, nanos))
}

/// Exactly `digits` decimal digits, nothing else, within `range`.
fn number(text: &str, digits: usize, range: std::ops::RangeInclusive<u64>) -> Option<u64> {
    if text.len() != digits || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    text.parse().ok().filter(|value| range.contains(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nanos(text: &str) -> u64 {
        parse(text).expect("a time stamp").0
    }

    #[test]
    fn known_moments() {
        assert_eq!(nanos("1970-01-01 00:00:00"), 0);
        assert_eq!(nanos("1970-01-01 00:00:01.5"), 1_500_000_000);
        assert_eq!(nanos("2000-03-01 00:00:00"), 951_868_800 * NANOS_PER_SECOND);
        assert_eq!(
            nanos("2023-11-16 18:17:03.9799600"),
            1_700_158_623_979_960_000
        );
        assert_eq!(
            nanos("2024-02-29T23:59:59.000000001Z"),
            1_709_251_199_000_000_001
        );
        assert_eq!(
            nanos("2024-05-10 02:00:00.25+02:00"),
            nanos("2024-05-10 00:00:00.250")
        );
        assert_eq!(
            nanos("2024-05-10 00:00:00-00:30"),
            nanos("2024-05-10 00:30:00")
        );
    }

    #[test]
    fn what_is_no_moment_is_refused() {
        for text in [
            "",
            "TIMESTAMP",
            "1700158623",
            "2023-11-16",
            "2023-11-16 18:17",
            "2023-02-29 00:00:00",
            "2100-02-29 00:00:00",
            "2023-13-01 00:00:00",
            "2023-00-01 00:00:00",
            "2023-11-31 00:00:00",
            "1969-12-31 23:59:59",
            "9999-01-01 00:00:00",
            "2023-11-16 24:00:00",
            "2023-11-16 18:17:60",
            "2023-11-16 18:17:03.",
            "2023-11-16 18:17:03.1234567890",
            "2023-11-16 18:17:03.12x",
            "2023-11-16 -1:17:03",
            "1970-01-01 00:00:00+00:01",
            "2023-11-16 18:17:03+2",
            "2023-11-16 18:17:03 UTC",
        ] {
            let error = parse(text).expect_err(text);
            assert!(error.contains("is not a time stamp like"), "{error}");
        }
    }
}
