//! Exact decimal fractions.
//!
//! A threshold of `0.29` of 100 tokens is 29 tokens, not the 28 that binary floating point makes of
//! it. So a fraction keeps its decimal digits, and everything that is computed from it is computed
//! in whole numbers.

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

/// How many significant digits a fraction may be written with.
pub const DIGITS_MAX: usize = 19;

/// The largest power of ten that a `u128` holds.
const POWER_MAX: u32 = 38;

/// From this scale on a fraction is printed with an exponent instead of zeros.
const PLAIN_SCALE_MAX: u32 = 25;

/// A non-negative decimal number, kept exactly as written: `mantissa / 10^scale`.
///
/// The form is unique (no trailing zeros behind the point), so equal numbers are equal values
/// however they were written. Order is numeric.
///
/// # Examples
/// ```
/// use tollgate_policy::Fraction;
///
/// let share: Fraction = "0.29".parse()?;
/// assert_eq!(share.floor_of(100), 29);
/// assert_eq!("0.07".parse::<Fraction>()?.ceil_of(100), 7);
/// assert_eq!(share, "29e-2".parse()?);
/// assert!(share < Fraction::ONE);
/// # Ok::<(), tollgate_policy::FractionError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Fraction {
    mantissa: u64,
    scale: u32,
}

impl Fraction {
    /// Nothing.
    pub const ZERO: Self = Self::new(0, 0);
    /// The whole.
    pub const ONE: Self = Self::new(1, 0);

    /// The number `mantissa / 10^scale`, brought into its unique form.
    ///
    /// # Examples
    /// ```
    /// use tollgate_policy::Fraction;
    ///
    /// let half = Fraction::new(500, 3);
    /// assert_eq!((half.mantissa(), half.scale()), (5, 1));
    /// ```
    #[must_use]
    pub const fn new(mantissa: u64, scale: u32) -> Self {
        let (mut mantissa, mut scale) = (mantissa, scale);
        if mantissa == 0 {
            scale = 0;
        }
        while scale > 0 && mantissa.is_multiple_of(10) {
            mantissa /= 10;
            scale -= 1;
        }
        Self { mantissa, scale }
    }

    /// The decimal digits as one whole number.
    #[must_use]
    pub const fn mantissa(self) -> u64 {
        self.mantissa
    }

    /// How many of the digits stand behind the decimal point.
    #[must_use]
    pub const fn scale(self) -> u32 {
        self.scale
    }

    /// Whether this is 0.
    #[must_use]
    pub const fn is_zero(self) -> bool {
        self.mantissa == 0
    }

    /// `floor(self x value)`, exactly; `u64::MAX` where the product is larger.
    ///
    /// # Examples
    /// ```
    /// use tollgate_policy::Fraction;
    ///
    /// assert_eq!(Fraction::new(5, 1).floor_of(3), 1);
    /// assert_eq!(Fraction::new(16, 0).floor_of(u64::MAX), u64::MAX);
    /// ```
    #[must_use]
    pub fn floor_of(self, value: u64) -> u64 {
        let (quotient, _) = self.divide(value);
        u64::try_from(quotient).unwrap_or(u64::MAX)
    }

    /// `ceil(self x value)`, exactly; `u64::MAX` where the product is larger.
    ///
    /// # Examples
    /// ```
    /// use tollgate_policy::Fraction;
    ///
    /// assert_eq!(Fraction::new(5, 1).ceil_of(3), 2);
    /// assert_eq!(Fraction::new(1, 400).ceil_of(u64::MAX), 1);
    /// ```
    #[must_use]
    pub fn ceil_of(self, value: u64) -> u64 {
        let (quotient, has_rest) = self.divide(value);
        u64::try_from(quotient.saturating_add(u128::from(has_rest))).unwrap_or(u64::MAX)
    }

    /// The whole part of `self x value`, and whether anything is left behind the point.
    fn divide(self, value: u64) -> (u128, bool) {
        let product = u128::from(self.mantissa) * u128::from(value);
        if self.scale > POWER_MAX {
            // 10^39 exceeds every product of two 64-bit numbers.
            return (0, product > 0);
        }
        let divisor = 10_u128.pow(self.scale);
        (product / divisor, !product.is_multiple_of(divisor))
    }
}

impl Ord for Fraction {
    fn cmp(&self, other: &Self) -> Ordering {
        if self.scale > other.scale {
            return other.cmp(self).reverse();
        }
        let lift = other.scale - self.scale;
        // From 10^20 on the lifted side exceeds every 64-bit mantissa, unless it is nothing.
        let lifted = match 10_u128.checked_pow(lift) {
            Some(power) if lift < 20 => u128::from(self.mantissa) * power,
            _ if self.mantissa == 0 => 0,
            _ => u128::MAX,
        };
        lifted.cmp(&u128::from(other.mantissa))
    }
}

