//! What the segment table and the superblock count, against what the map holds.

use super::Check;
use super::report::{Finding, FindingKind};
use crate::log::segments::State;
use crate::profile;

impl Check<'_, '_> {
    /// Compares the counts. With lost nodes nobody can tell what lives where, so then only what cannot be is told.
    pub(super) fn counts(&mut self, log_is_sound: bool) {
        let whole = self.lost.is_empty();
        if !whole {
            self.report.notes.push(format!(
                "live blocks cannot be counted exactly, since {} map nodes are lost",
                self.lost.len()
            ));
        }
        let mut findings = Vec::new();
        for (id, segment) in self.lane.segments.iter() {
            let found = self.live.get(id as usize).copied().unwrap_or(0);
            let addr = self.lane.segments.addr(id, 0);
            let offset = profile::locate(&self.lane.geometry.superblock, addr).1;
            let unused = matches!(segment.state, State::Free | State::Reserved);
            if unused && found > 0 {
                if !log_is_sound {
                    // Records of the checkpoint itself that were not replayed; opening after that leaves them alone.
                    continue;
                }
                let meaning = format!(
                    "{found} live blocks are in segment {id}, which counts as free and may be overwritten; export \
                     the volume and do not write to it"
                );
                findings.push(Finding::new(FindingKind::Reference, meaning).at(offset));
            } else if found > segment.live || (whole && found != segment.live) {
                let harm = if found > segment.live {
                    "it may be reused too early; export the volume and do not write to it"
                } else {
                    "its space is not won back"
                };
                let meaning = format!("the table's count of segment {id} is wrong: {harm}");
                let finding = Finding::new(FindingKind::LiveCount, meaning).at(offset);
                findings.push(finding.values(u128::from(segment.live), Some(u128::from(found))));
            }
        }
        let used = self.lane.map.mapped();
        if whole && used != self.mapped {
            let meaning = "the count of used blocks is wrong; what 'info' shows as used is off";
            let finding = Finding::new(FindingKind::UsedCount, meaning);
            findings.push(finding.values(u128::from(used), Some(u128::from(self.mapped))));
        }
        for finding in findings {
            self.report.add(finding);
        }
    }

    /// Blocks of the segment table that lie behind the end of what was written of their segment.
    pub(super) fn find_beyond(&mut self) {
        for addr in self.lane.table.addresses() {
            let id = self.lane.segments.of(addr);
            if self.lane.segments.offset(addr) >= self.lane.segments.at(id).written {
                *self.beyond.entry(id).or_default() += 1;
            }
        }
    }

    /// Nothing live may lie behind the end of an open segment: the next record would overwrite it.
    pub(super) fn ends(&mut self) {
        self.find_beyond();
        for (id, found) in std::mem::take(&mut self.beyond) {
            let segment = self.lane.segments.at(id);
            if segment.state != State::Open {
                continue;
            }
            let addr = self.lane.segments.addr(id, segment.written);
            let meaning = format!(
                "{found} live blocks of segment {id} lie behind its end, where the next records go; export the volume \
                 and do not write to it"
            );
            let offset = profile::locate(&self.lane.geometry.superblock, addr).1;
            self.report.add(Finding::new(FindingKind::Reference, meaning).at(offset));
        }
    }
}
