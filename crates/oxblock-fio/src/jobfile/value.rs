//! The values of options: sizes, times, percentages, flags.
//!
//! Units are fio's under its default `kb_base=1024`: `k`, `kb` and `ki` are 1024 and `kib` is
//! 1000 (old job files depend on it). Every function returns a sentence, not an error type: the
//! caller knows option and line.

use crate::num;

/// A size that is absolute or relative to the target.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Amount {
    /// Bytes.
    Bytes(u64),
    /// Percent of the target's size, 0 to 100.
    Percent(f64),
}

impl Amount {
    /// In bytes, where `whole` bytes are 100 %.
    pub fn resolve(self, whole: u64) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Percent(percent) => num::floor(num::float(whole) / 100.0 * percent),
        }
    }
}

/// A whole number, decimal or `0x` hexadecimal, without unit.
pub(super) fn integer(text: &str) -> Result<u64, String> {
    let parsed = match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(hex) => u64::from_str_radix(hex, 16),
        None => text.parse(),
    };
    parsed.map_err(|_| format!("'{text}' is not a whole number"))
}

/// Digits and the unit behind them, lower case.
fn split_unit(text: &str) -> (&str, String) {
    let hex = text.starts_with("0x") || text.starts_with("0X");
    let end = text
        .char_indices()
        .find(|(at, c)| !(c.is_ascii_digit() || (hex && (*at == 1 || c.is_ascii_hexdigit()))))
        .map_or(text.len(), |(at, _)| at);
    let (digits, unit) = text.split_at_checked(end).unwrap_or((text, ""));
    (digits, unit.trim().to_ascii_lowercase())
}

/// Bytes, with an optional unit.
pub(super) fn size(text: &str) -> Result<u64, String> {
    let (digits, unit) = split_unit(text);
    let (power, base) = match unit.as_str() {
        "" | "b" => (0, 1024),
        "k" | "kb" | "ki" => (1, 1024),
        "m" | "mb" | "mi" => (2, 1024),
        "g" | "gb" | "gi" => (3, 1024),
        "t" | "tb" | "ti" => (4, 1024),
        "p" | "pb" | "pi" => (5, 1024),
        "kib" => (1, 1000),
        "mib" => (2, 1000),
        "gib" => (3, 1000),
        "tib" => (4, 1000),
        "pib" => (5, 1000),
        _ => return Err(format!("'{text}' is not a size (units: k, m, g, t, p)")),
    };
    integer(digits)
        .map_err(|_| format!("'{text}' is not a size"))?
        .checked_mul(u64::pow(base, power))
        .ok_or_else(|| format!("'{text}' does not fit 64 bits"))
}

/// Bytes or a percentage.
pub(super) fn amount(text: &str) -> Result<Amount, String> {
    match text.strip_suffix('%') {
        Some(number) => Ok(Amount::Percent(decimal(number.trim(), 0.0, 100.0)?)),
        None => Ok(Amount::Bytes(size(text)?)),
    }
}

/// A decimal number within bounds.
pub(super) fn decimal(text: &str, min: f64, max: f64) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if (min..=max).contains(&value) => Ok(value),
        Ok(_) => Err(format!("'{text}' is not within {min} to {max}")),
        Err(_) => Err(format!("'{text}' is not a number")),
    }
}

/// Values for reads, writes and trims from a comma list: a lone one is for all of them, the last of
/// two is for writes and trims, an empty one leaves what was there.
pub(super) fn triple<T>(
    text: &str,
    into: &mut [T; 3],
    one: impl Fn(&str) -> Result<T, String>,
) -> Result<(), String> {
    let parts: Vec<&str> = text.split(',').map(str::trim).collect();
    if parts.len() > 3 {
        return Err("at most three values: reads, writes, trims".into());
    }
    for (direction, slot) in into.iter_mut().enumerate() {
        let part = parts.get(direction).or(parts.last()).copied().unwrap_or_default();
        if !part.is_empty() {
            *slot = one(part)?;
        }
    }
    Ok(())
}

/// What a time without a unit is counted in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TimeUnit {
    Seconds,
    Microseconds,
}

