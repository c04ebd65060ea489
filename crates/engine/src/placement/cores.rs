//! Cores and sets of cores, as numbers and as text.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

/// How many characters of a wrong list are kept for the message.
const ECHO_CHARS_MAX: usize = 32;

/// A logical core (a hardware thread, where cores have several), by the system's number, from 0.
///
/// ```
/// # use tollgate::placement::CoreId;
/// assert_eq!(CoreId(5).to_string(), "5");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CoreId(pub u16);

impl fmt::Display for CoreId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A set of cores.
///
/// As text it is the kernel's list of numbers and ranges, in order: `0-3,8`. An empty set is
/// written `none`, and read from an empty text.
///
/// ```
/// # use tollgate::placement::{CoreId, CoreSet};
/// let cores: CoreSet = "8,0-3".parse()?;
/// assert_eq!(cores.len(), 5);
/// assert!(cores.contains(CoreId(2)) && !cores.contains(CoreId(4)));
/// assert_eq!(cores.to_string(), "0-3,8");
/// # Ok::<(), tollgate::placement::CoreListError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct CoreSet(BTreeSet<CoreId>);

impl CoreSet {
    /// Whether a core is in the set; O(log cores).
    #[must_use]
    pub fn contains(&self, core: CoreId) -> bool {
        self.0.contains(&core)
    }

    /// How many cores there are, 0 to 65,536.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The cores in rising order.
    ///
    /// ```
    /// # use tollgate::placement::{CoreId, CoreSet};
    /// let cores: CoreSet = [CoreId(4), CoreId(1), CoreId(4)].into_iter().collect();
    /// assert!(cores.iter().eq([CoreId(1), CoreId(4)]));
    /// ```
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = CoreId> {
        self.0.iter().copied()
    }

    /// The cores that are in this set or in the other.
    pub(super) fn union(&self, other: &Self) -> Self {
        Self(&self.0 | &other.0)
    }

    /// The cores that are in this set and in the other.
    pub(super) fn intersection(&self, other: &Self) -> Self {
        Self(&self.0 & &other.0)
    }

    /// The cores that are in this set and not in the other.
    pub(super) fn difference(&self, other: &Self) -> Self {
        Self(&self.0 - &other.0)
    }
}

impl FromIterator<CoreId> for CoreSet {
    fn from_iter<I: IntoIterator<Item = CoreId>>(cores: I) -> Self {
        Self(cores.into_iter().collect())
    }
}

impl fmt::Display for CoreSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut cores = self.iter().map(|core| core.0).peekable();
        if cores.peek().is_none() {
            return f.write_str("none");
        }
        let mut separator = "";
        while let Some(first) = cores.next() {
            let mut last = first;
            while let Some(next) = cores.next_if(|&core| core - last == 1) {
                last = next;
            }
            write!(f, "{separator}{first}")?;
            if last > first {
                write!(f, "-{last}")?;
            }
            separator = ",";
        }
        Ok(())
    }
}

/// A text is not a list of cores.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{part:?} is neither a core from 0 to 65535 nor a rising range of cores such as 0-3")]
pub struct CoreListError {
    /// The first part between commas that is wrong; at most 32 characters of it.
    pub part: String,
}

impl FromStr for CoreSet {
    type Err = CoreListError;

    /// Reads a list as the kernel writes it: numbers and ranges with commas between them, and a line
    /// end. Parts may overlap and come in any order; white space around them is skipped.
    ///
    /// ```
    /// # use tollgate::placement::CoreSet;
    /// let error = "0-3,9-5".parse::<CoreSet>().unwrap_err();
    /// assert_eq!(error.part, "9-5");
    /// ```
    fn from_str(list: &str) -> Result<Self, CoreListError> {
        if list.trim().is_empty() {
            return Ok(Self::default());
        }
        let mut cores = BTreeSet::new();
        for part in list.split(',').map(str::trim) {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            match (core_number(first), core_number(last)) {
                (Some(first), Some(last)) if first <= last => {
                    cores.extend((first..=last).map(CoreId));
                }
                _ => {
                    let part = part.chars().take(ECHO_CHARS_MAX).collect();
                    return Err(CoreListError { part });
                }
            }
        }
        Ok(Self(cores))
    }
}

/// A number of digits alone; the standard parser would take a sign as well.
fn core_number(text: &str) -> Option<u16> {
    let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| is_number)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(list: &str) -> Vec<u16> {
        let cores: CoreSet = list.parse().expect("a list");
        cores.iter().map(|core| core.0).collect()
    }

    #[test]
    fn lists_are_read_as_the_kernel_writes_them() {
        assert_eq!(numbers("0\n"), [0]);
        assert_eq!(numbers("0-3,8\n"), [0, 1, 2, 3, 8]);
        assert_eq!(numbers("8,2-2, 0-1 ,1"), [0, 1, 2, 8]);
        assert_eq!(numbers("65534-65535"), [65534, 65535]);
        assert_eq!(numbers("0-65535").len(), 65536);
        for empty in ["", "\n", "  "] {
            assert_eq!(numbers(empty), [0; 0], "{empty:?}");
        }
    }

    #[test]
    fn what_is_no_list_is_refused_with_the_part_that_is_wrong() {
        let wrong = [
            ("(null)", "(null)"),
            ("0-", "0-"),
            ("-3", "-3"),
            ("+3", "+3"),
            ("0-+3", "0-+3"),
            ("3-1", "3-1"),
            ("1,,2", ""),
            ("1,", ""),
            ("0-3-5", "0-3-5"),
            ("0,65536", "65536"),
            ("0 1", "0 1"),
            ("0-15:1/2", "0-15:1/2"),
        ];
        for (list, part) in wrong {
            let error = list.parse::<CoreSet>().expect_err(list);
            assert_eq!(error.part, part, "{list}");
        }
        let long = "x".repeat(1_000).parse::<CoreSet>().expect_err("letters");
        assert_eq!(long.part.len(), ECHO_CHARS_MAX);
        assert_eq!(
            CoreListError { part: "3-1".into() }.to_string(),
            "\"3-1\" is neither a core from 0 to 65535 nor a rising range of cores such as 0-3"
        );
    }

    /// All sets of ten neighbours, at the lower and at the upper end of the numbers.
    #[test]
    fn every_set_is_read_back_from_its_text() {
        for offset in [0, u16::MAX - 9] {
            for bits in 1..1 << 10 {
                let members = (0..10).filter(|bit| bits >> bit & 1 == 1);
                let cores: CoreSet = members.map(|bit| CoreId(offset + bit)).collect();
                let text = cores.to_string();
                assert_eq!(text.parse(), Ok(cores), "{text}");
            }
        }
        assert_eq!(CoreSet::default().to_string(), "none");
    }

    #[test]
    fn ranges_are_as_long_as_they_can_be() {
        for list in ["0", "0-1", "0-3,8", "0,2,4-6,65535"] {
            let cores: CoreSet = list.parse().expect("a list");
            assert_eq!(cores.to_string(), list);
        }
    }
}
