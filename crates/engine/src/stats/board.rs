//! Where the core shows the state of every class and endpoint of a model.
//!
//! A place of the board belongs to the place of the same number in the arbiter's tables, and is a
//! [`Record`]: what is read of one class, or of one endpoint, was true at one moment. Different
//! places are read one after another, so they may be of different publications.
//!
//! Names are text and change only when a policy is loaded, so they stand in a table of their own,
//! which is replaced as a whole by the thread that loads the policy.

use std::sync::Arc;

use arc_swap::ArcSwap;
use tollgate_arbiter::{
    ClassCounters, ClassGauges, ClassIndex, Endpoint, EndpointGauges, EndpointIndex, Nanos,
    WorkerId,
};

use super::Share;
use super::record::Record;

/// What the core publishes of one class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ClassRow {
    pub(crate) gauges: ClassGauges,
    /// When its request that has waited longest was submitted; [`Nanos::MAX`] if none waits.
    pub(crate) oldest_submitted_at: Nanos,
    pub(crate) share: Share,
}

/// The board of one model. One thread publishes classes and endpoints, one at a time sets names, any
/// thread reads.
#[derive(Debug)]
pub(crate) struct Board {
    name: Arc<str>,
    classes: Box<[Record<CLASS_WORDS>]>,
    endpoints: Box<[Record<ENDPOINT_WORDS>]>,
    names: ArcSwap<Vec<Arc<str>>>,
}

impl Board {
    /// An empty board of a model, with so many places.
    pub(crate) fn new(name: &str, classes: usize, endpoints: usize) -> Self {
        Self {
            name: Arc::from(name),
            classes: (0..classes).map(|_| Record::new()).collect(),
            endpoints: (0..endpoints).map(|_| Record::new()).collect(),
            names: ArcSwap::from_pointee(Vec::new()),
        }
    }

    /// Shows a class, or that its place is free.
    pub(crate) fn publish_class(&self, index: ClassIndex, row: Option<&ClassRow>) {
        let words = row.map_or([0; CLASS_WORDS], class_words);
        self.classes[usize::from(index.0)].publish(&words);
    }

    /// Shows an endpoint, or that its place is free.
    pub(crate) fn publish_endpoint(&self, index: EndpointIndex, row: Option<&EndpointGauges>) {
        let words = row.map_or([0; ENDPOINT_WORDS], endpoint_words);
        self.endpoints[index.0 as usize].publish(&words);
    }

    /// Names the classes at some places; the others keep their names.
    pub(crate) fn set_names<'a>(&self, names: impl IntoIterator<Item = (ClassIndex, &'a str)>) {
        let mut table = Vec::clone(&self.names.load());
        for (index, name) in names {
            let place = usize::from(index.0);
            if table.len() <= place {
                table.resize(place + 1, Arc::from(""));
            }
            if *table[place] != *name {
                table[place] = Arc::from(name);
            }
        }
        self.names.store(Arc::new(table));
    }

    /// The model's name.
    pub(crate) fn name(&self) -> Arc<str> {
        Arc::clone(&self.name)
    }

    /// The classes, by place, with their names.
    pub(crate) fn classes(&self) -> Vec<(ClassIndex, Arc<str>, ClassRow)> {
        let names = self.names.load();
        let shown = (0..).zip(&self.classes).filter_map(|(place, record)| {
            let row = class_row(&record.read()?)?;
            let name = names.get(usize::from(place)).cloned();
            Some((ClassIndex(place), name.unwrap_or_default(), row))
        });
        shown.collect()
    }

    /// The endpoints, by place.
    pub(crate) fn endpoints(&self) -> Vec<(EndpointIndex, EndpointGauges)> {
        let shown = (0..).zip(&self.endpoints).filter_map(|(place, record)| {
            let row = endpoint_row(&record.read()?)?;
            Some((EndpointIndex(place), row))
        });
        shown.collect()
    }
}

/// A class's words: flags, nine gauges, twenty counters, the oldest time stamp, two shares.
const CLASS_WORDS: usize = 33;

/// An endpoint's words: flags with the rank, the worker, four gauges.
const ENDPOINT_WORDS: usize = 6;

