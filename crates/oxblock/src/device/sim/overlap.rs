//! What a read sees of writes that are in flight beside it: either version, sector by sector.

use super::device::sector_of;
use super::fault::Fault;
use super::machine::Machine;
use super::store::SECTOR;
use crate::device::{Action, Op};

impl Machine {
    /// Fills a read from the media, and, where writes are in flight, from those by chance. Of the
    /// sectors, one in `one_in` is looked at.
    pub(super) fn sample(&mut self, op: &mut Op, one_in: u64) {
        let Action::Read(bufs) = &mut op.action else { return };
        let Some(device) = self.devices.get(usize::from(op.device)) else { return };
        let rng = &mut self.chance.media;
        let mut offset = op.offset;
        for buf in bufs.iter_mut() {
            if one_in == 1 {
                device.media.store().read(offset, buf);
            } else {
                for (at, sector) in (offset..).step_by(SECTOR).zip(buf.chunks_mut(SECTOR)) {
                    if rng.below(one_in) == 0 {
                        device.media.store().read(at, sector);
                    }
                }
            }
            offset += buf.len() as u64;
        }
        if device.writes_in_flight == 0 {
            return;
        }
        let range = op.offset..offset;
        for flight in self.lanes.values().flat_map(|lane| lane.flights.values()) {
            let Action::Write { bufs: written, .. } = &flight.op.action else { continue };
            let from = flight.op.offset;
            if flight.op.device != op.device
                || from >= range.end
                || from + flight.op.action.bytes() <= range.start
                || matches!(
                    flight.fault,
                    Some(Fault::Fail(_) | Fault::Lost | Fault::Misdirected(_))
                )
            {
                continue;
            }
            // All of the write, none of it, or by the sector.
            let seen = rng.below(4);
            let sectors = bufs.iter_mut().flat_map(|buf| buf.chunks_mut(SECTOR));
            for (at, sector) in (range.start..).step_by(SECTOR).zip(sectors) {
                let look = seen == 0 || (seen > 1 && rng.below(2 * one_in) == 0);
                if let Some(bytes) = sector_of(written, from, at).filter(|_| look) {
                    sector.copy_from_slice(bytes);
                }
            }
        }
    }
}
