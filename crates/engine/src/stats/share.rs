//! How much service each class got while it was backlogged, and how much it was entitled to.
//!
//! The two numbers answer the operator's question: does a class that always has work get the part
//! that its quantum promises (S6.4)? A class that is idle now and then cannot be judged by its total
//! alone, so time is cut into the intervals between two publications of the core. In an interval,
//! the classes that wait at both of its ends are *backlogged*. What they were charged in it is one
//! pool: each of them was served its own part of the pool, and was entitled to the part of the pool
//! that its quantum is of their quanta.
//!
//! # Invariants
//! - I1. Over all classes, the entitled tokens add up to the served ones, up to one token for each
//!   class: fractions of tokens are kept, and so is what a division leaves. (For quanta that add up
//!   to more than 2^64, up to one token more for each multiple of it.)
//! - I2. A dispatch that is withdrawn (S9.4) counts once, however often it is repeated: only charges
//!   above a class's highest total so far are new.

use super::Share;

/// The fractional bits of a token.
const FRACTION: u32 = 64;

/// What [`Shares::step`] wants to know of a class at the end of an interval.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Backlog {
    /// Waiting requests.
    pub(crate) waiting: u64,
    /// Uncached tokens charged so far.
    pub(crate) charged_tokens: u64,
    /// The class's quantum, in uncached tokens; not 0 while requests wait.
    pub(crate) quantum: u64,
}

/// The shares of all classes of a model.
#[derive(Debug)]
pub(crate) struct Shares {
    classes: Box<[ClassShare]>,
    /// What the last division left of the pool, in 2^-64 tokens; part of the next pool.
    left: u128,
}

#[derive(Clone, Copy, Debug, Default)]
struct ClassShare {
    /// The highest charge so far.
    charged_tokens: u64,
    /// Requests waited at the end of the last interval.
    waited: bool,
    /// It is backlogged in the interval at hand.
    backlogged: bool,
    served_tokens: u64,
    /// In 2^-64 tokens.
    entitled: u128,
}

impl Shares {
    /// The shares of up to `classes_max` classes, all 0.
    pub(crate) fn new(classes_max: usize) -> Self {
        Self {
            classes: vec![ClassShare::default(); classes_max].into(),
            left: 0,
        }
    }

    /// Ends an interval, given every class by its place in the arbiter's tables; a place without a
    /// class is [`Backlog::default`].
    ///
    /// # Panics
    /// If there are more classes than `classes_max`.
    ///
    /// # Complexity
    /// O(classes), with one division; no allocation.
    pub(crate) fn step(&mut self, classes: &[Backlog]) {
        assert!(classes.len() <= self.classes.len(), "more than classes_max");
        let mut pool = 0_u64;
        let mut quanta = 0_u128;
        for (share, now) in self.classes.iter_mut().zip(classes) {
            let charged = now.charged_tokens.saturating_sub(share.charged_tokens);
            share.charged_tokens += charged;
            let waits = now.waiting > 0;
            share.backlogged = waits && share.waited;
            share.waited = waits;
            if share.backlogged {
                debug_assert!(now.quantum > 0, "a class without a quantum waits");
                share.served_tokens = share.served_tokens.saturating_add(charged);
                pool = pool.saturating_add(charged);
                quanta += u128::from(now.quantum);
            }
        }
        if quanta == 0 {
            return;
        }
        let pool = (u128::from(pool) << FRACTION).saturating_add(self.left);
        let each = pool / quanta;
        self.left = pool % quanta;
        for (share, now) in self.classes.iter_mut().zip(classes) {
            if share.backlogged {
                // No overflow: the quantum is one of the quanta that `each` was divided by.
                let part = each * u128::from(now.quantum);
                share.entitled = share.entitled.saturating_add(part);
            }
        }
    }

    /// What the class at `place` has got so far.
    ///
    /// # Panics
    /// If there is no such place.
    pub(crate) fn of(&self, place: usize) -> Share {
        let share = &self.classes[place];
        Share {
            served_tokens: share.served_tokens,
            entitled_tokens: u64::try_from(share.entitled >> FRACTION)
                .expect("64 of 128 bits are left"),
        }
    }

