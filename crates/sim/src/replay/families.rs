//! Which family each request of a trace names.

use std::fmt;

use tollgate_policy::{Matching, Profile};

use crate::trace::{Trace, TraceRow};

/// One rule; the first that fits a row gives it its family. Shares fit what no length does.
#[derive(Clone, Debug, PartialEq)]
pub struct FamilyRule {
    /// The family or explicit class.
    pub name: String,
    /// Which rows it is for.
    pub rule: Rule,
}

/// Which rows a family is given to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Rule {
    /// This part of them, as a weight beside the other shares' weights: finite, above 0.
    Share(f64),
    /// Those whose prompts are in a range of tokens, from `from` and below `to`.
    Length {
        /// The shortest.
        from: u32,
        /// The first that is too long; unset: none is.
        to: Option<u32>,
    },
}

impl Rule {
    fn fits(self, prompt_tokens: u32) -> bool {
        match self {
            Self::Share(_) => false,
            Self::Length { from, to } => {
                prompt_tokens >= from && to.is_none_or(|to| prompt_tokens < to)
            }
        }
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Share(share) => write!(f, "{share}"),
            Self::Length { from, to: None } => write!(f, "isl:{from}.."),
            Self::Length { from, to: Some(to) } => write!(f, "isl:{from}..{to}"),
        }
    }
}

/// Every name that `profile` knows with an equal share: its families in file order, then, where it
/// has none, its explicit classes.
#[must_use]
pub fn equal_shares(profile: &Profile) -> Vec<FamilyRule> {
    let share = |name: &str| FamilyRule {
        name: name.to_owned(),
        rule: Rule::Share(1.0),
    };
    let mut families: Vec<FamilyRule> = Vec::new();
    for name in profile.classes().iter().filter_map(|class| class.family()) {
        if families.iter().all(|family| family.name != name) {
            families.push(share(name));
        }
    }
    if families.is_empty() {
        families = profile
            .classes()
            .iter()
            .map(|class| share(&class.name))
            .collect();
    }
    families
}

/// Every name that a request may use: families and explicit classes.
#[must_use]
pub fn known_names(profile: &Profile) -> Vec<&str> {
    let mut names: Vec<&str> = Vec::new();
    for class in profile.classes() {
        let name = match &class.matching {
            Matching::Explicit => &class.name,
            Matching::Matrix { family, .. } => family,
        };
        if !names.contains(&&**name) {
            names.push(name);
        }
    }
    names
}

/// How rows come to their families.
#[derive(Debug)]
pub(super) struct Assignment<'a> {
    rules: &'a [FamilyRule],
    /// Rows that name a family themselves keep it.
    keeps: bool,
    /// By a hash of a column instead of by chance.
    is_by_key: bool,
    total: f64,
    state: u64,
}

impl<'a> Assignment<'a> {
    pub(super) fn new(rules: &'a [FamilyRule], keeps: bool, is_by_key: bool, seed: u64) -> Self {
        let shares = rules.iter().map(|family| share(family.rule));
        Self {
            rules,
            keeps,
            is_by_key,
            total: shares.sum(),
            state: seed,
        }
    }

    /// The family of a row; none: the policy's default.
    pub(super) fn next_family<'t>(&mut self, row: &TraceRow, trace: &'t Trace) -> Option<&'t str>
    where
        'a: 't,
    {
        let own = row.family.filter(|_| self.keeps);
        if let Some(name) = own.and_then(|place| trace.families.get(place as usize)) {
            return Some(name);
        }
        let by_length = (self.rules.iter()).find(|family| family.rule.fits(row.prompt_tokens));
        if let Some(family) = by_length {
            return Some(&family.name);
        }
        let draw = if self.is_by_key {
            mix(row.key)
        } else {
            self.state = self.state.wrapping_add(STEP);
            mix(self.state)
        };
        self.by_share(draw)
    }

    fn by_share(&self, draw: u64) -> Option<&'a str> {
        let mut rest = unit(draw) * self.total;
        let mut last = None;
        for family in self.rules {
            let share = share(family.rule);
            if share > 0.0 {
                last = Some(&*family.name);
                if rest < share {
                    break;
                }
                rest -= share;
            }
        }
        // Rounding may leave a rest; it belongs to the last.
        last
    }
}

const fn share(rule: Rule) -> f64 {
    match rule {
        Rule::Share(share) => share,
        Rule::Length { .. } => 0.0,
    }
}

/// The constants are `SplitMix64`'s (Steele, Lea, Flood 2014).
const STEP: u64 = 0x9E37_79B9_7F4A_7C15;

const fn mix(mut bits: u64) -> u64 {
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    bits ^ (bits >> 31)
}