/// A time in nanoseconds.
pub(super) fn time(text: &str, default: TimeUnit) -> Result<u64, String> {
    let (digits, unit) = split_unit(text);
    let factor: u64 = match (unit.as_str(), default) {
        ("", TimeUnit::Seconds) | ("s" | "sec", _) => 1_000_000_000,
        ("", TimeUnit::Microseconds) | ("us" | "usec", _) => 1_000,
        ("ms" | "msec", _) => 1_000_000,
        ("m", _) => 60_000_000_000,
        ("h", _) => 3_600_000_000_000,
        ("d", _) => 86_400_000_000_000,
        _ => return Err(format!("'{text}' is not a time (units: us, ms, s, m, h, d)")),
    };
    integer(digits)
        .map_err(|_| format!("'{text}' is not a time"))?
        .checked_mul(factor)
        .ok_or_else(|| format!("'{text}' is too long a time"))
}

/// A flag: absent value and non-zero mean yes.
pub(super) fn flag(text: Option<&str>) -> Result<bool, String> {
    match text {
        None => Ok(true),
        Some("true" | "yes") => Ok(true),
        Some("false" | "no") => Ok(false),
        Some(text) => Ok(integer(text)? != 0),
    }
}

/// The elements of a CPU list such as `0,2-5`.
pub(super) fn cpus(text: &str) -> Result<Vec<usize>, String> {
    let limit = rustix::thread::CpuSet::MAX_CPU;
    let mut out = Vec::new();
    for part in text.split([',', ':']).map(str::trim).filter(|part| !part.is_empty()) {
        let (from, to) = part.split_once('-').unwrap_or((part, part));
        let (from, to) = (num::index(integer(from)?), num::index(integer(to)?));
        if from > to || to >= limit {
            return Err(format!("'{part}' is not a CPU range below {limit}"));
        }
        out.extend(from..=to);
    }
    out.sort_unstable();
    out.dedup();
    if out.is_empty() { Err("no CPU is named".into()) } else { Ok(out) }
}

/// Up to twenty percentiles, `a:b:c`, ascending.
pub(super) fn percentiles(text: &str) -> Result<Vec<f64>, String> {
    let mut list = text
        .split([':', ','])
        .map(|part| decimal(part.trim(), 0.0, 100.0))
        .collect::<Result<Vec<f64>, String>>()?;
    if list.len() > 20 {
        return Err("at most 20 percentiles".into());
    }
    list.sort_by(f64::total_cmp);
    list.dedup();
    Ok(list)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        let table = [
            ("0", 0),
            ("4096", 4096),
            ("4k", 4096),
            ("4K", 4096),
            ("4kb", 4096),
            ("4KiB", 4000),
            ("0x1000", 4096),
            ("0x10k", 16384),
            ("2m", 2 << 20),
            ("3g", 3 << 30),
            ("1t", 1 << 40),
        ];
        for (text, expected) in table {
            assert_eq!(size(text), Ok(expected), "{text}");
        }
        for text in ["", "k", "4x", "-1", "4 4", "99999999999999999999", "17000000t", "1.5k"] {
            assert!(size(text).is_err(), "{text}");
        }
    }

    #[test]
    fn times_have_the_unit_of_their_option() {
        assert_eq!(time("10", TimeUnit::Seconds), Ok(10_000_000_000));
        assert_eq!(time("10", TimeUnit::Microseconds), Ok(10_000));
        assert_eq!(time("5ms", TimeUnit::Seconds), Ok(5_000_000));
        assert_eq!(time("2m", TimeUnit::Microseconds), Ok(120_000_000_000));
        assert!(time("2w", TimeUnit::Seconds).is_err());
        assert!(time("1m30s", TimeUnit::Seconds).is_err());
    }

    #[test]
    fn amounts_flags_lists() {
        assert_eq!(amount("25%"), Ok(Amount::Percent(25.0)));
        assert_eq!(amount("25%").unwrap().resolve(4096), 1024);
        assert!(amount("101%").is_err());
        assert_eq!(flag(None), Ok(true));
        assert_eq!(flag(Some("0")), Ok(false));
        assert!(flag(Some("maybe")).is_err());
        assert_eq!(cpus("0,2-4"), Ok(vec![0, 2, 3, 4]));
        assert!(cpus("4-2").is_err());
        assert!(cpus("0-99999999").is_err());
        assert_eq!(percentiles("99:50"), Ok(vec![50.0, 99.0]));
    }
}
