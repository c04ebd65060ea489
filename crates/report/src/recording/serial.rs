//! Recordings in JSON: a summary for readers, and the exact content to be read back.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::de::{Deserialize, Deserializer, Error as _};
use serde::ser::{Error as _, Serialize, SerializeStruct, Serializer};

use super::Recording;
use crate::encoding;

/// What it is, the counts, and the usual quantiles in whole nanoseconds, `null` when empty.
pub(crate) fn summary<S: Serializer>(of: &Recording, serializer: S) -> Result<S::Ok, S::Error> {
    let mut fields = serializer.serialize_struct("Recording", 12)?;
    names(&mut fields, of)?;
    numbers(&mut fields, of, &|q| of.quantile(q))?;
    fields.end()
}

fn names<F: SerializeStruct>(fields: &mut F, of: &Recording) -> Result<(), F::Error> {
    fields.serialize_field("tag", &of.tag)?;
    fields.serialize_field("name", &of.name)?;
    fields.serialize_field("population", &of.population)
}

/// The counts, the extremes, the mean, and the usual quantiles as `quantile` gives them.
pub(crate) fn numbers<F: SerializeStruct>(
    fields: &mut F,
    of: &Recording,
    quantile: &dyn Fn(f64) -> Option<u64>,
) -> Result<(), F::Error> {
    fields.serialize_field("count", &of.count())?;
    fields.serialize_field("clamped", &of.clamped())?;
    fields.serialize_field("min_ns", &of.min())?;
    fields.serialize_field("mean_ns", &of.mean_nanos())?;
    fields.serialize_field("p50_ns", &quantile(0.5))?;
    fields.serialize_field("p90_ns", &quantile(0.9))?;
    fields.serialize_field("p99_ns", &quantile(0.99))?;
    fields.serialize_field("p999_ns", &quantile(0.999))?;
    fields.serialize_field("max_ns", &of.max())
}

/// As JSON: what it is, the counts, the usual quantiles as far as they are [told](Recording::told), and
/// the whole content: `hdr` is the histogram (V2 deflate, base64), `sum_ns` the sum as text.
impl Serialize for Recording {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let encoded = encoding::encode(&self.histogram)
            .map_err(|why| S::Error::custom(format!("recording {}: {why}", self.tag)))?;
        let mut fields = serializer.serialize_struct("Recording", 14)?;
        names(&mut fields, self)?;
        numbers(&mut fields, self, &|q| self.told(q))?;
        fields.serialize_field("sum_ns", &self.sum.to_string())?;
        fields.serialize_field("hdr", &STANDARD.encode(encoded))?;
        fields.end()
    }
}

/// What is read of a recording; the rest of its JSON follows from this.
#[derive(serde::Deserialize)]
struct Exact {
    tag: String,
    name: String,
    population: String,
    count: u64,
    clamped: u64,
    min_ns: Option<u64>,
    max_ns: Option<u64>,
    sum_ns: String,
    hdr: String,
}

impl Exact {
    /// The recording, checked.
    ///
    /// # Errors
    /// A sentence that names the tag and what is wrong.
    fn recording(self) -> Result<Recording, String> {
        let mut recording = Recording::new(&self.tag, &self.name, &self.population);
        let tag = recording.tag.clone();
        self.fill(&mut recording)
            .map_err(|why| format!("recording {}: {why}", crate::text::cell(&tag)))?;
        Ok(recording)
    }

    fn fill(self, into: &mut Recording) -> Result<(), String> {
        if self.tag != into.tag {
            return Err("tag: only ASCII letters, digits, '.', '_' and '-' are allowed".to_owned());
        }
        let bytes = STANDARD
            .decode(&self.hdr)
            .map_err(|error| format!("hdr: not base64: {error}"))?;
        let counts = encoding::decode(&bytes).map_err(|why| format!("hdr: {why}"))?;
        if !counts.has_bounds_of(&into.histogram) {
            return Err(format!("hdr: other bounds: {}", counts.bounds()));
        }
        for bucket in counts.buckets() {
            if bucket.lowest > super::TOP_NS {
                return Err("hdr: a count above its bounds".to_owned());
            }
            if into.histogram.len().saturating_add(bucket.count) > super::READ_MAX {
                return Err("hdr: counts more than 2^48".to_owned());
            }
            into.histogram
                .record_n(bucket.lowest, bucket.count)
                .map_err(|error| format!("hdr: {error}"))?;
        }
        let sum: u128 = self
            .sum_ns
            .parse()
            .map_err(|_| "sum_ns: not a whole number of 128 bits".to_owned())?;
        into.clamped = self.clamped;
        into.sum = sum;
        into.min = self.min_ns.unwrap_or(u64::MAX);
        into.max = self.max_ns.unwrap_or(0);
        into.check(self.count, self.min_ns.is_some(), self.max_ns.is_some())
    }
}

impl Recording {
    /// Whether what stands beside the histogram agrees with it.
    fn check(&self, count: u64, has_min: bool, has_max: bool) -> Result<(), String> {
        let held = self.histogram.len();
        if count != held {
            return Err(format!("count: {count}, but hdr holds {held}"));
        }
        if (has_min, has_max) != (held > 0, held > 0) {
            return Err("min_ns, max_ns: needed if, and only if, there are durations".to_owned());
        }
        if held == 0 {
            let is_nothing = self.sum == 0 && self.clamped == 0;
            let refuse = || Err("sum_ns, clamped: above 0 without durations".to_owned());
            return if is_nothing { Ok(()) } else { refuse() };
        }
        let same = |a: u64, b: u64| {
            let bound = |nanos: u64| nanos.min(super::TOP_NS);
            self.histogram.equivalent(bound(a), bound(b))
        };
        if !same(self.min, self.histogram.min()) || !same(self.max, self.histogram.max()) {
            return Err("min_ns, max_ns: not those of hdr".to_owned());
        }
        if self.min > self.max {
            return Err("min_ns: above max_ns".to_owned());
        }
        let at_top = self.histogram.count_at(super::TOP_NS);
        let is_above = self.max > super::TOP_NS;
        if self.clamped > at_top || (self.clamped > 0) != is_above {
            return Err(format!("clamped: {}, but hdr does not agree", self.clamped));
        }
        let times = |nanos: u64| u128::from(nanos) * u128::from(held);
        if self.sum < times(self.min) || self.sum > times(self.max) {
            return Err("sum_ns: not between count times min_ns and count times max_ns".to_owned());
        }
        Ok(())
    }
}

impl<'de> Deserialize<'de> for Recording {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let exact = Exact::deserialize(deserializer)?;
        exact.recording().map_err(D::Error::custom)
    }
}