    /// Another class takes `place`: it starts at 0.
    ///
    /// # Panics
    /// If there is no such place.
    pub(crate) fn forget(&mut self, place: usize) {
        self.classes[place] = ClassShare::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waits(charged_tokens: u64, quantum: u64) -> Backlog {
        Backlog {
            waiting: 1,
            charged_tokens,
            quantum,
        }
    }

    fn idle(charged_tokens: u64, quantum: u64) -> Backlog {
        Backlog {
            waiting: 0,
            charged_tokens,
            quantum,
        }
    }

    fn share(served_tokens: u64, entitled_tokens: u64) -> Share {
        Share {
            served_tokens,
            entitled_tokens,
        }
    }

    #[test]
    fn quanta_of_three_to_one_entitle_to_three_to_one() {
        let mut shares = Shares::new(2);
        shares.step(&[waits(0, 3), waits(0, 1)]);
        shares.step(&[waits(300, 3), waits(100, 1)]);
        assert_eq!(shares.of(0), share(300, 300));
        assert_eq!(shares.of(1), share(100, 100));
        // The second class takes more than its part of the next 400.
        shares.step(&[waits(500, 3), waits(300, 1)]);
        assert_eq!(shares.of(0), share(500, 600));
        assert_eq!(shares.of(1), share(300, 200));
    }

    #[test]
    fn a_class_counts_only_while_it_waits_at_both_ends() {
        let mut shares = Shares::new(3);
        shares.step(&[waits(0, 1), waits(0, 1), idle(0, 2)]);
        // The third is idle, the second becomes idle: all of the pool is the first one's.
        shares.step(&[waits(10, 1), idle(70, 1), idle(500, 2)]);
        assert_eq!(shares.of(0), share(10, 10));
        assert_eq!(shares.of(1), share(0, 0));
        // The second comes back at the end of the interval: not yet.
        shares.step(&[waits(20, 1), waits(90, 1), waits(600, 2)]);
        assert_eq!(shares.of(0), share(20, 20));
        assert_eq!(shares.of(1), share(0, 0));
        // All wait at both ends: 40 tokens by 1 : 1 : 2.
        shares.step(&[waits(40, 1), waits(90, 1), waits(620, 2)]);
        assert_eq!(shares.of(0), share(40, 30));
        assert_eq!(shares.of(1), share(0, 10));
        assert_eq!(shares.of(2), share(20, 20));
    }

    #[test]
    fn nobody_is_entitled_while_nobody_is_backlogged() {
        let mut shares = Shares::new(1);
        shares.step(&[idle(0, 5)]);
        shares.step(&[idle(1_000, 5)]);
        shares.step(&[waits(2_000, 5)]);
        assert_eq!(shares.of(0), share(0, 0));
    }

    #[test]
    fn fractions_of_equal_classes_are_carried() {
        let mut shares = Shares::new(3);
        let mut rows = [waits(0, 7); 3];
        shares.step(&rows);
        // One token in each interval, by turns.
        for token in 0..3_000 {
            rows[token % 3].charged_tokens += 1;
            shares.step(&rows);
        }
        for place in 0..3 {
            let share = shares.of(place);
            assert_eq!(share.served_tokens, 1_000);
            assert!((999..=1_000).contains(&share.entitled_tokens), "{share:?}");
        }
    }

    #[test]
    fn i1_entitled_adds_up_to_served_in_random_runs() {
        let mut word = 1_u64;
        let mut next = || {
            word ^= word << 13;
            word ^= word >> 7;
            word ^= word << 17;
            word
        };
        for quantum_bits in [1, 4, 12, 33, 60] {
            let mut shares = Shares::new(5);
            let mut rows = [0; 5].map(|_| waits(0, 1 + (next() >> (64 - quantum_bits))));
            for _ in 0..20_000 {
                for row in &mut rows {
                    row.waiting = u64::from(next() % 4 > 0);
                    row.charged_tokens += next() % 1_000;
                }
                shares.step(&rows);
            }
            let served: u64 = (0..5).map(|place| shares.of(place).served_tokens).sum();
            let entitled: u64 = (0..5).map(|place| shares.of(place).entitled_tokens).sum();
            assert!(served > 10_000_000);
            assert!(
                entitled <= served && served - entitled <= 5,
                "{quantum_bits}: {entitled} {served}"
            );
        }
    }

    #[test]
    fn the_largest_quanta_and_charges_do_not_wrap() {
        let mut shares = Shares::new(4);
        shares.step(&[waits(0, 1 << 63); 4]);
        shares.step(&[waits(u64::MAX / 4, 1 << 63); 4]);
        for place in 0..4 {
            let share = shares.of(place);
            assert_eq!(share.served_tokens, u64::MAX / 4);
            assert!(
                share.served_tokens - share.entitled_tokens <= 1,
                "{share:?}"
            );
        }
        shares.step(&[waits(u64::MAX, 1 << 63); 4]);
        assert_eq!(shares.of(0).served_tokens, u64::MAX);
    }

    #[test]
    fn i2_a_withdrawn_dispatch_counts_once() {
        let mut shares = Shares::new(2);
        shares.step(&[waits(0, 1), waits(0, 1)]);
        shares.step(&[waits(100, 1), waits(0, 1)]);
        // 60 of the 100 are withdrawn, then charged again, with 40 new ones.
        shares.step(&[waits(40, 1), waits(0, 1)]);
        assert_eq!(shares.of(0), share(100, 50));
        shares.step(&[waits(140, 1), waits(0, 1)]);
        assert_eq!(shares.of(0), share(140, 70));
        assert_eq!(shares.of(1), share(0, 70));
    }

    #[test]
    fn a_new_class_at_a_place_starts_at_nothing() {
        let mut shares = Shares::new(2);
        shares.step(&[waits(0, 1), waits(0, 1)]);
        shares.step(&[waits(100, 1), waits(100, 1)]);
        shares.forget(0);
        assert_eq!(shares.of(0), share(0, 0));
        // Its own charges start at 0 again, and it did not wait before.
        shares.step(&[waits(30, 1), waits(100, 1)]);
        shares.step(&[waits(50, 1), waits(100, 1)]);
        assert_eq!(shares.of(0), share(20, 10));
        assert_eq!(shares.of(1), share(100, 110));
    }
}
