//! A sink that keeps a histogram of times for each stage and kind of request.

use std::collections::BTreeMap;

use hdrhistogram::Histogram;

use super::{Event, Mark, Span, TraceSink};

/// What one span took, over all that ended; nanoseconds. Percentiles are within 0.1 %, the rest is exact.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Times {
    /// How many ended.
    pub count: u64,
    /// The shortest.
    pub min: u64,
    /// The mean, rounded down.
    pub mean: u64,
    /// Half of them took at most this.
    pub p50: u64,
    /// Nine of ten.
    pub p90: u64,
    /// 99 of 100.
    pub p99: u64,
    /// 999 of 1000.
    pub p999: u64,
    /// The longest.
    pub max: u64,
}

impl Times {
    /// Names and values, in order, for output.
    pub fn named(&self) -> [(&'static str, u64); 8] {
        [
            ("count", self.count),
            ("min", self.min),
            ("mean", self.mean),
            ("p50", self.p50),
            ("p90", self.p90),
            ("p99", self.p99),
            ("p99.9", self.p999),
            ("max", self.max),
        ]
    }
}

/// The times of one kind of span.
#[derive(Debug)]
struct Measured {
    histogram: Histogram<u64>,
    sum: u128,
    min: u64,
    max: u64,
}

/// Significant digits of the histograms.
const DIGITS: u8 = 3;

/// What takes longer counts as this for percentiles: an hour, in nanoseconds.
const LONGEST: u64 = 3_600_000_000_000;

impl Measured {
    fn new() -> Self {
        let Ok(histogram) = Histogram::new_with_max(LONGEST, DIGITS) else {
            unreachable!("{DIGITS} digits are within what a histogram takes")
        };
        Self { histogram, sum: 0, min: u64::MAX, max: 0 }
    }

    fn record(&mut self, time: u64) {
        self.histogram.saturating_record(time);
        self.sum += u128::from(time);
        self.min = self.min.min(time);
        self.max = self.max.max(time);
    }

    fn times(&self) -> Times {
        let count = self.histogram.len();
        let mean = self.sum / u128::from(count.max(1));
        // A bucket is named by its upper end, which may be above everything in it.
        let at = |quantile| self.histogram.value_at_quantile(quantile).clamp(self.min, self.max);
        Times {
            count,
            min: self.min,
            mean: u64::try_from(mean).unwrap_or(u64::MAX),
            p50: at(0.5),
            p90: at(0.9),
            p99: at(0.99),
            p999: at(0.999),
            max: self.max,
        }
    }
}

/// How long each stage took, by kind of request; and bios, flushes, checkpoints and cleaning likewise.
#[derive(Debug, Default)]
pub struct StageTimes(BTreeMap<Span, Measured>);

impl StageTimes {
    /// The times of one kind of span; `None` when none has ended.
    pub fn of(&self, span: Span) -> Option<Times> {
        self.0.get(&span).map(Measured::times)
    }

    /// All spans of which any has ended, by group, in the order of reports.
    pub fn rows(&self) -> impl Iterator<Item = (Span, Times)> {
        Span::all().filter_map(|span| Some((span, self.of(span)?)))
    }
}

impl TraceSink for StageTimes {
    fn event(&mut self, event: &Event) {
        if event.mark == Mark::End {
            let measured = self.0.entry(event.span).or_insert_with(Measured::new);
            measured.record(event.at.saturating_sub(event.began));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_of_what_was_recorded() {
        let mut stages = StageTimes::default();
        for time in 1..=1000 {
            let event = Event {
                at: 5_000 + time,
                mark: Mark::End,
                began: 5_000,
                span: Span::Flush,
                id: time,
                part: 0,
                bytes: 0,
                bio: 0,
            };
            stages.event(&event);
            stages.event(&Event { mark: Mark::Begin, ..event });
        }
        let times = stages.of(Span::Flush).unwrap();
        assert_eq!((times.count, times.min, times.mean, times.max), (1000, 1, 500, 1000));
        assert_eq!((times.p50, times.p90, times.p99, times.p999), (500, 900, 990, 999));
        assert_eq!(stages.rows().count(), 1);
    }

    #[test]
    fn long_times_are_told_from_short_ones() {
        let mut measured = Measured::new();
        for time in [1_000, 5_000_000, 60_000_000_000] {
            measured.record(time);
        }
        let times = measured.times();
        assert!(times.p50.abs_diff(5_000_000) <= 5_000, "{times:?}");
        assert_eq!((times.p999, times.max), (60_000_000_000, 60_000_000_000));
    }

    #[test]
    fn every_span_has_its_place_in_the_report_once() {
        let names: Vec<_> = Span::all().map(|span| (span.group(), span.name())).collect();
        let mut distinct = names.clone();
        distinct.sort_unstable();
        distinct.dedup();
        assert_eq!(distinct.len(), names.len());
    }
}
