//! Number conversions that say what happens at the edges: all of them saturate, none of them wrap.

/// A 64-bit count as an index; saturates where `usize` is narrower.
pub(crate) fn index(value: u64) -> usize {
    usize::try_from(value).unwrap_or(usize::MAX)
}

/// A 64-bit count as 32 bits, saturating.
pub(crate) fn narrow(value: u64) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
}

/// The integer part of a float; negative and NaN become 0, too large becomes `u64::MAX`.
#[expect(clippy::cast_possible_truncation, reason = "`as` from float to integer saturates")]
#[expect(clippy::cast_sign_loss, reason = "`as` from float to integer saturates")]
pub(crate) fn floor(value: f64) -> u64 {
    value as u64
}

/// A count as a float; exact up to 2^53.
#[expect(clippy::cast_precision_loss, reason = "statistics need no more than 53 bits")]
pub(crate) fn float(value: u64) -> f64 {
    value as f64
}

/// `value * numerator / denominator` without overflow; 0 for a zero denominator.
pub(crate) fn scale(value: u64, numerator: u64, denominator: u64) -> u64 {
    if denominator == 0 {
        return 0;
    }
    let wide = u128::from(value) * u128::from(numerator) / u128::from(denominator);
    u64::try_from(wide).unwrap_or(u64::MAX)
}

/// `100 * part / whole`, 0 for an empty whole.
pub(crate) fn percent(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { 100.0 * float(part) / float(whole) }
}