impl PartialOrd for Fraction {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Display for Fraction {
    /// The exact number: `0.29`, `16`, or with an exponent where the zeros would fill the line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.scale == 0 {
            return write!(f, "{}", self.mantissa);
        }
        if self.scale > PLAIN_SCALE_MAX {
            return write!(f, "{}e-{}", self.mantissa, self.scale);
        }
        let power = 10_u128.pow(self.scale);
        let mantissa = u128::from(self.mantissa);
        let width = self.scale as usize;
        write!(f, "{}.{:0width$}", mantissa / power, mantissa % power)
    }
}

/// Why a text is not a [`Fraction`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FractionError {
    /// Neither digits, a point and an exponent, nor any other number.
    #[error("not a decimal number")]
    NotANumber,
    /// Infinity, or a value that is no number.
    #[error("not a finite number")]
    NotFinite,
    /// Below zero.
    #[error("negative")]
    Negative,
    /// More digits than are kept.
    #[error("written with {digits} significant digits, more than {DIGITS_MAX}")]
    TooManyDigits {
        /// How many significant digits there are.
        digits: usize,
    },
    /// Above what a 64-bit mantissa holds.
    #[error("larger than {}", u64::MAX)]
    TooLarge,
    /// So small that not even the number of its zeros can be kept.
    #[error("smaller than 1e-{}", u32::MAX)]
    TooSmall,
}

impl FromStr for Fraction {
    type Err = FractionError;

    /// Reads the forms `0.5`, `.5`, `1`, `1.`, `+0.5`, `5e-1` and `1E3`, exactly.
    ///
    /// Zeros at either end do not count as significant digits; up to 19 others are kept.
    ///
    /// # Errors
    /// A [`FractionError`] that says what the text is instead.
    fn from_str(text: &str) -> Result<Self, FractionError> {
        let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
        if is_special(unsigned) {
            return Err(FractionError::NotFinite);
        }
        let (decimal, exponent) = match unsigned.split_once(['e', 'E']) {
            Some((decimal, exponent)) => (decimal, Some(exponent)),
            None => (unsigned, None),
        };
        let (whole, behind) = decimal.split_once('.').unwrap_or((decimal, ""));
        let all_digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
        if whole.len() + behind.len() == 0 || !all_digits(whole) || !all_digits(behind) {
            return Err(FractionError::NotANumber);
        }
        let exponent = exponent.map_or(Ok(0), parse_exponent)?;
        let digits = format!("{whole}{behind}");
        let leading_stripped = digits.trim_start_matches('0');
        let significant = leading_stripped.trim_end_matches('0');
        if significant.is_empty() {
            return Ok(Self::ZERO);
        }
        if text.starts_with('-') {
            return Err(FractionError::Negative);
        }
        if significant.len() > DIGITS_MAX {
            return Err(FractionError::TooManyDigits {
                digits: significant.len(),
            });
        }
        let mantissa = significant.parse().map_err(|_| FractionError::NotANumber)?;
        let zeros_behind = leading_stripped.len() - significant.len();
        let length = |count: usize| i64::try_from(count).unwrap_or(i64::MAX / 4);
        Self::with_exponent(
            mantissa,
            exponent + length(zeros_behind) - length(behind.len()),
        )
    }
}

impl Fraction {
    /// `mantissa x 10^exponent`, for a mantissa above 0.
    fn with_exponent(mantissa: u64, exponent: i64) -> Result<Self, FractionError> {
        if exponent <= 0 {
            let scale =
                u32::try_from(exponent.unsigned_abs()).map_err(|_| FractionError::TooSmall)?;
            return Ok(Self::new(mantissa, scale));
        }
        u32::try_from(exponent)
            .ok()
            .and_then(|exponent| 10_u64.checked_pow(exponent))
            .and_then(|power| mantissa.checked_mul(power))
            .map(|mantissa| Self::new(mantissa, 0))
            .ok_or(FractionError::TooLarge)
    }
}

/// Whether a text without its sign is one of the usual spellings of infinity or of no number.
fn is_special(unsigned: &str) -> bool {
    let bare = unsigned.strip_prefix('.').unwrap_or(unsigned);
    ["inf", "infinity", "nan"]
        .iter()
        .any(|special| bare.eq_ignore_ascii_case(special))
}