/// The place is taken.
const TAKEN: u64 = 1;

// Flags of a class.
const DRAINING: u64 = 1 << 1;
const TURN_OPEN: u64 = 1 << 2;
/// The first of three: that limit is set.
const LIMITED: u64 = 1 << 3;

// Flags of an endpoint.
const AVAILABLE: u64 = 1 << 1;
const OVERLOADED: u64 = 1 << 2;
const SHUT: u64 = 1 << 3;
/// Where the rank begins among an endpoint's flags.
const RANK_SHIFT: u32 = 32;

fn flag(is_set: bool, flag: u64) -> u64 {
    if is_set { flag } else { 0 }
}

fn class_words(row: &ClassRow) -> [u64; CLASS_WORDS] {
    let gauges = &row.gauges;
    let counters = &gauges.counters;
    let [requests, raw, cached] = gauges.limits;
    let flags = TAKEN
        | flag(gauges.draining, DRAINING)
        | flag(gauges.turn_open, TURN_OPEN)
        | flag(requests.is_some(), LIMITED)
        | flag(raw.is_some(), LIMITED << 1)
        | flag(cached.is_some(), LIMITED << 2);
    let mut words = [0; CLASS_WORDS];
    words[..10].copy_from_slice(&[
        flags,
        gauges.waiting,
        gauges.raw_isl_tokens,
        gauges.cached_tokens,
        gauges.outstanding,
        gauges.deficit,
        gauges.quantum,
        requests.unwrap_or(0),
        raw.unwrap_or(0),
        cached.unwrap_or(0),
    ]);
    words[10..14].copy_from_slice(&counters.rejected);
    words[14..24].copy_from_slice(&counters.failed);
    words[24..].copy_from_slice(&[
        counters.dispatched,
        counters.charged_tokens,
        counters.expired,
        counters.cancelled,
        counters.shutting_down,
        counters.requeued,
        row.oldest_submitted_at.0,
        row.share.served_tokens,
        row.share.entitled_tokens,
    ]);
    words
}

fn class_row(words: &[u64; CLASS_WORDS]) -> Option<ClassRow> {
    let flags = words[0];
    if flags & TAKEN == 0 {
        return None;
    }
    let limit = |at: usize| (flags & LIMITED << at != 0).then_some(words[7 + at]);
    let counters = ClassCounters {
        rejected: std::array::from_fn(|at| words[10 + at]),
        failed: std::array::from_fn(|at| words[14 + at]),
        dispatched: words[24],
        charged_tokens: words[25],
        expired: words[26],
        cancelled: words[27],
        shutting_down: words[28],
        requeued: words[29],
    };
    Some(ClassRow {
        gauges: ClassGauges {
            waiting: words[1],
            raw_isl_tokens: words[2],
            cached_tokens: words[3],
            outstanding: words[4],
            deficit: words[5],
            quantum: words[6],
            limits: [limit(0), limit(1), limit(2)],
            counters,
            draining: flags & DRAINING != 0,
            turn_open: flags & TURN_OPEN != 0,
        },
        oldest_submitted_at: Nanos(words[30]),
        share: Share {
            served_tokens: words[31],
            entitled_tokens: words[32],
        },
    })
}

fn endpoint_words(row: &EndpointGauges) -> [u64; ENDPOINT_WORDS] {
    let flags = TAKEN
        | flag(row.available, AVAILABLE)
        | flag(row.overloaded, OVERLOADED)
        | flag(row.shut, SHUT)
        | u64::from(row.endpoint.rank) << RANK_SHIFT;
    [
        flags,
        row.endpoint.worker.0,
        row.prefill_tokens,
        row.active,
        row.dispatched,
        row.charged_tokens,
    ]
}

