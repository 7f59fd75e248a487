//! What a range holds, from the map alone: no data is read for it.

use oxblock::Volume;
use oxblock_nbd_proto::Extent;
use oxblock_nbd_proto::wire::{STATE_HOLE, STATE_ZERO};

/// Stretches of the map that one answer looks at. A stretch whose node is not at hand costs a read, and nobody is served
/// meanwhile; a client asks again from where the answer ends.
const LOOKS: u32 = 64;

/// What is in `len` bytes from `offset`, which is not empty: at least one extent, and none beyond the range. Only the first
/// one where `one` is set.
pub(crate) fn extents(volume: &mut Volume, offset: u64, len: u64, one: bool) -> Vec<Extent> {
    let (end, size) = (offset + len, volume.size());
    let mut extents = Extents(Vec::new());
    let mut at = offset;
    for _ in 0..LOOKS {
        if at >= end || (one && extents.0.len() > 1) {
            break;
        }
        let data = volume.next_data(at / 4096 * 4096);
        // Whether what is lost holds data nobody can tell; it does not read as zeroes.
        let (start, stop) = data.map_or((size, size), |data| (data.start, data.end));
        let (start, stop) = (start.clamp(at, end), stop.clamp(at, end));
        extents.add(start - at, STATE_HOLE | STATE_ZERO);
        extents.add(stop - start, 0);
        at = stop;
    }
    if one {
        extents.0.truncate(1);
    }
    extents.0
}

struct Extents(Vec<Extent>);

impl Extents {
    fn add(&mut self, len: u64, flags: u32) {
        match self.0.last_mut() {
            _ if len == 0 => {}
            Some(last) if last.flags == flags => last.len += len,
            _ => self.0.push(Extent { len, flags }),
        }
    }
}
