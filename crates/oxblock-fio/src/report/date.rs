//! Dates as `ctime` prints them, in UTC: the report needs no time zone and so no library for it.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Since 1970.
pub(super) fn since_epoch(time: SystemTime) -> Duration {
    time.duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// Such as `Mon Nov 30 11:52:33 2026`.
pub(super) fn ctime(time: SystemTime) -> String {
    const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let seconds = since_epoch(time).as_secs();
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    let name = DAYS.iter().cycle().nth(crate::num::index(days % 7)).unwrap_or(&"");
    // Gregorian years by counting: a few hundred steps at most.
    let leap = |year: u64| {
        year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
    };
    let (mut year, mut day) = (1970, days);
    while day >= 365 + u64::from(leap(year)) && year < 9999 {
        day -= 365 + u64::from(leap(year));
        year += 1;
    }
    let mut month = "";
    let lengths = [31, 28 + u64::from(leap(year)), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    for (candidate, length) in MONTHS.iter().zip(lengths) {
        month = candidate;
        if day < length {
            break;
        }
        day -= length;
    }
    let (hour, minute) = (second / 3600, second / 60 % 60);
    format!("{name} {month} {:2} {hour:02}:{minute:02}:{:02} {year}", day + 1, second % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_dates() {
        let at = |seconds| ctime(UNIX_EPOCH + Duration::from_secs(seconds));
        assert_eq!(at(0), "Thu Jan  1 00:00:00 1970");
        assert_eq!(at(951_782_400), "Tue Feb 29 00:00:00 2000");
        assert_eq!(at(1_796_039_554), "Mon Nov 30 11:52:34 2026");
    }
}
