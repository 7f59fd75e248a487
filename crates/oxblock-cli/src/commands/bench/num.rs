//! Conversions between counts and figures; all of them saturate.

/// A count as a figure, exact up to 2^53.
#[expect(clippy::cast_precision_loss, reason = "figures need no more than 53 bits")]
pub fn float(count: u64) -> f64 {
    count as f64
}

/// A figure without its fraction; negative is 0.
#[expect(clippy::cast_possible_truncation, reason = "`as` from float to integer saturates")]
#[expect(clippy::cast_sign_loss, reason = "`as` from float to integer saturates")]
pub fn whole(figure: f64) -> u64 {
    figure.round() as u64
}

/// `part` in percent of `all`; 0 of nothing.
pub fn percent(part: u64, all: u64) -> f64 {
    if all == 0 { 0.0 } else { 100.0 * float(part) / float(all) }
}
