//! Egress groups: how endpoint numbers fall into them (S5.1).
//!
//! A worker's group follows from its id. Numbers are given out so that a number's low bits name its
//! group: with the groups rounded up to a power of two, each word of 64 endpoints holds the members
//! of a group at the same places, and one word says which endpoints a shut group keeps out, whatever
//! their number.

use crate::{Capacities, WorkerId};

/// The layout of endpoint numbers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Groups {
    count: u16,
    /// The groups, rounded up to a power of two, are `1 << shift`.
    shift: u32,
    per_group: u32,
}

impl Groups {
    /// The layout of capacities within their ranges.
    pub(crate) const fn new(capacities: &Capacities) -> Self {
        Self {
            count: capacities.egress_groups,
            shift: capacities.egress_groups.next_power_of_two().ilog2(),
            per_group: capacities.endpoints_per_egress_group(),
        }
    }

    /// Groups, rounded up to a power of two: the width of tables by group.
    #[inline]
    pub(crate) const fn stride(self) -> usize {
        1 << self.shift
    }

    #[inline]
    pub(crate) const fn shift(self) -> u32 {
        self.shift
    }

    /// Whether there is more than one.
    #[inline]
    pub(crate) const fn are_many(self) -> bool {
        self.shift > 0
    }

    /// How many numbers a group has.
    pub(crate) const fn per_group(self) -> u32 {
        self.per_group
    }

    /// All numbers are below this.
    pub(crate) const fn numbers(self) -> usize {
        (self.per_group as usize) << self.shift
    }

    /// The group of a worker.
    #[expect(clippy::cast_possible_truncation, reason = "below a u16")]
    pub(crate) const fn of_worker(self, id: WorkerId) -> usize {
        (id.0 % self.count as u64) as usize
    }

    /// The group of an endpoint number.
    #[inline]
    pub(crate) const fn of(self, number: u32) -> usize {
        number as usize & (self.stride() - 1)
    }

    /// A number's place among those of its group.
    #[inline]
    pub(crate) const fn place(self, number: u32) -> u32 {
        number >> self.shift
    }

    /// Where the members of a group stand in each word of 64 endpoints.
    pub(crate) const fn word(self, group: usize) -> u64 {
        (u64::MAX / (u64::MAX >> (64 - self.stride()))) << group
    }
}

#[cfg(test)]
mod tests {
    use super::Groups;
    use crate::Capacities;

    #[test]
    fn a_number_stands_where_its_groups_word_says() {
        for egress_groups in [1, 2, 3, 4, 7, 16, 33, 64] {
            let groups = Groups::new(&Capacities {
                egress_groups,
                endpoints: 500,
                ..Capacities::default()
            });
            for number in 0..u32::try_from(groups.numbers()).expect("few") {
                for group in 0..groups.stride() {
                    let member = groups.word(group) >> (number % 64) & 1 != 0;
                    assert_eq!(member, groups.of(number) == group);
                }
                assert!(groups.place(number) < groups.per_group());
            }
        }
    }
}
