//! A replay as a trace of its own.

use tollgate_arbiter::Nanos;

use super::simulation::{Live, Observer};
use crate::trace::native::Record;
use crate::worker::Batch;

/// Writes down what arrives, with the cached tokens that its worker found.
#[derive(Debug, Default)]
pub(super) struct Recorder {
    /// In the order of arrival.
    pub(super) records: Vec<Record>,
}

impl Observer for Recorder {
    fn arrived(&mut self, request: &Live<'_>) {
        let arrival = &request.arrival;
        self.records.push(Record {
            arrival_ns: arrival.at.0,
            family: arrival.family.map(str::to_owned),
            isl: arrival.prompt_tokens,
            cached: request.told_cached,
            output: arrival.output_tokens,
            pin: arrival.pin,
            tier: arrival.tier,
            deadline_ns: arrival.deadline.map(|deadline| deadline.0),
        });
    }

    fn begun(&mut self, batch: &Batch<'_, &[u64]>, live: &[Live<'_>], _: Nanos) {
        for running in batch.requests {
            let number = live[running.job.request as usize].number;
            let place = usize::try_from(number).expect("it was recorded");
            self.records[place].cached = running.found_tokens;
        }
    }
}