/// Evenly from 0 (included) to 1 (excluded).
#[expect(clippy::cast_precision_loss, reason = "53 bits fit exactly")]
fn unit(bits: u64) -> f64 {
    (bits >> 11) as f64 / (1_u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use tollgate_policy::{Bucket, ClassPolicy, ProfileSpec};

    fn rules(list: &[(&str, Rule)]) -> Vec<FamilyRule> {
        let rule = |&(name, rule): &(&str, Rule)| FamilyRule {
            name: name.to_owned(),
            rule,
        };
        list.iter().map(rule).collect()
    }

    fn shares(list: &[(&str, f64)]) -> Vec<FamilyRule> {
        let list: Vec<_> = list
            .iter()
            .map(|&(n, share)| (n, Rule::Share(share)))
            .collect();
        rules(&list)
    }

    fn of(prompt_tokens: u32, key: u64) -> TraceRow {
        TraceRow {
            prompt_tokens,
            key,
            ..TraceRow::default()
        }
    }

    #[test]
    fn names_are_drawn_by_their_shares() {
        let (families, trace) = (shares(&[("a", 3.0), ("b", 1.0)]), Trace::default());
        let mut draws = Assignment::new(&families, true, false, 1);
        let is_a = |_: &u32| draws.next_family(&of(1, 0), &trace) == Some("a");
        let a = (0..100_000).filter(is_a).count();
        assert!((74_500..75_500).contains(&a), "{a} of 100000");
    }

    #[test]
    fn a_seed_is_a_sequence() {
        let (families, trace) = (shares(&[("a", 0.5), ("b", 0.5)]), Trace::default());
        let draw = |seed| {
            let mut draws = Assignment::new(&families, true, false, seed);
            let family = |_| draws.next_family(&of(1, 0), &trace).map(str::to_owned);
            (0..64).map(family).collect::<Vec<_>>()
        };
        assert_eq!(draw(7), draw(7));
        assert_ne!(draw(7), draw(8));
    }

    #[test]
    fn equal_keys_have_one_family_and_many_keys_their_shares() {
        let (families, trace) = (shares(&[("a", 3.0), ("b", 1.0)]), Trace::default());
        let mut draws = Assignment::new(&families, true, true, 1);
        let mut counts = [0, 0];
        for key in 0..10_000 {
            let family = draws.next_family(&of(1, key), &trace);
            assert_eq!(draws.next_family(&of(9, key), &trace), family);
            counts[usize::from(family == Some("b"))] += 1;
        }
        assert!((2_300..2_700).contains(&counts[1]), "{counts:?}");
    }

    #[test]
    fn lengths_come_before_shares_and_the_first_that_fits_counts() {
        let length = |from, to| Rule::Length { from, to };
        let families = rules(&[
            ("rest", Rule::Share(1.0)),
            ("short", length(0, Some(100))),
            ("long", length(1_000, None)),
            ("never", length(50, Some(60))),
        ]);
        let trace = Trace {
            families: vec!["own".to_owned()],
            ..Trace::default()
        };
        let mut draws = Assignment::new(&families, true, false, 1);
        let mut family = |tokens| draws.next_family(&of(tokens, 0), &trace);
        let names = [0, 55, 99, 100, 999, 1_000, u32::MAX].map(&mut family);
        let expected = ["short", "short", "short", "rest", "rest", "long", "long"];
        assert_eq!(names, expected.map(Some));
        let own = TraceRow {
            family: Some(0),
            ..of(1, 0)
        };
        assert_eq!(draws.next_family(&own, &trace), Some("own"));
        draws.keeps = false;
        assert_eq!(draws.next_family(&own, &trace), Some("short"));
        let nothing = Assignment::new(&[], true, false, 1).next_family(&of(1, 0), &trace);
        assert_eq!(nothing, None);
        let texts: Vec<String> = families
            .iter()
            .map(|family| family.rule.to_string())
            .collect();
        assert_eq!(texts, ["1", "isl:0..100", "isl:1000..", "isl:50..60"]);
    }

    #[test]
    fn a_policy_says_which_names_there_are() {
        let classes = vec![
            ClassPolicy::matrix("chat-short", "chat", 0, 10),
            ClassPolicy::matrix("chat-long", "chat", 1, 10),
            ClassPolicy::explicit("batch", 10),
        ];
        let buckets = vec![Bucket::new(0, "short"), Bucket::new(100, "long")];
        let profile = Profile::build(ProfileSpec::new("chat", buckets, classes)).expect("valid");
        assert_eq!(equal_shares(&profile), shares(&[("chat", 1.0)]));
        assert_eq!(known_names(&profile), ["chat", "batch"]);
        let synthetic = Profile::synthetic(None);
        assert_eq!(equal_shares(&synthetic), shares(&[("default", 1.0)]));
    }
}
