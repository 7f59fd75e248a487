//! A sink that keeps a histogram of times for each stage and kind of request.

use std::collections::BTreeMap;

use super::{Event, Mark, Span, TraceSink};
use crate::stats::{Latency, Times};

/// Significant digits of the histograms: percentiles are within 0.1 %.
const DIGITS: u8 = 3;

/// How long each stage took, by kind of request; and bios, flushes, checkpoints and cleaning likewise.
#[derive(Debug, Default)]
pub struct StageTimes(BTreeMap<Span, Latency>);

impl StageTimes {
    /// The times of one kind of span; `None` when none has ended.
    pub fn of(&self, span: Span) -> Option<Times> {
        self.0.get(&span).map(Latency::times)
    }

    /// All spans of which any has ended, by group, in the order of reports.
    pub fn rows(&self) -> impl Iterator<Item = (Span, Times)> {
        Span::all().filter_map(|span| Some((span, self.of(span)?)))
    }
}

impl TraceSink for StageTimes {
    fn event(&mut self, event: &Event) {
        if event.mark == Mark::End {
            let latency = self.0.entry(event.span).or_insert_with(|| Latency::new(DIGITS));
            latency.record(event.at.saturating_sub(event.began));
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
    fn every_span_has_its_place_in_the_report_once() {
        let names: Vec<_> = Span::all().map(|span| (span.group(), span.name())).collect();
        let mut distinct = names.clone();
        distinct.sort_unstable();
        distinct.dedup();
        assert_eq!(distinct.len(), names.len());
    }
}
