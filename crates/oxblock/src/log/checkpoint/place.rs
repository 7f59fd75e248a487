//! Placing: the frozen nodes of the map, then the changed blocks of the segment table, go to the log.

use zerocopy::IntoBytes;

use super::{Frozen, Stage};
use crate::device::{Buf, Bufs};
use crate::error::{Error, ErrorKind};
use crate::format::layout::{BLOCK_SIZE, MAX_RECORD_HEADER, MAX_RECORD_PAYLOAD};
use crate::format::pointer::{Pointer, identity};
use crate::format::record::{Entry, Kind, header_blocks};
use crate::lane::Lane;
use crate::log::append::{Draft, STREAM_MAP};

/// Map records of a checkpoint in flight at once, so that requests are not crowded out.
const MAP_RECORDS: usize = 4;

impl Lane {
    /// Sends the next records of nodes, then the table.
    pub(super) fn place_some(&mut self, mut frozen: Frozen) -> bool {
        let mut any = false;
        loop {
            if self.log.elsewhere.holds() {
                break;
            }
            let flying = self.log.records.iter().filter(|r| r.stream == STREAM_MAP).count();
            if flying >= MAP_RECORDS {
                break;
            }
            if self.map.unplaced() == 0 {
                if self.place_table(&mut frozen).is_none() {
                    self.out_of_space();
                    return any;
                }
                self.point.stage = Stage::Settling(frozen);
                return true;
            }
            match self.place_nodes() {
                Some(sequence) => frozen.wrote(sequence),
                None => {
                    self.out_of_space();
                    return any;
                }
            }
            any = true;
        }
        self.point.stage = Stage::Placing(frozen);
        any
    }

    /// The reserve that is kept for checkpoints was not enough, which is a fault of the accounting: stop before anything
    /// is lost. The previous checkpoint and the log stand.
    fn out_of_space(&mut self) {
        self.latched = Some(Error::new(
            ErrorKind::NoSpace,
            "no segment is left for a checkpoint; the volume takes no more writes until it is reopened",
        ));
    }

    /// Puts one record of map nodes into the log.
    fn place_nodes(&mut self) -> Option<u64> {
        let fit = self.prepare(STREAM_MAP, Kind::Map, 0)?;
        let count = fit.min(self.map.unplaced());
        let first = self.next_payload(STREAM_MAP, count);
        let (mut payload, rest) = self.map_payload(count);
        let mut entries = self.log.entries();
        for (addr, out) in (first..).zip(payload.chunks_exact_mut(BLOCK_SIZE)) {
            let csum = &self.geometry.csum;
            let placed = self.map.place(addr, out, &mut |id, data| csum.of(id, data));
            let Some(placed) = placed else { unreachable!("a node to place is missing") };
            self.segments.placed(placed.old, addr, placed.alive);
            entries.push(Entry { id: placed.key.identity(), csum: placed.csum, aux: 0 });
        }
        Some(self.append_map(entries, payload, rest))
    }

    /// Address that the first of `count` payload blocks of the stream's next record will have.
    fn next_payload(&self, stream: u8, count: usize) -> u64 {
        let Some(segment) = self.log.head(stream) else {
            unreachable!("stream {stream} has no segment")
        };
        let header = header_blocks(Kind::Map, count, self.geometry.width) as u64;
        self.segments.addr(segment, self.segments.at(segment).written) + header
    }

    /// Memory for `count` nodes, and what it was cut from.
    fn map_payload(&mut self, count: usize) -> (Buf, Buf) {
        let mut payload = self.log.payload_buf();
        let rest = payload.split_off(count * BLOCK_SIZE);
        (payload, rest)
    }

    fn append_map(&mut self, entries: Vec<Entry>, payload: Buf, rest: Buf) -> u64 {
        self.counters.map_blocks += entries.len() as u64;
        let parts = self.log.parts();
        let payload: Bufs = smallvec::smallvec![payload];
        let (kind, stream) = (Kind::Map, STREAM_MAP);
        self.append(Draft {
            kind,
            stream,
            continues: false,
            durable: false,
            entries,
            parts,
            payload,
            rest: Some(rest),
            summing: None,
        })
    }

    /// Puts the changed blocks of the segment table into the log, and the pointers above them.
    fn place_table(&mut self, frozen: &mut Frozen) -> Option<()> {
        let opened: Vec<u32> = self.log.opened.iter().map(|opened| opened.segment).collect();
        self.segments.soil_frozen(&opened);
        let mut nodes = self.segments.take_frozen_dirty();
        // The table must name every segment that it is itself written into, so it goes into one, as a whole.
        let most = 2 * nodes.len() + usize::from(self.table.height()) * (MAX_RECORD_HEADER + 1);
        if (self.room(STREAM_MAP) as usize) < most {
            let id = self.open_next(STREAM_MAP)?;
            self.segments.soil_frozen(&[id]);
            nodes.extend(self.segments.take_frozen_dirty());
            nodes.sort_unstable();
            nodes.dedup();
        }
        for level in 0..self.table.height() {
            for some in nodes.chunks(MAX_RECORD_PAYLOAD) {
                let mut some = some;
                while !some.is_empty() {
                    let fit = self.prepare(STREAM_MAP, Kind::Map, 0)?;
                    let (now, later) = some.split_at(fit.min(some.len()));
                    frozen.wrote(self.place_table_nodes(level, now));
                    some = later;
                }
            }
            nodes = self.table.parents(&nodes);
        }
        Some(())
    }

    fn place_table_nodes(&mut self, level: u8, nodes: &[u32]) -> u64 {
        let first = self.next_payload(STREAM_MAP, nodes.len());
        let (mut payload, rest) = self.map_payload(nodes.len());
        let mut entries = self.log.entries();
        let places = (first..).zip(nodes);
        for ((addr, index), out) in places.zip(payload.chunks_exact_mut(BLOCK_SIZE)) {
            if level == 0 {
                let table = self.segments.table_entries(*index);
                out.fill(0);
                if let Some(target) = out.get_mut(..size_of_val(table.as_slice())) {
                    target.copy_from_slice(table.as_bytes());
                }
            } else {
                self.table.encode(level, *index, out);
            }
            let id = identity::node(true, level, u64::from(*index));
            let csum = self.geometry.csum.of(id, out);
            let old = self.table.set(level, *index as usize, Pointer { addr, csum });
            self.segments.table_moved(old.addr, addr);
            entries.push(Entry { id, csum, aux: 0 });
        }
        self.append_map(entries, payload, rest)
    }
}
