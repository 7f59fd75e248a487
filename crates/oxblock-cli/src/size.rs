//! Sizes as people write and read them.
//!
//! Units are powers of 1024, as in every storage tool that this one works beside: `4K` is 4096 bytes, `K` and `KiB`
//! mean the same. Decimal units (`KB`) are refused rather than guessed at.

/// The unit letters, each 1024 times the one before it.
const UNITS: [(char, u32); 6] = [('K', 10), ('M', 20), ('G', 30), ('T', 40), ('P', 50), ('E', 60)];

/// A size in bytes from `4096`, `4K`, `1M`, `10G`, `1.5T` or `4KiB`. A fraction that does not come out whole is cut to
/// whole blocks of 4096 bytes, and refused where that would leave none.
///
/// # Errors
/// A sentence that says what is wrong with `text`.
pub fn parse(text: &str) -> Result<u64, String> {
    let bad =
        || format!("'{text}' is not a size (write bytes, or a number with K, M, G, T, P or E)");
    let trimmed = text.trim();
    let end = trimmed.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(trimmed.len());
    let (number, unit) = trimmed.split_at_checked(end).ok_or_else(bad)?;
    let shift = shift_of(unit.trim()).ok_or_else(bad)?;
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() || (number.contains('.') && fraction.is_empty()) || fraction.len() > 15 {
        return Err(bad());
    }
    let too_large = || format!("'{text}' is too large a size");
    let whole: u128 = whole.parse().map_err(|_| too_large())?;
    let mut bytes = whole.checked_shl(shift).filter(|bytes| bytes >> shift == whole);
    if !fraction.is_empty() {
        let digits = u32::try_from(fraction.len()).map_err(|_| bad())?;
        let parts: u128 = fraction.parse().map_err(|_| bad())?;
        let scale = 10_u128.pow(digits);
        let scaled = parts << shift;
        let exact = scaled.is_multiple_of(scale);
        bytes = bytes.and_then(|bytes| bytes.checked_add(scaled / scale));
        if !exact {
            bytes = bytes.map(|bytes| bytes & !4095);
            if shift == 0 || bytes == Some(0) {
                return Err(format!("'{text}' is not a whole number of bytes"));
            }
        }
    }
    bytes.and_then(|bytes| u64::try_from(bytes).ok()).ok_or_else(too_large)
}

/// The power of two that a unit stands for.
fn shift_of(unit: &str) -> Option<u32> {
    let mut letters = unit.chars();
    let first = match letters.next() {
        None => return Some(0),
        Some(letter) => letter.to_ascii_uppercase(),
    };
    let rest = letters.as_str();
    if first == 'B' && rest.is_empty() {
        return Some(0);
    }
    let (_, shift) = UNITS.into_iter().find(|(letter, _)| *letter == first)?;
    (rest.is_empty() || rest.eq_ignore_ascii_case("ib")).then_some(shift)
}

/// `bytes` to read at a glance: `4 KiB`, `1.5 GiB`, `512 B`. Three digits or so: not for arithmetic.
pub fn human(bytes: u64) -> String {
    let Some((letter, shift)) = UNITS.into_iter().rev().find(|(_, shift)| bytes >= 1_u64 << shift)
    else {
        return format!("{bytes} B");
    };
    // Hundredths, rounded down, so that what is shown is never more than what is there.
    let hundredths = (u128::from(bytes) * 100) >> shift;
    let (whole, rest) = (hundredths / 100, hundredths % 100);
    match rest {
        0 => format!("{whole} {letter}iB"),
        _ if whole >= 100 => format!("{whole} {letter}iB"),
        _ if rest % 10 == 0 || whole >= 10 => format!("{whole}.{} {letter}iB", rest / 10),
        _ => format!("{whole}.{rest:02} {letter}iB"),
    }
}

/// `bytes` both ways: `1.5 GiB (1610612736 bytes)`.
pub fn both(bytes: u64) -> String {
    format!("{} ({bytes} bytes)", human(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_in_every_unit() {
        for (text, bytes) in [
            ("0", 0),
            ("4096", 4096),
            ("512B", 512),
            ("4K", 4096),
            ("4k", 4096),
            ("4KiB", 4096),
            (" 1 M ", 1 << 20),
            ("10G", 10 << 30),
            ("1.5T", 3 << 39),
            ("0.5K", 512),
            ("15E", 15 << 60),
            // 1181116006.4 bytes, cut to whole blocks.
            ("1.1G", 1_181_114_368),
            ("4.1K", 4096),
        ] {
            assert_eq!(parse(text), Ok(bytes), "{text}");
        }
    }

    #[test]
    fn what_is_not_a_size_is_refused_with_its_text() {
        for text in [
            "", "G", "x", "1X", "1KB", "-1", "1.", ".5G", "1..5G", "1.5.5G", "1e9", "4 K K",
            "0.3B", "5000.5", "1,5G", "1.1K", "3.9K", "0.0001M",
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(&format!("'{text}'")), "{text}: {error}");
        }
        for text in ["16E", "99999999999999999999", "999999999999999999999999999999999999999999G"] {
            assert!(parse(text).unwrap_err().contains("too large"), "{text}");
        }
    }

    #[test]
    fn sizes_to_read() {
        for (bytes, text) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1 KiB"),
            (1536, "1.5 KiB"),
            (1_290_000_000, "1.2 GiB"),
            (1_181_114_368, "1.09 GiB"),
            (15 << 20, "15 MiB"),
            (u64::MAX, "15.9 EiB"),
            (1000 << 30, "1000 GiB"),
        ] {
            assert_eq!(human(bytes), text, "{bytes}");
        }
        assert_eq!(both(4096), "4 KiB (4096 bytes)");
    }
}