/// An exponent; one with more digits than matter is cut to an absurd but equally hopeless one.
fn parse_exponent(text: &str) -> Result<i64, FractionError> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(FractionError::NotANumber);
    }
    let absurd = i64::MAX / 4;
    let size = digits.parse::<i64>().unwrap_or(absurd).min(absurd);
    Ok(if text.starts_with('-') { -size } else { size })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fraction(text: &str) -> Fraction {
        text.parse()
            .unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    #[test]
    fn s5_1_fractions_are_exact_decimals() {
        assert_eq!(fraction("0.29").floor_of(100), 29);
        assert_eq!(fraction("0.57").floor_of(100), 57);
        assert_eq!(fraction("1.1").floor_of(10), 11);
        assert_eq!(fraction("16.0").floor_of(8_192), 131_072);
        assert_eq!(fraction("0.000001").floor_of(999_999), 0);
        assert_eq!(fraction("0.000001").floor_of(1_000_000), 1);
    }

    #[test]
    fn s5_3_ceilings_are_exact_decimals() {
        assert_eq!(fraction("0.07").ceil_of(100), 7);
        assert_eq!(fraction("0.5").ceil_of(3), 2);
        assert_eq!(fraction("1").ceil_of(3), 3);
        assert_eq!(fraction("0.1").ceil_of(0), 0);
        assert_eq!(fraction("0.1").ceil_of(1), 1);
    }

    #[test]
    fn every_written_form_of_a_number_is_the_same_value() {
        for text in [
            "0.5", ".5", "5e-1", "5E-1", "+0.50", "50e-2", "0.05e1", "00.500",
        ] {
            assert_eq!(fraction(text), Fraction::new(5, 1), "{text}");
        }
        for text in ["1000", "1E3", "1e+3", "1000.", "1000.0", "10e2", "0.001e6"] {
            assert_eq!(fraction(text), Fraction::new(1_000, 0), "{text}");
        }
        for text in [
            "0",
            "0.0",
            "-0",
            "-0.0",
            "0e99",
            "0e-99999999999999999999",
            ".0",
        ] {
            assert_eq!(fraction(text), Fraction::ZERO, "{text}");
        }
    }

    #[test]
    fn what_is_no_fraction_is_refused_with_its_reason() {
        use FractionError as E;
        let cases = [
            ("", E::NotANumber),
            (".", E::NotANumber),
            ("e5", E::NotANumber),
            ("1e", E::NotANumber),
            ("1e+", E::NotANumber),
            ("--1", E::NotANumber),
            ("+-1", E::NotANumber),
            ("1.2.3", E::NotANumber),
            ("1_000", E::NotANumber),
            ("0x10", E::NotANumber),
            ("1 ", E::NotANumber),
            ("half", E::NotANumber),
            ("\u{0661}", E::NotANumber),
            (".inf", E::NotFinite),
            ("-.INF", E::NotFinite),
            ("inf", E::NotFinite),
            (".nan", E::NotFinite),
            ("NaN", E::NotFinite),
            ("-0.5", E::Negative),
            ("-1e-400", E::Negative),
            ("0.12345678901234567891", E::TooManyDigits { digits: 20 }),
            ("1e30", E::TooLarge),
            ("1e99999999999999999999", E::TooLarge),
            ("1e-99999999999999999999", E::TooSmall),
        ];
        for (text, error) in cases {
            assert_eq!(text.parse::<Fraction>(), Err(error), "{text:?}");
        }
    }

    #[test]
    fn nineteen_digits_are_kept_wherever_the_point_stands() {
        assert_eq!(
            fraction("9999999999999999999").mantissa(),
            9_999_999_999_999_999_999
        );
        assert_eq!(fraction("0.0009999999999999999999").scale(), 22);
        assert_eq!(
            fraction("10000000000000000000").mantissa(),
            10_000_000_000_000_000_000
        );
    }

    #[test]
    fn no_scale_and_no_size_overflows() {
        for scale in [0, 1, 18, 19, 20, 37, 38, 39, 40, 1_000, u32::MAX] {
            let fraction = Fraction::new(u64::MAX, scale);
            let (floor, ceil) = (fraction.floor_of(u64::MAX), fraction.ceil_of(u64::MAX));
            assert!(
                ceil == floor || ceil == floor.saturating_add(1),
                "scale {scale}"
            );
            assert!(!fraction.to_string().is_empty());
            assert_eq!(
                fraction.cmp(&Fraction::ONE),
                if scale < 20 {
                    Ordering::Greater
                } else {
                    Ordering::Less
                }
            );
            assert_eq!(fraction.cmp(&fraction), Ordering::Equal);
        }
        assert_eq!(Fraction::new(u64::MAX, 0).ceil_of(u64::MAX), u64::MAX);
        assert_eq!(Fraction::new(1, u32::MAX).floor_of(u64::MAX), 0);
        assert_eq!(Fraction::new(1, u32::MAX).ceil_of(u64::MAX), 1);
        assert_eq!(Fraction::new(0, u32::MAX).ceil_of(u64::MAX), 0);
    }

    #[test]
    fn order_is_numeric() {
        let ascending = [
            "0", "1e-400", "1e-30", "0.29", "0.3", "1", "1.5", "15", "1e19",
        ];
        for (i, low) in ascending.iter().enumerate() {
            for (j, high) in ascending.iter().enumerate() {
                assert_eq!(
                    fraction(low).cmp(&fraction(high)),
                    i.cmp(&j),
                    "{low} against {high}"
                );
            }
        }
    }

    #[test]
    fn what_is_printed_reads_back_as_the_same_value() {
        for text in [
            "0",
            "1",
            "16",
            "0.5",
            "0.0625",
            "12.75",
            "1e-26",
            "0.0000000000000000000001",
        ] {
            let value = fraction(text);
            assert_eq!(fraction(&value.to_string()), value, "{text}");
        }
        assert_eq!(fraction("12.75").to_string(), "12.75");
        assert_eq!(fraction("5e-1").to_string(), "0.5");
        assert_eq!(fraction("1e-400").to_string(), "1e-400");
        assert_eq!(fraction("0.05").to_string(), "0.05");
    }
}
