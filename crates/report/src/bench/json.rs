//! A benchmark's report as JSON, and read back. The schema is written down in the module above.

use std::borrow::Cow;
use std::fmt;

use serde::Serialize;
use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};

use super::{BenchReport, check};
use crate::text::cell;
use crate::{Error, ReadError};

/// Names the schema; the number changes when a reader would notice.
const SCHEMA: &str = "tollgate.bench/1";

/// The most recordings of a report that is read: each takes some 300 KB, however short it is in JSON.
pub const RECORDINGS_MAX: usize = 4_096;

/// The report with its schema in front.
#[derive(Serialize)]
struct Document<'a> {
    schema: &'static str,
    #[serde(flatten)]
    report: &'a BenchReport,
}

impl BenchReport {
    /// The report as one line of JSON, with a line break at its end. A number that is not finite becomes
    /// `null`, which [`BenchReport::from_json`] then names.
    ///
    /// # Errors
    /// [`Error::Json`] if a recording cannot be encoded: one of its buckets counts more than 2^63.
    pub fn json(&self) -> Result<String, Error> {
        let mut text = serde_json::to_string(&Document {
            schema: SCHEMA,
            report: self,
        })?;
        text.push('\n');
        Ok(text)
    }

    /// Reads what [`BenchReport::json`] wrote. Fields that are not known are passed over.
    ///
    /// # Errors
    /// [`ReadError::Json`] if it is no JSON, lacks a field or holds a recording that is wrong, which is
    /// named by its tag; [`ReadError::Schema`] and [`ReadError::NoSchema`] if it is something else;
    /// [`ReadError::Invalid`] with the place if a rule is broken: names unique, samples finite, recordings of
    /// a population alike, lists of a course of equal length; [`ReadError::TooMany`] above
    /// [`RECORDINGS_MAX`].
    pub fn from_json(text: &str) -> Result<Self, ReadError> {
        let head: Head<'_> = serde_json::from_str(text)?;
        match head.schema {
            None => return Err(ReadError::NoSchema { expected: SCHEMA }),
            Some(found) if found != SCHEMA => {
                return Err(ReadError::Schema {
                    found: cell(&found),
                    expected: SCHEMA,
                });
            }
            Some(_) => {}
        }
        let Histograms(count) = serde_json::from_str(text)?;
        if count > RECORDINGS_MAX {
            return Err(ReadError::TooMany {
                most: RECORDINGS_MAX,
            });
        }
        let report: Self = serde_json::from_str(text)?;
        check::check(&report)?;
        Ok(report)
    }
}

#[derive(serde::Deserialize)]
struct Head<'a> {
    #[serde(borrow)]
    schema: Option<Cow<'a, str>>,
}

/// How many encoded histograms stand anywhere in a text. It is counted before anything is decoded.
struct Histograms(usize);

impl<'de> Deserialize<'de> for Histograms {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Counting).map(Self)
    }
}

struct Counting;

impl<'de> Visitor<'de> for Counting {
    type Value = usize;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<usize, A::Error> {
        let mut count = 0;
        while let Some(key) = map.next_key::<Cow<'de, str>>()? {
            if key == "hdr" {
                count += 1;
            }
            count += map.next_value::<Histograms>()?.0;
        }
        Ok(count)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<usize, A::Error> {
        let mut count = 0;
        while let Some(Histograms(inside)) = list.next_element()? {
            count += inside;
        }
        Ok(count)
    }

    fn visit_bool<E>(self, _: bool) -> Result<usize, E> {
        Ok(0)
    }

    fn visit_i64<E>(self, _: i64) -> Result<usize, E> {
        Ok(0)
    }

    fn visit_u64<E>(self, _: u64) -> Result<usize, E> {
        Ok(0)
    }

    fn visit_f64<E>(self, _: f64) -> Result<usize, E> {
        Ok(0)
    }

    fn visit_str<E>(self, _: &str) -> Result<usize, E> {
        Ok(0)
    }

    fn visit_unit<E>(self) -> Result<usize, E> {
        Ok(0)
    }
}
