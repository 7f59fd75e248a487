//! Retirement: completed records are applied to the map in the order of the log, then their issuers are told.

use std::io;

#[cfg(feature = "canary")]
use crate::canary::{self, Canary};
use crate::complete::apply::{Progress, apply};
use crate::complete::policy::EndFacts;
use crate::device::Bufs;
use crate::format::record::Kind;
use crate::lane::Lane;
use crate::log::append::{Record, STREAM_DATA};

impl Lane {
    /// A record's device write is done.
    pub fn record_written(&mut self, sequence: u64, bufs: Bufs, result: io::Result<()>) {
        if let Err(error) = result {
            self.record_failed(sequence, bufs, error);
            return;
        }
        let Some(record) = self.log.record_mut(sequence) else {
            unreachable!("record {sequence} is not in the log")
        };
        record.written = true;
        record.bufs = bufs;
        let data = record.stream == STREAM_DATA;
        self.log.flying -= usize::from(data);
    }

    /// Applies what can be applied; true when something was.
    pub fn retire(&mut self) -> bool {
        let mut progressed = false;
        while self.log.records.front().is_some_and(|record| record.written) {
            if self.latched.is_some() {
                self.drop_unretired();
                return true;
            }
            let Some(mut record) = self.log.records.pop_front() else { break };
            if !self.apply_record(&mut record) {
                self.log.records.push_front(record);
                break;
            }
            progressed = true;
            let group = record.continues || !self.log.held.is_empty();
            let complete = !record.continues;
            #[cfg(feature = "canary")]
            let complete = complete || canary::is(Canary::SplitGroup);
            self.log.held.push_back(record);
            // An atomic group counts as a whole: recovery takes none of it while its end is missing, so until then
            // nobody hears of its beginning, and no flush is said to cover it.
            while complete && let Some(record) = self.log.held.pop_front() {
                self.finish_record(record, group);
            }
        }
        progressed
    }

    /// Applies one record as far as it goes; false when a node must come first.
    fn apply_record(&mut self, record: &mut Record) -> bool {
        let payload = record.payload(0);
        let mut progress = Progress { entries: record.applied, at: record.at, overtaken: 0 };
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
            self.counters.relocations_lost += std::mem::take(&mut progress.overtaken);
            let Err(miss) = result else { return true };
            if !self.fetches.is_lost(miss.key) {
                (record.applied, record.at) = (progress.entries, progress.at);
                if !self.fetches.flies(miss.key) {
                    self.count_cleared(&EndFacts { node_missing: true, ..EndFacts::default() });
                }
                self.fetch(miss, None);
                return false;
            }
            // The node that holds this entry cannot be had: the entry fails, and only this entry. If this record is
            // replayed, it fails again where the node is damaged. Where it could not be read, recovery tries it anew
            // and takes the entry in, or refuses to open; either will do for a write that has failed.
            let why = self.fetches.why_lost(miss.key);
            self.fail_entry(record, progress.entries, why);
            self.geometry.superblock.features.set_refused();
            progress.skip(record.kind, miss, &self.map);
        }
    }

    /// The record is applied, and so is its atomic group if it is of one: account for it and complete its writes.
    fn finish_record(&mut self, mut record: Record, group: bool) {
        assert_eq!(record.sequence, self.log.retired + 1, "retirement out of order");
        let was_durable = self.log.durable == self.log.retired;
        self.log.retired = record.sequence;
        self.trace_retired(record.sequence);
        self.log.soiling -= record.soils;
        if was_durable && ((record.durable && !group) || !self.geometry.limits.write_cache) {
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
            Kind::Relocate | Kind::Map => {
                if let (Some(payload), Some(rest)) = (bufs.next(), record.rest.take()) {
                    self.log.recycle_payload(payload, rest);
                }
            }
            Kind::Pad => {}
        }
        self.log.recycle(&mut record, header);
    }

    /// The lane is latched: records that were not applied never will be.
    fn drop_unretired(&mut self) {
        loop {
            let written = self.log.records.front().is_some_and(|record| record.written);
            let next = match self.log.held.pop_front() {
                None if written => self.log.records.pop_front(),
                held => held,
            };
            let Some(mut record) = next else { return };
            self.log.soiling -= record.soils;
            let mut bufs = std::mem::take(&mut record.bufs).into_iter().skip(1);
            for part in &record.parts {
                self.part_failed(part.write, bufs.next());
            }
        }
    }
}
