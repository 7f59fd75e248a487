//! Numbers in fio's short form: four figures and a prefix, such as `15.6MiB/s` or `2864k`.

use crate::num;

/// `number` with at most `width` characters of digits and point, then the prefix and `unit`.
/// Prefixes are binary (`Ki`) or decimal (`k`).
pub(super) fn short(number: f64, width: usize, binary: bool, unit: &str) -> String {
    let step = if binary { 1024.0 } else { 1000.0 };
    let (mut value, mut power) = (number, 0usize);
    while digits(value) > width && power < 5 {
        value /= step;
        power += 1;
    }
    let prefix = match (power, binary) {
        (0, _) => "",
        (1, false) => "k",
        (1, true) => "Ki",
        (2, false) => "M",
        (2, true) => "Mi",
        (3, false) => "G",
        (3, true) => "Gi",
        (4, false) => "T",
        (4, true) => "Ti",
        (_, false) => "P",
        (_, true) => "Pi",
    };
    let used = digits(value);
    if power == 0 {
        return format!("{}{unit}", num::floor(value));
    }
    // A decimal point and one decimal need two places.
    let decimals = if used + 1 >= width { 0 } else { width - used - 1 };
    format!("{value:.decimals$}{prefix}{unit}")
}

/// Digits of the integer part.
fn digits(value: f64) -> usize {
    num::floor(value).checked_ilog10().map_or(1, |log| log as usize + 1)
}

/// `value` binary and decimal, such as `26.7MiB/s (28.0MB/s)`.
pub(super) fn both(value: f64, unit: &str) -> String {
    format!("{} ({})", short(value, 4, true, unit), short(value, 4, false, unit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_forms_that_fio_prints() {
        let table = [
            (3998.0, false, "", "3998"),
            (16000.0, false, "", "16.0k"),
            (2_864_250.0, false, "", "2864k"),
            (10_922_666.0, false, "", "10.9M"),
            (11_731_968_000.0, true, "B/s", "10.9GiB/s"),
            (11_731_968_000.0, false, "B/s", "11.7GB/s"),
            (1_048_576.0, true, "B", "1024KiB"),
            (1_048_576.0, false, "B", "1049kB"),
            (4096.0, true, "B", "4096B"),
            (65536.0, true, "B", "64.0KiB"),
            (5_045_248_000.0, true, "B/s", "4812MiB/s"),
            (134_217_728.0, true, "B", "128MiB"),
        ];
        for (value, binary, unit, expected) in table {
            assert_eq!(short(value, 4, binary, unit), expected);
        }
        assert_eq!(short(3_709_300.0, 6, false, ""), "3709.3k");
        assert_eq!(both(1_048_576_000.0, "B/s"), "1000MiB/s (1049MB/s)");
    }
}
