//! The names of the choices in a policy file, in both directions.

use std::fmt;
use std::str::FromStr;

use crate::profile::{Arbitration, OrderPolicy, OverloadAction, SelectorKind};

/// A choice that does not exist, as a program's flag or file might ask for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not one of {}", known.join(", "))]
pub struct UnknownName {
    known: &'static [&'static str],
}

impl UnknownName {
    /// The names that exist.
    #[must_use]
    pub fn known(&self) -> &'static [&'static str] {
        self.known
    }
}

/// A type whose values a policy file names.
pub(crate) trait Choice: Copy + Default + 'static {
    /// Every value beside its name at the same index.
    const VALUES: &'static [Self];
    /// Every name.
    const NAMES: &'static [&'static str];

    /// The value of that name.
    fn named(name: &str) -> Option<Self> {
        let index = Self::NAMES.iter().position(|known| *known == name)?;
        Some(Self::VALUES[index])
    }
}

macro_rules! choice {
    ($choice:ident { $($value:ident = $name:literal),+ $(,)? }) => {
        impl Choice for $choice {
            const VALUES: &'static [Self] = &[$(Self::$value),+];
            const NAMES: &'static [&'static str] = &[$($name),+];
        }

        impl $choice {
            /// The name that a policy file uses.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$value => $name),+
                }
            }
        }

        impl fmt::Display for $choice {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(self.name())
            }
        }

        impl FromStr for $choice {
            type Err = UnknownName;

            /// Reads the name that a policy file uses; case matters.
            ///
            /// # Errors
            /// [`UnknownName`], which lists the names that exist.
            fn from_str(name: &str) -> Result<Self, UnknownName> {
                Self::named(name).ok_or(UnknownName { known: Self::NAMES })
            }
        }
    };
}

choice!(OrderPolicy { Fcfs = "fcfs", Wspt = "wspt", Lcfs = "lcfs", Edf = "edf" });
choice!(Arbitration { Exact = "exact", Page = "page" });
choice!(OverloadAction { Fail = "fail", Hold = "hold" });
choice!(SelectorKind {
    Cost = "cost",
    LeastLoaded = "least_loaded",
    RoundRobin = "round_robin",
    PowerOfTwo = "power_of_two",
});

#[cfg(test)]
mod tests {
    use super::*;

    fn reads_what_it_prints<C: Choice + fmt::Display + PartialEq + fmt::Debug>() {
        for (value, name) in C::VALUES.iter().zip(C::NAMES) {
            assert_eq!(value.to_string(), *name);
            assert_eq!(C::named(name), Some(*value));
            assert_eq!(C::named(&name.to_uppercase()), None);
        }
        assert!(C::VALUES.contains(&C::default()));
    }

    #[test]
    fn every_choice_reads_what_it_prints() {
        reads_what_it_prints::<OrderPolicy>();
        reads_what_it_prints::<Arbitration>();
        reads_what_it_prints::<OverloadAction>();
        reads_what_it_prints::<SelectorKind>();
    }

    #[test]
    fn an_unknown_name_lists_the_known_ones() {
        let error = "fifo".parse::<OrderPolicy>().expect_err("no such order");
        assert_eq!(error.to_string(), "not one of fcfs, wspt, lcfs, edf");
    }
}
