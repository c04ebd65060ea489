//! Which family each request of a trace names.

use tollgate_policy::{Matching, Profile};

/// A family or explicit class, and how much of the traffic names it.
#[derive(Clone, Debug, PartialEq)]
pub struct FamilyShare {
    /// The name.
    pub name: String,
    /// Its part of the requests, as a weight beside the other families' weights: finite, above 0.
    pub share: f64,
}

/// Every name that `profile` knows with an equal share: its families in file order, then, where it
/// has none, its explicit classes.
#[must_use]
pub fn equal_shares(profile: &Profile) -> Vec<FamilyShare> {
    let share = |name: &str| FamilyShare {
        name: name.to_owned(),
        share: 1.0,
    };
    let mut families: Vec<FamilyShare> = Vec::new();
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

/// Draws names by their shares; the same seed gives the same sequence.
#[derive(Debug)]
pub(super) struct Draws<'a> {
    families: &'a [FamilyShare],
    total: f64,
    state: u64,
}

impl<'a> Draws<'a> {
    /// `families` must not be empty.
    pub(super) fn new(families: &'a [FamilyShare], seed: u64) -> Self {
        let total = families.iter().map(|family| family.share).sum();
        Self {
            families,
            total,
            state: seed,
        }
    }

    pub(super) fn next_family(&mut self) -> &'a str {
        let mut rest = self.next_unit() * self.total;
        for family in self.families {
            if rest < family.share {
                return &family.name;
            }
            rest -= family.share;
        }
        // Rounding may leave a rest; it belongs to the last.
        &self.families[self.families.len() - 1].name
    }

    /// Evenly from 0 (included) to 1 (excluded), by SplitMix64 (Steele, Lea, Flood 2014).
    #[expect(clippy::cast_precision_loss, reason = "53 bits fit exactly")]
    fn next_unit(&mut self) -> f64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut bits = self.state;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        bits ^= bits >> 31;
        (bits >> 11) as f64 / (1_u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tollgate_policy::{Bucket, ClassPolicy, ProfileSpec};

    fn shares(list: &[(&str, f64)]) -> Vec<FamilyShare> {
        let share = |&(name, share): &(&str, f64)| FamilyShare {
            name: name.to_owned(),
            share,
        };
        list.iter().map(share).collect()
    }

    #[test]
    fn names_are_drawn_by_their_shares() {
        let families = shares(&[("a", 3.0), ("b", 1.0)]);
        let mut draws = Draws::new(&families, 1);
        let a = (0..100_000).filter(|_| draws.next_family() == "a").count();
        assert!((74_500..75_500).contains(&a), "{a} of 100000");
    }

    #[test]
    fn a_seed_is_a_sequence() {
        let families = shares(&[("a", 0.5), ("b", 0.5)]);
        let draw = |seed| {
            let mut draws = Draws::new(&families, seed);
            (0..64).map(|_| draws.next_family()).collect::<Vec<_>>()
        };
        assert_eq!(draw(7), draw(7));
        assert_ne!(draw(7), draw(8));
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
