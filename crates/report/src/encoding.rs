//! Histograms in the encoding of HdrHistogram, version 2, deflated or plain.
//!
//! What is read comes from anywhere. So nothing is allocated by what it says of itself: the inflated text
//! is bounded, and counts are handed out one bucket at a time, whatever range the histogram claims.

use std::io::Read;

use flate2::read::ZlibDecoder;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Serializer, V2DeflateSerializer};

/// Mark the deflated and the plain encoding.
const DEFLATED: u32 = 0x1c84_9314;
const PLAIN: u32 = 0x1c84_9313;
/// The most bytes of an inflated histogram: more than one of five digits over all 64 bits has.
const INFLATED_MAX: u64 = 1 << 26;
/// The most significant digits.
const DIGITS_MAX: u32 = 5;

/// Encodes and deflates.
///
/// # Errors
/// What the encoder says: a bucket counts more than 2^63.
pub(crate) fn encode(histogram: &Histogram<u64>) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    V2DeflateSerializer::new()
        .serialize(histogram, &mut bytes)
        .map_err(|error| error.to_string())?;
    Ok(bytes)
}

/// Equal values and how many there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bucket {
    /// The lowest value that falls into it.
    pub(crate) lowest: u64,
    /// The highest.
    pub(crate) highest: u64,
    /// How many fell into it, at least 1.
    pub(crate) count: u64,
}

/// A histogram of any bounds, by its buckets that are not empty.
#[derive(Clone, Debug)]
pub(crate) struct Counts {
    digits: u32,
    lowest: u64,
    highest: u64,
    buckets: Vec<Bucket>,
}

impl Counts {
    /// Its buckets with a count, from low to high.
    pub(crate) fn buckets(&self) -> &[Bucket] {
        &self.buckets
    }

    /// Whether values fall into the same buckets as in `histogram`.
    pub(crate) fn has_bounds_of(&self, histogram: &Histogram<u64>) -> bool {
        self.digits == u32::from(histogram.sigfig())
            && self.lowest == histogram.low()
            && self.highest == histogram.high()
    }

    /// The bounds in words.
    pub(crate) fn bounds(&self) -> String {
        let Self {
            digits,
            lowest,
            highest,
            ..
        } = self;
        format!("{digits} digits from {lowest} to {highest}")
    }
}

/// Decodes a histogram, deflated or plain.
///
/// # Errors
/// What is wrong with it, without a name.
pub(crate) fn decode(bytes: &[u8]) -> Result<Counts, String> {
    let mut input = bytes;
    match u32::from_be_bytes(take(&mut input)?) {
        PLAIN => decode_plain(input),
        DEFLATED => {
            let length = u32::from_be_bytes(take(&mut input)?);
            let length = usize::try_from(length).map_err(|_| CUT)?;
            let packed = input.get(..length).ok_or(CUT)?;
            let mut plain = Vec::new();
            ZlibDecoder::new(packed)
                .take(INFLATED_MAX + 1)
                .read_to_end(&mut plain)
                .map_err(|error| format!("cannot be inflated: {error}"))?;
            if plain.len() as u64 > INFLATED_MAX {
                return Err("inflates to more than any histogram has".to_owned());
            }
            let mut input = plain.as_slice();
            match u32::from_be_bytes(take(&mut input)?) {
                PLAIN => decode_plain(input),
                other => Err(unknown(other)),
            }
        }
        other => Err(unknown(other)),
    }
}

const CUT: &str = "cut off";

fn unknown(mark: u32) -> String {
    format!("begins with {mark:#010x}, which is not version 2 of the encoding")
}

/// Takes bytes of fixed length off the front.
fn take<const N: usize>(bytes: &mut &[u8]) -> Result<[u8; N], String> {
    let (head, rest) = bytes.split_first_chunk().ok_or(CUT)?;
    *bytes = rest;
    Ok(*head)
}

/// What stands behind the mark.
fn decode_plain(mut input: &[u8]) -> Result<Counts, String> {
    let length = u32::from_be_bytes(take(&mut input)?);
    let offset = u32::from_be_bytes(take(&mut input)?);
    let digits = u32::from_be_bytes(take(&mut input)?);
    let lowest = u64::from_be_bytes(take(&mut input)?);
    let highest = u64::from_be_bytes(take(&mut input)?);
    let ratio = f64::from_be_bytes(take(&mut input)?);
    if offset != 0 {
        return Err(format!("is shifted by {offset}, which is not supported"));
    }
    if ratio.to_bits() != 1f64.to_bits() {
        return Err(format!("has the ratio {ratio}, where only 1 is supported"));
    }
    if digits > DIGITS_MAX || lowest == 0 || lowest > highest / 2 {
        return Err(format!(
            "has bounds that none has: {digits} digits from {lowest} to {highest}"
        ));
    }
    let length = usize::try_from(length).map_err(|_| CUT)?;
    let mut input = input.get(..length).ok_or(CUT)?;
    let scale = Scale::new(digits, lowest)?;
    let mut buckets = Vec::new();
    let mut index = 0u64;
    while !input.is_empty() {
        let number = number(&mut input)?;
        let step = if number < 0 {
            number.unsigned_abs()
        } else {
            if number > 0 {
                let bucket = scale.bucket(index, number.unsigned_abs());
                buckets.push(bucket.ok_or("counts above 64 bits")?);
            }
            1
        };
        index = index.checked_add(step).ok_or("counts above 64 bits")?;
    }
    Ok(Counts {
        digits,
        lowest,
        highest,
        buckets,
    })
}

/// A ZigZag LEB128 number: seven bits a byte, the ninth byte whole.
fn number(bytes: &mut &[u8]) -> Result<i64, String> {
    let mut bits = 0u64;
    for at in 0..9 {
        let [byte] = take(bytes)?;
        if at == 8 {
            bits |= u64::from(byte) << 56;
            break;
        }
        bits |= u64::from(byte & 0x7f) << (7 * at);
        if byte & 0x80 == 0 {
            break;
        }
    }
    Ok((bits >> 1).cast_signed() ^ -(bits & 1).cast_signed())
}

/// From the places of counts to values.
struct Scale {
    /// The lowest value is told apart by steps of 2 to this power.
    unit_bits: u32,
    /// Half as many steps as the first bucket has, as a power of 2.
    half_bits: u32,
}

impl Scale {
    fn new(digits: u32, lowest: u64) -> Result<Self, String> {
        let steps = 2 * 10u64.pow(digits);
        let half_bits = steps.next_power_of_two().ilog2().saturating_sub(1);
        let unit_bits = lowest.ilog2();
        if unit_bits + half_bits + 1 > 62 {
            return Err("has bounds that 64 bits do not hold".to_owned());
        }
        Ok(Self {
            unit_bits,
            half_bits,
        })
    }

    /// The bucket of the count at `index`: first twice half of the steps one by one, then half of them of
    /// each power of two. `None` above 64 bits.
    fn bucket(&self, index: u64, count: u64) -> Option<Bucket> {
        let half = 1u64 << self.half_bits;
        let (step, power) = if index < 2 * half {
            (index, 0)
        } else {
            (index % half + half, index / half - 1)
        };
        let shift = u32::try_from(power).ok()?.checked_add(self.unit_bits)?;
        if shift >= 64 || step.leading_zeros() < shift {
            return None;
        }
        let lowest = step << shift;
        Some(Bucket {
            lowest,
            highest: lowest + ((1u64 << shift) - 1),
            count,
        })
    }
}