fn endpoint_row(words: &[u64; ENDPOINT_WORDS]) -> Option<EndpointGauges> {
    let [
        flags,
        worker,
        prefill_tokens,
        active,
        dispatched,
        charged_tokens,
    ] = *words;
    if flags & TAKEN == 0 {
        return None;
    }
    Some(EndpointGauges {
        endpoint: Endpoint {
            worker: WorkerId(worker),
            rank: u32::try_from(flags >> RANK_SHIFT).expect("32 of 64 bits are left"),
        },
        prefill_tokens,
        active,
        dispatched,
        charged_tokens,
        available: flags & AVAILABLE != 0,
        overloaded: flags & OVERLOADED != 0,
        shut: flags & SHUT != 0,
    })
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// A row in which every number is different.
    fn row(first: u64) -> ClassRow {
        let mut number = first;
        let mut next = || {
            number += 1;
            number
        };
        ClassRow {
            gauges: ClassGauges {
                waiting: next(),
                raw_isl_tokens: next(),
                cached_tokens: next(),
                outstanding: next(),
                deficit: next(),
                quantum: next(),
                limits: [Some(next()), None, Some(0)],
                counters: ClassCounters {
                    dispatched: next(),
                    charged_tokens: next(),
                    rejected: std::array::from_fn(|_| next()),
                    expired: next(),
                    cancelled: next(),
                    failed: std::array::from_fn(|_| next()),
                    shutting_down: next(),
                    requeued: next(),
                },
                draining: true,
                turn_open: false,
            },
            oldest_submitted_at: Nanos(next()),
            share: Share {
                served_tokens: next(),
                entitled_tokens: next(),
            },
        }
    }

    fn endpoint(worker: u64, rank: u32) -> EndpointGauges {
        EndpointGauges {
            endpoint: Endpoint::new(worker, rank),
            prefill_tokens: 5,
            active: 4,
            dispatched: 3,
            charged_tokens: 2,
            available: true,
            overloaded: false,
            shut: true,
        }
    }

    #[test]
    fn a_class_is_shown_as_published_until_its_place_is_free() {
        let board = Board::new("m", 3, 0);
        assert_eq!(board.classes(), []);
        let first = row(100);
        let mut second = row(u64::MAX - 100);
        second.gauges.limits = [None, Some(u64::MAX), None];
        second.gauges.draining = false;
        second.gauges.turn_open = true;
        board.publish_class(ClassIndex(0), Some(&first));
        board.publish_class(ClassIndex(2), Some(&second));
        board.set_names([(ClassIndex(0), "a"), (ClassIndex(2), "c")]);
        let shown = board.classes();
        assert_eq!(
            shown,
            [
                (ClassIndex(0), "a".into(), first),
                (ClassIndex(2), "c".into(), second)
            ]
        );
        assert_eq!(board.classes(), shown);
        board.publish_class(ClassIndex(0), None);
        assert_eq!(board.classes(), shown[1..]);
    }

    #[test]
    fn names_change_at_their_places_only() {
        let board = Board::new("m", 4, 0);
        for place in 0..4 {
            board.publish_class(ClassIndex(place), Some(&row(0)));
        }
        let names = || -> Vec<String> {
            let classes = board.classes().into_iter();
            classes.map(|(_, name, _)| name.to_string()).collect()
        };
        assert_eq!(names(), ["", "", "", ""]);
        board.set_names([(ClassIndex(2), "old"), (ClassIndex(1), "kept")]);
        assert_eq!(names(), ["", "kept", "old", ""]);
        board.set_names([(ClassIndex(2), "new")]);
        assert_eq!(names(), ["", "kept", "new", ""]);
    }

    #[test]
    fn an_endpoint_is_shown_as_published_until_its_place_is_free() {
        let board = Board::new("m", 0, 3);
        let mut other = endpoint(7, 0);
        other.available = false;
        other.overloaded = true;
        other.shut = false;
        board.publish_endpoint(EndpointIndex(1), Some(&endpoint(u64::MAX, u32::MAX)));
        board.publish_endpoint(EndpointIndex(2), Some(&other));
        assert_eq!(
            board.endpoints(),
            [
                (EndpointIndex(1), endpoint(u64::MAX, u32::MAX)),
                (EndpointIndex(2), other)
            ]
        );
        board.publish_endpoint(EndpointIndex(1), None);
        assert_eq!(board.endpoints(), [(EndpointIndex(2), other)]);
    }
}
