//! Retirement: completed records are applied to the map in the order of the log, then their issuers are told.

use crate::complete::apply::{Progress, apply};
use crate::device::{Bufs, Done};
use crate::format::record::Kind;
use crate::lane::{Lane, Waiter};
use crate::log::append::Record;

impl Lane {
    /// A record's device write is done.
    pub fn record_written(&mut self, sequence: u64, done: Done) {
        if let Err(error) = done.result {
            self.latch_io("writing the log", error);
        }
        if let Some(record) = self.log.record_mut(sequence) {
            record.written = true;
            record.bufs = done.bufs;
        }
    }

    /// Applies what can be applied; true when something was.
    pub fn retire(&mut self) -> bool {
        let mut progressed = false;
        while self.log.records.front().is_some_and(|record| record.written) {
            if self.latched.is_some() {
                self.drop_unretired();
                return true;
            }
            // Applying a record may dirty as many nodes as it has leaves; it is not begun unless all have room.
            let begun = self.log.records.front().is_some_and(|r| r.applied > 0 || r.at > 0);
            if !begun && self.map.stats().dirty >= self.map.dirty_limit() {
                break;
            }
            let Some(mut record) = self.log.records.pop_front() else { break };
            if !self.apply_record(&mut record) {
                self.log.records.push_front(record);
                break;
            }
            self.finish_record(record);
            progressed = true;
        }
        progressed
    }

    /// Applies one record as far as it goes; false when a node must come first.
    fn apply_record(&mut self, record: &mut Record) -> bool {
        let payload = record.payload(0);
        let mut progress = Progress { entries: record.applied, at: record.at };
        loop {
            let entries = &record.entries;
            let result = apply(
                record.kind,
                entries,
                payload,
                &mut progress,
                &mut self.map,
                &mut self.segments,
            );
            let Err(miss) = result else { return true };
            if !self.fetches.is_lost(miss.key) {
                (record.applied, record.at) = (progress.entries, progress.at);
                self.fetch(miss, Waiter::Loop);
                return false;
            }
            // The node that holds this entry is damaged beyond repair: the entry fails, and only this entry. For
            // recovery it fails in the same way.
            self.fail_entry(record, progress.entries);
            progress.entries += 1;
            progress.at = 0;
        }
    }

    /// The record is applied: account for it and complete its writes.
    fn finish_record(&mut self, mut record: Record) {
        assert_eq!(record.sequence, self.log.retired + 1, "retirement out of order");
        let was_durable = self.log.durable == self.log.retired;
        self.log.retired = record.sequence;
        self.log.within_group = record.continues;
        if was_durable && (record.durable || !self.geometry.limits.write_cache) {
            self.log.durable = record.sequence;
        }
        let mut bufs = std::mem::take(&mut record.bufs).into_iter();
        let header = bufs.next();
        match record.kind {
            Kind::Data => {
                for (part, buf) in record.parts.iter().zip(bufs) {
                    self.part_retired(part.write, Some(buf), record.sequence);
                }
            }
            Kind::Trim | Kind::Zero => {
                for part in &record.parts {
                    self.part_retired(part.write, None, record.sequence);
                }
            }
            Kind::Relocate => self.relocated(bufs.collect::<Bufs>()),
            Kind::Map | Kind::Pad => {}
        }
        self.log.recycle(&mut record, header);
    }

    /// The lane is latched: records that were not applied never will be.
    fn drop_unretired(&mut self) {
        while self.log.records.front().is_some_and(|record| record.written) {
            let Some(mut record) = self.log.records.pop_front() else { return };
            let mut bufs = std::mem::take(&mut record.bufs).into_iter().skip(1);
            for part in &record.parts {
                self.part_failed(part.write, bufs.next());
            }
        }
    }
}
