//! A population as one, and as JSON.

use serde::ser::{Serialize, SerializeStruct, Serializer};

use super::Population;
use crate::Recording;
use crate::recording::numbers;

/// The quantiles that tables tell, with their heads.
pub(super) const QUANTILES: [(f64, &str); 5] = [
    (0.5, "p50"),
    (0.9, "p90"),
    (0.99, "p99"),
    (0.999, "p99.9"),
    (0.9999, "p99.99"),
];

impl Population {
    /// What all repetitions recorded, as if into one recording; empty and without a name if there are none.
    #[must_use]
    pub fn whole(&self) -> Recording {
        let Some((first, rest)) = self.repetitions.split_first() else {
            return Recording::new("", "", "");
        };
        let mut whole = first.clone();
        for repetition in rest {
            whole.add(repetition);
        }
        whole
    }

    /// The tag of its recordings.
    #[must_use]
    pub fn tag(&self) -> &str {
        self.repetitions.first().map_or("", Recording::tag)
    }

    /// What was measured.
    #[must_use]
    pub fn name(&self) -> &str {
        self.repetitions.first().map_or("", Recording::name)
    }

    /// The quantile `q` of each repetition that has durations, in nanoseconds. It is not asked whether a
    /// repetition alone has enough of them to [tell](Recording::told) it; whoever shows these asks that of
    /// the [whole](Self::whole).
    #[expect(
        clippy::cast_precision_loss,
        reason = "durations are told to three digits"
    )]
    pub(super) fn over_repetitions(&self, q: f64) -> Vec<f64> {
        let quantiles = self.repetitions.iter();
        quantiles
            .filter_map(|recording| recording.quantile(q))
            .map(|nanos| nanos as f64)
            .collect()
    }
}

/// The numbers of the whole, for readers that do not merge histograms.
struct Summary<'a>(&'a Recording);

impl Serialize for Summary<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut fields = serializer.serialize_struct("Summary", 9)?;
        numbers(&mut fields, self.0, &|q| self.0.told(q))?;
        fields.end()
    }
}

impl Serialize for Population {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut fields = serializer.serialize_struct("Population", 2)?;
        fields.serialize_field("whole", &Summary(&self.whole()))?;
        fields.serialize_field("repetitions", &self.repetitions)?;
        fields.end()
    }
}
